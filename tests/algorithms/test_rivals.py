"""The rivals of DPFL-BCS: what they are equal to, what they do apart, and what PrivateFL keeps private."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from itertools import combinations, product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial.distance import pdist

from noiseworthy._keys import Purpose, named_key
from noiseworthy.data.federation import Federation
from noiseworthy.engines.debug import debug
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.algorithm import ServerState, start_of
from noiseworthy.methods.registry import make
from noiseworthy.methods.rivals import planner as rivals
from noiseworthy.methods.rivals.pfa import public_clients, top_directions
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import LinearModel
from noiseworthy.tasks.batch import Batch

FEATURES, ROUNDS, K, N = 4, 9, 3, 6
CLIP, MOMENTUM, STEP = 1.0, 0.6, StepSize(0.1, 20.0)
UNLIKE = np.array([0.2, 5.0, 0.3, 4.0, 0.1, 6.0])
TASK = LinearModel(FEATURES, 1, "squared", ridge=0.05)


@pytest.fixture(scope="module")
def federation() -> Federation:
    """Unequal clients with unlike optima: regression with 6 to 14 records each."""
    generator = np.random.default_rng(3)
    sizes = np.array([6, 14, 9, 7, 12, 8])
    x = generator.normal(size=(N, 14, FEATURES)) * (np.arange(14) < sizes[:, None])[..., None]
    y = np.einsum("nif,nf->ni", x, generator.normal(size=(N, FEATURES)) * 2).astype(np.float32)
    return Federation(
        name="unlike", clients=tuple("abcdef"), sizes=sizes, x=x.astype(np.float32), y=y,
        test_x=x[:, 0].astype(np.float32), test_y=y[:, 0], classes=None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def shards(federation) -> Shards:
    return Shards.load(federation, TASK)


def plan_of(federation, name, family="gaussian", epsilon=2.0, rounds=ROUNDS, k=K, clip=CLIP, **chosen):
    delta = 1e-5 if family == "gaussian" else 0.0
    problem = Problem(federation.sizes, FEATURES, PrivacyBudget.of(epsilon, delta, N), family, clip)
    stated = {"momentum": MOMENTUM, **chosen}
    return rivals.plan(name, problem, rounds=rounds, clients_per_round=k, step=STEP, **stated)


def silent(algorithm):
    return eqx.tree_at(lambda a: a.noise, algorithm, np.zeros_like(algorithm.noise))


def trained(algorithm, plan, shards, seed=7, **how):
    run = simulate([algorithm], plan.uploads, shards, np.array([0, plan.rounds]), [seed], **how)
    return run.theta[0]


# What is equal to what --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "family", "single"), [("dpsgd", "gaussian", True), ("dmldp", "laplace", False)]
)
def test_with_equal_budgets_weights_by_budget_change_nothing(federation, shards, name, family, single):
    plans = [plan_of(federation, one, family) for one in (name, "weiavg")]
    ends = [trained(make(p, TASK, 0), p, shards, single_uploads=single) for p in plans]
    assert np.any(ends[0] != 0)
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-5, atol=1e-6)


def test_with_equal_budgets_the_debug_engine_agrees(federation, shards):
    plans = [plan_of(federation, one, rounds=1, k=2) for one in ("dpsgd", "weiavg")]
    at = np.array([0, 1])
    ends = [debug(make(p, TASK, 0), p.uploads, shards, at, 7).theta for p in plans]
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-5, atol=1e-6)


def test_with_one_group_a_projection_changes_nothing(federation, shards):
    plans = [plan_of(federation, one, epsilon=3.0) for one in ("pfa", "weiavg")]
    ends = [trained(make(p, TASK, 0), p, shards, single_uploads=True) for p in plans]
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-5, atol=1e-6)


def test_without_noise_and_alike_all_are_fedsgd(federation, shards):
    """The clip does not bind, so that its norm does not matter; transforms stay where they are."""
    mechanisms = {"fedsgd": "none", "dpsgd": "gaussian", "dmldp": "laplace"}
    ends = {}
    for name in rivals.RIVALS:
        plan = plan_of(federation, name, mechanisms.get(name, "none"), clip=1e6, personal_step=0.0)
        ends[name] = trained(silent(make(plan, TASK, 0)), plan, shards)
    ends["dpfl-bcs"] = trained(silent(make(replace(plan, algorithm="dpfl-bcs"), TASK, 0)), plan, shards)
    for name, end in ends.items():
        np.testing.assert_allclose(end, ends["fedsgd"], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("name", "family", "chosen"),
    [
        ("weiavg", "gaussian", {"k": 2, "counts": [1, 1, 0, 0, 0, 0]}),
        ("pfa", "gaussian", {"counts": [1, 1, 0, 0, 0, 1]}),
        ("privatefl", "laplace", {"k": 1, "rounds": 2, "counts": [0, 2, 0, 0, 0, 0]}),
    ],
)
def test_the_debug_engine_gives_what_the_simulation_gives(federation, shards, name, family, chosen):
    """With both groups in a round, and a client that comes back with its transform."""
    plan = plan_of(federation, name, family, UNLIKE, **{"rounds": 1, **chosen})
    algorithm, at = make(plan, TASK, 0), np.array([0, plan.rounds])
    plain = debug(algorithm, plan.uploads, shards, at, 7).theta[0]
    single = trained(algorithm, plan, shards, single_uploads=True)
    np.testing.assert_allclose(single, plain, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["weiavg", "privatefl"])
def test_noise_drawn_as_one_sum_moves_the_model_as_much_as_single_draws(federation, name):
    """The variance of 500 x 4 draws against sums by hand: chi^2 of 2,000; false alarm below 1e-5."""
    plan = plan_of(federation, name, "gaussian", UNLIKE, counts=[9, 9, 0, 0, 0, 9], momentum=0.0)
    algorithm = jax.tree.map(jnp.asarray, make(plan, TASK, 0))
    state = algorithm.init(start_of(algorithm.task, jax.random.key(0)))

    def one(key):
        return algorithm.aggregate(
            state, algorithm.aggregate_noise(state, algorithm.select(state), key)
        ).theta

    moved = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), 500))
    asked = [0, 1, 5]
    weights = np.full(3, 1 / 3) if name == "privatefl" else UNLIKE[asked] / UNLIKE[asked].sum()
    by_hand = np.sum((STEP.initial * weights * plan.noise[asked]) ** 2)
    assert stats.chi2.sf(2000 * 1.2, 2000) + stats.chi2.cdf(2000 / 1.2, 2000) < 1e-5
    assert 1 / 1.2 < np.mean(np.square(moved)) / by_hand < 1.2


# What they do apart: loops in NumPy -------------------------------------------------------------------


def clipped_mean(each):
    sizes = np.linalg.norm(each, axis=1, keepdims=True)
    return (each * np.minimum(1, CLIP / np.maximum(sizes, 1e-300))).mean(axis=0)


def reply(federation, client, theta):
    n = federation.sizes[client]
    x, y = federation.x[client, :n].astype(float), federation.y[client, :n].astype(float)
    return clipped_mean((x @ theta - y)[:, None] * x)


def by_budget(cohort, uploads):
    weights = UNLIKE[cohort] / UNLIKE[cohort].sum()
    return weights @ uploads


def projected(cohort, uploads):
    """Large budgets here are 4 to 6; the singular vector of the p x |pub| matrix itself."""
    public, epsilon = UNLIKE[cohort] > 1, UNLIKE[cohort]
    if public.all() or not public.any():
        return by_budget(cohort, uploads)
    left = np.linalg.svd(uploads[public].T, full_matrices=False)[0][:, :1]
    private = epsilon[~public] @ uploads[~public]
    return (epsilon[public] @ uploads[public] + left @ (left.T @ private)) / epsilon.sum()


@pytest.mark.parametrize(
    ("name", "combined"),
    [("fedsgd", lambda cohort, uploads: uploads.mean(axis=0)), ("weiavg", by_budget), ("pfa", projected)],
)
def test_without_noise_it_is_the_textbook_loop(federation, shards, name, combined):
    plan = plan_of(federation, name, "none", UNLIKE)
    algorithm = make(plan, TASK, 4)
    theta, velocity = np.zeros(FEATURES), np.zeros(FEATURES)
    for t, cohort in enumerate(algorithm.cohorts):
        uploads = np.array([reply(federation, client, theta) for client in cohort])
        velocity = MOMENTUM * velocity + combined(cohort, uploads) + 0.05 * theta
        theta = theta - 0.1 / (1 + t / 20) * velocity
    np.testing.assert_allclose(trained(algorithm, plan, shards), theta, rtol=2e-4, atol=2e-6)


def test_without_noise_privatefl_is_the_textbook_loop(federation, shards):
    """x' = gamma x + beta; the three parts of a record's gradient are clipped as one vector."""
    plan = plan_of(federation, "privatefl", "none", UNLIKE, personal_step=0.3)
    algorithm = make(plan, TASK, 4)
    own = np.tile([1.0, *[0.0] * FEATURES], (N, 1))
    theta, velocity = np.zeros(FEATURES), np.zeros(FEATURES)
    for t, cohort in enumerate(algorithm.cohorts):
        uploads = []
        for client in cohort:
            n = federation.sizes[client]
            x, y = federation.x[client, :n].astype(float), federation.y[client, :n].astype(float)
            moved = own[client, 0] * x + own[client, 1:]
            slope = (moved @ theta - y)[:, None]
            each = np.hstack([slope * (x @ theta)[:, None], slope * theta, slope * moved])
            mean = clipped_mean(each)
            own[client] -= 0.3 * mean[: FEATURES + 1]
            uploads.append(mean[FEATURES + 1 :])
        velocity = MOMENTUM * velocity + np.mean(uploads, axis=0) + 0.05 * theta
        theta = theta - 0.1 / (1 + t / 20) * velocity
    ends = []
    run = simulate(
        [algorithm], plan.uploads, shards, np.array([0, ROUNDS]), [7], on_segment=ends.append
    )  # fmt: skip
    np.testing.assert_allclose(run.theta[0], theta, rtol=2e-4, atol=2e-6)
    np.testing.assert_allclose(ends[-1].memory[0][0], own, rtol=2e-4, atol=2e-6)
    assert np.abs(own[:, 0] - 1).max() > 0.01


@pytest.mark.parametrize("name", ["dpsgd", "weiavg", "pfa", "privatefl"])
def test_the_momentum_of_the_server_is_that_of_optax(federation, name):
    plan = plan_of(federation, name, rounds=5, epsilon=UNLIKE)
    algorithm = jax.tree.map(jnp.asarray, make(plan, TASK, 0))
    state = algorithm.init(start_of(algorithm.task, jax.random.key(0)))
    trace = optax.trace(MOMENTUM)
    theta, kept = state.theta, trace.init(state.theta)
    for t, total in enumerate(np.random.default_rng(0).normal(size=(5, FEATURES)).astype(np.float32)):
        cohort = plan.problem.budget.epsilon[np.asarray(algorithm.cohorts[t])]
        mean = total / cohort.sum() if name in ("weiavg", "pfa") else total
        move, kept = trace.update(jnp.asarray(mean + 0.05 * theta), kept)
        theta = theta - STEP.at(t) * move
        state = algorithm.aggregate(state, jnp.asarray(total))
    np.testing.assert_allclose(state.theta, theta, rtol=1e-5)


@pytest.mark.parametrize("name", [n for n in rivals.RIVALS if n != "fedsgd"])
def test_all_take_any_counts_exactly(federation, name):
    counts = [9, 1, 0, 8, 4, 5]
    family = "laplace" if name == "dmldp" else "gaussian"
    cohorts = make(plan_of(federation, name, family, UNLIKE, counts=counts), TASK, 3).cohorts
    np.testing.assert_array_equal(np.bincount(cohorts.ravel(), minlength=N), counts)


# PFA --------------------------------------------------------------------------------------------------


@given(epsilon=st.lists(st.floats(0.01, 50.0), min_size=2, max_size=7))
def test_the_split_of_budgets_is_the_best_of_all(epsilon):
    """Of all 2^N ways to make two groups, none has less squares within; the public one is above."""
    level = np.log(epsilon)

    def within(upper):
        groups = [level[np.array(upper)], level[~np.array(upper)]]
        return sum(np.sum((group - group.mean()) ** 2) for group in groups if group.size)

    public = public_clients(epsilon)
    least = min(within(upper) for upper in product([True, False], repeat=len(epsilon)))
    assert within(public) <= least + 1e-9
    assert public.any()
    assert public.all() or level[public].min() > level[~public].max()


def test_equal_budgets_are_all_public():
    assert public_clients([2.0, 2.0, 2.0]).all()
    assert public_clients([0.3]).all()


@pytest.fixture(scope="module")
def combined(federation):
    """The combined uploads of a cohort under PFA."""
    algorithm = jax.tree.map(jnp.asarray, make(plan_of(federation, "pfa", epsilon=UNLIKE), TASK, 0))
    state = ServerState(jnp.zeros(FEATURES), jnp.zeros((), jnp.int32))
    return jax.jit(lambda cohort, uploads: algorithm.combine(state, cohort, uploads))


def test_a_projection_is_that_of_the_singular_vectors_of_the_public_uploads(combined):
    """All cohorts of three, those that lack a group included, against the p x |pub| matrix."""
    lacking = 0
    for cohort in map(np.array, combinations(range(N), 3)):
        uploads = np.random.default_rng(cohort).normal(size=(3, 12)).astype(np.float32)
        expected = projected(cohort, uploads.astype(float)) * UNLIKE[cohort].sum()
        np.testing.assert_allclose(combined(cohort, uploads), expected, rtol=1e-3, atol=1e-3)
        lacking += len(set(UNLIKE[cohort] > 1)) == 1
    assert lacking == 2


def test_public_uploads_of_zero_span_nothing_and_stay_finite(combined):
    uploads = np.array([[0.0] * 12, [1.0] * 12, [0.0] * 12], np.float32)
    np.testing.assert_array_equal(combined(np.array([1, 0, 5]), uploads), 0)


def test_a_network_of_many_parameters_is_no_trouble(combined):
    """ResNet-20 has 272,474: a p x p matrix of them would take 300 GB."""
    uploads = np.random.default_rng(0).normal(size=(6, 272_474)).astype(np.float32)
    expected = projected(np.arange(6), uploads) * UNLIKE.sum()
    np.testing.assert_allclose(combined(np.arange(6), uploads), expected, rtol=1e-2, atol=1e-2)


_directions = jax.jit(top_directions, static_argnums=1)


@given(seed=st.integers(0, 999), rank=st.integers(0, 5), count=st.integers(1, 3))
@settings(max_examples=25)
def test_directions_are_the_singular_vectors_of_any_rank(seed, rank, count):
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(5, rank)) @ np.diag(2.0 ** -np.arange(rank)) @ draw.normal(size=(rank, 20))
    found = np.asarray(_directions(rows.astype(np.float32), count))
    _, values, right = np.linalg.svd(rows)
    kept = min(rank, count)
    gap = values[kept - 1] / values[kept] if 0 < kept < 5 else np.inf
    np.testing.assert_allclose(
        np.sort(np.linalg.norm(found, axis=1)), [0] * (count - kept) + [1] * kept, atol=1e-2
    )
    if gap > 1.2:
        np.testing.assert_allclose(found.T @ found, right[:kept].T @ right[:kept], atol=1e-2)


@pytest.mark.parametrize("trainings", [2, 32])
def test_mapped_directions_give_lapack_one_matrix_at_a_time(trainings):
    """A batch would be shared out to the threads that run the program, which wait for it: a deadlock."""
    rows = jnp.ones((trainings, 5, 20))
    program = jax.jit(jax.vmap(partial(top_directions, count=1))).lower(rows).as_text()
    given_to_lapack = re.findall(r"custom_call @lapack_\w+\(.*?\).*: \(tensor<([\dx]+)xf32>", program)
    assert given_to_lapack == ["5x5"]
    one_by_one = [top_directions(matrix, 1) for matrix in rows]
    np.testing.assert_array_equal(jax.vmap(partial(top_directions, count=1))(rows), one_by_one)


SIDE_BY_SIDE = """
import threading
import numpy as np
from noiseworthy.methods.registry import make
from noiseworthy.data.federation import Federation
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.methods.rivals import planner as rivals
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import LinearModel

