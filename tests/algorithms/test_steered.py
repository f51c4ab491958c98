"""Steering: the scale of the model follows the slope that noised uploads tell, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.data import Federation
from noiseworthy.engines.debug import debug
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.algorithm import start_of
from noiseworthy.methods.dp_fedavg import planner as local_iterations
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.methods.fedsgd_dpc.algorithm import make as plain
from noiseworthy.methods.registry import make
from noiseworthy.methods.steered import MOST_SCALE, SMOOTHING, Steered, steered
from noiseworthy.plans.plan import Plan, Steering, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.studies.plan_codec import decoded, encoded
from noiseworthy.tasks import LinearModel

CLIENTS, FEATURES, ROUNDS = 5, 6, 12
SIZES = np.array([40, 60, 30, 50, 20])
TASK = LinearModel(FEATURES, 1, "logistic", ridge=0.01, feature_norm=1.0, normalise=True, bias=0.3)
STEERING = Steering(gain=0.2, floor=0.07)
CLOSING = replace(STEERING, closing=0.4)


def problem_of(family: str = "gaussian", epsilon: float = 4.0) -> Problem:
    delta = 0.0 if family == "laplace" else 1e-5
    budget = PrivacyBudget.of(epsilon, delta, CLIENTS)
    return Problem(SIZES, TASK.dimension, budget, family, 0.4)


def plan_of(step: float = 2.0, steering: Steering | None = STEERING, **problem) -> Plan:
    made = queries_replies.stated(problem_of(**problem), ROUNDS, 3, StepSize(step, 6.0))
    return replace(made, momentum=0.3, steering=steering)


@pytest.fixture(scope="module")
def shards() -> Shards:
    rng = np.random.default_rng(3)
    truth = rng.normal(size=FEATURES)

    def client(n):
        x = rng.normal(size=(n, FEATURES)).astype(np.float32)
        return x, (x @ truth + rng.normal(size=n) > 0).astype(np.int32)

    federation = Federation.from_clients([client(n) for n in SIZES], test=client(500), classes=2, name="toy")
    return Shards.load(federation, TASK)


def trained(algorithm, plan: Plan, shards: Shards, seed: int = 0):
    return simulate([algorithm], plan.uploads, shards, np.array([ROUNDS]), [seed], single_uploads=True)


def test_with_no_gain_it_is_the_training_without_steering(shards):
    plan = plan_of(steering=None)
    one, other = plain(plan, TASK, 0), steered(plain(plan, TASK, 0), plan)
    np.testing.assert_allclose(
        trained(one, plan, shards).theta, trained(other, plan, shards).theta, rtol=1e-5, atol=1e-6
    )
    assert not isinstance(make(plan, TASK, 0), Steered)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_the_rounds_are_those_of_the_formulas(family):
    """NumPy beside it: R, V, u and f of the docstring, and the last scale, on made-up aggregates."""
    plan = plan_of(steering=CLOSING, family=family)
    algorithm = make(plan, TASK, 7)
    assert isinstance(algorithm, Steered)
    inner = algorithm.algorithm
    size = np.sqrt(2.0) if family == "laplace" else 1.0
    totals = np.random.default_rng(0).normal(0, 0.5, (ROUNDS, TASK.dimension)).astype(np.float32)
    state = algorithm.init(start_of(algorithm.task, jax.random.key(0)))
    theta, velocity = np.zeros(TASK.dimension), np.zeros(TASK.dimension)
    slope, variance, scale, late = 0.0, 0.0, 1.0, []

    def away(slope, variance):
        telling = np.sign(slope) * max(abs(slope) - 0.6 * CLOSING.floor, 0.0)
        return np.clip(telling / np.sqrt(variance + CLOSING.floor**2), -2, 2)

    for t, total in enumerate(totals.astype(float)):
        cohort = inner.cohorts[t]
        noise = sum((inner.weights[i] * size * inner.noise[i]) ** 2 for i in cohort)
        slope = SMOOTHING * slope + (1 - SMOOTHING) * total @ theta
        variance = SMOOTHING**2 * variance + (1 - SMOOTHING) ** 2 * noise * theta @ theta
        factor = np.exp(-4 * CLOSING.gain * (t / ROUNDS) * (1 - t / ROUNDS) * away(slope, variance))
        late += [(total @ theta, noise * theta @ theta)] * (3 * t >= ROUNDS)
        if t == ROUNDS - 1:
            said, doubt = np.mean(late, axis=0)
            closing = np.exp(-CLOSING.closing * away(said, doubt / len(late)))
            factor *= closing
        scale *= factor
        velocity = 0.3 * velocity + total + 0.01 * theta
        theta = factor * theta - scale * inner.steps[t] * velocity
        state = algorithm.aggregate(state, jnp.asarray(totals[t]))
        np.testing.assert_allclose(state.theta, theta, rtol=2e-4, atol=1e-5)
        np.testing.assert_allclose(state.memory.scale, scale, rtol=1e-4)
    assert min(abs(scale - 1), abs(closing - 1)) > 0.05


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_no_training_goes_further_than_four_times_its_planned_steps_or_less_than_a_quarter(sign):
    """Slopes that say the same in every round, at the largest gain; without the bound they go to exp(+-8)."""
    algorithm = make(plan_of(steering=Steering(0.99, 1e-3)), TASK, 7)
    state, scales = algorithm.init(start_of(algorithm.task, jax.random.key(0))), []
    direction = jnp.ones(TASK.dimension)
    for _ in range(ROUNDS):
        total = sign * direction * jnp.sign(jnp.sum(direction * state.theta)) if scales else direction
        state = algorithm.aggregate(state, total)
        scales.append(float(state.memory.scale))
    assert (min if sign > 0 else max)(scales) == pytest.approx(MOST_SCALE**-sign, rel=1e-6)


def test_the_slope_that_uploads_tell_is_the_derivative_along_the_model(shards):
    """Without clipping, mean over 4,000 draws of <a, theta> beside a difference quotient of the loss.

    Two-sided at five standard errors: a false alarm in fewer than one of a million.
    """
    plan = replace(plan_of(), momentum=0.0)
    plan = replace(plan, problem=replace(plan.problem, clip_norm=5.0))
    algorithm = plain(plan, TASK, 0)
    theta = jnp.asarray(np.random.default_rng(1).normal(size=TASK.dimension), jnp.float32)
    state = algorithm.init(start_of(algorithm.task, jax.random.key(0)))._replace(theta=theta)
    everyone = jnp.arange(CLIENTS)
    sums = [
        algorithm.local_update(state, i, (), jax.tree.map(lambda leaf, i=i: leaf[i], shards.train), None)[0]
        for i in range(CLIENTS)
    ]
    clean = sum(plan.problem.weights[i] * one for i, one in enumerate(sums))
    keys = jax.random.split(jax.random.key(5), 4000)
    noise = jax.vmap(lambda key: algorithm.aggregate_noise(state, everyone, key))(keys)
    told = np.asarray((clean + noise) @ theta, float)

    def loss(scale: float) -> float:
        each = [
            float(np.mean(np.asarray(TASK.losses(scale * theta, shard), float)[np.asarray(shard.mask) > 0]))
            for shard in (jax.tree.map(lambda leaf, i=i: leaf[i], shards.train) for i in range(CLIENTS))
        ]
        return float(plan.problem.weights @ each)

    slope = (loss(1.01) - loss(0.99)) / 0.02
    assert abs(told.mean() - slope) < 5 * told.std() / np.sqrt(len(told)) + 1e-3
    deviation = np.sqrt(np.sum(np.square(algorithm.weights * algorithm.noise)) * float(theta @ theta))
    assert told.std() == pytest.approx(deviation, rel=0.05)  # 4 standard errors of a deviation


@pytest.mark.parametrize("step", [4.0, 1000.0])
def test_steps_that_are_far_too_small_or_large_are_mended(step, shards):
    """Mean of 20 noise seeds: an eighth of a good step and thirty times it end nearer to it."""
    seeds = list(range(20))

    def loss(steering: Steering | None) -> float:
        plan = plan_of(step, steering, epsilon=6.0)
        made = [make(plan, TASK, seed) for seed in seeds]
        return float(simulate(made, plan.uploads, shards, np.array([ROUNDS]), seeds).final_loss.mean())

    plan = plan_of(30.0, None, epsilon=6.0)
    made = [make(plan, TASK, seed) for seed in seeds]
    good = float(simulate(made, plan.uploads, shards, np.array([ROUNDS]), seeds).final_loss.mean())
    assert loss(STEERING) - good < 0.7 * (loss(None) - good)


@pytest.mark.parametrize("rounds", [1, 2, 3, 7])
def test_a_closing_alone_scales_the_last_model_and_no_other(rounds):
    """Also of one round, which tells nothing, because no model had moved; by exp(-q u), here u = 2."""
    plan = replace(plan_of(steering=Steering(0.0, 1e-3, 0.5)), rounds=rounds, momentum=0.0)
    algorithm, other = (replace(make(plan, TASK, 7), closing=q) for q in (0.5, 0.0))
    start = start_of(TASK, jax.random.key(0))
    state, plain = algorithm.init(start), other.init(start)
    for t in range(rounds):
        np.testing.assert_array_equal(state.theta, plain.theta)
        total = 100.0 * jnp.where(t > 0, state.theta, 1.0)  # that the model should be much smaller
        state, plain = algorithm.aggregate(state, total), other.aggregate(plain, total)
    closing = 1.0 if rounds == 1 else np.exp(-0.5 * 2)
    assert np.all(np.isfinite(plain.theta))
    np.testing.assert_allclose(state.theta, closing * plain.theta, rtol=1e-5)


def test_a_model_that_has_gone_too_far_is_closed_nearer(shards):
    """Mean of 20 noise seeds at thirty times a good step, without any steering on the way."""
    seeds = list(range(20))

    def loss(closing: float) -> float:
        plan = plan_of(1000.0, Steering(0.0, 0.07, closing), epsilon=6.0)
        made = [make(plan, TASK, seed) for seed in seeds]
        return float(simulate(made, plan.uploads, shards, np.array([ROUNDS]), seeds).final_loss.mean())

    assert loss(0.5) < 0.8 * loss(0.0)


def test_the_debug_engine_steers_alike(shards):
    plan = plan_of(steering=CLOSING)
    run = trained(make(plan, TASK, 4), plan, shards, seed=4)
    slow = debug(make(plan, TASK, 4), plan.uploads, shards, np.array([ROUNDS]), 4)
    np.testing.assert_allclose(run.theta[0], slow.theta[0], rtol=1e-3, atol=1e-4)


def test_it_scales_with_the_noise_of_its_algorithm():
    one = make(plan_of(), TASK, 0)
    half = one.with_noise(0.5)
    assert isinstance(one, Steered)
    assert isinstance(half, Steered)
    np.testing.assert_allclose(half.variances, 0.25 * one.variances, rtol=1e-6)
    np.testing.assert_allclose(half.algorithm.noise, 0.5 * one.algorithm.noise, rtol=1e-6)
    assert not np.any(one.noiseless().variances)


def test_it_is_part_of_a_plan_and_of_its_file():
    plan = plan_of(steering=CLOSING)
    assert decoded(json.loads(json.dumps(encoded(plan))), Plan).steering == CLOSING
    assert plan.as_dict()["steering"] == {"gain": 0.2, "floor": 0.07, "closing": 0.4}
    assert "steering" not in plan_of(steering=None).as_dict()


def test_files_of_plans_without_a_closing_are_as_they_were():
    assert encoded(STEERING) == {"kind": "Steering", "gain": 0.2, "floor": 0.07}


@pytest.mark.parametrize(
    ("gain", "floor", "closing"),
    [(-0.1, 1.0, 0), (1.0, 1.0, 0), (np.nan, 1.0, 0), (0.2, 0.0, 0), (0.2, np.inf, 0), (0.2, 1.0, -0.1),
     (0.2, 1.0, np.nan), (0.2, 1.0, np.inf)],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(gain, floor, closing):
    with pytest.raises(InvalidInput, match="steering"):
        Steering(gain, floor, closing)


def test_replies_that_are_no_gradients_are_refused():
    budget = PrivacyBudget.of(4.0, 1e-5, CLIENTS)
    problem = Problem(SIZES, TASK.dimension, budget, "gaussian", 1.0)
    plan = replace(local_iterations.stated(problem, 6, 1, 2, StepSize(0.1)), steering=STEERING)
    with pytest.raises(InvalidInput, match="dp-fedavg cannot be steered"):
        make(plan, TASK, 0)
