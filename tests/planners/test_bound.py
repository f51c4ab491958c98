"""docs/theory/zhou.md#bound written out once more, and the noise that an aggregate really has."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import log_ndtr

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.fedsgd_dpc.bound import laplace_curve, theory_bound, uploads
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy_papers.gaussian_curve import gaussian_curve

VALUES = {
    "smoothness": 1.0,
    "strong_convexity": 0.1,
    "gradient_bound": 10.0,
    "initial_distance_sq": 900.0,
    "heterogeneity": 0.5,
}


def constants(**changes) -> dict[str, Constant]:
    return {name: Constant(value, "assumed") for name, value in (VALUES | changes).items()}


def s_of(epsilon: float, delta: float) -> float:
    """1/mu of docs/theory/accounting.md#gaussian-mechanism by root finding, without product code."""

    def excess(log_mu):
        mu = math.exp(log_mu)
        first, second = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        if second >= first:  # delta below what float64 can hold
            return -1e9
        return first + np.log1p(-np.exp(second - first)) - math.log(delta)

    return math.exp(-brentq(excess, math.log(1e-3), math.log(50), xtol=1e-13))


def literal_bound(problem: Problem, value: dict[str, float], t: int, b: int) -> float:
    """Y_T of docs/theory/zhou.md#bound term by term, with exact k and formula (V), in plain Python."""
    n, d = problem.n_clients, int(problem.sizes.sum())
    k = math.ceil(b * t / n)
    factor = 2 if problem.budget.relation == "replace-one" else 1
    noise = 0.0
    for size, epsilon, delta in zip(problem.sizes, problem.budget.epsilon, problem.budget.delta, strict=True):
        if problem.family == "laplace":
            variance = 2 * (factor * problem.clip_norm * k / (size * epsilon)) ** 2
        else:
            variance = (factor * problem.clip_norm / size * math.sqrt(k) * s_of(epsilon, delta)) ** 2
        noise += (size / d) ** 2 * problem.dimension * variance
    noise *= n / b
    mu, smoothness = value["strong_convexity"], value["smoothness"]
    gamma = 2 * smoothness / mu
    v = 0.0 if n in (1, b) else 2 * (n - b) / ((n - 1) * b) * value["gradient_bound"] ** 2
    inner = v + 2 * smoothness * value["heterogeneity"] + noise
    return (4 / mu**2 * inner + gamma * value["initial_distance_sq"]) / (t + gamma)


def random_case(rng: np.random.Generator, family: str) -> tuple[Problem, dict[str, float]]:
    n = int(rng.integers(1, 12))
    mu = float(10 ** rng.uniform(-2, 0.5))
    value = {
        "smoothness": mu * float(rng.uniform(1, 30)),
        "strong_convexity": mu,
        "gradient_bound": float(10 ** rng.uniform(-1, 1.5)),
        "initial_distance_sq": float(10 ** rng.uniform(-1, 3)),
        "heterogeneity": float(rng.uniform(0, 2)),
    }
    delta = 0.0 if family == "laplace" else 10 ** rng.uniform(-8, -3, n)
    relation = "replace-one" if rng.random() < 0.7 else "add-remove"
    budget = PrivacyBudget.of(10 ** rng.uniform(-1, 1.5, n), delta, n, relation)
    return Problem(rng.integers(20, 900, n), int(rng.integers(1, 500)), budget, family, 3.0), value


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_the_bound_is_its_formula_with_unequal_sizes_and_budgets(family):
    rng = np.random.default_rng(2)
    for _ in range(150):
        problem, value = random_case(rng, family)
        t, b = int(rng.integers(1, 400)), int(rng.integers(1, problem.n_clients + 1))
        bound = theory_bound(problem, constants(**value))
        expected = literal_bound(problem, value, t, b)
        np.testing.assert_allclose(float(bound.at(problem, t, b)), expected, rtol=1e-8)
        assert bound.no_training == value["initial_distance_sq"]


def test_the_bound_broadcasts_over_rounds_and_clients():
    problem, value = random_case(np.random.default_rng(4), "laplace")
    bound = theory_bound(problem, constants(**value))
    table = bound.at(problem, np.arange(1, 30)[:, None], np.arange(1, problem.n_clients + 1))
    assert table.shape == (29, problem.n_clients)
    assert table[6, 0] == bound.at(problem, 7, 1)


