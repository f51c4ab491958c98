"""P1 of Ma et al. equals brute force and a heap; its plans overspend nobody, and the printed one does."""

from __future__ import annotations

import heapq
import json
import math
import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dpfl_bcs.bound import (
    Curvature,
    ParticipationBound,
    noise_constant,
    participation_bound,
    participation_costs,
)
from noiseworthy.methods.dpfl_bcs.planner import continuous, greedy, kappa, plan, stated
from noiseworthy.methods.dpfl_bcs.printed import (
    as_printed,
    overspending,
    printed_noise,
    printed_participations,
)
from noiseworthy.methods.dpfl_bcs.search import ParticipationCosts
from noiseworthy.methods.selection import exact_counts
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.gaussian import gaussian_mu

RANDOM = 400
DELTA = 1e-5
STEEPER = {"smoothness": 1.7}
VALUES = {"smoothness": 1.0, "strong_convexity": 0.1, "initial_distance_sq": 4.0}


def assumed(**changed) -> dict[str, Constant]:
    return {name: Constant(value, "assumed") for name, value in (VALUES | changed).items()}


def make_problem(epsilon, *, sizes=600, p=11, clip=1.0, **changed) -> Problem:
    n = np.size(epsilon)
    relation = changed.pop("relation", "replace-one")
    family = changed.pop("family", "gaussian")
    delta = changed.pop("delta", DELTA if family == "gaussian" else 0.0)
    budget = PrivacyBudget.of(epsilon, delta, n, relation)
    return Problem(np.broadcast_to(sizes, n).astype(np.int64), p, budget, family, clip, **changed)


def paper_epsilons(seed=0, clients=100) -> np.ndarray:
    """epsilon_n ~ U[0.1, 3] of section 5.7."""
    return np.random.default_rng(seed).uniform(0.1, 3, clients)


# Oracles ----------------------------------------------------------------------------------------------


def j_of(costs: ParticipationCosts, counts) -> float:
    rows = zip(counts, costs.noise.tolist(), costs.bias.tolist(), strict=True)
    return math.fsum(phi * float(t) ** (costs.exponent + 1) + float(t) * bias for t, phi, bias in rows)


def best_of_all(costs: ParticipationCosts, total: int) -> float:
    """The least J over every way to share `total` participations."""
    ways = product(*(range(cap + 1) for cap in costs.most.tolist()))
    return min(j_of(costs, way) for way in ways if sum(way) == total)


def heap_greedy(costs: ParticipationCosts, total: int) -> list[int]:
    """One participation at a time to the cheapest next one; ties to the least asked, then by index."""
    z, asked = costs.exponent, [0] * len(costs.most)

    def entry(n: int) -> tuple[float, int, int]:
        x = asked[n]
        return float(costs.noise[n]) * ((x + 1) ** (z + 1) - x ** (z + 1)) + float(costs.bias[n]), x, n

    heap = [entry(n) for n in range(len(asked)) if costs.most[n] > 0]
    heapq.heapify(heap)
    for _ in range(total):
        n = heapq.heappop(heap)[2]
        asked[n] += 1
        if asked[n] < costs.most[n]:
            heapq.heappush(heap, entry(n))
    return asked


def random_costs(rng: np.random.Generator, clients: int, most: int) -> tuple[ParticipationCosts, int]:
    """Ties, no noise, noise lost in the last bits of the bias, scales from 1e-30 to 1e30, caps of 0."""
    kind = rng.integers(6)
    phi = 10 ** rng.uniform(-3, 3, clients)
    bias = 10 ** rng.uniform(-3, 3, clients) * (rng.random(clients) < 0.7)
    if kind == 0:
        phi, bias = rng.integers(1, 4, clients).astype(float), rng.integers(0, 9, clients).astype(float)
    if kind == 1:
        phi, bias = np.zeros(clients), rng.integers(0, 3, clients).astype(float)
    if kind == 2:
        phi, bias = phi * 1e-13, bias + 100
    if kind == 3:
        phi, bias = phi * 10 ** rng.uniform(-30, 30), bias * 10 ** rng.uniform(-30, 30)
    if kind == 4:
        phi, bias = np.full(clients, phi[0]), np.full(clients, bias[0])
    caps = rng.integers(0, most + 1, clients) if rng.random() < 0.5 else np.full(clients, most)
    costs = ParticipationCosts(phi, bias, 1 if rng.random() < 0.5 else 2, caps.astype(np.int64))
    return costs, int(rng.integers(0, caps.sum() + 1))


