"""DP-ScaffNew's planner decides what its bound says, and pays for the rounds that the public coins give."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, chisquare, norm

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dp_scaffnew.bound import scaffnew_bound
from noiseworthy.methods.dp_scaffnew.planner import _decide, curves, plan, stated
from noiseworthy.plans.local_work import Coins, LocalSteps
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.accountants import spent_epsilon
from noiseworthy.privacy.budget import PrivacyBudget

VALUES = {
    "smoothness": 1.0, "strong_convexity": 0.05, "initial_distance_sq": 4.0, "optimum_gradient_sq": 0.5,
}  # fmt: skip
MENU = {
    0.1: 30.7495661319774, 0.5: 7.03182667558249, 1.0: 3.73063163481594, 3.0: 1.39059345667454,
    10.0: 0.499888619709009,
}  # fmt: skip
"""epsilon -> s(epsilon, 1e-5), docs/theory/accounting.md#gaussian-mechanism, by bisection in 60 digits."""
CONSTANT = float("inf")


def problem(
    epsilon=10.0, clients=20, clip=0.1, dimension=10, family="gaussian", delta=None, relation="replace-one",
    clipping="D",
) -> Problem:  # fmt: skip
    delta = (0.0 if family == "laplace" else 1e-5) if delta is None else delta
    unit = "client" if clipping in "CD" else "record"
    budget = PrivacyBudget.of(epsilon, delta, clients, relation, unit)
    return Problem(np.full(clients, 500), dimension, budget, family, clip, clipping=clipping)


def constants(values=VALUES, **changes) -> dict[str, Constant]:
    return {
        name: Constant(value, "assumed") for name, value in (values | changes).items() if value is not None
    }


def make(epsilon=10.0, values=VALUES, of=None, **how) -> Plan:
    return plan(problem(epsilon, **(of or {})), constants(values), **how)


def coins_of(made: Plan) -> Coins:
    assert isinstance(made.local, Coins)
    return made.local


# Decisions ----------------------------------------------------------------------------------------


def random_case(rng: np.random.Generator) -> tuple[Problem, dict[str, float]]:
    n = int(rng.integers(1, 30))
    smoothness = float(10 ** rng.uniform(-1, 1))
    start = float(10 ** rng.uniform(-1, 2))
    values = {
        "smoothness": smoothness,
        "strong_convexity": smoothness * float(10 ** rng.uniform(-3, 0)),
        "initial_distance_sq": start,
        "optimum_gradient_sq": n * start * smoothness**2 * float(10 ** rng.uniform(-4, 1)),
    }
    epsilon = rng.choice(list(MENU), n)
    relation = "replace-one" if rng.random() < 0.7 else "add-remove"
    clip, dimension = float(10 ** rng.uniform(-3, -0.5)), int(rng.integers(1, 60))
    return problem(epsilon, n, clip, dimension, relation=relation), values


def every_value(asked: Problem, value: dict[str, float], most: int, p: np.ndarray) -> np.ndarray:
    """docs/theory/hou.md#planner at T = 0..most (rows) and every p (columns), without product code."""
    factor = 2 if asked.budget.relation == "replace-one" else 1
    c = np.mean([(factor * asked.clip_norm * MENU[e]) ** 2 for e in asked.budget.epsilon])
    eta, mu, t = 1 / value["smoothness"], value["strong_convexity"], np.arange(most + 1)[:, None]
    rho = np.maximum(1 - mu * eta, 1 - p**2)
    psi_0 = len(asked.sizes) * value["initial_distance_sq"] + (eta / p) ** 2 * value["optimum_gradient_sq"]
    return rho**t * psi_0 + 2 * p**2 * asked.dimension * c * t / (1 - rho)


