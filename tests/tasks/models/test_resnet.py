"""ResNet-20 with group norm: its size, and its layers against plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from noiseworthy.errors import InvalidInput
from noiseworthy.tasks import resnet20

CHANNELS = (16, 16, 16, 32, 32, 32, 64, 64, 64)


def test_the_parameters_are_those_of_the_paper():
    """3x3 weights, 1x1 weights of two shortcuts, scale and shift of 21 norms, a dense layer."""
    inputs = (16, *CHANNELS)
    wide = 27 * 16 + sum(9 * i * o + 9 * o * o for i, o in zip(inputs, CHANNELS, strict=False))
    narrow = 16 * 32 + 32 * 64
    norms = 2 * (16 + 2 * sum(CHANNELS) + 32 + 64)
    assert resnet20().dimension == wide + narrow + norms + 650 == 272_474
    assert resnet20(10, (32, 32)).dimension == 272_474 - 2 * 9 * 16


class Reader:
    """Flat parameters in the order of sorted names."""

    def __init__(self, theta):
        self.theta = theta

    def take(self, *shape):
        values, self.theta = np.split(self.theta, [int(np.prod(shape))])
        return values.reshape(shape)

    def convolution(self, kernel, inputs, outputs):
        return self.take(outputs), self.take(outputs), self.take(kernel, kernel, inputs, outputs)


def normed(layer, x, stride=1):
    """Products of windows, eight groups of channels standardised in turn, scale and shift."""
    scale, shift, weight = layer
    margin = weight.shape[0] // 2
    windows = sliding_window_view(np.pad(x, [(margin, margin)] * 2 + [(0, 0)]), weight.shape[:2], (0, 1))
    x = np.einsum("hwikl,klio->hwo", windows[::stride, ::stride], weight)
    parts = [(g - g.mean()) / np.sqrt(g.var() + 1e-5) for g in np.split(x, 8, axis=2)]
    return np.concatenate(parts, axis=2) * scale + shift


def textbook(theta, x, classes):
    read, inputs, blocks = Reader(theta), 16, []
    for outputs in CHANNELS:
        layers = [read.convolution(3, inputs, outputs), read.convolution(3, outputs, outputs)]
        blocks.append((*layers, read.convolution(1, inputs, outputs) if inputs != outputs else None))
        inputs = outputs
    bias, weight = read.take(classes), read.take(64, classes)
    hidden = np.maximum(normed(read.convolution(3, x.shape[2], 16), x), 0)
    assert read.theta.size == 0
    for first, second, shortcut in blocks:
        stride = 1 if shortcut is None else 2
        inner = normed(second, np.maximum(normed(first, hidden, stride), 0))
        hidden = np.maximum(inner + (hidden if shortcut is None else normed(shortcut, hidden, stride)), 0)
    return hidden.mean(axis=(0, 1)) @ weight + bias


@pytest.mark.parametrize("image", [(8, 12, 3), pytest.param((9, 9, 1), marks=pytest.mark.slow)])
def test_the_network_is_the_textbook_one(image):
    task, rng = resnet20(4, image), np.random.default_rng(1)
    theta = jnp.asarray(0.3 * rng.normal(size=task.dimension), jnp.float32)
    x = jnp.asarray(rng.normal(size=image), jnp.float32)
    expected = textbook(np.asarray(theta, np.float64), np.asarray(x, np.float64), 4)
    np.testing.assert_allclose(jax.jit(task.outputs)(theta, x), expected, rtol=1e-3, atol=1e-3)


def test_images_halve_twice():
    """Rows 32, 16, 8: what the mean over space sees is 8x8x64 numbers."""
    task = resnet20()
    shapes = str(jax.make_jaxpr(task.outputs)(jnp.zeros(task.dimension), jnp.zeros((32, 32, 3))))
    assert "f32[32,32,16]" in shapes
    assert "f32[16,16,32]" in shapes
    assert "f32[8,8,64]" in shapes
    assert "f32[4,4," not in shapes


@pytest.mark.parametrize("image", [(32,), (32, 0), (2, 2, 2, 2)])
def test_other_records_are_refused(image):
    with pytest.raises(InvalidInput, match="resnet20 needs images"):
        resnet20(10, image)


def test_one_class_is_refused():
    with pytest.raises(InvalidInput, match="classes must be at least 2"):
        resnet20(1)
