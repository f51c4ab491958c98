"""The convolutional network of Zhou et al., with convolutions that stay fast under per-record gradients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.tasks.losses import LOSSES
from noiseworthy.tasks.networks import ModelTask

Layer = dict[str, Array]


def paper_cnn(classes: int = 62, image: Sequence[int] = (28, 28), *, ridge: float = 0.0) -> ModelTask:
    """Two 5x5 convolutions (16, 32 channels, padding 2), each with ReLU and 2x2 max pool; a dense layer.

    For 62 classes and 28x28 images: 416 + 12,832 + 97,278 = 110,526 parameters. Equal arguments give the
    same object, so compiled programs are reused.

    Args:
        classes: number of classes K, at least 2.
        image: height and width of a record, multiples of 4 (two pools halve them twice).
        ridge: weight mu of (mu/2)||theta||^2, at least 0.

    Returns:
        A `ModelTask` with softmax loss; its start is random (He, biases 0), drawn from the key.

    Raises:
        InvalidInput: fewer than 2 classes, an image of another shape, a negative ridge.

    Example:
        >>> paper_cnn(10).dimension
        28938

    Source: Zhou et al., experiments; theory 1.7.
    """
    check.count("classes", classes, least=2)
    if len(image) != 2 or any(side < 4 or side % 4 for side in image):
        raise InvalidInput(
            f"the cnn needs images (H, W) with H and W multiples of 4, got {image}; crop or pad the images"
        )
    return _cnn(classes, tuple(image), ridge)


@cache
def _cnn(classes: int, image: tuple[int, ...], ridge: float) -> ModelTask:
    shapes = {"conv1": (5, 5, 1, 16), "conv2": (5, 5, 16, 32), "dense": (image[0] * image[1] * 2, classes)}

    def initial(key: Array) -> dict[str, Layer]:
        keys = jax.random.split(key, len(shapes))
        return {name: _layer(key, shape) for key, (name, shape) in zip(keys, shapes.items(), strict=True)}

    template = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), jax.eval_shape(initial, jax.random.key(0)))
    flat, unflatten = ravel_pytree(template)
    return ModelTask(
        outputs=lambda theta, x: _apply(unflatten(theta), x),
        start=lambda key: ravel_pytree(initial(key))[0],
        dimension=flat.size,
        loss=LOSSES["softmax"],
        ridge=ridge,
    )


def _layer(key: Array, shape: tuple[int, ...]) -> Layer:
    """He initialisation: normal weights of variance 2 / fan-in, biases 0."""
    return {"weight": jax.nn.initializers.he_normal()(key, shape, jnp.float32), "bias": jnp.zeros(shape[-1])}


def _apply(params: dict[str, Layer], x: Array) -> Array:
    hidden = _stage(params["conv1"], x[..., None])
    hidden = _stage(params["conv2"], hidden)
    return hidden.ravel() @ params["dense"]["weight"] + params["dense"]["bias"]


def _stage(layer: Layer, x: Array) -> Array:
    """Convolution, max pool, ReLU. ReLU and maximum commute; this order rectifies a quarter as many."""
    convolve = _convolve_patches if jax.default_backend() == "cpu" else _convolve
    return jax.nn.relu(_max_pool(convolve(layer["weight"], x) + layer["bias"]))


def _convolve(weight: Array, x: Array) -> Array:
    """Convolution of one image (H, W, in) with (k, k, in, out), k odd, to (H, W, out)."""
    return jax.lax.conv_general_dilated(
        x[None], weight, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )[0]


def _convolve_patches(weight: Array, x: Array) -> Array:
    """The same as patches times a matrix: under vmap(grad), XLA on CPU runs this about 8 times faster."""
    size, margin = weight.shape[0], weight.shape[0] // 2
    height, width, _ = x.shape
    padded = jnp.pad(x, ((margin, margin), (margin, margin), (0, 0)))
    shifted = [padded[i : i + height, j : j + width] for i in range(size) for j in range(size)]
    return jnp.concatenate(shifted, axis=-1) @ weight.reshape(-1, weight.shape[-1])


def _max_pool(x: Array) -> Array:
    """Maximum over 2x2 blocks of (H, W, channels)."""
    height, width, channels = x.shape
    return jnp.max(x.reshape(height // 2, 2, width // 2, 2, channels), axis=(1, 3))
