"""Families of noise against brute force: total variation, delta and trade-off curves by integration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy.stats import norm

from noiseworthy.audit.families import GaussianFamily, LossFamily, largest_rejected, tradeoff
from noiseworthy.privacy.accountants import spent_epsilon
from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon
from noiseworthy.privacy.mechanisms import Gaussian, Laplace
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import of_mean_gradient


def laplace_variation(ratio: float, count: int, bins: int = 400) -> float:
    """Total variation of `count` Laplace releases of one shift, by convolution of the law of their losses."""
    x = (np.arange(-60 * bins, 60 * bins) + 0.5) / bins
    density = np.exp(-np.abs(x)) / 2 / bins
    loss = np.abs(x - ratio) - np.abs(x)
    points = np.rint(loss / ratio * 500).astype(int) + 500
    one = np.bincount(points, density, minlength=1001)
    whole = one
    for _ in range(count - 1):
        whole = np.convolve(whole, one)
    losses = (np.arange(len(whole)) - 500 * count) * ratio / 500
    return float(np.sum(whole * np.maximum(0, 1 - np.exp(-losses))))


@pytest.mark.parametrize(("ratio", "count"), [(0.5, 1), (0.5, 4), (2.0, 3), (0.05, 30)])
def test_laplace_releases_have_the_total_variation_of_their_convolution(ratio, count):
    ours = LossFamily(Laplace.law, (((ratio, count),),)).advantage(1.0)
    assert ours == pytest.approx(laplace_variation(ratio, count), rel=2e-3)
    if count == 1:
        assert ours == pytest.approx(1 - np.exp(-ratio / 2), rel=1e-4)


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_a_poisson_release_has_the_total_variation_of_its_mixture(rate):
    ratio = 1.5
    gap = lambda x: abs(rate * (norm.pdf(x - ratio) - norm.pdf(x))) / 2  # noqa: E731
    exact, _ = integrate.quad(gap, -12, 14)
    assert LossFamily(Gaussian.law, (((ratio, 1),),), rate).advantage(1.0) == pytest.approx(exact, rel=2e-3)


def test_different_releases_compose_as_their_losses_add():
    parts = ((0.3, 2), (1.1, 1))
    whole = LossFamily(Laplace.law, (parts,)).advantage(1.0)
    signs = list(itertools.product([0.3, -0.3], [0.3, -0.3], [1.1, -1.1]))
    least = max(LossFamily(Laplace.law, (((ratio, 1),),)).advantage(1.0) for ratio in (0.3, 1.1))
    most = sum(0.5 * max(0, 1 - np.exp(-sum(one))) for one in signs) / 4 + 1 - np.exp(-0.85)
    assert least < whole < most


def test_the_products_own_accountant_agrees():
    ours = LossFamily(Laplace.law, (((0.05, 40),),)).epsilon(1.0, np.array([1e-5]))
    upload = Release(Laplace(np.array([0.4])), of_mean_gradient(1.0, [100], "l1"))
    np.testing.assert_allclose(ours, spent_epsilon(upload, 40, 1e-5), rtol=2e-3)
    ours = LossFamily(Gaussian.law, (((0.8, 30),),), 0.1).epsilon(1.0, np.array([1e-5]))
    batch = of_mean_gradient(1.0, [100], "l2", "add-remove", 0.1)
    upload = Release(Gaussian(batch.value / 0.8), batch, 0.1)
    np.testing.assert_allclose(ours, spent_epsilon(upload, 30, 1e-5), rtol=2e-3)


def test_pure_epsilon_is_the_sum_of_all_ratios():
    family = LossFamily(Laplace.law, (((0.5, 3), (0.25, 2)), ((1.0, 1),)))
    np.testing.assert_allclose(family.epsilon(1.5, np.zeros(2)), [3.0, 1.5])


def test_a_family_of_clients_is_the_mean_of_its_clients():
    mu = np.array([0.5, 1.0, 3.0])
    alone = [GaussianFamily(np.array([one])) for one in mu]
    together = GaussianFamily(mu)
    assert together.advantage(0.7) == pytest.approx(np.mean([one.advantage(0.7) for one in alone]))
    assert together.delta_at(1.0, 1.0) == pytest.approx(np.mean([one.delta_at(1.0, 1.0) for one in alone]))
    np.testing.assert_allclose(together.epsilon(1.0, np.full(3, 1e-5)), gaussian_epsilon(mu, 1e-5))


@settings(max_examples=40)
@given(st.lists(st.floats(0.05, 4), min_size=1, max_size=4), st.floats(0.1, 3))
def test_the_scale_is_found_again_from_its_advantage(mu, scale):
    family = GaussianFamily(np.array(mu))
    assert largest_rejected(family, family.advantage(scale)) == pytest.approx(scale, rel=1e-3)


def test_the_scale_is_found_again_for_laplace_noise():
    family = LossFamily(Laplace.law, (((0.1, 20),), ((0.3, 5),)))
    assert largest_rejected(family, family.advantage(1.3)) == pytest.approx(1.3, rel=2e-3)


def test_no_advantage_rejects_nothing_and_certainty_is_cut_off():
    family = GaussianFamily(np.array([1.0]))
    assert largest_rejected(family, 0.0) == 0.0
    assert largest_rejected(GaussianFamily(np.array([1e-3])), 0.999) == 1e3


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_the_tradeoff_of_gaussian_noise_is_the_textbook_curve(mu):
    rates = np.linspace(0, 1, 41)
    expected = norm.cdf(norm.isf(rates) - mu)
    np.testing.assert_allclose(
        tradeoff(GaussianFamily(np.array([mu])), 1.0, rates.tolist()), expected, atol=2e-3
    )


def test_the_tradeoff_of_one_laplace_release_is_the_textbook_curve():
    ratio, rates = 1.2, np.linspace(0, 1, 41)
    tail = np.exp(-ratio)
    middle = tail / 4 / np.maximum(rates, 1e-9)
    curve = np.where(rates < tail / 2, 1 - rates / tail, np.where(rates < 0.5, middle, tail * (1 - rates)))
    np.testing.assert_allclose(
        tradeoff(LossFamily(Laplace.law, (((ratio, 1),),)), 1.0, rates.tolist()), curve, atol=3e-3
    )
