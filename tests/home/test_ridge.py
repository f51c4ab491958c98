"""A linear model drawn towards another: the minimum it claims, the strength by records that were left out."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.home.base import FOLDS, Own, folds_of
from noiseworthy.home.candidates import own_model, tuned_model
from noiseworthy.home.ridge import Effort, strengths_of, towards, towards_each
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.linear import LinearModel

TASKS = {
    "softmax": LinearModel(4, 3, "softmax", bias=0.3),
    "logistic": LinearModel(4, 1, "logistic", bias=0.3, class_weights=(1.0, 3.0)),
    "hinge": LinearModel(4, 1, "hinge"),
    "squared": LinearModel(4, 1, "squared", bias=1.0),
}


def records(task: LinearModel, n: int, seed: int = 0) -> Own:
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(9).normal(size=(4 + (task.bias > 0), task.outputs))
    x = np.asarray(task.prepare(jnp.asarray(rng.normal(size=(n, 4)), jnp.float32)))
    z = x @ weights + 0.7 * rng.normal(size=(n, task.outputs))
    if task.loss == "softmax":
        return Own(x, z.argmax(axis=1).astype(np.int32))
    return Own(x, (z[:, 0] > 0).astype(np.int32) if task.loss != "squared" else z[:, 0].astype(np.float32))


def slope(task: LinearModel, theta: np.ndarray, own: Own) -> np.ndarray:
    batch = Batch(jnp.asarray(own.x), jnp.asarray(own.y), jnp.ones(len(own.x)))
    return np.asarray(task.gradient(jnp.asarray(theta), batch))


@pytest.mark.full
@pytest.mark.parametrize("loss", TASKS)
def test_the_model_is_the_minimum_of_the_loss_with_a_ridge_towards_the_shared_one(loss):
    """There the gradient of the loss points back at the centre, as long as strength times distance."""
    task = TASKS[loss]
    own = records(task, 60)
    shared = np.random.default_rng(5).normal(size=task.dimension).astype(np.float32)
    theta = towards(task, shared, (1.0,), own, 0)
    back, gradient = shared - theta, slope(task, theta, own)
    assert np.linalg.norm(back) > 0.1
    weight = np.vdot(back, gradient) / np.vdot(back, back)
    np.testing.assert_allclose(
        gradient, weight * back, atol=0.02 * float(np.linalg.norm(slope(task, shared, own)))
    )
    scale = np.mean(np.sum(own.x**2, axis=1))
    assert np.min(np.abs(np.log10(weight / (strengths_of(60) * scale)))) < 0.05


@pytest.mark.full
@pytest.mark.parametrize("loss", TASKS)
def test_several_shared_models_are_tuned_side_by_side_as_each_is_by_itself(loss):
    task, shares = TASKS[loss], (1.0, 0.5, 0.0)
    own, rng = records(task, 25), np.random.default_rng(1)
    fits = own_model(task, np.zeros(1), records(task, 800, seed=3), 0)
    shared = np.stack([fits, *rng.normal(size=(2, task.dimension)), -3 * fits]).astype(np.float32)
    together = towards_each(task, shared, shares, own, 4)
    for model, centre in zip(together, shared, strict=True):
        np.testing.assert_allclose(model, towards(task, centre, shares, own, 4), rtol=1e-3, atol=1e-3)
    quick = towards_each(task, shared, shares, own, 4, Effort(6, 6))
    assert np.linalg.norm(quick - together) < 0.5 * np.linalg.norm(shared - together)


def test_the_strength_is_that_of_the_least_loss_on_records_left_out():
    """Against a search in closed form, fold by fold."""
    task = TASKS["squared"]
    own = records(task, 40)
    shared = np.random.default_rng(2).normal(size=task.dimension)
    x, y, folds = own.x.astype(float), own.y.astype(float), folds_of(own.y, 3)
    scale = np.mean(np.sum(x**2, axis=1))

    def solved(rows, strength):
        gram = x[rows].T @ x[rows] / rows.sum() + strength * scale * np.eye(x.shape[1])
        return shared + np.linalg.solve(gram, x[rows].T @ (y[rows] - x[rows] @ shared) / rows.sum())

    def missed(strength):
        return sum(np.sum((y - x @ solved(folds != f, strength))[folds == f] ** 2) for f in range(FOLDS))

    best = min(strengths_of(40), key=missed)
    found = towards(task, shared.astype(np.float32), (1.0,), own, 3)
    np.testing.assert_allclose(found, solved(np.ones(40, bool), best), rtol=2e-3, atol=2e-3)


@pytest.mark.full
def test_a_shared_model_that_fits_helps_owners_of_few_records_and_a_wrong_one_hurts_nobody():
    task = TASKS["logistic"]
    many, later = records(task, 2000), records(task, 4000, seed=1)
    fits = own_model(task, np.zeros(1), many, 0)

    def loss(theta):
        return float(task.score(jnp.asarray(theta), jnp.asarray(later.x), jnp.asarray(later.y)).loss)

    few = [records(task, 8, seed) for seed in range(2, 10)]
    tuned = np.mean([loss(tuned_model(task, fits, own, 0)) for own in few])
    alone = np.mean([loss(own_model(task, fits, own, 0)) for own in few])
    assert loss(fits) < tuned < 0.8 * alone
    wrong = tuned_model(task, -30 * fits, many, 0)
    assert loss(wrong) < 1.02 * loss(fits)


@pytest.mark.full
@pytest.mark.parametrize("loss", TASKS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_owners_with_fewer_records_than_features_have_models(loss, n):
    task = TASKS[loss]
    own = records(task, n)
    shared = np.ones(task.dimension, np.float32)
    for model in (own_model(task, shared, own, 0), tuned_model(task, shared, own, 0)):
        assert model.shape == (task.dimension,)
        assert np.all(np.isfinite(model))


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_an_owner_of_one_class_answers_that_class_alone(loss):
    task = TASKS[loss]
    own = records(task, 12)
    own = own._replace(y=np.ones(12, np.int32))
    z = np.asarray(task.answers(jnp.asarray(own_model(task, np.zeros(1), own, 0)), jnp.asarray(own.x)))
    assert np.all(z.argmax(axis=1) == 1 if loss == "softmax" else z[:, 0] > 0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("loss", TASKS)
def test_of_a_shared_model_that_diverged_the_own_one_remains(loss, value):
    task = TASKS[loss]
    own = records(task, 20)
    shared = np.full(task.dimension, value, np.float32)
    np.testing.assert_array_equal(tuned_model(task, shared, own, 0), own_model(task, shared, own, 0))


def test_a_shared_model_of_absurd_size_spoils_nothing():
    task = TASKS["squared"]
    own = records(task, 50)
    tuned = tuned_model(task, np.full(task.dimension, 1e30, np.float32), own, 0)
    np.testing.assert_allclose(tuned, own_model(task, np.zeros(1), own, 0), atol=1e-5)


def test_records_of_zeros_are_answered_by_a_constant():
    task = TASKS["squared"]
    own = Own(np.zeros((5, task.dimension), np.float32), np.ones(5, np.float32))
    assert np.all(np.isfinite(own_model(task, np.zeros(1), own, 0)))


def test_equal_seeds_make_equal_models():
    task = TASKS["softmax"]
    own, shared = records(task, 30), np.ones(task.dimension, np.float32)
    np.testing.assert_array_equal(tuned_model(task, shared, own, 4), tuned_model(task, shared, own, 4))
