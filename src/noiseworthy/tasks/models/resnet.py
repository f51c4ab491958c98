"""ResNet-20 with group norm: the classifier of CIFAR-10 of Ma et al."""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from noiseworthy._jax import Array, jax, jnp
from noiseworthy.tasks.models import layers as nn
from noiseworthy.tasks.networks import ModelTask

_CHANNELS = (16, 16, 16, 32, 32, 32, 64, 64, 64)
"""Channels of each block; where they double, sides halve."""
_GROUPS = 8

Block = dict[str, nn.Layer]


def resnet20(classes: int = 10, image: Sequence[int] = (32, 32, 3), *, ridge: float = 0.0) -> ModelTask:
    """ResNet-20: a 3x3 convolution, three stages of three residual blocks, the mean over space, one dense.

        block(x) = relu(x' + norm(conv(relu(norm(conv(x))))))

    Stages have 16, 32 and 64 channels; the first block of the second and third halves the sides. There x' is
    a 1x1 convolution of x and its norm, elsewhere x itself. Convolutions have no bias. For 10 classes in
    colour: 267,696 (3x3) + 2,560 (1x1) + 1,568 (norms) + 650 = 272,474 parameters at any size, the number of
    the paper; shortcuts without parameters (option A of He et al.) would make 269,722. Batch norm, through
    which a record reaches the gradients of others, is group norm here (8 groups). Sides of any size;
    else arguments, result and errors are those of `ma_cnn`.

    Example:
        >>> resnet20().dimension
        272474

    Source: He et al., Deep residual learning (2015), section 4.2, option B; Wu and He, Group normalization
    (2018); Ma et al., experiments; docs/theory/ma.md#experiments, docs/theory/ma.md#momentum-and-batch-norm.
    """
    return _resnet20(classes, nn.checked_images("resnet20", classes, image), ridge)


@cache
def _resnet20(classes: int, image: tuple[int, ...], ridge: float) -> ModelTask:
    return nn.network(
        partial(_initial, channels=(image[2:] or (1,))[0], classes=classes),
        _apply,
        "softmax",
        ridge=ridge,
        form=partial(nn.as_shape, shape=image, model="resnet20"),
        record_shape=image,
    )


def _initial(key: Array, channels: int, classes: int) -> dict[str, Any]:
    stem, dense, *keys = jax.random.split(key, 2 + len(_CHANNELS))
    inputs = (_CHANNELS[0], *_CHANNELS)
    return {
        "stem": _convolution(stem, (3, 3, channels, _CHANNELS[0])),
        "blocks": [_block(*parts) for parts in zip(keys, inputs, _CHANNELS, strict=False)],
        "dense": nn.he_start(dense, (_CHANNELS[-1], classes)),
    }


def _block(key: Array, inputs: int, outputs: int) -> Block:
    first, second, third = jax.random.split(key, 3)
    block = {
        "conv1": _convolution(first, (3, 3, inputs, outputs)),
        "conv2": _convolution(second, (3, 3, outputs, outputs)),
    }
    if inputs == outputs:
        return block
    return {**block, "shortcut": _convolution(third, (1, 1, inputs, outputs))}


def _convolution(key: Array, shape: tuple[int, ...]) -> nn.Layer:
    """Weights with the scale and shift of the norm that follows."""
    return {"weight": nn.he_start(key, shape)["weight"], **nn.norm_start(shape[-1])}


def _apply(params: dict[str, Any], x: Array) -> Array:
    hidden = jax.nn.relu(_normed(params["stem"], nn.channels_last(x, 2)))
    for block in params["blocks"]:
        hidden = _residual(block, hidden)
    return nn.dense(params["dense"], jnp.mean(hidden, axis=(0, 1)))


def _residual(block: Block, x: Array) -> Array:
    stride = 2 if "shortcut" in block else 1
    inner = jax.nn.relu(_normed(block["conv1"], x, stride))
    shortcut = _normed(block["shortcut"], x, stride) if "shortcut" in block else x
    return jax.nn.relu(shortcut + _normed(block["conv2"], inner))


def _normed(layer: nn.Layer, x: Array, stride: int = 1) -> Array:
    return nn.group_norm(layer, nn.convolve(layer["weight"], x, stride=stride), _GROUPS)
