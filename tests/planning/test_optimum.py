"""The integer optimum equals a search over every (T, b), with the bound written out a second time."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.planning.problem import Constant, Problem
from noiseworthy.planning.queries_replies import _decide, candidates, optimum, plan
from noiseworthy.planning.replies_bound import RepliesBound, gaussian_curve, theory_bound
from noiseworthy.privacy.budget import PrivacyBudget

PROBLEMS = 1000
MENU_DELTA = 1e-5
MENU = {
    0.1: 30.7495661319774, 0.5: 7.03182667558249, 1.0: 3.73063163481594, 3.0: 1.39059345667454,
    10.0: 0.499888619709009,
}  # fmt: skip
"""epsilon -> s(epsilon, 1e-5), theory 0.2, by bisection in 60 digits."""


def random_case(rng: np.random.Generator, family: str, clients: int = 12, least: int = 1):
    """A problem with unequal sizes and budgets, its constants and its bound, noise from nil to hopeless."""
    n = int(rng.integers(least, clients + 1))
    epsilon = rng.choice(list(MENU), n) if family == "gaussian" else 10 ** rng.uniform(-1, 2, n)
    delta = MENU_DELTA if family == "gaussian" else 0.0
    sizes = rng.integers(10, 3000, n)
    clip = float(10 ** rng.uniform(-2, 1.5))
    problem = Problem(sizes, int(rng.integers(1, 400)), PrivacyBudget.of(epsilon, delta, n), family, clip)
    mu = float(10 ** rng.uniform(-1, 0.5))
    value = {
        "smoothness": mu * rng.uniform(1, 8),
        "strong_convexity": mu,
        "gradient_bound": 10 ** rng.uniform(-1, 1.5),
        "initial_distance_sq": 10 ** rng.uniform(-1, 3),
        "heterogeneity": rng.uniform(0, 1),
    }
    constants = {name: Constant(float(number), "assumed") for name, number in value.items()}
    return problem, value, constants, theory_bound(problem, constants)


def every_value(problem: Problem, value: dict[str, float], most: int) -> np.ndarray:
    """The bound of theory 1.3 at every T = 1..most (rows) and b = 1..N (columns), without product code."""
    n = len(problem.sizes)
    t, b = np.arange(1, most + 1)[:, None], np.arange(1, n + 1)[None, :]
    k = np.ceil(b * t / n)
    a, unit = problem.sizes / problem.sizes.sum(), 2 * problem.clip_norm / problem.sizes
    if problem.family == "laplace":
        per_client = 2 * (unit / problem.budget.epsilon) ** 2
        noise = n / b * k**2 * problem.dimension * np.sum(a**2 * per_client)
    else:
        s = np.array([MENU[e] for e in problem.budget.epsilon])
        noise = n / b * k * problem.dimension * np.sum(a**2 * (unit * s) ** 2)
    mu, smoothness = value["strong_convexity"], value["smoothness"]
    gamma = 2 * smoothness / mu
    v = 2 * (n - b) / (max(n - 1, 1) * b) * value["gradient_bound"] ** 2
    inner = v + 2 * smoothness * value["heterogeneity"] + noise
    return (4 / mu**2 * inner + gamma * value["initial_distance_sq"]) / (t + gamma)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_the_integer_optimum_is_the_best_of_all_rounds_and_clients(family):
    rng = np.random.default_rng(21)
    interior = 0
    for _ in range(PROBLEMS):
        problem, value, _, bound = random_case(rng, family)
        most = int(rng.integers(1, 60))
        table = every_value(problem, value, most)
        t, b, least = optimum(problem, bound, most, None, None)
        np.testing.assert_allclose(least, table.min(), rtol=1e-10)
        np.testing.assert_allclose(table[t - 1, b - 1], table.min(), rtol=1e-10)
        interior += 1 < b < problem.n_clients
    if family == "laplace":
        assert interior > 20  # the staircase has optima that no closed form gives


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_with_one_of_the_two_given_the_other_is_the_best_of_all(family):
    rng = np.random.default_rng(22)
    for _ in range(PROBLEMS):
        problem, value, _, bound = random_case(rng, family)
        table = every_value(problem, value, 50)
        t, b = int(rng.integers(1, 51)), int(rng.integers(1, problem.n_clients + 1))
        for rounds, clients, part in (
            (t, None, table[t - 1]),
            (None, b, table[:, b - 1]),
            (t, b, table[t - 1, b - 1]),
        ):
            best_t, best_b, least = optimum(problem, bound, 50, rounds, clients)
            np.testing.assert_allclose(least, np.min(part), rtol=1e-10)
            np.testing.assert_allclose(table[best_t - 1, best_b - 1], np.min(part), rtol=1e-10)
            assert rounds in (None, best_t)
            assert clients in (None, best_b)


def test_candidates_are_legal_and_few():
    t, b = candidates(100_000, 500, None, None)
    assert np.all((b >= 1) & (b <= 100_000))
    assert len(t) == sum(range(1, 501))
    t, b = candidates(7, 30, None, None)
    assert len(t) <= 7 * 30


def test_ties_go_to_the_fewest_uploads():
    """Without sampling variance and noise every b is equal, so one client is enough."""
    problem = Problem(np.array([5, 5, 5]), 2, PrivacyBudget.of(1.0, 0.0, 3), "none", 1.0)
    bound = RepliesBound(2.0, 0.0, 10.0, 1.0, 100.0)
    assert optimum(problem, bound, 20, None, None)[:2] == (20, 1)


def test_a_fitted_bound_may_fall_below_zero():
    problem, value, _, bound = random_case(np.random.default_rng(5), "laplace")
    shifted = RepliesBound(
        bound.gamma, bound.sampling, bound.rest, bound.noise_weight, bound.no_training, -1e4, "loss"
    )
    plain, moved = (optimum(problem, which, 40, None, None) for which in (bound, shifted))
    assert plain[:2] == moved[:2]
    assert moved[2] == pytest.approx(plain[2] - 1e4)
    assert every_value(problem, value, 40).min() == pytest.approx(plain[2])


def test_a_gaussian_plan_asks_every_client():
    rng = np.random.default_rng(23)
    trained = 0
    for _ in range(PROBLEMS):
        problem, value, constants, bound = random_case(rng, "gaussian", clients=8)
        made = plan(problem, bound, constants, max_rounds=40)
        if made.train:
            trained += 1
            assert made.clients_per_round == problem.n_clients
            row = every_value(problem, value, 40)[made.rounds - 1]
            assert row[-1] <= row.min() * (1 + 1e-10)
    assert trained > 200


def test_gaussian_rounds_follow_the_rule_of_theory_1_5():
    """Least T with U <= 1.1 E3, if that is within the horizon and worth training."""
    rng = np.random.default_rng(24)
    followed = 0
    for _ in range(PROBLEMS):
        problem, value, constants, bound = random_case(rng, "gaussian", clients=8)
        column = every_value(problem, value, 800)[:, -1]
        gamma = 2 * value["smoothness"] / value["strong_convexity"]
        e3 = every_value(
            problem, {**value, "gradient_bound": 0, "heterogeneity": 0, "initial_distance_sq": 0}, 1
        )
        e3 = e3[0, -1] * (1 + gamma)
        near = np.flatnonzero(column <= 1.1 * e3)
        made = plan(problem, bound, constants, max_rounds=800)
        if near.size and column[near[0]] < value["initial_distance_sq"]:
            followed += 1
            assert made.rounds == near[0] + 1
            closed = gaussian_curve(problem, bound).rounds_near_limit(problem.n_clients)
            assert made.rounds == max(closed, 1)
        elif not near.size:
            assert made.rounds in (0, 800)
    assert followed > 50


def test_a_poisson_plan_stops_within_a_tenth_of_its_best():
    """Sampled noise grows more slowly than k, so k = 1 is no limit of the bound."""

    class Sampled:
        n_clients, family, sampling_rate = 4, "gaussian", 0.01

        @staticmethod
        def weighted_noise(releases):
            return 5.0 * np.asarray(releases, float) ** 0.2

        @staticmethod
        def most_uploads():
            return np.inf

    bound = RepliesBound(3.0, 2.0, 40.0, 1.0, 100.0)
    best = optimum(Sampled(), bound, 400, None, None)
    t, b, value = _decide(Sampled(), bound, 400, None, None)
    assert b == 4
    assert best[2] <= value <= 1.1 * best[2]
    assert bound.at(Sampled(), t - 1, b) > 1.1 * best[2]
