"""Linear models: the closed-form clip against brute force, an independent library, and its guarantee."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax_privacy.clipping import clipped_grad

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.conditions import smoothness_of
from noiseworthy.tasks import Batch, LinearModel, Moments, Task
from noiseworthy.tasks.batch import SAFETY
from noiseworthy.tasks.linear import _MANY

FEATURES, N, ORDER = 7, 23, {"l1": 1, "l2": 2}
OUTPUTS = {"softmax": 4, "logistic": 1, "hinge": 1, "squared": 1}
LOSSES = pytest.mark.parametrize("loss", OUTPUTS)
NORMS = pytest.mark.parametrize("norm", ORDER)
BIAS = pytest.mark.parametrize("bias", [False, True, 0.3])


def record_loss(model):
    """The textbook losses, written independently of the product's."""

    def value(theta, x, y):
        z = x @ theta.reshape(-1, model.outputs)
        if model.loss == "softmax":
            return -jax.nn.log_softmax(z)[y]
        if model.loss == "logistic":
            return -jnp.log(jnp.where(y == 1, jax.nn.sigmoid(z[0]), 1 - jax.nn.sigmoid(z[0])))
        if model.loss == "hinge":
            margin = jnp.where(y == 1, z[0], -z[0])
            return jnp.where(margin <= 0, 0.5 - margin, jnp.where(margin < 1, (1 - margin) ** 2 / 2, 0.0))
        return 0.5 * (z[0] - y) ** 2

    return value


def make_labels(model, rng, n=N):
    if model.loss == "squared":
        return jnp.asarray(rng.normal(size=n), jnp.float32)
    return jnp.asarray(rng.integers(0, max(2, model.outputs), n), jnp.int32)


def make_problem(loss, seed=0, **options):
    rng = np.random.default_rng(seed)
    model = LinearModel(FEATURES, OUTPUTS[loss], loss, **options)
    x = prepared(model)(jnp.asarray(rng.normal(size=(N, FEATURES)), jnp.float32))
    theta = jnp.asarray(rng.normal(size=model.dimension), jnp.float32)
    return model, theta, Batch(x, make_labels(model, rng), jnp.ones(N))


def brute_force(model, theta, batch, clip_norm, norm):
    """Float64 sum of per-record autodiff gradients, each divided by max(1, norm / C)."""
    gradients = np.asarray(textbook_gradients(model)(theta, batch.x, batch.y), np.float64)
    sizes = np.linalg.norm(gradients, ORDER[norm], axis=1)
    kept = gradients / np.maximum(1, sizes / clip_norm)[:, None]
    return (kept * np.asarray(batch.mask)[:, None]).sum(axis=0), sizes


@cache
def textbook_gradients(model):
    return jax.jit(jax.vmap(jax.grad(record_loss(model)), (None, 0, 0)))


@cache
def compiled(model, norm):
    return jax.jit(lambda theta, batch, clip_norm: model.clipped_gradient_sum(theta, batch, clip_norm, norm))


@cache
def prepared(model):
    return jax.jit(model.prepare)


@cache
def scored(model):
    return jax.jit(model.score)


@cache
def mean_gradient(model):
    return jax.jit(model.gradient)


@cache
def condensed(model):
    return jax.jit(model.condense)


@LOSSES
@NORMS
@BIAS
@pytest.mark.parametrize("quantile", [0.0, 0.5, 1.0])
def test_the_closed_form_is_the_sum_of_clipped_gradients(loss, norm, bias, quantile):
    model, theta, batch = make_problem(loss, bias=bias)
    _, sizes = brute_force(model, theta, batch, 1.0, norm)
    clip_norm = float(np.quantile(sizes[sizes > 0], quantile)) * (1.01 if quantile == 1.0 else 1.0)
    expected, _ = brute_force(model, theta, batch, clip_norm, norm)
    result = compiled(model, norm)(theta, batch, clip_norm)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4 * clip_norm)


@LOSSES
@BIAS
def test_losses_are_the_textbook_ones_record_by_record(loss, bias):
    """The ridge is none of them, and what padding holds stays in its own place."""
    model, theta, batch = make_problem(loss, bias=bias, ridge=3.0)
    expected = jax.vmap(record_loss(model), (None, 0, 0))(theta, batch.x, batch.y)
    spoilt = batch._replace(x=batch.x.at[5:].set(jnp.nan), mask=(jnp.arange(N) < 5).astype(jnp.float32))
    np.testing.assert_allclose(model.losses(theta, batch), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.losses(theta, spoilt)[:5], expected[:5], rtol=1e-4, atol=1e-5)


