"""A plan by trial is explained: prediction, constants, curves beside its trials, and what-if."""

from __future__ import annotations

import json

import numpy as np
import pytest

from noiseworthy.studies.fitted import TEST_LOSS
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.record import new_record
from noiseworthy.trials import race

STUDY = {
    "federation": {"data": "iris", "clients": 4, "partition": "iid"},
    "task": {"feature_norm": 1.0, "normalise": True},
    "privacy": {"mechanism": "gaussian", "epsilon": 8.0, "delta": 1e-4, "clip_norm": 0.3},
    "algorithm": {"max_rounds": 12, "clients_per_round": 4},
    "planning": {"public": ["prior:0"], "seeds": 2},
}


@pytest.fixture(scope="module")
def short():
    """Races of one rung: what is tested comes after them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(race, "RUNGS", ())
        yield


@pytest.fixture(scope="module")
def prepared():
    return prepare(parse_study(STUDY))


@pytest.fixture(scope="module")
def decision(short, prepared):
    return decide(prepared)


@pytest.mark.full
def test_the_prediction_is_the_fitted_bound_at_the_plan_in_test_loss(decision):
    plan, bound = decision.plan, decision.what_if.bound
    assert plan.prediction.unit == TEST_LOSS
    assert plan.prediction.no_training == pytest.approx(np.log(3))
    assert plan.prediction.bound == pytest.approx(bound.at(plan) * np.log(3))
    assert plan.constants["gamma"].value == bound.gamma
    assert any(note.startswith("The form of the theory (Zhou et al.") for note in plan.notes)


@pytest.mark.full
def test_the_plans_own_curve_comes_first_and_goes_through_its_prediction(decision):
    first = decision.curves.curves[0]
    assert first.label == f"b = {decision.plan.clients_per_round}"
    at = dict(zip(first.x, first.bound, strict=True))
    assert at[decision.curves.chosen] == pytest.approx(decision.plan.prediction.bound, rel=1e-6)


def test_trials_on_the_curves_are_those_under_the_studys_own_budget(decision):
    own = [point for point in decision.what_if.bound.points if point.factor == 1]
    expected = {(point.plan.rounds, point.loss * np.log(3)) for point in own}
    assert {(mark.x, mark.loss) for mark in decision.trials} == expected
    assert {mark.label for mark in decision.trials} == {decision.curves.curves[0].label}


def test_the_predicted_course_goes_from_the_untrained_loss_to_the_trial_of_the_plan(decision):
    course, plan = decision.course, decision.plan
    assert course.rounds == sorted(set(course.rounds))
    assert (course.rounds[0], course.rounds[-1]) == (0, plan.rounds)
    assert course.loss[0] == pytest.approx(np.log(3), rel=1e-5)
    [own] = [mark for mark in decision.trials if mark.x == plan.rounds]
    assert course.loss[-1] == pytest.approx(own.loss)
    assert all(
        low <= mean <= high for low, mean, high in zip(course.least, course.loss, course.most, strict=True)
    )


def test_the_record_holds_what_if_as_plain_json(prepared, decision):
    record = new_record(prepared.study, decision, prepared.federation, prepared.dimension, name="study")
    found = json.loads(json.dumps(record, allow_nan=False))["what_if"]
    assert set(found) == {"curves", "prices", "fit", "trust"}
    assert found["curves"]["epsilon"]["own"] == 8.0
    assert len(found["curves"]["epsilon"]["trials"]) == 3


def test_the_record_holds_the_band_that_a_measurement_is_held_against(prepared, decision):
    record = new_record(prepared.study, decision, prepared.federation, prepared.dimension, name="study")
    loss, accuracy = record["foretold"]["loss"], record["foretold"]["accuracy"]
    assert loss["mean"] == decision.plan.prediction.bound
    assert loss["least"] < loss["mean"] < loss["most"]
    assert accuracy["least"] < accuracy["mean"] == decision.foretold.accuracy < accuracy["most"]


def test_without_time_the_plan_stands_unexplained(short):
    hurried = prepare(parse_study({**STUDY, "planning": {**STUDY["planning"], "budget_seconds": 1e-6}}))
    found = decide(hurried)
    assert found.what_if is None
    assert found.curves is None
    assert found.plan.prediction is None
    assert "what_if" not in new_record(hurried.study, found, hurried.federation, 1, name="study")
