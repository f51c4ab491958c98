"""Calibration satisfies the accountant, and a tenth of a percent less noise would not."""

from __future__ import annotations

import time

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.privacy.accountants import spent_epsilon
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.calibration import calibrate, unit_noise
from noiseworthy.privacy.mechanisms import Gaussian, Laplace, NoNoise
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import of_mean_gradient

NORM = {"gaussian": "l2", "laplace": "l1", "none": "l2"}

epsilons = st.floats(-3, 3).map(lambda x: 10.0**x)
uploads = st.integers(1, 2000)


def calibrated(family, epsilon, delta, releases, clip=3.0, sizes=(40,), relation="replace-one", rate=1.0):
    sensitivity = of_mean_gradient(clip, sizes, NORM[family], relation, rate)
    budget = PrivacyBudget.of(epsilon, delta, len(sizes), relation)
    return calibrate(family, sensitivity, budget, releases, rate)


def with_less_noise(release: Release, share: float) -> Release:
    size = release.mechanism.size * (1 - share)
    noise = Gaussian(size) if isinstance(release.mechanism, Gaussian) else Laplace(size)
    return Release(noise, release.sensitivity, release.sampling_rate)


def assert_least_noise(release: Release, releases, epsilon, delta, share=1e-3):
    assert np.all(spent_epsilon(release, releases, delta) <= epsilon)
    assert np.all(spent_epsilon(with_less_noise(release, share), releases, delta) > epsilon)


@given(epsilons, st.floats(-300, np.log10(0.3)).map(lambda x: 10.0**x), uploads)
def test_gaussian_noise_keeps_the_budget_and_a_ten_millionth_less_breaks_it(epsilon, delta, releases):
    release = calibrated("gaussian", epsilon, delta, releases)
    assert_least_noise(release, releases, epsilon, delta, share=1e-7)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-6, 1e-5), (10**-5.25, 1e-12), (10**-4.25, 1e-12)])
@pytest.mark.parametrize("releases", [1, 7, 1000])
def test_gaussian_noise_keeps_a_tiny_epsilon_beside_a_delta(epsilon, delta, releases):
    assert_least_noise(calibrated("gaussian", epsilon, delta, releases), releases, epsilon, delta)


@given(epsilons, uploads)
def test_pure_laplace_noise_keeps_the_budget_and_a_billionth_less_breaks_it(epsilon, releases):
    release = calibrated("laplace", epsilon, 0.0, releases)
    assert_least_noise(release, releases, epsilon, 0.0, share=1e-9)


@settings(max_examples=25)
@given(
    st.floats(-1.5, 0.8).map(lambda x: 10.0**x),
    st.floats(-10, -0.7).map(lambda x: 10.0**x),
    st.sampled_from([1, 2, 7, 40, 200]),
)
@example(10.0**-1.5, 1e-6, 2)
def test_laplace_noise_with_a_delta_keeps_the_budget_and_a_thousandth_less_breaks_it(
    epsilon, delta, releases
):
    release = calibrated("laplace", epsilon, delta, releases)
    assert_least_noise(release, releases, epsilon, delta)
    assert np.all(release.mechanism.size <= calibrated("laplace", epsilon, 0.0, releases).mechanism.size)


@pytest.mark.parametrize(("epsilon", "releases", "rate"), [(1.0, 5, 0.2), (4.0, 30, 0.5)])
def test_poisson_noise_keeps_the_budget_and_a_thousandth_less_breaks_it(epsilon, releases, rate):
    release = calibrated("gaussian", epsilon, 1e-5, releases, relation="add-remove", rate=rate)
    assert_least_noise(release, releases, epsilon, 1e-5)


@given(st.floats(-2, 2).map(lambda x: 10.0**x), st.integers(1, 500))
def test_gaussian_noise_follows_formula_g_in_sixty_digits(epsilon, releases):
    """sigma = (2 C / n) sqrt(k) s with delta(epsilon; sqrt(k) Delta / sigma) = delta, solved by mpmath."""
    sigma = calibrated("gaussian", epsilon, 1e-6, releases, clip=3.0, sizes=(40,)).mechanism.size[0]
    with mpmath.workdps(60):
        mu = mpmath.sqrt(releases) * (2 * mpmath.mpf(3) / 40) / mpmath.mpf(sigma)
        e = mpmath.mpf(epsilon)
        reached = mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)
    assert 1 - 1e-6 < reached / mpmath.mpf("1e-6") <= 1 + 1e-9