generator, task = np.random.default_rng(0), LinearModel(100, 3, "softmax", ridge=0.01)
clients = [(generator.normal(size=(200, 100)), generator.integers(0, 3, 200)) for _ in range(20)]
federation = Federation.from_clients(clients, test=clients[0], classes=3, name="alike")
budget = PrivacyBudget.of(np.tile([1.0, 4.0], 10), 1e-5, 20)
problem = Problem(federation.sizes, task.dimension, budget, "gaussian", 1.0)
plan = rivals.plan("pfa", problem, rounds=100, clients_per_round=20, step=StepSize(0.1, 20.0))
shards, made = Shards.load(federation, task), [make(plan, task, 0)] * 32

def train():
    for _ in range(10):
        simulate(made, plan.uploads, shards, np.array([100]), [0, 1] * 16)

threads = [threading.Thread(target=train) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.slow
def test_trainings_side_by_side_end():
    """Two threads train PFA 320 times each, in seconds where none waits for the other for ever."""
    subprocess.run([sys.executable, "-c", SIDE_BY_SIDE], check=True, timeout=300)


# PrivateFL: what a record can move, and what stays at a client ----------------------------------------


def private(federation, family="gaussian", **chosen):
    plan = plan_of(federation, "privatefl", family, **{"personal_step": 1.0, **chosen})
    return plan, jax.tree.map(jnp.asarray, make(plan, TASK, 0))


def released(algorithm, memory, theta, batch):
    """What leaves the gradient in one round without noise: the transform's part and the shared part."""
    return np.asarray(_released(silent(algorithm), memory, theta, batch), float)


@eqx.filter_jit
def _released(algorithm, memory, theta, batch):
    state = ServerState(theta, jnp.zeros((), jnp.int32))
    shared, kept = algorithm.local_update(state, jnp.int32(0), memory, batch, jax.random.key(0))
    return jnp.concatenate([memory - kept, shared])


@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.01, 1.0, 100.0]), family=st.sampled_from("gl"))
@settings(max_examples=60)
def test_a_replaced_record_moves_both_parts_together_by_at_most_the_sensitivity(
    federation, seed, scale, family
):
    family = {"g": "gaussian", "l": "laplace"}[family]
    plan, algorithm = private(federation, family)
    draw, n = np.random.default_rng(seed), int(federation.sizes[0])
    x, y = scale * draw.normal(size=(n, FEATURES)), scale * draw.normal(size=n)
    memory = jnp.asarray(draw.normal(size=FEATURES + 1), jnp.float32)
    theta = jnp.asarray(draw.normal(size=FEATURES), jnp.float32)
    other_x, other_y = x.copy(), y.copy()
    other_x[0], other_y[0] = scale * draw.normal(size=FEATURES), -y[0]
    ends = [
        released(algorithm, memory, theta, Batch(*(jnp.asarray(v, jnp.float32) for v in (*data, np.ones(n)))))
        for data in ((x, y), (other_x, other_y))
    ]
    moved = np.linalg.norm(ends[0] - ends[1], 1 if family == "laplace" else 2)
    assert moved <= plan.problem.sensitivity.value[0] * (1 + 1e-5)


