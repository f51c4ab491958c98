"""Laplace accounting against closed forms, theory's table, two libraries and two other ways to compute it."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.calibration import unit_noise
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.privacy.laplace import laplace_epsilon

# docs/theory/accounting.md#laplace-mechanism: epsilon, releases, scale for L1 sensitivity 1 at delta 1e-5
LAPLACE_TABLE = [
    (0.1, 10, 90.88), (0.1, 100, 305.2), (0.1, 1000, 971.6),
    (0.5, 10, 19.61), (0.5, 100, 69.52), (0.5, 1000, 222.0),
    (1.0, 10, 9.901), (1.0, 100, 36.75), (1.0, 1000, 117.7),
    (3.0, 10, 3.322), (3.0, 100, 13.55), (3.0, 1000, 43.75),
    (10.0, 10, 0.999), (10.0, 100, 4.737), (10.0, 1000, 15.61),
]  # fmt: skip


def laplace_noise(epsilon: float, delta: float, releases: int) -> float:
    return float(unit_noise("laplace", PrivacyBudget.of(epsilon, delta, 1), releases)[0])


def simulated_delta(
    shift: float, releases: int, epsilon: float, draws: int, seed: int
) -> tuple[float, float]:
    """Mean and standard error of (1 - e^(epsilon - loss))_+ over draws of k Laplace losses."""
    x = np.random.default_rng(seed).laplace(size=(draws, releases))
    loss = (np.abs(x - shift) - np.abs(x)).sum(axis=1)
    excess = np.maximum(-np.expm1(epsilon - loss), 0)
    return excess.mean(), excess.std() / np.sqrt(draws)


@given(st.floats(-3, 1.5).map(lambda x: 10.0**x), st.floats(-12, -0.3).map(lambda x: 10.0**x))
def test_one_laplace_release_is_its_closed_form(shift, delta):
    """delta(epsilon) = 1 - e^((epsilon - m)/2) for 0 <= epsilon < m."""
    epsilon = laplace_epsilon(shift, 1, delta)
    assert 0 <= epsilon <= shift
    if epsilon > 0:
        assert -math.expm1((epsilon - shift) / 2) == pytest.approx(delta, rel=1e-3, abs=1e-15)
    else:
        assert -math.expm1(-shift / 2) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("delta", [1e-5, 1e-3, 0.1])
def test_one_laplace_release_agrees_with_the_library(delta):
    accountant = PLDAccountant(value_discretization_interval=1e-5)
    accountant.compose(dp_accounting.LaplaceDpEvent(1 / 0.7))
    assert laplace_epsilon(0.7, 1, delta) == pytest.approx(accountant.get_epsilon(delta), abs=2e-5)


def test_two_laplace_releases_agree_with_integration_of_the_loss():
    """Two losses m, -m and a density 1/4 e^(-(m-l)/2), convolved by hand on a fine grid."""
    shift, epsilon, step = 0.6, 0.5, 1e-3
    inner = np.arange(-shift + step / 2, shift, step)
    values = np.concatenate([[shift], inner, [-shift]])
    weights = np.concatenate([[0.5], np.exp(-(shift - inner) / 2) / 4 * step, [np.exp(-shift) / 2]])
    assert weights.sum() == pytest.approx(1, abs=1e-6)
    sums = values[:, None] + values[None, :]
    delta = float((np.maximum(-np.expm1(epsilon - sums), 0) * weights[:, None] * weights[None, :]).sum())
    assert laplace_epsilon(shift, 2, delta) == pytest.approx(epsilon, rel=2e-3)


@pytest.mark.parametrize(("shift", "releases", "epsilon"), [(0.3, 10, 1.5), (0.1, 100, 2.0)])
def test_many_laplace_releases_agree_with_simulated_losses(shift, releases, epsilon):
    """Two-sided at 4 standard errors: a false alarm in about 1 of 16,000 seeds."""
    delta, error = simulated_delta(shift, releases, epsilon, 200_000, seed=5)
    assert laplace_epsilon(shift, releases, delta + 4 * error) <= epsilon
    assert laplace_epsilon(shift, releases, delta - 4 * error) >= epsilon


@pytest.mark.parametrize(("epsilon", "releases", "scale"), LAPLACE_TABLE)
def test_the_scales_that_laplace_budgets_need(epsilon, releases, scale):
    assert laplace_noise(epsilon, 1e-5, releases) == pytest.approx(scale, rel=1e-3)


@settings(max_examples=25)
@given(st.floats(-2, 0).map(lambda x: 10.0**x), st.integers(1, 60), st.floats(-9, -2).map(lambda x: 10.0**x))
def test_the_loss_distribution_is_never_above_basic_composition(shift, releases, delta):
    epsilon = laplace_epsilon(shift, releases, delta)
    assert 0 <= epsilon <= releases * shift
    assert laplace_epsilon(shift, releases, delta / 1e3) >= epsilon * (1 - 1e-3)


def test_laplace_cost_grows_with_every_release():
    costs = [laplace_epsilon(0.05, k, 1e-5) for k in (1, 2, 5, 20, 100, 400)]
    assert np.all(np.diff(costs) > 0)
    assert costs[-1] < 0.5 * 400 * 0.05  # composition pays


@pytest.mark.parametrize("delta", [1e-15, 1e-20, 1e-300])
def test_a_delta_that_buys_nothing_falls_back_to_basic_composition(delta):
    assert laplace_epsilon(0.1, 10, delta) == pytest.approx(1.0, rel=1e-15)
    assert laplace_noise(1.0, delta, 10) == pytest.approx(10.0, rel=1e-12)


def test_laplace_agrees_with_the_prv_accountant():
    prv = pytest.importorskip("prv_accountant")
    releases, scale = 100, 36.75
    accountant = prv.PRVAccountant(
        prvs=prv.LaplaceMechanism(1 / scale),
        max_self_compositions=releases,
        eps_error=0.01,
        delta_error=1e-10,
    )
    low, _, high = accountant.compute_epsilon(delta=1e-5, num_self_compositions=[releases])
    assert low - 1e-3 <= laplace_epsilon(1 / scale, releases, 1e-5) <= high


# Exact laws --------------------------------------------------------------------------------------------


def exact_delta(epsilon: float, shift: float, releases: int) -> float:
    """delta by summing over how many losses are m, -m or in between; the last are B-splines (mpmath)."""
    with mpmath.workdps(40):
        e, m, k = mpmath.mpf(epsilon), mpmath.mpf(shift), releases
        total = mpmath.mpf(0)
        for inner in range(k + 1):
            for top in range(k - inner + 1):
                bottom = k - inner - top
                ways = mpmath.factorial(k) / mpmath.fprod(map(mpmath.factorial, (inner, top, bottom)))
                weight = ways * mpmath.mpf(2) ** -(top + bottom) * mpmath.exp(-m * bottom)
                total += weight * _excess(e, (top - bottom) * m, m, inner)
        return float(total)


def _excess(e, place, m, inner):
    """E (1 - exp(e - place - X))_+ with X the sum of `inner` losses between -m and m, unnormalised."""
    if inner == 0:
        return max(mpmath.mpf(0), 1 - mpmath.exp(e - place))
    density = _inner_density(m, inner)
    low, high = max(e - place, -inner * m), inner * m
    knots = [low, *(x for i in range(1, inner + 1) if low < (x := (2 * i - inner) * m) < high), high]
    return mpmath.fsum(
        mpmath.quad(lambda x: (1 - mpmath.exp(e - place - x)) * density(x), pair)
        for pair in pairwise(knots)
        if low < high
    )


@cache
def _inner_density(m, inner):
    """(1/4)^j e^((x - j m)/2) times the j-fold convolution of the indicator of [-m, m]."""

    def density(x):
        spline = mpmath.fsum(
            (-1) ** i * mpmath.binomial(inner, i) * (x + inner * m - 2 * i * m) ** (inner - 1)
            for i in range(inner + 1)
            if x + inner * m - 2 * i * m > 0
        ) / mpmath.factorial(inner - 1)
        return mpmath.mpf(4) ** -inner * mpmath.exp((x - inner * m) / 2) * spline

    return density


@pytest.mark.parametrize(
    ("shift", "releases", "delta"), [(0.6, 2, 1e-3), (2.0, 3, 1e-6), (0.05, 3, 1e-3), (0.7, 4, 0.05)]
)
def test_a_few_releases_are_exact_in_forty_digits(shift, releases, delta):
    """Never too small an epsilon, and at most a ten-thousandth too large a one."""
    epsilon = laplace_epsilon(shift, releases, delta)
    assert exact_delta(epsilon, shift, releases) <= delta
    assert exact_delta(epsilon * (1 - 1e-4), shift, releases) > delta


@settings(max_examples=40)
@given(
    st.floats(-6, 1).map(lambda x: 10.0**x),
    st.floats(0, 5).map(lambda x: int(10.0**x)),
    st.floats(-12, -0.01).map(lambda x: 10.0**x),
)
def test_every_budget_in_reach_gets_an_answer_between_nothing_and_basic_composition(mu, releases, delta):
    shift = mu / math.sqrt(releases)
    epsilon = laplace_epsilon(shift, releases, delta)
    assert 0 <= epsilon <= releases * shift * (1 + 1e-12)
    assert laplace_epsilon(shift * 1.01, releases, delta) >= epsilon * (1 - 1e-9)


def test_ten_thousand_releases_cost_what_gaussian_ones_do():
    """The central limit: sqrt(k) m = mu, with a difference that falls as 1/k."""
    gaps = []
    for releases in (100, 1000, 10_000):
        shift = float(gaussian_mu(1.0, 1e-5)) / math.sqrt(releases)
        gaps.append(1 - laplace_epsilon(shift, releases, 1e-5))
    assert 0 < gaps[2] < gaps[1] / 4 < gaps[0] / 16