def test_laplace_noise_follows_basic_composition():
    release = calibrated("laplace", [1.0, 4.0], 0.0, [3, 10], clip=300.0, sizes=(6000, 100))
    np.testing.assert_allclose(
        release.mechanism.size, [2 * 300 * 3 / 6000, 2 * 300 * 10 / 100 / 4], rtol=1e-12
    )


def test_one_laplace_release_uses_its_delta():
    """m = epsilon - 2 ln(1 - delta): a tenth of a percent of noise is visible from delta = epsilon / 2000."""
    noise = unit_noise("laplace", PrivacyBudget.of(0.1, 0.1, 1), 1)
    np.testing.assert_allclose(1 / noise, 0.1 - 2 * np.log(0.9), rtol=1e-12)


@given(epsilons, st.integers(1, 400))
def test_composition_of_k_gaussians_is_one_with_root_k(epsilon, releases):
    budget = PrivacyBudget.of(epsilon, 1e-5, 1)
    once, often = unit_noise("gaussian", budget, 1), unit_noise("gaussian", budget, releases)
    np.testing.assert_allclose(often, np.sqrt(releases) * once, rtol=1e-14)


@pytest.mark.parametrize(("family", "delta"), [("gaussian", 1e-5), ("laplace", 0.0), ("laplace", 1e-5)])
def test_replace_one_needs_exactly_twice_the_noise_of_add_remove(family, delta):
    twice, once = (
        calibrated(family, [0.5, 2.0], delta, 9, sizes=(10, 70), relation=relation).mechanism.size
        for relation in ("replace-one", "add-remove")
    )
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-11)


@settings(max_examples=40)
@given(st.sampled_from(["gaussian", "laplace"]), st.floats(0.05, 20), st.integers(1, 50), st.floats(1.01, 4))
def test_noise_falls_with_epsilon_and_grows_with_uploads(family, epsilon, releases, factor):
    delta = 1e-5 if family == "gaussian" else 0.0
    noise = unit_noise(family, PrivacyBudget.of(epsilon, delta, 1), releases)
    assert unit_noise(family, PrivacyBudget.of(epsilon * factor, delta, 1), releases) < noise
    assert unit_noise(family, PrivacyBudget.of(epsilon, delta, 1), releases + 1) > noise


def test_every_client_gets_its_own_noise():
    rng = np.random.default_rng(3)
    epsilon, delta = rng.uniform(0.2, 5, 12), 10 ** rng.uniform(-7, -4, 12)
    sizes, releases = rng.integers(5, 500, 12), rng.integers(1, 90, 12)
    together = calibrated("gaussian", epsilon, delta, releases, sizes=sizes).mechanism.size
    alone = [
        calibrated("gaussian", epsilon[i], delta[i], releases[i], sizes=(sizes[i],)).mechanism.size[0]
        for i in range(12)
    ]
    np.testing.assert_allclose(together, alone, rtol=1e-11)


def test_laplace_clients_with_and_without_delta_may_be_mixed():
    release = calibrated("laplace", [1.0, 1.0, 1.0], [0.0, 1e-5, 1e-5], [100, 100, 10], sizes=(10, 10, 10))
    unit = release.mechanism.size / release.sensitivity.value
    np.testing.assert_allclose(unit, [100, 36.75, 9.901], rtol=1e-3)


def test_five_thousand_different_clients_are_calibrated_in_half_a_second():
    rng = np.random.default_rng(1)
    epsilon, delta = rng.uniform(0.1, 10, 5000), 10 ** rng.uniform(-8, -4, 5000)
    sizes, releases = rng.integers(10, 5000, 5000), rng.integers(1, 500, 5000)
    began = time.perf_counter()
    release = calibrated("gaussian", epsilon, delta, releases, sizes=sizes)
    assert time.perf_counter() - began < 0.5
    spent = spent_epsilon(release, releases, delta)
    assert np.all(spent <= epsilon)
    np.testing.assert_allclose(spent, epsilon, rtol=1e-6)