@NORMS
@pytest.mark.parametrize("weights", [{}, {"class_weights": (1.0, 3.0, 0.5, 2.0)}, {"most_weight": 2.0}])
def test_many_records_whose_layout_is_another_sum_to_what_few_do(norm, weights):
    """With a record that is not finite and one that is padding among them."""
    rng = np.random.default_rng(3)
    model = LinearModel(FEATURES, 4, "softmax", bias=0.3, **weights)
    x = rng.normal(size=(3 * (_MANY - 1), FEATURES + ("most_weight" in weights))).astype(np.float32)
    rows = np.array(model.prepare(jnp.asarray(np.abs(x))))
    rows[5] = np.nan
    batch = Batch(jnp.asarray(rows), make_labels(model, rng, len(x)), jnp.ones(len(x)).at[7].set(0.0))
    theta = jnp.asarray(rng.normal(size=model.dimension), jnp.float32)
    parts = [Batch(*(leaf[i::3] for leaf in batch)) for i in range(3)]
    assert len(parts[0].x) < _MANY <= len(batch.x)
    few = sum(np.asarray(model.clipped_gradient_sum(theta, part, 0.5, norm)) for part in parts)
    many = model.clipped_gradient_sum(theta, batch, 0.5, norm)
    np.testing.assert_allclose(many, few, rtol=1e-5, atol=1e-5)


def test_losses_need_prepared_records():
    with pytest.raises(InvalidInput, match="pass records through prepare first"):
        LinearModel(2, 1, "squared").losses(jnp.zeros(2), Batch(jnp.ones((3, 4)), jnp.ones(3), jnp.ones(3)))


@LOSSES
@pytest.mark.filterwarnings("ignore:optax.global_norm:DeprecationWarning")
def test_jax_privacy_gives_the_same_sum(loss):
    model, theta, batch = make_problem(loss, seed=1)
    oracle = clipped_grad(
        record_loss(model), l2_clip_norm=0.7, batch_argnums=(1, 2), keep_batch_dim=False, argnums=0
    )
    result = compiled(model, "l2")(theta, batch, 0.7)
    np.testing.assert_allclose(result, oracle(theta, batch.x, batch.y), rtol=1e-4, atol=1e-5)


@NORMS
@LOSSES
@settings(max_examples=40, deadline=None)
@given(
    scales=st.lists(st.integers(-60, 60), min_size=FEATURES, max_size=FEATURES),
    theta_scale=st.integers(-40, 40),
    clip_exponent=st.integers(-20, 20),
    seed=st.integers(0, 1000),
)
def test_no_record_exceeds_the_clip_at_any_scale(loss, norm, scales, theta_scale, clip_exponent, seed):
    rng = np.random.default_rng(seed)
    model = LinearModel(FEATURES, OUTPUTS[loss], loss)
    x = jnp.asarray(rng.normal(size=(1, FEATURES)) * 2.0 ** np.array(scales), jnp.float32)
    theta = jnp.asarray(rng.normal(size=model.dimension) * 2.0**theta_scale, jnp.float32)
    batch, clip_norm = Batch(x, make_labels(model, rng, 1), jnp.ones(1)), np.float32(2.0**clip_exponent)
    result = np.asarray(compiled(model, norm)(theta, batch, clip_norm), np.float64)
    assert np.linalg.norm(result, ORDER[norm]) <= clip_norm


@NORMS
@LOSSES
def test_clipped_records_keep_half_the_margin_and_waste_no_more_than_three(loss, norm):
    """The margin 2^-20 itself: without it, or with the other norm, this fails."""
    model, theta, batch = make_problem(loss, seed=2)
    margin = 1 - SAFETY
    assert margin == 2.0**-20
    for i in range(N):
        record = Batch(batch.x[i : i + 1] * 1000, batch.y[i : i + 1], jnp.ones(1))
        result = np.asarray(compiled(model, norm)(theta, record, 1e-3), np.float64)
        size = np.linalg.norm(result, ORDER[norm]) / np.float64(np.float32(1e-3))
        if size > 0:  # a record fitted to the last bit has gradient zero
            assert 1 - 3 * margin <= size <= 1 - margin / 2


