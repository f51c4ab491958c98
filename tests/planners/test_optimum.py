"""The integer optimum equals a search over every (T, b), with the bound written out a second time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.fedsgd_dpc.bound import RepliesBound, theory_bound
from noiseworthy.methods.fedsgd_dpc.planner import _decide, candidates, optimum, plan, stated
from noiseworthy.plans.estimation import split_budget
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.plans.stages import Pilot
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.mechanisms import Gaussian
from noiseworthy_papers.gaussian_curve import gaussian_curve

PROBLEMS = 1000
MENU_DELTA = 1e-5
MENU = {
    0.1: 30.7495661319774, 0.5: 7.03182667558249, 1.0: 3.73063163481594, 3.0: 1.39059345667454,
    10.0: 0.499888619709009,
}  # fmt: skip
"""epsilon -> s(epsilon, 1e-5), docs/theory/accounting.md#gaussian-mechanism, by bisection in 60 digits."""


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
    """docs/theory/zhou.md#bound at every T = 1..most (rows) and b = 1..N (columns), without product code."""
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


@pytest.mark.full
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


@pytest.mark.full
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


@pytest.mark.full
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


@pytest.mark.full
def test_gaussian_rounds_are_the_least_near_the_limit():
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
        n_clients, law, sampling_rate = 4, Gaussian.law, 0.01

        @staticmethod
        def weighted_noise(releases, cohort=None):
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


# Within resources ---------------------------------------------------------------------------------------


def paid(problem: Problem, most: int, extra: int = 0) -> np.ndarray:
    """Whether every client can pay for its replies at T = 1..most (rows) and b = 1..N (columns)."""
    n, has = problem.n_clients, problem.resources
    assert has is not None
    k = np.ceil(np.arange(1, most + 1)[:, None] * np.arange(1, n + 1) / n) + extra
    spent = k[..., None] * (has.cost_per_round + has.cost_per_step)
    return np.all(spent <= has.budget * (1 + 1e-9), axis=-1)


@pytest.mark.full
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_within_resources_the_optimum_is_the_best_of_what_is_paid_for(family, random_resources):
    """300 problems, with T, b or nothing fixed."""
    rng, bound_by_budget = np.random.default_rng(31), 0
    for _ in range(300):
        problem, value, _, bound = random_case(rng, family)
        most = int(rng.integers(1, 50))
        problem = replace(problem, resources=random_resources(rng, problem.n_clients, most))
        every = every_value(problem, value, most)
        table = np.where(paid(problem, most), every, np.inf)
        t, b = int(rng.integers(1, most + 1)), int(rng.integers(1, problem.n_clients + 1))
        for rounds, clients, part in (
            (None, None, table), (t, None, table[t - 1]), (None, b, table[:, b - 1]),
        ):  # fmt: skip
            if np.all(np.isinf(part)):
                with pytest.raises(InvalidInput, match=r"\[resources\] budget pays for"):
                    plan(problem, bound, {}, rounds=rounds, clients_per_round=clients, max_rounds=most)
                continue
            best_t, best_b, least = optimum(problem, bound, most, rounds, clients)
            np.testing.assert_allclose(least, part.min(), rtol=1e-10)
            np.testing.assert_allclose(table[best_t - 1, best_b - 1], part.min(), rtol=1e-10)
        bound_by_budget += table.min() > every.min()
    assert bound_by_budget > 50


