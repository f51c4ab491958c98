"""FedSGD-DPC: numbers from the plan alone, unbiased aggregates, and what one record can change."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from noiseworthy._keys import Purpose, named_key
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.algorithm import Algorithm, ServerState
from noiseworthy.methods.fedsgd_dpc.algorithm import make
from noiseworthy.methods.fedsgd_dpc.planner import stated
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.rounds import client_step, run_round
from noiseworthy.tasks import LinearModel
from noiseworthy.tasks.batch import Batch

SIZES = np.array([8, 3, 5, 2, 6])
TASK = LinearModel(3, 3, "softmax", ridge=0.2)
FALSE_ALARM = 1e-4


def plan_of(family="laplace", b=2, rounds=6, *, epsilon=2.0, sampling_rate=1.0, clip=0.5, relation=None):
    relation = relation or ("replace-one" if sampling_rate == 1 else "add-remove")
    budget = PrivacyBudget.of(epsilon, 1e-3 if family == "gaussian" else 0.0, len(SIZES), relation)
    problem = Problem(SIZES, TASK.dimension, budget, family, clip, sampling_rate)
    return stated(problem, rounds, b, StepSize(0.4, 3.0))


# From the plan ------------------------------------------------------------------------------------------


def test_numbers_are_those_of_the_plan():
    plan = plan_of("gaussian", 2, 5, sampling_rate=0.5)
    algorithm = make(plan, TASK, seed=3)
    assert isinstance(algorithm, Algorithm)
    np.testing.assert_allclose(algorithm.noise, plan.noise, rtol=1e-6)
    np.testing.assert_allclose(algorithm.weights, 5 / 2 * SIZES / SIZES.sum(), rtol=1e-6)
    np.testing.assert_allclose(algorithm.divisors, 0.5 * SIZES)
    precise = make(replace(plan, weighting=1.0), TASK, seed=3)
    np.testing.assert_allclose(precise.weights, 5 / 2 * SIZES**2 / np.sum(SIZES**2), rtol=1e-6)
    np.testing.assert_allclose(algorithm.steps, [0.4 / (1 + t / 3) for t in range(5)], rtol=1e-6)
    assert algorithm.cohorts.shape == (5, 2)
    assert (algorithm.family, algorithm.norm, algorithm.sampled) == ("gaussian", "l2", True)
    assert not make(plan_of(), TASK, 0).sampled


@given(b=st.integers(1, 5), rounds=st.integers(1, 40), seed=st.integers(0, 10**6))
def test_no_schedule_asks_a_client_more_often_than_its_noise_pays_for(b, rounds, seed):
    plan = plan_of(b=b, rounds=rounds)
    asked = np.bincount(make(plan, TASK, seed).cohorts.ravel(), minlength=5)
    assert np.all(asked <= plan.releases)
    assert asked.sum() == b * rounds


def test_schedules_of_different_seeds_differ_and_of_one_seed_do_not():
    plan = plan_of(rounds=20)
    one, again, other = (make(plan, TASK, seed).cohorts for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_the_schedule_is_public_and_shares_no_randomness_with_the_noise():
    """Noise scales change no cohort: planning more noise under one seed keeps the schedule."""
    quiet, loud = (make(plan_of(epsilon=e), TASK, 7) for e in (10.0, 0.1))
    np.testing.assert_array_equal(quiet.cohorts, loud.cohorts)


def untrained(plan: Plan) -> Plan:
    return Plan("fedsgd-dpc", "", plan.problem, 0, 0, 0 * plan.releases, None, None, {}, "Do not train: no.")


def test_a_plan_that_does_not_train_has_no_algorithm():
    with pytest.raises(InvalidInput, match=r"this plan does not train: Do not train: no\."):
        make(untrained(plan_of()), TASK, 0)


def test_a_plan_without_steps_or_for_another_model_is_refused():
    plan = plan_of()
    bare = Plan("fedsgd-dpc", "", plan.problem, 6, 2, plan.releases, plan.release, None, {}, "")
    with pytest.raises(InvalidInput, match=r"no step size; state \[algorithm\] step_size"):
        make(bare, TASK, 0)
    with pytest.raises(InvalidInput, match="made for 9 parameters, the task has 6"):
        make(plan, LinearModel(2, 3, "softmax"), 0)


# One round ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shards():
    """One batch per client, padded to eight rows."""
    rng = np.random.default_rng(0)
    x = TASK.prepare(rng.normal(size=(5 * 8, 3))).reshape(5, 8, 3)
    mask = jnp.asarray(np.arange(8) < SIZES[:, None], jnp.float32)
    return Batch(x, jnp.asarray(rng.integers(0, 3, (5, 8))), mask)


def shard_of(shards, client):
    return Batch(*(part[client] for part in shards))


def raw_update(algorithm, state, client, shard, key):
    """What a client computes before noise; FedSGD-DPC remembers nothing."""
    update, memory = algorithm.local_update(state, client, (), shard, key)
    assert memory == ()
    return update


@pytest.mark.parametrize("b", [1, 2, 3, 4, 5])
def test_the_aggregate_is_unbiased_over_uniform_cohorts_of_unequal_clients(b, shards):
    """Mean over all cohorts of the weighted sum = gradient over all records, each record weighing 1/d."""
    algorithm = make(plan_of("none", b), TASK, 0)
    key, state = jax.random.key(0), ServerState(jnp.linspace(-1, 1, 9), jnp.zeros((), jnp.int32))
    parts = [
        algorithm.weight(c) * raw_update(algorithm, state, c, shard_of(shards, c), key) for c in range(5)
    ]
    sums = [sum(parts[i] for i in cohort) for cohort in combinations(range(5), b)]
    everything = Batch(shards.x.reshape(-1, 3), shards.y.ravel(), shards.mask.ravel())
    pooled = TASK.clipped_gradient_sum(state.theta, everything, jnp.float32(0.5), "l2") / float(SIZES.sum())
    assert jnp.linalg.norm(pooled) > 0.05
    np.testing.assert_allclose(np.mean(sums, axis=0), pooled, rtol=1e-4, atol=1e-6)


def test_one_round_is_select_charge_update_privatize_aggregate(shards):
    from noiseworthy.privacy.ledger import Ledger

    plan = replace(plan_of("laplace", 2), momentum=0.25)
    algorithm, key = make(plan, TASK, 1), jax.random.key(5)
    state = ServerState(jnp.linspace(0, 1, 9), jnp.asarray(3, jnp.int32), jnp.linspace(2, -2, 9))
    after, _, ledger = run_round(
        algorithm, state, dict.fromkeys(range(5), ()), Ledger.open(plan.releases),
        lambda i: shard_of(shards, i), key,
    )  # fmt: skip
    total = 0.2 * state.theta + 0.25 * state.memory
    for c in algorithm.cohorts[3]:
        raw = raw_update(algorithm, state, c, shard_of(shards, c), key)
        noise = plan.noise[c] * jax.random.laplace(named_key(key, Purpose.NOISE, 3, c), (9,))
        total = total + 5 / 2 * SIZES[c] / SIZES.sum() * (raw + noise)
    np.testing.assert_allclose(after.theta, state.theta - 0.4 / (1 + 3 / 3) * total, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(after.memory, total, rtol=1e-4, atol=1e-6)
    assert int(after.round) == 4
    np.testing.assert_array_equal(ledger.used, np.bincount(algorithm.cohorts[3], minlength=5))


def test_a_raw_update_never_leaves_the_client_without_noise(shards):
    """What leaves is raw + noise of exactly the client's planned size, for every client."""
    plan = plan_of("gaussian", 2, epsilon=[0.5, 1.0, 2.0, 4.0, 8.0])
    algorithm = jax.tree.map(jnp.asarray, make(plan, TASK, 1))
    state = ServerState(jnp.zeros(9), jnp.zeros((), jnp.int32))

    @jax.jit
    @jax.vmap
    def residue(key, client):
        shard = shard_of(shards, client)
        upload, _ = client_step(algorithm, state, client, (), shard, key)
        return upload - raw_update(algorithm, state, client, shard, key)

    keys = jax.random.split(jax.random.key(0), 1000)
    for client in range(5):
        unit = np.asarray(residue(keys, jnp.full(1000, client))).ravel() / plan.noise[client]
        assert stats.kstest(unit, "norm").pvalue > FALSE_ALARM
        for wrong in (2 / 3, 3 / 2):
            assert stats.kstest(wrong * unit, "norm").pvalue < FALSE_ALARM