@pytest.mark.full
@pytest.mark.parametrize(("family", "delta"), [("laplace", 0.0), ("gaussian", 1e-4)])
@pytest.mark.parametrize("b", [1, 3, 7])
def test_the_noise_of_one_aggregate_is_what_monte_carlo_finds(family, delta, b):
    """Unequal sizes and budgets, b of 7 uniformly: E||(N/b) sum a_i w_i||^2 within 2 %."""
    rng = np.random.default_rng(100 + b)
    n, dimension, t, draws = 7, 8, 20, 120_000
    sizes, epsilon = rng.integers(80, 260, n), rng.uniform(0.8, 2.5, n)
    problem = Problem(sizes, dimension, PrivacyBudget.of(epsilon, delta, n), family, 2.0)
    k = math.ceil(b * t / n)
    size = problem.release(np.full(n, k)).mechanism.size
    draw = rng.normal if family == "gaussian" else rng.laplace
    total = np.zeros((draws, dimension))
    cohorts = np.argsort(rng.random((draws, n)), axis=1)[:, :b]
    for place in range(b):
        client = cohorts[:, place]
        total += draw(size=(draws, dimension)) * (n / b * sizes[client] / sizes.sum() * size[client])[:, None]
    measured = np.square(total).sum(axis=1).mean()
    claimed = n / b * float(problem.weighted_noise(np.array([k]))[0])
    assert measured == pytest.approx(claimed, rel=0.02)
    bound = theory_bound(problem, constants(gradient_bound=0.0, heterogeneity=0.0, initial_distance_sq=0.0))
    from_bound = float(bound.at(problem, t, b)) * (t + bound.gamma) * VALUES["strong_convexity"] ** 2 / 4
    assert measured == pytest.approx(from_bound, rel=0.02)


def test_uploads_are_the_staircase_and_never_the_mean():
    for n in (1, 3, 10):
        for t in range(1, 40):
            for b in range(1, n + 1):
                assert uploads(t, b, n) == math.ceil(b * t / n)
    assert uploads(10**9, 7, 10) == 7 * 10**8


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_the_curves_meet_the_bound_wherever_uploads_are_whole(family):
    rng = np.random.default_rng(9)
    for _ in range(100):
        problem, value = random_case(rng, family)
        bound = theory_bound(problem, constants(**value))
        curve = (laplace_curve if family == "laplace" else gaussian_curve)(problem, bound)
        b = int(rng.integers(1, problem.n_clients + 1))
        t = problem.n_clients * np.arange(1, 6)
        np.testing.assert_allclose(curve.at(t, b), bound.at(problem, t, b), rtol=1e-10)


