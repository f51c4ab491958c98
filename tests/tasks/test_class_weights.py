"""Class weights multiply losses and gradients of records before the clip, which bounds what it bounded."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.conditions import smoothness_of
from noiseworthy.tasks import Batch, LinearModel, make_task, personalised

from .test_linear import FEATURES, NORMS, ORDER, N, compiled, make_problem, record_loss, textbook_gradients

WEIGHTS = {"softmax": (0.5, 3.0, 1.0, 7.0), "logistic": (0.25, 4.0), "hinge": (0.25, 4.0)}
CLASSIFIERS = pytest.mark.parametrize("loss", WEIGHTS)


def weighted(loss, **options):
    return make_problem(loss, class_weights=WEIGHTS[loss], **options)


def of_records(model, batch):
    return np.asarray(WEIGHTS[model.loss])[np.asarray(batch.y)]


@CLASSIFIERS
@NORMS
@pytest.mark.parametrize("quantile", [0.0, 0.5, 1.0])
def test_each_record_is_weighted_and_then_clipped(loss, norm, quantile):
    model, theta, batch = weighted(loss, bias=0.3)
    plain = np.asarray(textbook_gradients(model)(theta, batch.x, batch.y), np.float64)
    each = of_records(model, batch)[:, None] * plain
    sizes = np.linalg.norm(each, ORDER[norm], axis=1)
    clip_norm = float(np.quantile(sizes[sizes > 0], quantile))
    expected = (each / np.maximum(1, sizes / clip_norm)[:, None]).sum(axis=0)
    result = compiled(model, norm)(theta, batch, clip_norm)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4 * clip_norm)


@CLASSIFIERS
@NORMS
@settings(max_examples=30, deadline=None)
@given(scale=st.integers(-20, 40), seed=st.integers(0, 1000))
def test_no_weight_lets_a_record_exceed_the_clip(loss, norm, scale, seed):
    """The sensitivity of a record is what it is without weights: a weight after the clip would break it."""
    rng, weights = np.random.default_rng(seed), (1e-6, 1e6, 3.7, 123.4)
    outputs, weights = (4, weights) if loss == "softmax" else (1, weights[:2])
    model = LinearModel(FEATURES, outputs, loss, class_weights=weights)
    x = jnp.asarray(rng.normal(size=(1, FEATURES)) * 2.0**scale, jnp.float32)
    theta = jnp.asarray(rng.normal(size=model.dimension), jnp.float32)
    batch = Batch(x, jnp.asarray(rng.integers(0, len(weights), 1)), jnp.ones(1))
    result = np.asarray(compiled(model, norm)(theta, batch, 0.5), np.float64)
    assert np.linalg.norm(result, ORDER[norm]) <= 0.5


@pytest.mark.full
@CLASSIFIERS
def test_losses_and_mean_gradients_are_those_of_the_weighted_loss(loss):
    """The divisor is the number of records, which is public, and not the sum of their weights."""
    model, theta, batch = weighted(loss)
    few = batch._replace(mask=(jnp.arange(N) < 9).astype(jnp.float32))
    weights, losses = of_records(model, batch), jax.vmap(record_loss(model), (None, 0, 0))
    np.testing.assert_allclose(
        model.losses(theta, batch), weights * losses(theta, batch.x, batch.y), rtol=1e-4, atol=1e-5
    )
    each = weights[:, None] * np.asarray(textbook_gradients(model)(theta, batch.x, batch.y))
    np.testing.assert_allclose(model.gradient(theta, few), each[:9].mean(axis=0), rtol=1e-4, atol=1e-5)
    assert model.condense(batch) is batch


@pytest.mark.full
@CLASSIFIERS
def test_a_weight_of_two_is_a_record_twice(loss):
    plain, theta, batch = make_problem(loss)
    double = LinearModel(
        plain.features,
        plain.outputs,
        loss,
        class_weights=tuple(2.0 if k == 1 else 1.0 for k in range(len(WEIGHTS[loss]))),
    )
    more = np.flatnonzero(np.asarray(batch.y) == 1)
    twice = Batch(*(jnp.concatenate([leaf, leaf[more]]) for leaf in batch))
    for norm in ORDER:
        np.testing.assert_allclose(
            compiled(double, norm)(theta, batch, 1e6),
            compiled(plain, norm)(theta, twice, 1e6),
            rtol=1e-4, atol=1e-4,
        )  # fmt: skip
    np.testing.assert_allclose(
        double.score(theta, batch.x, batch.y).loss, plain.score(theta, twice.x, twice.y).loss, rtol=1e-5
    )


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_a_score_starts_at_the_loss_of_a_guess_whatever_the_weights(loss):
    model, theta, batch = weighted(loss)
    found, plain = (one.score(0 * theta, batch.x, batch.y) for one in (model, make_problem(loss)[0]))
    assert float(found.loss) == pytest.approx(np.log(len(WEIGHTS[loss])), rel=1e-5)
    assert float(found.accuracy) == float(plain.accuracy)


@CLASSIFIERS
def test_no_curvature_of_a_weighted_loss_exceeds_the_smoothness(loss):
    model = LinearModel(
        FEATURES, 4 if loss == "softmax" else 1, loss, feature_norm=1.5, class_weights=WEIGHTS[loss]
    )
    x = model.prepare(10 * jax.random.normal(jax.random.key(0), (N, FEATURES)))
    thetas = 2 * np.random.default_rng(1).normal(size=(N, model.dimension)).astype(np.float32)

    def value(theta, row, y):
        return model.losses(theta, Batch(row[None], y[None], jnp.ones(1)))[0]

    heaviest = jnp.asarray(int(np.argmax(WEIGHTS[loss])))
    hessian = jax.jit(jax.hessian(value))
    top = [
        np.linalg.eigvalsh(hessian(theta, row, heaviest)).max() for theta, row in zip(thetas, x, strict=True)
    ]
    assert max(top) <= smoothness_of(model) * (1 + 1e-5)
    plain = LinearModel(FEATURES, model.outputs, loss, feature_norm=1.5)
    assert max(top) > smoothness_of(plain)


@pytest.mark.full
@CLASSIFIERS
@NORMS
def test_behind_a_personal_transform_records_are_weighted_and_then_clipped(loss, norm):
    model, theta, batch = weighted(loss)
    personal = personalised(model)
    rng = np.random.default_rng(2)
    phi = jnp.concatenate([1 + jnp.asarray(rng.normal(size=FEATURES + 1), jnp.float32), theta])
    gradients = jax.vmap(
        jax.grad(lambda phi, x, y: personal.losses(phi, Batch(x[None], y[None], jnp.ones(1)))[0]),
        (None, 0, 0),
    )
    each = np.asarray(gradients(phi, batch.x, batch.y), np.float64)
    sizes = np.linalg.norm(each, ORDER[norm], axis=1)
    clip_norm = float(np.median(sizes[sizes > 0]))
    expected = (each / np.maximum(1, sizes / clip_norm)[:, None]).sum(axis=0)
    result = compiled(personal, norm)(phi, batch, clip_norm)
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3 * clip_norm)


def test_weights_that_do_not_fit_are_refused():
    for outputs, loss, weights in (
        (3, "softmax", (1.0, 2.0)),
        (1, "logistic", (1.0,)),
        (1, "squared", (1.0,)),
    ):
        with pytest.raises(InvalidInput, match="class_weights must be one number for each of"):
            LinearModel(2, outputs, loss, class_weights=weights)
    with pytest.raises(InvalidInput, match="must be finite and above 0, got 0 for class 0; 1 leaves"):
        LinearModel(2, 1, "logistic", class_weights=(0.0, 1.0))
    with pytest.raises(InvalidInput, match="class_weights belongs to linear models"):
        make_task("cnn", (28, 28), 10, class_weights=[1.0] * 10)
    assert make_task("softmax", (4,), 2, class_weights=[1, 2]) == make_task(
        "softmax", (4,), 2, class_weights=(1.0, 2.0)
    )
