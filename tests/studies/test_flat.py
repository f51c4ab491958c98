"""A study whose clients lie in a folder: planned, trained, cut off and resumed as any other."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.data import Federation, load_federation
from noiseworthy.data.ragged import Ragged
from noiseworthy.errors import DataError, InvalidInput
from noiseworthy.methods.dp_fedavg import planner as fedavg
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.studies import checkpoints, run_folder
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.training import train

SIZES = (30, 5, 70, 9, 12, 3)


def records(i):
    rng = np.random.default_rng(i)
    x = rng.normal(size=(SIZES[i], 3))
    return x, (x[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("data") / "wards"
    Federation.from_function(records, 6, folder=place, test=records(2), classes=2, name="wards")
    return place


def study_of(folder):
    return {
        "federation": {"data": f"flat:{folder}"},
        "task": {"ridge": 0.1, "feature_norm": 1.0},
        "privacy": {"mechanism": "gaussian", "epsilon": 3.0, "delta": 1e-5, "clip_norm": 0.5},
        "algorithm": {
            "name": "dp-scaffnew", "iterations": 8, "communication_probability": 0.6, "step_size": 0.5,
        },
    }  # fmt: skip


@pytest.fixture(scope="module")
def study(folder):
    prepared = prepare(parse_study(study_of(folder)))
    return decide(prepared).plan, *prepared.trained()


@pytest.mark.full
def test_a_study_of_a_folder_trains_as_one_of_arrays(study, tmp_path):
    plan, federation, task = study
    assert isinstance(federation.x, Ragged)
    arrays = Federation.from_clients([*map(records, range(6))], test=records(2), classes=2, name="wards")
    ours, theirs = (train(plan, held, task, [0, 1], evaluations=3) for held in (federation, arrays))
    np.testing.assert_allclose(ours.theta, theirs.theta, rtol=1e-5, atol=1e-6)
    assert np.abs(ours.theta).max() > 0.01


class Killed(BaseException):
    """Stands for a kill."""


def test_a_run_that_was_killed_goes_on_with_what_clients_remember(study, tmp_path, monkeypatch):
    whole = train(*study, [0, 1], evaluations=3, folder=tmp_path / "whole")
    save, saved = checkpoints.save_checkpoint, []

    def mortal(*arguments):
        save(*arguments)
        saved.append(arguments)
        if len(saved) == 3:
            raise Killed

    monkeypatch.setattr(run_folder, "save_checkpoint", mortal)
    with pytest.raises(Killed):
        train(*study, [0, 1], evaluations=3, folder=tmp_path / "cut")
    assert (tmp_path / "cut" / "memory_00.npy").exists()
    with np.load(tmp_path / "cut" / "checkpoint.npz") as kept:
        assert "used" not in kept  # those asked alone, of a million
        assert kept["times"].sum() == saved[-1][1].used.sum() > 0
    again = train(*study, [0, 1], evaluations=3, folder=tmp_path / "cut", resume=True)
    np.testing.assert_array_equal(again.theta, whole.theta)
    np.testing.assert_array_equal(again.loss, whole.loss)


def test_a_folder_says_who_its_clients_are(folder):
    with pytest.raises(InvalidInput, match="leave out clients, partition"):
        load_federation(f"flat:{folder}", clients=3, partition="iid", seed=0)
    with pytest.raises(InvalidInput, match="leave out classes, regression"):
        load_federation(f"flat:{folder}", classes=["no", "yes", "perhaps"], regression=True, seed=0)
    with pytest.raises(DataError, match="no data at"):
        load_federation("flat:nowhere", seed=0)
    assert load_federation(f"flat:{folder}", records_per_client=4, seed=0).sizes.tolist() == [
        4,
        4,
        4,
        4,
        4,
        3,
    ]


def test_noise_of_many_rounds_of_many_clients_is_that_of_the_first_and_the_last(monkeypatch):
    budget = PrivacyBudget.of(2.0, 1e-5, 6, "replace-one", "record")
    plan = fedavg.stated(
        Problem(np.array(SIZES), 3, budget, "gaussian", 1.0, 1.0, "B"), 8, 2, 6, StepSize(0.1, 5.0)
    )
    every = plan.as_dict()["noise_per_round"]
    assert len(every) == 4
    monkeypatch.setattr("noiseworthy.plans.plan._MOST_SAID", 23)
    assert plan.as_dict()["noise_per_round"] == [every[0], every[-1]]