@st.composite
def problems_of_sharing(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return random_costs(rng, draw(st.integers(1, 12)), draw(st.integers(1, 30)))


# The integer optimum ----------------------------------------------------------------------------------


@pytest.mark.full
def test_greedy_is_the_least_over_every_way_to_share():
    rng = np.random.default_rng(1)
    for _ in range(RANDOM):
        costs, total = random_costs(rng, int(rng.integers(1, 5)), 4)
        found = greedy(costs, total)
        assert found.sum() == total
        assert j_of(costs, found) <= best_of_all(costs, total) * (1 + 1e-12)


@pytest.mark.full
def test_greedy_gives_every_participation_as_a_heap_would():
    rng = np.random.default_rng(2)
    for _ in range(2 * RANDOM):
        costs, total = random_costs(rng, int(rng.integers(1, 20)), int(rng.integers(1, 60)))
        assert greedy(costs, total).tolist() == heap_greedy(costs, total)


def test_greedy_gives_the_papers_federation_as_a_heap_would():
    rng = np.random.default_rng(3)
    for family in ("gaussian", "laplace"):
        problem = make_problem(paper_epsilons(), sizes=rng.integers(100, 900, 100), family=family)
        costs = participation_costs(problem, assumed(), rng.exponential(1e-3, 100), 200, 20)
        assert greedy(costs, 4000).tolist() == heap_greedy(costs, 4000)


@pytest.mark.full
@given(problems_of_sharing())
@settings(deadline=None, max_examples=200)
def test_no_exchange_of_one_participation_helps(case):
    costs, total = case
    asked = greedy(costs, total)
    assert asked.sum() == total
    assert np.all((asked >= 0) & (asked <= costs.most))
    given_up, taken = asked > 0, asked < costs.most
    if given_up.any() and taken.any():
        last = costs.of_next(np.maximum(asked - 1, 0))[given_up].max()
        assert last <= costs.of_next(asked)[taken].min()


@given(problems_of_sharing(), st.integers(0, 11), st.sampled_from([1.5, 10.0, 1e6]))
@settings(deadline=None, max_examples=100)
def test_more_noise_never_brings_a_client_more_participations(case, which, factor):
    costs, total = case
    n = which % len(costs.most)
    noisier = costs.noise.copy()
    noisier[n] *= factor
    changed = ParticipationCosts(noisier, costs.bias, costs.exponent, costs.most)
    assert greedy(changed, total)[n] <= greedy(costs, total)[n]


def test_equal_costs_go_to_the_least_asked_and_then_to_the_lowest_index():
    costs = ParticipationCosts(np.zeros(3), np.zeros(3), 1, np.array([9, 1, 9]))
    assert greedy(costs, 6).tolist() == [3, 1, 2]
    tied = ParticipationCosts(np.array([5.0, 1.0]), np.array([0.0, 4.0]), 1, np.array([9, 9]))
    assert greedy(tied, 1).tolist() == [1, 0]
    later = ParticipationCosts(np.array([1.0, 5.0]), np.zeros(2), 1, np.array([9, 9]))
    assert later.of_next(np.array([2, 0])).tolist() == [5.0, 5.0]
    assert greedy(later, 3).tolist() == [2, 1]


@pytest.mark.slow
def test_many_clients_take_little_time():
    """200,000 clients and 8 million participations; 1 million take about five times as long."""
    rng, n = np.random.default_rng(4), 200_000
    for z in (1, 2):
        costs = ParticipationCosts(10 ** rng.uniform(-4, 0, n), rng.exponential(1, n), z, np.full(n, 200))
        started = time.process_time()
        assert greedy(costs, 40 * n).sum() == 40 * n
        assert continuous(costs, 40 * n).sum() == pytest.approx(40 * n)
        assert time.process_time() - started < 2


# The real optimum -------------------------------------------------------------------------------------


@pytest.mark.full
@given(problems_of_sharing())
@settings(deadline=None, max_examples=200)
def test_the_real_answer_meets_the_conditions_of_karush_kuhn_and_tucker(case):
    """One price for all that are inside, no lower slope at 0, no higher slope at the cap: enough, as J is
    convex."""
    costs, total = case
    t = continuous(costs, total)
    assert t.sum() == pytest.approx(total, rel=1e-12)
    assert np.all((t >= 0) & (t <= costs.most))
    slope = costs.slope(t)
    above_zero, below_cap = t > 0, t < costs.most
    if above_zero.any() and below_cap.any():
        assert slope[above_zero].max() <= slope[below_cap].min() * (1 + 1e-9) + 1e-300


@pytest.mark.full
def test_the_real_answer_is_at_most_that_of_whole_numbers_and_close_to_it():
    """At the price of the last whole participation nobody is further than 0.58 from the real answer."""
    rng = np.random.default_rng(5)
    for _ in range(RANDOM):
        costs, total = random_costs(rng, int(rng.integers(1, 20)), 40)
        whole, real = greedy(costs, total), continuous(costs, total)
        assert j_of(costs, real) <= j_of(costs, whole) * (1 + 1e-9)
        if costs.noise.min() <= 1e-9 * costs.bias.max() or not whole.any():
            continue
        price = costs.of_next(np.maximum(whole - 1, 0))[whole > 0].max()
        level = np.maximum(price - costs.bias, 0) / ((costs.exponent + 1) * costs.noise)
        assert np.all(np.abs(np.minimum(level ** (1 / costs.exponent), costs.most) - whole) <= 0.58)


def test_in_the_papers_federation_whole_and_real_answers_differ_by_less_than_one():
    for family in ("gaussian", "laplace"):
        problem = make_problem(paper_epsilons(), family=family)
        costs = participation_costs(problem, {}, np.zeros(100), 200, 20)
        assert np.abs(greedy(costs, 4000) - continuous(costs, 4000)).max() < 1


@pytest.mark.parametrize("z", [1, 2])
def test_without_bias_and_caps_it_is_proposition_1(z):
    phi = 10 ** np.random.default_rng(6).uniform(-3, 3, 50)
    costs = ParticipationCosts(phi, np.zeros(50), z, np.full(50, 10**9))
    share = phi ** (-1 / z) / np.sum(phi ** (-1 / z))
    np.testing.assert_allclose(continuous(costs, 4000), 4000 * share, rtol=1e-9)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_proposition_1_in_the_terms_of_a_federation(family):
    """T_n proportional to D_n^2 / s_n^2 (Gaussian), D_n epsilon_n (Laplace)."""
    rng = np.random.default_rng(7)
    sizes, epsilon = rng.integers(100, 900, 60), rng.uniform(0.5, 2, 60)
    problem = make_problem(epsilon, sizes=sizes, family=family)
    share = sizes * epsilon if family == "laplace" else (sizes * gaussian_mu(epsilon, DELTA)) ** 2
    costs = participation_costs(problem, {}, np.zeros(60), 1000, 3)
    np.testing.assert_allclose(continuous(costs, 3000), 3000 * share / share.sum(), rtol=1e-9)


@pytest.mark.parametrize("total", [-1, 11, 2.5])
def test_what_the_caps_do_not_allow_is_refused(total):
    costs = ParticipationCosts(np.ones(2), np.zeros(2), 1, np.array([5, 5]))
    for search in (greedy, continuous):
        with pytest.raises(InvalidInput, match="participations must be"):
            search(costs, total)


# Costs and bound --------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_phi_is_the_noise_that_the_release_of_one_upload_adds(family, relation):
    problem = make_problem([0.3, 2.0], sizes=[100, 500], family=family, relation=relation, clip=3.0)
    variance = problem.dimension * problem.release(np.ones(2, int)).mechanism.variance
    np.testing.assert_allclose(problem.upload_variance, variance, rtol=1e-9)
    costs = participation_costs(problem, {}, np.zeros(2), 10, 1)
    np.testing.assert_allclose(costs.noise * noise_constant(problem), variance, rtol=1e-9)
    several = problem.dimension * problem.release(np.array([4, 9])).mechanism.variance
    np.testing.assert_allclose(variance * np.array([4, 9]) ** costs.exponent, several, rtol=1e-9)


@pytest.mark.parametrize(("family", "factor"), [("gaussian", 4), ("laplace", 8)])
def test_lambda_and_phi_are_those_of_the_theory(family, factor):
    problem = make_problem([0.3, 2.0], sizes=[100, 500], family=family, clip=3.0)
    assert noise_constant(problem) == pytest.approx(factor * 11 * 9)
    unit = problem.budget.epsilon if family == "laplace" else gaussian_mu(problem.budget.epsilon, DELTA)
    phi = participation_costs(problem, {}, np.zeros(2), 10, 1).noise
    np.testing.assert_allclose(phi, 1 / np.square(problem.sizes * unit), rtol=1e-9)


def test_kappa_is_the_corrected_one():
    problem = make_problem([1.0] * 5, clip=2.0)
    assert kappa(problem, assumed(), 200, 3) == pytest.approx(3 * (6 + 0.1 * 200 / 2) / (4 * 11 * 4))


def bound_in_plain_numbers(problem: Problem, gammas, counts, rounds: int, k: int) -> float:
    """docs/theory/ma.md#bound word by word, with rho_min = 0."""
    smooth, mu, start = (VALUES | STEEPER).values()
    gamma, z = 8 * smooth / mu, 2 if problem.family == "laplace" else 1
    noise = bias = 0.0
    rows = zip(problem.sizes, problem.budget.epsilon, gammas, counts, strict=True)
    for size, epsilon, differs, t in rows:
        unit = 1 / epsilon if z == 2 else 1 / float(gaussian_mu(epsilon, DELTA))
        lam = 4 * z * problem.dimension * problem.clip_norm**2
        noise += lam / (k**2 * rounds) * t ** (z + 1) * (unit / size) ** 2
        bias += t * differs
    upsilon_a = noise + 2 * smooth / (k * rounds) * bias
    upsilon_b = 2 * bias / (k * rounds)
    return smooth / 2 * ((gamma * start + 4 * upsilon_a / mu**2) / (gamma + rounds) + upsilon_b / mu)


@pytest.mark.full
@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_plans_have_the_least_bound_of_all_counts(family):
    rng = np.random.default_rng(8)
    for _ in range(15):
        epsilon, sizes = 10 ** rng.uniform(-1, 1, 4), rng.integers(50, 500, 4)
        problem = make_problem(epsilon, sizes=sizes, family=family)
        gammas, t, k = 10 ** rng.uniform(-4, 0, 4), 4, int(rng.integers(1, 4))
        constants = assumed(**STEEPER)
        made = plan(problem, constants, rounds=t, clients_per_round=k, heterogeneity=gammas)
        ways = [way for way in product(range(t + 1), repeat=4) if sum(way) == k * t]
        least = min(bound_in_plain_numbers(problem, gammas, way, t, k) for way in ways)
        assert made.prediction.bound == pytest.approx(least, rel=1e-12)
        assert made.prediction.no_training == pytest.approx(1.7 * 2)


def test_differences_of_the_bound_are_differences_of_j():
    rng = np.random.default_rng(9)
    problem, gammas = make_problem(paper_epsilons(clients=10)), rng.exponential(0.1, 10)
    costs = participation_costs(problem, assumed(), gammas, 30, 4)
    bound = participation_bound(problem, assumed(), gammas, 30, 4)
    shares = [rng.multinomial(120, np.full(10, 0.1)) for _ in range(5)]
    j, f = np.array([costs.value(t) for t in shares]), np.array([bound.at(t) for t in shares])
    np.testing.assert_allclose(np.diff(f) / np.diff(j), (f[1] - f[0]) / (j[1] - j[0]), rtol=1e-9)


@pytest.mark.parametrize("noisy", [0.0, 0.3, 5.0])
@pytest.mark.parametrize("rounds", [1, 2, 10, 300])
def test_the_bound_holds_where_the_error_is_known(noisy, rounds):
    """F_n = |w -+ 1|^2 / 2 in one dimension: only the first of two clients is asked, from w = -2."""
    bound = ParticipationBound(
        Curvature(1.0, 1.0), 4.0, np.array([noisy, 1.0]), 1, np.array([0.5, 0.5]), rounds, 1
    )
    mean, spread, variance = -2.0, 0.0, noisy * rounds
    for t in range(1, rounds + 1):
        eta = 2 / (t + 8)
        mean, spread = mean - eta * (mean - 1), (1 - eta) ** 2 * spread + eta**2 * variance
    assert (mean**2 + spread) / 2 <= bound.at([rounds, 0])


# Plans ------------------------------------------------------------------------------------------------


def test_a_plan_says_what_it_does():
    gammas = np.linspace(0, 1, 100)
    made = plan(
        make_problem(paper_epsilons()), assumed(), rounds=200, clients_per_round=20, heterogeneity=gammas
    )
    assert made.algorithm == "dpfl-bcs"
    assert (made.rounds, made.clients_per_round, made.releases.sum()) == (200, 20, 4000)
    assert made.outcome.startswith(
        f"Train 200 rounds asking 20 of 100 clients in each; clients are asked {made.releases.min()} to "
        f"{made.releases.max()} times, by their budget and heterogeneity"
    )
    assert f"{np.count_nonzero(made.releases == 0)} clients are never asked" in made.notes[0]
    assert made.step.at(np.array([0, 9])).tolist() == pytest.approx([2 / (0.1 * 81), 2 / (0.1 * 90)])
    json.dumps(made.as_dict(), allow_nan=False)


def test_heterogeneity_that_all_share_changes_nothing_however_large():
    rng, problem = np.random.default_rng(13), make_problem(paper_epsilons())

    def counts(heterogeneity):
        made = plan(problem, assumed(), rounds=50, clients_per_round=7, heterogeneity=heterogeneity)
        return made.releases.tolist()

    gammas = rng.integers(0, 8, 100) / 2**14  # exact in float64, also beside 2^30
    assert counts(gammas + 2.0**30) == counts(gammas)
    assert counts(1e20) == counts(None)


def test_a_bound_for_other_steps_than_the_trained_ones_says_so():
    def notes(step):
        problem, settings = make_problem([0.9, 1.0]), {"rounds": 10, "clients_per_round": 1}
        return plan(problem, assumed(), step=step, notes=("before",), **settings).notes

    assert notes(None) == notes(StepSize(2 / (0.1 * 81), 81.0)) == ("before",)
    assert notes(StepSize(0.05)) == (
        "before",
        "The bound is of steps 2 / (mu (t + 8 L/mu)); with others it is a guide to whom to ask, no more.",
    )


def test_without_constants_nothing_is_predicted_and_no_step_is_chosen():
    made = plan(make_problem([0.5, 1.0]), {}, rounds=10, clients_per_round=1, heterogeneity=3.0)
    assert made.prediction is None
    assert made.step is None
    assert made.outcome == (
        "Train 10 rounds asking 1 of 2 clients in each; clients are asked 2 to 8 times, by their budget."
    )


def test_a_bound_that_advises_against_training_says_so_and_trains():
    made = plan(make_problem([1e-2, 2e-2]), assumed(), rounds=10, clients_per_round=1)
    assert made.train
    assert made.prediction.bound > made.prediction.no_training
    assert ", although the bound advises against it; bound " in made.outcome


def test_clients_that_are_never_asked_spend_nothing_and_others_at_most_their_epsilon():
    made = plan(make_problem([1e-4, 0.5, 1.0, 3.0]), {}, rounds=9, clients_per_round=2)
    assert made.releases[0] == 0
    assert made.spent()[0] == 0
    assert np.all(made.spent() <= made.problem.budget.epsilon)
    np.testing.assert_allclose(made.spent()[1:], made.problem.budget.epsilon[1:], rtol=1e-6)
    assert made.notes == ("Client 0 is never asked: nothing is spent there, and nothing learnt.",)


@pytest.mark.parametrize("family", ["gaussian", "laplace", "none"])
def test_limits_of_the_decision(family):
    """docs/theory/ma.md#planner, degenerate cases."""

    def counts(epsilon, k, heterogeneity=None, t=12):
        problem = make_problem(epsilon, family=family)
        made = plan(problem, assumed(), rounds=t, clients_per_round=k, heterogeneity=heterogeneity)
        return made.releases.tolist()

    assert counts([0.1, 1.0, 9.0], 3) == [12, 12, 12]
    assert counts([0.1], 1) == [12]
    assert counts([1.0] * 6, 2) == [4] * 6
    assert counts([1.0] * 4, 3, [7.0] * 4) == [9] * 4
    assert counts([1e9, 1e9, 1e9, 1e9], 2, [0.3, 0.0, 0.2, 0.4]) == [0, 12, 12, 0]
    if family != "none":
        assert counts([1e-3, 1.0, 1.0], 1) == [0, 6, 6]


def test_a_client_beyond_all_floats_is_left_out_and_too_few_others_are_refused():
    problem = make_problem([1e-200, 1.0, 1.0], family="laplace")
    made = plan(problem, assumed(), rounds=10, clients_per_round=2)
    assert made.releases.tolist() == [0, 10, 10]
    assert math.isfinite(made.prediction.bound)
    with pytest.raises(InvalidInput, match="clients_per_round must be at most 2, the clients whose epsilon"):
        plan(problem, {}, rounds=10, clients_per_round=3)


def test_resources_cap_each_client_for_itself():
    resources = Resources.of([1.0, 1.0, 4.0, 9.0], 1.0, 20.0, clients=4)
    problem = make_problem([1.0, 1.0, 1.0, 9.0], resources=resources)
    made = plan(problem, {}, rounds=10, clients_per_round=2)
    assert made.releases.tolist() == [7, 7, 4, 2]
    assert np.all(made.cost <= resources.budget)
    assert made.notes == ("Clients 2, 3 are asked as often as the [resources] budget pays for.",)
    assert made.outcome.endswith("by their budget and resources.")
    with pytest.raises(InvalidInput, match=r"pays for 26 replies within 10 rounds.* of at most 2, fewer"):
        plan(problem, {}, rounds=10, clients_per_round=3)
    with pytest.raises(InvalidInput, match="pays for 2 replies of client 3, got counts = 3"):
        stated(problem, [7, 7, 3, 3], 2, 10)


def test_resources_that_hold_nobody_back_are_not_spoken_of():
    rich = Resources.of(1.0, 1.0, 1e3, clients=3)
    made = plan(make_problem([1.0, 1.0, 30.0], resources=rich), {}, rounds=10, clients_per_round=2)
    assert made.releases.tolist() == [5, 5, 10]
    assert made.notes == ()
    assert made.outcome.endswith("by their budget.")


@pytest.mark.full
def test_random_resources_are_kept(random_resources):
    rng = np.random.default_rng(10)
    for _ in range(200):
        n, t = int(rng.integers(1, 8)), int(rng.integers(1, 30))
        resources = random_resources(rng, n, t)
        problem = make_problem(10 ** rng.uniform(-1, 1, n), resources=resources)
        most = min(t, 10**6) * np.ones(n) if resources is None else np.minimum(resources.rounds_of_each(1), t)
        k = int(most.sum()) // t
        if k == 0:
            continue
        made = plan(problem, {}, rounds=t, clients_per_round=min(k, n))
        assert np.all(made.cost <= resources.budget * (1 + 1e-9))
        assert made.releases.sum() == min(k, n) * t


@pytest.mark.parametrize("count", [500, pytest.param(2000, marks=pytest.mark.full)])
def test_nobody_overspends_in_random_federations(count):
    """Every T_n of every federation against the exact accountant at once, and every schedule."""
    rng = np.random.default_rng(11)
    for family in ("gaussian", "laplace"):
        sizes, epsilon = rng.integers(10, 1000, (count, 6)), 10 ** rng.uniform(-2, 1, (count, 6))
        delta = 10 ** rng.uniform(-7, -4, 6 * count) if family == "gaussian" else 0.0
        everyone = make_problem(epsilon.ravel(), sizes=sizes.ravel(), family=family, delta=delta)
        z = 2 if family == "laplace" else 1
        phi = everyone.upload_variance.reshape(count, 6)
        bias = phi.min(axis=1, keepdims=True) * rng.exponential(10, (count, 6))
        counts = np.empty((count, 6), int)
        for i in range(count):
            k, t = int(rng.integers(1, 7)), int(rng.integers(1, 40))
            counts[i] = greedy(ParticipationCosts(phi[i], bias[i], z, np.full(6, t)), k * t)
            cohorts = exact_counts(counts[i], k, t, rng)
            assert np.bincount(cohorts.ravel(), minlength=6).tolist() == counts[i].tolist()
        made = stated_once(everyone, counts.ravel())
        assert np.all(made.spent() <= everyone.budget.epsilon)


def stated_once(problem: Problem, counts):
    """All federations as one, asked over so many rounds that any counts can be scheduled."""
    rounds = int(counts.sum())
    return stated(problem, counts, 1, rounds)


def test_stated_counts_get_the_noise_that_they_need():
    problem = make_problem([0.5, 1.0, 1.0], sizes=[100, 100, 50])
    made = stated(problem, [4, 4, 4], 2, 6, StepSize(0.1))
    unit = 1 / gaussian_mu(problem.budget.epsilon, DELTA)
    np.testing.assert_allclose(made.noise, 2 / problem.sizes * np.sqrt(4) * unit, rtol=1e-9)
    assert made.outcome == (
        "Train 6 rounds asking 2 of 3 clients in each; clients are asked 4 times, as stated."
    )


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"rounds": 2.5}, "rounds must be a whole number"),
        ({"clients_per_round": 4}, "between 1 and 3, got 4; the federation has 3 clients"),
        ({"clients_per_round": 0}, "between 1 and 3, got 0"),
        ({"heterogeneity": [1.0, 2.0]}, "heterogeneity must be one number or a list of 3"),
        ({"heterogeneity": [1.0, -2.0, 0.0]}, "heterogeneity must be .* at least 0, got -2 for client 1"),
        ({"heterogeneity": [1.0, math.inf, 0.0]}, "heterogeneity must be finite"),
        ({"heterogeneity": [1.0, 2.0, 3.0], "constants": {}}, "state both under"),
        ({"constants": assumed(strong_convexity=2.0)}, "must be at most smoothness = 1, got 2"),
        ({"constants": assumed(strong_convexity=0.0)}, "strong_convexity must be finite and above 0.*ridge"),
        ({"constants": assumed(initial_distance_sq=-1.0)}, "initial_distance_sq must be"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_the_remedy(changed, says):
    settings = {"constants": assumed(), "rounds": 5, "clients_per_round": 2} | changed
    with pytest.raises(InvalidInput, match=says):
        plan(make_problem([1.0, 1.0, 1.0]), settings.pop("constants"), **settings)


def test_noise_that_is_no_power_of_the_number_of_replies_is_refused():
    with pytest.raises(InvalidInput, match=r'delta = 1e-05; set delta = 0, or mechanism = "gaussian"'):
        plan(make_problem([1.0, 1.0], family="laplace", delta=1e-5), {}, rounds=5, clients_per_round=1)
    poisson = make_problem([1.0, 1.0], relation="add-remove", sampling_rate=0.5)
    with pytest.raises(InvalidInput, match=r"plans full batches, got sampling_rate = 0\.5"):
        plan(poisson, {}, rounds=5, clients_per_round=1)
    with pytest.raises(InvalidInput, match=r"clipping mode A\), got mode D"):
        plan(make_problem([1.0, 1.0]).clipped_as("D"), {}, rounds=5, clients_per_round=1)
    with pytest.raises(InvalidInput, match=r"clipping mode A\), got mode D"):
        stated(make_problem([1.0, 1.0]).clipped_as("D"), [3, 2], 1, 5)


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ([4, 3, 1], "must sum to clients_per_round \\* rounds = 10, got 8"),
        ([6, 3, 1], "at most rounds = 5, got 6 for client 0"),
        ([5.5, 3.5, 1], "whole numbers"),
        ([5, 5], "one entry for each of 3 clients"),
    ],
)
def test_stated_counts_without_a_schedule_are_refused(counts, says):
    with pytest.raises(InvalidInput, match=says):
        stated(make_problem([1.0, 1.0, 1.0]), counts, 2, 5)


