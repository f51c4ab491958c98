"""Deployed noise: its law with tests that have power, its cost by hand, no seed anywhere, no float to attack.

OpenDP takes no seed, so that every run draws anew. Each test of a law states how often it accuses a sound
sampler; the battery is shown to catch samplers with 0.2 % wrong variance, flat or heavy tails and holes.
"""

from __future__ import annotations

import inspect
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import mpmath
import numpy as np
import pytest
from scipy import stats

from noiseworthy.errors import InvalidInput
from noiseworthy.privacy import deployed_noise, grid_mechanism, quantised, uploads
from noiseworthy.privacy.deployed_noise import STEPS, DeployedNoise, grid_surcharge
from noiseworthy.privacy.gaussian import gaussian_delta
from noiseworthy.privacy.mechanisms import Gaussian, Laplace
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import of_mean_gradient

FALSE_ALARM = 1e-6
"""Of each statistic of the battery, on draws that nobody can repeat."""
DRAWS, MANY = 60_000, 16_000_000
LAWS = {"gaussian": stats.norm, "laplace": stats.laplace}
MOMENTS = {"gaussian": (1, 3, 15, 105), "laplace": (2, 24, 720, 40_320)}
"""Second, fourth, sixth and eighth, of unit scale."""


def draws(family: str, scale: float, count: int) -> np.ndarray:
    return DeployedNoise(family, scale).added_to(np.zeros(count, np.int64)) / scale


# The battery ---------------------------------------------------------------------------------------------


def battery(sample: np.ndarray, family: str) -> dict[str, float]:
    """Two-sided p-values of a sample against the law of unit scale: mean, variance, kurtosis, bins, tails."""
    law, n = LAWS[family](), len(sample)
    second, fourth, sixth, eighth = MOMENTS[family]
    square = sample**2
    z = {
        "mean": sample.mean() / np.sqrt(second / n),
        "variance": (square.mean() - second) / np.sqrt((fourth - second**2) / n),
        "fourth moment": ((square**2).mean() - fourth) / np.sqrt((eighth - fourth**2) / n),
        "skewness": (sample**3).mean() / np.sqrt(sixth / n),
    }
    bins = law.ppf(np.linspace(0, 1, 201))
    observed = np.histogram(sample, bins)[0]
    tail = law.isf(5e-4)
    return {
        **{name: 2 * stats.norm.sf(abs(value)) for name, value in z.items()},
        "bins": stats.chisquare(observed).pvalue,
        "tails": stats.binomtest(int(np.sum(np.abs(sample) > tail)), n, 1e-3).pvalue,
    }


def accused(sample: np.ndarray, family: str, level: float = FALSE_ALARM) -> list[str]:
    return [name for name, p in battery(sample, family).items() if p < level]


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_deployed_noise_has_the_stated_law(family):
    """60,000 draws: sees 4 % of variance, and accuses a sound sampler once in 160,000 runs."""
    assert accused(draws(family, STEPS * 1.37, DRAWS), family) == []


@pytest.mark.slow
def test_deployed_gaussian_noise_is_right_to_a_fifth_of_a_percent():
    """16 million draws: 0.2 % of variance is 5.7 standard errors, seen with probability 0.96."""
    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(lambda _: draws("gaussian", STEPS, 250_000), range(MANY // 250_000)))
    assert accused(np.concatenate(parts), "gaussian", 1e-4) == []


def mutant(law: str, generator: np.random.Generator, count: int) -> np.ndarray:
    """Samplers that are wrong in one way each."""
    z = generator.standard_normal(count)
    if law == "0.2 % less variance":
        return z * np.sqrt(0.998)
    if law == "shifted":
        return z + 0.003
    if law == "no tails":
        return np.clip(z, -3.29, 3.29)
    if law == "a hole":
        return np.where(np.abs(z - 0.7) < 0.002, 0.75, z)
    return generator.standard_t(60, count) * np.sqrt(58 / 60)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "by"),
    [
        ("0.2 % less variance", "variance"),
        ("shifted", "mean"),
        ("no tails", "tails"),
        ("a hole", "bins"),
        ("heavy tails", "fourth moment"),
    ],
)
def test_wrong_samplers_are_caught_by_name(law, by):
    assert by in accused(mutant(law, np.random.default_rng(0), MANY), "gaussian", 1e-4)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_three_percent_less_noise_is_caught_in_the_fast_test(family):
    """The mutant that the fast test is for: a scale mistaken by a little."""
    generator = np.random.default_rng(3)
    sample = getattr(generator, "normal" if family == "gaussian" else "laplace")(size=DRAWS)
    assert accused(sample, family) == []
    assert "variance" in accused(0.96 * sample, family)


