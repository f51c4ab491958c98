"""The power of the best test between neighbours: closed forms beside brute force over likelihood ratios."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import norm

from noiseworthy.privacy.gaussian import gaussian_delta, gaussian_mu
from noiseworthy.privacy.laplace import laplace_epsilon, laplace_profile
from noiseworthy.privacy.power import (
    GaussianPower,
    ProfiledPower,
    after_two_moves,
    laplace_power,
    poisson_power,
)

ALARMS = np.array([1e-3, 0.01, 0.05, 0.2, 0.5])


def best_power(absent: np.ndarray, present: np.ndarray, alarms: np.ndarray) -> np.ndarray:
    """Of the Neyman-Pearson test between two laws on the same points, ties decided by a coin."""
    order = np.argsort(-(present / np.maximum(absent, 1e-300)), kind="stable")
    alarm, hit = (np.concatenate([[0.0], np.cumsum(law[order])]) for law in (absent, present))
    return np.interp(alarms, alarm, hit)


def one_laplace(ratio: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Laws of the loss of one Laplace release on a grid of `steps` to the ratio, absent and present."""
    x = (np.arange(-steps * 400, steps * 400) + 0.5) * ratio / steps
    loss = np.rint((np.abs(x) - np.abs(x - ratio)) / ratio * steps).astype(int) + steps
    laws = [np.exp(-np.abs(x - mean)) for mean in (0.0, ratio)]
    absent, present = (np.bincount(loss, law, minlength=2 * steps + 1) / law.sum() for law in laws)
    return absent, present


def composed(laws, count):
    whole = laws
    for _ in range(count - 1):
        whole = tuple(np.convolve(one, other) for one, other in zip(whole, laws, strict=True))
    return whole


@pytest.mark.parametrize("mu", [0.05, 0.27, 1.0, 4.0])
def test_gaussian_power_is_that_of_the_best_test_and_of_its_profile(mu):
    x = (np.arange(-12_000, 12_000) + 0.5) / 1000
    laws = [norm.pdf(x - shift) / 1000 for shift in (0.0, mu)]
    power = GaussianPower(mu)
    np.testing.assert_allclose(power.at(ALARMS), best_power(*laws, ALARMS), atol=1e-4)
    epsilon = np.linspace(0, 12, 4000)
    profiled = ProfiledPower(epsilon, gaussian_delta(epsilon, mu))
    np.testing.assert_allclose(profiled.at(ALARMS), power.at(ALARMS), atol=1e-4)
    assert profiled.guess == pytest.approx(power.guess, abs=1e-9)
    assert power.guess == pytest.approx((1 + np.abs(laws[0] - laws[1]).sum() / 2) / 2, abs=1e-4)


@pytest.mark.parametrize(("ratio", "count"), [(1.0, 1), (0.5, 4), (0.05, 30), (2.0, 3)])
def test_laplace_power_is_that_of_the_best_test_and_never_less(ratio, count):
    absent, present = composed(one_laplace(ratio, 200), count)
    power, best = laplace_power(ratio, count), best_power(absent, present, ALARMS)
    assert np.all(power.at(ALARMS) >= best - 2e-4)
    np.testing.assert_allclose(power.at(ALARMS), best, atol=3e-3)
    variation = np.abs(absent - present).sum() / 2
    assert power.guess == pytest.approx((1 + variation) / 2, abs=2e-3)


def test_a_single_laplace_release_is_exactly_a_pure_epsilon():
    one, stated = laplace_power(1.3, 1), ProfiledPower(np.array([1.3]), np.array([0.0]))
    small = np.array([1e-3, 0.01, 0.1])
    np.testing.assert_allclose(one.at(small), stated.at(small))
    assert one.guess < stated.guess


@pytest.mark.parametrize(("ratio", "count"), [(0.5, 4), (0.02, 300), (1e-4, 10), (3.0, 5)])
def test_the_profile_of_laplace_noise_agrees_with_its_accountant(ratio, count):
    epsilon, delta = laplace_profile(ratio, count)
    assert epsilon[0] == 0
    assert np.all(np.diff(epsilon) >= 0)
    assert (epsilon[-1], delta[-1]) == (pytest.approx(ratio * count), 0.0)
    for wanted in (0.2, 0.02, 1e-3):
        exact = laplace_epsilon(ratio, count, wanted)
        ours = float(epsilon[delta <= wanted].min())
        assert exact * (1 - 1e-3) <= ours <= exact * 1.02 + 0.02 * ratio * math.sqrt(count)


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_poisson_power_bounds_both_directions_and_is_near_the_better(rate):
    x = (np.arange(-12_000, 14_000) + 0.5) / 1000
    absent = norm.pdf(x) / 1000
    present = (1 - rate) * absent + rate * norm.pdf(x - 1.5) / 1000
    claimed = poisson_power(1.5, rate, 1).at(ALARMS)
    both = [best_power(absent, present, ALARMS), best_power(present, absent, ALARMS)]
    assert np.all(claimed >= np.max(both, axis=0) - 1e-4)
    np.testing.assert_allclose(claimed, np.max(both, axis=0), rtol=0.12)


@given(epsilon=st.floats(0, 1e5), delta=st.floats(0, 0.9), alarm=st.floats(0, 1))
@example(epsilon=1000.0, delta=0.25, alarm=0.0)
def test_power_lies_between_blind_and_certain(epsilon, delta, alarm):
    power = ProfiledPower(np.array([epsilon]), np.array([delta]))
    assert alarm <= power.at([alarm])[0] <= 1
    assert 0.5 <= power.guess <= 1
    two = after_two_moves(power, [alarm])[0]
    assert power.at([alarm])[0] <= two <= 1


@given(mu=st.floats(0.01, 5), alarm=st.floats(1e-4, 0.999))
def test_what_epsilon_and_delta_say_alone_is_never_less_than_the_exact_power(mu, alarm):
    epsilon = 0.7 * mu
    stated = ProfiledPower(np.array([epsilon]), gaussian_delta(epsilon, np.array([mu])))
    exact = GaussianPower(mu)
    assert stated.at([alarm])[0] >= exact.at([alarm])[0] - 1e-9
    assert stated.guess >= exact.guess - 1e-12
    np.testing.assert_allclose(after_two_moves(exact, [alarm]), GaussianPower(2 * mu).at([alarm]), rtol=1e-6)


def test_a_posterior_beyond_the_odds_of_epsilon_is_sixteen_times_as_likely_as_delta():
    """Why no card says how sure a reader becomes: epsilon 1 at delta 1e-5, both data sets equally likely."""
    mu = float(gaussian_mu(1.0, 1e-5))
    loss = np.random.default_rng(7).normal(mu**2 / 2, mu, 4_000_000)
    beyond = np.mean(1 / (1 + np.exp(-loss)) > math.e / (1 + math.e))
    exact = norm.sf((1 - mu**2 / 2) / mu)
    assert beyond == pytest.approx(exact, rel=0.2)
    assert 15 < exact / 1e-5 < 17
