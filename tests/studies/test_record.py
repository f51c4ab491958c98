"""What a run leaves behind: a strict JSON record, and checkpoints tied to one study."""

from __future__ import annotations

import errno
import json
from dataclasses import replace

import numpy as np
import pytest

from noiseworthy._json import strict_json
from noiseworthy.engines.records import Trajectory
from noiseworthy.engines.simulation import Checkpoint
from noiseworthy.errors import DataError, ResumeError
from noiseworthy.methods.fedsgd_dpc.bound import theory_bound
from noiseworthy.studies import checkpoints
from noiseworthy.studies.checkpoints import fingerprint, load_checkpoint, save_checkpoint
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.record import load_record, new_record, save_record, with_training
from noiseworthy.studies.training import Run
from noiseworthy.studies.typed_record import RunRecord
from noiseworthy.sweeps.compare import Cell, Comparison
from noiseworthy.sweeps.recorded import with_comparison

STUDY = parse_study(
    {
        "federation": {"sizes": [100, 200, 300]},
        "task": {"dimension": 4},
        "privacy": {"mechanism": "laplace", "epsilon": [1.0, 2.0, 3.0], "clip_norm": 1.0},
        "algorithm": {"rounds": 4, "clients_per_round": 2},
        "constants": {
            "smoothness": 1.0, "strong_convexity": 0.1, "gradient_bound": 1.0, "initial_distance_sq": 25.0,
            "heterogeneity": 0.5,
        },
    }
)  # fmt: skip


TRAINED = {
    "seeds": [0, 1], "rounds": [0, 4], "loss": [[1.0, 0.5]] * 2, "accuracy": [[0.5, 0.9]] * 2,
    "uploads": [[4, 4, 4]] * 2, "spent_epsilon": [[1.0, 2.0, 3.0]] * 2, "untrained_loss": 1.0, "seconds": 1.0,
    "assurance": "simulation",
}  # fmt: skip


@pytest.fixture(scope="module")
def decision():
    return decide(prepare(STUDY))


@pytest.fixture
def record(decision):
    return new_record(STUDY, decision, None, 4, name="sizes")


def test_the_name_of_a_file_that_is_no_utf_8_can_be_written(decision):
    assert new_record(STUDY, decision, None, 4, name="st\udcfcdy, Zürich")["name"] == r"st\udcfcdy, Zürich"
    assert strict_json({"name": ["st\udcfcdy, Zürich"]}) == {"name": [r"st\udcfcdy, Zürich"]}


def strictly(text):
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


# Record -------------------------------------------------------------------------------------------------


def test_a_record_survives_its_file(record, tmp_path):
    path = save_record(record, tmp_path / "deep" / "run")
    assert load_record(tmp_path / "deep" / "run") == record == strictly(path.read_text())
    assert [p.name for p in path.parent.iterdir()] == ["record.json"]


def test_a_record_repeats_the_study_it_was_made_from(record):
    again = parse_study(record["study"])
    assert again == STUDY


def test_curves_of_the_evidence_are_the_bound(record, decision):
    for curve in record["evidence"]["curves"]:
        b, rounds = int(curve["label"].removeprefix("b = ")), np.array(curve["x"])
        assert np.all(np.diff(rounds) > 0)
        expected = theory_bound(decision.plan.problem, decision.plan.constants).at(
            decision.plan.problem, rounds, b
        )
        np.testing.assert_allclose(curve["bound"], expected)
    assert [curve["label"] for curve in record["evidence"]["curves"]] == ["b = 2", "b = 1", "b = 3"]
    assert record["evidence"]["chosen"] == 4
    assert record["evidence"]["axis"] == "rounds T"


def test_training_is_recorded_with_what_each_client_spent_under_each_seed(record, decision):
    uploads = np.array([[3, 3, 2], [0, 3, 3]])
    run = Trajectory(np.array([0, 4]), np.array([[2.0, 1.0], [2.0, np.nan]]), np.full((2, 2), 0.5),
                     np.zeros((2, 4), np.float32), uploads)  # fmt: skip
    training = with_training(record, Run.of(run, [decision.plan] * 2), [7, 8], 1.5)["training"]
    np.testing.assert_allclose(training["spent_epsilon"], [[1.0, 2.0, 2.0], [0.0, 2.0, 3.0]])
    assert training["loss"] == [[2.0, 1.0], [2.0, None]]
    assert training["untrained_loss"] == 2.0
    assert training["assurance"] == "simulation"
    assert record["training"] is None


