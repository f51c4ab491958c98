"""Convolutional networks of Zhou et al., Fu et al. and Hou et al.: two convolutions and a dense layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

from jax.flatten_util import ravel_pytree
from numpy.typing import ArrayLike

from noiseworthy._jax import Array, jax, jnp
from noiseworthy.tasks.models import layers as nn
from noiseworthy.tasks.networks import CHUNK, ModelTask


@dataclass(frozen=True)
class _Design:
    """Sides of the square kernels, channels after each convolution, where weights start, records at once."""

    kernels: tuple[int, ...]
    channels: tuple[int, ...]
    start: nn.Start
    chunk: int = CHUNK


_ZHOU = _Design((5, 5), (16, 32), nn.he_start)
_FU = _Design((7, 3), (32, 64), nn.he_start)
_HOU = _Design((5, 5), (32, 64), nn.uniform_start, chunk=16)
DESIGNS = {"cnn": _ZHOU, "fu-cnn": _FU, "two-layer-cnn": _HOU}
"""By the names of the networks in study files."""


def paper_cnn(classes: int = 62, image: Sequence[int] = (28, 28), *, ridge: float = 0.0) -> ModelTask:
    """Zhou et al.: 5x5 convolutions of 16 and 32 channels, each with ReLU and 2x2 max pool; a dense layer.

    For 62 classes and 28x28 images: 416 + 12,832 + 97,278 = 110,526 parameters. Convolutions keep the size
    of the image (padding 2). Sides are multiples of 4 (two pools halve them twice); else arguments, result
    and errors are those of `ma_cnn`.

    Example:
        >>> paper_cnn(10).dimension
        28938

    Source: Zhou et al., experiments; docs/theory/zhou.md#experiments.
    """
    return _checked(_ZHOU, classes, image, ridge)


def fu_cnn(classes: int = 62, image: Sequence[int] = (28, 28), *, ridge: float = 0.0) -> ModelTask:
    """Fu et al.: convolutions, 7x7 of 32 and 3x3 of 64 channels, as in `paper_cnn`; a dense layer.

    For 62 classes and 28x28 images: 1,600 + 18,496 + 194,494 = 214,590 parameters. The paper does not say
    where weights start; they start as in `paper_cnn`. Arguments, result and errors are those of `paper_cnn`.

    Example:
        >>> fu_cnn().dimension
        214590

    Source: Fu et al., experiments (padding 3 and 1).
    """
    return _checked(_FU, classes, image, ridge)


def two_layer_cnn(classes: int = 10, image: Sequence[int] = (32, 32, 3), *, ridge: float = 0.0) -> ModelTask:
    """Hou et al.: two convolutions, each with ReLU and 2x2 max pool, and a dense layer.

    The paper gives no sizes. Here: kernels 5x5 of 32 and 64 channels, padding 2, which makes 94,666
    parameters for CIFAR-10 and 246,590 for 62 classes of 28x28 in grey. Weights start uniform within
    1 / sqrt(fan-in), as the paper's do. Arguments, result and errors are those of `paper_cnn`.

    Example:
        >>> two_layer_cnn().dimension, two_layer_cnn(62, (28, 28)).dimension
        (94666, 246590)

    Source: Hou et al., experiments; docs/theory/hou.md#experiments.
    """
    return _checked(_HOU, classes, image, ridge)


def _checked(design: _Design, classes: int, image: Sequence[int], ridge: float) -> ModelTask:
    return _cnn(design, classes, nn.checked_images("the cnn", classes, image, least=4, factor=4), ridge)


@cache
def _cnn(design: _Design, classes: int, image: tuple[int, ...], ridge: float) -> ModelTask:
    return nn.network(
        partial(nn.layers, shapes=_shapes(design, classes, image), start=design.start),
        _apply,
        "softmax",
        ridge=ridge,
        chunk=design.chunk,
        form=partial(nn.as_shape, shape=image, model="the cnn"),
        record_shape=image,
    )


def _shapes(design: _Design, classes: int, image: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    (first, second), (middle, last) = design.kernels, design.channels
    return {
        "conv1": (first, first, *(image[2:] or (1,)), middle),
        "conv2": (second, second, middle, last),
        "dense": (image[0] // 4 * (image[1] // 4) * last, classes),
    }


def named_layers(model: str, classes: int, image: tuple[int, ...], theta: ArrayLike) -> dict[str, nn.Layer]:
    """The weights and biases of a network of this module by their names.

    Args:
        model: one of `DESIGNS`.
        classes: K.
        image: shape of a record.
        theta: all parameters, shape (p,).
    """
    shapes = _shapes(DESIGNS[model], classes, image)
    zeros = {name: {"weight": jnp.zeros(s), "bias": jnp.zeros(s[-1])} for name, s in shapes.items()}
    return ravel_pytree(zeros)[1](jnp.asarray(theta))


def _apply(params: dict[str, nn.Layer], x: Array) -> Array:
    hidden = _stage(params["conv1"], nn.channels_last(x, 2))
    return nn.dense(params["dense"], _stage(params["conv2"], hidden).ravel())


def _stage(layer: nn.Layer, x: Array) -> Array:
    """Convolution, max pool, ReLU. ReLU and maximum commute; this order rectifies a quarter as many."""
    return jax.nn.relu(nn.max_pool(nn.convolve(layer["weight"], x) + layer["bias"]))