@NORMS
@LOSSES
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), scale=st.floats(-3, 6))
def test_one_record_moves_the_sum_by_at_most_its_sensitivity(loss, norm, seed, scale):
    model, theta, batch = make_problem(loss, seed=3)
    rng = np.random.default_rng(seed)
    other = batch._replace(
        x=batch.x.at[5].set(10.0**scale * rng.normal(size=FEATURES)),
        y=batch.y.at[5].set(make_labels(model, rng, 1)[0]),
    )
    without = batch._replace(mask=batch.mask.at[5].set(0.0))
    total, replaced, removed = (
        np.asarray(compiled(model, norm)(theta, b, 0.5), np.float64) for b in (batch, other, without)
    )
    summation = 1e-5  # rounding of the sum of 23 records, not of a clip
    assert np.linalg.norm(total - replaced, ORDER[norm]) <= 2 * 0.5 + summation
    assert np.linalg.norm(total - removed, ORDER[norm]) <= 0.5 + summation


@LOSSES
@BIAS
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_record_that_is_not_finite_contributes_zero(loss, bias, bad):
    model, theta, batch = make_problem(loss, bias=bias)
    raw = batch.x[:, :FEATURES]
    broken = batch._replace(x=prepared(model)(raw.at[4, 2].set(bad)))
    without = batch._replace(mask=batch.mask.at[4].set(0.0))
    for clip_norm in (0.3, 1e6):
        result = compiled(model, "l2")(theta, broken, clip_norm)
        np.testing.assert_allclose(
            result, compiled(model, "l2")(theta, without, clip_norm), rtol=1e-5, atol=1e-5
        )


@NORMS
def test_labels_and_products_that_are_not_finite_contribute_zero(norm):
    model, theta, batch = make_problem("squared")
    broken = batch._replace(y=batch.y.at[0].set(jnp.nan).at[1].set(jnp.inf), x=batch.x.at[2].set(3e38))
    without = batch._replace(mask=batch.mask.at[:3].set(0.0))
    expected = compiled(model, norm)(theta, without, 0.5)
    np.testing.assert_allclose(compiled(model, norm)(theta, broken, 0.5), expected, rtol=1e-5, atol=1e-5)


@LOSSES
@BIAS
def test_padding_contributes_nothing(loss, bias):
    model, theta, batch = make_problem(loss, bias=bias)
    mask = (jnp.arange(N) < 9).astype(jnp.float32)
    short = Batch(batch.x[:9], batch.y[:9], jnp.ones(9))
    expected = compiled(model, "l2")(theta, short, 0.5)
    for kind in (mask, mask > 0):
        with jax.numpy_dtype_promotion("standard"):  # a mask of truth values is one too
            result = compiled(model, "l2")(theta, batch._replace(mask=kind), 0.5)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_the_ridge_is_no_part_of_the_clipped_gradient():
    plain, theta, batch = make_problem("softmax")
    ridged = LinearModel(FEATURES, 4, "softmax", ridge=3.0)
    np.testing.assert_array_equal(
        compiled(plain, "l2")(theta, batch, 0.5), compiled(ridged, "l2")(theta, batch, 0.5)
    )


@BIAS
def test_prepare_projects_onto_the_ball_and_appends_the_bias(bias):
    model = LinearModel(4, 1, "squared", bias=bias, feature_norm=2.0)
    x = np.array([[[3.0, 0.0], [0.0, 4.0]], [[0.1, 0.2], [0.2, 0.4]], [[0.0, 0.0], [0.0, 0.0]]])
    expected = np.array([[1.2, 0.0, 0.0, 1.6], [0.1, 0.2, 0.2, 0.4], [0.0] * 4])
    rows = prepared(model)(jnp.asarray(x))
    np.testing.assert_allclose(rows[:, :4], expected, rtol=1e-5)
    np.testing.assert_array_equal(rows[1:, :4], x.reshape(3, 4)[1:].astype(np.float32))
    assert rows.shape[1] == 4 + (bias > 0)
    np.testing.assert_allclose(rows[:, 4:], bias, rtol=1e-6)


def test_prepare_normalises_and_leaves_zero_records_zero():
    model = LinearModel(2, 1, "squared", feature_norm=2.0, normalise=True)
    rows = prepared(model)(jnp.array([[3.0, 4.0], [3e-30, 4e-30], [3e37, 4e37], [0.0, 0.0]]))
    np.testing.assert_allclose(rows, [[1.2, 1.6]] * 3 + [[0.0, 0.0]], rtol=2e-6)


