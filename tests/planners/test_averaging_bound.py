"""The bound of DP-PASGD equals retyped formulas and holds in simulation; the printed one does not hold."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dp_pasgd.bound import AveragingBound, averaging_bound
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.privacy.budget import PrivacyBudget

VALUES = {"smoothness": 2.0, "strong_convexity": 0.1, "gradient_variance": 0.3, "initial_gap": 1.5}
ALARM = 4.75
"""Standard errors above a bound that a mean may lie by chance: once in a million for each comparison."""


def constants(**changed) -> dict[str, Constant]:
    return {name: Constant(value, "assumed") for name, value in (VALUES | changed).items()}


def make_problem(clients: int = 4, dimension: int = 3) -> Problem:
    budget = PrivacyBudget.of(1.0, 1e-5, clients)
    return Problem(np.full(clients, 50), dimension, budget, "gaussian", 1.0)


# Against retyped formulas -----------------------------------------------------------------------------


def retyped(b: AveragingBound, k: int, tau: int, variance: float) -> tuple[float, float, float, bool]:
    """Last iterate, average, printed, and the condition of the first, in plain arithmetic.

    Source: docs/theory/hu.md#bounds.
    """
    a, step, v = b.initial_gap, b.step_size * b.smoothness, b.gradient_variance + b.dimension * variance
    q = 1 - b.step_size * b.strong_convexity
    wide = (step / b.clients + 2 * step * step * (tau - 1)) * v / (2 * b.strong_convexity)
    narrow = (step / b.clients + step * step * (tau - 1)) * v / (2 * b.strong_convexity)
    last = q**k * (a - wide) + wide
    average = q * a / ((1 - q) * k) + narrow
    printed = q**k * (a - narrow) / k + narrow
    holds = step + step**2 * tau * (tau - 1) / q ** (tau - 1) <= 1 if tau > 1 else step <= 1
    return last, average, printed, holds


def average_at(bound: AveragingBound, k, tau, variance):
    """The bound on the mean of E L(theta_k) - L* over k = 1..K, by its parts."""
    start = (1 - bound._rate) * bound.initial_gap / (bound._rate * np.asarray(k, float))
    return start + bound._floor(bound._unweighted(tau, variance), variance)


def test_bounds_equal_the_formulas_of_the_theory():
    rng = np.random.default_rng(5)
    for _ in range(300):
        smoothness = float(10 ** rng.uniform(-1, 1))
        bound = AveragingBound(
            smoothness,
            smoothness * float(rng.uniform(0.01, 0.9)),
            float(rng.uniform(0, 2)),
            float(10 ** rng.uniform(-2, 2)),
            float(rng.uniform(0.01, 1)) / smoothness,
            int(rng.integers(1, 100)),
            int(rng.integers(1, 20)),
        )
        k, tau, variance = int(rng.integers(1, 60)), int(rng.integers(1, 15)), float(10 ** rng.uniform(-4, 1))
        last, average, printed, holds = retyped(bound, k, tau, variance)
        np.testing.assert_allclose(bound.at(k, tau, variance), last, rtol=1e-9)
        np.testing.assert_allclose(average_at(bound, k, tau, variance), average, rtol=1e-12)
        np.testing.assert_allclose(bound.printed_at(k, tau, variance), printed, rtol=1e-9)
        assert bool(bound.allows(tau)) == holds


def test_the_numbers_of_the_theory_example():
    """B' by hand: (0.05/16 + 2 * 0.0025 * 8) * (0.05 + 100 * 0.0045)/0.1 = 0.215625 at tau = 9."""
    bound = AveragingBound(1.0, 0.05, 0.05, math.log(2), 0.05, 100, 16)
    np.testing.assert_allclose(bound.at(10**6, 9, 0.0045), 0.215625, rtol=1e-12)
    np.testing.assert_allclose(average_at(bound, 10**9, 9, 0.0045), 0.115625, rtol=1e-5)
    assert bound.at(0, 9, 0.0045) == bound.no_training == math.log(2)
    assert bound.unit == "excess loss"


def test_bounds_are_vectorised():
    bound = AveragingBound(1.0, 0.05, 0.05, 1.0, 0.05, 100, 16)
    for value in (bound.at, partial(average_at, bound), bound.printed_at):
        table = value(np.arange(1, 7)[:, None], np.arange(1, 4), 0.1)
        assert table.shape == (6, 3)
        assert table[4, 2] == value(5, 3, 0.1)


@given(
    st.floats(1e-3, 1), st.floats(1e-3, 1), st.integers(1, 500), st.integers(1, 40), st.floats(0, 10),
    st.integers(1, 30),
)  # fmt: skip
def test_the_bound_never_falls_with_local_steps_or_noise(step, convexity, k, tau, variance, clients):
    bound = AveragingBound(1.0, convexity, 0.1, 1.0, step, 5, clients)
    here = bound.at(k, tau, variance)
    assert here <= bound.at(k, tau + 1, variance)
    assert here <= bound.at(k, tau, variance * 1.5)


