"""Exact Gaussian accounting against 60-digit arithmetic, two libraries and its own monotonicity."""

from __future__ import annotations

import time

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.gaussian import SMALLEST_MU, gaussian_delta, gaussian_mu
from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon

SLACK = 1e-9
"""Relative excess of delta that rounding may leave on the unsafe side, checked in 60 digits."""
WASTE = 1e-6
"""Relative shortfall of delta that the safe side may cost."""

epsilons = st.floats(-3, 3).map(lambda x: 10.0**x)
deltas = st.floats(-300, np.log10(0.3)).map(lambda x: 10.0**x)
ratios = st.floats(-3, 1.7).map(lambda x: 10.0**x)


def oracle(epsilon: float, mu: float) -> mpmath.mpf:
    """delta(epsilon; mu) by its definition, with digits enough for any cancellation.

    Source: docs/theory/accounting.md#gaussian-mechanism.
    """
    with mpmath.workdps(400):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)

        def phi(x):
            return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

        return phi(m / 2 - e / m) - mpmath.exp(e) * phi(-m / 2 - e / m)


def test_the_oracle_is_the_privacy_profile_of_two_unit_normals():
    """The closed form is sup over events of P(A) - e^eps Q(A); integrate its positive part."""
    mu, epsilon = 1.3, 0.7
    with mpmath.workdps(30):
        integral = mpmath.quad(
            lambda x: mpmath.npdf(x, mu) - mpmath.exp(epsilon) * mpmath.npdf(x),
            [epsilon / mu + mu / 2, 8, 20],
        )
        assert abs(integral - oracle(epsilon, mu)) < 1e-20


@given(epsilons, ratios)
def test_delta_agrees_with_400_digits_to_one_part_in_a_billion(epsilon, mu):
    exact = oracle(epsilon, mu)
    ours = float(gaussian_delta(epsilon, mu))
    if exact < 1e-305:  # denormal or zero in float64
        assert ours <= 1e-300
    else:
        assert abs(ours / exact - 1) < 1e-9


def test_delta_error_is_below_1e_10_for_mu_above_1e_4():
    for mu in (1.01e-4, 1e-3, 1e-2, 0.3, 5.0, 60.0):
        for a in (-3.0, 0.0, 0.5, 3.0, 12.0, 30.0):  # epsilon as a quantile
            epsilon = mu * mu / 2 + a * mu
            if epsilon >= 0:
                assert abs(float(gaussian_delta(epsilon, mu)) / oracle(epsilon, mu) - 1) < 1e-10


def test_delta_at_the_edges():
    assert gaussian_delta(1.0, 0.0) == 0.0
    assert gaussian_delta(0.0, 0.0) == 0.0
    assert gaussian_delta(0.0, 1e3) == 1.0
    assert gaussian_delta(1e6, 1.0) == 0.0
    np.testing.assert_allclose(gaussian_delta(0.0, 2.0), 0.6826894921370859, rtol=1e-14)  # 2 Phi(1) - 1
    assert gaussian_delta(np.ones((3, 1)), np.ones(2)).shape == (3, 2)


def assert_safe_and_tight(reached: mpmath.mpf, delta: float):
    assert reached <= mpmath.mpf(delta) * (1 + SLACK), f"delta {delta} exceeded: {reached}"
    assert reached >= mpmath.mpf(delta) * (1 - WASTE), f"delta {delta} wasted: {reached}"


@given(epsilons, deltas)
def test_calibrated_mu_is_safe_and_wastes_no_delta_in_400_digits(epsilon, delta):
    mu = float(gaussian_mu(epsilon, delta))
    assert_safe_and_tight(oracle(epsilon, mu), delta)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-12, 1e-5, 0.01, 0.3])
def test_calibrated_mu_is_safe_at_every_corner_of_the_range(epsilon, delta):
    assert_safe_and_tight(oracle(epsilon, float(gaussian_mu(epsilon, delta))), delta)


