"""Fitting the planner's bound to trials: it finds the numbers that made the losses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noiseworthy.planning.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.trials.fitted_bound import TrialPoint, fit_replies_bound

PROBLEM = Problem(np.full(10, 50), 20, PrivacyBudget.of(2.0, 0.0, 10), "laplace", 1.0)
CELLS = [(t, b) for b in (1, 3, 10) for t in (1, 2, 5, 10, 20, 50, 100, 200)]


def points_of(gamma, sampling, rest, noise_weight, offset):
    points = []
    for t, b in CELLS:
        asked = (10 - b) / (9 * b)
        noise = 10 / b * float(PROBLEM.weighted_noise(np.array([-(-b * t // 10)]))[0])
        loss = offset + (sampling * asked + rest + noise_weight * noise) / (t + gamma)
        points.append(TrialPoint(t, asked, noise, loss))
    return points


@settings(max_examples=25)
@given(
    gamma=st.floats(1.0, 50.0),
    sampling=st.floats(0.0, 0.3),
    rest=st.floats(0.3, 0.6),
    noise_weight=st.floats(1e-4, 1e-3),
    offset=st.floats(0.0, 0.2),
)
def test_losses_that_follow_a_bound_are_fitted_closely_near_the_best(
    gamma, sampling, rest, noise_weight, offset
):
    points = points_of(gamma, sampling, rest * gamma, noise_weight, offset)
    bound, error = fit_replies_bound(points, untrained_loss=2.3)
    assert error < 0.01
    for point, (t, b) in zip(points, CELLS, strict=True):
        if point.loss < 2 * min(p.loss for p in points):
            assert bound.at(PROBLEM, t, b) == pytest.approx(2.3 * point.loss, rel=0.05, abs=0.01)


def test_the_answer_is_in_units_of_test_loss():
    points = points_of(10.0, 0.1, 5.0, 1e-3, 0.1)
    one, other = fit_replies_bound(points, 1.0)[0], fit_replies_bound(points, 3.0)[0]
    assert other.no_training == 3.0
    np.testing.assert_allclose(other.at(PROBLEM, 7, 3), 3 * one.at(PROBLEM, 7, 3), rtol=1e-9)


def test_no_term_may_be_negative_even_where_losses_rise():
    points = [TrialPoint(t, 0.0, 1.0, 0.3 + 0.002 * t) for t in (1, 10, 100)]
    bound, _ = fit_replies_bound(points, 1.0)
    assert min(bound.offset, bound.sampling, bound.rest, bound.noise_weight) >= 0


def test_diverged_trials_do_not_spoil_the_fit():
    points = points_of(10.0, 0.1, 5.0, 1e-3, 0.1)
    wild = [*points, TrialPoint(500, 0.0, 1e6, np.inf)]
    ours, theirs = fit_replies_bound(wild, 1.0), fit_replies_bound(points, 1.0)
    assert np.isfinite(ours[1])
    assert ours[0].at(PROBLEM, 20, 10) == pytest.approx(float(theirs[0].at(PROBLEM, 20, 10)), rel=0.1)