@given(st.floats(1e-3, 1), st.floats(1e-3, 1))
def test_the_longest_period_is_the_last_that_the_step_allows(step, convexity):
    bound = AveragingBound(1.0, convexity, 0.1, 1.0, step, 5, 2)
    allowed = bound.allows(np.arange(1, 1200))
    assert bound.most_local_steps == int(allowed.sum())
    assert np.all(np.diff(allowed.astype(int)) <= 0)  # a step that allows tau allows everything below


@pytest.mark.parametrize("smoothness", [0.1, 1.0, 3.0, 49.0])
def test_the_largest_step_allows_one_local_step_and_no_more(smoothness):
    """At eta = 1/L, also where eta lambda = 1 and (1 - eta lambda)^0 is 0^0."""
    for convexity in (smoothness, smoothness / 7):
        bound = AveragingBound(smoothness, convexity, 0.1, 1.0, 1 / smoothness, 5, 2)
        assert bound.allows([1, 2, 3]).tolist() == [True, False, False]
        assert bound.most_local_steps == 1
        assert np.isfinite(bound.at([0, 1, 50], 1, 0.1)).all()


# In simulation ----------------------------------------------------------------------------------------


def simulated(
    curvature, clients, tau, step, variance, iterations, start, runs=300, seed=0
) -> tuple[np.ndarray, np.ndarray]:
    """Excess loss of the mean model of f = sum h_j x_j^2 / 2 after each step: mean and its error, (K,)."""
    rng, d = np.random.default_rng([seed, clients, tau, iterations]), len(curvature)
    theta = np.broadcast_to(start, (runs, clients, d)).copy()
    excess = np.empty((iterations, runs))
    for k in range(1, iterations + 1):
        noise = rng.normal(0, math.sqrt(variance / d), theta.shape)
        theta = theta - step * (curvature * theta + noise)
        if k % tau == 0:
            theta = np.broadcast_to(theta.mean(axis=1, keepdims=True), theta.shape)
        excess[k - 1] = 0.5 * (curvature * theta.mean(axis=1) ** 2).sum(axis=1)
    return excess.mean(axis=1), excess.std(axis=1, ddof=1) / math.sqrt(runs)


@pytest.mark.full
@pytest.mark.parametrize("clients", [1, 4, 16])
@pytest.mark.parametrize("tau", [1, 3, 9])
def test_the_bounds_hold_in_simulation_at_every_iteration(clients, tau):
    """Four step sizes, three noise levels and two quadratics, K = 1..90. All nine cases make some 30,000
    comparisons at a chance of 1e-6 each: were the bounds tight, 3 % of seeds would raise a false alarm."""
    compared, start = 0, np.array([1.0, -2.0, 0.5])
    k = np.arange(1, 91)
    for curvature in (np.array([0.1, 0.5, 2.0]), np.array([1.0, 1.0, 1.0])):
        smoothness, convexity = float(curvature.max()), float(curvature.min())
        gap = float(0.5 * (curvature * start**2).sum())
        for share in (1.0, 0.3, 0.08, 0.02):
            for variance in (0.0, 0.1, 30.0):
                step = share / smoothness
                bound = AveragingBound(smoothness, convexity, variance / 2, gap, step, 3, clients)
                if not bound.allows(tau):
                    continue
                mean, error = simulated(curvature, clients, tau, step, variance, 90, start)
                sigma_sq = variance / 6  # half of the variance as gradients', half as privacy noise
                assert np.all(mean - ALARM * error <= bound.at(k, tau, sigma_sq) + 1e-12)
                so_far = np.cumsum(mean) / k - ALARM * np.cumsum(error) / k
                assert np.all(so_far <= average_at(bound, k, tau, sigma_sq) + 1e-12)
                compared += 1
    assert compared >= {1: 24, 3: 12, 9: 6}[tau]


