"""VGG-11 with group norm: sizes, padding, and the layers in their order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.errors import InvalidInput
from noiseworthy.tasks import vgg11
from noiseworthy.tasks.models.layers import convolve

CHANNELS = (64, 128, 256, 256, 512, 512, 512, 512)
POOLED = {0, 1, 3, 5, 7}


@pytest.mark.parametrize("colours", [1, 3])
def test_the_parameters_are_those_of_configuration_a_with_one_dense_layer(colours):
    """Nine weights and a bias per pair of channels, scale and shift of the norm, and 512 by 2."""
    image = (224, 224, 3) if colours == 3 else (28, 28)
    inputs = (colours, *CHANNELS[:-1])
    expected = sum(9 * i * o + 3 * o for i, o in zip(inputs, CHANNELS, strict=True)) + 512 * 2 + 2
    assert vgg11(2, image).dimension == expected


def textbook(theta, x):
    """Convolution by XLA, standardised groups, ReLU, pools after 1, 2, 4, 6 and 8; theta is flat."""
    sizes = [(o, 9 * i * o) for i, o in zip((1, *CHANNELS[:-1]), CHANNELS, strict=True)]
    convolutions, rest = jnp.split(theta, [sum(map(sum, sizes))])
    dense_bias, dense_weight, norms = jnp.split(rest, [2, 2 + 1024])
    hidden = x[..., None]
    for i, (outputs, weights) in enumerate(sizes):
        bias, weight, convolutions = jnp.split(convolutions, [outputs, outputs + weights])
        hidden = convolve(weight.reshape(3, 3, -1, outputs), hidden) + bias
        scale, shift, norms = jnp.split(norms, [outputs, 2 * outputs])
        groups = jnp.stack(jnp.split(hidden, 32, axis=2))
        groups = jax.vmap(lambda g: (g - jnp.mean(g)) / jnp.sqrt(jnp.var(g) + 1e-5))(groups)
        hidden = jax.nn.relu(jnp.concatenate(groups, axis=2) * scale + shift)
        if i in POOLED:
            hidden = jax.lax.reduce_window(hidden, -jnp.inf, jax.lax.max, (2, 2, 1), (2, 2, 1), "VALID")
    return hidden.mean(axis=(0, 1)) @ dense_weight.reshape(512, 2) + dense_bias


@pytest.mark.full
def test_the_network_is_the_textbook_one():
    task, x = vgg11(2, (32, 32)), jax.random.normal(jax.random.key(1), (32, 32))
    theta = 1.5 * task.initial(jax.random.key(0))
    mine, expected = jax.jit(lambda theta, x: (task.outputs(theta, x), textbook(theta, x)))(theta, x)
    np.testing.assert_allclose(mine, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("image", "padded"), [((28, 28), (32, 32)), ((32, 33, 3), (32, 64, 3))])
def test_records_are_padded_evenly_to_multiples_of_32(image, padded):
    prepared = vgg11(2, image).prepare(np.ones((2, int(np.prod(image)))))
    assert prepared.shape == (2, *padded)
    assert float(prepared.sum()) == 2 * np.prod(image)
    top = (padded[0] - image[0]) // 2
    assert not np.any(prepared[:, :top])
    assert np.all(np.asarray(prepared[:, top : top + image[0], (padded[1] - image[1]) // 2]) == 1)


def test_large_images_in_colour_fit():
    task = vgg11(2, (224, 224, 3))
    theta = jax.ShapeDtypeStruct((task.dimension,), jnp.float32)
    record = jax.ShapeDtypeStruct((224, 224, 3), jnp.float32)
    assert jax.eval_shape(task.outputs, theta, record).shape == (2,)


@pytest.mark.parametrize("image", [(28,), (28, 0), (2, 2, 2, 2)])
def test_other_records_are_refused(image):
    with pytest.raises(InvalidInput, match="vgg11 needs images"):
        vgg11(2, image)