def test_the_battery_accuses_a_sound_sampler_as_often_as_it_says():
    """At level 0.05 on 300 sound samples, each statistic within the 1e-4 quantiles of its binomial law."""
    generator = np.random.default_rng(5)
    tests = [battery(generator.normal(size=20_000), "gaussian") for _ in range(300)]
    for name in tests[0]:
        alarms = sum(test[name] < 0.05 for test in tests)
        assert stats.binom.cdf(alarms, 300, 0.06) > 1e-4  # an exact p-value of counts is conservative
        assert stats.binom.sf(alarms - 1, 300, 0.06) > 1e-4, name


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_coarse_noise_is_the_discrete_law_point_by_point(family):
    """At scale 2 the grid is seen: P(k) ~ exp(-k^2/8), or exp(-|k|/2). False alarms: one in a million."""
    k = np.arange(-60, 61)
    weight = np.exp(-(k**2) / 8) if family == "gaussian" else np.exp(-np.abs(k) / 2)
    sample = DeployedNoise(family, 2.0).added_to(np.zeros(DRAWS, np.int64))
    expected = DRAWS * weight / weight.sum()
    common = expected > 10
    observed = np.array([np.sum(sample == value) for value in k])
    rest = DRAWS - observed[common].sum()
    counts = [*observed[common], rest], [*expected[common], DRAWS - expected[common].sum()]
    assert stats.chisquare(*counts).pvalue > FALSE_ALARM


def test_coordinates_and_calls_are_uncorrelated():
    noise = DeployedNoise("gaussian", STEPS)
    first, second = (noise.added_to(np.zeros(20_000, np.int64)) / STEPS for _ in range(2))
    bound = stats.norm.isf(FALSE_ALARM / 2) / np.sqrt(20_000)
    assert abs(np.corrcoef(first, second)[0, 1]) < bound
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < bound * 1.01


def test_noise_is_added_to_the_total_and_nothing_is_rounded():
    total = np.array([2**52, -(2**52), 12345])
    noise = DeployedNoise("laplace", 2.0).added_to(total) - total
    assert np.abs(noise).max() < 2 * 64  # passed with probability 3 e^-64


# No seed ---------------------------------------------------------------------------------------------------


def test_no_seed_exists_in_the_deployed_path():
    """No argument, no attribute and no generator of that path could repeat a draw."""
    for module in (deployed_noise, grid_mechanism, quantised, uploads):
        source = inspect.getsource(module)
        assert not any(word in source for word in ("np.random", "jax", "default_rng", "import random"))
        for _, part in inspect.getmembers(module, inspect.isfunction):
            assert not {"seed", "key", "rng", "generator"} & set(inspect.signature(part).parameters)
    names = {field.name for field in fields(DeployedNoise)} | set(inspect.signature(DeployedNoise).parameters)
    assert names == {"family", "scale"}


def test_seeding_every_generator_in_reach_repeats_nothing():
    found = []
    for _ in range(2):
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        found.append(DeployedNoise("gaussian", STEPS).added_to(np.zeros(20, np.int64)))
    assert not np.any(found[0] == found[1])


# What is charged -------------------------------------------------------------------------------------------


def one_release(family: str, size: float) -> Release:
    norm, kind = ("l2", Gaussian) if family == "gaussian" else ("l1", Laplace)
    return Release(kind(np.array([size])), of_mean_gradient(5.0, [100], norm))


