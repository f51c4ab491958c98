"""The rivals of DPFL-BCS from a study file: counts, grids, training, and what cannot be planned."""

from __future__ import annotations

import json

import numpy as np
import pytest

from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.methods.rivals.planner import RIVALS
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.measure import step_records
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.training import train
from noiseworthy.sweeps.compare import compare, grid_of, setting_of

UNLIKE = [0.0, 0.1, 0.0, 0.4]
SIZES = {
    "federation": {"sizes": [600, 600, 300, 500]},
    "task": {"dimension": 4266},
    "privacy": {"mechanism": "gaussian", "epsilon": [0.1, 1.0, 3.0, 2.0], "delta": 1e-5, "clip_norm": 20.0},
    "algorithm": {"name": "weiavg", "clients_per_round": 2, "step_size": 0.05, "momentum": 0.9},
}
IRIS = {
    "federation": {"data": "iris", "clients": 6, "partition": "iid"},
    "task": {"ridge": 0.1, "feature_norm": 1.0},
    "privacy": {"mechanism": "laplace", "epsilon": {"loguniform": [5.0, 60.0]}, "clip_norm": 0.5},
    "algorithm": {"name": "privatefl", "rounds": 12, "clients_per_round": 2, "step_size": 0.5,
                  "personal_step_size": 0.2, "momentum": 0.5},
    "compare": {"seeds": [5], "clients_per_round": [2]},
}  # fmt: skip


def changed(base, **tables):
    return {**base, **{name: {**base.get(name, {}), **table} for name, table in tables.items()}}


def planned(raw):
    return decide(prepare(parse_study(raw))).plan


def test_clients_are_asked_alike_unless_the_study_says_otherwise():
    plan = planned(SIZES)
    assert plan.releases.tolist() == [100] * 4
    said = json.loads(json.dumps(plan.as_dict(), allow_nan=False))
    assert (said["algorithm"], said["momentum"], said["step_size"]) == ("weiavg", 0.9, 0.05)
    assert said["predicted"] is None
    assert "personal_step_size" not in said
    assert plan.outcome.endswith("clients are asked 100 times, all alike.")


@pytest.mark.parametrize(
    "constants", [{}, {"smoothness": 1, "strong_convexity": 0.1, "heterogeneity": UNLIKE}]
)
def test_a_biased_selection_is_that_of_dpfl_bcs(constants):
    own = planned({
        **SIZES, "constants": constants,
        "algorithm": {"name": "dpfl-bcs", "clients_per_round": 2, "estimation_rounds": 0},
    })  # fmt: skip
    raw = {**changed(SIZES, algorithm={"selection": "biased"}), "constants": constants}
    plan = planned(raw)
    assert np.ptp(plan.releases) > 100
    np.testing.assert_array_equal(plan.releases, own.releases)
    np.testing.assert_array_equal(plan.noise, own.noise)
    assert plan.constants == own.constants
    assert any("No heterogeneity" in note for note in plan.notes) == (not constants)
    assert plan.outcome.endswith("as DPFL-BCS would ask them.")


def test_momentum_of_dpfl_bcs_is_in_its_plan():
    algorithm = {"name": "dpfl-bcs", "clients_per_round": 2, "momentum": 0.9, "estimation_rounds": 0}
    assert planned({**SIZES, "algorithm": algorithm}).momentum == 0.9


@pytest.mark.parametrize("name", ["weiavg", "dpfl-bcs"])
def test_averaging_as_stated_is_in_the_plan(name):
    algorithm = {"name": name, "clients_per_round": 2, "step_size": 0.05, "averaging": 0.25}
    algorithm |= {"estimation_rounds": 0} if name == "dpfl-bcs" else {}
    assert planned({**SIZES, "algorithm": algorithm}).averaging == 0.25


def test_the_step_of_transforms_is_that_of_the_public_code_unless_stated():
    bare = {k: v for k, v in IRIS["algorithm"].items() if k != "personal_step_size"}
    assert planned({**IRIS, "algorithm": bare}).personal_step == 0.1
    assert planned(IRIS).personal_step == 0.2