@pytest.mark.parametrize("normalise", [False, True])
@settings(max_examples=60, deadline=None)
@given(scales=st.lists(st.integers(-120, 120), min_size=30, max_size=30), bias=st.booleans())
def test_prepared_records_stay_within_record_norm(normalise, scales, bias):
    model = LinearModel(30, 1, "squared", bias=bias, feature_norm=0.7, normalise=normalise)
    x = np.random.default_rng(0).normal(size=(5, 30)) * 2.0 ** np.array(scales)
    rows = np.asarray(prepared(model)(jnp.asarray(x, jnp.float32)), np.float64)
    assert np.all(np.linalg.norm(rows, axis=1) <= model.record_norm)


def test_projected_records_keep_half_the_margin():
    model = LinearModel(2, 1, "squared", feature_norm=0.7)
    x = 10 * np.random.default_rng(0).normal(size=(200, 2))
    sizes = np.linalg.norm(np.asarray(model.prepare(jnp.asarray(x)), np.float64), axis=1) / 0.7
    assert np.all((sizes >= 1 - 2.0**-19) & (sizes <= 1 - 2.0**-21))


def test_prepare_reads_each_record_on_its_own():
    model, _, batch = make_problem("softmax", feature_norm=1.0, normalise=True)
    changed = prepared(model)(batch.x.at[4:].multiply(-7.0))
    np.testing.assert_array_equal(prepared(model)(batch.x)[:4], changed[:4])


@pytest.mark.parametrize("bias", [0.3, 0.9, 1.0, 1e-3, 123.4])
def test_a_constant_of_any_size_is_appended_and_never_above_what_is_stated(bias):
    """float32(0.3) is above 0.3; the guarantee on the norm of a record would be broken by it."""
    model = LinearModel(2, 1, "squared", bias=bias, feature_norm=1e-6, normalise=True)
    rows = np.asarray(prepared(model)(jnp.array([[3.0, 4.0], [np.nan, 1.0]])), np.float64)
    assert rows[0, 2] == pytest.approx(bias, rel=1e-6)
    assert np.all(np.linalg.norm(rows, axis=1) <= model.record_norm)
    assert not np.any(rows[1])
    assert (model.dimension, LinearModel(2, 1, "squared").dimension) == (3, 2)


def test_a_negative_bias_is_refused():
    with pytest.raises(InvalidInput, match="bias must be finite and at least 0, got -1"):
        LinearModel(2, 1, "squared", bias=-1.0)


def test_record_norm_counts_the_bias():
    assert LinearModel(3, 1, "squared", feature_norm=1.0, bias=0.3).record_norm == pytest.approx(1.09**0.5)
    assert LinearModel(3, 1, "squared", feature_norm=2.0, bias=True).record_norm == pytest.approx(5**0.5)
    assert LinearModel(3, 1, "squared", feature_norm=2.0).record_norm == 2.0
    assert LinearModel(3, 1, "squared").record_norm is None


@LOSSES
def test_the_score_is_the_mean_loss_without_ridge(loss):
    model, theta, batch = make_problem(loss, ridge=5.0)
    expected = jnp.mean(jax.vmap(record_loss(model), (None, 0, 0))(theta, batch.x, batch.y))
    assert float(scored(model)(theta, batch.x, batch.y).loss) == pytest.approx(float(expected), rel=1e-4)


def masked(batch, kept=9):
    """The first records count, the others are noise with mask 0."""
    return batch._replace(mask=(jnp.arange(N) < kept).astype(jnp.float32))


def textbook_gradient(model, theta, batch):
    """Float64 NumPy: X^T (link(X W) - target) / n over the records that count."""
    kept = np.asarray(batch.mask) > 0
    x, y = np.asarray(batch.x, np.float64)[kept], np.asarray(batch.y)[kept]
    z = x @ np.asarray(theta, np.float64).reshape(-1, model.outputs)
    if model.loss == "softmax":
        slopes = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True) - np.eye(model.outputs)[y]
    elif model.loss == "hinge":
        signs = 2.0 * y[:, None] - 1
        slopes = -signs * np.clip(1 - signs * z, 0, 1)
    else:
        slopes = (z if model.loss == "squared" else 1 / (1 + np.exp(-z))) - y[:, None]
    return (x.T @ slopes / len(x)).ravel()