@pytest.mark.parametrize("ratio", [0.01, 0.3, 1.0, 7.0])
def test_opendps_own_map_agrees_with_the_closed_form(ratio):
    """rho = mu^2/2 and epsilon = shift: never below ours, and above by its rounding of floats only."""
    scale = STEPS * 1.2345
    rho = DeployedNoise("gaussian", scale)._measurement.map(ratio * scale)
    assert ratio**2 / 2 * (1 - 1e-14) <= rho <= ratio**2 / 2 * (1 + 1e-9)
    epsilon = DeployedNoise("laplace", scale)._measurement.map(ratio * scale)
    assert ratio * (1 - 1e-14) <= epsilon <= ratio * (1 + 1e-9)


@pytest.mark.parametrize(
    ("family", "scale"), [("gaussian", 1.0), ("gaussian", 6.0), ("laplace", 1.0), ("laplace", 9.0)]
)
def test_the_distance_to_rounded_continuous_noise_is_at_most_eta(family, scale):
    """Both laws point by point with 40 digits, by mpmath; eta is nearly reached, so the bound is not idle."""
    with mpmath.workdps(40):
        s, reach = mpmath.mpf(scale), int(60 * scale)
        k = range(-reach, reach + 1)
        if family == "gaussian":
            weight = [mpmath.exp(-(mpmath.mpf(j) ** 2) / (2 * s**2)) for j in k]
            cdf = lambda x: mpmath.ncdf(x / s)  # noqa: E731
        else:
            weight = [mpmath.exp(-mpmath.mpf(abs(j)) / s) for j in k]
            cdf = lambda x: mpmath.exp(x / s) / 2 if x < 0 else 1 - mpmath.exp(-x / s) / 2  # noqa: E731
        total = mpmath.fsum(weight)
        half = mpmath.mpf(1) / 2
        rounded = [cdf(-abs(j) + half) - cdf(-abs(j) - half) for j in k]
        far = mpmath.fsum(abs(w / total - r) for w, r in zip(weight, rounded, strict=True)) / 2
        eta = DeployedNoise(family, scale).distance
        assert eta / 4 < far <= eta


def test_the_exact_delta_of_the_discrete_gaussian_stays_below_what_is_charged():
    """One coordinate, scale 3, shift 2 steps: exact delta by summation, at many epsilons."""
    scale, shift, k = 3.0, 2, np.arange(-200, 201)
    noise = DeployedNoise("gaussian", scale)
    weight = np.exp(-(k**2) / (2 * scale**2))
    p = weight / weight.sum()
    q = np.roll(p, shift)
    for epsilon in np.linspace(0.01, 3, 40):
        exact = np.maximum(q - np.exp(epsilon) * p, 0).sum()
        charged = float(gaussian_delta(epsilon, shift / scale)) + grid_surcharge(noise, epsilon, 1, 1)
        assert exact <= charged
    above = [
        np.maximum(q - np.exp(e) * p, 0).sum() > gaussian_delta(e, shift / scale)
        for e in np.linspace(0.01, 3, 40)
    ]
    assert any(above)  # the surcharge is needed


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: DeployedNoise("none", 1.0), "family must be one of 'gaussian', 'laplace', got 'none'"),
        (lambda: DeployedNoise("gaussian", np.nan), "scale must be a number, got NaN"),
        (lambda: DeployedNoise("gaussian", np.inf), "scale must be finite and above 0, got inf"),
        (lambda: DeployedNoise("gaussian", 0.0), "scale must be finite and above 0, got 0"),
        (lambda: DeployedNoise("laplace", -1.0), "scale must be finite and above 0, got -1"),
        (lambda: DeployedNoise("laplace", 0.5), "scale must be at least 1 step, got 0.5; take a finer grid"),
    ],
)
def test_noise_that_is_no_noise_is_refused(make, says):
    with pytest.raises(InvalidInput, match=says):
        make()


def test_a_draw_beyond_2_to_the_53_is_not_released():
    with pytest.raises(InvalidInput, match="nothing was released"):
        DeployedNoise("gaussian", 2.0**60).added_to(np.zeros(200, np.int64))


def test_without_opendp_the_error_says_what_to_install(monkeypatch):
    import sys

    deployed_noise._library.cache_clear()
    monkeypatch.setitem(sys.modules, "opendp", None)
    with pytest.raises(InvalidInput, match=r"pip install 'noiseworthy\[deploy\]'"):
        DeployedNoise("gaussian", 1.0)
    deployed_noise._library.cache_clear()