# As printed -------------------------------------------------------------------------------------------


def overspenders(t: np.ndarray, k: int, rounds: int, rng: np.random.Generator) -> float:
    """Algorithm 1 to the letter: K of those with anything left, p_n as weights; share beyond T_n replies."""
    replies = np.zeros(len(t))
    for _ in range(rounds):
        left = np.flatnonzero(replies < t)
        drawn = rng.choice(left, min(k, len(left)), replace=False, p=t[left] / t[left].sum())
        replies[drawn] += 1
    return float(np.mean(replies > t))


@pytest.mark.parametrize(("family", "share"), [("gaussian", 0.88), ("laplace", 0.85)])
def test_the_printed_algorithm_overspends_for_about_84_percent_of_its_clients(family, share):
    """12 federations and schedules; one share has a standard deviation of 2 points.

    Source: docs/theory/ma.md#fractional-participations.
    """
    rng, shares = np.random.default_rng(12), []
    for seed in range(12):
        epsilon = paper_epsilons(seed)
        t = printed_participations(make_problem(epsilon, family=family), 200, 20, np.zeros(100), None)
        weight = epsilon if family == "laplace" else epsilon**2
        np.testing.assert_allclose(t, 4000 * weight / weight.sum())
        shares.append(overspenders(t, 20, 200, rng))
    assert np.mean(shares) == pytest.approx(share, abs=0.03)
    assert np.max(overspending(t)) > 1


