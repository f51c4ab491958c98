"""A run folder of another study, or one in which a command is at work, is refused and left as it is."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from noiseworthy.errors import DataError, ResumeError
from noiseworthy.studies import studies
from noiseworthy.studies.checkpoints import FILE, load_checkpoint
from noiseworthy.studies.loading import load_study
from noiseworthy.studies.occupied import check_ours, held
from noiseworthy.studies.occupied import made_for as tables_of
from noiseworthy.studies.plan_file import planned
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.record import beside_kept, load_record

STUDY = {
    "federation": {"data": "own.csv"},
    "privacy": {"mechanism": "gaussian", "epsilon": 5.0, "delta": 1e-5, "clip_norm": 1.0},
    "algorithm": {
        "rounds": 2, "clients_per_round": 1, "step_size": 0.1, "momentum": 0.0, "averaging": 0.0,
        "weighting": 0.0,
    },
}  # fmt: skip
DPFL = {"name": "dpfl-bcs", "weighting": None}
RESOURCES = {"cost_per_round": 1.0, "budget": 10.0}


@pytest.fixture
def begun(run, write, site_records, tmp_path) -> Path:
    """The study's folder with what a training leaves: the plan, a record and a checkpoint."""
    site_records("csv")
    made = planned(prepare(load_study(write(STUDY))))
    folder = tmp_path / "runs" / "study"
    made.file.save(folder)
    (folder / "record.json").write_text(json.dumps(made.record("study") | {"training": {"seeds": [0]}}))
    (folder / FILE).write_bytes(b"kept")
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


