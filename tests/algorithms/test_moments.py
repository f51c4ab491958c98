"""One upload: what a record may change, what is solved, and that owners send what the simulation sends."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.data import Federation
from noiseworthy.engines.debug import debug
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.methods.algorithm import start_of
from noiseworthy.methods.axes import Beside
from noiseworthy.methods.moments import algorithm, method
from noiseworthy.methods.moments.scale import RecordScale, stated
from noiseworthy.methods.moments.table import MomentsTable
from noiseworthy.methods.moments.wire import asked_of_outputs, moment_rows, rows_of
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.sensitivity import of_moments
from noiseworthy.tasks import LinearModel
from noiseworthy.tasks.batch import Batch

NORMS = [("gaussian", "l2"), ("laplace", "l1")]
KINDS = [("squared", 1), ("logistic", 1), ("softmax", 3), ("hinge", 1)]


def plan_of(task, family: Any = "gaussian", clip=1.0, sizes=(40, 25, 60), **keys: Any):
    n = len(sizes)
    budget = PrivacyBudget.of(keys.pop("epsilon", 2.0), 0.0 if family == "laplace" else 1e-5, n)
    problem = Problem(np.array(sizes), task.dimension, budget, family, clip)
    scale = RecordScale.of(task, problem.norm, 1.0)
    step = StepSize(keys.pop("length", 1.0), np.inf)
    return stated(
        problem, task, scale, step, keys.pop("shrinkage", 1.0), keys.pop("label_weight", 0.7), **keys
    )


def records(task, count, generator):
    x = generator.normal(size=(count, task.features)).astype(np.float32)
    if task.loss == "squared":
        return task.prepare(jnp.asarray(x)), x @ np.arange(1.0, 1 + task.features) * 0.2
    return task.prepare(jnp.asarray(x)), generator.integers(0, max(2, task.outputs), count)


# Sensitivity ------------------------------------------------------------------------------------------


def upper(q, norm):
    """u(q) written out, without any of the product's code."""
    rows, columns = np.triu_indices(len(q))
    scale = np.where(rows == columns, 1.0, np.sqrt(2.0) if norm == "l2" else 1.0)
    return scale * q[rows] * q[columns]


@pytest.mark.parametrize(("family", "norm"), NORMS)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_no_pair_of_records_is_further_apart_than_the_sensitivity_and_some_are_as_far(family, norm, relation):
    """Random and adversarial pairs in few dimensions, with and without the block of the label."""
    generator, order = np.random.default_rng(0), 1 if norm == "l1" else 2
    most, largest = float(of_moments(1.0, [1], norm, relation).value[0]), 0.0
    for width in (2, 3, 5):
        basis = np.eye(width)
        pairs = [*generator.normal(size=(2000, 2, width)), *generator.laplace(size=(500, 2, width)) ** 3]
        pairs += [np.array([basis[0], basis[i]]) for i in range(width)]
        pairs += [np.array([basis[0] + basis[1], basis[0] - basis[1]]), np.array([basis[0], -basis[0]])]
        for q, t in pairs:
            one, other = upper(q, norm), upper(t, norm)
            one, other = one / np.linalg.norm(one, order), other / np.linalg.norm(other, order)
            other = other if relation == "replace-one" else 0 * other
            apart = np.linalg.norm(one - other, order)
            assert apart <= most * (1 + 1e-12)
            assert np.linalg.norm((one - other)[:-1], order) <= apart * (1 + 1e-12), "a part is no further"
            largest = max(largest, apart)
    assert largest == pytest.approx(most)


@pytest.mark.parametrize(("family", "norm"), NORMS)
@pytest.mark.parametrize(("loss", "outputs"), KINDS)
def test_records_of_any_size_make_rows_within_the_clip_that_are_apart_as_proved(family, norm, loss, outputs):
    task, generator = LinearModel(3, outputs, loss, bias=0.4), np.random.default_rng(1)
    x = np.concatenate([generator.normal(size=(60, 4)) * s for s in (1e-3, 1, 1e3)] + [np.eye(4), -np.eye(4)])
    y = np.arange(len(x)) % max(2, outputs)
    y = y if loss != "squared" else generator.normal(size=len(x)) * 10.0 ** generator.integers(-2, 4, len(x))
    batch = Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones(len(x)))
    r = np.asarray(asked_of_outputs(task, jnp.zeros((len(x), outputs)), batch))
    x = np.concatenate([x, [[np.nan] * 4, [np.inf, 0, 0, 0], [1e200] * 4]])
    rows = moment_rows(x, np.concatenate([r, r[:3]]), 0.8, norm, loss == "squared", 2.0)
    order = 1 if norm == "l1" else 2
    apart = np.linalg.norm(rows[:, None] - rows[None], order, axis=2)
    assert np.linalg.norm(rows, order, axis=1).max() <= 2.0
    assert apart.max() <= float(of_moments(2.0, [1], norm).value[0])
    assert apart.max() >= 0.9 * float(of_moments(2.0, [1], norm).value[0]) or loss != "squared"
    assert np.all(rows[-3:] == 0)