def test_poisson_batches_take_records_independently_with_the_stated_rate(shards):
    """Each record is worth a known gradient of its own coordinate, so an update says who was taken."""
    task = LinearModel(8, 1, "squared")
    problem = Problem(np.full(2, 8), 8, PrivacyBudget.of(2.0, 1e-3, 2, "add-remove"), "gaussian", 1.0, 0.5)
    plan = stated(problem, 4, 1, StepSize(0.1))
    algorithm = jax.tree.map(jnp.asarray, make(plan, task, 0))
    shard = Batch(task.prepare(np.eye(8)), jnp.full(8, 1e3), jnp.ones(8).at[7].set(0.0))

    @jax.jit
    @jax.vmap
    def taken(key, t):
        state = ServerState(jnp.zeros(8), t)
        return raw_update(algorithm, state, jnp.int32(0), shard, key) * (0.5 * 8)

    rounds = jnp.tile(jnp.arange(4), 1000)
    keys = jnp.repeat(jax.random.split(jax.random.key(1), 1000), 4)
    found = np.asarray(-taken(keys, rounds))
    np.testing.assert_allclose(found[found > 0.5], 1.0, rtol=1e-4)
    chosen = found > 0.5
    assert not chosen[:, 7].any(), "padding is never taken"
    for record in range(7):
        assert stats.binomtest(int(chosen[:, record].sum()), 4000, 0.5).pvalue > FALSE_ALARM
    together = int((chosen[:, 0] & chosen[:, 1]).sum())
    assert stats.binomtest(together, 4000, 0.25).pvalue > FALSE_ALARM
    again = int((chosen[0::4, 0] & chosen[1::4, 0]).sum())
    assert stats.binomtest(again, 1000, 0.25).pvalue > FALSE_ALARM, "rounds must draw afresh"