def test_one_reply_of_a_client_with_an_eighth_of_one_spends_eight_budgets():
    epsilon = np.concatenate([[0.1], paper_epsilons()[1:]])
    made = plan(make_problem(epsilon), {}, rounds=200, clients_per_round=20)
    printed = made.as_printed
    assert printed["private"] is False
    assert printed["worst_client"] == 0
    assert printed["releases"][0] == pytest.approx(0.13, abs=0.02)
    assert printed["worst_overspending"] == pytest.approx(1 / printed["releases"][0])
    assert 7 < printed["worst_overspending"] < 9
    assert printed["overspending_share"] == 1.0
    assert "client 0" in printed["why"]
    assert len(printed["noise"]) == 100


def test_printed_participations_know_no_cap():
    t = printed_participations(make_problem([0.1, 0.1, 30.0]), 50, 2, np.zeros(3), None)
    assert t[2] > 50
    assert plan(make_problem([0.1, 0.1, 30.0]), {}, rounds=50, clients_per_round=2).releases[2] == 50


def test_printed_heterogeneity_has_the_printed_weight():
    """Two clients alike but for Gamma: T_1 - T_2 = kappa (Gamma_2 - Gamma_1) / (2 Phi), nu eliminated."""
    problem = make_problem([1.0, 1.0])
    curvature, gammas = Curvature(1.0, 0.1), np.array([0.0, 1e-4])
    t = printed_participations(problem, 40, 1, gammas, curvature)
    weight = (4 * 1.0 + 3 * 0.1 * 40 / 8) / (4 * 11)
    phi = math.log(1 / DELTA) / 600**2
    assert t[0] - t[1] == pytest.approx(weight * 1e-4 / (2 * phi))