@pytest.mark.full
def test_plans_equal_brute_force_over_iterations_and_probabilities():
    """1,000 problems: what is fixed is kept, and nothing on a fine grid of the rest is better.

    The grid of p has steps of 1.6 %, so that it may miss the optimum by 1e-4.
    """
    rng = np.random.default_rng(41)
    trained = 0
    for case in range(1000):
        asked, value = random_case(rng)
        most = int(rng.integers(1, 120))
        root = float(np.sqrt(value["strong_convexity"] / value["smoothness"]))
        grid = np.unique(np.concatenate([np.geomspace(0.3 * root, root, 12), np.geomspace(root, 1, 280)]))
        given_t, given_p = int(rng.integers(1, most + 1)), float(rng.uniform(0.05, 1))
        rule, t, p, rows, columns = [
            ("joint", None, None, slice(None), grid),
            ("paper", None, None, slice(None), np.array([root])),
            ("joint", given_t, None, slice(given_t, given_t + 1), grid),
            ("joint", None, given_p, slice(None), np.array([given_p])),
            ("paper", given_t, None, slice(given_t, given_t + 1), np.array([root])),
        ][case % 5]
        made = plan(asked, constants(value), rule=rule, iterations=t, probability=p, max_iterations=most)
        table = every_value(asked, value, most, columns)
        coins, said = coins_of(made), made.prediction
        assert said is not None
        assert said.no_training == pytest.approx(table[0].min(), rel=1e-9)
        best = min(table[rows].min(), table[0].min())
        if coins.iterations == 0:
            assert best >= said.no_training * (1 - 1e-9)
            continue
        trained += 1
        reached = every_value(asked, value, most, np.array([coins.probability]))[coins.iterations, 0]
        assert best * (1 - 1e-4) <= reached <= best * (1 + 1e-9)
        assert said.bound == pytest.approx(reached if made.train else said.no_training, rel=1e-9)
        assert t in (None, coins.iterations)
        assert p in (None, coins.probability)
        assert rule == "joint" or coins.probability == pytest.approx(root, rel=1e-12)
    assert 300 < trained < 950


def test_both_given_train_although_the_bound_advises_against_it_and_say_so():
    made = make(1e-3, iterations=40, probability=0.5)
    assert made.train
    assert (coins_of(made).iterations, coins_of(made).probability) == (40, 0.5)
    assert "as stated, although the bound advises against it" in made.outcome
    assert made.prediction is not None
    assert made.prediction.bound > made.prediction.no_training
    assert any("not below the squared distance of the start, 80" in note for note in made.notes)


def test_iterations_alone_are_refused_where_the_bound_advises_against_them():
    made = make(1e-3, iterations=40)
    assert not made.train
    assert "at T = 40 against 80.5 without training" in made.outcome


def test_a_plan_says_rounds_expected_and_drawn_and_local_steps():
    made = make(10.0)
    coins = coins_of(made)
    assert made.train
    assert coins.rounds != round(coins.expected_rounds)  # or the sentence could not tell them apart
    assert f"Train {coins.iterations} iterations, 4.47 local steps between communications" in made.outcome
    assert f"{coins.expected_rounds:.4g} rounds expected, {coins.rounds} drawn" in made.outcome
    assert "against 80.5 without training" in made.outcome


def test_less_privacy_never_predicts_worse_and_ends_in_not_training():
    bounds = [make(epsilon).prediction.bound for epsilon in np.geomspace(0.01, 1000, 25)]
    assert np.all(np.diff(bounds) <= 1e-9)
    assert bounds[0] == 80.5 > bounds[-1]


def test_for_fixed_iterations_communication_gets_rarer_as_epsilon_falls():
    """Observation 3 of the paper, down to sqrt(mu/L); Corollary 1 has the same p for every epsilon."""
    epsilons = np.geomspace(3000, 5, 12)
    plans = [make(epsilon, iterations=20) for epsilon in epsilons]
    p = [coins_of(made).probability for made in plans]
    assert all(made.prediction.bound < made.prediction.no_training for made in plans)
    assert np.all(np.diff(p) <= 0)
    assert (p[0], p[-1]) == (1.0, np.sqrt(0.05))
    assert sum(np.sqrt(0.05) < one < 1 for one in p) >= 4
    paper = {coins_of(make(epsilon, iterations=20, rule="paper")).probability for epsilon in epsilons}
    assert paper == {float(np.sqrt(0.05))}


# Degenerate cases of docs/theory/hou.md#planner
# -------------------------------------------------------------------


