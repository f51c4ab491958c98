"""Commands that go on with a plan: what was reviewed is what runs, and nothing is decided again."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import pytest

from noiseworthy.cli import steps
from noiseworthy.deploy.owners import folder_name
from noiseworthy.reports.ledger import ledger_dict
from noiseworthy.studies import plan_file
from noiseworthy.studies.plan_file import FILE, load_plan
from noiseworthy.studies.plan_text import sealed
from noiseworthy.studies.run_folder import opened_ledger

CONSTANTS = {
    "smoothness": 0.6, "strong_convexity": 0.1, "gradient_bound": 1.0, "initial_distance_sq": 50.0,
    "heterogeneity": 0.02,
}  # fmt: skip
WINE = {
    "federation": {"data": "wine", "clients": 6, "partition": "iid"},
    "task": {"ridge": 0.1, "feature_norm": 1.0},
    "privacy": {"mechanism": "gaussian", "epsilon": 30.0, "delta": 1e-5, "clip_norm": 1.0},
    "algorithm": {"max_rounds": 8},
    "constants": CONSTANTS,
    "training": {"seeds": [0, 1], "evaluations": 3},
    "compare": {"rounds": [2], "clients_per_round": [6], "seeds": [100]},
}
FREE = {
    "federation": {"data": "digits", "clients": 4, "partition": "iid", "records_per_client": 30},
    "privacy": {"mechanism": "gaussian", "epsilon": 8.0, "delta": 1e-5},
    "algorithm": {"max_rounds": 6},
    "planning": {"public": ["prior:0"], "seeds": 1},
    "training": {"seeds": [0], "evaluations": 2},
}
STAGED = {
    **WINE,
    "algorithm": {"name": "dpfl-bcs", "rounds": 8, "clients_per_round": 2, "estimation_rounds": 3},
    "constants": {"smoothness": 0.6, "strong_convexity": 0.1},
}
BOUGHT = {**WINE, "constants": {"source": "bought"}, "algorithm": {"rounds": 6, "clients_per_round": 6}}


def record_in(folder):
    """A record but for its clocks; the chain of a ledger holds times, too."""
    record = json.loads((folder / "record.json").read_text())
    record["training"]["seconds"] = record["created"] = record["ledger"]["head"] = None
    return record


def books_in(folder):
    """Everything that a ledger says but for its clock."""
    with opened_ledger(folder) as books:
        said = ledger_dict(books)
    return {**said, "head": None, "ledger": None}


@pytest.fixture
def no_planning(monkeypatch):
    """From here on nobody may decide anything."""

    def begin():
        def refused(*_):
            pytest.fail("a plan that was given was planned again")

        monkeypatch.setattr(plan_file, "plan_study", refused)

    return begin


ALIKE = [
    pytest.param(WINE, id="theory"),
    pytest.param(FREE, id="trial", marks=pytest.mark.slow),
    pytest.param(STAGED, id="stages"),
    pytest.param(BOUGHT, id="bought"),
]


@pytest.mark.full
@pytest.mark.parametrize("study", ALIKE)
def test_training_by_a_plan_file_equals_training_alone_bit_for_bit(study, write, tmp_path, no_planning):
    """Record, model, ledger, and the plans that lie beside them."""
    path = write(study)
    alone, given = tmp_path / "alone", tmp_path / "given"
    planned = steps.decide_plan(steps.prepare_study(path, None))
    steps.train_plan(planned, alone, name="study")
    planned.keep(tmp_path)
    no_planning()
    taken = steps.decide_plan(steps.prepare_study(path, None), tmp_path / FILE)
    steps.train_plan(taken, given, name="study")
    assert record_in(alone) == record_in(given)
    for file in (alone / "model").iterdir():
        assert file.read_bytes() == (given / "model" / file.name).read_bytes(), file.name
    assert books_in(alone) == books_in(given)
    plans = [{path.name: path.read_bytes() for path in folder.glob("plan*")} for folder in (alone, given)]
    assert plans[0] == plans[1]
    assert plans[0][FILE] == (tmp_path / FILE).read_bytes()
    assert record_in(alone)["plan_digest"] == load_plan(alone / FILE).digest
    assert len(plans[0]) == (3 if study is STAGED else 1)


@pytest.mark.full
def test_the_plan_after_a_stage_is_a_plan_file_of_its_own(run, write, tmp_path):
    """One of every seed, with what its stage told: it can be accounted and audited, and is no beginning."""
    study = write(STAGED)
    steps.train_plan(steps.decide_plan(steps.prepare_study(study, None)), tmp_path / "here", name="study")
    record = record_in(tmp_path / "here")
    for seed, spent in zip([0, 1], record["training"]["spent_epsilon"], strict=True):
        after = tmp_path / "here" / f"plan-seed-{seed}.json"
        assert not load_plan(after).plan.pilot.pending
        answer = run("account", study, "--plan", after, "--json")
        assert answer.code == 0, answer.err
        clients = json.loads(answer.out)["privacy"]["clients"]
        assert [client["spent_epsilon"] for client in clients] == pytest.approx(spent)
    answer = run("train", study, "--plan", after, "--out", "again")
    assert answer.code == 2
    assert "follows from what 3 rounds of a training told" in answer.err
    assert not (tmp_path / "again").exists()


def test_plan_writes_its_file_into_the_folder_of_the_study(run, write, tmp_path):
    answer = run("plan", write(WINE, name="mine"))
    file = load_plan(tmp_path / "runs" / "mine" / FILE)
    assert file.plan.train
    assert f"digest {file.digest[:12]}" in answer.out
    assert not (tmp_path / "runs" / "mine" / "record.json").exists()


def test_a_new_plan_does_not_take_the_place_of_the_one_that_a_run_follows(run, write, tmp_path):
    """Else the run could not go on by what it was begun with."""
    run("train", write(WINE), "--out", "here")
    before = (tmp_path / "here" / FILE).read_bytes()
    run("plan", write(WINE, algorithm={"max_rounds": 4}), "--out", "here")
    assert (tmp_path / "here" / FILE).read_bytes() == before
    (other,) = (tmp_path / "here").glob("plan-*.json")
    assert load_plan(other).plan.rounds == 4


def test_a_run_goes_on_by_the_plan_that_it_began_with(run, write, tmp_path, no_planning):
    run("train", write(WINE), "--out", "here")
    kept = record_in(tmp_path / "here")
    no_planning()
    answer = run("train", write(WINE), "--out", "here", "--resume")
    assert answer.code == 0, answer.err
    assert record_in(tmp_path / "here")["training"]["loss"] == kept["training"]["loss"]


def test_a_run_of_before_plan_files_goes_on_and_is_shown(run, write, tmp_path):
    run("train", write(WINE), "--out", "here")
    (tmp_path / "here" / FILE).unlink()
    for arguments in (
        ("ledger", "show", "here"), ("report", "here"), ("train", write(WINE), "--out", "here", "--resume"),
    ):  # fmt: skip
        answer = run(*arguments)
        assert answer.code == 0, answer.err


# Numbers of the plan that are used ----------------------------------------------------------------------


@pytest.fixture
def given(run, write, tmp_path, no_planning):
    """A study, and the file of its plan with numbers changed under a new digest."""

    def made(base=WINE, **changes):
        study = write(base)
        assert run("plan", study, "--out", "planned").code == 0
        path = tmp_path / "planned" / FILE
        content = json.loads(path.read_text())
        for name, change in changes.items():
            part = content["plan"]
            *where, last = name.split("__")
            for key in where:
                part = part[key]
            part[last] = change(part[last])
        rest = {key: part for key, part in content.items() if key not in ("schema", "version", "digest")}
        path.write_text(json.dumps(sealed(rest)))
        no_planning()
        return study, path

    return made


def test_account_prices_the_noise_of_the_plan_that_it_is_given(given, run):
    study, path = given(release__mechanism__noise_std__values=lambda stds: [2 * std for std in stds])
    answer = run("account", study, "--plan", path, "--json")
    plan = load_plan(path).plan
    spent = [client["spent_epsilon"] for client in json.loads(answer.out)["privacy"]["clients"]]
    assert spent == plan.spent().tolist()
    assert max(spent) < 16.0, "of 30 that the plan spent with half the noise"


def test_audit_attacks_the_noise_of_the_plan_that_it_is_given(given, run):
    study, path = given(release__mechanism__noise_std__values=lambda stds: [2 * std for std in stds])
    answer = run("audit", study, "--plan", path, "--json", "--trials", 200, "--budget-seconds", 20)
    assert answer.code == 0, answer.err
    (made,) = json.loads(answer.out)["trainings"]
    assert made["claimed_epsilon"] == pytest.approx(load_plan(path).plan.spent().max())


@pytest.mark.full
def test_train_and_compare_step_as_the_plan_that_they_are_given_says(given, run, tmp_path):
    study, path = given(step__initial=lambda step: step / 64)
    answer = run("compare", study, "--plan", path, "--out", "slow")
    assert answer.code == 0, answer.err
    slow = json.loads((tmp_path / "slow" / "record.json").read_text())
    assert slow["plan"]["step_size"] == load_plan(path).plan.step.initial
    (planned,) = (cell for cell in slow["compare"]["cells"] if cell["planned"])
    moved = slow["training"]["untrained_loss"] - np.mean(planned["loss"])
    assert abs(moved) < 0.05 * slow["training"]["untrained_loss"], "a 64th of the step hardly trains"


def test_owners_are_offered_what_the_plan_that_is_given_asks_of_them(given, run, tmp_path):
    pytest.importorskip("flwr")
    study, path = given(release__mechanism__noise_std__values=lambda stds: [2 * std for std in stds])
    answer = run("deploy", "up", study, "--plan", path, "--host", "server", "--folder", "place")
    assert answer.code == 0, answer.err
    file = tmp_path / "place" / "owners" / folder_name("client 0") / "owner.toml"
    plan = load_plan(path).plan
    floor = tomllib.loads(file.read_text())["budget"]["noise_floor"]
    assert floor == pytest.approx(0.999 * plan.release.mechanism.size[0] / plan.problem.sensitivity.value[0])
    assert load_plan(tmp_path / "place" / FILE).digest == load_plan(path).digest


def test_a_changed_plan_is_refused_in_one_line(run, write, tmp_path):
    study = write(WINE)
    run("plan", study, "--out", "planned")
    path = tmp_path / "planned" / FILE
    path.write_text(path.read_text().replace('"rounds": 8', '"rounds": 9'))
    for command in ("train", "compare", "audit", "account"):
        answer = run(command, study, "--plan", path)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("error: ")
        assert "was changed after it was planned" in answer.err
    text = path.read_text()
    path.write_text(text.replace('"epsilon": ', '"epsilon": 1e999, "was": ', 1))
    answer = run("account", study, "--plan", path)
    assert (answer.code, "was changed after it was planned" in answer.err) == (2, True)


@pytest.mark.parametrize("part", ["made_for", "task", "beside"])
def test_parts_of_a_plan_that_are_no_tables_are_refused(part, run, write, tmp_path):
    """A digest is no signature: whoever changes a plan can compute it again."""
    study = write(WINE)
    run("plan", study, "--out", "planned")
    path = tmp_path / "planned" / FILE
    content = json.loads(path.read_text())
    parts = {key: content[key] for key in ("made_for", "task", "plan", "beside")}
    path.write_text(json.dumps(sealed({**parts, part: [1]})))
    answer = run("train", study, "--plan", path, "--out", "run")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "made_for, task and beside must be tables" in answer.err


def test_a_plan_goes_with_its_study_and_with_no_time_for_planning(run, write):
    study = write(WINE)
    run("plan", study, "--out", "planned")
    said = run("account", "--plan", "planned/plan.json", "--mechanism", "gaussian").err
    assert "--plan goes with the study" in said
    said = run("train", study, "--plan", "planned/plan.json", "--budget-seconds", 3).err
    assert "--plan has decided" in said
    assert "does not exist" in run("train", study, "--plan", "nowhere.json").err
