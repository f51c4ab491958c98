"""Convolutional networks of Ma et al.: two convolutions, each with a pool, and dense layers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

from noiseworthy._jax import Array, jax
from noiseworthy.tasks.models import layers as nn
from noiseworthy.tasks.networks import ModelTask

_CHUNK = 25
"""On one core 200 records at once take up to twice as long each."""


@dataclass(frozen=True)
class _Design:
    """(side of the kernel, channels, zeros around) of each convolution; widths of hidden dense layers."""

    name: str
    convolutions: tuple[tuple[int, int, int], ...]
    dense: tuple[int, ...] = ()
    groups: int = 0

    def side(self, side: int) -> int:
        """What is left of the side of an image after the last pool."""
        for kernel, _, margin in self.convolutions:
            side = (side + 2 * margin - kernel + 1) // 2
        return side

    @property
    def least(self) -> int:
        """The smallest side of an image of which something is left."""
        return next(side for side in itertools.count(1) if self.side(side) > 0)


_SMALL = _Design("ma-cnn", ((3, 4, 1), (3, 8, 1)))
_LENET = _Design("lenet5", ((5, 6, 2), (5, 16, 0)), (120, 84))
_GROUPED = _Design("group-cnn", ((5, 8, 1), (5, 16, 1)), (120, 84), groups=4)


def ma_cnn(classes: int = 10, image: Sequence[int] = (28, 28), *, ridge: float = 0.0) -> ModelTask:
    """Ma et al. for MNIST: 3x3 convolutions of 4 and 8 channels, each with 2x2 max pool and ReLU; one dense.

    For 10 classes and 28x28 images: 40 + 296 + 3,930 = 4,266 parameters. The paper gives the number alone;
    this is the one layout of 3x3 convolutions (padding 1) that has it. Equal arguments give the same object,
    so compiled programs are reused.

    Args:
        classes: number of classes K, at least 2.
        image: shape (H, W) or (H, W, channels) of a record, sides of at least 4. Records may come flat;
            `prepare` gives them this shape.
        ridge: weight mu of (mu/2)||theta||^2, at least 0.

    Returns:
        A `ModelTask` with softmax loss; its start is random (He, biases 0), drawn from the key.

    Raises:
        InvalidInput: fewer than 2 classes, an image of another shape, a negative ridge.

    Example:
        >>> ma_cnn().dimension
        4266

    Source: Ma et al., experiments; docs/theory/ma.md#experiments.
    """
    return _checked(_SMALL, classes, image, ridge)


def lenet5(classes: int = 10, image: Sequence[int] = (28, 28), *, ridge: float = 0.0) -> ModelTask:
    """LeNet-5: 5x5 convolutions of 6 (padding 2) and 16 channels (none), dense layers of 120 and 84.

    For 10 classes and 28x28 images: 156 + 2,416 + 48,120 + 10,164 + 850 = 61,706 parameters. As is common
    today, pools take the maximum, all layers but the last have a ReLU, and all 16 channels see all 6.
    Sides of at least 12; else arguments, result and errors are those of `ma_cnn`.

    Example:
        >>> lenet5().dimension
        61706

    Source: LeCun et al., Gradient-based learning applied to document recognition (1998); Ma et al.,
    experiments (Fashion-MNIST); docs/theory/ma.md#experiments.
    """
    return _checked(_LENET, classes, image, ridge)


def group_cnn(classes: int = 62, image: Sequence[int] = (28, 28), *, ridge: float = 0.0) -> ModelTask:
    """Ma et al. for FEMNIST: 5x5 convolutions of 8 and 16 channels with group norm, dense of 120 and 84.

    For 62 classes and 28x28 images: 208 + 16 + 3,216 + 32 + 48,120 + 10,164 + 5,270 = 67,026 parameters.
    Convolutions have padding 1, so sides go 28, 26, 13, 11, 5. The paper has batch norm, through which a
    record reaches the gradients of others; here 4 groups are normed within each record, with as many
    parameters. Sides of at least 10; else arguments, result and errors are those of `ma_cnn`.

    Example:
        >>> group_cnn().dimension
        67026

    Source: Ma et al., experiments; docs/theory/ma.md#experiments, docs/theory/ma.md#momentum-and-batch-norm.
    """
    return _checked(_GROUPED, classes, image, ridge)


def _checked(design: _Design, classes: int, image: Sequence[int], ridge: float) -> ModelTask:
    shape = nn.checked_images(design.name, classes, image, least=design.least)
    return _network(design, classes, shape, ridge)


@cache
def _network(design: _Design, classes: int, image: tuple[int, ...], ridge: float) -> ModelTask:
    return nn.network(
        partial(_initial, design=design, classes=classes, image=image),
        partial(_apply, design=design),
        "softmax",
        ridge=ridge,
        chunk=_CHUNK,
        form=partial(nn.as_shape, shape=image, model=design.name),
        record_shape=image,
    )


def _initial(key: Array, design: _Design, classes: int, image: tuple[int, ...]) -> dict[str, nn.Layer]:
    kernels, channels = zip(*((kernel, channels) for kernel, channels, _ in design.convolutions), strict=True)
    inputs = (*(image[2:] or (1,)), *channels)
    widths = (design.side(image[0]) * design.side(image[1]) * channels[-1], *design.dense, classes)
    convolutions = {f"conv{i}": (k, k, *inputs[i : i + 2]) for i, k in enumerate(kernels)}
    dense = {f"dense{i}": pair for i, pair in enumerate(itertools.pairwise(widths))}
    norms = {f"norm{i}": nn.norm_start(size) for i, size in enumerate(channels) if design.groups}
    return {**nn.layers(key, {**convolutions, **dense}, nn.he_start), **norms}


def _apply(params: dict[str, nn.Layer], x: Array, design: _Design) -> Array:
    hidden = nn.channels_last(x, 2)
    for i, (_, _, margin) in enumerate(design.convolutions):
        layer = params[f"conv{i}"]
        hidden = nn.convolve(layer["weight"], hidden, margin=margin) + layer["bias"]
        if design.groups:
            hidden = nn.group_norm(params[f"norm{i}"], hidden, design.groups)
        hidden = jax.nn.relu(nn.max_pool(hidden))
    hidden = hidden.ravel()
    for i in range(len(design.dense)):
        hidden = jax.nn.relu(nn.dense(params[f"dense{i}"], hidden))
    return nn.dense(params[f"dense{len(design.dense)}"], hidden)