def test_a_tiny_epsilon_means_no_training_and_nothing_is_spent():
    made = make(1e-3)
    assert not made.train
    assert (made.rounds, made.clients_per_round, made.release) == (0, 0, None)
    assert not np.any(made.releases)
    assert not np.any(made.spent())
    assert made.outcome.startswith("Do not train: the noise outweighs the gain")
    assert "no T up to 10000 has a bound below the 80.5 without training" in made.outcome
    said = json.loads(json.dumps(made.as_dict(), allow_nan=False))
    assert (said["iterations"], said["expected_rounds"], said["realised_rounds"]) == (0, 0, 0)


def test_a_huge_epsilon_goes_to_the_cap_and_clients_that_differ_talk_in_every_iteration():
    made = make(1e9, max_iterations=100)
    assert (coins_of(made).iterations, coins_of(made).probability, made.rounds) == (100, 1.0, 100)


def test_without_privacy_iterations_go_to_the_cap():
    made = make(of={"family": "none"})
    assert (coins_of(made).iterations, coins_of(made).probability) == (10_000, 1.0)
    assert not np.any(made.noise)
    assert made.as_printed == {}
    paper = make(of={"family": "none"}, rule="paper", max_iterations=77)
    assert (coins_of(paper).iterations, coins_of(paper).probability) == (77, np.sqrt(0.05))


def test_clients_with_one_optimum_communicate_as_the_paper_says():
    alike = make(values=VALUES | {"optimum_gradient_sq": 0.0})
    assert coins_of(alike).probability == pytest.approx(np.sqrt(0.05))
    assert alike.prediction.no_training == 80.0


def test_one_client_pays_the_whole_dimension():
    """N cancels from the noise, d does not: it is 2 d c T at p = sqrt(mu/L) with one client as with 20."""
    for clients in (1, 20):
        made = make(of={"clients": clients}, rule="paper", iterations=10, probability=float(np.sqrt(0.05)))
        kept = 0.95**10 * (4.0 * clients + 0.5 / 0.05)
        c = (0.2 * MENU[10.0]) ** 2
        assert made.prediction.bound == pytest.approx(kept + 2 * 10 * c * 10, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "iterations"), [(10.0, 1), (0.1, 0)])
def test_a_perfectly_conditioned_problem_takes_one_iteration_or_none(epsilon, iterations):
    """mu = L: psi_0 = 80.5 against 2 d c (0.4 and 756)."""
    made = make(epsilon, VALUES | {"strong_convexity": 1.0})
    assert (coins_of(made).iterations, coins_of(made).probability) == (iterations, 1.0)
    assert made.train == (iterations > 0)
    assert made.as_printed["iterations"] is None  # the printed formula divides by 0


def test_coins_that_never_fall_on_communication_train_nothing_and_say_why():
    seed = next(s for s in range(100) if Coins(4, 0.05, s).rounds == 0)
    made = make(1e4, iterations=4, probability=0.05, coin_seed=seed)
    assert (made.train, made.release, made.releases.sum()) == (False, None, 0)
    assert f"none of the 4 coins of seed {seed} fell on communication (0.2 rounds expected)" in made.outcome
    assert "use another coin_seed or a larger communication_probability" in made.outcome
    said = made.as_dict()
    assert (said["iterations"], said["expected_rounds"], said["realised_rounds"]) == (4, 0.2, 0)
    assert made.prediction.bound == made.prediction.no_training
    fixed = stated(made.problem, 4, 0.05, StepSize(0.1, CONSTANT), coin_seed=seed)
    assert fixed.outcome == made.outcome
    assert not fixed.train


# Privacy ------------------------------------------------------------------------------------------

T, P, SEEDS = 100, 0.1, 10_000


def realised_rounds() -> np.ndarray:
    return np.array([Coins(T, P, seed).rounds for seed in range(SEEDS)])


def test_coins_follow_the_binomial_law():
    """Chi-square over R = 3..18 with pooled tails; fails by chance once in 1e6."""
    rounds = realised_rounds()
    edges = np.arange(3, 19)
    seen = np.bincount(np.clip(rounds, 3, 18), minlength=19)[3:]
    law = binom.pmf(edges, T, P)
    law[0], law[-1] = binom.cdf(3, T, P), binom.sf(17, T, P)
    assert chisquare(seen, SEEDS * law).pvalue > 1e-6


