"""Limits from counts hold as often as they say, checked by enumeration, and prove most of what is there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax_privacy.auditing import CanaryScoreAuditor
from scipy.stats import binom, binomtest

from noiseworthy.audit.statistics import (
    errors_of,
    family_free_epsilon,
    least_advantage,
    most_probable,
    rates_of,
)
from noiseworthy.errors import InvalidInput

FALSE_ALARM = 1e-6
"""Of each statistical test in this file."""


@given(st.integers(0, 200), st.integers(1, 200), st.sampled_from([0.001, 0.05, 0.3]))
def test_the_limit_is_scipys_exact_interval(events, trials, alarm):
    events = min(events, trials)
    exact = binomtest(events, trials, alternative="less").proportion_ci(1 - alarm, "exact").high
    assert float(most_probable(events, trials, alarm)) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("trials", [1, 7, 60])
@pytest.mark.parametrize("alarm", [0.01, 0.05, 0.4])
def test_the_limit_is_too_low_as_rarely_as_stated_whatever_the_probability(trials, alarm):
    limits = most_probable(np.arange(trials + 1), trials, alarm)
    for p in np.linspace(0.001, 0.999, 97):
        missed = binom.pmf(np.arange(trials + 1), trials, p)[limits < p].sum()
        assert missed <= alarm + 1e-12


@pytest.mark.parametrize("advantage", [0.0, 0.1, 0.5, 0.95])
def test_an_advantage_is_overstated_as_rarely_as_stated(advantage):
    trials, alarm = 150, 0.05
    errors = np.arange(trials + 1)
    found = np.array([least_advantage(int(many), trials, alarm) for many in errors])
    assert binom.pmf(errors, trials, (1 - advantage) / 2)[found > advantage].sum() <= alarm + 1e-12


def test_ten_thousand_trials_find_most_of_an_advantage():
    trials, advantage = 10_000, 0.3
    unlucky = int(binom.isf(1e-3, trials, (1 - advantage) / 2))
    assert least_advantage(unlucky, trials, 0.05) > 0.8 * advantage


def test_ties_name_the_canary_absent():
    assert errors_of(np.array([0.0, 2.0, -1.0]), np.array([0.0, 3.0])) == 3


def coins(generator, epsilon, trials):
    """Scores of randomised response, which is exactly epsilon-private: a noisy sign."""
    truth = 1 / (1 + np.exp(-epsilon))
    sign = lambda world: np.where(generator.random(trials) < truth, world, -world)  # noqa: E731
    return sign(1.0), sign(-1.0)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_the_bound_for_any_mechanism_is_too_high_as_rarely_as_stated(epsilon):
    generator, alarm, runs = np.random.default_rng(1), 0.05, 400
    above = sum(
        family_free_epsilon(*coins(generator, epsilon, 300), 0.0, alarm) > epsilon for _ in range(runs)
    )
    assert above <= binom.isf(FALSE_ALARM, runs, alarm)


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_the_bound_for_any_mechanism_proves_most_of_randomised_response(delta):
    found = family_free_epsilon(*coins(np.random.default_rng(2), 2.0, 20_000), delta, 0.05)
    assert 1.85 < found <= 2.0


def test_the_bound_for_any_mechanism_finds_what_leaks_in_one_direction_only():
    """Half of the absent worlds are told apart for certain, no present one is."""
    absent = np.repeat([-1.0, 0.0], 500)
    assert family_free_epsilon(np.zeros(1000), absent, 0.0, 0.05) > 2


def test_it_agrees_with_an_independent_estimator_to_what_half_of_the_sample_costs():
    generator = np.random.default_rng(3)
    present, absent = generator.normal(1, 1, 20_000), generator.normal(-1, 1, 20_000)
    theirs = CanaryScoreAuditor(present, absent).epsilon_clopper_pearson(0.05, delta=1e-5)
    ours = family_free_epsilon(present, absent, 1e-5, 0.05)
    assert 0.6 * theirs < ours < 1.4 * theirs


def test_nothing_is_proven_without_trials():
    assert family_free_epsilon(np.empty(0), np.array([1.0]), 0.0, 0.05) == 0.0
    assert least_advantage(0, 1, 0.05) == 0.0


def test_rates_run_from_no_alarm_to_no_miss():
    generator = np.random.default_rng(4)
    alarms, misses = map(np.array, rates_of(generator.normal(1, 1, 4000), generator.normal(-1, 1, 4000)))
    assert np.all(np.diff(alarms) >= 0)
    assert np.all(np.diff(misses) <= 0)
    assert np.all(alarms[misses > 0.9] < 0.01)


@pytest.mark.parametrize(
    ("events", "trials", "alarm"), [(3, 2, 0.05), (-1, 5, 0.05), (1, 5, 0.0), (1, 5, 1.0)]
)
def test_counts_that_cannot_be_are_refused(events, trials, alarm):
    with pytest.raises(InvalidInput):
        most_probable(events, trials, alarm)