@pytest.mark.parametrize(
    ("family", "factor"), [("gaussian", math.sqrt(2 * math.log(1.25 * 7 / DELTA))), ("laplace", 1)]
)
def test_printed_noise_splits_the_budget_evenly(family, factor):
    problem = make_problem([0.5, 2.0], family=family)
    np.testing.assert_allclose(
        printed_noise(problem, np.array([7.0, 0.0])), [2 / 600 * factor * 7 / 0.5, 0.0], rtol=1e-12
    )


def test_a_linear_split_adds_89_times_the_variance_of_exact_composition():
    """docs/theory/ma.md#linear-split: T_n = 40, epsilon = 1, delta = 1e-5."""
    problem = make_problem([1.0] * 2)
    printed = printed_noise(problem, np.array([40.0, 40.0]))
    assert np.square(printed / stated(problem, [40, 40], 1, 80).noise) == pytest.approx(88.7, abs=0.1)


def test_nothing_is_printed_where_nothing_is_added_or_all_is_whole():
    assert as_printed(make_problem([1.0, 2.0], family="none"), 5, 1, np.zeros(2), None) == {}
    assert as_printed(make_problem([1.0, 1.0]), 6, 1, np.zeros(2), None) == {}
    assert as_printed(make_problem([1.0, 1.0]), 5, 1, np.zeros(2), None)["overspending_share"] == 1.0


def test_overspending_is_the_next_whole_number_of_replies():
    t = np.array([0.128, 0.5, 1.0, 3.9999999999, 3.5, 200.0, 0.0])
    np.testing.assert_allclose(overspending(t), [7.8125, 2, 1, 1, 4 / 3.5, 1, 1], rtol=1e-9)