@LOSSES
@BIAS
@pytest.mark.parametrize("kept", [1, 9, N])
def test_the_mean_gradient_is_that_of_the_textbook(loss, bias, kept):
    model, theta, batch = make_problem(loss, bias=bias, ridge=3.0)
    batch = masked(batch, kept)
    result = mean_gradient(model)(theta, batch)
    np.testing.assert_allclose(result, textbook_gradient(model, theta, batch), rtol=1e-4, atol=1e-5)


@LOSSES
def test_the_mean_gradient_is_the_clipped_sum_where_nothing_is_clipped(loss):
    model, theta, batch = make_problem(loss)
    total = compiled(model, "l2")(theta, masked(batch), 1e6)
    np.testing.assert_allclose(mean_gradient(model)(theta, masked(batch)) * 9, total, rtol=1e-4, atol=1e-5)


@BIAS
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), kept=st.integers(0, N))
def test_moments_say_what_the_records_say(bias, seed, kept):
    model, theta, batch = make_problem("squared", seed, bias=bias)
    batch = masked(batch, kept)
    gram, cross = condensed(model)(batch)
    x, y = np.asarray(batch.x, np.float64)[:kept], np.asarray(batch.y, np.float64)[:kept]
    np.testing.assert_allclose(gram, x.T @ x / max(1, kept), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(cross, x.T @ y / max(1, kept), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        mean_gradient(model)(theta, Moments(gram, cross)), mean_gradient(model)(theta, batch),
        rtol=1e-5, atol=1e-5,
    )  # fmt: skip


def test_moments_ignore_what_padding_holds():
    model, theta, batch = make_problem("squared")
    spoilt = masked(batch)._replace(x=batch.x.at[9:].set(1e30), y=batch.y.at[9:].set(jnp.inf))
    for mine, clean in zip(model.condense(spoilt), model.condense(masked(batch)), strict=True):
        np.testing.assert_array_equal(mine, clean)
    np.testing.assert_array_equal(model.gradient(theta, spoilt), model.gradient(theta, masked(batch)))


def test_integer_targets_have_moments_too():
    model, theta, batch = make_problem("squared")
    whole = batch._replace(y=jnp.arange(N))
    np.testing.assert_allclose(
        model.gradient(theta, model.condense(whole)), model.gradient(theta, whole), rtol=1e-4, atol=1e-4
    )


@LOSSES
def test_a_client_without_records_has_gradient_zero(loss):
    model, theta, batch = make_problem(loss)
    empty = masked(batch, 0)
    for held in (empty, model.condense(empty)):
        np.testing.assert_array_equal(mean_gradient(model)(theta, held), np.zeros(model.dimension))


@pytest.mark.parametrize("loss", ["softmax", "logistic", "hinge"])
def test_only_squared_loss_has_moments(loss):
    model, _, batch = make_problem(loss)
    assert model.condense(batch) is batch


@LOSSES
@BIAS
def test_no_curvature_exceeds_the_smoothness(loss, bias):
    """Largest eigenvalue of the Hessian of single records, by autodiff."""
    model = LinearModel(FEATURES, OUTPUTS[loss], loss, bias=bias, feature_norm=1.5)
    x = prepared(model)(10 * jax.random.normal(jax.random.key(0), (N, FEATURES)))
    hessian = jax.jit(jax.hessian(record_loss(model)))
    thetas = 2 * np.random.default_rng(1).normal(size=(N, model.dimension)).astype(np.float32)
    top = [np.linalg.eigvalsh(hessian(theta, row, 0)).max() for theta, row in zip(thetas, x, strict=True)]
    assert max(top) <= smoothness_of(model) * (1 + 1e-5)


def test_smoothness_is_reached_and_public():
    """Squared and logistic reach it at the origin, the hinge beside it; softmax does with two classes."""
    reached = [("squared", 1, 4.0), ("logistic", 1, 1.0), ("hinge", 1, 4.0), ("softmax", 2, 2.0)]
    for loss, outputs, expected in reached:
        model = LinearModel(3, outputs, loss, feature_norm=2.0)
        assert smoothness_of(model) == pytest.approx(expected)
        row = jnp.array([2.0, 0.0, 0.0])
        theta = jnp.full(model.dimension, -0.1 if loss == "hinge" else 0.0)
        value = jax.jit(jax.hessian(record_loss(model)))(theta, row, 0)
        assert np.linalg.eigvalsh(value).max() == pytest.approx(expected, rel=1e-5)
    assert smoothness_of(LinearModel(3, 2, "softmax")) is None
    biased = LinearModel(3, 1, "squared", feature_norm=2.0, bias=True)
    assert smoothness_of(biased) == pytest.approx(5.0)


def test_accuracy_and_r_squared():
    eye = jnp.eye(3)
    softmax = LinearModel(3, 3, "softmax")
    assert float(scored(softmax)(eye.ravel(), eye, jnp.array([0, 1, 0])).accuracy) == pytest.approx(2 / 3)
    logistic, line = LinearModel(1, 1, "logistic"), jnp.array([[-1.0], [2.0], [3.0], [-4.0]])
    assert float(scored(logistic)(jnp.ones(1), line, jnp.array([0, 1, 0, 0])).accuracy) == 0.75
    machine = LinearModel(1, 1, "hinge")
    assert float(scored(machine)(jnp.ones(1), line, jnp.array([0, 1, 0, 0])).accuracy) == 0.75
    squared, x = LinearModel(1, 1, "squared"), jnp.array([[1.0], [2.0], [3.0]])
    assert float(scored(squared)(jnp.ones(1), x, jnp.array([1.0, 2.0, 6.0])).accuracy) == pytest.approx(
        5 / 14
    )
    assert float(scored(squared)(jnp.ones(1), x, jnp.full(3, 2.0)).accuracy) == 0.0


def test_dimension_start_and_identity():
    model = LinearModel(784, 10, "softmax")
    assert model.dimension == 7840
    assert LinearModel(784, 10, "softmax", bias=True).dimension == 7850
    assert isinstance(model, Task)
    assert model == LinearModel(784, 10, "softmax")
    assert hash(model) == hash(LinearModel(784, 10, "softmax"))
    assert not np.any(model.initial(jax.random.key(0)))
    assert model.initial(jax.random.key(0)).shape == (7840,)


@LOSSES
def test_an_untrained_model_answers_with_its_start_whatever_the_record(loss):
    start = (0.7, -0.2, -0.5) if loss == "softmax" else (-1.3,)
    model = LinearModel(2, len(start), loss, bias=0.3, feature_norm=1.0, start=start)
    x = model.prepare(jnp.array([[3.0, 4.0], [-0.1, 0.0]]))
    assert np.asarray(model.answers(model.initial(jax.random.key(0)), x)) == pytest.approx(
        np.tile(start, (2, 1)), rel=1e-6
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": 0}, "features must be at least 1"),
        ({"loss": "dice"}, "loss must be one of"),
        ({"loss": "hinge"}, "outputs must be between 1 and 1, got 2; hinge has one output"),
        ({"outputs": 1}, "outputs must be at least 2, got 1; softmax has one output per class"),
        (
            {"loss": "logistic", "outputs": 2},
            "outputs must be between 1 and 1, got 2; logistic has one output",
        ),
        ({"ridge": -0.1}, "ridge must be finite and at least 0"),
        ({"feature_norm": 0.0}, "feature_norm must be finite and above 0"),
        ({"normalise": True}, "normalise needs a feature_norm"),
        ({"start": (0.1, -0.1)}, "start must be a number for each output, with a bias"),
        ({"start": (0.1,), "bias": 1.0}, "start must be a number for each output, with a bias"),
        ({"start": (0.1, float("nan")), "bias": 1.0}, "start must be a number for each output"),
    ],
)
def test_bad_models_are_refused_by_name(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        LinearModel(**{"features": 3, "outputs": 2, "loss": "softmax", **arguments})


def test_records_of_another_width_are_refused():
    model = LinearModel(4, 2, "softmax", bias=True)
    with pytest.raises(InvalidInput, match="give every record that many numbers"):
        prepared(model)(jnp.ones((2, 5)))
    raw = Batch(jnp.ones((2, 4)), jnp.zeros(2, jnp.int32), jnp.ones(2))
    with pytest.raises(InvalidInput, match="prepare"):
        model.clipped_gradient_sum(jnp.zeros(10), raw, 1.0, "l2")
    with pytest.raises(InvalidInput, match="prepare"):
        scored(model)(jnp.zeros(10), raw.x, raw.y)
