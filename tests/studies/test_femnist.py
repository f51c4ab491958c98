"""A folder of LEAF's FEMNIST is planned, trained and tested with a CNN."""

from __future__ import annotations

import numpy as np
import pytest
import tomli_w

import noiseworthy as nw
from noiseworthy.studies import by_trial
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.planner import plan_study
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.training import train
from noiseworthy.tasks import make_task


def study_of(folder, **tables):
    return parse_study({
        "federation": {"data": f"leaf:{folder}"},
        "task": {"model": "cnn"},
        "privacy": {"mechanism": "gaussian", "epsilon": 50.0, "delta": 1e-4},
        **tables,
    })  # fmt: skip


@pytest.mark.full
def test_images_stand_in_for_femnist(femnist_folder):
    """Tables did: "cnn needs images, got records of 30 numbers"."""
    prepared = prepare(study_of(femnist_folder))
    bench = by_trial.open_bench(prepared)
    assert bench.sources == ("digits", "prior:0")
    assert [proxy.records.record_shape for proxy in bench.proxies()] == [(28, 28)] * 2


def test_flat_squares_of_any_table_are_images_to_a_cnn(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "flat.npz", x=rng.random((40, 256), np.float32), label=np.arange(40) % 4)
    table = {"data": str(tmp_path / "flat.npz"), "clients": 2, "partition": "iid"}
    facts = prepare(study_of("", federation=table)).public_facts()
    assert facts.record_shape == (16, 16)
    assert facts.make_task(facts.record_shape, 4, None).dimension == make_task("cnn", (256,), 4).dimension


def test_its_model_says_that_images_were_turned(femnist_folder, tmp_path):
    keys = study_of(femnist_folder, task={"model": "softmax"}, algorithm=STATED).model_dump(
        mode="json", exclude_unset=True
    )
    keys["privacy"] |= {"clip_norm": 1.0}
    (tmp_path / "study.toml").write_text(tomli_w.dumps(keys))
    model = nw.load_model(nw.run(tmp_path / "study.toml", tmp_path / "run").folder)
    white = 1 - prepare(study_of(femnist_folder)).trained()[0].test_x
    np.testing.assert_allclose(model.predict_proba(white), model.predict_proba(1 - white), atol=1e-5)


STATED = {"rounds": 2, "clients_per_round": 4, "step_size": 0.1, "step_decay": "none"}
FREE = {"rounds": 2, "clients_per_round": 4, "averaging": 0.0, "momentum": 0.0}


@pytest.mark.full
@pytest.mark.usefixtures("whole_races")
@pytest.mark.parametrize(
    ("algorithm", "clip"), [(STATED, 1.0), pytest.param(FREE, "auto", marks=pytest.mark.slow)]
)
def test_a_folder_of_the_true_format_plans_trains_and_is_tested(algorithm, clip, femnist_folder):
    privacy = {"mechanism": "gaussian", "epsilon": 50.0, "delta": 1e-4, "clip_norm": clip}
    planning = {"seeds": 1, "budget_seconds": 2.0}
    study = study_of(femnist_folder, algorithm=algorithm, privacy=privacy, planning=planning)
    prepared, decision = plan_study(prepare(study))
    federation, task = prepared.trained()
    assert decision.plan.train
    assert np.all(decision.plan.spent() <= 50.0)
    run = train(decision.plan, federation, task, seeds=[0], evaluations=1)
    assert np.isfinite(run.final_loss[0])
    assert 0 <= run.final_accuracy[0] <= 1
