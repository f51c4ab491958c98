"""DP-FedAvg and DP-ScaffNew against textbook NumPy twins, and what their updates may reveal."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.data.federation import Federation
from noiseworthy.engines.debug import debug
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.errors import BudgetExceeded, InvalidInput, UnsoundClaim
from noiseworthy.methods.fedsgd_dpc.bound import uploads
from noiseworthy.methods.registry import make
from noiseworthy.plans.local_work import Coins, LocalSteps
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.clipping import unit_of
from noiseworthy.tasks import Batch, LinearModel, Moments

CLIENTS, FEATURES = 5, 4


@pytest.fixture(scope="module")
def federation() -> Federation:
    """Unequal clients with unlike optima: regression with 6 to 14 records each."""
    generator = np.random.default_rng(3)
    sizes = np.array([6, 14, 9, 7, 12])
    x = generator.normal(size=(CLIENTS, 14, FEATURES)) * (np.arange(14) < sizes[:, None])[..., None]
    y = np.einsum("nif,nf->ni", x, generator.normal(size=(CLIENTS, FEATURES)) * 2).astype(np.float32)
    return Federation(
        name="unlike", clients=tuple("abcde"), sizes=sizes, x=x.astype(np.float32), y=y,
        test_x=x[:, 0].astype(np.float32), test_y=y[:, 0], classes=None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def task() -> LinearModel:
    return LinearModel(FEATURES, 1, "squared", ridge=0.05, feature_norm=4.0)


def problem_of(federation, mode="C", family="none", clip=1e6, epsilon=2.0) -> Problem:
    budget = PrivacyBudget.of(epsilon, 0.0 if family == "laplace" else 1e-5, CLIENTS, unit=unit_of(mode))
    return Problem(federation.sizes, FEATURES, budget, family, clip, clipping=mode)


def fedavg_plan(problem, total, steps, b, step, batch_size=None) -> Plan:
    rounds = total // steps
    releases = np.full(CLIENTS, int(uploads(rounds, b, CLIENTS)))
    return Plan(
        "dp-fedavg", "", problem, rounds, b, releases, problem.release(releases), None, {}, "", step=step,
        local=LocalSteps(steps, batch_size),
    )  # fmt: skip


def scaffnew_plan(problem, coins: Coins, step: StepSize) -> Plan:
    releases = np.full(CLIENTS, coins.rounds)
    return Plan(
        "dp-scaffnew", "", problem, coins.rounds, CLIENTS, releases, problem.release(releases), None, {}, "",
        step=step, local=coins,
    )  # fmt: skip


def rows(federation, client):
    n = federation.sizes[client]
    x = federation.x[client, :n].astype(np.float64)
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x * np.minimum(1, 4.0 / np.maximum(norms, 1e-12)), federation.y[client, :n].astype(np.float64)


def gradients(federation, client, theta):
    """Per-record gradients of (x theta - y)^2 / 2, shape (n, p)."""
    x, y = rows(federation, client)
    return (x @ theta - y)[:, None] * x


def clipped(v, most, order=2):
    return v * min(1.0, most / max(np.linalg.norm(v, order), 1e-300))


# Textbook twins -----------------------------------------------------------------------------------------


def numpy_fedavg(federation, plan, cohorts, ridge):
    """Loops over rounds, clients and local steps in float64, with the clip where the mode puts it."""
    problem, theta, k = plan.problem, np.zeros(FEATURES), 0
    order = 1 if problem.norm == "l1" else 2
    for cohort in cohorts:
        total = np.zeros(FEATURES)
        for client in cohort:
            local = theta.copy()
            for j in range(plan.local.steps):
                each = gradients(federation, client, local)
                if problem.clipping in "ABE":
                    each = np.array([clipped(g, problem.clip_norm, order) for g in each])
                mean = each.mean(axis=0)
                if problem.clipping == "C":
                    mean = clipped(mean, problem.clip_norm, order)
                local -= plan.step.at(np.array([k + j]))[0] * (mean + ridge * local)
            delta = local - theta
            if problem.clipping == "D":
                delta = clipped(delta, problem.clip_norm, order)
            total += CLIENTS / len(cohort) * problem.weights[client] * delta
        theta, k = theta + total, k + plan.local.steps
    return theta


@pytest.mark.parametrize(
    ("mode", "family", "clip", "steps", "b"),
    [("A", "gaussian", 2.0, 1, 5), ("B", "gaussian", 2.0, 3, 2), ("C", "gaussian", 3.0, 3, 2),
     ("C", "laplace", 3.0, 2, 5), ("D", "gaussian", 0.3, 4, 2), ("D", "gaussian", 0.3, 4, 5),
     ("E", "laplace", 2.0, 3, 5)],
)  # fmt: skip
def test_with_noise_0_fedavg_is_the_textbook_loop_in_every_mode(
    federation, task, mode, family, clip, steps, b
):
    """With some clients asked and with all, which engines tell apart and modes do not."""
    problem = problem_of(federation, mode, family, clip)
    plan = fedavg_plan(problem, 6 * steps, steps, b, StepSize(0.05, 20.0))
    algorithm = make(plan, task, 1)
    silent = eqx.tree_at(lambda a: a.noise, algorithm, np.zeros_like(algorithm.noise))
    shards = Shards.load(federation, task, condensed=silent.condensed)
    run = simulate([silent], plan.releases, shards, np.array([0, 6]), [1])
    oracle = numpy_fedavg(federation, plan, algorithm.cohorts, task.ridge)
    free = numpy_fedavg(
        federation, replace(plan, problem=replace(problem, clip_norm=1e9)), algorithm.cohorts, 0.05
    )
    assert np.linalg.norm(oracle - free) > 0.02 * np.linalg.norm(free), "the clip must bite"
    np.testing.assert_allclose(run.theta[0], oracle, rtol=2e-4, atol=2e-6)


def numpy_scaffnew(federation, coins: Coins, eta, clip, ridge):
    """Algorithm 2 iteration by iteration, h updated by the client as printed.

    Source: docs/theory/hou.md#algorithm.
    """
    theta = np.zeros(FEATURES)
    x, h, p = np.zeros((CLIENTS, FEATURES)), np.zeros((CLIENTS, FEATURES)), coins.probability
    for flip in coins.flips:
        ahead = np.array([
            x[i] - eta * (gradients(federation, i, x[i]).mean(axis=0) + ridge * x[i] - h[i])
            for i in range(CLIENTS)
        ])  # fmt: skip
        if flip:
            theta = theta + np.mean(
                [clipped(ahead[i] - eta / p * h[i] - theta, clip) for i in range(CLIENTS)], 0
            )
            x = np.tile(theta, (CLIENTS, 1))
        else:
            x = ahead
        h = h + p / eta * (x - ahead)
    return theta


@pytest.mark.parametrize("clip", [1e6, 0.5])
def test_with_noise_0_scaffnew_is_the_textbook_loop(federation, task, clip):
    plan = scaffnew_plan(
        problem_of(federation, "D", clip=clip), Coins(60, 0.25, seed=4), StepSize(0.05, np.inf)
    )
    algorithm = make(plan, task, 0)
    shards = Shards.load(federation, task, condensed=True)
    run = simulate([algorithm], plan.releases, shards, np.array([0, plan.rounds]), [0])
    oracle = numpy_scaffnew(federation, plan.local, 0.05, clip, task.ridge)
    assert np.linalg.norm(oracle) > 0.1
    np.testing.assert_allclose(run.theta[0], oracle, rtol=5e-4, atol=2e-5)


def test_scaffnew_reaches_the_optimum_where_fedavg_with_as_many_local_steps_does_not():
    """The bias of local steps on clients of unlike curvature is gone with control variates (no noise)."""
    generator, n = np.random.default_rng(8), 30
    x = generator.normal(size=(6, n, FEATURES)) * generator.uniform(0.3, 1.0, size=(6, 1, FEATURES))
    y = np.einsum("nif,nf->ni", x, generator.normal(size=(6, FEATURES)))
    gram = np.einsum("nif,nig->nfg", x, x) / n
    optimum = np.linalg.solve(gram.mean(axis=0), np.einsum("nif,ni->nf", x, y).mean(axis=0) / n)
    step = StepSize(1 / np.linalg.eigvalsh(gram).max(), float("inf"))
    data = Federation.from_clients(
        [(np.float32(a), np.float32(b)) for a, b in zip(x, y, strict=True)],
        test=(np.float32(x[0]), np.float32(y[0])), classes=None, name="unlike curvature",
    )  # fmt: skip
    budget = PrivacyBudget.of(1.0, 1e-5, 6, unit="client")
    facts = Problem(data.sizes, FEATURES, budget, "none", 1e6, clipping="D")
    coins, least_squares = Coins(4000, 0.1, seed=0), LinearModel(FEATURES, 1, "squared")
    shards = Shards.load(data, least_squares, condensed=True)

    def distance(name, rounds, local):
        counts = np.full(6, rounds)
        plan = Plan(
            name, "", facts, rounds, 6, counts, facts.release(counts), None, {}, "", step=step, local=local
        )
        run = simulate([make(plan, least_squares, 0)], counts, shards, np.array([0, rounds]), [0])
        return np.linalg.norm(run.theta[0] - optimum) / np.linalg.norm(optimum)

    assert distance("dp-scaffnew", coins.rounds, coins) < 1e-4
    assert distance("dp-fedavg", 400, LocalSteps(10)) > 0.01


# Engines ------------------------------------------------------------------------------------------------


def both_plans(federation, family="gaussian"):
    yield fedavg_plan(problem_of(federation, "C", family, 3.0), 9, 3, 2, StepSize(0.05, 20.0))
    yield fedavg_plan(problem_of(federation, "D", family, 0.5), 6, 2, 5, StepSize(0.05), batch_size=4)
    yield scaffnew_plan(
        problem_of(federation, "D", family, 2.0), Coins(10, 0.4, seed=1), StepSize(0.05, np.inf)
    )


@pytest.mark.parametrize(("which", "family"), [(0, "gaussian"), (1, "laplace"), (2, "gaussian")])
def test_the_debug_engine_gives_what_the_simulation_gives(federation, task, family, which):
    plan = list(both_plans(federation, family))[which]
    algorithm = make(plan, task, 0)
    shards = Shards.load(federation, task, condensed=algorithm.condensed)
    at = np.array([0, 1, plan.rounds])
    fast = simulate([algorithm], plan.releases, shards, at, [7], single_uploads=True)
    plain = debug(algorithm, plan.releases, shards, at, 7)
    np.testing.assert_allclose(fast.theta, plain.theta, rtol=2e-4, atol=1e-5)
    np.testing.assert_array_equal(fast.uploads, plain.uploads)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_seeds_side_by_side_equal_seeds_alone(federation, task, which):
    plan = list(both_plans(federation))[which]
    algorithms = [make(plan, task, seed) for seed in (0, 1)]
    shards = Shards.load(federation, task, condensed=algorithms[0].condensed)
    at = np.array([0, plan.rounds])
    together = simulate(algorithms, plan.releases, shards, at, [0, 1])
    for i, algorithm in enumerate(algorithms):
        alone = simulate([algorithm], plan.releases, shards, at, [i])
        np.testing.assert_allclose(together.theta[i], alone.theta[0], rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_run_resumed_from_any_round_ends_in_the_same_state(federation, task, which):
    """Control variates must survive a checkpoint."""
    plan = list(both_plans(federation))[which]
    algorithm, kept = make(plan, task, 0), []
    shards = Shards.load(federation, task, condensed=algorithm.condensed)
    at = np.arange(plan.rounds + 1)
    whole = simulate([algorithm], plan.releases, shards, at, [3], on_segment=kept.append)
    for checkpoint in (kept[1], kept[-2]):
        again = simulate([algorithm], plan.releases, shards, at, [3], resume=checkpoint)
        np.testing.assert_array_equal(again.theta, whole.theta)
        np.testing.assert_array_equal(again.uploads, whole.uploads)


def test_moments_and_records_train_alike(federation, task):
    plan = fedavg_plan(problem_of(federation, "C", clip=3.0), 12, 3, 2, StepSize(0.05, 20.0))
    algorithm, at = make(plan, task, 0), np.array([0, 4])
    short, long = (Shards.load(federation, task, condensed=condensed) for condensed in (True, False))
    assert isinstance(short.train, Moments)
    assert isinstance(long.train, Batch)
    runs = [simulate([algorithm], plan.releases, shards, at, [0]) for shards in (short, long)]
    np.testing.assert_allclose(runs[0].theta, runs[1].theta, rtol=1e-4, atol=1e-6)


def test_a_client_past_its_coins_refuses(federation, task):
    plan = scaffnew_plan(problem_of(federation, "D", "gaussian", 2.0), Coins(20, 0.4, seed=1), StepSize(0.05))
    algorithm = make(plan, task, 0)
    shards = Shards.load(federation, task, condensed=True)
    with pytest.raises(BudgetExceeded, match="planned uploads"):
        simulate([algorithm], plan.releases - 1, shards, np.array([0, plan.rounds]), [0])


# What one record, or one client, can change -------------------------------------------------------------


@pytest.fixture(scope="module")
def update_of(task):
    """The raw update of client 0 as a function of its records, compiled once per plan."""

    def build(plan):
        algorithm = jax.tree.map(jnp.asarray, make(plan, task, 0))

        @jax.jit
        def update(theta, x, y):
            from noiseworthy.methods.algorithm import ServerState

            shard = Batch(task.prepare(x), y, jnp.ones(len(y)))
            state = ServerState(theta, jnp.ones((), jnp.int32))
            delta, _ = algorithm.local_update(
                state, jnp.int32(0), algorithm.init_client(theta), shard, jax.random.key(0)
            )
            return delta

        return lambda theta, x, y: np.asarray(update(theta, x, y), np.float64)

    return build


@pytest.mark.parametrize(
    ("mode", "family", "steps", "whole"),
    [("A", "gaussian", 1, False), ("A", "laplace", 1, False), ("B", "gaussian", 5, False),
     ("E", "laplace", 5, False), ("C", "gaussian", 5, True), ("C", "laplace", 5, True),
     ("D", "gaussian", 5, True), ("D", "laplace", 5, True)],
)  # fmt: skip
def test_no_neighbour_moves_an_update_by_more_than_its_sensitivity(
    federation, task, update_of, mode, family, steps, whole
):
    """Random and extreme neighbours: one record for A, B and E, all records for C and D."""
    problem = problem_of(federation, mode, family, 0.7)
    plan = fedavg_plan(problem, 4 * steps, steps, 5, StepSize(0.1, 20.0))
    update, generator = update_of(plan), np.random.default_rng(5)
    allowed = problem.sensitivity.value[0] * plan.upload_scale[1]
    order = 1 if problem.sensitivity.norm == "l1" else 2
    n, largest = int(federation.sizes[0]), 0.0
    for trial in range(60):
        x, y = (
            generator.normal(size=(n, FEATURES)) * 3,
            generator.normal(size=n) * 10.0 ** generator.integers(-2, 6),
        )
        other_x, other_y = x.copy(), y.copy()
        changed = slice(None) if whole else slice(0, 1)
        other_y[changed] = -1e6 * np.sign(y[changed])
        if trial % 2:
            other_x[changed] = generator.normal(size=other_x[changed].shape) * 100
        theta = jnp.asarray(generator.normal(size=FEATURES) * trial / 10, jnp.float32)
        moved = update(theta, jnp.float32(x), jnp.float32(y)) - update(
            theta, jnp.float32(other_x), jnp.float32(other_y)
        )
        largest = max(largest, float(np.linalg.norm(moved, order)))
    assert largest <= allowed * (1 + 1e-5)
    if mode != "E":
        assert largest > 0.25 * allowed, "the neighbours are too tame to test anything"


def test_scaffnew_uploads_are_bounded_whatever_the_client_holds(federation, task, update_of):
    plan = scaffnew_plan(
        problem_of(federation, "D", "gaussian", 0.7), Coins(20, 0.4, seed=1), StepSize(0.05, np.inf)
    )
    update = update_of(plan)
    for y in (1e6, -1e6, np.inf, np.nan, 0.0):
        delta = update(jnp.ones(FEATURES), jnp.ones((6, FEATURES)), jnp.full(6, y, jnp.float32))
        assert np.linalg.norm(delta) <= 0.7


def test_ones_clip_of_records_over_several_steps_is_refused_where_it_has_no_proof(federation):
    """Softmax records clipped over E > 1 steps give no 1/n (docs/theory/fu.md#clipping-modes)."""
    softmax = LinearModel(FEATURES, 3, "softmax", feature_norm=1.0)
    facts = replace(problem_of(federation, "B", "gaussian", 1.0), dimension=12)
    with pytest.raises(UnsoundClaim, match=r"mode B has no proof here.*several outputs.*use mode C or D"):
        make(fedavg_plan(facts, 6, 3, 2, StepSize(0.1)), softmax, 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mode": "A", "steps": 2}, "mode A takes one local step, got local_steps = 2"),
        ({"mode": "B", "step": 0.2}, "mode B needs steps of at most 2/.*got 0.2"),
        ({"mode": "B", "batch_size": 2}, "mode B is proved for full batches, got batch_size = 2"),
        ({"mode": "C", "step": 30.0}, "mode C needs step_size \\* ridge of at most 1, got 1.5"),
    ],
)
def test_a_condition_that_fails_is_named(federation, task, change, words):
    settings = {"mode": "B", "steps": 3, "step": 0.01, "batch_size": None} | change
    problem = problem_of(federation, settings["mode"], "gaussian", 1.0)
    plan = fedavg_plan(problem, 6, settings["steps"], 2, StepSize(settings["step"]), settings["batch_size"])
    with pytest.raises(UnsoundClaim, match=words):
        make(plan, task, 0)