def test_opposed_records_reach_the_sensitivity(federation):
    """Were the bound above loose, a clip of each part apart would pass it."""
    plan, algorithm = private(federation)
    n = int(federation.sizes[0])
    memory, theta = algorithm.personal.identity(), jnp.ones(FEATURES)
    still = np.zeros((n, FEATURES))
    ends = []
    for label in (-1e4, 1e4):
        x, y = still.copy(), np.zeros(n)
        x[0], y[0] = 1.0, label
        batch = Batch(*(jnp.asarray(v, jnp.float32) for v in (x, y, np.ones(n))))
        ends.append(released(algorithm, memory, theta, batch))
    assert np.linalg.norm(ends[0] - ends[1]) == pytest.approx(plan.problem.sensitivity.value[0], rel=1e-4)
    parts = np.split(ends[0] - ends[1], [FEATURES + 1])
    assert all(np.linalg.norm(part) < plan.problem.sensitivity.value[0] * 0.99 for part in parts)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_the_transform_has_noise_of_the_size_that_an_upload_has(federation, family):
    """5,000 moves of a client without records against the law; false alarms below 1e-6 each."""
    plan, algorithm = private(federation, family, personal_step=0.5)
    idle = Batch(jnp.zeros((3, FEATURES)), jnp.zeros(3), jnp.zeros(3))
    memory, key = algorithm.personal.identity(), jax.random.key(11)

    def one(t):
        state = ServerState(jnp.zeros(FEATURES), t)
        update, kept = algorithm.local_update(state, jnp.int32(2), memory, idle, key)
        noise = algorithm.privatize(
            state, update, jnp.int32(2), named_key(key, Purpose.NOISE, t, jnp.int32(2))
        )  # fmt: skip
        return (memory - kept) / 0.5, noise

    own, shared = map(np.asarray, jax.jit(jax.vmap(one))(jnp.arange(1000)))
    law = stats.norm if family == "gaussian" else stats.laplace
    assert stats.kstest(own.ravel(), law(scale=plan.noise[2]).cdf).pvalue > 1e-6
    assert stats.kstest(shared.ravel(), law(scale=plan.noise[2]).cdf).pvalue > 1e-6
    for column in own.T:
        assert all(stats.pearsonr(column, other).pvalue > 1e-6 / 20 for other in shared.T)