@pytest.mark.full
@pytest.mark.parametrize("clients", [1, 4, 16])
@pytest.mark.parametrize("tau", [1, 3, 9, 40])
def test_the_convex_bound_holds_in_simulation_for_any_period(clients, tau):
    """Also where the general bound asks for smaller steps; eta up to 1/L. As above, 1e-6 for each of 90 K."""
    start, k = np.array([1.0, -2.0, 0.5]), np.arange(1, 91)
    for curvature in (np.array([0.1, 0.5, 2.0]), np.array([1.0, 1.0, 1.0])):
        smoothness, convexity = float(curvature.max()), float(curvature.min())
        gap = float(0.5 * (curvature * start**2).sum())
        for share in (1.0, 0.3, 0.02):
            for variance in (0.0, 0.1, 30.0):
                step = share / smoothness
                mean, error = simulated(curvature, clients, tau, step, variance, 90, start)
                bound = AveragingBound(
                    smoothness, convexity, variance / 2, gap, step, 3, clients, shape="convex"
                )
                assert bound.allows(tau)
                assert np.all(mean - ALARM * error <= bound.at(k, tau, variance / 6) + 1e-12)
                trace = float(curvature.sum()) / smoothness
                for shape in ("convex", "quadratic"):
                    felt = replace(bound, gradient_variance=0.0, noise_dimension=trace, shape=shape)
                    assert np.all(mean - ALARM * error <= felt.at(k, tau, variance / 3) + 1e-12)


@pytest.mark.parametrize("tau", [1, 2, 5])
def test_the_convex_bound_holds_for_logistic_regression_and_its_noise_dimension(tau):
    """Ridge logistic regression on records in the unit ball, all devices alike: d is 30, tr(A)/L below 8.

    For this loss the bound of a quadratic is a rule; it holds as well. One chance in a million for each of
    60 K, twelve settings in all.
    """
    rng, m, d, ridge, runs = np.random.default_rng(6), 4, 30, 0.02, 80
    x = rng.normal(size=(50, d)) * np.r_[4.0, np.full(d - 1, 0.5)]
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)
    y = np.sign(x @ rng.normal(size=d))
    curvature = x.T @ x / 50 / 4 + ridge * np.eye(d)
    smoothness = float(np.linalg.eigvalsh(curvature)[-1])

    def loss(theta):
        return np.logaddexp(0, -(theta @ x.T) * y).mean(-1) + ridge / 2 * np.square(theta).sum(-1)

    def gradient(theta):
        return -(y / (1 + np.exp((theta @ x.T) * y))) @ x / 50 + ridge * theta

    best = np.zeros(d)
    for _ in range(3000):
        best = best - gradient(best) / smoothness
    felt, gap = float(np.trace(curvature)) / smoothness, float(loss(np.zeros(d)) - loss(best))
    assert felt < 8
    for share in (1.0, 0.2):
        for sigma in (0.02, 1.0):
            theta, step = np.zeros((runs, m, d)), share / smoothness
            proved = AveragingBound(smoothness, ridge, 0.0, gap, step, d, m, felt, "convex")
            rule = replace(proved, shape="quadratic")
            for k in range(1, 61):
                theta = theta - step * (gradient(theta) + rng.normal(0, sigma, theta.shape))
                if k % tau == 0:
                    theta = np.broadcast_to(theta.mean(axis=1, keepdims=True), theta.shape)
                excess = loss(theta.mean(axis=1)) - loss(best)
                error = excess.std(ddof=1) / math.sqrt(runs)
                for bound in (proved, rule):
                    assert excess.mean() - ALARM * error <= bound.at(k, tau, sigma**2)


def test_the_convex_bound_weighs_the_steps_since_the_average():
    """B' = (eta L/M + eta^2 L^2 u) V/(2 lambda), u the mean of i = 0..tau-1 with weights q^(tau - 1 - i)."""
    for rate in (1e-6, 0.01, 0.3, 0.999, 1.0):
        for tau in (1, 2, 3, 10, 50):
            weights = [(1 - rate) ** (tau - 1 - i) for i in range(tau)]
            u = sum(i * weight for i, weight in enumerate(weights)) / sum(weights)
            bound = AveragingBound(1.0, rate, 0.7, 0.0, 1.0, 1, 4, shape="convex")
            floor = (1 / 4 + u) * 0.7 / (2 * rate)
            share = 1 - (1 - rate) ** 30
            np.testing.assert_allclose(bound.at(30, tau, 0.0), share * floor, rtol=1e-5)


def test_the_bound_is_no_looser_than_four_times_where_it_can_be_computed():
    """f = x^2/2, tau = 1: E f(x_K) = q^2K f(x_0) + eta V (1 - q^2K) / (2 M (2 - eta)); K large."""
    for step in (0.05, 0.3, 1.0):
        for clients in (1, 16):
            bound = AveragingBound(1.0, 1.0, 2.0, 1.0, step, 1, clients)
            true = step * 2.0 / (2 * clients * (2 - step))
            assert true <= bound.at(10_000, 1, 0.0) <= 4 * true


def test_a_bound_without_the_client_average_would_be_broken():
    """The simulation has teeth: a fifth of the floor at tau = 1 is exceeded."""
    mean, error = simulated(np.ones(3), 1, 1, 0.3, 30.0, 60, np.zeros(3))
    bound = AveragingBound(1.0, 1.0, 30.0, 0.0, 0.3, 3, 1)
    assert mean[-1] - ALARM * error[-1] > bound.at(60, 1, 0.0) / 5