def test_a_ridge_is_refused_where_a_client_that_is_left_out_uploads_zero(federation, task):
    """It moves whoever takes part by more than the clipped steps that noise pays for."""
    problem = problem_of(federation, "C", "gaussian", 0.1)
    budget = replace(problem.budget, relation="add-remove")
    plan = fedavg_plan(replace(problem, budget=budget), 6, 3, 2, StepSize(0.1))
    with pytest.raises(UnsoundClaim, match=r"without ridge, got ridge = 0\.05"):
        make(plan, task, 0)
    make(plan, replace(task, ridge=0.0), 0)


def test_unbounded_features_have_no_public_smoothness(federation):
    free = LinearModel(FEATURES, 1, "squared")
    with pytest.raises(UnsoundClaim, match="feature_norm"):
        make(fedavg_plan(problem_of(federation, "B", "gaussian", 1.0), 6, 3, 2, StepSize(0.01)), free, 0)


def test_an_algorithm_needs_its_own_plan(federation, task):
    plan = fedavg_plan(problem_of(federation, "C"), 6, 3, 2, StepSize(0.01))
    for name, words in (("dp-scaffnew", "needs planned coins"), ("sgd", "algorithm must be one of")):
        with pytest.raises(InvalidInput, match=words):
            make(replace(plan, algorithm=name), task, 0)