def test_laplace_constants_are_those_of_the_closed_form():
    n, d, p, clip, epsilon = 10, 60_000, 7840, 300.0, np.linspace(1, 5, 10)
    problem = Problem(np.full(n, d // n), p, PrivacyBudget.of(epsilon, 0.0, n), "laplace", clip)
    curve = laplace_curve(problem, theory_bound(problem, constants()))
    mu, g_sq, y_0 = 0.1, 100.0, 900.0
    c1 = 4 / mu**2 * 2 * n * g_sq / (n - 1)
    c2 = 32 * p * clip**2 / (mu**2 * n * d**2) * np.sum(1 / epsilon**2)
    c3 = 20 * y_0 + 4 / mu**2 * (2 * 1.0 * 0.5 - 2 * g_sq / (n - 1))
    np.testing.assert_allclose([curve.gamma, curve.c1, curve.c2, curve.c3], [20, c1, c2, c3], rtol=1e-12)
    printed = 10.0 * n * d / (2 * 7 * clip) / np.sqrt(p * (n - 1) * np.sum(1 / epsilon**2))  # 1.4 (b), T = 7
    assert curve.best_clients(7, n) == pytest.approx(np.clip(printed, 1, n), rel=1e-12)


def test_gaussian_constants_are_those_of_the_closed_form():
    n, d, p, clip, epsilon = 10, 60_000, 7840, 10.0, np.linspace(0.2, 2, 10)
    problem = Problem(np.full(n, d // n), p, PrivacyBudget.of(epsilon, 1e-5, n), "gaussian", clip)
    curve = gaussian_curve(problem, theory_bound(problem, constants()))
    nu = p * (2 * clip) ** 2 / d**2 * sum(s_of(e, 1e-5) ** 2 for e in epsilon)
    e3, e1 = 400 * nu, 400 * 2 * 100 * n / (n - 1)
    e2 = 400 * (-2 * 100 / (n - 1) + 2 * 0.5) + 20 * 900 - 20 * e3
    np.testing.assert_allclose([curve.gamma, curve.e1, curve.e2, curve.e3], [20, e1, e2, e3], rtol=1e-8)


def test_poisson_batches_add_the_variance_of_single_records():
    """sum d_i Lambda^2 / (q d^2), docs/theory/zhou.md#bound; G^2 stands in for a missing Lambda^2."""
    sizes = np.array([30, 50])
    budget = PrivacyBudget.of(1.0, 1e-5, 2, "add-remove")
    whole = Problem(sizes, 4, budget, "gaussian", 1.0)
    sampled = Problem(sizes, 4, budget, "gaussian", 1.0, 0.25)
    base = theory_bound(whole, constants()).rest
    for changes, variance in (({}, 100.0), ({"record_variance": 3.0}, 3.0)):
        rest = theory_bound(sampled, constants(**changes)).rest
        assert rest - base == pytest.approx(400 * variance / (0.25 * 80), rel=1e-9)


@pytest.mark.full
def test_noise_from_a_loss_distribution_is_interpolated_within_six_percent():
    problem = Problem(np.array([100, 200]), 10, PrivacyBudget.of(1.0, 1e-5, 2), "laplace", 1.0)
    k = np.array([1, 2, 5, 9, 13, 25, 60, 150])
    direct = [
        10 * np.sum(np.square([1 / 3, 2 / 3]) * problem.release(np.full(2, m)).mechanism.variance) for m in k
    ]
    np.testing.assert_allclose(problem.weighted_noise(k), direct, rtol=0.06)
    assert problem.weighted_noise(np.array([150]))[0] == pytest.approx(direct[-1], rel=1e-12)


def small_problem(**changes) -> Problem:
    given = {
        "sizes": np.array([10, 20]),
        "dimension": 3,
        "budget": PrivacyBudget.of(1.0, 0.0, 2),
        "family": "laplace",
        "clip_norm": 1.0,
    }
    return Problem(**(given | changes))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"strong_convexity": 2.0}, "strong_convexity must be at most smoothness = 1, got 2"),
        ({"strong_convexity": 0.0}, "strong_convexity must be finite and above 0, got 0; add a ridge term"),
        ({"smoothness": float("nan")}, "smoothness must be a number, got NaN"),
        ({"gradient_bound": -1.0}, "gradient_bound must be finite and at least 0, got -1"),
        ({"initial_distance_sq": float("inf")}, "initial_distance_sq must be finite and at least 0, got inf"),
        ({"heterogeneity": -0.1}, "heterogeneity must be finite and at least 0, got -0.1"),
    ],
)
def test_constants_out_of_range_are_refused(changes, says):
    with pytest.raises(InvalidInput, match=says):
        theory_bound(small_problem(), constants(**changes))


def test_missing_constants_are_named():
    given = constants()
    del given["heterogeneity"], given["smoothness"]
    with pytest.raises(InvalidInput, match=r"needs the constants smoothness, heterogeneity; .*\[constants\]"):
        theory_bound(small_problem(), given)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sizes": np.array([10, 0])}, "sizes .* got 0 for client 1; leave a client without records out"),
        ({"clip_norm": 0.0}, "clip_norm must be finite and above 0, got 0"),
        ({"dimension": 0}, "dimension must be at least 1, got 0"),
        ({"dimension": 2.5}, r"dimension must be a whole number, got 2\.5"),
        ({"family": "cauchy"}, "mechanism must be one of 'laplace', 'gaussian', 'none', got 'cauchy'"),
        ({"sizes": np.array([1, 2, 3])}, r"epsilon must be one number or a list of 3 .* got 2 values"),
    ],
)
def test_a_problem_that_makes_no_sense_is_refused(changes, says):
    with pytest.raises(InvalidInput, match=says):
        small_problem(**changes)