@pytest.mark.full
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_a_plan_costs_what_its_replies_cost_and_no_more_than_the_budget(family, random_resources):
    """Gaussian plans stop within a tenth of the limit, where that is paid for, and else are the best."""
    rng, trained = np.random.default_rng(32), 0
    for _ in range(300):
        problem, value, constants, bound = random_case(rng, family)
        has = random_resources(rng, problem.n_clients, 40)
        problem = replace(problem, resources=has)
        made = plan(problem, bound, constants, max_rounds=50)
        k = -(-made.rounds * made.clients_per_round // problem.n_clients)
        assert made.cost is not None
        np.testing.assert_allclose(made.cost, k * (has.cost_per_round + has.cost_per_step))
        assert np.all(made.cost <= has.budget * (1 + 1e-9))
        if made.train:
            trained += 1
            best = np.where(paid(problem, 50), every_value(problem, value, 50), np.inf).min()
            limit = gaussian_curve(problem, bound).e3 if family == "gaussian" else 0.0
            assert made.prediction is not None
            assert best * (1 - 1e-9) <= made.prediction.bound <= max(best, 1.1 * limit) * (1 + 1e-9)
    assert trained > 100


@given(
    seed=st.integers(0, 10_000), family=st.sampled_from(["laplace", "gaussian"]), more=st.floats(1, 5),
    rounds=st.integers(1, 20),
)  # fmt: skip
def test_a_larger_budget_never_worsens_the_bound(seed, family, more, rounds):
    rng = np.random.default_rng(seed)
    problem, _, _, bound = random_case(rng, family)
    c1, c2 = rng.uniform(0, 9, problem.n_clients), rng.uniform(0.1, 9, problem.n_clients)
    poor, rich = (
        replace(problem, resources=Resources.of(c1, c2, share * rounds * (c1 + c2), problem.n_clients))
        for share in (1, more)
    )
    assert optimum(rich, bound, 30, None, None)[2] <= optimum(poor, bound, 30, None, None)[2] * (1 + 1e-12)
    if family == "laplace":
        made = [plan(one, bound, {}, max_rounds=30).prediction for one in (poor, rich)]
        assert made[0] is not None
        assert made[1] is not None
        assert made[1].bound <= made[0].bound * (1 + 1e-12)


def test_a_budget_that_pays_for_everything_changes_nothing():
    rng = np.random.default_rng(33)
    for family in ("laplace", "gaussian"):
        problem, _, constants, bound = random_case(rng, family)
        rich = replace(problem, resources=Resources.of(1.0, 1.0, 1e9, problem.n_clients))
        free, made = (plan(one, bound, constants, max_rounds=60) for one in (problem, rich))
        assert (made.rounds, made.clients_per_round, made.notes) == (
            free.rounds,
            free.clients_per_round,
            free.notes,
        )


def test_a_pilot_takes_the_room_of_one_reply():
    """The plan after a pilot is that of a budget one reply smaller; with the pilot it fills the larger."""
    rng, filled = np.random.default_rng(34), 0
    for _ in range(100):
        problem, _, constants, bound = random_case(rng, "laplace")
        pilot, left = split_budget(problem, 0.1)
        k = int(rng.integers(2, 20))
        whole, smaller = (
            replace(left, resources=Resources.of(3.0, 2.0, 5.0 * most, problem.n_clients))
            for most in (k, k - 1)
        )
        with_pilot = plan(
            whole,
            bound,
            constants,
            max_rounds=60,
            pilot=Pilot(((pilot, np.ones(problem.n_clients, int)),), problem.budget),
        )
        alone = plan(smaller, bound, constants, max_rounds=60)
        assert (with_pilot.rounds, with_pilot.clients_per_round) == (alone.rounds, alone.clients_per_round)
        assert with_pilot.cost is not None
        assert np.all(with_pilot.cost <= 5.0 * k)
        filled += bool(np.all(with_pilot.cost == 5.0 * k))
    assert filled > 10


def test_constants_are_not_bought_where_no_round_could_follow():
    problem, *_ = random_case(np.random.default_rng(5), "laplace")
    with pytest.raises(InvalidInput, match="pays for one upload of every client, and buying constants needs"):
        split_budget(replace(problem, resources=Resources.of(3.0, 2.0, 9.0, problem.n_clients)), 0.1)


def test_what_is_fixed_beyond_the_budget_is_refused_with_the_most_that_is_paid_for():
    """Twelve replies of each of ten clients: T b <= 120."""
    budget = PrivacyBudget.of(1.0, 0.0, 10)
    problem = Problem(np.full(10, 50), 5, budget, "laplace", 1.0, resources=Resources.of(3.0, 1.0, 50.0, 10))
    step, says = StepSize(0.1), (
        r"\[resources\] budget pays for 12 uploads of every client, got rounds = 31 with 4 of 10 clients "
        r"each, which is 13; use rounds of at most 30 or clients_per_round of at most 3, or raise the budget"
    )  # fmt: skip
    bound = RepliesBound(2.0, 1.0, 10.0, 1.0, 100.0)
    with pytest.raises(InvalidInput, match=says):
        stated(problem, 31, 4, step)
    with pytest.raises(InvalidInput, match=says):
        plan(problem, bound, {}, rounds=31, clients_per_round=4)
    assert stated(problem, 30, 4, step).as_dict()["cost"] == 48.0
    assert stated(problem, 31, 3, step).as_dict()["cost"] == 40.0
    with pytest.raises(InvalidInput, match="use rounds of at most 120, or raise"):
        plan(problem, bound, {}, rounds=121)
    assert plan(problem, bound, {}, rounds=120).clients_per_round in (0, 1)
    assert any("at most 12 uploads" in note for note in plan(problem, bound, {}).notes)
