"""The convolutional networks of three papers: their sizes, their structure, their records."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.errors import InvalidInput
from noiseworthy.tasks import fu_cnn, paper_cnn, two_layer_cnn
from noiseworthy.tasks.models.layers import convolve

# maker, kernels, channels of its two convolutions
NETWORKS = {
    "paper": (paper_cnn, (5, 5), (16, 32)),
    "fu": (fu_cnn, (7, 3), (32, 64)),
    "two-layer": (two_layer_cnn, (5, 5), (32, 64)),
}


@pytest.mark.parametrize(
    ("task", "dimension"),
    [
        (paper_cnn(), 110_526),
        (paper_cnn(10), 416 + 12_832 + 15_690),
        (fu_cnn(), 1_600 + 18_496 + 194_494),
        (two_layer_cnn(), 2_432 + 51_264 + 40_970),
        (two_layer_cnn(62, (28, 28)), 832 + 51_264 + 194_494),
    ],
)
def test_the_networks_have_the_parameters_of_their_papers(task, dimension):
    assert task.dimension == dimension
    assert jax.eval_shape(task.initial, jax.random.key(0)).shape == (dimension,)


@pytest.mark.full
@pytest.mark.parametrize("image", [(8, 4), (8, 4, 3)])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_network_is_that_of_its_paper(name, image):
    """Convolution, ReLU, pool, twice, then dense, in the order of the papers and by XLA throughout."""
    make, kernels, channels = NETWORKS[name]
    task, x = make(3, image), jax.random.normal(jax.random.key(1), image)
    theta, fan = task.initial(jax.random.key(0)), (*(image[2:] or (1,)), channels[0])
    hidden, rest = x if x.ndim == 3 else x[..., None], theta
    for kernel, inputs, outputs in zip(kernels, fan, channels, strict=True):
        bias, weight, rest = jnp.split(rest, [outputs, outputs + kernel**2 * inputs * outputs])
        hidden = jax.nn.relu(convolve(weight.reshape(kernel, kernel, inputs, outputs), hidden) + bias)
        hidden = jax.lax.reduce_window(hidden, -jnp.inf, jax.lax.max, (2, 2, 1), (2, 2, 1), "VALID")
    expected = hidden.ravel() @ rest[3:].reshape(-1, 3) + rest[:3]
    np.testing.assert_allclose(task.outputs(theta, x), expected, rtol=1e-3, atol=1e-4)


def test_flat_records_get_their_axes_back():
    task, x = paper_cnn(3, (8, 4)), np.arange(64, dtype=np.uint8).reshape(2, 8, 4)
    prepared = task.prepare(x.reshape(2, 32))
    np.testing.assert_array_equal(prepared, x)
    assert prepared.dtype == jnp.float32
    with pytest.raises(InvalidInput, match=r"cnn was made for records of shape \(8, 4\), got \(16,\)"):
        task.prepare(np.ones((2, 16)))


@pytest.mark.full
def test_he_and_uniform_starts():
    """The dense weights of 62 classes: variance 2/1568 (He), 1/3136/3 (uniform), to 5 %."""
    he, uniform = paper_cnn(), two_layer_cnn(62, (28, 28))
    weights = he.initial(jax.random.key(0))[-1568 * 62 :], uniform.initial(jax.random.key(0))[-3136 * 62 :]
    assert float(jnp.var(weights[0])) == pytest.approx(2 / 1568, rel=0.05)
    assert float(jnp.var(weights[1])) == pytest.approx(1 / 3136 / 3, rel=0.05)


@pytest.mark.parametrize("image", [(28, 30), (28,), (28, 28, 0), (0, 4), (4, 4, 4, 1)])
@pytest.mark.parametrize("name", NETWORKS)
def test_images_that_cannot_be_halved_twice_are_refused(name, image):
    with pytest.raises(InvalidInput, match="multiples of 4"):
        NETWORKS[name][0](10, image)


@pytest.mark.parametrize("name", NETWORKS)
def test_one_class_is_refused(name):
    with pytest.raises(InvalidInput, match="classes must be at least 2"):
        NETWORKS[name][0](1, (28, 28))