def test_a_comparison_is_recorded_with_its_lost_gain(record, tmp_path):
    planned = Cell({"rounds": 4, "clients_per_round": 2}, np.array([1.0, 1.2]), np.array([0.5, 0.7]))
    other = Cell({"rounds": 9, "clients_per_round": 1}, np.array([np.inf, 3.0]), np.array([np.nan, 0.1]))
    compared = with_comparison(record, Comparison(planned, (planned, other), 2.0, 7.5), [1, 2])
    assert compared["compare"]["search_epsilon"] == 7.5
    assert compared["compare"]["lost_gain"] == 0.0
    assert compared["compare"]["best"] == {"rounds": 4, "clients_per_round": 2}
    assert compared["compare"]["axes"] == ["rounds", "clients_per_round"]
    assert compared["compare"]["cells"][2]["rounds"] == 9
    assert [cell["planned"] for cell in compared["compare"]["cells"]] == [True, False, False]
    assert compared["compare"]["cells"][2]["loss"] == [None, 3.0]
    save_record(compared, tmp_path)


def test_json_holds_no_infinity():
    odd = {"a": [float("inf"), (float("nan"), 1)], "b": {"c": -float("inf")}, "d": None, "e": "x", "f": True}
    assert strict_json(odd) == {"a": [None, [None, 1]], "b": {"c": None}, "d": None, "e": "x", "f": True}


def test_a_folder_without_a_record_is_named(tmp_path):
    with pytest.raises(DataError, match=r"record\.json does not exist; give a folder that train"):
        load_record(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match=r"record\.json does not exist; give a folder that train"):
        load_record(tmp_path / "file")


@pytest.mark.parametrize(
    ("text", "says"), [("{", "damaged"), ("[]", "no record"), ("{}", "no record"), ("\xff", "damaged")]
)
def test_a_damaged_record_is_said_to_be_so(text, says, tmp_path):
    (tmp_path / "record.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=says):
        load_record(tmp_path)


def test_a_record_of_before_versions_is_read_in_the_layout_of_now(record, tmp_path):
    """Layout 1 stated no version, and had neither claims nor what was read of the records."""
    old = {key: part for key, part in record.items() if key not in ("record_version", "claim", "read_off")}
    (tmp_path / "record.json").write_text(json.dumps(old))
    again = load_record(tmp_path)
    assert again == {"record_version": 2, **old}
    typed = RunRecord.model_validate(again)
    assert (typed.claim, typed.read_off, typed.plan.rounds) == (None, [], record["plan"]["rounds"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda record: record | {"more": 1}, "more: extra inputs are not permitted"),
        (lambda record: record | {"study": {"task": None}}, "study.task: input should be a valid dict"),
        (lambda record: record | {"record_version": 3}, "record_version: input should be 2"),
        (lambda record: record | {"plan": record["plan"] | {"rounds": 4.5}}, "plan.rounds: input should be"),
        (lambda record: {k: v for k, v in record.items() if k != "training"}, "training: field required"),
        (lambda record: record | {"plan": record["plan"] | {"epsilon": 1}}, "plan.epsilon: extra inputs"),
        (
            lambda record: record | {"plan": record["plan"] | {"noise": [1.0]}},
            "value error, plan.noise must have an entry for each client, 3, got 1",
        ),
        (
            lambda record: record | {"plan": record["plan"] | {"releases": []}},
            "value error, plan.noise must have an entry for each client, 1, got 3",
        ),
        (
            lambda record: record | {"training": TRAINED | {"uploads": [[4, 4, 4]]}},
            "training: value error, uploads must have an entry for each seed, 2, got 1",
        ),
        (
            lambda record: record | {"training": TRAINED | {"loss": [[1.0], [1.0]]}},
            "training: value error, loss.0 must have an entry for each evaluation, 2, got 1",
        ),
        (
            lambda record: record | {"training": TRAINED | {"spent_epsilon": [[1.0, 2.0, 3.0], []]}},
            "value error, training.spent_epsilon.1 must have an entry for each client, 3, got 0",
        ),
        (
            lambda record: record | {"ledger": {"head": "", "releases": 1, "acknowledged": 1}},
            "ledger.head: string should match pattern",
        ),
    ],
)
def test_a_record_is_held_against_its_layout_when_it_is_written_and_read(change, said, record, tmp_path):
    odd = change(record)
    (tmp_path / "record.json").write_text(json.dumps(odd))
    with pytest.raises(DataError, match=f"is no record of a run .{said}"):
        load_record(tmp_path)
    with pytest.raises(ValueError, match="validation error"):
        save_record(odd, tmp_path)