REFUSED = {
    "noise": ({"algorithm": {"name": "dmldp"}}, InvalidInput, 'dmldp needs mechanism = "laplace"'),
    "K above N": ({"algorithm": {"clients_per_round": 5}}, InvalidInput, "between 1 and 4, got 5"),
    "batches": ({"privacy": {"sampling_rate": 0.5}}, InvalidInput, "weiavg takes full batches"),
    "free clip": ({"privacy": {"clip_norm": "auto"}}, ConfigError, "L2 noise for weiavg; state a number"),
    "bias of Laplace with delta": (
        {"privacy": {"mechanism": "laplace"}, "algorithm": {"selection": "biased"}},
        InvalidInput,
        "pure epsilon",
    ),
    "unweighed heterogeneity": (
        {"algorithm": {"selection": "biased"}, "constants": {"heterogeneity": UNLIKE}},
        InvalidInput,
        "smoothness and strong_convexity",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_planned_is_refused_with_a_remedy(case):
    changes, error, says = REFUSED[case]
    with pytest.raises(error, match=says):
        planned(changed(SIZES, **changes))


@pytest.fixture(scope="module")
def iris():
    prepared = prepare(parse_study(IRIS))
    return prepared, decide(prepared).plan


@pytest.mark.parametrize("name", RIVALS)
def test_fixed_settings_are_of_the_same_algorithm_and_ask_all_alike(iris, name):
    mechanism = {"fedsgd": "none", "dpsgd": "gaussian"}.get(name, "laplace")
    raw = changed(IRIS, privacy={"mechanism": mechanism, "delta": 1e-5 if mechanism == "gaussian" else 0.0})
    bare = {k: v for k, v in raw["algorithm"].items() if name == "privatefl" or k != "personal_step_size"}
    prepared = prepare(parse_study({**raw, "compare": {}, "algorithm": {**bare, "name": name}}))
    plan = decide(prepared).plan
    cells = grid_of(plan, plan.step, prepared.study.compare, 100, "B")
    assert [setting_of(cell) for cell in cells] == [{"clients_per_round": k, "rounds": 12} for k in (1, 2, 4)]
    for cell in cells:
        assert (cell.algorithm, cell.momentum, cell.personal_step) == (name, 0.5, plan.personal_step)
        assert cell.releases.tolist() == [2 * cell.clients_per_round] * 6


def test_a_step_is_measured_on_all_records(iris):
    prepared, _ = iris
    np.testing.assert_array_equal(step_records(prepared), prepared.sizes)


def test_training_asks_as_planned_and_resumes_to_the_same_end(iris, tmp_path):
    """Transforms and momentum are in the checkpoint: a stop between two evaluations changes nothing."""
    prepared, plan = iris

    class Stop(Exception):
        pass

    def stop(done):
        if done > 0.4:
            raise Stop

    whole = train(plan, *prepared.trained(), [0, 1], evaluations=3)
    with pytest.raises(Stop):
        train(plan, *prepared.trained(), [0, 1], evaluations=3, folder=tmp_path, on_progress=stop)
    again = train(plan, *prepared.trained(), [0, 1], evaluations=3, folder=tmp_path, resume=True)
    np.testing.assert_array_equal(again.theta, whole.theta)
    np.testing.assert_array_equal(again.uploads, [plan.releases] * 2)
    assert np.all(plan.spent(whole.uploads[0]) <= plan.budget.epsilon)


@pytest.mark.full
def test_a_comparison_trains_the_plan_beside_the_grid(iris):
    prepared, plan = iris
    comparison = compare(plan, *prepared.trained(), prepared.study)
    assert [cell.setting for cell in comparison.grid] == [{"clients_per_round": 2, "rounds": 12}]
    np.testing.assert_allclose(comparison.grid[0].loss, comparison.planned.loss)