@given(ratios, deltas)
def test_reported_epsilon_is_safe_and_wastes_no_delta_in_400_digits(mu, delta):
    epsilon = float(gaussian_epsilon(mu, delta))
    reached = oracle(epsilon, mu)
    assert reached <= mpmath.mpf(delta) * (1 + SLACK)
    if epsilon > 1e-8:  # below, float64 cannot tell delta(epsilon) from delta(0)
        assert reached >= mpmath.mpf(delta) * (1 - WASTE)
    if epsilon == 0:
        assert oracle(0.0, mu) <= mpmath.mpf(delta) * (1 + SLACK)


@given(st.floats(-3, 0.7).map(lambda x: 10.0**x), st.floats(-17, -3))
def test_epsilon_just_above_zero_is_found_without_a_fault(mu, log_gap):
    delta = float(gaussian_delta(0.0, mu)) * (1 - 10.0**log_gap)
    epsilon = float(gaussian_epsilon(mu, delta))
    assert 0 <= epsilon <= 10.0**log_gap * 1e3 + 1e-11
    assert gaussian_delta(epsilon, mu) <= delta


@given(epsilons, deltas)
def test_epsilon_inverts_mu(epsilon, delta):
    again = float(gaussian_epsilon(gaussian_mu(epsilon, delta), delta))
    assert again == pytest.approx(epsilon, rel=1e-9, abs=1e-12)


@given(epsilons, deltas, st.floats(1.001, 3.0))
def test_mu_grows_with_epsilon_and_with_delta(epsilon, delta, factor):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_mu(epsilon * factor, delta) > mu
    assert gaussian_mu(epsilon, min(delta * factor, 0.5)) > mu


@given(ratios, deltas, st.floats(1.01, 3.0))
def test_epsilon_grows_with_mu_and_falls_with_delta(mu, delta, factor):
    epsilon = gaussian_epsilon(mu, delta)
    if epsilon > 1e-6:
        assert gaussian_epsilon(mu * factor, delta) > epsilon
        assert gaussian_epsilon(mu, min(delta * factor, 0.9)) < epsilon


def test_the_values_of_s():
    noise = 1 / gaussian_mu([0.1, 0.5, 1.0, 3.0, 10.0], 1e-5)
    np.testing.assert_allclose(noise, [30.749, 7.032, 3.7306, 1.3906, 0.49989], rtol=3e-5)  # five digits


@pytest.mark.parametrize(
    ("delta", "row"),
    [
        (1e-4, [0.808, 0.971, 1.050, 1.143, 1.209, 1.311, 1.500, 1.776, 1.993]),
        (1e-5, [0.906, 1.036, 1.099, 1.175, 1.230, 1.314, 1.473, 1.710, 1.898]),
    ],
)
def test_the_constant_c2_that_a_budget_needs(delta, row):
    epsilon = np.array([0.1, 0.5, 1, 2, 3, 5, 10, 20, 30])
    c2 = epsilon / gaussian_mu(epsilon, delta) / np.sqrt(np.log(1 / delta))
    np.testing.assert_allclose(c2, row, atol=5e-4)


def test_the_epsilon_really_spent_with_c2_of_one():
    claimed = np.array([0.1, 0.5, 1, 2, 3, 5, 10, 20, 30])
    spent = gaussian_epsilon(claimed / np.sqrt(np.log(1e5)), 1e-5)
    printed = [0.090, 0.520, 1.110, 2.397, 3.798, 6.903, 16.30, 41.8, 76.0]
    np.testing.assert_allclose(spent, printed, rtol=2e-3, atol=5e-4)


def test_the_limits_of_s():
    assert 1 / gaussian_mu(1e6, 1e-5) == pytest.approx(1 / np.sqrt(2e6), rel=1e-2)  # never zero noise
    quantile = float(mpmath.sqrt(2) * mpmath.erfinv(0.1))  # Phi^-1((1 + 0.1)/2)
    assert gaussian_mu(1e-9, 0.1) == pytest.approx(2 * quantile, rel=1e-6)


