"""The planner of DP-FedAvg equals brute force; its plans carry the noise of first principles and spend it."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.methods.dp_fedavg.bound import LocalBound, PowerLaw, UploadNoise, local_bound
from noiseworthy.methods.dp_fedavg.planner import affordable, curves, plan, stated
from noiseworthy.methods.dp_fedavg.search import Given, optimum
from noiseworthy.methods.fedsgd_dpc.planner import stated as stated_replies
from noiseworthy.plans.local_work import LocalSteps, divisors
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.clipping import unit_of

PROBLEMS = 1000
MENU = {
    0.1: 30.7495661319774, 0.5: 7.03182667558249, 1.0: 3.73063163481594, 3.0: 1.39059345667454,
    10.0: 0.499888619709009,
}  # fmt: skip
"""epsilon -> s(epsilon, 1e-5), docs/theory/accounting.md#gaussian-mechanism, by bisection in 60 digits."""
MODES = {"laplace": ("C", "E", "A"), "gaussian": ("B", "C", "A")}


def make_problem(family, mode, sizes, epsilon, *, p=7, clip=0.5, relation="replace-one", delta=None):
    delta = (1e-5 if family == "gaussian" else 0.0) if delta is None else delta
    budget = PrivacyBudget.of(epsilon, delta, len(sizes), relation, unit_of(mode))
    return Problem(np.asarray(sizes), p, budget, family, clip, clipping=mode)


# Brute force ------------------------------------------------------------------------------------------


def random_case(rng: np.random.Generator, family: str, mode: str | None = None):
    """A problem with equal or unequal sizes and budgets, and constants, noise from nil to hopeless."""
    n, mode = int(rng.integers(1, 7)), mode or str(rng.choice(MODES[family]))
    sizes = rng.integers(10, 300, n) if rng.random() < 0.5 else np.full(n, 80)
    epsilon = rng.choice(list(MENU), n) if family == "gaussian" else 10 ** rng.uniform(-1, 2, n)
    clip = float(10 ** rng.uniform(-2, 0)) * (1 if mode == "C" else 50)
    relation = "replace-one" if rng.random() < 0.7 else "add-remove"
    p = int(rng.integers(1, 30))
    problem = make_problem(family, mode, sizes, epsilon, p=p, clip=clip, relation=relation)
    mu = float(10 ** rng.uniform(-0.5, 0.5))
    value = {
        "smoothness": mu * float(rng.uniform(1, 3)),
        "strong_convexity": mu,
        "gradient_bound": float(10 ** rng.uniform(-2, 0.5)),
        "initial_distance_sq": float(10 ** rng.uniform(0, 3)),
        "heterogeneity": float(rng.uniform(0, 0.5)),
    }
    return problem, value, {name: Constant(number, "assumed") for name, number in value.items()}


def one_upload(problem: Problem) -> list[float]:
    """a_i^2 E||w_i||^2 for one upload, per unit of (eta E)^2.

    Source: docs/theory/fu.md#clipping-modes.
    """
    terms, total, zeta, p = [], int(problem.sizes.sum()), problem.clip_norm, problem.dimension
    moves = 2 if problem.budget.relation == "replace-one" else 1
    for size, epsilon in zip(problem.sizes, problem.budget.epsilon, strict=True):
        s = moves * zeta / {"C": 1, "E": size / math.sqrt(p)}.get(problem.clipping, size)
        variance = 2 * (s / epsilon) ** 2 if problem.family == "laplace" else (s * MENU[float(epsilon)]) ** 2
        terms.append((size / total) ** 2 * p * variance)
    return terms


def twin(problem: Problem, value: dict[str, float]):
    """The bound of docs/theory/fu.md#bound as a function of T, E, b: no product code."""
    n, noise = problem.n_clients, sum(one_upload(problem))
    power = 2 if problem.family == "laplace" else 1
    mu, smoothness, g_sq = value["strong_convexity"], value["smoothness"], value["gradient_bound"] ** 2

    def at(t: int, e: int, b: int) -> float:
        rounds, gamma = t // e, max(8 * smoothness / mu, e)
        kappa_b = 0 if n in (1, b) else (n - b) / ((n - 1) * b)
        omega_0 = (
            6 * smoothness * value["heterogeneity"] + 8 * (e - 1) ** 2 * g_sq + 4 * e**2 * g_sq * kappa_b
        )
        omega_1 = 4 * e**2 * n / b * math.ceil(b * rounds / n) ** power * noise
        start = (4 * omega_0 / mu**2 + gamma * value["initial_distance_sq"]) / (t + gamma)
        return start + 4 / mu**2 * rounds * omega_1 / (t + gamma - 1) ** 2

    return at