@pytest.mark.parametrize(("family", "norm"), NORMS)
@pytest.mark.parametrize(("loss", "outputs"), KINDS)
def test_a_client_sends_the_mean_of_the_rows_of_its_records(family, norm, loss, outputs):
    """In simulation by two matrix products, at an owner row by row; wherever the model starts."""
    task = LinearModel(4, outputs, loss, bias=0.4, feature_norm=1.0)
    x, y = records(task, 40, np.random.default_rng(2))
    plan = plan_of(task, family, clip=0.8)
    made, batch = make(plan, task, 0), Batch(x, jnp.asarray(y), jnp.ones(40))
    theta = np.random.default_rng(3).normal(size=task.dimension).astype(np.float32)
    state = made.init(jnp.asarray(theta))
    sent, _ = made.local_update(state, jnp.int32(0), (), batch, jax.random.key(1))
    rows = rows_of(task, theta, batch, 0.7, 0.8, norm)
    assert len(sent) == plan.numbers == rows.shape[1]
    np.testing.assert_allclose(sent, rows.mean(axis=0), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("loss", "outputs"), KINDS)
def test_a_row_at_an_owner_is_that_of_its_record_alone_to_the_last_bit(loss, outputs):
    """Else a neighbour would change every row by its rounding, and nothing clips that."""
    task = LinearModel(30, outputs, loss, bias=0.4, feature_norm=1.0)
    x, y = records(task, 70, np.random.default_rng(2))
    theta = np.random.default_rng(3).normal(size=task.dimension).astype(np.float32)

    def of(part: slice):
        batch = Batch(x[part], jnp.asarray(y[part]), jnp.ones(len(x[part])))
        return rows_of(task, theta, batch, 0.7, 0.8, "l2")

    together = of(slice(None))
    for i in (0, 1, 37, 69):
        np.testing.assert_array_equal(of(slice(i, i + 1))[0], together[i])
    np.testing.assert_array_equal(of(slice(0, 33)), together[:33])


@pytest.mark.parametrize(("loss", "outputs"), KINDS[1:])
def test_what_classes_ask_of_the_outputs_is_no_larger_at_a_start_than_at_zero(loss, outputs):
    """A class of one in a hundred would be twice as large at its share, and the clip would cut it alone."""
    task = LinearModel(4, outputs, loss, bias=0.4, feature_norm=1.0)
    x, y = records(task, 40, np.random.default_rng(2))
    batch, starts = Batch(x, jnp.asarray(y), jnp.ones(40)), np.zeros((2, task.dimension), np.float32)
    starts[1, -outputs:] = -4.6
    zero, seen = (rows_of(task, start, batch, 0.7, 0.8, "l2") for start in starts)
    np.testing.assert_array_equal(zero, seen)


