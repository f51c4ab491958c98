"""Deep networks of images with group norm: VGG-11 of Hou et al., and ResNet-20 of Ma et al."""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from noiseworthy._jax import Array, jax, jnp
from noiseworthy.tasks.models import layers as nn
from noiseworthy.tasks.networks import ModelTask

_STAGES = ((64,), (128,), (256, 256), (512, 512), (512, 512))
_GROUPS = 32
_HALVED = 2 ** len(_STAGES)


def vgg11(classes: int = 2, image: Sequence[int] = (28, 28), *, ridge: float = 0.0) -> ModelTask:
    """VGG-11: eight 3x3 convolutions in five stages, each stage followed by a 2x2 max pool.

    Every convolution is followed by group norm (32 groups) and ReLU. The mean over what the last pool leaves
    goes to one dense layer; the three of the original, 120 million parameters, are made for 1,000 classes.
    For 2 classes: 9,225,858 parameters for grey images, 9,227,010 for colour, at any size. Sides that are no
    multiple of 32 are padded with zeros (28 to 32).

    Its gradients are large: on 28x28 X-rays in minibatches of 4 their norm is about 20. Steps of 3e-4 to 1e-3
    learn there (85 % after 120 steps), the paper's 0.01 for 224x224 does not. Its start is uniform within
    1 / sqrt(fan-in), drawn from the key; else arguments, result and errors are those of `ma_cnn`.

    Example:
        >>> vgg11(2, (224, 224, 3)).dimension
        9227010

    Source: Simonyan and Zisserman, Very deep convolutional networks (2015), configuration A; Hou et al.,
    experiments; docs/theory/hou.md#experiments.
    """
    return _vgg11(classes, nn.checked_images("vgg11", classes, image), ridge)


@cache
def _vgg11(classes: int, image: tuple[int, ...], ridge: float) -> ModelTask:
    return nn.network(
        partial(_initial, channels=(image[2:] or (1,))[0], classes=classes), _apply, "softmax",
        ridge=ridge, chunk=8, form=partial(_padded, image=image),
        record_shape=(*(side + -side % _HALVED for side in image[:2]), *image[2:]),
    )  # fmt: skip


def _initial(key: Array, channels: int, classes: int) -> dict[str, nn.Layer]:
    sizes = [channels, *(size for stage in _STAGES for size in stage)]
    shapes = {f"conv{i}": (3, 3, *sizes[i : i + 2]) for i in range(len(sizes) - 1)}
    params = nn.layers(key, {**shapes, "dense": (sizes[-1], classes)}, nn.uniform_start)
    return {**params, **{f"norm{i}": nn.norm_start(size) for i, size in enumerate(sizes[1:])}}


def _apply(params: dict[str, nn.Layer], x: Array) -> Array:
    hidden, i = nn.channels_last(x, 2), 0
    for stage in _STAGES:
        for _ in stage:
            conv, norm = params[f"conv{i}"], params[f"norm{i}"]
            hidden = nn.convolve(conv["weight"], hidden) + conv["bias"]
            hidden, i = jax.nn.relu(nn.group_norm(norm, hidden, _GROUPS)), i + 1
        hidden = nn.max_pool(hidden)
    return nn.dense(params["dense"], jnp.mean(hidden, axis=(0, 1)))


def _padded(x: Array, image: tuple[int, ...]) -> Array:
    """Records with zeros around them, as evenly as can be, up to multiples of 32."""
    missing = [-side % _HALVED for side in image[:2]]
    margins = [(0, 0), *((m // 2, m - m // 2) for m in missing), *[(0, 0)] * (len(image) - 2)]
    return jnp.pad(nn.as_shape(x, image, "vgg11"), margins)


_CHANNELS = (16, 16, 16, 32, 32, 32, 64, 64, 64)
"""Channels of each block; where they double, sides halve."""
_RESIDUAL_GROUPS = 8

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
        partial(_residual_start, channels=(image[2:] or (1,))[0], classes=classes),
        _residual_outputs,
        "softmax",
        ridge=ridge,
        form=partial(nn.as_shape, shape=image, model="resnet20"),
        record_shape=image,
    )


def _residual_start(key: Array, channels: int, classes: int) -> dict[str, Any]:
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


def _residual_outputs(params: dict[str, Any], x: Array) -> Array:
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
    return nn.group_norm(layer, nn.convolve(layer["weight"], x, stride=stride), _RESIDUAL_GROUPS)
