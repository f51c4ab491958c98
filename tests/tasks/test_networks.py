"""Models a user brings: per-record clipping by autodiff, chunk by chunk, and mean gradients."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_privacy.clipping import clipped_grad

from noiseworthy.errors import InvalidInput
from noiseworthy.tasks import Batch, LinearModel, Task, equinox_task, model_task
from noiseworthy.tasks import make_task as built
from noiseworthy.tasks.networks import check_fits

N, FEATURES, CLASSES, ORDER = 23, 5, 3, {"l1": 1, "l2": 2}
NORMS = pytest.mark.parametrize("norm", ORDER)


def apply(params, x):
    return jnp.tanh(x @ params["first"]) @ params["second"]


def make_params():
    rng = np.random.default_rng(0)
    return {"first": rng.normal(size=(FEATURES, 4)), "second": rng.normal(size=(4, CLASSES))}


def make_batch(seed=0):
    rng = np.random.default_rng(seed)
    x = jnp.asarray(rng.normal(size=(N, FEATURES)), jnp.float32)
    return Batch(x, jnp.asarray(rng.integers(0, CLASSES, N), jnp.int32), jnp.ones(N))


@cache
def make_task(chunk=50):
    return model_task(apply, make_params(), chunk=chunk)


def start(task):
    return task.initial(jax.random.key(0))


@cache
def compiled(task, norm):
    return jax.jit(lambda batch, clip_norm: task.clipped_gradient_sum(start(task), batch, clip_norm, norm))


@cache
def compiled_score(task):
    return jax.jit(task.score)


def exact_gradients(task, theta, batch):
    def loss(theta, x, y):
        return -jax.nn.log_softmax(task.outputs(theta, x))[y]

    return np.asarray(jax.jit(jax.vmap(jax.grad(loss), (None, 0, 0)))(theta, batch.x, batch.y), np.float64)


@NORMS
def test_the_sum_is_that_of_clipped_gradients(norm):
    task, batch = make_task(), make_batch()
    gradients = exact_gradients(task, start(task), batch)
    sizes = np.linalg.norm(gradients, ORDER[norm], axis=1)
    clip_norm = np.median(sizes)
    expected = (gradients * np.minimum(1, clip_norm / sizes)[:, None]).sum(axis=0)
    result = compiled(task, norm)(batch, clip_norm)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:optax.global_norm:DeprecationWarning")
def test_jax_privacy_gives_the_same_sum():
    task, batch = make_task(), make_batch()

    def loss(params, x, y):
        return -jax.nn.log_softmax(apply(params, x))[y]

    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), make_params())
    oracle = clipped_grad(loss, l2_clip_norm=0.6, batch_argnums=(1, 2), keep_batch_dim=False)
    expected = jax.flatten_util.ravel_pytree(oracle(params, batch.x, batch.y))[0]
    result = compiled(task, "l2")(batch, 0.6)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("chunk", [1, 7, 22])
def test_the_chunk_does_not_change_the_sum(chunk):
    batch = make_batch()._replace(mask=(jnp.arange(N) != 3).astype(jnp.float32))
    expected = compiled(make_task(), "l2")(batch, 0.5)
    task = make_task(chunk)
    np.testing.assert_allclose(compiled(task, "l2")(batch, 0.5), expected, atol=1e-5)
    np.testing.assert_allclose(
        compiled_score(task)(start(task), batch.x, batch.y),
        compiled_score(make_task())(start(task), batch.x, batch.y),
        rtol=1e-5,
    )


@NORMS
@pytest.mark.parametrize("scale", [1e-25, 1e-3, 1.0, 1e3, 1e15])
def test_no_record_exceeds_the_clip(norm, scale):
    task = model_task(lambda w, x: x * scale @ w, np.ones((FEATURES, CLASSES)))
    batch = make_batch(1)
    one = jax.jit(lambda x, y, c: task.clipped_gradient_sum(start(task), Batch(x, y, jnp.ones(1)), c, norm))
    for i in range(N):
        for clip_norm in (np.float32(1e-27), np.float32(0.3)):
            result = np.asarray(one(batch.x[i : i + 1], batch.y[i : i + 1], clip_norm), np.float64)
            assert np.linalg.norm(result, ORDER[norm]) <= clip_norm


@NORMS
def test_clipped_records_keep_half_the_margin_and_waste_no_more_than_four(norm):
    task, batch, margin = make_task(), make_batch(2), 2.0**-20
    one = jax.jit(lambda x, y: task.clipped_gradient_sum(start(task), Batch(x, y, jnp.ones(1)), 1e-3, norm))
    for i in range(N):
        result = np.asarray(one(batch.x[i : i + 1], batch.y[i : i + 1]), np.float64)
        size = np.linalg.norm(result, ORDER[norm]) / np.float64(np.float32(1e-3))
        assert 1 - 4 * margin <= size <= 1 - margin / 2


@NORMS
def test_one_record_moves_the_sum_by_at_most_its_sensitivity(norm):
    task, batch = make_task(), make_batch()
    other = batch._replace(x=batch.x.at[5].set(-50.0), y=batch.y.at[5].set((batch.y[5] + 1) % CLASSES))
    without = batch._replace(mask=batch.mask.at[5].set(0.0))
    total, replaced, removed = (np.asarray(compiled(task, norm)(b, 0.2)) for b in (batch, other, without))
    assert np.linalg.norm(total - replaced, ORDER[norm]) <= 0.4 + 1e-5
    assert np.linalg.norm(total - removed, ORDER[norm]) == pytest.approx(0.2, abs=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_a_gradient_that_is_not_finite_contributes_zero(bad):
    task, batch = model_task(lambda w, x: x @ w, np.ones((FEATURES, CLASSES))), make_batch()
    broken = batch._replace(x=batch.x.at[4].set(bad))
    without = batch._replace(mask=batch.mask.at[4].set(0.0))
    expected = compiled(task, "l2")(without, 0.5)
    np.testing.assert_allclose(compiled(task, "l2")(broken, 0.5), expected, atol=1e-5)


def test_padding_contributes_nothing():
    task, batch = make_task(4), make_batch()
    masked = batch._replace(mask=(jnp.arange(N) < 9).astype(jnp.float32), x=batch.x.at[20].set(jnp.nan))
    short = Batch(*(values[:9] for values in batch))
    expected = compiled(task, "l1")(short, 0.5)
    np.testing.assert_allclose(compiled(task, "l1")(masked, 0.5), expected, atol=1e-5)


@pytest.mark.full
@NORMS
@pytest.mark.parametrize("loss", ["softmax", "logistic", "hinge", "squared"])
def test_a_linear_function_agrees_with_the_linear_model(loss, norm):
    outputs, batch = CLASSES if loss == "softmax" else 1, make_batch()
    if loss != "softmax":
        batch = batch._replace(y=(batch.y > 0).astype(jnp.int32))
    general = model_task(lambda w, x: x @ w, np.full((FEATURES, outputs), 0.1), loss)
    linear, theta = LinearModel(FEATURES, outputs, loss), start(general)
    np.testing.assert_allclose(
        compiled(general, norm)(batch, 0.5),
        jax.jit(linear.clipped_gradient_sum, static_argnums=3)(theta, batch, 0.5, norm),
        rtol=1e-4,
        atol=1e-5,
    )
    np.testing.assert_allclose(
        compiled_score(general)(theta, batch.x, batch.y),
        compiled_score(linear)(theta, batch.x, batch.y),
        rtol=1e-5,
    )


@cache
def compiled_gradient(task):
    return jax.jit(task.gradient)


@pytest.mark.parametrize("chunk", [1, 7, 50])
@pytest.mark.parametrize("kept", [1, 9, N])
def test_the_mean_gradient_is_that_of_the_records_that_count(chunk, kept):
    """Chunks of 1 and 7 leave some that are padding throughout, and one that is not full."""
    task, batch = make_task(chunk), make_batch()
    expected = exact_gradients(task, start(task), batch)[:kept].mean(axis=0)
    spoilt = batch._replace(mask=(jnp.arange(N) < kept).astype(jnp.float32), x=batch.x.at[kept:].set(jnp.nan))
    np.testing.assert_allclose(compiled_gradient(task)(start(task), spoilt), expected, rtol=1e-4, atol=1e-5)


def test_parts_of_the_records_are_added_up_parameter_by_parameter():
    """XLA on CPU puts them in a row number by number, which is dear in a loop."""
    task, batch = make_task(chunk=7), make_batch()
    program = jax.make_jaxpr(task.gradient)(task.initial(jax.random.key(0)), batch)
    (loop,) = (e for e in program.jaxpr.eqns if e.primitive.name == "scan")
    assert loop.params["num_carry"] == len(task.names) > 1


def test_the_mean_gradient_is_the_slope_of_the_mean_loss():
    task, batch = make_task(), make_batch()
    theta, step = start(task), 1e-2
    direction = jax.random.normal(jax.random.key(2), theta.shape)
    ahead, behind = (
        compiled_score(task)(theta + sign * step * direction, batch.x, batch.y).loss for sign in (1, -1)
    )
    slope = jnp.vdot(compiled_gradient(task)(theta, batch), direction)
    assert float(slope) == pytest.approx(float(ahead - behind) / (2 * step), rel=1e-2)


@pytest.mark.parametrize("chunk", [1, 7, 50])
def test_losses_are_those_of_the_records_whatever_the_padding_holds(chunk):
    task, batch = make_task(chunk), make_batch()
    scores = np.asarray(jax.nn.log_softmax(apply(make_params(), batch.x)))
    expected = -scores[np.arange(N), batch.y]
    spoilt = batch._replace(mask=(jnp.arange(N) < 9).astype(jnp.float32), x=batch.x.at[9:].set(jnp.nan))
    np.testing.assert_allclose(jax.jit(task.losses)(start(task), batch), expected, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(task.losses)(start(task), spoilt)[:9], expected[:9], rtol=1e-5)


def test_the_shape_of_records_is_what_the_user_says():
    module = eqx.nn.Linear(FEATURES, CLASSES, key=jax.random.key(0))
    assert make_task().record_shape is None
    assert equinox_task(module, record_shape=(FEATURES,)).record_shape == (FEATURES,)


def test_a_client_without_records_has_gradient_zero():
    task, batch = make_task(), make_batch()
    empty = batch._replace(mask=jnp.zeros(N), x=jnp.full_like(batch.x, jnp.nan))
    np.testing.assert_array_equal(compiled_gradient(task)(start(task), empty), np.zeros(task.dimension))


def test_padding_cannot_spoil_a_model_that_is_undefined_at_zero():
    task = model_task(lambda w, x: (x / jnp.linalg.norm(x)) @ w, np.ones((FEATURES, CLASSES)), chunk=5)
    batch = make_batch()
    masked = batch._replace(mask=(jnp.arange(N) < 9).astype(jnp.float32), x=batch.x.at[9:].set(0.0))
    expected = task.gradient(start(task), Batch(*(values[:9] for values in batch)))
    np.testing.assert_allclose(task.gradient(start(task), masked), expected, rtol=1e-4, atol=1e-5)


def test_a_linear_function_has_the_mean_gradient_of_the_linear_model():
    batch = make_batch()
    general = model_task(lambda w, x: x @ w, np.full((FEATURES, CLASSES), 0.1), ridge=2.0)
    linear, theta = LinearModel(FEATURES, CLASSES, "softmax"), start(general)
    np.testing.assert_allclose(general.gradient(theta, batch), linear.gradient(theta, batch), atol=1e-5)


def test_an_equinox_module_works_like_the_function_it_is():
    module = eqx.nn.MLP(FEATURES, CLASSES, width_size=4, depth=1, key=jax.random.key(0))
    task, batch = equinox_task(module), make_batch()
    assert task.dimension == FEATURES * 4 + 4 + 4 * CLASSES + CLASSES
    np.testing.assert_allclose(module(batch.x[0]), task.outputs(start(task), batch.x[0]), rtol=1e-5)
    gradients = exact_gradients(task, start(task), batch)
    expected = (gradients * np.minimum(1, 0.5 / np.linalg.norm(gradients, axis=1))[:, None]).sum(axis=0)
    np.testing.assert_allclose(compiled(task, "l2")(batch, 0.5), expected, rtol=1e-4, atol=1e-5)


def test_a_loss_of_the_user_is_differentiated_and_has_no_accuracy():
    mine = model_task(apply, make_params(), lambda z, y: -jax.nn.log_softmax(z)[y])
    batch, theta = make_batch(), start(mine)
    np.testing.assert_allclose(
        compiled(mine, "l2")(batch, 0.5), compiled(make_task(), "l2")(batch, 0.5), atol=1e-5
    )
    loss, accuracy = compiled_score(mine)(theta, batch.x, batch.y)
    assert float(loss) == pytest.approx(float(compiled_score(make_task())(theta, batch.x, batch.y).loss))
    assert np.isnan(accuracy)


def test_tasks_are_static_arguments_and_prepare_changes_nothing():
    task, batch = make_task(), make_batch()
    assert isinstance(task, Task)
    assert hash(task) == hash(make_task())
    assert task != model_task(apply, make_params())
    np.testing.assert_array_equal(task.prepare(batch.x), batch.x)
    assert task.prepare(np.arange(6, dtype=np.uint8).reshape(2, 3)).dtype == jnp.int32
    assert task.prepare(np.ones((2, 3))).dtype == jnp.float32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loss": "huber"}, "loss must be one of .* or a function"),
        ({"params": {}}, "dimension must be at least 1, got 0; give the model at least one parameter"),
        ({"ridge": -1.0}, "ridge must be finite and at least 0"),
        ({"chunk": 0}, "chunk must be at least 1"),
        ({"params": {"w": np.ones((3, 2)) * 1j}}, "parameters must be real, got complex ones"),
        (
            {"params": {"w": np.full((3, 2), np.nan)}},
            r"parameters must be finite, got NaN or infinity in \['w'\]",
        ),
        (
            {"params": {"w": np.zeros(3), "b": np.array(np.inf)}},
            r"must be finite, got NaN or infinity in \['b'\]",
        ),
    ],
)
def test_bad_models_are_refused_by_name(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        model_task(**{"apply": apply, "params": make_params(), **arguments})


@pytest.mark.full
@pytest.mark.parametrize("name", ["cnn", "ma-cnn"])
def test_networks_are_the_same_where_float64_is_enabled(name):
    def told():
        task = built(name, (16, 16), 4)
        theta, x = task.initial(jax.random.key(0)), task.prepare(np.ones((2, 16, 16), np.float32))
        batch = Batch(x, jnp.array([0, 3], jnp.int32), jnp.ones(2, jnp.float32))
        return theta, task.clipped_gradient_sum(theta, batch, 0.5, "l2")

    expected = told()
    with jax.enable_x64(True):
        found = told()
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_outputs_of_several_arrays_are_scored_by_a_loss_of_the_user():
    task = model_task(
        lambda w, x: (x @ w, x.sum()), np.ones((FEATURES, CLASSES)), lambda z, y: z[0][y] - z[1]
    )
    batch = make_batch()
    assert float(task.score(start(task), batch.x, batch.y).loss) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(
    ("loss", "label", "classes", "outputs", "said"),
    [
        ("tokens", (4,), 9, (4, 5), r"return shape \(4, 9\), a number for each class .* got shape \(4, 5\)"),
        ("dice", (4, 3), 2, (), r"return shape \(4, 3\) for one record .* got shape \(\) and the loss dice"),
        ("logistic", (), 2, (2,), r"must return one number for one record .* got shape \(2,\)"),
        ("logistic", (), 3, (3,), r"got shape \(3,\) and the loss logistic; take softmax"),
    ],
)
def test_outputs_that_a_loss_would_take_for_others_are_refused(loss, label, classes, outputs, said):
    """Labels that no output is for would train as none of them, and one number as that of every voxel."""
    task = model_task(lambda w, x: jnp.zeros(outputs) + w, np.zeros(()), loss)
    with pytest.raises(InvalidInput, match=said):
        check_fits("it", task, np.zeros((1, 4), np.int32), np.zeros((1, *label), np.int32), classes)