def test_realised_coins_never_overspend_and_the_mean_does_four_times_in_ten():
    """docs/theory/hou.md#realised-rounds, over 10,000 coin sequences and clients with different budgets.

    P(R > 10) = 0.417; the share of sequences lies within 5 standard errors (0.025), by chance but for 1e-6.
    """
    asked = problem([0.5, 1.0, 3.0], 3)
    epsilon, delta = asked.budget.epsilon, asked.budget.delta
    rounds = realised_rounds()
    on_mean = asked.release(np.full(3, round(P * T)))
    overspent = {}
    for r in np.unique(rounds):
        seed = int(np.flatnonzero(rounds == r)[0])
        made = stated(asked, T, P, StepSize(0.1, CONSTANT), coin_seed=seed)
        assert np.all(made.releases == r)
        assert np.all(made.spent() <= epsilon)
        assert r == 0 or np.all(made.spent() >= 0.999 * epsilon)
        overspent[r] = bool(np.any(spent_epsilon(on_mean, int(r), delta) > epsilon))
    share = np.mean([overspent[r] for r in rounds])
    expected = binom.sf(10, T, P)
    assert expected == pytest.approx(0.417, abs=5e-4)
    assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / SEEDS)


def delta_of(epsilon: float, mu: float) -> float:
    """docs/theory/accounting.md#gaussian-mechanism with the normal law of SciPy, without product code."""
    return float(norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def epsilon_of(mu: float, delta: float) -> float:
    return float(brentq(lambda epsilon: delta_of(epsilon, mu) - delta, 1e-6, 60))


def test_noise_for_the_mean_costs_what_theory_says_it_costs():
    """docs/theory/hou.md#realised-rounds: 1.38 at the 99 % value of R, 1.47 at 99.9 %, mean delta(1) 4e-5."""
    mu = 2 * 0.1 / problem(1.0, 1).release(np.array([10])).mechanism.size[0]
    r = binom.ppf([0.99, 0.999], T, P)
    assert r.tolist() == [18, 20]
    spent = [epsilon_of(np.sqrt(one) * mu, 1e-5) for one in r]
    np.testing.assert_allclose(spent, [1.38, 1.47], atol=0.006)
    every = np.arange(1, T + 1)
    average = sum(binom.pmf(k, T, P) * delta_of(1.0, np.sqrt(k) * mu) for k in every)
    assert average == pytest.approx(4.0e-5, rel=0.02)


@pytest.mark.parametrize(("claimed", "true"), [(0.5, 1.11), (1.0, 2.40), (2.0, 5.30), (3.3, 9.66)])
def test_the_printed_noise_gives_less_than_it_claims(claimed, true):
    """docs/theory/hou.md#sensitivity: sigma^2 = v C^2 p T ln(1/delta) / epsilon^2 with v = 1, at R = p T."""
    made = make(claimed, iterations=T, probability=P)
    printed = made.as_printed
    assert printed["private"] is False
    assert (printed["iterations"], printed["rounds"]) == (T, 10.0)
    std = printed["noise"][0]
    assert std == pytest.approx(0.1 * np.sqrt(10 * np.log(1e5)) / claimed)
    assert epsilon_of(np.sqrt(10) * 2 * 0.1 / std, 1e-5) == pytest.approx(true, abs=0.006)
    right = made.problem.release(np.full(20, 10)).mechanism.size[0]
    assert 2.065 < right / std < 2.495


def test_the_printed_iterations_are_corollary_1_without_the_dimension():
    printed = make(10.0).as_printed
    a, psi_0 = -np.log(0.95), 80 + 0.5 / 0.05
    turn = np.log(psi_0 * 10.0**2 * a / (2 * 0.1**2 * np.log(1e5))) / a
    assert printed["iterations"] == pytest.approx(turn)
    assert printed["rounds"] == pytest.approx(np.sqrt(0.05) * turn)
    assert printed["noise"][3] == pytest.approx(0.1 * np.sqrt(np.sqrt(0.05) * turn * np.log(1e5)) / 10)
    none = make(0.05).as_printed
    assert none["iterations"] < 0
    assert "noise" not in none


@st.composite
def anything(draw):
    n = draw(st.integers(1, 4))
    power = st.floats(-2, 2).map(lambda x: 10.0**x)
    smoothness = draw(power)
    values = {
        "smoothness": smoothness,
        "strong_convexity": smoothness * draw(st.floats(1e-4, 1)),
        "initial_distance_sq": draw(st.one_of(st.just(0.0), power)),
        "optimum_gradient_sq": draw(st.one_of(st.just(0.0), power)),
    }
    asked = problem(
        np.array(draw(st.lists(power, min_size=n, max_size=n))),
        n,
        clip=draw(power),
        dimension=draw(st.integers(1, 500)),
        delta=draw(st.sampled_from([1e-9, 1e-5, 1e-2])),
        family=draw(st.sampled_from(["gaussian", "gaussian", "none"])),
        relation=draw(st.sampled_from(["replace-one", "add-remove"])),
    )
    how = {
        "rule": draw(st.sampled_from(["joint", "paper"])),
        "iterations": draw(st.one_of(st.none(), st.integers(1, 300))),
        "probability": draw(st.one_of(st.none(), st.floats(1e-3, 1))),
        "max_iterations": draw(st.integers(1, 400)),
        "coin_seed": draw(st.integers(0, 2**40)),
        "batch_size": draw(st.sampled_from([None, 8])),
    }
    return asked, values, how


@given(anything())
def test_every_plan_satisfies_the_accountant_and_the_contract(case):
    asked, values, how = case
    made = plan(asked, constants(values), **how)
    coins, epsilon = coins_of(made), asked.budget.epsilon
    assert made.rounds == coins.rounds
    assert np.all(made.releases == made.rounds)
    if asked.family == "gaussian":
        assert np.all(made.spent() <= epsilon)
        if made.train:
            assert np.all(made.spent(made.releases + 1) > epsilon)
    said = json.loads(json.dumps(made.as_dict(), allow_nan=False))
    assert said.keys() >= {
        "iterations", "communication_probability", "step_size", "expected_rounds", "realised_rounds",
    }  # fmt: skip
    assert said["rounds"] == said["realised_rounds"]
    assert said["train"] == (said["rounds"] > 0)
    assert made.outcome.endswith(".")


def test_laplace_noise_pays_for_the_realised_rounds_of_a_stated_setting():
    asked = problem([2.0, 5.0], 2, clip=1.0, family="laplace")
    made = stated(asked, 30, 0.5, StepSize(0.1, CONSTANT), coin_seed=3, batch_size=16)
    np.testing.assert_allclose(made.noise, made.rounds * 2.0 / np.array([2.0, 5.0]), rtol=1e-11)
    assert np.all(made.spent() <= [2.0, 5.0])
    assert (coins_of(made).batch_size, made.prediction) == (16, None)
    assert made.outcome.endswith(f"15 rounds expected, {made.rounds} drawn, as stated.")


# Step sizes, notes, curves ------------------------------------------------------------------------


def test_the_step_is_one_over_l_and_a_smaller_one_has_the_bound_of_a_larger_l():
    made = make(10.0, VALUES | {"smoothness": 4.0})
    assert (made.step.initial, made.step.decay_rounds) == (0.25, CONSTANT)
    slower = make(10.0, VALUES | {"smoothness": 4.0}, step=StepSize(0.125, CONSTANT))
    same = make(10.0, VALUES | {"smoothness": 8.0})
    assert slower.step.initial == 0.125
    assert slower.prediction == same.prediction
    assert slower.local == same.local


def test_notes_warn_of_what_the_bound_does_not_cover():
    assert make(10.0, notes=("carried",)).notes == ("carried",)
    assert any("does not cover minibatches" in note for note in make(10.0, batch_size=8).notes)
    unknown = make(10.0, VALUES | {"optimum_gradient_sq": None}, rule="paper")
    assert any("optimum_gradient_sq is not given and was taken as 0" in note for note in unknown.notes)
    # psi_0 = 80 + 10 falls, but not below the 80 that cost nothing
    flat = make(1.2, VALUES | {"optimum_gradient_sq": 5.0}, rule="paper")
    assert flat.train
    assert 80 <= flat.prediction.bound < flat.prediction.no_training
    assert any("better control variates, not a better model" in note for note in flat.notes)


@pytest.mark.parametrize("epsilon", [0.01, 10.0])
@pytest.mark.parametrize("step", [None, StepSize(0.5, CONSTANT)])
def test_curves_show_the_bound_of_the_plan_first(epsilon, step):
    made = make(epsilon, step=step)
    drawn = curves(scaffnew_bound(made.problem, made.constants), made)
    coins = coins_of(made)
    assert drawn.axis == "iterations"
    assert drawn.chosen == (coins.iterations if made.train else None)
    assert len({curve.label for curve in drawn.curves}) == len(drawn.curves) in (2, 3)
    assert any(curve.label.startswith("p = √(μ/L)") for curve in drawn.curves)
    assert any(curve.label == "p = 1" for curve in drawn.curves)
    first = drawn.curves[0]
    at_plan = first.bound[first.x.index(coins.iterations)]
    assert at_plan == pytest.approx(made.prediction.bound, rel=1e-12)
    for curve in drawn.curves:
        assert len(curve.x) == len(curve.bound) <= 201
        assert min(curve.bound) >= at_plan * (1 - 1e-12)
    assert max(first.x) >= 2 * coins.iterations


@pytest.mark.slow
def test_planning_ten_thousand_iterations_takes_well_under_a_second():
    """Run with -s for the time; 0.5 s leaves room for a shared machine."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        made = make(1e9, VALUES | {"strong_convexity": 1e-4})
        times.append(time.perf_counter() - began)
    print(f"T <= 10,000 jointly with p planned in {1e3 * min(times):.1f} ms")
    assert made.train
    assert min(times) < 0.5


# Bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"iterations": 0}, "iterations must be at least 1, got 0; T = 0 is no training; leave iterations"),
        ({"iterations": 2.5}, r"iterations must be a whole number, got 2\.5"),
        ({"probability": 0.0}, "communication_probability must be finite and above 0, got 0"),
        ({"probability": 1.5}, r"communication_probability must lie in \(0, 1\], got 1.5; 1 is every itera"),
        ({"probability": float("nan")}, "communication_probability must be a number, got NaN"),
        ({"max_iterations": 0}, "max_iterations must be at least 1, got 0"),
        ({"coin_seed": -1}, "coin_seed must be at least 0, got -1"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"rule": "best"}, "rule must be one of 'joint', 'paper', got 'best'"),
        ({"step": StepSize(1.01, CONSTANT)}, r"step_size must be at most 1/smoothness = 1, got 1\.01"),
        (
            {"step": StepSize(0.5)},
            'takes a constant step size.* got step_decay = 50, use step_decay = "none"',
        ),
        ({"of": {"clipping": "C"}}, r"whole update \(clipping mode D\), got mode C"),
        ({"of": {"clipping": "A"}}, r"whole update \(clipping mode D\), got mode A"),
        (
            {"of": {"family": "laplace"}},
            'planned for Gaussian noise, got laplace; set mechanism = "gaussian"',
        ),
        ({"of": {"delta": 0.0}}, "delta must lie in .*Gaussian noise needs a delta above 0"),
        ({"values": VALUES | {"strong_convexity": 2.0}}, "must be at most smoothness = 1, got 2"),
        ({"values": VALUES | {"smoothness": None}}, r"needs the constants smoothness; .*\[constants\]"),
        (
            {"values": VALUES | {"optimum_gradient_sq": None}},
            'rule "joint" needs the constant optimum_gradient_sq.*fix the communication_probability, or use',
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_remedy(how, says):
    with pytest.raises(InvalidInput, match=says):
        make(**how)


def test_a_given_probability_needs_no_gradient_at_the_optimum():
    made = make(10.0, VALUES | {"optimum_gradient_sq": None}, probability=0.3)
    assert made.train
    assert made.prediction.no_training == 80.0


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"iterations": 0}, "iterations must be at least 1, got 0"),
        ({"probability": 0.0}, "communication_probability must be finite and above 0, got 0"),
        ({"step": StepSize(0.1)}, "takes a constant step size"),
        ({"problem": problem(clipping="B")}, r"whole update \(clipping mode D\), got mode B"),
    ],
)
def test_a_stated_setting_that_makes_no_sense_is_refused(how, says):
    whole = {"problem": problem(), "iterations": 5, "probability": 0.5, "step": StepSize(0.1, CONSTANT)}
    with pytest.raises(InvalidInput, match=says):
        stated(**(whole | how))


def test_curves_belong_to_plans_with_coins():
    made = make(10.0)
    bound = scaffnew_bound(made.problem, made.constants)
    with pytest.raises(InvalidInput, match="need a plan of dp-scaffnew, with coins"):
        curves(bound, replace(made, local=LocalSteps(3)))


def test_coins_may_be_none_but_not_negative():
    none = Coins(0, 1.0)
    assert (none.rounds, none.expected_rounds, none.counts(0).tolist()) == (0, 0.0, [])
    with pytest.raises(InvalidInput, match="iterations must be at least 0, got -1"):
        Coins(-1, 0.5)


# Within resources ---------------------------------------------------------------------------------


def paid_probability(has: Resources, t: int) -> float:
    """The largest p with T (p c1 + c2) <= C for every client, by a loop over the clients; 0 without one."""
    largest = 1.0
    for c1, c2, budget in zip(has.cost_per_round, has.cost_per_step, has.budget, strict=True):
        left = budget * (1 + 1e-12) - t * c2
        if left < 0:
            return 0.0
        if c1 > 0 and t > 0:
            largest = min(largest, left / (t * c1))
    return largest


def realised_cost(has: Resources, coins: Coins) -> np.ndarray:
    """c1 for every communication and c2 for every step until the last of them, coin by coin."""
    steps = communications = since = 0
    for fell in coins.flips:
        since += 1
        if fell:
            communications, steps, since = communications + 1, steps + since, 0
    return has.cost_per_round * communications + has.cost_per_step * steps


@pytest.mark.full
def test_within_resources_the_best_is_the_least_bound_that_is_paid_for_on_average(random_resources):
    """300 problems with noise, 30 without; the grid of p may miss the optimum by 1e-4."""
    rng, bound_by_budget = np.random.default_rng(61), 0
    for case in range(330):
        asked, value = random_case(rng)
        asked = replace(asked, family="none" if case >= 300 else "gaussian")
        most, has = int(rng.integers(1, 100)), random_resources(rng, asked.n_clients, 40)
        root = float(np.sqrt(value["strong_convexity"] / value["smoothness"]))
        grid = np.unique(np.concatenate([np.geomspace(0.3 * root, root, 12), np.geomspace(root, 1, 280)]))
        bound = scaffnew_bound(asked, constants(value))
        t, p = bound.best(most, has)
        assert 0 < p <= paid_probability(has, t) * (1 + 1e-9)
        least = np.inf
        for n in range(most + 1):
            if (top := paid_probability(has, n)) > 0:
                least = min(least, float(bound.at(n, np.append(grid[grid <= top], top)).min()))
        assert least * (1 - 1e-4) <= float(bound.at(t, p)) <= least * (1 + 1e-9)
        bound_by_budget += (t, p) != bound.best(most)
    assert bound_by_budget > 60


def test_fixed_iterations_or_probabilities_are_kept_and_the_other_is_the_best_that_is_paid_for(
    random_resources,
):
    rng = np.random.default_rng(62)
    for case in range(200):
        asked, value = random_case(rng)
        has = random_resources(rng, asked.n_clients, 40)
        bound, p = scaffnew_bound(asked, constants(value)), float(rng.uniform(0.05, 1))
        if case % 2:
            t, kept = _decide(bound, has, None, p, 60)
            costs = [n * (p * has.cost_per_round + has.cost_per_step) for n in range(61)]
            affordable = [n for n in range(61) if np.all(costs[n] <= has.budget * (1 + 1e-9))]
            assert kept == p
            assert t in affordable
            assert bound.at(t, p) <= bound.at(affordable, p).min() * (1 + 1e-12)
        else:
            n = int(rng.integers(1, 1 + min(60, has.most_steps())))
            kept, p = _decide(bound, has, n, None, 60)
            top = paid_probability(has, n)
            grid = np.append(np.geomspace(1e-3, 1, 500)[np.geomspace(1e-3, 1, 500) <= top], top)
            assert kept == n
            assert p <= top * (1 + 1e-9)
            assert bound.at(n, p) <= bound.at(n, grid).min() * (1 + 1e-9)


@given(seed=st.integers(0, 10_000), coin_seed=st.integers(0, 10_000), more=st.floats(1, 5))
def test_whatever_the_coins_the_budget_holds_and_a_larger_one_never_worsens_the_planned_bound(
    seed, coin_seed, more, random_resources
):
    rng = np.random.default_rng(seed)
    asked, value = random_case(rng)
    has = random_resources(rng, asked.n_clients, 40)
    made = plan(
        replace(asked, resources=has), constants(value), max_iterations=100, coin_seed=coin_seed
    )  # fmt: skip
    assert made.cost is not None
    assert np.all(made.cost <= has.budget * (1 + 1e-9))
    np.testing.assert_allclose(made.cost, realised_cost(has, coins_of(made)), rtol=1e-12)
    assert np.all(made.spent() <= asked.budget.epsilon * (1 + 1e-9))
    richer, bound = replace(has, budget=more * has.budget), scaffnew_bound(asked, constants(value))
    better, best = (float(bound.at(*bound.best(100, some))) for some in (richer, has))
    assert better <= best * (1 + 1e-12)


def test_training_ends_before_the_first_communication_that_is_not_paid_for():
    """Steps for 1 and communications for 10: of the seeds about half cost more than they do on average."""
    asked = replace(problem(), resources=Resources.of(10.0, 1.0, 160.0, 20))
    cut = 0
    for seed in range(200):
        made = stated(asked, 80, 0.1, StepSize(0.1, CONSTANT), coin_seed=seed)
        whole, kept = Coins(80, 0.1, seed), coins_of(made)
        np.testing.assert_array_equal(kept.flips, whole.flips[: kept.iterations])
        assert realised_cost(asked.resources, kept).max() <= 160
        assert made.rounds == kept.rounds
        if kept.iterations == 80:
            assert made.notes == ()
            continue
        cut += 1
        assert realised_cost(asked.resources, replace(kept, iterations=kept.iterations + 1)).max() > 160
        assert f"ends training after {kept.iterations} of them, with {kept.rounds} comm" in made.notes[0]
    assert 50 < cut < 150


@given(t=st.integers(0, 300), more=st.integers(0, 300), seed=st.integers(0, 2**32 - 1))
def test_the_coins_of_a_shorter_training_are_the_first_of_a_longer_one(t, more, seed):
    np.testing.assert_array_equal(Coins(t + more, 0.3, seed).flips[:t], Coins(t, 0.3, seed).flips)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"iterations": 81, "probability": 0.1}, "for 80 iterations with communication_probability = 0.1 "),
        ({"iterations": 151}, "for 150 iterations with one communication on average, got iterations = 151"),
        ({"iterations": 60, "rule": "paper"}, "with communication_probability = 0.2236 on average, got"),
    ],
)  # fmt: skip
def test_what_is_fixed_beyond_the_budget_is_refused_with_the_most_that_is_paid_for(how, says):
    asked = replace(problem(), resources=Resources.of(10.0, 1.0, 160.0, 20))
    with pytest.raises(InvalidInput, match=says):
        plan(asked, constants(), **how)
    assert plan(asked, constants(), **(how | {"iterations": 49})).cost is not None


def test_a_budget_that_pays_for_everything_changes_nothing():
    free, made = (
        make(of={}),
        plan(replace(problem(), resources=Resources.of(1.0, 1.0, 1e9, 20)), constants()),
    )
    assert (coins_of(free), free.notes) == (coins_of(made), made.notes)
