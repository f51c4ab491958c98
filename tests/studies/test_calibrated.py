"""What a training delivers is calibrated on test records that nobody holds, and never on those of clients."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from noiseworthy.data import Federation
from noiseworthy.model.model import load_model
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.opening import Opened
from noiseworthy.studies.plan_file import planned
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.studies import train_in

STUDY = {
    "federation": {"data": "breast-cancer", "clients": 2},
    "task": {"model": "logistic"},
    "privacy": {"mechanism": "gaussian", "epsilon": 40.0, "delta": 1e-5, "clip_norm": 1.0},
    "algorithm": {"rounds": 5, "clients_per_round": 2, "step_size": 0.5, "momentum": 0.0, "averaging": 0.0,
                  "weighting": 0.0},
    "training": {"seeds": [0]},
}  # fmt: skip


def federation() -> Federation:
    """Two clients of 200 records, whose models are timid after five steps, and 600 records that test."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 3)).astype(np.float32)
    y = (rng.random(1000) < 1 / (1 + np.exp(-x @ [3.0, -2.0, 1.0]))).astype(int)
    clients = [(x[:200], y[:200]), (x[200:400], y[200:400])]
    return Federation.from_clients(clients, test=(x[400:], y[400:]), classes=2, name="made")


def trained(folder: Path, held: Federation):
    made = planned(prepare(parse_study(STUDY), Opened(held, None)))
    return train_in(made, folder, name="made"), load_model(folder)


@pytest.mark.full
def test_a_test_set_apart_calibrates_and_its_scores_have_not_seen_the_scale(tmp_path):
    held = federation()
    record, model = trained(tmp_path / "run", held)
    found, metrics = model.description.calibration, model.description.metrics
    assert found is not None
    assert metrics is not None
    assert found.scale > 1.5, "a model that is not timid tests nothing"
    assert (found.records, found.source) == (600, "the test records, which no client holds")
    assert metrics.calibration_error < found.error / 2
    assert record["training"]["metrics"]["calibration_error"] == metrics.calibration_error
    plain = replace(model, kept=model.kept._replace(description=model.description.calibrated(None)))
    before, seen = (one.measured(held.test_x, held.test_y) for one in (plain, model))
    assert before.calibration_error == pytest.approx(found.error)
    assert (metrics.accuracy, metrics.balanced_accuracy) == (before.accuracy, before.balanced_accuracy)
    assert before.log_loss > metrics.log_loss
    assert metrics.log_loss > seen.log_loss, "scored with the scale of the other half"


@pytest.mark.parametrize("origin", ["rows", "records", "persons", "marked"])
def test_records_that_were_held_out_of_clients_calibrate_nothing(tmp_path, origin):
    held = replace(federation(), test_origin=origin)
    _, model = trained(tmp_path / "run", held)
    assert model.description.calibration is None
    assert "Its probabilities are not calibrated" in model.card


def test_few_test_records_calibrate_nothing(tmp_path):
    held = federation()
    held = replace(held, test_x=held.test_x[:99], test_y=held.test_y[:99])
    assert trained(tmp_path / "run", held)[1].description.calibration is None