def test_clients_and_rounds_share_no_noise_of_transforms(federation):
    plan, algorithm = private(federation)
    idle = Batch(jnp.zeros((3, FEATURES)), jnp.zeros(3), jnp.zeros(3))
    memory, key = algorithm.personal.identity(), jax.random.key(11)

    def own(client, t):
        state = ServerState(jnp.zeros(FEATURES), t)
        return memory - algorithm.local_update(state, client, memory, idle, key)[1]

    clients, rounds = jnp.meshgrid(jnp.arange(N), jnp.arange(3))
    drawn = np.asarray(jax.jit(jax.vmap(own))(clients.ravel(), rounds.ravel()))
    drawn = drawn / plan.noise[clients.ravel()][:, None]
    assert pdist(drawn, "chebyshev").min() > 0.01


def test_a_transform_reaches_the_upload_through_the_gradient_alone(federation):
    """The shared part is the gradient at theta of records that somebody else has transformed."""
    _, algorithm = private(federation, clip=1e6)
    draw = np.random.default_rng(5)
    x, y = draw.normal(size=(6, FEATURES)), draw.normal(size=6)
    theta = jnp.asarray(draw.normal(size=FEATURES), jnp.float32)
    own = jnp.asarray(draw.normal(size=FEATURES + 1), jnp.float32)
    moved = np.asarray(own[0]) * x + np.asarray(own[1:])
    batch = Batch(*(jnp.asarray(v, jnp.float32) for v in (x, y, np.ones(6))))
    shared = released(algorithm, own, theta, batch)[FEATURES + 1 :]
    np.testing.assert_allclose(shared, (moved @ theta - y) @ moved / 6, rtol=1e-4)
    idle = batch._replace(mask=jnp.zeros(6))
    np.testing.assert_array_equal(released(algorithm, own, theta, idle), 0)


