"""VGG-11 with group norm: the classifier of medical images of Hou et al."""

from collections.abc import Sequence
from functools import cache, partial

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
        partial(_initial, channels=(image[2:] or (1,))[0], classes=classes),
        _apply,
        "softmax",
        ridge=ridge,
        chunk=8,
        form=partial(_padded, image=image),
        record_shape=(*(side + -side % _HALVED for side in image[:2]), *image[2:]),
    )


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
