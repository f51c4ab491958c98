"""MR-MTL: the mean of own models, what the pull is at its ends, and what a record can move."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from noiseworthy.data.federation import Federation
from noiseworthy.engines.debug import debug
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.algorithm import ServerState
from noiseworthy.methods.fedsgd_dpc import planner as replies
from noiseworthy.methods.mr_mtl.method import stated
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import LinearModel
from noiseworthy.tasks.batch import Batch

N, FEATURES, ROUNDS, CLIP, RIDGE = 4, 3, 7, 1.5, 0.05
SIZES, STEP = np.array([6, 14, 9, 7]), StepSize(0.2, 20.0)
TASK = LinearModel(FEATURES, 1, "squared", ridge=RIDGE)
SHARES = SIZES / SIZES.sum()


@pytest.fixture(scope="module")
def federation() -> Federation:
    """Clients whose optima lie apart."""
    draw = np.random.default_rng(5)
    x = [draw.normal(size=(n, FEATURES)) for n in SIZES]
    clients = [(one, one @ draw.normal(size=FEATURES) * 2) for one in x]
    return Federation.from_clients(clients, test=clients[0], classes=None, name="apart")


@pytest.fixture(scope="module")
def shards(federation) -> Shards:
    return Shards.load(federation, TASK)


def plan_of(pull, family="gaussian", epsilon=4.0, rounds=ROUNDS):
    budget = PrivacyBudget.of(epsilon, 1e-5 if family == "gaussian" else 0.0, N)
    return stated(Problem(SIZES, FEATURES, budget, family, CLIP), rounds, STEP, pull)


def trained(plan, shards, seed=3):
    """The mean, and every owner's own model."""
    run = simulate([make(plan, TASK, 0)], plan.uploads, shards, np.array([0, plan.rounds]), [seed])
    assert run.memory is not None
    return run.theta[0], np.array([run.memory(0, owner)[0] for owner in range(N)])


@given(pull=st.floats(0, 20), seed=st.integers(0, 1000))
@settings(max_examples=15)
def test_the_server_has_the_mean_of_the_owners_models_whatever_the_pull(shards, pull, seed):
    """With noise, and weights by records: the pulls cancel."""
    mean, own = trained(plan_of(pull), shards, seed)
    np.testing.assert_allclose(SHARES @ own, mean, rtol=1e-4, atol=1e-5)
    assert np.abs(own - mean).max() > 1e-3


@pytest.mark.parametrize("pull", [0.0, 0.7, 100.0])
def test_without_noise_it_is_the_textbook_loop(federation, shards, pull):
    mean, own = trained(plan_of(pull, "none"), shards)
    theta, models = np.zeros(FEATURES), np.zeros((N, FEATURES))
    for t in range(ROUNDS):
        step, moved = 0.2 / (1 + t / 20), np.empty_like(models)
        for m, n in enumerate(SIZES):
            x, y = federation.x[m, :n].astype(float), federation.y[m, :n].astype(float)
            each = (x @ models[m] - y)[:, None] * x
            norms = np.linalg.norm(each, axis=1)
            gradient = (each * np.minimum(1, CLIP / np.maximum(norms, 1e-30))[:, None]).mean(axis=0)
            slope = gradient + RIDGE * models[m]
            moved[m] = models[m] - step * slope - min(1, step * pull) * (models[m] - theta)
        models, theta = moved, SHARES @ moved
    np.testing.assert_allclose(own, models, rtol=2e-4, atol=2e-6)
    np.testing.assert_allclose(mean, theta, rtol=2e-4, atol=2e-6)


def test_without_a_pull_every_owner_trains_alone(federation, shards):
    """What others hold changes nothing of an owner's model, and something with a pull."""
    others = replace(federation, y=np.where(np.arange(N)[:, None] == 0, federation.y, -federation.y))
    for pull, apart in ((0.0, False), (0.5, True)):
        one, two = (trained(plan_of(pull), Shards.load(held, TASK))[1] for held in (federation, others))
        assert (np.abs(one[0] - two[0]).max() > 1e-3) == apart
        assert np.abs(one[1] - two[1]).max() > 1e-2


def test_a_pull_draws_models_together(shards):
    spread = [np.linalg.norm(np.subtract(*trained(plan_of(pull), shards)[::-1])) for pull in (0, 0.3, 3, 50)]
    assert spread == sorted(spread, reverse=True)
    assert spread[-1] < 0.5 * spread[0]


