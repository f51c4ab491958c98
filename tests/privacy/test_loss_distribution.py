"""Laplace and Poisson accounting against closed forms, theory's tables and two other libraries."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.calibration import unit_noise
from noiseworthy.privacy.gaussian import gaussian_epsilon, gaussian_mu
from noiseworthy.privacy.loss_distribution import laplace_epsilon, poisson_gaussian_epsilon

LAPLACE_TABLE = [  # theory 0.4: epsilon, releases, scale for L1 sensitivity 1 at delta 1e-5
    (0.1, 10, 90.88), (0.1, 100, 305.2), (0.1, 1000, 971.6),
    (0.5, 10, 19.61), (0.5, 100, 69.52), (0.5, 1000, 222.0),
    (1.0, 10, 9.901), (1.0, 100, 36.75), (1.0, 1000, 117.7),
    (3.0, 10, 3.322), (3.0, 100, 13.55), (3.0, 1000, 43.75),
    (10.0, 10, 0.999), (10.0, 100, 4.737), (10.0, 1000, 15.61),
]  # fmt: skip

POISSON_TABLE = [  # theory 0.5: releases, epsilon, std of the mean's noise in units C/n, q = 0.01
    (10, 0.1, 159.7), (10, 0.5, 93.0), (10, 1.0, 77.9),
    (50, 0.1, 249.0), (50, 0.5, 104.9), (50, 1.0, 85.8),
    (100, 0.1, 330.3), (100, 0.5, 114.3), (100, 1.0, 90.2),
]  # fmt: skip


def laplace_noise(epsilon: float, delta: float, releases: int) -> float:
    return float(unit_noise("laplace", PrivacyBudget.of(epsilon, delta, 1), releases)[0])


def poisson_noise(epsilon: float, releases: int, rate: float) -> float:
    budget = PrivacyBudget.of(epsilon, 1e-5, 1, "add-remove")
    return float(unit_noise("gaussian", budget, releases, rate)[0]) / rate


def simulated_delta(
    shift: float, releases: int, epsilon: float, draws: int, seed: int
) -> tuple[float, float]:
    """Mean and standard error of (1 - e^(epsilon - loss))_+ over draws of k Laplace losses."""
    x = np.random.default_rng(seed).laplace(size=(draws, releases))
    loss = (np.abs(x - shift) - np.abs(x)).sum(axis=1)
    excess = np.maximum(-np.expm1(epsilon - loss), 0)
    return excess.mean(), excess.std() / np.sqrt(draws)


# Laplace ------------------------------------------------------------------------------------------


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
def test_the_laplace_table_of_theory_0_4(epsilon, releases, scale):
    assert laplace_noise(epsilon, 1e-5, releases) == pytest.approx(scale, rel=1e-3)


@settings(max_examples=25)
@given(
    st.floats(-2, 0).map(lambda x: 10.0**x),
    st.integers(1, 60),
    st.floats(-9, -2).map(lambda x: 10.0**x),
)
def test_the_loss_distribution_is_never_above_basic_composition(shift, releases, delta):
    epsilon = laplace_epsilon(shift, releases, delta)
    assert 0 <= epsilon <= releases * shift
    assert laplace_epsilon(shift, releases, delta / 1e3) >= epsilon * (1 - 1e-3)


def test_laplace_cost_grows_with_every_release():
    costs = [laplace_epsilon(0.05, k, 1e-5) for k in (1, 2, 5, 20, 100, 400)]
    assert np.all(np.diff(costs) > 0)
    assert costs[-1] < 0.5 * 400 * 0.05  # composition pays


@pytest.mark.parametrize("delta", [1e-15, 1e-20, 1e-300])
def test_a_delta_below_the_grid_falls_back_to_basic_composition(delta):
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


# Poisson ------------------------------------------------------------------------------------------


def library_epsilon(ratio: float, rate: float, releases: int, grid: float = 1e-4) -> float:
    """The accountant's own way in: events, both directions of add-or-remove."""
    accountant = PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=grid
    )
    gaussian = dp_accounting.GaussianDpEvent(1 / ratio)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, gaussian), releases)
    return accountant.get_epsilon(1e-5)