def test_transforms_stay_where_they_are_until_a_client_is_asked(federation, shards):
    plan, algorithm = private(federation, counts=[9, 9, 9, 0, 0, 0])
    ends = []
    simulate([algorithm], plan.uploads, shards, np.array([0, ROUNDS]), [7], on_segment=ends.append)
    own = ends[-1].memory[0][0]
    np.testing.assert_array_equal(own[3:], np.tile([1.0, *[0.0] * FEATURES], (3, 1)))
    assert np.all(np.any(own[:3] != own[3], axis=1))


def test_a_resumed_training_goes_on_with_its_transforms(federation, shards):
    plan, algorithm = private(federation, epsilon=UNLIKE)
    at, kept = np.array([0, 5, ROUNDS]), []
    whole = simulate([algorithm], plan.uploads, shards, at, [7], on_segment=kept.append)
    resumed = simulate([algorithm], plan.uploads, shards, at, [7], resume=kept[1])
    np.testing.assert_array_equal(resumed.theta, whole.theta)
    forgetful = kept[1]._replace(memory=tuple(0 * leaf + 3 for leaf in kept[1].memory))
    other = simulate([algorithm], plan.uploads, shards, at, [7], resume=forgetful)
    assert not np.allclose(other.theta, whole.theta)


def test_the_test_of_the_server_uses_records_as_they_are(federation, shards):
    plan, algorithm = private(federation)
    run = simulate([algorithm], plan.uploads, shards, np.array([0, ROUNDS]), [7])
    own = TASK.score(jnp.asarray(run.theta[0]), shards.test_x, shards.test_y)
    assert run.loss[0, -1] == pytest.approx(float(own.loss), rel=1e-6)