def test_the_debug_engine_trains_the_same(shards):
    plan = plan_of(0.4)
    algorithm, at = make(plan, TASK, 0), np.array([0, ROUNDS])
    fast = simulate([algorithm], plan.uploads, shards, at, [3])
    slow = debug(algorithm, plan.uploads, shards, at, 3)
    np.testing.assert_allclose(fast.theta, slow.theta, rtol=2e-4, atol=1e-5)
    np.testing.assert_array_equal(fast.uploads, np.full((1, N), ROUNDS))


# Privacy ------------------------------------------------------------------------------------------------


def moved_by(algorithm, batch, own, client=0, key=11):
    state = ServerState(jnp.zeros(FEATURES), jnp.zeros((), jnp.int32))
    update, kept = algorithm.local_update(state, jnp.int32(client), own, batch, jax.random.key(key))
    return np.asarray(update, float), np.asarray(kept, float)


@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.01, 1.0, 100.0]), family=st.sampled_from("gl"))
@settings(max_examples=40)
def test_a_replaced_record_moves_a_gradient_by_at_most_the_sensitivity_at_any_model(seed, scale, family):
    plan = plan_of(0.3, {"g": "gaussian", "l": "laplace"}[family])
    algorithm = jax.tree.map(jnp.asarray, make(plan, TASK, 0).noiseless())
    draw, n = np.random.default_rng(seed), int(SIZES[0])
    x, y = scale * draw.normal(size=(n, FEATURES)), scale * draw.normal(size=n)
    own = jnp.asarray(10 * draw.normal(size=FEATURES), jnp.float32)
    other_x, other_y = x.copy(), y.copy()
    other_x[0], other_y[0] = -x[0] * 1e6, 1e6
    ends = [
        moved_by(algorithm, Batch(*(jnp.asarray(v, jnp.float32) for v in (*data, np.ones(n)))), own)[0]
        for data in ((x, y), (other_x, other_y))
    ]
    moved = np.linalg.norm(ends[0] - ends[1], 1 if family == "l" else 2)
    assert moved <= plan.problem.sensitivity.value[0] * (1 + 1e-5)


def test_an_owners_model_moves_by_what_it_uploads_and_what_it_was_sent_alone(shards):
    """So that its memory is post-processing of its uploads: computed again from them, in float64."""
    plan, pull = plan_of(0.4), 0.4
    algorithm = jax.tree.map(jnp.asarray, make(plan, TASK, 0))
    batch = jax.tree.map(lambda one: one[1], shards.train)
    own = jnp.asarray([0.5, -1.0, 2.0])
    update, kept = moved_by(algorithm, batch, own, client=1)
    told = np.asarray(own, float)
    np.testing.assert_allclose(kept, told - 0.2 * (update + RIDGE * told) - 0.2 * pull * told, rtol=1e-5)
    assert algorithm.remembers_noised


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_an_upload_has_the_noise_of_the_plan(family):
    """4,000 replies of an owner without records against the law; false alarms below 1e-6 each."""
    plan = plan_of(0.3, family)
    algorithm = jax.tree.map(jnp.asarray, make(plan, TASK, 0))
    idle = Batch(jnp.zeros((3, FEATURES)), jnp.zeros(3), jnp.zeros(3))
    state = ServerState(jnp.zeros(FEATURES), jnp.zeros((), jnp.int32))

    def upload(key):
        update, _ = algorithm.local_update(state, jnp.int32(2), jnp.zeros(FEATURES), idle, key)
        return algorithm.privatize(state, update, jnp.int32(2), key)

    drawn = np.asarray(jax.vmap(upload)(jax.random.split(jax.random.key(1), 4000))).ravel()
    law = stats.norm if family == "gaussian" else stats.laplace
    assert stats.kstest(drawn / plan.noise[2], law.cdf).pvalue > 1e-6


def test_noise_pays_for_every_round_and_not_for_one_more():
    plan = plan_of(0.1)
    assert plan.releases.tolist() == [ROUNDS] * N
    np.testing.assert_allclose(plan.spent(), 4.0, rtol=1e-6)
    assert np.all(plan.spent(plan.releases + 1) > 4.0)
    same = replies.stated(plan.problem, ROUNDS, N, STEP)
    np.testing.assert_array_equal(plan.noise, same.noise)


@pytest.mark.parametrize("pull", [-0.1, np.nan, np.inf])
def test_a_pull_that_is_none_is_refused_by_name(pull):
    with pytest.raises(InvalidInput, match="pull"):
        plan_of(pull)
