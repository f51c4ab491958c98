"""Weights of records multiply losses and gradients before the clip, which bounds what it bounded."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.conditions import smoothness_of
from noiseworthy.tasks import Batch, LinearModel, make_task, personalised

from .test_linear import FEATURES, NORMS, ORDER, N, compiled, make_labels, textbook_gradients

MOST = 4.0
LOSSES = pytest.mark.parametrize("loss", ["softmax", "logistic", "hinge", "squared"])


def problem(loss, **options):
    """A model, its twin without weights, parameters, and records whose weights are 0, 4 and between."""
    rng = np.random.default_rng(3)
    model = LinearModel(FEATURES, 4 if loss == "softmax" else 1, loss, most_weight=MOST, **options)
    plain = LinearModel(FEATURES, model.outputs, loss, **options)
    x, weights = rng.normal(size=(N, FEATURES)), rng.uniform(0, MOST, N)
    weights[:2] = 0.0, MOST
    batch = Batch(
        model.prepare(jnp.asarray(np.column_stack([x, weights]), jnp.float32)),
        make_labels(model, rng), jnp.ones(N).at[-1].set(0.0),
    )  # fmt: skip
    theta = jnp.asarray(rng.normal(size=model.dimension), jnp.float32)
    return model, plain, theta, batch, weights.astype(np.float32)


@LOSSES
@NORMS
@pytest.mark.parametrize("quantile", [0.1, 0.5, 1.0])
def test_each_record_is_weighted_and_then_clipped(loss, norm, quantile):
    model, plain, theta, batch, weights = problem(loss, bias=0.3)
    rows = batch.x[:, :-1]
    each = weights[:, None] * np.asarray(textbook_gradients(plain)(theta, rows, batch.y), np.float64)
    sizes = np.linalg.norm(each, ORDER[norm], axis=1)
    clip_norm = float(np.quantile(sizes[sizes > 0], quantile))
    expected = (each / np.maximum(1, sizes / clip_norm)[:, None])[:-1].sum(axis=0)
    result = compiled(model, norm)(theta, batch, clip_norm)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4 * clip_norm)


@LOSSES
@NORMS
def test_no_weight_lets_a_record_exceed_the_clip(loss, norm):
    """Sensitivity is what it is without weights, whatever a table holds: after the clip it would not be."""
    rng = np.random.default_rng(0)
    model = LinearModel(FEATURES, 4 if loss == "softmax" else 1, loss, most_weight=1e6)
    theta = jnp.asarray(rng.normal(size=model.dimension), jnp.float32)
    for weight in (1e6, 3.7, 1e30, -5.0, np.inf, np.nan):
        record = np.append(rng.normal(size=FEATURES) * 1e3, weight)[None]
        batch = Batch(model.prepare(jnp.asarray(record, jnp.float32)), jnp.ones(1, jnp.int32), jnp.ones(1))
        result = np.asarray(compiled(model, norm)(theta, batch, 0.5), np.float64)
        assert np.linalg.norm(result, ORDER[norm]) <= 0.5


@pytest.mark.full
@LOSSES
def test_a_weight_of_two_is_the_record_twice_in_losses_gradients_and_scores(loss):
    model, plain, theta, batch, weights = problem(loss)
    twice = jnp.concatenate([batch.x[:, :-1]] * 2), jnp.concatenate([batch.y] * 2)
    x = batch.x.at[:, -1].set(2.0)
    np.testing.assert_allclose(
        model.losses(theta, batch._replace(x=x)),
        2 * plain.losses(theta, batch._replace(x=x[:, :-1])),
        rtol=1e-5,
    )
    mean = model.gradient(theta, Batch(x, batch.y, jnp.ones(N)))
    np.testing.assert_allclose(
        mean, 2 * plain.gradient(theta, Batch(*twice, jnp.ones(2 * N))), rtol=1e-4, atol=1e-5
    )
    losses = np.asarray(plain.losses(theta, batch._replace(x=batch.x[:, :-1])))
    score = model.score(theta, batch.x, batch.y)
    assert score.loss == pytest.approx(float(np.average(losses, weights=weights)), rel=1e-5)
    assert score.accuracy == plain.score(theta, batch.x[:, :-1], batch.y).accuracy


def test_moments_of_least_squares_are_those_of_weighted_records():
    model, _, theta, batch, _ = problem("squared", bias=0.5)
    np.testing.assert_allclose(
        model.gradient(theta, model.condense(batch)), model.gradient(theta, batch), rtol=1e-4, atol=1e-5
    )


def test_the_public_bound_on_curvature_grows_with_the_largest_weight():
    plain = LinearModel(3, 1, "logistic", feature_norm=2.0)
    heavy = LinearModel(3, 1, "logistic", feature_norm=2.0, class_weights=(1.0, 3.0), most_weight=MOST)
    assert smoothness_of(heavy) == pytest.approx(3 * MOST * smoothness_of(plain))
    assert (heavy.dimension, heavy.record_norm) == (plain.dimension, plain.record_norm)


def test_what_knows_no_weights_of_records_refuses_them():
    with pytest.raises(InvalidInput, match='role = "weight" belongs to linear models'):
        make_task("cnn", (28, 28), 10, most_weight=2.0)
    with pytest.raises(InvalidInput, match="a personal transform knows no weights of records"):
        personalised(LinearModel(2, 1, "squared", most_weight=2.0))
    with pytest.raises(InvalidInput, match="most_weight must be finite and above 0"):
        LinearModel(2, 1, "squared", most_weight=0.0)
    with pytest.raises(InvalidInput, match=r"x must have shape \(n, 3\)"):
        LinearModel(2, 1, "squared", most_weight=1.0).answers(jnp.zeros(2), jnp.zeros((1, 2)))
