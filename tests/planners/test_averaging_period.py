"""The planner of DP-PASGD equals brute force; its plans keep both budgets, and the printed ones do not."""

from __future__ import annotations

import json
import math
import time
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtr

from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.methods.dp_pasgd.bound import averaging_bound
from noiseworthy.methods.dp_pasgd.planner import curves, plan, stated
from noiseworthy.methods.dp_pasgd.search import Candidates, StepNoise, binding, optimum
from noiseworthy.methods.fedsgd_dpc.planner import stated as stated_replies
from noiseworthy.plans.local_work import NoisySteps
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.budget import PrivacyBudget

PROBLEMS = 1000
DELTA = 1e-4
EPSILONS = [1e-3, 0.3, 1.0, 4.0, 30.0, 1000.0]
VALUES = {
    "smoothness": 1.0, "strong_convexity": 0.05, "gradient_variance": 0.05, "initial_gap": math.log(2),
}  # fmt: skip


def assumed(**changed) -> dict[str, Constant]:
    return {name: Constant(value, "assumed") for name, value in (VALUES | changed).items()}


def constant(step: float) -> StepSize:
    return StepSize(step, math.inf)


STEP = constant(0.05)


def make_problem(
    epsilon=4.0, *, clients=16, size=256, p=100, clip=1.0, resources=(100.0, 1.0, 1000.0), **changed
) -> Problem:
    """The example of docs/theory/hu.md#planner where nothing else is said."""
    sizes = np.broadcast_to(size, clients).astype(np.int64)
    scarce = None if resources is None else Resources.of(*resources, clients=clients)
    relation = changed.pop("relation", "replace-one")
    budget = PrivacyBudget.of(epsilon, changed.pop("delta", DELTA), clients, relation)
    return Problem(sizes, p, budget, changed.pop("family", "gaussian"), clip, resources=scarce, **changed)


# Brute force ------------------------------------------------------------------------------------------


@lru_cache
def unit_std(epsilon: float, delta: float = DELTA) -> float:
    """s(epsilon, delta) of docs/theory/accounting.md#gaussian-mechanism by bisection on the exact delta."""
    low, high = 1e-3, 1e5
    for _ in range(200):
        std = math.sqrt(low * high)
        a, b = 0.5 / std - epsilon * std, -0.5 / std - epsilon * std
        spent = ndtr(a) - math.exp(epsilon + log_ndtr(b))
        low, high = (std, high) if spent > delta else (low, std)
    return high


def test_the_bisection_agrees_with_the_theory():
    np.testing.assert_allclose(unit_std(1.0, 1e-5), 3.73063163481594, rtol=1e-9)