COMMANDS = {
    "train": ({"privacy": {"epsilon": 6.0}}, "study.privacy.epsilon is 5.0 and not 6.0"),
    "compare": ({"algorithm": {"rounds": 3}}, "study.algorithm.rounds is 2 and not 3"),
    "tradeoff": ({"privacy": {"delta": 1e-6}, "resources": RESOURCES}, "study.privacy.delta is 1e-05"),
    "rivals": ({"algorithm": DPFL}, "study.algorithm."),
    "audit": ({"privacy": {"epsilon": 6.0}}, "study.privacy.epsilon is 5.0 and not 6.0"),
    "advise": ({"privacy": {"epsilon": 6.0}}, "study.privacy.epsilon is 5.0 and not 6.0"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_of_another_study_is_refused_and_left_as_it_is(command, run, write, begun):
    """`compare` and `train` wrote over it without a word."""
    change, says = COMMANDS[command]
    before = content(begun)
    answer = run(command, write(STUDY, **change))
    assert answer.code == 2
    assert f"belongs to another study, whose {says}" in answer.err
    assert "choose another folder with --out" in answer.err
    assert content(begun) == before


@pytest.mark.parametrize("command", ["train", "audit", "advise"])
@pytest.mark.parametrize("left", ["audit.json", "advice.json"])
def test_the_page_of_an_audit_or_advice_of_another_study_is_no_command_s_to_replace(
    left, command, run, write, begun
):
    made_for = json.loads((begun / "plan.json").read_text())["made_for"]
    for name in ("record.json", FILE, *(["plan.json"] if left == "advice.json" else [])):
        (begun / name).unlink()
    (begun / left).write_text(json.dumps({"made_for": made_for} if left == "advice.json" else {}))
    (begun / "report.html").write_text("kept")
    before = content(begun)
    answer = run(command, write({**STUDY, "privacy": {**STUDY["privacy"], "epsilon": 6.0}}))
    assert (answer.code, answer.out) == (2, "")
    assert "belongs to another study, whose study.privacy.epsilon is 5.0 and not 6.0" in answer.err
    assert content(begun) == before


def test_other_records_under_the_same_tables_are_another_study(run, write, begun, tmp_path):
    rows = (tmp_path / "own.csv").read_text().splitlines()
    (tmp_path / "own.csv").write_text("\n".join(rows[:-5]))
    answer = run("train", write(STUDY))
    assert "belongs to another study, whose facts.sizes" in answer.err
    assert answer.code == 2


def test_a_sweep_without_a_plan_of_its_own_is_known_by_its_record(run, write, begun):
    (begun / "plan.json").unlink()
    (begun / FILE).unlink()
    answer = run("train", write(STUDY, privacy={"epsilon": 6.0}))
    assert "belongs to another study, whose study.privacy.epsilon is 5.0 and not 6.0" in answer.err


def test_a_plan_alone_is_no_run_and_may_be_planned_again(run, write, begun):
    for name in (FILE, "record.json"):
        (begun / name).unlink()
    assert run("plan", write(STUDY, privacy={"epsilon": 6.0})).code == 0


def test_a_plan_of_another_study_leaves_the_record_of_a_run_alone(run, write, begun):
    """`plan --out` wrote a record without a training over it."""
    before = content(begun)
    assert run("plan", write(STUDY, privacy={"epsilon": 6.0}), "--out", begun).code == 0
    after = content(begun)
    (new,) = after.keys() - before.keys()
    assert Path(new).name.startswith("plan-")
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("command", ["train", "compare"])
def test_a_folder_in_which_a_command_is_at_work_is_refused(command, run, write, begun):
    before = content(begun)
    with held(begun):
        answer = run(command, write(STUDY))
    assert answer.code == 2
    assert f"another command is at work in {Path('runs/study')}; wait until it ends, or choose" in answer.err
    assert content(begun) == before


HOLD = """
import sys
from pathlib import Path
from noiseworthy.studies.occupied import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_command_that_is_killed_holds_its_folder_no_longer(tmp_path):
    at_work = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert at_work.stdout is not None
    assert at_work.stdout.readline() == b"held\n"
    with pytest.raises(ResumeError, match="another command is at work"), held(tmp_path):
        pass
    at_work.kill()
    at_work.communicate()
    with held(tmp_path):
        pass


def test_a_folder_that_nothing_was_written_into_is_gone_again(tmp_path):
    with pytest.raises(KeyboardInterrupt), held(tmp_path / "runs"):
        raise KeyboardInterrupt
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("reached", "says"),
    [
        (False, "No checkpoint was kept yet; there is nothing to go on from."),
        (True, "The same command with --resume goes on from the last checkpoint."),
    ],
)
def test_resume_is_promised_where_there_is_a_checkpoint(
    reached, says, run, write, site_records, monkeypatch, tmp_path
):
    """Every command promised it, whatever was interrupted, and before the first checkpoint, too."""
    site_records("csv")

    def interrupted(planned, folder, *, on_kept, **rest):
        folder.mkdir(parents=True)
        on_kept()
        if reached:
            (folder / FILE).write_bytes(b"")
        raise KeyboardInterrupt

    monkeypatch.setattr("noiseworthy.studies.studies.train_in", interrupted)
    answer = run("train", write(STUDY))
    assert (answer.code, answer.err.splitlines()[-2:]) == (130, [says, "interrupted"])


def test_what_cannot_go_on_promises_nothing(run, write, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("noiseworthy.calls.stated.load_study", interrupted)
    for command in ("plan", "advise", "compare", "audit"):
        answer = run(command, write(STUDY))
        assert (answer.code, answer.err.strip()) == (130, "interrupted")


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", b"\x80\x04K\x01."])
def test_a_damaged_checkpoint_says_what_to_do(damage, tmp_path):
    """It said that pickled data cannot be loaded when allow_pickle=False."""
    (tmp_path / FILE).write_bytes(damage)
    with pytest.raises(ResumeError) as caught:
        load_checkpoint(tmp_path, "mark")
    text = str(caught.value)
    assert f"{tmp_path / FILE} is damaged" in text
    assert "put a copy of it back, or start anew without --resume in another folder with --out" in text
    assert "pickle" not in text


def test_a_checkpoint_that_is_cut_off_says_what_to_do(tmp_path):
    np.savez(tmp_path / FILE, theta=np.zeros(1000))
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ResumeError, match=r"checkpoint\.npz is damaged \(.*\); put a copy of it back"):
        load_checkpoint(tmp_path, "mark")


CHANGED = ["x", "[1]", '{"facts": 3}', '{"facts": {}, "study": 4}', '{"facts": {}, "study": {"task": 4}}']


@pytest.mark.parametrize("made_for", CHANGED)
def test_a_changed_plan_in_a_folder_ends_in_no_fault_of_ours(made_for, begun, tmp_path):
    """As tables that are none: the run is another study's, or is known by its record."""
    study = load_study(tmp_path / "study.toml")
    mine = tables_of(study, prepare(study).federation)
    mine["study"]["task"]["class_weights"] = [1.0, 2.0]
    made = json.loads(made_for) if made_for != "x" else "x"
    (begun / "plan.json").write_text(json.dumps({"made_for": made}))
    with suppress(ResumeError):
        check_ours(begun, mine)
    for part in ([], {"privacy": 3}, {"federation": [1]}):
        (begun / "plan.json").unlink(missing_ok=True)
        (begun / "record.json").write_text(json.dumps({"study": part}))
        with suppress(ResumeError):
            check_ours(begun, mine)
    for name in ("plan.json", "record.json"):
        (begun / name).write_text("[" * 100_000)
    check_ours(begun, mine)
    with pytest.raises(DataError, match="is damaged"):
        load_record(begun)


def test_a_folder_in_which_a_command_is_at_work_takes_no_other_plan(run, write, begun):
    """Before its first checkpoint a training could lose its plan to that of another study."""
    (begun / FILE).unlink()
    (begun / "record.json").unlink()
    before = content(begun)
    with held(begun):
        answer = run("plan", write(STUDY, privacy={"epsilon": 6.0}))
    assert (answer.code, "another command is at work" in answer.err) == (2, True)
    assert content(begun) == before


def test_what_commands_leave_in_one_folder_stays(run, write, site_records, tmp_path, monkeypatch):
    """A trade-off wrote over the record of the training, and a training that was interrupted over both."""
    site_records("csv")
    tradeoff = {"seeds": [1], "epsilon": [5.0], "budget": [10.0]}
    study = write(STUDY, resources=RESOURCES, tradeoff=tradeoff)
    assert run("train", study).code == 0
    trained = load_record(tmp_path / "runs" / "study")
    assert run("tradeoff", study).code == 0
    both = load_record(tmp_path / "runs" / "study")
    assert both["tradeoff"]
    assert {key: both[key] for key in trained if key != "created"} == {
        key: part for key, part in trained.items() if key != "created"
    }

    def interrupted(*given, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(studies, "train", interrupted)
        assert run("train", study).code == 130
    kept = load_record(tmp_path / "runs" / "study")
    assert (kept["training"], kept["tradeoff"]) == (both["training"], both["tradeoff"])
    assert run("train", study, "--resume").code == 0
    again = load_record(tmp_path / "runs" / "study")
    assert again["tradeoff"] == both["tradeoff"]
    assert again["training"]["loss"] == trained["training"]["loss"]


def test_a_training_does_not_take_the_place_of_one_over_a_network(run, write, site_records, tmp_path):
    """Budgets paid for it, and nobody could train it again."""
    site_records("csv")
    assert run("train", write(STUDY)).code == 0
    folder = tmp_path / "runs" / "study"
    network = {"run": "r", "rounds": [], "owners": []}
    (folder / "record.json").write_text(json.dumps(load_record(folder) | {"network": network}))
    before = content(folder)
    answer = run("train", write(STUDY))
    assert (answer.code, "holds a model that owners trained" in answer.err) == (2, True)
    assert content(folder) == before
    assert run("train", write(STUDY), "--out", str(tmp_path / "runs" / "simulated")).code == 0


def test_a_contest_leaves_the_training_of_another_plan_alone(run, write, site_records, tmp_path, monkeypatch):
    """The record of a training by dpsgd was lost to one of its rivals, whose plan is of dpfl-bcs."""
    site_records("csv")
    monkeypatch.setattr("noiseworthy.sweeps.contest.train_contest", None)  # it is refused before
    study = write(STUDY, algorithm={"name": "dpsgd", "weighting": None}, training={"seeds": [0]})
    assert run("train", study).code == 0
    before = content(tmp_path / "runs" / "study")
    answer = run("rivals", study)
    assert (answer.code, "holds a training by another plan" in answer.err) == (2, True)
    assert content(tmp_path / "runs" / "study") == before


def test_a_record_by_another_plan_takes_nothing_from_the_one_before(begun):
    record = json.loads((begun / "record.json").read_text())
    (begun / "record.json").write_text(json.dumps(record | {"training": None, "claim": None}))
    new = record | {"training": None, "plan": record["plan"] | {"rounds": 7}}
    assert beside_kept(new, begun) == new