def every_value(problem: Problem, value: dict[str, float], most: int) -> dict[tuple[int, int, int], float]:
    """At every T <= most, E | T and b <= N, in plain loops; E = 1 under mode A."""
    at, table = twin(problem, value), {}
    for t in range(1, most + 1):
        for e in range(1, 2 if problem.clipping == "A" else t + 1):
            if t % e == 0:
                for b in range(1, problem.n_clients + 1):
                    table[t, e, b] = at(t, e, b)
    return table


def least(table, t=None, e=None, b=None) -> float:
    return min(
        value for (x, y, z), value in table.items() if x == (t or x) and y == (e or y) and z == (b or z)
    )


@pytest.mark.full
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_the_optimum_is_the_best_of_all_iterations_local_steps_and_clients(family):
    """1,000 problems each, with nothing fixed, b, T, E, or T and E fixed."""
    rng, seen = np.random.default_rng(21), set()
    for _ in range(PROBLEMS):
        problem, value, constants = random_case(rng, family)
        n, most = problem.n_clients, int(rng.integers(4, 17))
        table = every_value(problem, value, most)
        bound, noise = local_bound(constants), UploadNoise.of(problem)
        t, b = int(rng.integers(1, most + 1)), int(rng.integers(1, n + 1))
        e = 1 if problem.clipping == "A" else int(rng.choice(divisors(t)))
        one = 1 if problem.clipping == "A" else None
        for fixed in (
            Given(None, one),
            Given(None, one, b),
            Given(t, one),
            Given(t, one, b),
            Given(None, e),
            Given(t, e),
        ):
            found = optimum(bound, noise, n, most, fixed)
            best = least(table, *fixed)
            np.testing.assert_allclose(found.value, best, rtol=1e-10)
            np.testing.assert_allclose(table[found[:3]], best, rtol=1e-10)
            assert all(want in (None, got) for want, got in zip(fixed, found, strict=False))
            seen.add((problem.clipping, min(found.local_steps, 2), 1 < found.clients_per_round < n))
    assert {(mode, steps) for mode, steps, _ in seen} == {
        (mode, steps) for mode in MODES[family] for steps in (1, 2) if (mode, steps) != ("A", 2)
    }
    assert family == "gaussian" or any(interior for _, _, interior in seen)


@pytest.mark.parametrize("given", [Given(), Given(clients_per_round=2), Given(24)])
def test_settings_that_differ_by_rounding_alone_go_to_the_fewest_rounds(given):
    class Level(LocalBound):
        def at(self, noise, total_iterations, local_steps, clients_per_round, clients):
            return 1 - 1e-15 * np.broadcast_arrays(total_iterations / local_steps, clients_per_round)[0]

    found = optimum(Level(1.0, 0.5, 1.0, 0.1, 100.0), lambda *_: 0.0, 5, 24, given)
    assert (found.rounds, found.value) == (1, pytest.approx(1.0))


