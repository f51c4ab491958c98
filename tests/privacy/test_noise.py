"""Simulated noise has the stated law: two-sided tests that also reject the neighbouring scales.

Every test has a fixed seed; were the seed free, each would raise a false alarm with probability
`FALSE_ALARM`, and miss noise of 2/3 or 3/2 the size with far less.
"""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from noiseworthy._keys import Purpose, named_key
from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.mechanisms import Gaussian, Laplace, law_of
from noiseworthy.privacy.noise import ASSURANCE, simulated_noise

FALSE_ALARM = 1e-4
DRAWS = 40_000
LAWS = {"gaussian": stats.norm, "laplace": stats.laplace}
MECHANISMS = {"gaussian": Gaussian, "laplace": Laplace}
KURTOSIS = {"gaussian": 3.0, "laplace": 6.0}


def draw(family: str, size: float, seed: int = 0, dimension: int = DRAWS) -> np.ndarray:
    noise = simulated_noise(jax.random.key(seed), family, jnp.float32(size), dimension)
    return np.asarray(noise, dtype=np.float64)


def variance_is(sample: np.ndarray, variance: float, kurtosis: float) -> bool:
    """Mean square against a stated variance, at the two-sided normal quantile of the false alarm rate."""
    error = variance * np.sqrt((kurtosis - 1) / len(sample))
    return abs(np.mean(sample**2) - variance) <= stats.norm.isf(FALSE_ALARM / 2) * error


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
@pytest.mark.parametrize("size", [0.05, 1.0, 30.0])
def test_the_variance_is_that_of_the_mechanism_and_not_of_its_neighbours(family, size):
    sample = draw(family, size)
    stated = float(MECHANISMS[family](np.array([size])).variance[0])
    assert variance_is(sample, stated, KURTOSIS[family])
    for factor in (2 / 3, 3 / 2, 0.9, 1.1):
        assert not variance_is(sample, stated * factor**2, KURTOSIS[family])


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_the_whole_law_is_right_by_kolmogorov_and_smirnov(family):
    sample = draw(family, 2.5, seed=3)
    assert stats.kstest(sample, LAWS[family](scale=2.5).cdf).pvalue > FALSE_ALARM
    for factor in (2 / 3, 3 / 2):
        assert stats.kstest(sample, LAWS[family](scale=2.5 * factor).cdf).pvalue < 1e-12
    other = "laplace" if family == "gaussian" else "gaussian"
    spread = 2.5 / np.sqrt(2) if other == "laplace" else 2.5 * np.sqrt(2)  # equal variance, wrong law
    assert stats.kstest(sample, LAWS[other](scale=spread).cdf).pvalue < 1e-12


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_the_mean_is_zero(family):
    sample = draw(family, 1.0, seed=8)
    assert abs(sample.mean()) <= stats.norm.isf(FALSE_ALARM / 2) * sample.std() / np.sqrt(DRAWS)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_coordinates_are_uncorrelated(family):
    sample = draw(family, 1.0, seed=21)
    correlation = np.corrcoef(sample[:-1], sample[1:])[0, 1]
    assert abs(correlation) <= stats.norm.isf(FALSE_ALARM / 2) / np.sqrt(DRAWS)


def named_draws(family: str) -> np.ndarray:
    keys = [
        named_key(jax.random.key(seed), purpose, t, client)
        for seed in (0, 1)
        for purpose in (Purpose.NOISE, Purpose.BATCH)
        for t in range(4)
        for client in range(4)
    ]
    return np.stack([simulated_noise(key, family, jnp.float32(1.0), 400) for key in keys])


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_no_noise_is_repeated_across_seeds_purposes_rounds_and_clients(family):
    """Round 2 of client 1 and round 1 of client 2 included: names are folded in one after the other."""
    rows = named_draws(family)
    limit = stats.norm.isf(FALSE_ALARM / (2 * len(rows) ** 2)) / np.sqrt(rows.shape[1])
    correlation = np.corrcoef(rows) - np.eye(len(rows))
    assert np.abs(correlation).max() <= 1.2 * limit  # room for the heavier tails of Laplace products
    assert len(np.unique(rows.round(6), axis=0)) == len(rows)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_the_same_name_gives_the_same_noise(family):
    np.testing.assert_array_equal(named_draws(family), named_draws(family))


def test_no_noise_is_zero_and_an_unknown_law_is_refused():
    np.testing.assert_array_equal(draw("none", 3.0, dimension=5), np.zeros(5))
    with pytest.raises(
        InvalidInput, match="mechanism must be one of 'laplace', 'gaussian', 'none', got 'normal'"
    ):
        draw("normal", 1.0)


def test_simulated_noise_says_that_it_is_simulated():
    assert ASSURANCE == "simulation"


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_draws_on_the_host_are_those_of_the_distribution_to_the_last_bit(family):
    """They spare `plan` an import of half a second, and change nothing that clients tell."""
    analysis = law_of(family).analysis
    known = analysis.distribution().rvs(1000, random_state=np.random.default_rng([3, 1]))
    assert np.array_equal(analysis.host_draws(np.random.default_rng([3, 1]), 1000), known)
    code = f"""import sys, numpy
from noiseworthy.privacy.mechanisms import law_of
law_of({family!r}).analysis.host_draws(numpy.random.default_rng(0), 3)
print("scipy.stats" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