def test_the_printed_bound_is_broken_without_noise():
    """docs/theory/hu.md#false-theorem: f = x^2/2, eta lambda = 0.1, K = 10, f(x_0) = 1."""
    mean, _ = simulated(np.ones(1), 1, 1, 0.1, 0.0, 10, np.array([math.sqrt(2)]), runs=2)
    bound = AveragingBound(1.0, 1.0, 0.0, 1.0, 0.1, 1, 1)
    printed = float(bound.printed_at(10, 1, 0.0))
    np.testing.assert_allclose([mean.min(), mean.mean(), printed], [0.122, 0.374, 0.035], atol=5e-4)
    assert mean.min() > 3 * printed
    assert mean[-1] <= bound.at(10, 1, 0.0)
    assert mean.mean() <= average_at(bound, 10, 1, 0.0)


def test_the_printed_bound_is_broken_with_noise_at_every_iterate():
    """Mean over 2,000 runs, less 4.75 standard errors; M = 4, tau = 3."""
    curvature, start = np.array([0.05, 1.0]), np.array([4.0, 1.0])
    mean, error = simulated(curvature, 4, 3, 0.2, 0.05, 12, start, runs=2000)
    gap = float(0.5 * (curvature * start**2).sum())
    bound = AveragingBound(1.0, 0.05, 0.05, gap, 0.2, 2, 4)
    assert bound.allows(3)
    least = np.min(mean - ALARM * error)
    assert least > bound.printed_at(12, 3, 0.0)
    assert mean[-1] + ALARM * error[-1] < bound.at(12, 3, 0.0)


# Constants --------------------------------------------------------------------------------------------


def test_the_bound_takes_dimension_and_clients_from_the_problem():
    bound = averaging_bound(make_problem(7, 11), constants(), 0.25)
    assert (bound.dimension, bound.clients, bound.step_size) == (11, 7, 0.25)
    assert vars(bound) == {**VALUES, "step_size": 0.25, "dimension": 11, "clients": 7,
                           "noise_dimension": None, "shape": "general"}  # fmt: skip


def test_a_noise_dimension_takes_the_place_of_the_dimension_where_noise_meets_curvature():
    """In the term of eta L/M of the general bound, and not in its drift."""
    problem = make_problem(7, 11)
    plain, felt = (
        averaging_bound(problem, constants(**more), 0.25) for more in ({}, {"noise_dimension": 1.5})
    )
    assert (felt.dimension, felt.noise_dimension) == (11, 1.5)
    saved = 0.5 / 7 * (11 - 1.5) * 0.2 / (2 * 0.1)
    assert plain.at(10**6, 3, 0.2) - felt.at(10**6, 3, 0.2) == pytest.approx(saved)
    with pytest.raises(InvalidInput, match="noise_dimension must be at most the dimension 11, got 12"):
        averaging_bound(make_problem(7, 11), constants(noise_dimension=12.0), 0.25)


def test_without_a_step_size_the_largest_is_taken():
    assert averaging_bound(make_problem(), constants()).step_size == 0.5


def test_bad_constants_are_refused_with_the_remedy():
    for changed, message in [
        ({"smoothness": 0.0}, "smoothness must be finite and above 0, got 0"),
        ({"strong_convexity": 0.0}, "strong_convexity must be finite and above 0, got 0; add a ridge"),
        ({"strong_convexity": 3.0}, "strong_convexity must be at most smoothness = 2, got 3"),
        ({"gradient_variance": -1.0}, "gradient_variance must be finite and at least 0, got -1"),
        ({"initial_gap": -0.1}, "initial_gap must be finite and at least 0, got -0.1"),
        ({"initial_gap": math.nan}, "initial_gap must be a number, got NaN"),
        ({"gradient_variance": math.inf}, "gradient_variance must be finite"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            averaging_bound(make_problem(), constants(**changed), 0.1)


def test_missing_constants_are_named():
    some = {name: value for name, value in constants().items() if name != "initial_gap"}
    del some["gradient_variance"]
    with pytest.raises(InvalidInput, match="needs the constants gradient_variance, initial_gap; state them"):
        averaging_bound(make_problem(), some, 0.1)


@pytest.mark.parametrize("step", [0.0, -0.1, 0.51, math.nan])
def test_a_step_size_outside_its_range_is_refused(step):
    with pytest.raises(InvalidInput, match="step_size must be"):
        averaging_bound(make_problem(), constants(), step)


def test_the_step_size_one_over_smoothness_is_allowed():
    for smoothness in (0.3, 3.0, 7.0, 49.0):
        averaging_bound(make_problem(), constants(smoothness=smoothness), 1 / smoothness)