# Solution ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [(), (30.0,)])
def test_without_noise_a_regression_is_least_squares_of_all_records_together(start):
    task = LinearModel(3, 1, "squared", bias=0.5, feature_norm=1.0, start=start)
    generator = np.random.default_rng(3)
    x, y = records(task, 125, generator)
    y = y + generator.normal(size=125) * 0.1 + 2
    parts = [(0, 40), (40, 65), (65, 125)]
    made = make(plan_of(task, clip=1000.0), task, 0).noiseless()
    state = made.init(start_of(made.task, jax.random.key(0)))
    sent = [
        made.local_update(
            state, jnp.int32(i), (), Batch(x[a:b], jnp.asarray(y[a:b]), jnp.ones(b - a)), jax.random.key(1)
        )[0]
        for i, (a, b) in enumerate(parts)
    ]
    total = made.combine(state, jnp.arange(3), jnp.stack(sent))
    theta = made.model(made.aggregate(state, total))
    expected = np.linalg.lstsq(np.asarray(x, float), y, rcond=None)[0]
    np.testing.assert_allclose(theta, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("radius", [1.0, 10.0])
def test_a_stated_label_weight_says_how_much_a_clip_scales_whatever_the_norm_of_records(radius):
    """Labels of 3 at c = R/3 make every record twice R^2, of which a clip at R^2 leaves a half."""
    generator = np.random.default_rng(6)
    task = LinearModel(3, 1, "squared", bias=radius / 2, feature_norm=radius)
    raw = generator.normal(1, 1, (2000, 3))
    x = raw * (0.86 * radius / np.linalg.norm(raw, axis=1, keepdims=True))
    y = x @ [0.2, -0.4, 0.1] / radius + 3 + generator.normal(0, 0.05, 2000)
    budget = PrivacyBudget.of(1.0, 1e-5, 1)
    question: Any = SimpleNamespace(
        clip_norm=radius**2, assumed={}, source=None, model=lambda: task,
        problem=lambda clip: Problem(np.array([2000]), 4, budget, "none", clip),
    )  # fmt: skip
    table = MomentsTable(name="moments", shrinkage=1e-6, step_size=1.0, label_weight=radius / 3)
    made = make(method.answer(question, table).plan, task, 0)
    prepared = task.prepare(jnp.asarray(x, jnp.float32))
    shard = Batch(prepared, jnp.asarray(y, jnp.float32), jnp.ones(2000))
    state = made.init(start_of(task, jax.random.key(0)))
    sent, _ = made.local_update(state, jnp.int32(0), (), shard, jax.random.key(1))
    left = y - np.asarray(prepared, float) @ np.asarray(made.model(made.aggregate(state, sent)))
    assert left.std() < 0.06


def test_classes_keep_their_shares_and_are_told_apart():
    """Two clouds, one three times as large: the mean answer is their share."""
    generator, task = np.random.default_rng(4), LinearModel(4, 2, "softmax", bias=0.5, feature_norm=1.0)
    y = (np.arange(400) % 4 == 0).astype(int)
    x = task.prepare(jnp.asarray(generator.normal(size=(400, 4)) + 1.5 * y[:, None] - 1, jnp.float32))
    made = make(plan_of(task, clip=50.0, sizes=(400,), length=1.0), task, 0).noiseless()
    state = made.init(start_of(made.task, jax.random.key(0)))
    sent, _ = made.local_update(
        state, jnp.int32(0), (), Batch(x, jnp.asarray(y), jnp.ones(400)), jax.random.key(1)
    )
    theta = made.model(made.aggregate(state, sent))
    share = jax.nn.softmax(x @ theta.reshape(5, 2))[:, 1].mean()
    assert float(share) == pytest.approx(0.25, abs=0.05)
    assert float(task.score(theta, x, jnp.asarray(y)).accuracy) > 0.9


def test_the_noise_of_a_regression_is_that_of_what_its_start_leaves_of_the_labels():
    """Labels of 50 give or take 1: seen from 50 a fiftieth of the noise, with the label weight of either."""
    generator, errors = np.random.default_rng(7), []
    for start, size in (((), 50.0), ((50.0,), 1.0)):
        task = LinearModel(3, 1, "squared", bias=0.5, feature_norm=1.0, start=start)
        x, y = records(task, 125, generator)
        y = y + 50
        problem = plan_of(task).problem
        scale = RecordScale.of(task, "l2", size)
        weight = scale.label_weight
        problem = replace(problem, clip_norm=1.5 * scale.clip(weight))
        plan = stated(problem, task, scale, StepSize(1.0, np.inf), 0.3, weight)
        clients = [(x[a:b, :3], y[a:b].astype(np.float32)) for a, b in ((0, 40), (40, 65), (65, 125))]
        federation = Federation.from_clients(clients, test=(x[:, :3], y), classes=None, name="made")
        shards = Shards.load(federation, task)
        found = simulate([make(plan, task, 0)] * 20, plan.uploads, shards, np.array([1]), range(20))
        errors.append(np.median(np.asarray(found.loss)[:, -1]))
    assert errors[1] < errors[0] / 100, errors


@pytest.mark.parametrize("asked", [0.5, 1.0, 7.0])
def test_what_a_label_weight_beside_the_best_costs(asked):
    """In noise of a solution whose outputs are as large as what is asked."""
    scale = RecordScale("l2", 6, 2.0, 3.0, asked, asked)

    def noise(c):
        return scale.clip(c) * np.sqrt((asked / scale.radius) ** 2 + 1 / c**2)

    best = scale.label_weight
    costs = {step: noise(step * best) / noise(best) - 1 for step in (0.5, 2**-0.5, 2**0.5, 2.0)}
    assert min(noise(best * step) for step in np.geomspace(0.1, 10, 201)) >= noise(best) * (1 - 1e-12)
    assert 0.07 < costs[2**-0.5] < costs[2**0.5] < 0.09
    assert 0.29 < costs[0.5] < costs[2.0] < 0.42


def test_a_ridge_grows_with_the_noise_and_weights_follow_precision():
    task = LinearModel(3, 1, "squared", feature_norm=1.0)
    plan = plan_of(task, epsilon=[0.2, 2.0, 2.0], sizes=(40, 40, 40), weighting=1.0)
    assert plan.weights[0] < 0.02
    made = algorithm.make(plan, task, 0)
    norm = float(made.noise_norm())
    draws = np.random.default_rng(0).normal(size=(400, 3, 3)) / np.sqrt(2)
    size = np.sqrt(np.sum((plan.weights * plan.noise) ** 2))
    spectral = np.linalg.norm(size * (draws + draws.swapaxes(1, 2)) / np.sqrt(2), 2, axis=(1, 2)).mean()
    assert 0.6 * norm < spectral < norm  # from below, for matrices as small as this
    assert float(made.with_noise(2.0).noise_norm()) == pytest.approx(2 * norm)


# Engines ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_the_debug_engine_trains_the_same(family):
    generator, task = np.random.default_rng(5), LinearModel(4, 1, "logistic", bias=0.5, feature_norm=1.0)
    x = generator.normal(size=(90, 4)).astype(np.float32)
    clients = [(x[i::3], (x[i::3, 0] > 0).astype(int)) for i in range(3)]
    federation = Federation.from_clients(clients, test=clients[0], classes=2, name="made")
    shards = Shards.load(federation, task)
    plan = plan_of(task, family, sizes=tuple(federation.sizes), epsilon=20.0, length=2.0)
    made, at = make(plan, task, 0), np.array([0, 1])
    fast = simulate([made], plan.uploads, shards, at, [7], single_uploads=True)
    slow = debug(made, plan.uploads, shards, at, 7)
    np.testing.assert_allclose(fast.theta, slow.theta, rtol=2e-3, atol=1e-4)


# What is refused --------------------------------------------------------------------------------------


def test_what_moments_do_not_solve_is_refused_by_name():
    weighted = LinearModel(3, 2, "softmax", feature_norm=1.0, class_weights=(1.0, 2.0))
    of_records = LinearModel(3, 2, "softmax", feature_norm=1.0, most_weight=2.0)
    for one in (weighted, of_records):
        with pytest.raises(InvalidInput, match="moments knows nothing of weights of classes and records"):
            RecordScale.of(one, "l2", None)
    with pytest.raises(InvalidInput, match="feature_norm"):
        RecordScale.of(LinearModel(3, 2, "softmax"), "l2", None)
    with pytest.raises(InvalidInput, match="at most 1000, got 1001"):
        RecordScale.of(LinearModel(1001, 2, "softmax", feature_norm=1.0), "l2", None)
    with pytest.raises(InvalidInput, match="label_weight"):
        RecordScale.of(LinearModel(3, 1, "squared", feature_norm=1.0), "l2", None)
    task = LinearModel(3, 1, "squared", feature_norm=1.0)
    plan = plan_of(task)
    with pytest.raises(InvalidInput, match="no second moments"):
        make(replace(plan, moments=None), task, 0)
    with pytest.raises(UnsoundClaim, match="Poisson"):
        replace(plan.problem, sampling_rate=0.5)


def test_the_setting_beside_a_plan_is_one_whole_step_with_a_ridge_as_large_as_the_noise():
    task = LinearModel(3, 1, "squared", feature_norm=1.0)
    plan = plan_of(task, shrinkage=0.2, length=0.5)
    wanted = {"rounds": None, "clients_per_round": None}
    beside = Beside(plan, plan.problem, StepSize(0.5), wanted, 100, "A")
    (cell,) = method.cells(beside)
    assert cell.moments is not None
    assert (cell.moments.shrinkage, method.AXES.place(cell)) == (1.0, (1, 3))
    np.testing.assert_array_equal(cell.noise, plan.noise)
    assert method.cells(replace(beside, wanted={**wanted, "rounds": [50]})) == []