def test_no_noise_is_the_limit_without_a_guarantee():
    release = calibrated("none", 1.0, 0.0, 5, sizes=(10, 20))
    assert isinstance(release.mechanism, NoNoise)
    np.testing.assert_array_equal(release.mechanism.variance, [0, 0])
    np.testing.assert_array_equal(spent_epsilon(release, [0, 1], 0.0), [0, np.inf])


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (
            {"delta": 0.0},
            InvalidInput,
            r"delta must lie in \(0, 1\), got 0.*use Laplace noise for pure epsilon",
        ),
        ({"epsilon": 0.0}, InvalidInput, "epsilon must be finite and above 0, got 0 for client 0; ask such"),
        ({"epsilon": -1.0}, InvalidInput, "epsilon must be finite and above 0, got -1"),
        ({"epsilon": float("nan")}, InvalidInput, "epsilon must be a number, got NaN"),
        ({"epsilon": float("inf")}, InvalidInput, "epsilon must be finite and above 0, got inf"),
        ({"delta": 1.0}, InvalidInput, r"delta must lie in \[0, 1\), got 1 .*far below 1/records"),
        ({"delta": -1e-9}, InvalidInput, r"delta must lie in \[0, 1\), got -1e-09"),
        (
            {"clip": 0.0},
            InvalidInput,
            "clip_norm must be finite and above 0, got 0; a clip of 0 would remove",
        ),
        (
            {"sizes": (5, 0)},
            InvalidInput,
            "sizes .* at least 1, got 0 for client 1; leave a client without rec",
        ),
        ({"releases": 0}, InvalidInput, "releases must be whole numbers of at least 1, got 0"),
        ({"releases": 2.5}, InvalidInput, "releases must be whole numbers of at least 1, got 2.5"),
        (
            {"releases": [1, 2, 3]},
            InvalidInput,
            r"releases must be one number or a list of 1 .* got 3 values",
        ),
        (
            {"rate": 0.1},
            UnsoundClaim,
            "Poisson .* add-remove neighbours only; set relation = .* full batches",
        ),
        ({"rate": 1.5}, InvalidInput, r"sampling_rate must be a probability in \(0, 1\], got 1.5"),
        ({"rate": 0.0}, InvalidInput, "sampling_rate must be finite and above 0, got 0"),
        (
            {"family": "laplace", "rate": 0.1, "relation": "add-remove"},
            UnsoundClaim,
            "Poisson batches are accounted for Gaussian noise only, got laplace; use sampling_rate = 1",
        ),
        (
            {"relation": "swap"},
            InvalidInput,
            "relation must be one of 'replace-one', 'add-remove', got 'swap'",
        ),
    ],
)
def test_bad_input_and_unproved_claims_are_refused(change, error, says):
    call = {"family": "gaussian", "epsilon": 1.0, "delta": 1e-5, "releases": 3} | change
    with pytest.raises(error, match=says):
        calibrated(**call)


def test_a_poisson_budget_needs_a_delta():
    with pytest.raises(InvalidInput, match="delta must be above 0 for Gaussian noise; use Laplace"):
        calibrated("gaussian", 1.0, 0.0, 3, relation="add-remove", rate=0.5)


@pytest.mark.parametrize(
    ("family", "relation", "rate"),
    [("gaussian", "add-remove", 0.1), ("gaussian", "replace-one", 1.0), ("laplace", "replace-one", 1.0)],
)
def test_an_epsilon_that_no_accountant_tells_from_zero_is_refused_beside_a_delta(family, relation, rate):
    """Searches for its noise ended in an overflow, or never."""
    with pytest.raises(InvalidInput, match=r"epsilon must be at least 1e-12 .* got 1e-15; use more"):
        calibrated(family, 1e-15, 0.1, 3, relation=relation, rate=rate)


@pytest.mark.parametrize(("one", "other"), [("replace-one", "add-remove"), ("add-remove", "replace-one")])
def test_relations_are_never_mixed(one, other):
    sensitivity = of_mean_gradient(1.0, [10], "l2", one)
    with pytest.raises(UnsoundClaim, match=f"sensitivity is {one}, the budget {other}; use one relation"):
        calibrate("gaussian", sensitivity, PrivacyBudget.of(1.0, 1e-5, 1, other), 3)


def test_norms_are_never_mixed():
    for family, norm in (("gaussian", "l1"), ("laplace", "l2")):
        sensitivity = of_mean_gradient(1.0, [10], norm)
        with pytest.raises(UnsoundClaim, match=f"{family} noise needs an .* clip records in"):
            calibrate(family, sensitivity, PrivacyBudget.of(1.0, 1e-5, 1), 3)


def test_sampling_rates_of_divisor_and_batches_are_never_mixed():
    """Divisor n with batches of q n records would understate the ratio by 1/q."""
    sensitivity = of_mean_gradient(1.0, [10], "l2", "add-remove")
    with pytest.raises(
        UnsoundClaim, match=r"divides by 1 n, the batches take a share 0.5 .* use one sampling"
    ):
        Release(Gaussian(np.array([1.0])), sensitivity, 0.5)


def test_an_unknown_mechanism_is_refused_before_anything_is_computed():
    with pytest.raises(
        InvalidInput, match="mechanism must be one of 'laplace', 'gaussian', 'none', got 'Gauss"
    ):
        unit_noise("Gaussian", PrivacyBudget.of(1.0, 1e-5, 1), 3)
