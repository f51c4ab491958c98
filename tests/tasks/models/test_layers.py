"""Layers against plain NumPy, SciPy and XLA's own convolution."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import correlate

from noiseworthy.errors import InvalidInput
from noiseworthy.tasks.convolutions import quick
from noiseworthy.tasks.models import layers as nn

SHAPES = {
    "image": ((5, 5, 3, 2), (12, 8, 3)),
    "tall kernel": ((7, 3, 1, 4), (6, 9, 1)),
    "grey volume": ((3, 3, 3, 1, 2), (4, 6, 5, 1)),
    "volume": ((3, 3, 3, 2, 3), (4, 6, 5, 2)),
    "pointwise": ((1, 1, 1, 2, 3), (4, 2, 2, 2)),
}


def drawn(name):
    keys = jax.random.split(jax.random.key(0))
    return [jax.random.normal(key, shape) for key, shape in zip(keys, SHAPES[name], strict=True)]


def by_scipy(weight, x, mode="same"):
    """Float64 sums over input channels of two-sided correlations; by default they keep the size."""
    weight, x = np.asarray(weight, np.float64), np.asarray(x, np.float64)
    channels = [
        sum(correlate(x[..., i], weight[..., i, o], mode, "direct") for i in range(x.shape[-1]))
        for o in range(weight.shape[-1])
    ]
    return np.stack(channels, axis=-1)


@pytest.mark.full
@pytest.mark.parametrize("name", SHAPES)
def test_every_convolution_is_that_of_scipy(name):
    @jax.jit
    def ways(weight, x):
        return [nn.convolve(weight, x), quick(nn.convolve)(weight, x)]

    weight, x = drawn(name)
    expected = by_scipy(weight, x)
    for result in ways(weight, x):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.full
@pytest.mark.parametrize(("margin", "stride"), [(0, 1), (1, 1), (0, 2), (1, 2), (2, 3)])
@pytest.mark.parametrize("name", ["image", "volume"])
def test_margins_and_strides_take_their_windows(name, margin, stride):
    """Zeros around by NumPy, valid correlations by SciPy, and every so manieth of them."""
    weight, x = drawn(name)
    padded = np.pad(np.asarray(x, np.float64), [*[(margin, margin)] * (x.ndim - 1), (0, 0)])
    expected = by_scipy(weight, padded, "valid")[(slice(None, None, stride),) * (x.ndim - 1)]
    options = {"margin": margin, "stride": stride}
    convolve = partial(nn.convolve, **options)
    for result in (convolve(weight, x), quick(convolve)(weight, x)):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["image", "volume"])
def test_patches_have_the_gradients_of_the_plain_convolution(name):
    weight, x = drawn(name)
    target = jax.random.normal(jax.random.key(1), (*x.shape[:-1], weight.shape[-1]))

    def gradients(convolve):
        return jax.jit(jax.grad(lambda w, x: jnp.vdot(target, convolve(w, x)), (0, 1)))(weight, x)

    for mine, plain in zip(gradients(quick(nn.convolve)), gradients(nn.convolve), strict=True):
        np.testing.assert_allclose(mine, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(4, 6, 3), (5, 7, 2), (2, 4, 6, 2)])
def test_the_pool_takes_the_largest_of_each_block(shape):
    x = jax.random.normal(jax.random.key(0), shape)
    sides = (*[2] * (len(shape) - 1), 1)
    expected = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, sides, sides, "VALID")
    np.testing.assert_array_equal(nn.max_pool(x), expected)


@pytest.mark.parametrize("tied", [[0], [1, 3], [0, 1, 2], [0, 1, 2, 3]])
def test_the_gradient_of_the_pool_is_shared_equally_by_what_ties(tied):
    block = jnp.zeros(4).at[jnp.array(tied)].set(2.0)
    gradient = jax.grad(lambda x: nn.max_pool(x.reshape(2, 2, 1)).sum())(block)
    np.testing.assert_array_equal(gradient, np.isin(np.arange(4), tied) / np.float32(len(tied)))


def test_each_group_of_channels_has_mean_0_and_variance_1_before_scale_and_shift():
    x = np.random.default_rng(0).normal(3, 5, size=(4, 5, 6))
    layer = {"scale": jnp.arange(1.0, 7.0), "shift": jnp.arange(6.0)}
    groups = x.reshape(20, 3, 2)
    centred = groups - groups.mean(axis=(0, 2), keepdims=True)
    expected = (centred / np.sqrt((centred**2).mean(axis=(0, 2), keepdims=True) + 1e-5)).reshape(x.shape)
    expected = expected * np.arange(1, 7) + np.arange(6)
    np.testing.assert_allclose(nn.group_norm(layer, jnp.asarray(x, jnp.float32), 3), expected, atol=1e-4)


def test_a_constant_record_has_a_finite_gradient_through_the_norm():
    value = jax.grad(lambda x: jnp.sum(nn.group_norm(nn.norm_start(4), x, 2) ** 3))(jnp.ones((3, 3, 4)))
    assert np.all(np.isfinite(value))


def test_starts_have_the_spread_they_say():
    """Of 40,000 weights the variance has a relative deviation below 1 %; 5 % is never crossed by chance."""
    he, uniform = (start(jax.random.key(0), (10, 10, 4, 100)) for start in (nn.he_start, nn.uniform_start))
    assert float(jnp.var(he["weight"])) == pytest.approx(2 / 400, rel=0.05)
    assert not np.any(he["bias"])
    assert float(jnp.var(uniform["weight"])) == pytest.approx(1 / 400 / 3, rel=0.05)
    assert 0.019 < float(jnp.max(jnp.abs(uniform["bias"]))) <= 0.05
    assert float(jnp.max(jnp.abs(uniform["weight"]))) <= 0.05


def test_records_of_another_size_are_refused():
    flat = nn.as_shape(jnp.arange(12, dtype=jnp.uint8).reshape(2, 6), (2, 3), "it")
    np.testing.assert_array_equal(flat, np.arange(12, dtype=np.float32).reshape(2, 2, 3))
    with pytest.raises(InvalidInput, match=r"it was made for records of shape \(2, 3\), got \(5,\)"):
        nn.as_shape(jnp.ones((4, 5)), (2, 3), "it")
