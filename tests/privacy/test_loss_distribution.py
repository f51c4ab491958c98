"""Poisson accounting against closed forms, theory's table and two other libraries."""

from __future__ import annotations

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.privacy import loss_distribution
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.calibration import unit_noise
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon
from noiseworthy.privacy.loss_distribution import poisson_gaussian_epsilon, poisson_gaussian_loss

# docs/theory/accounting.md#subsampled-records: releases, epsilon,
# std of the mean's noise in units C/n, q = 0.01
POISSON_TABLE = [
    (10, 0.1, 159.7), (10, 0.5, 93.0), (10, 1.0, 77.9),
    (50, 0.1, 249.0), (50, 0.5, 104.9), (50, 1.0, 85.8),
    (100, 0.1, 330.3), (100, 0.5, 114.3), (100, 1.0, 90.2),
]  # fmt: skip


def poisson_noise(epsilon: float, releases: int, rate: float) -> float:
    budget = PrivacyBudget.of(epsilon, 1e-5, 1, "add-remove")
    return float(unit_noise("gaussian", budget, releases, rate)[0]) / rate


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


@pytest.mark.parametrize("rate", [1e-3, 0.07, 0.5, 1 - 1e-9, 1.0])
@pytest.mark.parametrize("ratio", [0.01, 0.3, 2.0])
def test_losses_inverted_at_once_are_those_that_the_library_inverts_one_by_one(ratio, rate):
    grid = ratio / 500
    ours = poisson_gaussian_loss(ratio, rate, grid)
    theirs = from_gaussian_mechanism(1 / ratio, sampling_prob=rate, value_discretization_interval=grid)
    for epsilon in (grid * np.arange(-300, 300), np.linspace(-3 * ratio, 3 * ratio, 100)):
        assert np.array_equal(ours.get_delta_for_epsilon(epsilon), theirs.get_delta_for_epsilon(epsilon))
    assert ours.get_epsilon_for_delta(1e-8) == theirs.get_epsilon_for_delta(1e-8)


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


def test_the_noise_of_poisson_batches_in_the_cheapest_case():
    assert poisson_noise(0.1, 10, 0.01) == pytest.approx(159.7, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("releases", "epsilon", "std"), POISSON_TABLE)
def test_the_noise_of_poisson_batches(releases, epsilon, std):
    assert poisson_noise(epsilon, releases, 0.01) == pytest.approx(std, rel=1e-3)


@pytest.mark.parametrize(("mu", "releases", "delta"), [(1.0, 100, 1e-12), (5.0, 10_000, 1e-10)])
def test_a_small_delta_is_not_lost_in_the_rounding_of_the_library(mu, releases, delta):
    """Nearly every record sampled: the exact answer is known, and never undercut."""
    exact = float(gaussian_epsilon(mu, delta))
    found = poisson_gaussian_epsilon(mu / np.sqrt(releases), 1 - 1e-9, releases, delta)
    assert exact * (1 - 1e-6) <= found <= exact * 1.001


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.1, 1.0, 5.0])
def test_a_hundred_thousand_poisson_batches_are_right_down_to_the_smallest_delta(mu):
    exact = float(gaussian_epsilon(mu, 1e-9))
    found = poisson_gaussian_epsilon(mu / np.sqrt(100_000), 1 - 1e-9, 100_000, 1e-9)
    assert exact * (1 - 1e-6) <= found <= exact * 1.001
    with pytest.raises(InvalidInput, match="delta must be at least 1e-09 for 100000 Poisson batches"):
        poisson_gaussian_epsilon(mu / np.sqrt(100_000), 1 - 1e-9, 100_000, 1e-10)


@pytest.mark.parametrize(("releases", "epsilon", "std"), [(10, 0.1, 97.2), (50, 0.5, 49.7), (100, 1.0, 37.3)])
def test_the_noise_of_full_batches(releases, epsilon, std):
    assert np.sqrt(releases) / float(gaussian_mu(epsilon, 1e-5)) == pytest.approx(std, abs=0.051)


def test_poisson_refuses_a_delta_that_cut_tails_hide():
    with pytest.raises(InvalidInput, match=r"delta must be at least 1e-13 .* got 1e-20; use full batches"):
        poisson_gaussian_epsilon(1.0, 0.1, 10, 1e-20)


def test_noise_too_loud_for_a_million_batches_is_refused_before_it_is_counted(monkeypatch):
    monkeypatch.setattr(loss_distribution, "poisson_gaussian_loss", lambda *_: pytest.fail("it was made"))
    with pytest.raises(
        InvalidInput, match=r"at most 5e\+04 times what a record changes, got 1e\+08; use less"
    ):
        poisson_gaussian_epsilon(1e-8, 0.01, 1_000_000, 1e-5)


def test_an_answer_that_moves_with_the_grid_is_refused():
    from noiseworthy.privacy.loss_distribution import _trusted

    with pytest.raises(UnsoundClaim, match=r"has not settled at grid 2.5e-05 .*use fewer releases"):
        _trusted(lambda grid: 1 + 1e4 * grid, 1.0)
    assert _trusted(lambda grid: 1 + grid, 1.0) == 1 + 1e-4
