"""All records of a person are one row: clipped as a whole, and counted once."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.data.persons import numbered, packed
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.rows import _gradients
from noiseworthy.tasks import LinearModel
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.networks import model_task
from noiseworthy.tasks.persons import Persons
from noiseworthy.tasks.rightness import rightness

MOST, D, PEOPLE = 5, 4, 9


def network():
    params = {"w": 0.3 * jax.random.normal(jax.random.key(1), (D, 3)), "v": jnp.ones(3)}
    return model_task(lambda p, x: jnp.tanh(x @ p["w"]) * p["v"], params, record_shape=(D,))


MODELS = {
    "softmax": LinearModel(D, 3, "softmax", bias=0.5, feature_norm=2.0),
    "logistic, weighted": LinearModel(D, 1, "logistic", class_weights=(1.0, 4.0)),
    "squared": LinearModel(D, 1, "squared", bias=1.0),
    "network": network(),
}


def people(seed: int = 0, labels: int = 2):
    """Records in no order, and whose they are; one to five of each person."""
    rng = np.random.default_rng(seed)
    whose = rng.permutation(np.concatenate([np.full(1 + i % MOST, i) for i in range(PEOPLE)]))
    x = rng.normal(size=(len(whose), D)).astype(np.float32)
    return x, rng.integers(0, labels, len(whose)).astype(np.int32), numbered(whose.tolist())


def batch_of(task: Persons, x, y, whose) -> Batch:
    rows, labels = packed(x, y, whose, MOST)
    return Batch(task.prepare(jnp.asarray(rows)), jnp.asarray(labels), jnp.ones(len(rows)))


def by_hand(task, theta, x, y, whose, clip=None, norm="l2"):
    """One record after the other, the mean over each person's, then the clip: in float64, by NumPy."""

    def loss(theta, x, y):
        return task.losses(theta, Batch(x[None], y[None], jnp.ones(1)))[0]

    each = jax.jit(jax.vmap(jax.grad(loss), (None, 0, 0)))(
        theta, task.prepare(jnp.asarray(x)), jnp.asarray(y)
    )
    means = [np.asarray(each, np.float64)[whose == person].mean(axis=0) for person in range(whose.max() + 1)]
    sizes = [np.linalg.norm(mean, 1 if norm == "l1" else 2) for mean in means]
    kept = [1.0 if clip is None else min(1.0, clip / size) for size in sizes]
    return sum(part * mean for part, mean in zip(kept, means, strict=True))


@pytest.mark.full
@pytest.mark.parametrize(("name", "norm"), [*product(MODELS, ("l1", "l2"))])
def test_gradients_are_those_of_one_person_after_the_other(name, norm):
    model, (x, y, whose) = MODELS[name], people()
    task = Persons(model, MOST, D)
    theta = jnp.asarray(np.random.default_rng(2).normal(size=task.dimension), jnp.float32)
    batch, total = batch_of(task, x, y, whose), jax.jit(task.clipped_gradient_sum, static_argnums=3)
    for clip in (0.2, 50.0):
        found = np.asarray(total(theta, batch, clip, norm))
        expected = by_hand(model, theta, x, y, whose, clip, norm)
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
        alone = np.asarray(_gradients(task, theta, batch, jnp.float32(clip), norm))
        assert np.abs(alone.sum(axis=0) - expected).max() < 1e-5 * np.abs(expected).max()
    mean = by_hand(model, theta, x, y, whose) / PEOPLE
    np.testing.assert_allclose(task.gradient(theta, batch), mean, atol=1e-5 * np.abs(mean).max())


def test_losses_are_means_and_padding_counts_for_nobody():
    model, (x, y, whose) = MODELS["softmax"], people(labels=3)
    task, theta = Persons(model, MOST, D), jnp.linspace(-1, 1, MODELS["softmax"].dimension)
    batch = batch_of(task, x, y, whose)
    each = np.asarray(
        model.losses(theta, Batch(model.prepare(jnp.asarray(x)), jnp.asarray(y), jnp.ones(len(y))))
    )
    means = [each[whose == person].mean() for person in range(PEOPLE)]
    np.testing.assert_allclose(task.losses(theta, batch), means, rtol=1e-5)
    few = batch._replace(mask=batch.mask.at[4:].set(0.0), x=batch.x.at[4:].set(jnp.nan))
    some = whose < 4
    np.testing.assert_allclose(
        task.gradient(theta, few), by_hand(model, theta, x[some], y[some], whose[some]) / 4, atol=1e-6
    )