@pytest.mark.parametrize(("ratio", "rate", "releases"), [(1.0, 0.01, 100), (0.3, 0.2, 50), (0.9, 0.05, 5)])
def test_poisson_agrees_with_the_accountant_of_the_library(ratio, rate, releases):
    ours = poisson_gaussian_epsilon(ratio, rate, releases, 1e-5)
    assert ours == pytest.approx(library_epsilon(ratio, rate, releases), rel=2e-3)


def test_poisson_agrees_with_the_prv_accountant():
    prv = pytest.importorskip("prv_accountant")
    releases, rate, ratio = 200, 0.02, 0.8
    accountant = prv.PRVAccountant(
        prvs=prv.PoissonSubsampledGaussianMechanism(noise_multiplier=1 / ratio, sampling_probability=rate),
        max_self_compositions=releases,
        eps_error=0.01,
        delta_error=1e-10,
    )
    low, _, high = accountant.compute_epsilon(delta=1e-5, num_self_compositions=[releases])
    assert low <= poisson_gaussian_epsilon(ratio, rate, releases, 1e-5) <= high + 1e-3


def test_poisson_agrees_with_integration_for_one_release():
    """Both directions of N(0,1) against (1-q) N(0,1) + q N(m,1), integrated on a fine grid."""
    ratio, rate, delta = 1.5, 0.1, 1e-3
    x = np.linspace(-12, 14, 400_001)
    step = x[1] - x[0]
    base = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    mixed = (1 - rate) * base + rate * np.exp(-((x - ratio) ** 2) / 2) / np.sqrt(2 * np.pi)
    epsilon = poisson_gaussian_epsilon(ratio, rate, 1, delta)
    spent = [np.maximum(p - np.exp(epsilon) * q, 0).sum() * step for p, q in ((mixed, base), (base, mixed))]
    assert max(spent) <= delta * (1 + 1e-6)
    assert max(spent) >= delta * (1 - 2e-3)


def test_sampling_every_record_is_the_full_batch():
    whole = float(gaussian_epsilon(np.sqrt(20) * 0.2, 1e-5))
    assert poisson_gaussian_epsilon(0.2, 1.0, 20, 1e-5) == pytest.approx(whole, rel=1e-3)


def test_rarer_records_cost_less():
    costs = [poisson_gaussian_epsilon(0.5, rate, 50, 1e-5) for rate in (0.02, 0.1, 0.5, 1.0)]
    assert np.all(np.diff(costs) > 0)


def test_the_poisson_table_of_theory_0_5_its_cheapest_cell():
    assert poisson_noise(0.1, 10, 0.01) == pytest.approx(159.7, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("releases", "epsilon", "std"), POISSON_TABLE)
def test_the_poisson_table_of_theory_0_5(releases, epsilon, std):
    assert poisson_noise(epsilon, releases, 0.01) == pytest.approx(std, rel=1e-3)


@pytest.mark.parametrize(("releases", "epsilon", "std"), [(10, 0.1, 97.2), (50, 0.5, 49.7), (100, 1.0, 37.3)])
def test_the_full_batch_column_of_theory_0_5(releases, epsilon, std):
    assert np.sqrt(releases) / float(gaussian_mu(epsilon, 1e-5)) == pytest.approx(std, abs=0.051)


def test_poisson_refuses_a_delta_that_cut_tails_hide():
    with pytest.raises(InvalidInput, match=r"delta must be at least 1e-14 .* got 1e-20; use full batches"):
        poisson_gaussian_epsilon(1.0, 0.1, 10, 1e-20)


def test_an_answer_that_moves_with_the_grid_is_refused():
    from noiseworthy.privacy.loss_distribution import _trusted

    with pytest.raises(UnsoundClaim, match=r"has not settled at grid 2.5e-05 .*use fewer releases"):
        _trusted(lambda grid: 1 + 1e4 * grid, 1.0)
    assert _trusted(lambda grid: 1 + grid, 1.0) == 1 + 1e-4
