"""Networks at home: as many steps as help on records that were left out, and none where none do."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.home.base import Own
from noiseworthy.home.candidates import own_model, tuned_model
from noiseworthy.tasks.networks import ModelTask, model_task


@pytest.fixture(scope="module")
def task() -> ModelTask:
    rng = np.random.default_rng(0)
    weights = {"in": 0.5 * rng.normal(size=(3, 6)), "out": 0.5 * rng.normal(size=(6, 2))}
    return model_task(lambda w, x: jnp.tanh(x @ w["in"]) @ w["out"], weights, record_shape=(3,))


def records(n: int, labels) -> Own:
    x = np.random.default_rng(1).normal(size=(n, 3)).astype(np.float32)
    return Own(x, labels(x).astype(np.int32))


def loss(task: ModelTask, theta, own: Own) -> float:
    return float(task.score(jnp.asarray(theta), jnp.asarray(own.x), jnp.asarray(own.y)).loss)


@pytest.mark.full
def test_a_network_is_tuned_where_that_helps(task):
    own = records(40, lambda x: x[:, 0] > 0)
    shared = np.asarray(task.initial(None))  # pyright: ignore[reportArgumentType]
    tuned, alone = tuned_model(task, shared, own, 0), own_model(task, shared, own, 0)
    assert loss(task, tuned, own) < 0.9 * loss(task, shared, own)
    assert loss(task, alone, own) < 0.9 * loss(task, shared, own)


@pytest.mark.full
def test_a_network_learns_next_to_nothing_where_labels_are_noise(task):
    shared = 1e-3 * np.asarray(task.initial(None))  # pyright: ignore[reportArgumentType]
    own = records(30, lambda x: np.random.default_rng(2).integers(0, 2, len(x)))
    later = records(30, lambda x: np.random.default_rng(3).integers(0, 2, len(x)))
    assert loss(task, tuned_model(task, shared, own, 0), later) < 0.73


def test_one_record_and_a_network_that_diverged(task):
    own = records(1, lambda x: x[:, 0] > 9)
    lost = np.full(task.dimension, np.nan, np.float32)
    assert np.all(np.isfinite(tuned_model(task, lost, own, 0)))