def test_a_run_folder_that_is_a_file_is_refused(record, tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(DataError, match=r"taken cannot be written .* choose another with --out"):
        save_record(record, tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_kill_while_writing_leaves_the_last_record(record, tmp_path, monkeypatch):
    save_record(record, tmp_path)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        save_record({**record, "name": "newer"}, tmp_path)
    assert load_record(tmp_path)["name"] == "sizes"


# Checkpoints --------------------------------------------------------------------------------------------


def checkpoint(rounds):
    return Checkpoint(
        rounds, np.full((2, 4), rounds, np.float32), np.full((2, 3), rounds), np.arange(rounds + 1),
        np.ones((2, rounds + 1)), np.zeros((2, rounds + 1)),
    )  # fmt: skip


@pytest.fixture
def mark(decision):
    return fingerprint(decision.plan, [0, 1], "study")


def test_a_checkpoint_survives_its_file(mark, tmp_path):
    save_checkpoint(tmp_path / "run", checkpoint(3), mark)
    found = load_checkpoint(tmp_path / "run", mark)
    assert found.round == 3
    assert type(found.round) is int
    for ours, theirs in zip(found, checkpoint(3), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype


def test_every_part_of_a_run_is_in_its_fingerprint(decision):
    plan = decision.plan
    problem = plan.problem
    others = {
        "seeds": fingerprint(plan, [0, 2], "study"),
        "order of seeds": fingerprint(plan, [1, 0], "study"),
        "study": fingerprint(plan, [0, 1], "another"),
        "rounds": fingerprint(replace(plan, rounds=5), [0, 1], "study"),
        "clip": fingerprint(replace(plan, problem=replace(problem, clip_norm=2.0)), [0, 1], "study"),
        "sizes": fingerprint(
            replace(plan, problem=replace(problem, sizes=np.array([100, 200, 301]))), [0, 1], "study"
        ),
        "step": fingerprint(replace(plan, step=replace(plan.step, initial=0.5)), [0, 1], "study"),
        "same": fingerprint(plan, [0, 1], "study"),
    }
    assert len(set(others.values())) == len(others)
    assert others["same"] == fingerprint(decide(prepare(STUDY)).plan, (0, 1), "study")


def test_a_checkpoint_of_another_run_is_refused(mark, decision, tmp_path):
    save_checkpoint(tmp_path, checkpoint(2), mark)
    with pytest.raises(ResumeError, match=r"belongs to another study, plan or other seeds; choose .* --out"):
        load_checkpoint(tmp_path, fingerprint(decision.plan, [5, 6], "study"))


def test_a_folder_without_a_checkpoint_is_refused(mark, tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere", None):
        with pytest.raises(ResumeError, match=r"holds no checkpoint\.npz; train without --resume"):
            load_checkpoint(folder, mark)


@pytest.mark.parametrize("keep", [0, 1, 20, 200, 0.5, 0.9, 0.99])
def test_a_truncated_checkpoint_is_said_to_be_damaged(keep, mark, tmp_path):
    save_checkpoint(tmp_path, checkpoint(2), mark)
    path = tmp_path / checkpoints.FILE
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole)) if isinstance(keep, float) else keep])
    with pytest.raises(ResumeError, match="start anew without --resume in another folder"):
        load_checkpoint(tmp_path, mark)


@pytest.mark.parametrize("name", ["round", "theta", "used", "loss", "memory_00", "server_01"])
@pytest.mark.parametrize("change", [None, lambda array: np.atleast_1d(array)[..., :-1]])
def test_a_checkpoint_that_lacks_an_array_or_a_part_of_one_is_said_to_be_damaged(
    name, change, mark, tmp_path
):
    """It ended in a traceback."""
    kept = np.ones((2, 3), np.float32)
    save_checkpoint(tmp_path, checkpoint(2)._replace(memory=(kept,), server=(kept, kept)), mark)
    load_checkpoint(tmp_path, mark)
    with np.load(tmp_path / checkpoints.FILE) as archive:
        arrays = dict(archive)
    array = arrays.pop(name)
    np.savez(tmp_path / checkpoints.FILE, **arrays, **({} if change is None else {name: change(array)}))
    with pytest.raises(
        ResumeError, match=rf"is damaged \(not as it was written: {name}.*put a copy of it back"
    ):
        load_checkpoint(tmp_path, mark)


def test_a_flipped_byte_in_a_checkpoint_is_noticed(mark, tmp_path):
    save_checkpoint(tmp_path, checkpoint(2), mark)
    path = tmp_path / checkpoints.FILE
    damaged = bytearray(path.read_bytes())
    start = damaged.find(np.full((2, 4), 2, np.float32).tobytes())
    assert start > 0
    damaged[start] ^= 0xFF
    path.write_bytes(bytes(damaged))
    with pytest.raises(ResumeError, match="start anew without --resume"):
        load_checkpoint(tmp_path, mark)


def test_a_file_of_another_kind_is_no_checkpoint(mark, tmp_path):
    np.savez(tmp_path / checkpoints.FILE, theta=np.zeros(3))
    with pytest.raises(ResumeError, match="another study"):
        load_checkpoint(tmp_path, mark)


def test_a_kill_while_writing_leaves_the_last_checkpoint(mark, tmp_path, monkeypatch):
    save_checkpoint(tmp_path, checkpoint(2), mark)

    def killed(file, **arrays):
        file.write(b"PK\x03\x04 half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", killed)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(tmp_path, checkpoint(3), mark)
    assert load_checkpoint(tmp_path, mark).round == 2


def test_a_disk_that_is_full_is_told_with_the_checkpoint(mark, tmp_path, monkeypatch):
    """It named no file: `what is written to cannot be used`."""

    def full(file, **arrays):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(DataError, match=r"checkpoint\.npz cannot be written .*No space left.*--resume"):
        save_checkpoint(tmp_path, checkpoint(3), mark)