def mean_variance(problem: Problem, batch_size: int | None, k: int, zcdp: bool = False) -> float:
    """sigma-bar^2 for K steps: 2G/X_m (G/X_m), one use in every pass over floor(n/X) minibatches."""
    total, moved = 0.0, 2 if problem.budget.relation == "replace-one" else 1
    for n, epsilon, delta in zip(problem.sizes, problem.budget.epsilon, problem.budget.delta, strict=True):
        x = int(n) if batch_size is None else min(int(n), batch_size)
        uses = math.ceil(k / (n // x))
        ell = math.log(1 / delta)
        rho = (math.sqrt(epsilon + ell) - math.sqrt(ell)) ** 2
        unit = 1 / (2 * rho) if zcdp else unit_std(float(epsilon), float(delta)) ** 2
        total += (moved * problem.clip_norm / x) ** 2 * unit * uses
    return 0.0 if problem.family == "none" else total / problem.n_clients


def paid(resources: Resources | None, rounds: int, steps: int) -> bool:
    if resources is None:
        return True
    rows = zip(resources.cost_per_round, resources.cost_per_step, resources.budget, strict=True)
    return all(c1 * rounds + c2 * steps <= c * (1 + 1e-12) for c1, c2, c in rows)


def drift_of(q: float, tau: int, convex: bool) -> float:
    """2 (tau - 1), or for a convex loss the mean of 0..tau-1 with weights q^(steps to come)."""
    weights = [q ** (tau - 1 - i) for i in range(tau)]
    return sum(i * w for i, w in enumerate(weights)) / sum(weights) if convex else 2.0 * (tau - 1)


def every_value(
    problem: Problem,
    value: dict[str, float],
    eta: float,
    batch: int | None,
    most: int,
    zcdp: bool = False,
    convex: bool = False,
) -> dict[tuple[int, int], float]:
    """F at every affordable and allowed (R, tau) with R tau <= most, in plain loops: no product code."""
    table, m = {}, problem.n_clients
    smooth, lam, xi, a = value.values()
    variances = [mean_variance(problem, batch, k, zcdp) for k in range(1, most + 1)]
    for rounds in range(1, most + 1):
        for tau in range(1, most // rounds + 1):
            k = rounds * tau
            q, step = 1 - eta * lam, eta * smooth
            if not convex and tau > 1 and step**2 * tau * (tau - 1) > (1 - step) * q ** (tau - 1):
                continue
            if not paid(problem.resources, rounds, k):
                continue
            v = xi + problem.dimension * variances[k - 1]
            floor = (step / m + step**2 * drift_of(q, tau, convex)) * v / (2 * lam)
            table[rounds, tau] = q**k * (a - floor) + floor
    return table


def random_resources(rng: np.random.Generator, clients: int) -> Resources | None:
    """Free, equal or unequal; whole or real; c1 = 0, c2 = 0; often for one round only, at times for none."""
    if rng.random() < 0.15:
        return None
    many = clients if rng.random() < 0.4 else 1
    c1, c2 = rng.uniform(0, 20, many), rng.uniform(0, 3, many)
    if rng.random() < 0.5:
        c1, c2 = np.ceil(c1), np.ceil(c2)
    kind = rng.random()
    c1, c2 = c1 * (kind > 0.15), c2 * (kind < 0.85)
    budget = (c1 + c2).max() * 10 ** rng.uniform(-0.1, 1.3, many)
    return Resources.of(
        *(np.broadcast_to(part, clients) for part in (c1, c2, np.ceil(budget))), clients=clients
    )


def feasible_problem(rng: np.random.Generator) -> Problem | None:
    """None where some client cannot pay for one round of one step, and the problem was refused."""
    m = int(rng.choice([1, 2, 4]))
    sizes = rng.integers(10, 300, m) if rng.random() < 0.6 else np.full(m, 80)
    epsilon = rng.choice(EPSILONS, m) if rng.random() < 0.5 else rng.choice(EPSILONS)
    relation = "replace-one" if rng.random() < 0.7 else "add-remove"
    budget = PrivacyBudget.of(epsilon, DELTA, m, relation)
    family = "gaussian" if rng.random() < 0.9 else "none"
    p, clip, resources = int(rng.integers(1, 60)), float(10 ** rng.uniform(-2, 0.3)), random_resources(rng, m)
    if paid(resources, 1, 1):
        return Problem(sizes, p, budget, family, clip, resources=resources)
    with pytest.raises(InvalidInput, match="must pay for one round"):
        Problem(sizes, p, budget, family, clip, resources=resources)
    return None


def random_values(rng: np.random.Generator) -> dict[str, float]:
    smoothness = float(10 ** rng.uniform(-0.5, 0.5))
    return {
        "smoothness": smoothness,
        "strong_convexity": smoothness * float(rng.choice([1.0, 0.5, 0.05])),
        "gradient_variance": float(rng.choice([0.0, rng.uniform(0, 0.5)])),
        "initial_gap": float(10 ** rng.uniform(-1.5, 1)),
    }


def agreeing(table: dict, k: int | None, tau: int | None) -> dict:
    return {
        (r, t): v for (r, t), v in table.items() if (tau is None or t == tau) and (k is None or r * t == k)
    }


def check_against(table, problem, constants, most, alpha, step, batch, convex, k=None, tau=None) -> str:
    """Compare one plan with the table; returns what happened."""
    allowed = agreeing(table, k, tau)

    def make():
        return plan(
            problem, constants, step=step, batch_size=batch, total_iterations=k, local_steps=tau,
            max_iterations=most, shape="convex" if convex else "general",
        )  # fmt: skip

    if not allowed:
        with pytest.raises(InvalidInput, match="use "):
            make()
        return "refused"
    made, best = make(), min(allowed.values())
    if not made.train:
        assert None in (k, tau)
        assert best >= alpha * (1 - 1e-9)
        assert made.prediction.bound == made.prediction.no_training == alpha
        assert made.release is None
        assert not made.releases.any()
        return "no training"
    assert best < alpha * (1 + 1e-9) or None not in (k, tau)
    np.testing.assert_allclose(made.prediction.bound, best, rtol=1e-9)
    np.testing.assert_allclose(allowed[made.rounds, made.local.steps], best, rtol=1e-9)
    np.testing.assert_allclose(
        np.mean(made.noise**2), mean_variance(problem, batch, made.rounds * made.local.steps), rtol=1e-8
    )
    assert made.cost is None or problem.resources.affords(made.rounds, made.rounds * made.local.steps)
    assert problem.family == "none" or np.all(made.spent() <= problem.budget.epsilon)
    return "several" if made.local.steps > 1 else "trained"


@pytest.mark.full
def test_a_plan_is_the_best_of_all_rounds_and_local_steps():
    """1,000 problems, with nothing, K, tau or both fixed, at a stated step size."""
    rng, seen = np.random.default_rng(31), {}
    for case in range(PROBLEMS):
        problem = feasible_problem(rng)
        if problem is None:
            seen["infeasible"] = seen.get("infeasible", 0) + 1
            continue
        value, most = random_values(rng), int(rng.integers(4, 28))
        eta = float(rng.choice([1.0, 0.5, 0.2, 0.05])) / value["smoothness"]
        batch = int(rng.integers(5, 150)) if rng.random() < 0.4 else None
        if problem.budget.relation == "add-remove":
            batch = None
        convex = bool(rng.random() < 0.25)
        table = every_value(problem, value, eta, batch, most, convex=convex)
        tau = int(rng.integers(1, most // 2 + 1))
        k = tau * int(rng.integers(1, most // tau + 1))
        fixed = [(None, None), (k, None), (None, tau), (k, tau)][case % 4 if case % 2 else 0]
        happened = check_against(
            table, problem, assumed(**value), most, value["initial_gap"], constant(eta), batch, convex, *fixed
        )
        seen[happened] = seen.get(happened, 0) + 1
    assert all(seen.get(kind, 0) > 20 for kind in ("infeasible", "refused", "no training", "several")), seen
    assert seen["trained"] > 200


@pytest.mark.full
def test_a_planned_step_size_is_the_best_of_25():
    rng, seen = np.random.default_rng(32), set()
    for _ in range(40):
        value, most = random_values(rng) | {"smoothness": 2.0, "strong_convexity": 0.3}, 14
        problem = make_problem(
            rng.choice(EPSILONS[1:]), clients=3, size=200, p=20, clip=0.3, resources=(10.0, 1.0, 60.0)
        )
        found = {}
        for i in range(25):
            eta = 10 ** (-3 * i / 24) / 2.0
            found |= {(*key, eta): v for key, v in every_value(problem, value, eta, None, most).items()}
        made = plan(problem, assumed(**value), max_iterations=most)
        best = min(found.values())
        assert made.train == (best < value["initial_gap"])
        if made.train:
            np.testing.assert_allclose(made.prediction.bound, best, rtol=1e-9)
            near = min(found, key=lambda key: abs(key[2] - made.step.initial))[2]
            np.testing.assert_allclose(made.step.initial, near, rtol=1e-9)
            np.testing.assert_allclose(found[made.rounds, made.local.steps, near], best, rtol=1e-9)
            seen.add(round(made.step.initial, 6))
    assert len(seen) > 3


@pytest.mark.parametrize("resources", [(3.0, 0.7, 900.0), (0.0, 1.0, 5000.0), (7.0, 0.0, 800.0), None])
@pytest.mark.parametrize("batch", [None, 30])
def test_the_least_period_of_every_length_is_enough(resources, batch):
    """Dominance: all (R, tau) with R tau <= 3000, evaluated by the bound itself, have no better one."""
    problem = make_problem(2.0, clients=3, size=[100, 200, 333], p=10, resources=resources)
    for eta in (1.0, 0.1, 0.01):
        bound = averaging_bound(problem, assumed(), eta)
        noise = StepNoise.exact(problem, NoisySteps(1, batch))
        rounds = np.repeat(np.arange(1, 3001), 3000 // np.arange(1, 3001))
        starts = np.concatenate([[0], np.cumsum(3000 // np.arange(1, 3001))[:-1]])
        tau = np.arange(len(rounds)) - starts[rounds - 1] + 1
        values = bound.at(rounds * tau, tau, noise(np.arange(1, 3001))[rounds * tau - 1])
        open_to_all = bound.allows(tau)
        if problem.resources is not None:
            open_to_all &= problem.resources.affords(rounds, rounds * tau)
        best = np.flatnonzero(open_to_all)[np.argmin(values[open_to_all])]
        found = optimum([bound], noise, Candidates.within(problem.resources, 3000))
        assert found is not None
        assert found.value == values[best]
        assert (found.rounds, found.local_steps) == (rounds[best], tau[best])


@pytest.mark.full
def test_without_any_variance_equal_plans_take_the_fewest_rounds():
    """Neither noise nor gradient variance: the bound depends on K alone, and R is the least of the best K."""
    rng, several = np.random.default_rng(33), 0
    for _ in range(150):
        value = random_values(rng) | {"gradient_variance": 0.0}
        eta = float(rng.choice([1.0, 0.5, 0.2, 0.05])) / value["smoothness"]
        scarce = (float(rng.integers(0, 9)), float(rng.integers(1, 4)), float(rng.integers(20, 60)))
        problem = make_problem(clients=2, family="none", resources=scarce if rng.random() < 0.8 else None)
        table = every_value(problem, value, eta, None, 30)
        best = min(table.values())
        fewest = min((r, r * t) for (r, t), v in table.items() if v <= best * (1 + 1e-12))
        made = plan(problem, assumed(**value), step=constant(eta), max_iterations=30)
        assert (made.rounds, made.rounds * made.local.steps) == fewest
        several += made.local.steps > 1
    assert several > 30


# The worked example -----------------------------------------------------------------------------------


def test_the_example_of_the_theory():
    made = plan(make_problem(), assumed(), step=STEP)
    assert (made.rounds, made.local.steps, made.rounds * made.local.steps) == (9, 9, 81)
    assert round(made.prediction.bound, 3) == 0.606
    assert made.prediction.no_training == math.log(2)
    assert made.cost.tolist() == [981.0] * 16
    np.testing.assert_allclose(made.noise, 2 / 256 * 9 * unit_std(4.0), rtol=1e-9)
    assert made.releases.tolist() == [81] * 16
    assert made.uploads.tolist() == [9] * 16
    assert "Train 9 rounds of 9 local steps (81 iterations), cost 981 of 1000 units;" in made.outcome


def test_zcdp_beside_it():
    beside = plan(make_problem(), assumed(), step=STEP).compared["zcdp"]
    assert (beside["rounds"], beside["local_steps"], beside["total_iterations"]) == (9, 7, 63)
    assert round(beside["bound"], 3) == 0.620
    assert beside["cost"] == 963.0
    ell = math.log(1e4)
    rho = 4 + 2 * ell - 2 * math.sqrt(ell**2 + 4 * ell)
    np.testing.assert_allclose(beside["noise"], math.sqrt(2 * 63 / (256**2 * rho)), rtol=1e-9)
    table = every_value(make_problem(), VALUES, 0.05, None, 100, zcdp=True)
    np.testing.assert_allclose(beside["bound"], min(table.values()), rtol=1e-9)


def test_the_printed_objective_trains_too_little():
    """docs/theory/hu.md#planner: with the same exact noise it takes tau = 3, K = 27, at 0.040."""
    problem, printed = make_problem(), {}
    bound = averaging_bound(problem, assumed(), 0.05)
    for rounds, tau in every_value(problem, VALUES, 0.05, None, 900):
        k = rounds * tau
        printed[k, tau] = float(bound.printed_at(k, tau, mean_variance(problem, None, k)))
    assert min(printed, key=printed.__getitem__) == (27, 3)
    assert round(min(printed.values()), 3) == 0.040


def test_the_relaxed_problem_lies_just_below_the_plan():
    """Against a grid in plain Python; no whole plan is better than it."""
    relaxed = plan(make_problem(), assumed(), step=STEP).compared["relaxed"]
    problem, best = make_problem(), math.inf
    one = mean_variance(problem, None, 1)
    for i in range(1, 90_000):
        k = i / 100
        tau = max(1.0, 100 * k / (1000 - k))
        q = 1 - 0.05 * 0.05
        if 0.05 + 0.0025 * tau * (tau - 1) * q ** (1 - tau) <= 1:
            floor = (0.05 / 16 + 0.005 * (tau - 1)) * (0.05 + 100 * one * k) / 0.1
            best = min(best, q**k * (math.log(2) - floor) + floor)
    np.testing.assert_allclose(relaxed["bound"], best, rtol=1e-7)
    assert relaxed["bound"] <= 0.60587
    k, tau = relaxed["total_iterations"], relaxed["local_steps"]
    np.testing.assert_allclose(tau, 100 * k / (1000 - k))


@settings(max_examples=40)
@given(
    st.floats(0.05, 100), st.just(0.0) | st.floats(0.01, 200), st.floats(0.1, 20), st.floats(1, 40),
    st.floats(0.005, 1),
)  # fmt: skip
def test_no_whole_plan_is_better_than_the_relaxed_one(epsilon, c1, c2, times, step):
    """It contains every whole plan."""
    problem = make_problem(epsilon, resources=(c1, c2, times * (c1 + c2)))
    made = plan(problem, assumed(), step=constant(step), max_iterations=2000)
    assert made.compared["relaxed"]["bound"] <= made.prediction.bound * (1 + 1e-9)


# The printed solution ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "by_zcdp", "exact"),
    [(1.0, 76.6, 70.8), (2.0, 79.5, 73.5), (4.0, 85.0, 78.7), (10.0, 100.0, 93.2)],
)
def test_the_printed_noise_spends_many_times_the_budget(epsilon, by_zcdp, exact):
    """docs/theory/hu.md#wrong-root, through the printed formula for sigma and an exact delta typed here."""
    made = plan(make_problem(epsilon), assumed(), step=STEP)
    printed = made.as_printed
    assert round(printed["spent_epsilon_zcdp"], 1) == by_zcdp
    assert round(printed["spent_epsilon"], 1) == exact
    ell, k = math.log(1e4), printed["total_iterations"]
    root = epsilon + 2 * ell + 2 * math.sqrt(ell**2 + epsilon * ell)
    np.testing.assert_allclose(printed["noise"], math.sqrt(2 * k / (256**2 * root)), rtol=1e-12)
    mu = 2 / 256 * math.sqrt(k) / printed["noise"][0]
    spent = printed["spent_epsilon"]
    delta = ndtr(mu / 2 - spent / mu) - math.exp(spent + log_ndtr(-mu / 2 - spent / mu))
    np.testing.assert_allclose(delta, DELTA, rtol=1e-6)
    assert printed["private"] is False
    assert np.all(made.spent() <= epsilon)


@settings(max_examples=40)
@given(
    st.lists(st.floats(0.01, 50), min_size=3, max_size=3), st.floats(1e-9, 1e-2),
    st.sampled_from(["replace-one", "add-remove"]), st.sampled_from([None, 20, 70]), st.integers(1, 60),
)  # fmt: skip
def test_ours_never_overspends_and_the_printed_one_always(epsilon, delta, relation, batch, k):
    """For any budgets: exact epsilon of the plan at most the budget, and nearly all of it."""
    assume(batch is None or relation == "replace-one")
    problem = make_problem(
        epsilon, delta=delta, relation=relation, clients=3, size=[60, 70, 200], resources=(10.0, 1.0, 2000.0)
    )
    made = plan(problem, assumed(), step=constant(0.01), batch_size=batch, total_iterations=k, local_steps=1)
    assert made.train
    assert np.all(made.spent() <= problem.budget.epsilon)
    np.testing.assert_allclose(made.spent(), epsilon, rtol=1e-6)
    if batch is None:
        assert made.as_printed["spent_epsilon"] > max(epsilon)


def test_zcdp_noise_is_never_below_the_exact_one():
    for epsilon in EPSILONS:
        made = plan(make_problem(epsilon), assumed(), step=STEP, total_iterations=20, local_steps=4)
        assert np.all(np.array(made.compared["zcdp"]["noise"]) > made.noise)


def test_the_printed_solution_is_the_best_rounded_point_of_its_own_objective():
    """(24) and (25) retyped, on a fine grid; tau below 1 is not refused."""
    for epsilon, budget in ((4.0, 1000.0), (1.0, 500.0), (10.0, 2000.0)):
        printed = plan(make_problem(epsilon, resources=(100.0, 1.0, budget)), assumed(), step=STEP).as_printed
        ell = math.log(1e4)
        z = epsilon + 2 * ell + 2 * math.sqrt(ell**2 + epsilon * ell)
        k = np.arange(1, 100 * int(budget)) / 100
        left, q = k < budget, 1 - 0.0025
        tau = 100 * k[left] / (budget - k[left])
        k = k[left]
        spread = 0.05 + 2 * k * 100 / (16 * z) * 16 / 256**2
        share = q**k / k
        f = math.log(2) * share + (1 - share) * (0.05 / (0.1 * 16) + 0.0025 * (tau - 1) / 0.1) * spread
        best = int(np.argmin(f))
        assert printed["total_iterations"] == round(k[best])
        assert printed["local_steps"] == max(1, round(tau[best]))
        assert printed["rounds"] == printed["total_iterations"] / printed["local_steps"]
        cost = 100 * printed["rounds"] + printed["total_iterations"]
        np.testing.assert_allclose(printed["cost"], cost)


def test_rounding_breaks_the_budget_and_divisibility_and_the_plan_says_so():
    """docs/theory/hu.md#rounding: tau = 10, K = 91 costs 1001 of 1000, and 10 does not divide 91."""
    problem = make_problem()
    made = plan(problem, assumed(), step=STEP, total_iterations=91)
    assert made.as_printed["local_steps"] == 10
    np.testing.assert_allclose(made.as_printed["cost"], 1001.0)
    said = [note for note in made.notes if "printed solution" in note]
    assert said == [
        "The printed solution cannot be run: costs 1001 of 1000 units and its 10 local steps do not divide "
        "its 91 iterations."
    ]
    assert made.local.steps == 13
    assert made.cost.max() == 791.0
    with pytest.raises(InvalidInput, match="local_steps must divide total_iterations = 91, got 10"):
        stated(problem, 91, 10, STEP)


def test_printed_solutions_that_could_be_run_are_not_faulted():
    seen = set()
    for budget in range(300, 1500, 40):
        made = plan(make_problem(resources=(100.0, 1.0, float(budget))), assumed(), step=STEP)
        printed = made.as_printed
        faults = printed["total_iterations"] % printed["local_steps"] != 0, printed["cost"] > budget
        said = " ".join(note for note in made.notes if "printed solution" in note)
        assert ("do not divide" in said, "costs" in said) == faults
        seen.add(faults)
    assert (False, False) in seen
    assert len(seen) > 2


def test_without_resources_the_printed_noise_alone_is_shown():
    made = plan(make_problem(resources=None), assumed(), step=STEP, max_iterations=400)
    k = made.rounds * made.local.steps
    assert made.local.steps == 1
    assert made.as_printed["total_iterations"] == k
    assert made.as_printed["cost"] is None
    assert round(made.as_printed["spent_epsilon_zcdp"], 1) == 85.0
    assert made.cost is None
    assert set(made.compared) == {"zcdp"}


def test_without_noise_nothing_is_printed():
    made = plan(make_problem(family="none"), assumed(), step=STEP)
    assert made.as_printed == {}
    assert set(made.compared) == {"relaxed"}
    assert made.noise.tolist() == [0.0] * 16


# What a plan says -------------------------------------------------------------------------------------


def test_a_hopeless_budget_is_not_trained_for():
    made = plan(make_problem(0.01), assumed(), step=STEP)
    assert not made.train
    assert made.rounds == made.clients_per_round == 0
    assert made.cost.tolist() == [0.0] * 16
    assert made.prediction.bound == made.prediction.no_training
    assert made.outcome.startswith("Do not train: no affordable setting has a bound below that of the start")
    assert made.compared["zcdp"]["total_iterations"] >= 1
    assert made.spent().tolist() == [0.0] * 16


def test_what_is_stated_is_trained_against_advice():
    made = plan(make_problem(0.01), assumed(), step=STEP, total_iterations=10, local_steps=5)
    assert (made.rounds, made.local.steps) == (2, 5)
    assert "as stated, although the bound advises against it" in made.outcome


def test_plans_are_plain_json():
    for problem in (
        make_problem(),
        make_problem(0.01),
        make_problem(family="none"),
        make_problem(resources=None),
    ):
        for step in (STEP, None):
            made = plan(problem, assumed(), step=step, max_iterations=1000, notes=("carried",))
            keys = json.loads(json.dumps(made.as_dict(), allow_nan=False))
            assert keys["algorithm"] == "dp-pasgd"
            assert keys["notes"][0] == "carried"
            assert keys["local_steps"] * keys["rounds"] == keys["total_iterations"]
            assert any("last iterate" in note for note in keys["notes"])
            assert any("Assumption 3" in note for note in keys["notes"])


def test_a_single_device_needs_no_assumption_about_others():
    made = plan(make_problem(30.0, clients=1), assumed(), step=STEP)
    assert not any("Assumption 3" in note for note in made.notes)


def test_per_device_costs_name_the_device_that_is_short():
    problem = make_problem(clients=3, resources=([100.0, 50.0, 100.0], 1.0, [1000.0, 900.0, 600.0]))
    made = plan(problem, assumed(), step=STEP)
    assert f"cost {made.cost[2]:.6g} of 600 units of client 2" in made.outcome
    assert np.all(made.cost <= problem.resources.budget)


# Minibatches ------------------------------------------------------------------------------------------


def test_minibatches_are_paid_for_by_uses_and_divided_by_their_size():
    problem = make_problem(4.0, clients=2, size=[60, 250], resources=None)
    made = stated(problem, 81, 9, STEP, batch_size=100)
    assert made.releases.tolist() == [81, 41]
    wanted = [2 / 60 * 9 * unit_std(4.0), 2 / 100 * math.sqrt(41) * unit_std(4.0)]
    np.testing.assert_allclose(made.noise, wanted, rtol=1e-9)
    assert made.problem is problem
    assert made.local == NoisySteps(9, 100)
    assert any("minibatches" in note for note in plan(problem, assumed(), step=STEP, batch_size=9).notes)


# Monotone ---------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    st.floats(0.05, 20), st.floats(1, 3), st.floats(1, 60), st.floats(1, 3), st.floats(0.02, 1),
    st.sampled_from([None, 50]),
)  # fmt: skip
def test_more_of_either_budget_never_worsens_the_bound(epsilon, more, times, longer, step, batch):
    def best(epsilon, times):
        problem = make_problem(epsilon, resources=(10.0, 1.0, 11.0 * times))
        made = plan(problem, assumed(), step=constant(step), batch_size=batch, max_iterations=700)
        return made.prediction.bound

    here = best(epsilon, times) * (1 + 1e-9)
    assert best(epsilon * more, times) <= here
    assert best(epsilon, times * longer) <= here


def test_privacy_and_resources_pull_the_period_apart():
    """Fig. 6 of the paper: tau grows with epsilon."""
    periods = [plan(make_problem(e), assumed(), step=STEP).local.steps for e in (2.0, 4.0, 10.0)]
    assert periods == sorted(periods)
    assert periods[0] < periods[-1]


def test_endless_privacy_spends_the_resources_and_none_trains_not():
    free = plan(make_problem(1e6), assumed(gradient_variance=0.0, initial_gap=1e3), step=constant(1e-3))
    assert free.cost.max() > 990
    assert not plan(make_problem(1e-3), assumed(), step=STEP).train


# Stated -----------------------------------------------------------------------------------------------


def test_a_stated_setting_is_taken_as_it_is():
    problem = make_problem()
    made = stated(problem, 40, 5, constant(0.3))
    assert (made.rounds, made.local.steps, made.step.initial) == (8, 5, 0.3)
    assert made.prediction is None
    assert (
        made.outcome == "Train 8 rounds of 5 local steps (40 iterations), cost 840 of 1000 units, as stated."
    )
    assert np.all(made.spent() <= 4.0)
    assert stated(make_problem(family="none"), 40, 5, STEP).noise.tolist() == [0.0] * 16


def test_a_stated_setting_keeps_the_resources():
    with pytest.raises(
        InvalidInput,
        match=r"total_iterations = 50 in 10 rounds must cost at most the \[resources\] budget 1000 units of "
        r"client 0, got 1050; use at most total_iterations = 45 with local_steps = 5, or raise",
    ):
        stated(make_problem(), 50, 5, STEP)
    stated(make_problem(), 45, 5, STEP)
    with pytest.raises(InvalidInput, match="use local_steps of at most 900, or raise the budget"):
        stated(make_problem(), 1802, 901, STEP)
    stated(make_problem(), 900, 900, STEP)


# Bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"total_iterations": 901}, "got 1001; use at most total_iterations = 900, or raise the budget"),
        ({"local_steps": 901}, "use local_steps of at most 900"),
        ({"total_iterations": 90, "local_steps": 9}, "total_iterations = 81 with local_steps = 9,"),
        ({"total_iterations": 10, "local_steps": 4}, "local_steps must divide total_iterations = 10, got 4"),
        ({"total_iterations": 0}, "total_iterations must be at least 1, got 0; K = 0 is no training"),
        ({"local_steps": 0}, "local_steps must be"),
        ({"local_steps": 2.5}, "local_steps must be a whole number, got 2.5"),
        ({"local_steps": 60, "max_iterations": 50}, "local_steps must be between 1 and 50, got 60"),
        ({"max_iterations": 0}, "max_iterations must be at least 1, got 0"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"local_steps": 20}, r"local_steps must be at most 19 for step_size 0.05 .* got 20; use fewer"),
        ({"total_iterations": 89}, "total_iterations = 89 has no divisor .* at most 19, .* use another"),
        ({"step": constant(1.01)}, "step_size must be at most 1/smoothness = 1, got 1.01"),
        ({"step": StepSize(0.05, 50.0)}, 'got step_decay = 50; use step_decay = "none"'),
    ],
)  # fmt: skip
def test_bad_settings_are_refused_with_value_range_and_remedy(changed, message):
    with pytest.raises(InvalidInput, match=message):
        plan(make_problem(), assumed(), **({"step": STEP} | changed))


def test_other_mechanisms_are_refused():
    pure = make_problem(family="laplace", delta=0.0)
    poisson = make_problem(sampling_rate=0.5, relation="add-remove")
    budget = PrivacyBudget.of(1.0, DELTA, 2, unit="client")
    whole = Problem(np.array([5, 5]), 3, budget, "gaussian", 1.0, clipping="C")
    dealt = make_problem(relation="add-remove")
    for make in (
        lambda: plan(dealt, assumed(), step=STEP, batch_size=5),
        lambda: stated(dealt, 4, 2, STEP, 5),
    ):
        with pytest.raises(UnsoundClaim, match=r'batches of 5, .* set relation = "replace-one"'):
            make()
    for problem, error, message in [
        (pure, InvalidInput, 'got laplace; set mechanism = "gaussian"'),
        (poisson, UnsoundClaim, "got sampling_rate 0.5; use batch_size, which deals records into disjoint"),
        (whole, InvalidInput, "clipping mode A"),
    ]:
        with pytest.raises(error, match=message):
            plan(problem, assumed(), step=STEP)
        with pytest.raises(error, match=message):
            stated(problem, 4, 2, STEP)
    with pytest.raises(InvalidInput, match="delta must lie in"):
        plan(make_problem(delta=0.0), assumed(), step=STEP)


# Curves -----------------------------------------------------------------------------------------------


def test_curves_show_the_best_of_every_period():
    problem = make_problem()
    made = plan(problem, assumed(), step=STEP)
    drawn = curves(problem, assumed(), made)
    table = every_value(problem, VALUES, 0.05, None, 900)
    assert drawn.axis == "local steps per averaging"
    assert drawn.chosen == 9
    first = drawn.curves[0]
    assert first.x == list(range(1, 20))
    np.testing.assert_allclose(first.bound, [min(agreeing(table, None, tau).values()) for tau in first.x])
    assert first.x[int(np.argmin(first.bound))] == 9
    second = drawn.curves[1]
    assert second.x[int(np.argmin(second.bound))] == 7
    assert np.all(np.array(second.bound) > first.bound)


def test_the_printed_solution_keeps_its_own_dimension():
    printed = [
        plan(make_problem(), assumed(**more), step=STEP).as_printed for more in ({}, {"noise_dimension": 2.0})
    ]
    assert printed[0] == printed[1]


def test_curves_of_a_fixed_length_show_its_divisors():
    problem = make_problem()
    made = plan(problem, assumed(), step=STEP, total_iterations=60)
    drawn = curves(problem, assumed(), made, total_iterations=60)
    assert drawn.curves[0].x == [10, 12, 15]
    assert drawn.chosen == made.local.steps == 10
    assert drawn.curves[0].bound[0] == made.prediction.bound


def test_curves_of_a_plan_not_to_train_choose_nothing():
    problem = make_problem(0.01)
    drawn = curves(problem, assumed(), plan(problem, assumed(), step=STEP))
    assert drawn.chosen is None
    assert min(drawn.curves[0].bound) >= math.log(2)
    quiet = make_problem(family="none")
    assert len(curves(quiet, assumed(), plan(quiet, assumed())).curves) == 1


def test_curves_of_another_algorithm_are_refused():
    problem = make_problem(resources=None)
    with pytest.raises(InvalidInput, match="need a plan of dp-pasgd"):
        curves(problem, assumed(), stated_replies(problem, 5, 4, StepSize(0.1)))


# Size and speed ---------------------------------------------------------------------------------------


def test_only_clients_that_can_be_short_limit_the_search():
    """Dropping the others changes no answer."""
    rng = np.random.default_rng(35)
    for _ in range(50):
        every = Resources.of(*rng.integers(1, 9, (2, 30)).astype(float), rng.integers(50, 90, 30), clients=30)
        few, rounds = binding(every), rng.integers(0, 20, 200)
        steps = rng.integers(0, 40, 200)
        assert len(few.budget) < 30
        assert np.array_equal(few.affords(rounds, steps), every.affords(rounds, steps))


@pytest.mark.slow
@pytest.mark.parametrize("step", [constant(1e-3), None])
@pytest.mark.parametrize("batch", [None, 50])
def test_a_thousand_devices_and_a_hundred_thousand_iterations_take_under_a_second(step, batch):
    rng, m = np.random.default_rng(36), 1000
    costs = rng.uniform(3, 5, m), rng.uniform(0.5, 1, m), rng.uniform(2e5, 3e5, m)
    problem = make_problem(rng.uniform(1, 10, m), clients=m, size=rng.integers(100, 3000, m), resources=costs)
    begun = time.process_time()
    made = plan(problem, assumed(), step=step, batch_size=batch)
    assert time.process_time() - begun < 1
    assert made.train
    assert np.all(made.cost <= problem.resources.budget)
