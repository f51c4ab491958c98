"""A study whose model is the user's own: planned, trained and reported; its plan refuses a changed model."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import noiseworthy as nw
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.gateway.owner import Owner
from noiseworthy.errors import ConfigError, InvalidInput, PlanError, ResumeError
from noiseworthy.studies.checking import check_study
from noiseworthy.studies.checkpoints import FILE as CHECKPOINT
from noiseworthy.studies.loading import load_study, parse_study
from noiseworthy.tasks.own import digest_of
from noiseworthy.tasks.table import TaskTable

EXAMPLES = Path(__file__).parents[2] / "examples"
FEW = {"federation.records_per_client": 40, "algorithm.rounds": 4, "training.evaluations": 2}


@pytest.fixture
def study(tmp_path, monkeypatch) -> Path:
    """The example, in a folder other than the one that the test works in."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    for name in ("own_model.toml", "own_model.py"):
        shutil.copy(EXAMPLES / name, tmp_path / "elsewhere")
    return tmp_path / "elsewhere" / "own_model.toml"


def change(study: Path) -> None:
    source = study.with_suffix(".py")
    source.write_text(source.read_text().replace("16", "12"))


@pytest.mark.parametrize(
    ("loss", "outputs", "said"),
    [
        (
            "'softmax'",
            4,
            r"must return shape \(10,\), a number for each class .* got shape \(4,\) and the loss s",
        ),
        ("'squared'", 1, r"got shape \(1,\) and the loss squared"),
        ("lambda z, y: (z - y) ** 2", 10, r"has no loss for a record of shape \(8, 8\): TypeError: .*scalar"),
        ("lambda z, y: z[y] @ z", 10, r"has no loss for a record of shape \(8, 8\): ValueError: matmul"),
    ],
)
def test_a_loss_that_does_not_fit_the_labels_is_refused_before_anything_is_spent(study, loss, outputs, said):
    source = study.with_suffix(".py")
    source.write_text(
        "import jax.numpy as jnp\nfrom noiseworthy import model_task\ndef make(shape, classes):\n"
        f"    return model_task(lambda w, x: x.ravel() @ w, jnp.ones((64, {outputs})), {loss})\n"
    )
    with pytest.raises(InvalidInput, match=said):
        check_study(load_study(study))
    with pytest.raises(InvalidInput, match=said):
        nw.run(study, "runs/it", set=FEW)
    assert not Path("runs/it").exists()


@pytest.mark.full
def test_the_example_trains_and_beats_guessing(study):
    run = nw.run(study, seeds=1, set={"training.evaluations": 2})
    assert run.accuracy > 0.5
    table = json.loads((run.folder / "plan.json").read_text())["task"]
    assert table["model"] == "own_model:make"
    assert table["model_digest"] == digest_of("own_model:make", study.parent)
    assert "elsewhere" not in (run.folder / "plan.json").read_text()
    assert "elsewhere" not in (run.folder / "record.json").read_text()
    assert run.report.exists()


SHARED = """
import jax.numpy as jnp
from noiseworthy import model_task
def make(shape, classes):
    params = {"in": jnp.ones((64, 40)), "again": jnp.ones((40, 40)), "out": jnp.ones((40, classes))}
    return model_task(lambda p, x: x.ravel() @ p["in"] @ p["again"] @ p["again"] @ p["out"], params)
"""


def test_check_says_which_parameters_make_clipping_slow(study):
    def notes():
        found = check_study(load_study(study)).findings
        return [one.says for one in found if one.level == "note" and "[task] model" in one.says]

    assert notes() == []
    study.with_suffix(".py").write_text(SHARED)
    assert notes() == [
        "[task] model: clipping forms a gradient for every record of these parameters: "
        "['again'] is read 2 times"
    ]
    for algorithm in ({"name": "dp-scaffnew"}, {"name": "dp-fedavg", "clipping_mode": "D"}):
        found = check_study(load_study(study, {"algorithm": algorithm})).findings
        assert not any("[task] model" in one.says for one in found), "no record is clipped"


