"""Figures of Poisson plans take little work, and noise that is never too small; plans take none from them."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.methods.fedsgd_dpc.bound import theory_bound
from noiseworthy.methods.fedsgd_dpc.planner import curves, plan
from noiseworthy.plans.problem import Constant, Problem, Sketch
from noiseworthy.privacy import calibration, loss_distribution
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.loss_distribution import poisson_gaussian_epsilon
from noiseworthy.privacy.mechanisms import gaussian_analysis

STATED = {
    "smoothness": 1.0, "strong_convexity": 0.1, "gradient_bound": 1.0, "initial_distance_sq": 900.0,
    "heterogeneity": 0.5,
}  # fmt: skip
CONSTANTS = {name: Constant(value, "assumed") for name, value in STATED.items()}


def poisson(epsilon=2.0, rate=0.2, clients=5) -> Problem:
    budget = PrivacyBudget.of(epsilon, 1e-5, clients, "add-remove")
    return Problem(np.full(clients, 600), 50, budget, "gaussian", 3.0, rate)


def test_a_stated_poisson_plan_calibrates_once_and_its_figure_in_coarse_steps(monkeypatch):
    """It calibrated in full for some fifty points of the figure: 165 CPU seconds."""
    settled, coarse = [], []

    def solve(epsilon, delta, releases, rate, full=True):
        (settled if full else coarse).append(releases)
        return np.sqrt(releases)

    monkeypatch.setattr(gaussian_analysis, "_poisson_unit_noise", solve)
    monkeypatch.setattr(calibration, "spent_epsilon", lambda *_: np.zeros(5))
    problem = poisson()
    bound = theory_bound(problem, CONSTANTS)
    made = plan(problem, bound, CONSTANTS, rounds=50, clients_per_round=5)
    curves(problem, bound, made, 500)
    assert set(settled) == {50}
    assert len(set(coarse)) <= 10
    assert max(coarse) <= 512


@pytest.mark.parametrize(("ratio", "releases"), [(0.6, 2), (0.5, 24)])
def test_a_coarse_distribution_says_no_less_and_hardly_more(ratio, releases):
    full, coarse = (
        poisson_gaussian_epsilon(ratio, 0.2, releases, 1e-5, settled=settled) for settled in (True, False)
    )
    assert full <= coarse <= 1.01 * full


@pytest.mark.full
def test_between_knots_a_sketch_is_close_to_what_it_draws():
    problem = poisson(clients=1)
    k = np.array([1, 3, 12, 24])
    known = Sketch.of(problem).weighted_noise(k)[[1, 2]]
    full = [Sketch.of(problem).weighted_noise(np.array([one]))[0] for one in (3, 12)]
    np.testing.assert_allclose(known, full, rtol=0.01)


def test_nothing_is_released_by_a_sketch():
    with pytest.raises(UnsoundClaim, match="a sketch of a problem has no release"):
        Sketch.of(poisson()).release(np.full(5, 3))


@pytest.mark.parametrize(("rate", "ratio"), [(1e-12, 1.0), (1e-5, 1.0), (0.5, 1e4)])
def test_distributions_that_take_minutes_are_refused_before_they_are_made(monkeypatch, rate, ratio):
    monkeypatch.setattr(loss_distribution, "poisson_gaussian_loss", lambda *_: pytest.fail("it was made"))
    with pytest.raises(InvalidInput, match=r"points here, which must be at most 2e\+06; raise sampling_rate"):
        poisson_gaussian_epsilon(ratio, rate, 10, 1e-5)