# What is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "family", "says"),
    [
        ("fedsgd", "gaussian", 'fedsgd needs mechanism = "none", got "gaussian"'),
        ("dpsgd", "laplace", 'dpsgd needs mechanism = "gaussian", got "laplace"'),
        ("dmldp", "gaussian", 'dmldp needs mechanism = "laplace", got "gaussian"'),
        ("dmldp", "none", 'got "none"; set it, or take one that has "none": fedsgd, weiavg'),
    ],
)
def test_noise_that_an_algorithm_does_not_have_is_refused_by_name(federation, name, family, says):
    plan = replace(plan_of(federation, "weiavg", family), algorithm=name)
    with pytest.raises(InvalidInput, match=says):
        make(plan, TASK, 0)


@pytest.mark.parametrize("name", rivals.RIVALS)
def test_poisson_batches_and_plans_that_do_not_train_are_refused(federation, name):
    family = {"fedsgd": "none", "dmldp": "laplace"}.get(name, "gaussian")
    plan = plan_of(federation, name, family)
    with pytest.raises(InvalidInput, match=r"full batches, got sampling_rate = 0.5; set sampling_rate = 1"):
        make(replace(plan, problem=replace(plan.problem, sampling_rate=0.5)), TASK, 0)
    with pytest.raises(InvalidInput, match="does not train"):
        make(replace(plan, rounds=0), TASK, 0)


def test_records_without_a_transform_are_refused(federation):
    plan = plan_of(federation, "privatefl")

    class Other:
        dimension = FEATURES

    with pytest.raises(InvalidInput, match="LinearModel or a ModelTask, got Other"):
        make(plan, Other(), 0)