@pytest.mark.full
def test_a_plan_refuses_a_model_that_was_changed(study):
    planned = nw.plan(load_study(study, FEW))
    path = planned.keep(Path("kept"))
    assert nw.run(study, set=FEW, plan=path).record.training is not None
    change(study)
    with pytest.raises(PlanError, match=r"its study\.task\.model_digest is"):
        nw.run(study, "other", set=FEW, plan=path)


@pytest.mark.full
def test_a_checkpoint_of_another_source_is_not_resumed(study):
    run = nw.run(study, set=FEW)
    assert (run.folder / CHECKPOINT).exists()
    assert nw.run(study, set=FEW, resume=True).accuracy == run.accuracy
    change(study)
    with pytest.raises(ResumeError, match="another study"):
        nw.run(study, set=FEW, resume=True)


@pytest.mark.full
def test_a_sweep_tells_sources_apart(study):
    over = {"privacy.epsilon": [8.0]}
    nw.sweep(study, over, "swept", set=FEW)
    change(study)
    with pytest.raises(ResumeError, match="another study"):
        nw.sweep(study, over, "swept", set=FEW)


@pytest.mark.full
def test_it_is_planned_by_trial_on_public_data(study):
    """Models for public records of other classes are made by the same function."""
    text = study.read_text()
    study.write_text(text[: text.index("[algorithm]")] + "[algorithm]\nmax_rounds = 4\n")
    quick = {"public": ["prior:0"], "seeds": 1, "budget_seconds": 5.0}
    planned = nw.plan(load_study(study, {"planning": quick}))
    assert planned.prepared.dimension == 64 * 16 + 16 + 16 * 10 + 10
    assert planned.file.task["model"] == "own_model:make"


def test_a_digest_that_is_stated_pins_the_source(study):
    digest = digest_of("own_model:make", study.parent)
    assert load_study(study, {"task.model_digest": digest}).task.model_digest == digest
    with pytest.raises(ConfigError, match=r"\[task\] model_digest is '0{11}.*put back the source"):
        load_study(study, {"task.model_digest": "0" * 64})


def test_a_module_is_looked_up_beside_the_file_alone(study):
    shutil.move(study.with_suffix(".py"), Path.cwd())
    with pytest.raises(ConfigError, match="put it beside the study's file"):
        load_study(study)


def test_keys_of_linear_models_are_refused(study):
    with pytest.raises(InvalidInput, match="feature_norm belongs to linear models"):
        nw.plan(load_study(study, {"task.feature_norm": 1.0}))


def test_studies_without_such_a_model_are_written_as_before():
    raw = {"federation": {"sizes": [5]}, "privacy": {"mechanism": "laplace"}, "task": {"dimension": 3}}
    assert "model_digest" not in parse_study(raw).task.model_dump()


# Over a network -------------------------------------------------------------------------------------------


def test_an_owner_allows_none_by_its_name_alone():
    owner = {
        "owner": {"client": "client 0", "data_set": "digits"},
        "federation": {"data": "digits", "clients": 10},
        "budget": {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-5, "noise_floor": 1.0},
        "allowed": {"algorithms": ["fedsgd-dpc"], "models": ["own_model:make"], "most_releases": 100},
        "files": {"socket": "gateway.sock", "ledger": "ledger.sqlite"},
    }
    with pytest.raises(ValueError, match="Input should be 'softmax'"):
        Owner.model_validate(owner)


def test_a_gateway_imports_no_module_that_a_request_names(study, monkeypatch):
    """Not even one that it could find."""
    sys.modules.pop("own_model", None)
    monkeypatch.syspath_prepend(study.parent)
    holding = Holding(np.zeros((4, 8, 8), np.float32), np.zeros(4, np.int32), 10)
    with pytest.raises(InvalidInput, match="got 'own_model:make'"):
        holding.task(TaskTable(model="own_model:make"))
    assert "own_model" not in sys.modules
