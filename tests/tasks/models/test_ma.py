"""The small convolutional networks of Ma et al.: their sizes, their layers in order, their records."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from noiseworthy.errors import InvalidInput
from noiseworthy.tasks import Batch, group_cnn, lenet5, ma_cnn

# maker; (kernel, channels, zeros around) twice; widths of hidden dense layers; groups of the norm
NETWORKS = {
    "ma-cnn": (ma_cnn, ((3, 4, 1), (3, 8, 1)), (), 0),
    "lenet5": (lenet5, ((5, 6, 2), (5, 16, 0)), (120, 84), 0),
    "group-cnn": (group_cnn, ((5, 8, 1), (5, 16, 1)), (120, 84), 4),
}
EACH = pytest.mark.parametrize("name", NETWORKS)


@pytest.mark.parametrize(
    ("task", "dimension"),
    [
        (ma_cnn(), 4_266),
        (lenet5(), 61_706),
        (group_cnn(), 67_026),
        (ma_cnn(10, (32, 32, 3)), 112 + 296 + 512 * 10 + 10),
        (lenet5(10, (32, 32, 3)), 456 + 2_416 + (576 * 120 + 120) + 10_164 + 850),
    ],
)
def test_the_networks_have_the_parameters_of_the_paper(task, dimension):
    assert task.dimension == dimension
    assert jax.eval_shape(task.initial, jax.random.key(0)).shape == (dimension,)


def taken(theta, *shapes):
    """Bias and weight (or shift and scale) of each layer from the front of theta, and the rest."""
    layers = []
    for shape in shapes:
        first, second, theta = np.split(theta, [shape[-1], shape[-1] + int(np.prod(shape))])
        layers.append((first, second.reshape(shape)))
    return layers, theta


def convolved(x, weight, margin):
    windows = sliding_window_view(np.pad(x, [(margin, margin)] * 2 + [(0, 0)]), weight.shape[:2], (0, 1))
    return np.einsum("hwikl,klio->hwo", windows, weight)


def standardised(x, groups):
    parts = np.split(x, groups, axis=2)
    return np.concatenate([(g - g.mean()) / np.sqrt(g.var() + 1e-5) for g in parts], axis=2)


def pooled(x):
    height, width = (side // 2 for side in x.shape[:2])
    return x[: 2 * height, : 2 * width].reshape(height, 2, width, 2, -1).max(axis=(1, 3))


def textbook(name, theta, x, classes):
    """Convolution, group norm, ReLU, pool; then dense layers. theta: conv, dense, norm; bias first."""
    _, convolutions, hidden_widths, groups = NETWORKS[name]
    inputs = (x.shape[2], convolutions[0][1])
    kernels, rest = taken(theta, *[(k, k, i, o) for (k, o, _), i in zip(convolutions, inputs, strict=True)])
    tail = sum(2 * outputs for _, outputs, _ in convolutions) if groups else 0
    dense, norms = np.split(rest, [rest.size - tail])
    for (bias, weight), (_, outputs, margin) in zip(kernels, convolutions, strict=True):
        x = convolved(x, weight, margin) + bias
        if groups:
            scale, shift, norms = np.split(norms, [outputs, 2 * outputs])
            x = standardised(x, groups) * scale + shift
        x = pooled(np.maximum(x, 0))
    layers, rest = taken(dense, *pairwise((x.size, *hidden_widths, classes)))
    assert rest.size == norms.size == 0
    x = x.ravel()
    for bias, weight in layers[:-1]:
        x = np.maximum(x @ weight + bias, 0)
    return x @ layers[-1][1] + layers[-1][0]


@EACH
def test_the_network_is_the_textbook_one(name):
    """Random parameters throughout, so that biases, scales and shifts count; 13 leaves odd sides to pool."""
    task, rng = NETWORKS[name][0](3, (13, 16, 3)), np.random.default_rng(1)
    theta = jnp.asarray(0.3 * rng.normal(size=task.dimension), jnp.float32)
    x = jnp.asarray(rng.normal(size=(13, 16, 3)), jnp.float32)
    expected = textbook(name, np.asarray(theta, np.float64), np.asarray(x, np.float64), 3)
    np.testing.assert_allclose(jax.jit(task.outputs)(theta, x), expected, rtol=1e-3, atol=1e-3)


def test_one_record_does_not_reach_the_gradient_of_another():
    """With batch norm it would. The sum over two records less that over one is the second one's own."""
    task = group_cnn(3, (10, 10))
    theta = task.initial(jax.random.key(0))
    x = task.prepare(jax.random.normal(jax.random.key(1), (3, 10, 10)))
    total = jax.jit(
        lambda x, mask: task.clipped_gradient_sum(theta, Batch(x, jnp.arange(2), mask), 1e6, "l2")
    )
    alone = total(x[:2], jnp.array([0.0, 1.0]))
    for other in (x[0], 30 * x[2]):
        pair = jnp.stack([other, x[1]])
        own = total(pair, jnp.ones(2)) - total(pair, jnp.array([1.0, 0.0]))
        np.testing.assert_allclose(own, alone, atol=1e-3 * float(jnp.max(jnp.abs(alone))))


def test_flat_records_get_their_axes_back():
    x = np.arange(2 * 784, dtype=np.float32).reshape(2, 784)
    np.testing.assert_array_equal(lenet5().prepare(x), x.reshape(2, 28, 28))
    with pytest.raises(InvalidInput, match=r"lenet5 was made for records of shape \(28, 28\), got \(16,\)"):
        lenet5().prepare(np.ones((2, 16)))


@pytest.mark.parametrize(("name", "least"), [("ma-cnn", 4), ("lenet5", 12), ("group-cnn", 10)])
def test_images_that_leave_nothing_are_refused(name, least):
    make = NETWORKS[name][0]
    assert make(2, (least, least)).record_shape == (least, least)
    for image in ((least - 1, 28), (28, least - 1), (28,), (28, 28, 0), (28, 28, 1, 1)):
        with pytest.raises(InvalidInput, match=f"{name} needs images .* with sides of at least {least}"):
            make(10, image)


@EACH
def test_one_class_is_refused(name):
    with pytest.raises(InvalidInput, match="classes must be at least 2"):
        NETWORKS[name][0](1)