# What one record can change -----------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.floats(-3, 3, width=32),
    st.sampled_from([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e30, 1e-38, 1e-45, 0.0]),
)
RECORDS = st.tuples(st.lists(NUMBERS, min_size=3, max_size=3), st.integers(0, 2))


@pytest.fixture(scope="module")
def update_of():
    """The raw update of client 0 with its first record replaced, or left out, compiled once per mechanism."""

    def build(family):
        algorithm = jax.tree.map(jnp.asarray, make(plan_of(family), TASK, 0))
        rest = TASK.prepare(np.random.default_rng(4).normal(size=(7, 3)))
        labels = jnp.array([0, 1, 2, 0, 1, 2, 0])

        @jax.jit
        def update(theta, x, y, present):
            rows = jnp.concatenate([TASK.prepare(x[None]), rest])
            shard = Batch(rows, jnp.concatenate([y[None], labels]), jnp.ones(8).at[0].set(present))
            state = ServerState(theta, jnp.zeros((), jnp.int32))
            return raw_update(algorithm, state, jnp.int32(0), shard, jax.random.key(0))

        return lambda theta, record, present=1.0: np.asarray(
            update(
                jnp.asarray(theta, jnp.float32), jnp.asarray(record[0], jnp.float32), jnp.int32(record[1]),
                jnp.float32(present),
            ),
            np.float64,
        )  # fmt: skip

    return {family: build(family) for family in ("laplace", "gaussian")}


@settings(max_examples=150)
@pytest.mark.parametrize(("family", "order"), [("laplace", 1), ("gaussian", 2)])
@given(
    one=RECORDS, other=RECORDS, scale=st.sampled_from([0.0, 1.0, 100.0]), present=st.sampled_from([0.0, 1.0])
)
def test_one_record_changes_an_update_by_at_most_the_planned_sensitivity(
    family, order, one, other, scale, present, update_of
):
    """Against any other record (replace-one) or none (add-remove), NaN and infinite ones included."""
    theta = scale * np.linspace(-1, 1, 9)
    relation = "replace-one" if present else "add-remove"
    allowed = plan_of(family, relation=relation).problem.sensitivity.value[0]
    change = update_of[family](theta, one) - update_of[family](theta, other, present)
    assert np.all(np.isfinite(change))
    assert np.linalg.norm(change, order) <= allowed * (1 + 1e-5)


@pytest.mark.parametrize(("family", "order"), [("laplace", 1), ("gaussian", 2)])
def test_the_planned_sensitivity_is_reached(family, order, update_of):
    """Opposite records push it to 2C/n, so a smaller claim would be false."""
    one, other = ([1e4, 0.0, 0.0], 0), ([-1e4, 0.0, 0.0], 0)
    change = update_of[family](np.zeros(9), one) - update_of[family](np.zeros(9), other)
    allowed = plan_of(family).problem.sensitivity.value[0]
    assert np.linalg.norm(change, order) == pytest.approx(2 * 0.5 / 8, rel=1e-4)
    assert np.linalg.norm(change, order) > 0.9999 * allowed