def test_agrees_with_dp_accounting():
    dp_accounting = pytest.importorskip("dp_accounting")
    for mu in (0.01, 0.3, 1.0, 4.0, 12.0):
        for delta in (1e-3, 1e-5, 1e-10):
            theirs = dp_accounting.get_epsilon_gaussian(1 / mu, delta)
            assert float(gaussian_epsilon(mu, delta)) == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize(("std", "releases"), [(2.0, 1), (8.0, 10), (40.0, 100)])
def test_k_releases_agree_with_the_prv_accountant(std, releases):
    prv = pytest.importorskip("prv_accountant")
    accountant = prv.PRVAccountant(
        prvs=prv.GaussianMechanism(std), max_self_compositions=releases, eps_error=0.01, delta_error=1e-10
    )
    low, _, high = accountant.compute_epsilon(delta=1e-5, num_self_compositions=[releases])
    ours = float(gaussian_epsilon(np.sqrt(releases) / std, 1e-5))
    assert low <= ours <= high
    assert high - low < 0.03


def test_five_thousand_clients_with_different_budgets_take_under_half_a_second():
    rng = np.random.default_rng(7)
    epsilon, delta = rng.uniform(0.05, 10, 5000), 10 ** rng.uniform(-8, -3, 5000)
    began = time.perf_counter()
    mu = gaussian_mu(epsilon, delta)
    seconds = time.perf_counter() - began
    assert seconds < 0.5
    one_by_one = [float(gaussian_mu(epsilon[i], delta[i])) for i in (0, 17, 4999)]
    np.testing.assert_allclose(mu[[0, 17, 4999]], one_by_one, rtol=1e-12)


def test_shapes_broadcast_and_repeated_budgets_share_their_answer():
    mu = gaussian_mu(np.array([[1.0], [2.0]]), np.array([1e-5, 1e-5, 1e-6]))
    assert mu.shape == (2, 3)
    assert mu[0, 0] == mu[0, 1] == gaussian_mu(1.0, 1e-5)
    assert mu[1, 2] == gaussian_mu(2.0, 1e-6)


def test_what_one_client_has_spent_does_not_depend_on_who_else_is_asked():
    """To the last bit: else a plan that keeps a budget among some clients might pass it among others."""
    mu = 10 ** np.random.default_rng(0).uniform(-3, 1, 300)
    np.testing.assert_array_equal(gaussian_epsilon(mu, 1e-5), [gaussian_epsilon(m, 1e-5) for m in mu])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: gaussian_mu(1.0, 0.0), r"delta must lie in \(0, 1\), got 0; .*Laplace noise for pure"),
        (lambda: gaussian_mu(1.0, 1.0), r"delta must lie in \(0, 1\), got 1"),
        (lambda: gaussian_mu(0.0, 1e-5), "epsilon must be finite and above 0, got 0"),
        (lambda: gaussian_mu([1.0, -2.0], 1e-5), "epsilon .* got -2 for client 1"),
        (lambda: gaussian_mu(float("inf"), 1e-5), "epsilon must be finite and above 0, got inf"),
        (lambda: gaussian_mu(float("nan"), 1e-5), "epsilon must be a number, got NaN"),
        (lambda: gaussian_mu("much", 1e-5), "epsilon must be a number, got 'much'"),
        (lambda: gaussian_epsilon(-1.0, 1e-5), "mu must be finite and at least 0, got -1"),
        (lambda: gaussian_epsilon(1.0, 0.0), r"delta must lie in \(0, 1\), got 0"),
        (lambda: gaussian_mu(1e-8, 1e-30), "epsilon 1e-08 is too small .* use a larger one"),
    ],
)
def test_bad_input_is_refused_by_name_and_value(call, says):
    with pytest.raises(InvalidInput, match=says):
        call()


def test_no_answer_is_given_below_the_smallest_mu():
    assert SMALLEST_MU == 1e-6
    assert gaussian_mu(2e-5, 1e-30) > SMALLEST_MU
