"""Personal input transforms: one clip over transform and parameters, against autodiff record by record."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noiseworthy.data.embedded import digits
from noiseworthy.errors import InvalidInput
from noiseworthy.tasks import Batch, LinearModel, lstm, model_task, paper_cnn, personalised, unet3d

FEATURES, N, ORDER = 6, 17, {"l1": 1, "l2": 2}
OUTPUTS = {"softmax": 4, "logistic": 1, "hinge": 1, "squared": 1}
NORMS = pytest.mark.parametrize("norm", ORDER)
LINEAR = [("softmax", False), ("softmax", True), ("logistic", True), ("hinge", False), ("squared", True)]


@cache
def task_of(name):
    """Linear models by (loss, bias); a network for images in three colours, and one for rows."""
    if name in ("colours", "rows"):
        shape = shape_of(name)
        weights = np.random.default_rng(3).normal(size=(np.prod(shape), 4))
        return model_task(lambda w, x: (x + jnp.tanh(x)).ravel() @ w, weights, record_shape=shape, chunk=5)
    return LinearModel(FEATURES, OUTPUTS[name[0]], name[0], bias=name[1], ridge=0.5)


def shape_of(name):
    return (2, 4, 3) if name == "colours" else (FEATURES,)


def problem(name, seed=0):
    """A task, phi near the identity and random records, the last of which are padding."""
    rng, personal = np.random.default_rng(seed), personalised(task_of(name))
    x = prepared(personal.shared)(jnp.asarray(rng.normal(size=(N, *shape_of(name)))))
    labels = rng.integers(0, 2, N) if "squared" not in name else rng.normal(size=N)
    phi = rng.normal(size=personal.dimension) * 0.5
    phi[: personal.transform_dimension] += np.asarray(personal.identity())
    batch = Batch(x, jnp.asarray(labels), (jnp.arange(N) < N - 3).astype(jnp.float32))
    return personal, jnp.asarray(phi, jnp.float32), batch


@cache
def plain_loss(name):
    """x -> gamma x + beta, then the shared model, written out; the bias is not touched."""
    task, shape = task_of(name), shape_of(name)
    channels, entries = (3 if name == "colours" else 1), int(np.prod(shape))

    def loss(phi, x, y):
        gamma, beta = phi[:channels], phi[channels : channels + entries].reshape(shape)
        theta = phi[channels + entries :]
        if not isinstance(task, LinearModel):
            return -jax.nn.log_softmax(task.outputs(theta, x * gamma + beta))[y]
        moved = jnp.append(x[:FEATURES] * gamma + beta, x[FEATURES:])
        return task.losses(theta, Batch(moved[None], y[None], jnp.ones(1)))[0]

    return loss


@cache
def plain_gradients(name):
    return jax.jit(jax.vmap(jax.grad(plain_loss(name)), (None, 0, 0)))


def by_hand(name, phi, batch, clip_norm, norm):
    """NumPy in float64 after autodiff: each whole gradient divided by max(1, norm / C), padding left out."""
    gradients = np.asarray(plain_gradients(name)(phi, batch.x, batch.y), np.float64)
    gradients = gradients[np.asarray(batch.mask) > 0]
    sizes = np.linalg.norm(gradients, ORDER[norm], axis=1)
    return (gradients / np.maximum(1, sizes / clip_norm)[:, None]).sum(axis=0), sizes


@cache
def prepared(task):
    return jax.jit(task.prepare)


@cache
def compiled(personal, norm):
    return jax.jit(lambda phi, batch, clip: personal.clipped_gradient_sum(phi, batch, clip, norm))


@NORMS
@pytest.mark.parametrize("name", [*LINEAR, "colours", "rows"], ids=str)
def test_the_sum_is_that_of_whole_gradients_clipped(name, norm):
    personal, phi, batch = problem(name)
    _, sizes = by_hand(name, phi, batch, 1.0, norm)
    for clip_norm in (np.median(sizes), 2 * np.max(sizes)):
        expected, _ = by_hand(name, phi, batch, clip_norm, norm)
        result = compiled(personal, norm)(phi, batch, clip_norm)
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-5 * np.max(np.abs(expected)))


@pytest.mark.parametrize("name", [*LINEAR, "colours", "rows"], ids=str)
def test_losses_are_those_of_the_plain_model(name):
    personal, phi, batch = problem(name)
    expected = jax.jit(jax.vmap(plain_loss(name), (None, 0, 0)))(phi, batch.x, batch.y)
    np.testing.assert_allclose(jax.jit(personal.losses)(phi, batch), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("name", [("softmax", True), "colours"], ids=str)
def test_the_identity_is_the_shared_task(name):
    personal, phi, batch = problem(name)
    q, theta = personal.transform_dimension, phi[personal.transform_dimension :]
    phi = jnp.concatenate([personal.identity(), theta])
    shared = jax.jit(personal.shared.clipped_gradient_sum, static_argnums=3)(theta, batch, 1e9, "l2")
    np.testing.assert_allclose(compiled(personal, "l2")(phi, batch, 1e9)[q:], shared, rtol=1e-4)
    losses = jax.jit(personal.losses)(phi, batch), jax.jit(personal.shared.losses)(theta, batch)
    np.testing.assert_allclose(*losses, rtol=1e-5)
    np.testing.assert_array_equal(personal.transformed(phi, batch.x), batch.x)


@NORMS
@pytest.mark.parametrize("loss", OUTPUTS)
@settings(max_examples=40, deadline=None)
@given(
    scales=st.lists(st.integers(-50, 50), min_size=FEATURES, max_size=FEATURES),
    weight_scale=st.integers(-40, 40),
    clip_exponent=st.integers(-20, 20),
    seed=st.integers(0, 1000),
)
def test_no_record_exceeds_the_clip_at_any_scale(loss, norm, scales, weight_scale, clip_exponent, seed):
    """Weights are of all signs, so that W r and x^T W r cancel in float32."""
    personal, phi, batch = problem((loss, False), seed)
    q = personal.transform_dimension
    phi = phi.at[q:].multiply(2.0**weight_scale)
    x = batch.x[:1] * 2.0 ** jnp.array(scales, jnp.float32)
    clip_norm = np.float32(2.0**clip_exponent)
    total = compiled(personal, norm)(phi, Batch(x, batch.y[:1], jnp.ones(1)), clip_norm)
    assert np.linalg.norm(np.asarray(total, np.float64), ORDER[norm]) <= clip_norm


@NORMS
def test_what_cancels_in_float32_is_bounded_all_the_same(norm):
    """x^T W r = 1e8 + 1 - 1e8 loses its 1 in float32; the gradient is (1, 1, 1, 1) times the slope -1."""
    personal = personalised(LinearModel(3, 1, "hinge"))
    batch = Batch(jnp.array([[1e8, 1.0, -1e8]]), jnp.ones(1), jnp.ones(1))
    phi = jnp.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    share = -float(compiled(personal, norm)(phi, batch, 1.0)[1])
    assert 0 < share * np.linalg.norm(np.ones(4), ORDER[norm]) <= 1.0


@NORMS
@pytest.mark.parametrize("name", [("softmax", True), "colours"], ids=str)
def test_a_replaced_record_moves_the_sum_by_twice_the_clip_at_most(name, norm):
    """And a removed one by C, when it is clipped: the bound is met, so no smaller one holds."""
    personal, phi, batch = problem(name)
    other = batch._replace(x=batch.x.at[4].multiply(-40.0), y=batch.y.at[4].set(1 - batch.y[4]))
    without = batch._replace(mask=batch.mask.at[4].set(0.0))
    total, replaced, removed = (
        np.asarray(compiled(personal, norm)(phi, b, 0.01)) for b in (batch, other, without)
    )
    assert np.linalg.norm(total - replaced, ORDER[norm]) <= 0.02 + 1e-5
    assert np.linalg.norm(total - removed, ORDER[norm]) == pytest.approx(0.01, abs=2e-4)


def test_a_clip_of_the_shared_part_alone_would_not_bound_the_whole():
    """The transform takes most of the norm here, so what is shared stays well below C."""
    personal, phi, batch = problem(("squared", False))
    q, one = personal.transform_dimension, batch._replace(mask=(jnp.arange(N) == 0).astype(jnp.float32))
    phi = phi.at[q:].multiply(20.0)
    whole = compiled(personal, "l2")(phi, one, 0.1)
    assert float(jnp.linalg.norm(whole)) == pytest.approx(0.1, rel=1e-3)
    assert float(jnp.linalg.norm(whole[q:])) < 0.05


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
@pytest.mark.parametrize("name", [("softmax", False), ("squared", True), "colours"], ids=str)
def test_a_record_that_is_not_finite_contributes_zero(name, bad):
    """Before `prepare` and after it: a linear model sees a row of zeros, which beta must not bring back."""
    personal, phi, batch = problem(name)
    raw = np.random.default_rng(0).normal(size=(N, *shape_of(name)))
    raw[2] = bad
    without = batch._replace(mask=batch.mask.at[2].set(0.0))
    expected = compiled(personal, "l2")(phi, without, 0.5)
    for x in (personal.shared.prepare(raw), batch.x.at[2].set(bad)):
        total = compiled(personal, "l2")(phi, batch._replace(x=x), 0.5)
        np.testing.assert_allclose(total, expected, atol=1e-5)


def test_padding_contributes_nothing():
    for name in (("softmax", True), "rows"):
        personal, phi, batch = problem(name)
        spoilt = batch._replace(x=batch.x.at[N - 3 :].set(jnp.nan))
        short = Batch(*(values[: N - 3] for values in batch))
        expected = compiled(personal, "l1")(phi, short, 0.5)
        np.testing.assert_allclose(compiled(personal, "l1")(phi, spoilt, 0.5), expected, atol=1e-5)


@pytest.mark.full
def test_steps_on_phi_learn_what_the_shared_model_of_others_misses():
    """Digits in the negative: a model fitted to the plain ones recovers by its transform, without theta."""
    data, task = digits(), LinearModel(64, 10, "softmax")
    plain = Batch(task.prepare(data.x[:300].reshape(300, -1)), jnp.asarray(data.y[:300]), jnp.ones(300))
    personal, negative = personalised(task), plain._replace(x=jnp.max(plain.x) - plain.x)
    q = personal.transform_dimension

    def fit(theta, _):
        return theta - 1.0 * task.gradient(theta, plain), None

    def adapt(phi, _):
        return phi.at[:q].add(-5e-3 * personal.clipped_gradient_sum(phi, negative, 100.0, "l2")[:q]), None

    theta = jax.jit(lambda: jax.lax.scan(fit, jnp.zeros(task.dimension), None, length=100)[0])()
    phi = jnp.concatenate([personal.identity(), theta])
    adapted = jax.jit(lambda phi: jax.lax.scan(adapt, phi, None, length=200)[0])(phi)
    before, after = (jnp.mean(personal.losses(phi, negative)) for phi in (phi, adapted))
    assert float(after) < 0.5 * float(before)


def test_dimensions_follow_the_records():
    """One gamma per colour, or one for all; one beta per entry; none for the bias."""
    expected = {("softmax", True): 1 + 6, "colours": 3 + 24, "rows": 1 + 6}
    for name, q in expected.items():
        personal = personalised(task_of(name))
        assert personal.transform_dimension == q == len(personal.identity())
        assert personal.dimension == q + personal.shared.dimension
        assert personal.ridge == personal.shared.ridge
    assert personalised(paper_cnn(10)).transform_dimension == 1 + 28 * 28


def test_equal_tasks_make_equal_values():
    first, second = (personalised(LinearModel(3, 1, "squared")) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert personalised(paper_cnn(10)) == personalised(paper_cnn(10))
    assert first != personalised(LinearModel(4, 1, "squared"))


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (lstm(5, 3, embedding=2, hidden=2), "for features and images, got a task on tokens or volumes"),
        (unet3d((4, 4, 4), channels=4), "for features and images, got a task on tokens or volumes"),
        (model_task(lambda w, x: x @ w, np.ones((3, 2))), "got record_shape None; write model_task"),
        ("softmax", "task must be a LinearModel or a ModelTask, got str"),
    ],
)
def test_tasks_without_a_transform_are_refused(task, message):
    with pytest.raises(InvalidInput, match=message):
        personalised(task)


@pytest.mark.parametrize("name", [("softmax", True), "colours"], ids=str)
def test_records_of_another_kind_are_refused(name):
    personal, phi, batch = problem(name)
    whole, flat = batch._replace(x=batch.x.astype(jnp.int32)), batch._replace(x=jnp.ones((N, 5)))
    for call in (
        lambda b: personal.losses(phi, b),
        lambda b: personal.clipped_gradient_sum(phi, b, 1.0, "l2"),
    ):
        with pytest.raises(InvalidInput, match="records of real numbers, got int32"):
            call(whole)
        with pytest.raises(
            InvalidInput, match=r"x must have shape \(n, .*, got \(17, 5\); pass records through"
        ):
            call(flat)