@pytest.mark.full
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_a_plan_is_the_optimum_and_trains_exactly_where_that_beats_the_start(family):
    rng, trained, several = np.random.default_rng(22), 0, 0
    for _ in range(PROBLEMS // 3):
        problem, value, constants = random_case(rng, family, str(rng.choice(MODES[family][:2])))
        table, t = every_value(problem, value, 16), int(rng.integers(1, 17))
        for fixed in (None, t):
            made = plan(problem, local_bound(constants), constants, total_iterations=fixed, max_iterations=16)
            best = least(table, fixed)
            assert made.train == (best < value["initial_distance_sq"])
            if made.train:
                chosen = (made.rounds * made.local.steps, made.local.steps, made.clients_per_round)
                np.testing.assert_allclose([made.prediction.bound, table[chosen]], best, rtol=1e-10)
                assert fixed in (None, chosen[0])
                assert np.all(made.releases == math.ceil(made.rounds * chosen[2] / problem.n_clients))
                trained, several = trained + 1, several + (chosen[1] > 1)
    assert trained > 100
    assert several > (20 if family == "laplace" else 0)  # for z = 1 several steps pay seldom


@pytest.mark.full
def test_gaussian_iterations_for_fixed_local_steps_follow_the_rule():
    """Least multiple of E within 10 % of 4 C_M/mu^2; the best T where none is, or the bound dips below it."""
    rng, followed, dips, most = np.random.default_rng(23), 0, 0, 400
    for case in range(PROBLEMS // 2):
        problem, value, constants = random_case(rng, "gaussian", "C")
        n, e, at = problem.n_clients, int(rng.integers(1, 4)), twin(problem, value)
        column = {t: at(t, e, n) for t in range(e, most + 1, e)}
        best, limit = min(column.values()), 16 * sum(one_upload(problem)) / value["strong_convexity"] ** 2
        b = None if case % 8 == 0 else n
        made = plan(
            problem,
            local_bound(constants),
            constants,
            local_steps=e,
            max_iterations=most,
            clients_per_round=b,
        )
        near = [t for t, bound in column.items() if bound <= 1.1 * limit]
        assert made.train == (best < value["initial_distance_sq"])
        if made.train and limit <= best and near and column[near[0]] < value["initial_distance_sq"]:
            followed += 1
            assert (made.rounds * e, made.clients_per_round) == (near[0], n)
        elif made.train:
            dips += best < limit
            np.testing.assert_allclose(made.prediction.bound, best, rtol=1e-10)
    assert followed > 20
    assert dips > 20


def test_a_gaussian_plan_goes_beyond_the_tolerance_where_only_that_beats_the_start():
    """Start 5 % above the limit, bound falling: within 10 % it does not pay yet, later it does."""
    problem = make_problem("gaussian", "C", [80] * 10, 1.0)
    limit = 16 * sum(one_upload(problem)) / 0.5**2
    values = VALUES | {
        "gradient_bound": 0.0, "initial_distance_sq": 1.05 * limit, "heterogeneity": 0.2156 * limit,
    }  # fmt: skip
    constants = {name: Constant(value, "assumed") for name, value in values.items()}
    made = plan(problem, local_bound(constants), constants, local_steps=1)
    assert made.rounds == 500
    assert limit < made.prediction.bound < made.prediction.no_training


def test_ties_go_to_the_fewest_rounds():
    """z = 0 and no drift: the noise falls with E as the rounds do, so one round is best for every T."""
    bound = LocalBound(1.0, 1.0, 0.0, 0.0, 100.0)
    assert optimum(bound, PowerLaw(0.0, 0.0), 5, 4, Given(total_iterations=4)).local_steps == 4
    assert divisors(36).tolist() == [1, 2, 3, 4, 6, 9, 12, 18, 36]
    assert divisors(1).tolist() == [1]
    assert divisors(97).tolist() == [1, 97]


def test_a_mechanism_of_ones_own_is_planned_by_its_power_law():
    bound = LocalBound(1.0, 0.5, 1.0, 0.1, 100.0)
    steps = [optimum(bound, PowerLaw(z, 0.05), 8, 300, Given(240))[1] for z in (0.0, 0.5, 1.0, 1.5, 2.0)]
    assert steps[:2] == [1, 1]
    assert steps == sorted(steps)
    assert steps[-1] > 1


# Noise and cost ---------------------------------------------------------------------------------------

VALUES = {
    "smoothness": 1.0, "strong_convexity": 0.5, "gradient_bound": 1.0, "initial_distance_sq": 400.0,
    "heterogeneity": 0.1,
}  # fmt: skip
CONSTANTS = {name: Constant(value, "assumed") for name, value in VALUES.items()}
BOUND = local_bound(CONSTANTS)


def make(family="laplace", mode="C", epsilon=20.0, sizes=(80,) * 10, *, clip=0.5, delta=None, **how) -> Plan:
    return plan(make_problem(family, mode, sizes, epsilon, clip=clip, delta=delta), BOUND, CONSTANTS, **how)


@settings(max_examples=100)
@given(data=st.data(), family=st.sampled_from(["laplace", "gaussian"]))
def test_every_plan_stays_within_its_budget_and_uses_it(data, family):
    n = data.draw(st.integers(1, 6))
    mode = data.draw(st.sampled_from(MODES[family]))
    epsilon = data.draw(st.lists(st.floats(0.05, 1e3), min_size=n, max_size=n))
    sizes = data.draw(st.lists(st.integers(1, 5000), min_size=n, max_size=n))
    b, e = data.draw(st.none() | st.integers(1, n)), data.draw(st.none() | st.integers(1, 6))
    rounds = data.draw(st.none() | st.integers(1, 30))
    e = e and (1 if mode == "A" else e)
    t = rounds and rounds * (e or 1)
    made = make(
        family, mode, epsilon, sizes, clip=data.draw(st.floats(1e-3, 100)), max_iterations=40,
        clients_per_round=b, total_iterations=t, local_steps=e,
    )  # fmt: skip
    assert np.all(made.spent() <= epsilon)
    if made.train:
        np.testing.assert_array_equal(made.releases, -(-made.rounds * made.clients_per_round // n))
        assert np.all(made.spent() >= 0.999 * np.array(epsilon))
        assert np.all(made.spent(made.releases + 1) > epsilon)
    else:
        assert not np.any(made.spent())


def test_laplace_noise_with_a_delta_stays_within_its_budget_too():
    made = make(epsilon=30.0, delta=1e-5, total_iterations=40, local_steps=1, clients_per_round=5)
    pure = make(epsilon=30.0, total_iterations=40, local_steps=1, clients_per_round=5)
    assert np.all((made.spent() >= 0.999 * 30) & (made.spent() <= 30))
    assert np.all(made.noise < pure.noise)
    assert "no power of T_g" in " ".join(made.notes)
    assert "bounded" in " ".join(made.notes)


@pytest.mark.parametrize(
    ("family", "mode", "sensitivity"),
    [
        ("laplace", "C", [1.0, 1.0]), ("gaussian", "C", [1.0, 1.0]), ("gaussian", "B", [1 / 80, 1 / 200]),
        ("laplace", "E", [math.sqrt(7) / 80, math.sqrt(7) / 200]),
    ],
)  # fmt: skip
def test_the_noise_of_every_round_is_first_principles_times_its_steps(family, mode, sensitivity):
    """Scale H_t S k/epsilon, std H_t S sqrt(k) s(epsilon, delta), H_t the sum of (2/mu)/(k + 8L/mu)."""
    made = make(family, mode, 1.0, (80, 200), total_iterations=12, local_steps=3, clients_per_round=1)
    k = 2  # 4 rounds of 1 of 2 clients
    unit = [s * (k if family == "laplace" else math.sqrt(k) * MENU[1.0]) for s in sensitivity]
    h = [sum(2 / 0.5 / (3 * t + i + 16) for i in range(3)) for t in range(4)]
    expected = [[h_t * size for size in unit] for h_t in h]
    said = json.loads(json.dumps(made.as_dict(), allow_nan=False))
    np.testing.assert_allclose(said["noise_per_round"], expected, rtol=1e-8)
    np.testing.assert_allclose(said["noise"], expected[0], rtol=1e-8)
    assert (said["local_steps"], said["total_iterations"], said["rounds"]) == (3, 12, 4)
    assert said["clipping_mode"] == mode
    assert said["releases"] == [2, 2]


def test_the_step_is_the_theory_s_with_its_own_gamma_or_the_stated_one():
    few, many = (make(total_iterations=80, local_steps=e) for e in (2, 40))
    np.testing.assert_allclose(few.step.at(np.arange(80)), 4 / (np.arange(80) + 16), rtol=1e-12)
    np.testing.assert_allclose(many.step.at(np.arange(80)), 4 / (np.arange(80) + 40), rtol=1e-12)
    own = StepSize(0.01, float("inf"))
    made = make(total_iterations=80, local_steps=2, step=own)
    assert made.step == own
    np.testing.assert_allclose(made.upload_scale, 0.02, rtol=1e-12)


# Decisions --------------------------------------------------------------------------------------------


def test_a_stated_setting_trains_although_the_bound_advises_against_it():
    made = make(epsilon=1e-3, total_iterations=12, local_steps=3)
    assert made.train
    assert "as stated, although the bound advises against it" in made.outcome
    assert made.prediction.bound > made.prediction.no_training == 400.0
    assert make(
        epsilon=1e-3, mode="A", total_iterations=12
    ).train  # one step per upload leaves nothing to plan
    assert not make(epsilon=1e-3, total_iterations=12).train
    assert not make(epsilon=1e-3, local_steps=3).train


@pytest.mark.parametrize(("mode", "remedy"), [("C", "add clients"), ("E", "add records")])
def test_too_much_noise_means_do_not_train_with_its_remedy(mode, remedy):
    made = make(mode=mode, epsilon=1e-5)
    assert (made.rounds, made.clients_per_round, made.release) == (0, 0, None)
    assert not np.any(made.releases)
    assert not np.any(made.noise)
    assert made.outcome.startswith("Do not train: the noise outweighs the gain (bound ")
    assert made.outcome.endswith(f"raise epsilon or {remedy}.")
    assert made.prediction.bound == made.prediction.no_training
    said = json.loads(json.dumps(made.as_dict(), allow_nan=False))
    assert (said["train"], said["rounds"], said["total_iterations"]) == (False, 0, 0)


def test_a_vacuous_bound_is_named_as_such_and_not_blamed_on_noise():
    values = CONSTANTS | {"gradient_bound": Constant(50.0, "assumed")}
    problem = make_problem("laplace", "C", [80] * 10, 1e9)
    bound = local_bound(values)
    made = plan(problem, bound, values, clients_per_round=5, local_steps=4)
    assert not made.train
    assert "the bound is vacuous here" in made.outcome
    assert "plan by trial on public data" in made.outcome
    needed = bound.vacuous_until(4, 5, 10)
    assert plan(
        problem, bound, values, clients_per_round=5, local_steps=4, max_iterations=2 * int(needed)
    ).train


def test_less_privacy_never_predicts_worse():
    bounds = [
        make(epsilon=epsilon, max_iterations=60).prediction.bound for epsilon in np.geomspace(0.01, 1e4, 30)
    ]
    assert np.all(np.diff(bounds) <= 1e-9)
    assert bounds[0] == 400.0 > bounds[-1]


def test_without_noise_one_local_step_and_all_iterations_are_best():
    for made in (make("none", max_iterations=60), make(epsilon=1e12, max_iterations=60)):
        assert (made.rounds, made.local.steps, made.clients_per_round) == (60, 1, 10)
    assert make("none").as_printed == {}
    assert make("none").as_dict()["privacy"]["private"] is False
    assert "There is no noise. As T grows with E fixed, the bound converges to 0 like T^-1" in " ".join(
        make("none").notes
    )


def test_a_single_client_is_planned():
    made = make(sizes=(80,), epsilon=500.0)
    assert made.train
    assert made.clients_per_round == 1
    assert made.releases[0] == made.rounds


def test_clients_who_are_never_asked_are_counted():
    made = make(total_iterations=6, local_steps=2, clients_per_round=2)
    assert made.releases.tolist() == [1] * 10  # 0.6 each on average
    assert any(note.startswith("6 of 10 clients are asked once and the others never") for note in made.notes)
    enough = make(total_iterations=10, local_steps=2, clients_per_round=2)
    assert not any("never" in note for note in enough.notes)


def test_the_notes_explain_by_guide_law_and_convergence():
    said = " ".join(make(total_iterations=120).notes)
    assert "Continuous guide at T = 120: E = " in said
    assert "Law for large T: E grows like T^0.667 (19.3 for the pure rates)." in said
    assert (
        "the variance of the noise grows like T_g^2. As T grows with E fixed, the bound diverges like T;"
        in said
    )
    gaussian = make("gaussian", local_steps=2, notes=("kept",)).notes
    assert gaussian[0] == "kept"
    assert "Law for large T: E = O(1)." in gaussian[1]
    assert gaussian[2].startswith("Continuous guide at E = 2: T = ")
    assert "stays bounded" in gaussian[3]


def test_what_is_given_is_kept():
    assert make(clients_per_round=4).clients_per_round == 4
    long = make(epsilon=1e6, total_iterations=900, max_iterations=20)
    assert long.rounds * long.local.steps == 900
    both = make(epsilon=1e6, local_steps=np.int64(7), clients_per_round=np.int64(3))
    assert (both.local, both.clients_per_round) == (LocalSteps(7), 3)


# Modes ------------------------------------------------------------------------------------------------


def test_mode_a_plans_iterations_of_one_step():
    made = make("gaussian", "A", 1.0, clip=5.0)
    assert made.train
    assert made.local == LocalSteps(1)
    assert not any("Continuous guide at T" in note for note in made.notes)
    with pytest.raises(
        UnsoundClaim, match=r"clipping mode A is proved for one local step .* got local_steps = 3"
    ):
        make("gaussian", "A", 1.0, local_steps=3)
    with pytest.raises(UnsoundClaim, match="clipping mode A"):
        stated(make_problem("gaussian", "A", [80] * 10, 1.0), 6, 2, 5, StepSize(0.1))


def test_mode_d_has_no_bound_but_may_be_stated():
    problem = make_problem("gaussian", "D", [80] * 10, 1.0)
    with pytest.raises(
        InvalidInput, match=r"clipping mode D, clipped updates, has no bound .* or use mode C"
    ):
        plan(problem, BOUND, CONSTANTS)
    made = stated(problem, 12, 3, 5, StepSize(0.1), batch_size=10)
    assert made.local == LocalSteps(3, 10)
    assert (
        made.outcome
        == "Train 4 rounds of 3 local steps (12 iterations) with 5 of 10 clients, 2 uploads each, as stated."
    )
    np.testing.assert_allclose(
        made.noise, 2 * 0.5 * math.sqrt(2) * MENU[1.0], rtol=1e-8
    )  # whatever the steps
    assert "noise_per_round" not in made.as_dict()


@pytest.mark.parametrize(("family", "mode"), [("gaussian", "B"), ("laplace", "E"), ("gaussian", "A")])
def test_minibatches_under_a_mode_that_protects_records_are_refused(family, mode):
    with pytest.raises(
        UnsoundClaim, match=f"clipping mode {mode} has no proof for minibatches, got batch_size 10"
    ):
        stated(make_problem(family, mode, [80] * 10, 1.0), 4, 1, 5, StepSize(0.1), batch_size=10)


def test_poisson_batches_belong_to_another_algorithm():
    budget = PrivacyBudget.of(1.0, 1e-5, 2, "add-remove")
    problem = Problem(np.array([50, 50]), 3, budget, "gaussian", 1.0, sampling_rate=0.1)
    for refused in (lambda: plan(problem, BOUND, CONSTANTS), lambda: stated(problem, 4, 1, 1, StepSize(0.1))):
        with pytest.raises(
            InvalidInput, match=r"got sampling_rate 0\.1; .* or fedsgd-dpc for Poisson batches"
        ):
            refused()


# Bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (
            {"total_iterations": 120, "local_steps": 7},
            "local_steps must divide total_iterations = 120, got 7; "
            "use local_steps = 6 or 8, or total_iterations = 119 or 126",
        ),
        (
            {"total_iterations": 5, "local_steps": 9},
            "total_iterations = 5, got 9; use local_steps = 5, or total_iterations = 9",
        ),
        ({"total_iterations": 0}, "total_iterations must be at least 1, got 0; T = 0 is no training"),
        ({"total_iterations": 2.5}, r"total_iterations must be a whole number, got 2\.5"),
        ({"local_steps": 0}, "local_steps must be (at least 1|between 1 and 500), got 0"),
        ({"local_steps": 501}, "local_steps must be between 1 and 500, got 501; max_iterations is the most"),
        ({"local_steps": True}, "local_steps must be .* got True"),
        ({"clients_per_round": 11}, "clients_per_round must be between 1 and 10, got 11; the federation"),
        ({"max_iterations": 0}, "max_iterations must be at least 1, got 0"),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused(how, says):
    with pytest.raises(InvalidInput, match=says):
        make(**how)


def test_stated_settings_out_of_range_are_refused():
    problem = make_problem("laplace", "C", [80] * 10, 1.0)
    for t, e, b, says in (
        (10, 3, 5, "must divide total_iterations = 10, got 3; use local_steps = 2 or 5"),
        (0, 1, 5, "total_iterations must be at least 1"),
        (10, 0, 5, "local_steps must be at least 1"),
        (10, 5, 0, "clients_per_round must be between 1 and 10"),
    ):
        with pytest.raises(InvalidInput, match=says):
            stated(problem, t, e, b, StepSize(0.1))


# As printed -------------------------------------------------------------------------------------------


def test_the_printed_plan_takes_the_power_of_t_and_a_fraction_of_an_upload():
    made = make(epsilon=2.0, total_iterations=120, clients_per_round=1)
    said = (
        made.as_printed
        if made.train
        else make(epsilon=1e3, total_iterations=120, clients_per_round=1).as_printed
    )
    assert (said["local_steps"], said["rounds"]) == (24, 5.0)  # 120^(2/3) = 24.3
    assert said["uploads"] == 0.5  # erratum 7; one in truth
    assert said["private"] is False
    assert make("gaussian", epsilon=100.0, total_iterations=120).as_printed["local_steps"] == 11  # sqrt(120)


def test_the_printed_noise_is_that_of_theorems_1_and_2():
    """Lap T_l eta E xi_1/epsilon and c2 sqrt(T_l ln(1/delta)) eta E xi_2/epsilon.

    Source: docs/theory/fu.md#clipped-batches.
    """
    how = {"total_iterations": 12, "local_steps": 3, "clients_per_round": 1, "step": StepSize(0.1)}
    laplace = make(epsilon=2.0, **how).as_printed["noise"]
    np.testing.assert_allclose(laplace, 0.4 * 0.1 * 3 * 2 * 0.5 / 2.0, rtol=1e-12)
    gaussian = make("gaussian", "C", 2.0, **how).as_printed["noise"]
    np.testing.assert_allclose(gaussian, math.sqrt(0.4 * math.log(1e5)) * 0.1 * 3 * 0.5 / 2.0, rtol=1e-12)
    one = make_problem("gaussian", "C", [80] * 10, 2.0, relation="add-remove")
    printed = plan(one, BOUND, CONSTANTS, **how).as_printed["noise"]
    np.testing.assert_allclose(printed, gaussian, rtol=1e-12)  # the norm of a gradient, whatever the relation
    records = make("laplace", "E", 2.0, **how)
    np.testing.assert_allclose(records.as_printed["noise"], 0.4 * 0.1 * 3 * 2 * 0.5 / 80 / 2.0, rtol=1e-12)
    assert "no bound after several steps" in records.as_printed["why"]
    assert np.all(np.array(records.as_printed["noise"]) < records.noise)


# Curves -----------------------------------------------------------------------------------------------


def test_the_curves_show_what_was_minimised():
    made = make(epsilon=20.0, total_iterations=60, clients_per_round=5)
    drawn = curves(made.problem, BOUND, made)
    assert drawn.axis == "local steps per upload"
    assert drawn.chosen == made.local.steps
    assert [curve.label for curve in drawn.curves] == [
        "T = 60 iterations",
        "T = 30 iterations",
        "T = 120 iterations",
    ]
    own = drawn.curves[0]
    assert own.x == divisors(60).tolist()
    assert min(own.bound) == own.bound[own.x.index(made.local.steps)] == pytest.approx(made.prediction.bound)


def test_the_curves_of_a_plan_not_to_train_show_the_best_it_could_do():
    made = make(epsilon=0.05)
    drawn = curves(made.problem, BOUND, made)
    assert drawn.chosen is None
    best = optimum(BOUND, UploadNoise.of(made.problem), 10, 500)
    assert drawn.curves[0].label == f"T = {best.total_iterations} iterations"
    assert min(drawn.curves[0].bound) == pytest.approx(best.value)
    assert best.value > BOUND.no_training


def test_the_curves_of_mode_a_run_over_rounds():
    made = make("gaussian", "A", 1.0, clip=5.0, total_iterations=50)
    drawn = curves(made.problem, BOUND, made)
    assert (drawn.axis, drawn.chosen, len(drawn.curves)) == ("rounds", 50, 1)
    assert drawn.curves[0].x == list(range(1, 101))
    assert drawn.curves[0].bound[49] == pytest.approx(made.prediction.bound)


def test_curves_need_a_plan_with_local_steps():
    problem = make_problem("laplace", "A", [80] * 10, 1.0)
    with pytest.raises(InvalidInput, match="curves need a plan of dp-fedavg"):
        curves(problem, BOUND, stated_replies(problem, 3, 2, StepSize(0.1)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "mode"), [("laplace", "C"), ("gaussian", "C"), ("laplace", "E"), ("gaussian", "B")]
)
def test_five_thousand_different_clients_are_planned_jointly_in_a_blink(family, mode):
    """T <= 500, E | T, b = 500 or planned; the bar is 2 s, 0.1 s is usual. Run with -s for the time."""
    rng = np.random.default_rng(0)
    epsilon, sizes = rng.uniform(5, 50, 5000), rng.integers(40, 160, 5000)
    for b in (500, None):
        began = time.perf_counter()
        made = make(family, mode, epsilon, sizes, clients_per_round=b)
        print(f"{family}, mode {mode}, b = {b}: {time.perf_counter() - began:.3f} s")
        assert time.perf_counter() - began < 2
        assert made.train


# Within resources -------------------------------------------------------------------------------------


def paid(problem: Problem, t: int, e: int, b: int) -> bool:
    """Whether every client can pay for its ceil(b T_g/N) uploads after E steps each."""
    has, k = problem.resources, math.ceil(b * (t // e) / problem.n_clients)
    assert has is not None
    rows = zip(has.cost_per_round, has.cost_per_step, has.budget, strict=True)
    return all(k * (c1 + e * c2) <= budget * (1 + 1e-9) for c1, c2, budget in rows)


@pytest.mark.full
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_within_resources_the_optimum_is_the_best_of_what_is_paid_for(family, random_resources):
    """300 problems, with nothing fixed or any of T, E and b; what nobody can pay for is refused."""
    rng, refused, bound_by_budget = np.random.default_rng(51), 0, 0
    for _ in range(300):
        problem, value, constants = random_case(rng, family)
        n, most = problem.n_clients, int(rng.integers(2, 16))
        problem = replace(problem, resources=random_resources(rng, n, most))
        every = every_value(problem, value, most)
        table = {cell: at for cell, at in every.items() if paid(problem, *cell)}
        bound, noise = local_bound(constants), UploadNoise.of(problem)
        one = 1 if problem.clipping == "A" else None
        t, b = int(rng.integers(1, most + 1)), int(rng.integers(1, n + 1))
        e = one or int(rng.choice(divisors(t)))
        bound_by_budget += least(table) > least(every)
        for fixed in (Given(None, one), Given(None, one, b), Given(t, one, b), Given(None, e), Given(t, e)):
            cells = [cell for cell in table if all(f in (None, c) for f, c in zip(fixed, cell, strict=True))]
            assert affordable(problem, *fixed) == bool(cells)
            if not cells:
                refused += 1
                with pytest.raises(InvalidInput, match=r"\[resources\] budget does not pay for"):
                    plan(problem, bound, constants, **fixed._asdict(), max_iterations=most)
                continue
            found = optimum(bound, noise, n, most, fixed, problem.resources)
            np.testing.assert_allclose(found.value, min(table[cell] for cell in cells), rtol=1e-10)
            np.testing.assert_allclose(table[found[:3]], found.value, rtol=1e-10)
    assert refused > 30
    assert bound_by_budget > 30


@pytest.mark.full
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_a_plan_costs_what_its_uploads_and_steps_cost_and_no_more_than_the_budget(family, random_resources):
    """Also where E is fixed and Gaussian plans stop within a tenth of the limit."""
    rng, trained = np.random.default_rng(52), 0
    for _ in range(300):
        problem, _, constants = random_case(rng, family)
        has = random_resources(rng, problem.n_clients, 30)
        problem = replace(problem, resources=has)
        e = 1 if problem.clipping == "A" or not affordable(problem, None, 3) else 3
        for fixed in (None, e):
            made = plan(problem, local_bound(constants), constants, local_steps=fixed, max_iterations=30)
            assert isinstance(made.local, LocalSteps)
            k = -(-made.rounds * made.clients_per_round // problem.n_clients)
            assert made.cost is not None
            np.testing.assert_allclose(
                made.cost, k * (has.cost_per_round + made.local.steps * has.cost_per_step)
            )
            assert np.all(made.cost <= has.budget * (1 + 1e-9))
            trained += made.train
    assert trained > 100


@given(seed=st.integers(0, 10_000), family=st.sampled_from(["laplace", "gaussian"]), more=st.floats(1, 5))
@settings(max_examples=50)
def test_a_larger_budget_never_worsens_the_bound(seed, family, more):
    rng = np.random.default_rng(seed)
    problem, _, constants = random_case(rng, family, str(rng.choice(MODES[family][:2])))
    n = problem.n_clients
    c1, c2, rounds = rng.uniform(0, 9, n), rng.uniform(0.1, 9, n), rng.uniform(1, 20)
    bounds = []
    for share in (1, more):
        asked = replace(problem, resources=Resources.of(c1, c2, share * rounds * (c1 + c2), n))
        said = plan(asked, local_bound(constants), constants, max_iterations=30).prediction
        assert said is not None
        bounds.append(said.bound)
    assert bounds[1] <= bounds[0] * (1 + 1e-12)


def test_a_dearer_communication_is_worth_more_local_steps():
    """Averaging for 100 and steps for 1 against a budget of 1,000: nine rounds at most."""
    cheap, dear = (
        plan(
            replace(make_problem("laplace", "C", [80] * 10, 500.0, clip=0.1), resources=has), BOUND, CONSTANTS
        )
        for has in (None, Resources.of(100.0, 1.0, 1000.0, 10))
    )  # fmt: skip
    assert isinstance(cheap.local, LocalSteps)
    assert isinstance(dear.local, LocalSteps)
    assert dear.releases.max() <= 9 < cheap.releases.max()
    assert dear.local.steps > cheap.local.steps
    assert any("[resources] budget pays for at most" in note for note in dear.notes)
    assert not any("[resources]" in note for note in cheap.notes)


@pytest.mark.parametrize(
    ("fixed", "budget", "says"),
    [
        ({"total_iterations": 101, "local_steps": 1, "clients_per_round": 10}, 1000.0, "iterations = 9,"),
        ({"total_iterations": 101, "clients_per_round": 10}, 200.0, "total_iterations = 100,"),
        ({"local_steps": 901}, 1000.0, "use local_steps of at most 900,"),
    ],
)
def test_what_is_fixed_beyond_the_budget_is_refused_with_the_most_that_is_paid_for(fixed, budget, says):
    """k (100 + E) <= C with ten clients; T = 101 is prime, and E = 101 is one round."""
    problem = make_problem("laplace", "C", [80] * 10, 50.0)
    problem = replace(problem, resources=Resources.of(100.0, 1.0, budget, 10))
    with pytest.raises(InvalidInput, match=says):
        plan(problem, BOUND, {}, max_iterations=2000, **fixed)
