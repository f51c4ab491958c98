"""Plans of DPFL-BCS's rivals: counts, noise by hand, words, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dpfl_bcs import planner as participation
from noiseworthy.methods.rivals import planner as rivals
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.budget import PrivacyBudget

STEP = StepSize(0.05, 200.0)
SIZES, EPSILON = np.array([600, 300, 450, 600]), np.array([0.1, 0.5, 1.0, 3.0])


def problem(family="gaussian", epsilon=EPSILON, **facts):
    delta = 1e-5 if family == "gaussian" else 0.0
    return Problem(SIZES, 11, PrivacyBudget.of(epsilon, delta, 4), family, 2.0, **facts)


def planned(name="weiavg", given=None, **chosen):
    stated = {"rounds": 10, "clients_per_round": 2, "step": STEP, **chosen}
    return rivals.plan(name, problem() if given is None else given, **stated)


def std_per_sensitivity(epsilon, delta):
    """s(eps, delta) from the definition of the Gaussian trade-off."""

    def excess(mu):
        return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta

    return 1 / brentq(excess, 1e-4, 50, xtol=1e-13)


@pytest.mark.parametrize("name", ["dpsgd", "weiavg", "pfa", "privatefl"])
@pytest.mark.parametrize("counts", [None, [0, 3, 7, 10]])
def test_gaussian_noise_pays_for_the_counts_exactly(name, counts):
    plan = planned(name, counts=counts)
    asked = np.array([5, 5, 5, 5] if counts is None else counts)
    np.testing.assert_array_equal(plan.releases, asked)
    s = np.array([std_per_sensitivity(epsilon, 1e-5) for epsilon in EPSILON])
    np.testing.assert_allclose(plan.noise, 2 * 2.0 / SIZES * np.sqrt(np.maximum(asked, 1)) * s, rtol=1e-6)
    np.testing.assert_allclose(plan.spent()[asked > 0], EPSILON[asked > 0], rtol=1e-6)
    assert np.all(plan.spent() <= EPSILON)


@pytest.mark.parametrize("name", ["dmldp", "weiavg", "pfa", "privatefl"])
def test_laplace_noise_splits_the_budget_evenly(name):
    plan = planned(name, problem("laplace"), rounds=7, clients_per_round=3)
    np.testing.assert_array_equal(plan.releases, [6, 5, 5, 5])
    np.testing.assert_allclose(plan.noise, 2 * 2.0 * plan.releases / (SIZES * EPSILON), rtol=1e-12)


@given(clients=st.integers(1, 30), share=st.floats(0, 1), rounds=st.integers(1, 60), seed=st.integers(0, 99))
@settings(max_examples=60)
def test_nobody_is_asked_unlike_the_others_or_overspends(clients, share, rounds, seed):
    draw, k = np.random.default_rng(seed), max(1, round(share * clients))
    budget = PrivacyBudget.of(draw.uniform(0.1, 5, clients), 1e-5, clients)
    facts = Problem(draw.integers(5, 90, clients), 7, budget, "gaussian", 1.0)
    plan = planned("dpsgd", facts, rounds=rounds, clients_per_round=k)
    assert plan.releases.sum() == k * rounds
    assert plan.releases.max() <= rounds
    assert np.ptp(plan.releases) <= 1
    assert np.all(plan.spent() <= budget.epsilon)


def test_selection_composes_with_any_rival():
    chosen = participation.plan(problem(), {}, rounds=10, clients_per_round=2)
    for name in ("dpsgd", "weiavg", "pfa", "privatefl"):
        plan = planned(name, counts=chosen.releases)
        np.testing.assert_array_equal(plan.releases, chosen.releases)
        np.testing.assert_array_equal(plan.noise, chosen.noise)


def test_a_plan_says_who_is_asked_and_how_often():
    assert planned().outcome == (
        "Train 10 rounds asking 2 of 4 clients in each; clients are asked 5 times, all alike."
    )
    assert planned(counts=[0, 3, 7, 10], notes=("so it is",)).outcome == (
        "Train 10 rounds asking 2 of 4 clients in each; clients are asked 0 to 10 times, as DPFL-BCS would "
        "ask them."
    )
    assert planned(counts=[0, 3, 7, 10], notes=("so it is",)).notes == ("so it is",)


@pytest.mark.parametrize("name", rivals.RIVALS)
def test_a_plan_names_its_algorithm_and_has_the_keys_of_the_contract(name):
    plan = planned(name, problem(rivals.RIVALS[name].mechanisms[0]), momentum=0.9, personal_step=0.2)
    said = plan.as_dict()
    assert (said["algorithm"], said["momentum"], said["step_size"]) == (name, 0.9, 0.05)
    assert said.get("personal_step_size") == (0.2 if name == "privatefl" else None)
    assert said["predicted"] is None
    assert said["citation"].startswith(("McMahan", "Abadi", "Wu", "Liu", "Yang"))
    assert said["privacy"]["private"] == (name != "fedsgd")
    assert sum(said["releases"]) == 20


REFUSED = {
    "name": ({"name": "fedprox"}, "algorithm must be one of 'fedsgd', 'dpsgd', .* got 'fedprox'"),
    "noise of fedsgd": ({"name": "fedsgd"}, 'fedsgd needs mechanism = "none", got "gaussian"; set it'),
    "noise of dpsgd": ({"name": "dpsgd", "given": problem("laplace")}, 'mechanism = "gaussian", got "lap'),
    "noise of dmldp": ({"name": "dmldp"}, '"gaussian": dpsgd, weiavg, pfa, privatefl$'),
    "Poisson": ({"given": problem(sampling_rate=0.5)}, "weiavg takes full batches, got sampling_rate = 0.5"),
    "K above N": ({"clients_per_round": 5}, "clients_per_round must be between 1 and 4, got 5"),
    "no rounds": ({"rounds": 0}, "rounds must be at least 1, got 0"),
    "momentum": ({"momentum": 1.0}, r"momentum must lie in \[0, 1\), got 1"),
    "personal step": ({"name": "privatefl", "personal_step": -0.1}, "personal_step must be .* got -0.1"),
    "other sum": ({"counts": [5, 5, 5, 4]}, "counts must sum to .* = 20, got 19"),
    "above T": ({"counts": [0, 0, 9, 11]}, "counts must be at most rounds = 10, got 11 for client 3"),
    "too few": ({"counts": [10, 10]}, "one entry for each of 4 clients"),
    "poor": (
        {"given": problem(resources=Resources.of(1.0, 0.0, [9, 9, 4, 9], 4))},
        r"\[resources\] budget pays for 4 replies of client 2, got counts = 5",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_planned_is_refused_with_a_remedy(case):
    changes, says = REFUSED[case]
    with pytest.raises(InvalidInput, match=says):
        planned(**changes)


def test_other_clipping_modes_are_refused():
    with pytest.raises(InvalidInput, match=r"clipping mode A\), got mode B"):
        planned(given=problem().clipped_as("B"))
