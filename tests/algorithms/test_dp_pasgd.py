"""DP-PASGD against a textbook NumPy twin, what its steps reveal, and how often a record is used."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

from noiseworthy.data.federation import Federation
from noiseworthy.engines.debug import debug
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.errors import BudgetExceeded, InvalidInput
from noiseworthy.methods.algorithm import ServerState
from noiseworthy.methods.registry import make
from noiseworthy.plans.local_work import LocalSteps, NoisySteps
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.tasks import Batch, LinearModel

DEVICES, FEATURES = 5, 4
STEP = StepSize(0.05, np.inf)


@pytest.fixture(scope="module")
def federation() -> Federation:
    """Unequal devices with unlike optima: regression with 6 to 14 records each."""
    generator = np.random.default_rng(3)
    sizes = np.array([6, 14, 9, 7, 12])
    x = generator.normal(size=(DEVICES, 14, FEATURES)) * (np.arange(14) < sizes[:, None])[..., None]
    y = np.einsum("nif,nf->ni", x, generator.normal(size=(DEVICES, FEATURES)) * 2).astype(np.float32)
    return Federation(
        name="unlike", clients=tuple("abcde"), sizes=sizes, x=x.astype(np.float32), y=y,
        test_x=x[:, 0].astype(np.float32), test_y=y[:, 0], classes=None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def task() -> LinearModel:
    return LinearModel(FEATURES, 1, "squared", ridge=0.05)


def plan_of(sizes, rounds, tau, *, family="gaussian", clip=1.0, epsilon=2.0, batch=None, resources=None):
    """A plan as the planner makes it, its noise retyped: 2G/X sqrt(uses) / mu(epsilon, delta)."""
    budget = PrivacyBudget.of(epsilon, 1e-5, len(sizes))
    problem = Problem(np.asarray(sizes), FEATURES, budget, family, clip, resources=resources)
    work = NoisySteps(tau, batch)
    uses = work.uses(rounds * tau, problem.sizes)
    release = replace(problem, sizes=work.records(problem.sizes)).release(uses)
    return Plan(
        "dp-pasgd", "", problem, rounds, len(sizes), uses, release, None, {}, "", step=STEP, local=work
    )


def silent(plan, task):
    algorithm = make(plan, task, 0)
    return eqx.tree_at(lambda a: a.noise, algorithm, np.zeros_like(algorithm.noise))


# The algorithm ------------------------------------------------------------------------------------------


def numpy_pasgd(federation, rounds, tau, clip, ridge):
    """Loops over rounds, devices and local steps in float64; the average counts devices alike."""
    theta = np.zeros(FEATURES)
    for _ in range(rounds):
        models = []
        for device, n in enumerate(federation.sizes):
            x, y = federation.x[device, :n].astype(float), federation.y[device, :n].astype(float)
            local = theta.copy()
            for _ in range(tau):
                each = (x @ local - y)[:, None] * x
                norms = np.linalg.norm(each, axis=1, keepdims=True)
                each = each * np.minimum(1, clip / np.maximum(norms, 1e-300))
                local = local - 0.05 * (each.sum(axis=0) / n + ridge * local)
            models.append(local)
        theta = np.mean(models, axis=0)
    return theta


@pytest.mark.parametrize("tau", [1, 4])
def test_without_noise_it_is_the_textbook_loop(federation, task, tau):
    plan = plan_of(federation.sizes, 6, tau)
    run = simulate([silent(plan, task)], plan.uploads, Shards.load(federation, task), np.array([0, 6]), [1])
    oracle = numpy_pasgd(federation, 6, tau, 1.0, task.ridge)
    free = numpy_pasgd(federation, 6, tau, 1e9, task.ridge)
    assert np.linalg.norm(oracle - free) > 0.02 * np.linalg.norm(free), "the clip must bite"
    np.testing.assert_allclose(run.theta[0], oracle, rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("batch", [None, 4])
def test_the_debug_engine_gives_what_the_simulation_gives(federation, task, batch):
    plan = plan_of(federation.sizes, 3, 2, batch=batch)
    algorithm, shards, at = make(plan, task, 0), Shards.load(federation, task), np.array([0, 1, 3])
    plain = debug(algorithm, plan.uploads, shards, at, 7)
    for single in (True, False):  # devices compute on with their noise, so no sum may stand for it
        fast = simulate([algorithm], plan.uploads, shards, at, [7], single_uploads=single)
        np.testing.assert_allclose(fast.theta, plain.theta, rtol=2e-4, atol=1e-5)
        np.testing.assert_array_equal(fast.uploads, plain.uploads)


@pytest.mark.parametrize("batch", [None, 4])
def test_seeds_side_by_side_equal_seeds_alone_and_a_resumed_run_an_unbroken_one(federation, task, batch):
    plan = plan_of(federation.sizes, 3, 2, batch=batch)
    algorithm, shards, kept = make(plan, task, 0), Shards.load(federation, task), []
    at = np.arange(4)
    together = simulate([algorithm] * 2, plan.uploads, shards, at, [0, 1])
    alone = simulate([algorithm], plan.uploads, shards, at, [1], on_segment=kept.append)
    np.testing.assert_allclose(together.theta[1], alone.theta[0], rtol=2e-4, atol=1e-5)
    again = simulate([algorithm], plan.uploads, shards, at, [1], resume=kept[2])
    np.testing.assert_array_equal(again.theta, alone.theta)


def test_a_device_refuses_to_upload_more_often_than_planned(federation, task):
    plan = plan_of(federation.sizes, 5, 3)
    with pytest.raises(BudgetExceeded, match="planned uploads"):
        simulate(
            [make(plan, task, 0)], plan.uploads - 1, Shards.load(federation, task), np.array([0, 5]), [0]
        )


def test_it_needs_a_plan_of_noised_steps(federation, task):
    plan = replace(plan_of(federation.sizes, 5, 3), local=LocalSteps(3))
    with pytest.raises(InvalidInput, match="noised steps"):
        make(plan, task, 0)


# Noise --------------------------------------------------------------------------------------------------


def test_the_noise_of_every_step_has_the_planned_variance(task):
    """With records of zeros a model moves by noise alone; two-sided chi-square test at 1e-6."""
    sizes, tau, seeds = np.array([40, 80]), 3, 400
    plan = plan_of(sizes, 1, tau)
    nothing = Federation(
        name="nothing", clients=("a", "b"), sizes=sizes, x=np.zeros((2, 80, FEATURES), np.float32),
        y=np.zeros((2, 80), np.float32), test_x=np.zeros((1, FEATURES), np.float32),
        test_y=np.zeros(1, np.float32), classes=None,
    )  # fmt: skip
    bare = replace(task, ridge=0.0)
    algorithms = [make(plan, bare, 0)] * seeds
    run = simulate(algorithms, plan.uploads, Shards.load(nothing, bare), np.array([0, 1]), list(range(seeds)))
    std = 2 * 1.0 / sizes * np.sqrt(tau) / gaussian_mu(2.0, 1e-5)
    variance = 0.05**2 * tau * np.sum(std**2) / 2**2
    statistic = np.sum(np.square(run.theta.astype(float))) / variance
    low, high = chi2.ppf([5e-7, 1 - 5e-7], seeds * FEATURES)
    assert low < statistic < high
    covariance = np.cov(run.theta.T) / variance
    assert np.max(np.abs(covariance - np.eye(FEATURES))) < 5.5 * np.sqrt(2 / seeds)


def test_steps_draw_fresh_noise(federation, task):
    """Equal noise in all steps of a round would have tau times the variance."""
    plan = plan_of(federation.sizes, 2, 2)
    algorithm, key = jax.tree.map(jnp.asarray, make(plan, replace(task, ridge=0.0), 0)), jax.random.key(0)
    quiet = Batch(jnp.zeros((14, FEATURES)), jnp.zeros(14), jnp.ones(14))
    moves = []
    for t in (0, 1):
        for tau in (1, 2):
            stepped = eqx.tree_at(lambda a: a.local_steps, algorithm, jnp.int32(tau))
            state = ServerState(jnp.zeros(FEATURES), jnp.int32(t))
            moves.append(stepped.local_update(state, jnp.int32(0), (), quiet, key)[0])
    first, both, later, later_both = (np.asarray(move) for move in moves)
    for one, other in [(first, both - first), (first, later), (both - first, later_both - later)]:
        assert not np.allclose(one, other, atol=1e-4)


# What is charged ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tau", "batch"), [(1, None), (1, 5), (1, 3)])
def test_no_neighbour_moves_a_step_by_more_than_its_sensitivity(task, tau, batch):
    sizes = np.array([12, 12])
    plan = plan_of(sizes, 20, tau, clip=0.7, batch=batch)
    quiet = jax.tree.map(jnp.asarray, silent(plan, task))
    allowed = 0.05 * plan.release.sensitivity.value[0]
    generator, largest = np.random.default_rng(5), 0.0

    @jax.jit
    def move(theta, k, x, y):
        state = ServerState(theta, k)
        return quiet.local_update(state, jnp.int32(0), (), Batch(x, y, jnp.ones(12)), jax.random.key(1))[0]

    for trial in range(80):
        x, y = generator.normal(size=(12, FEATURES)) * 3, generator.normal(size=12) * 10.0 ** (trial % 6)
        other_x, other_y = x.copy(), y.copy()
        other_x[0], other_y[0] = generator.normal(size=FEATURES) * 100, -1e6 * np.sign(y[0])
        theta, k = jnp.float32(generator.normal(size=FEATURES)), jnp.int32(trial % 20)
        moved = move(theta, k, jnp.float32(x), jnp.float32(y)) - move(
            theta, k, jnp.float32(other_x), jnp.float32(other_y)
        )
        largest = max(largest, float(np.linalg.norm(moved)))
    assert 0.25 * allowed < largest <= allowed * (1 + 1e-4)


@pytest.mark.parametrize(("size", "batch"), [(12, 3), (13, 3), (14, 5), (4, 9), (7, 1), (8, None)])
def test_no_record_is_used_more_often_than_its_noise_pays_for(size, batch):
    """Orthogonal records: the gradient of a step at the origin shows which records it read."""
    tau, rounds, most = 3, 11, 14
    task = LinearModel(most, 1, "squared")
    work = NoisySteps(tau, batch)
    plan = plan_of(np.array([size, most]), rounds, tau, batch=batch, clip=1e6)
    quiet = eqx.tree_at(
        lambda a: (a.local_steps, a.steps),
        jax.tree.map(jnp.asarray, silent(replace(plan, problem=replace(plan.problem, dimension=most)), task)),
        (jnp.int32(1), jnp.ones(rounds * tau)),
    )
    mask = (jnp.arange(most) < size).astype(jnp.float32)
    shard = Batch(jnp.eye(most) * mask[:, None], jnp.ones(most), mask)

    @jax.jit
    def read(k):
        move, _ = quiet.local_update(
            ServerState(jnp.zeros(most), k), jnp.int32(0), (), shard, jax.random.key(2)
        )
        return move > 1e-6

    used = np.array([read(jnp.int32(k)) for k in range(rounds * tau)])
    records = min(batch or size, size)
    np.testing.assert_array_equal(used.sum(axis=1), records)
    assert not used[:, size:].any()
    for k in (1, 4, 12, rounds * tau):
        assert used[:k].sum(axis=0).max() <= work.uses(k, np.array([size]))[0]
    per_pass = size // records
    for start in range(0, rounds * tau - per_pass + 1, per_pass):
        assert used[start : start + per_pass].sum(axis=0).max() == 1, "a pass reads no record twice"
    if batch is not None and per_pass > 1:
        orders = {tuple(np.argmax(used[k : k + per_pass], axis=1)) for k in range(0, 30, per_pass)}
        assert len(orders) > 1, "every pass has an order of its own"


def test_spending_counts_the_steps_a_record_is_in():
    """5 rounds of 4 steps on 10 of 35 records: ceil(20/3) = 7 uses; after 2 rounds ceil(8/3) = 3."""
    plan = plan_of(np.array([35, 10]), 5, 4, batch=10)
    assert plan.releases.tolist() == [7, 20]
    assert plan.uploads.tolist() == [5, 5]
    np.testing.assert_allclose(plan.spent(), [2.0, 2.0], rtol=1e-9)
    after_two = plan.spent(np.array([2, 2]))
    mu = gaussian_mu(2.0, 1e-5) * np.sqrt([3 / 7, 8 / 20])
    np.testing.assert_allclose(gaussian_mu(after_two, 1e-5), mu, rtol=1e-6)


def test_the_claim_covers_what_the_server_really_learns():
    """A device with one feature is a Gaussian chain: its upload's exact ratio is below what is claimed.

    theta' = theta - eta (theta - mean + b): the records' difference 2G/n enters each step and is damped by
    later ones, as the noise is; claimed is sqrt(tau) of a single step's ratio.
    """
    n, clip, tau, eta = 20, 1.0, 6, 0.3
    std = 2 * clip / n * np.sqrt(tau) / gaussian_mu(2.0, 1e-5)
    damping = (1 - eta) ** np.arange(tau)
    shift, noise = eta * 2 * clip / n * damping.sum(), eta * std * np.sqrt(np.sum(damping**2))
    assert shift / noise <= gaussian_mu(2.0, 1e-5)


def test_a_plan_states_what_it_costs_every_device():
    costs = Resources.of([100.0, 50.0], [1.0, 2.0], 1000.0, 2, "joules")
    plan = plan_of(np.array([35, 10]), 5, 4, resources=costs)
    np.testing.assert_array_equal(plan.cost, [520.0, 290.0])
    stated = plan.as_dict()
    assert (stated["cost"], stated["rounds"], stated["local_steps"], stated["total_iterations"]) == (
        520.0, 5, 4, 20,
    )  # fmt: skip
    assert stated["resources"]["cost"] == [520.0, 290.0]
    assert stated["noise"] == plan.release.mechanism.size.tolist()