def test_a_model_whose_loss_of_zeros_is_no_number_knows_persons_of_few_records():
    model = model_task(lambda w, x: x / jnp.linalg.norm(x) @ w, jnp.ones((D, 2)), record_shape=(D,))
    task, (x, y, whose) = Persons(model, MOST, D), people()
    theta = jnp.linspace(-1, 1, task.dimension)
    found = task.gradient(theta, batch_of(task, x, y, whose))
    np.testing.assert_allclose(found, by_hand(model, theta, x, y, whose) / PEOPLE, atol=1e-6)


def test_whoever_has_records_twice_counts_once():
    task, (x, y, whose) = Persons(MODELS["logistic, weighted"], MOST, D), people()
    few = whose == numbered(whose.tolist())[0]
    theta = jnp.linspace(-1, 1, task.dimension)
    once = batch_of(task, x[few][:2], y[few][:2], np.zeros(2, np.int64))
    twice = batch_of(task, np.tile(x[few][:2], (2, 1)), np.tile(y[few][:2], 2), np.zeros(4, np.int64))
    np.testing.assert_allclose(task.gradient(theta, once), task.gradient(theta, twice), atol=1e-6)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_no_person_moves_a_sum_by_more_than_the_clip(norm):
    """Whatever all of its records are: huge, not finite, or all pulling one way."""
    task, (x, y, whose) = Persons(MODELS["squared"], MOST, D), people()
    theta, clip = jnp.linspace(-1, 1, task.dimension), jnp.float32(0.7)
    for value in (0.0, 1e3, -1e30, np.inf, np.nan):
        odd = np.where((whose == 3)[:, None], np.float32(value), x)
        moved = np.asarray(_gradients(task, theta, batch_of(task, odd, y, whose), clip, norm), np.float64)
        assert np.linalg.norm(moved, 1 if norm == "l1" else 2, axis=1).max() <= clip


def test_records_that_test_are_scored_one_by_one():
    task, (x, y, _) = Persons(MODELS["softmax"], MOST, D), people(labels=3)
    theta, model = jnp.linspace(-1, 1, task.dimension), MODELS["softmax"]
    seen = task.prepare(jnp.asarray(x))
    assert task.score(theta, seen, jnp.asarray(y)) == model.score(theta, model.prepare(jnp.asarray(x)), y)


@pytest.mark.full
def test_networks_see_records_in_their_own_form():
    """Flat records of images come as images to the model, each record of a person apart."""
    params = {"w": 0.3 * jax.random.normal(jax.random.key(1), (3, 2))}
    model = model_task(lambda p, image: jnp.tanh(image @ p["w"]).sum(axis=0), params)
    model = replace(model, form=lambda x: jnp.asarray(x, jnp.float32).reshape(len(x), 4, 3))
    task = Persons(model, 2, 12)
    x = np.random.default_rng(0).random((4, 12)).astype(np.float32)
    y, whose = np.array([0, 1, 1, 0], np.int32), np.array([0, 0, 1, 2])
    rows, labels = packed(x, y, whose, 2)
    batch = Batch(task.prepare(jnp.asarray(rows)), jnp.asarray(labels), jnp.ones(3))
    theta = task.initial(jax.random.key(0))
    expected = by_hand(model, theta, x, y, whose, 0.1)
    found = np.asarray(task.clipped_gradient_sum(theta, batch, 0.1, "l2"))
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_rows_of_another_shape_are_refused():
    with pytest.raises(InvalidInput, match=r"rows of persons must have shape \(n, 5, 5\), got \(2, 3, 5\)"):
        Persons(MODELS["softmax"], MOST, D).prepare(jnp.zeros((2, 3, 5)))


@pytest.mark.parametrize("records", [11, 442])
def test_what_many_records_of_a_person_say_of_a_model_is_no_more_than_one_says(records):
    """Shares of a 442nd add up to 1 and seven millionths, more than a sensitivity leaves for rounding."""
    x, whose = np.ones((2 * records, 2)), np.arange(2) * np.ones((records, 2), int)
    x, y = packed(x.astype(np.float32), np.ones(2 * records, np.int32), whose.ravel(), records)
    task = Persons(LinearModel(2, 1, "logistic"), records, 2)
    batch = Batch(task.prepare(jnp.asarray(x)), jnp.asarray(y), jnp.ones(2))
    for theta, reach in product((jnp.ones(2), -jnp.ones(2)), (None, 1e7)):
        assert np.all(np.abs(rightness(task, theta, batch, two_classes=True, reach=reach)) == 1)
