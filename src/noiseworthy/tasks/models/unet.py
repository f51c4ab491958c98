"""3D-UNet with group norm: the segmentation of brain scans of Hou et al."""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from noiseworthy import _validate as check
from noiseworthy._jax import Array, jax, jnp
from noiseworthy.errors import InvalidInput
from noiseworthy.tasks.models import layers as nn
from noiseworthy.tasks.networks import ModelTask

_GROUPS = 8
_SLOPE = 0.25


def unet3d(volume: Sequence[int] = (48, 60, 48), *, channels: int = 8, ridge: float = 0.0) -> ModelTask:
    """Two levels down, a bottom and two levels up, 3x3x3 convolutions, one output per voxel.

    Down: channels c and 2c, then 2c and 4c, each pair followed by a max pool of side 2; bottom 4c and 8c;
    up: trilinear to twice the side, joined with what the level had before its pool, then 4c and 4c, 2c and
    2c. Every convolution is followed by group norm (8 groups; none after the first) and a PReLU with one
    slope; a 1x1x1 convolution gives the output z, and the mask is predicted where z > 0. These are the
    network and the sizes of FLamby (246,156 parameters) with group norm in place of batch norm and one output
    for its two: 246,139 parameters for c = 8.

    Args:
        volume: shape (D, H, W) of a record, multiples of 4. Records may come flat; `prepare` gives them this
            shape.
        channels: c, a multiple of 4.
        ridge: weight mu of (mu/2)||theta||^2, at least 0.

    Returns:
        A `ModelTask` with soft Dice loss for labels (D, H, W) in {0, 1}; its quality is the Dice coefficient
        of the predicted mask. Its start is uniform within 1 / sqrt(fan-in), drawn from the key.

    Raises:
        InvalidInput: a volume or a number of channels of another kind, a negative ridge.

    Example:
        >>> unet3d().dimension
        246139

    Source: Cicek et al., 3D U-Net (2016); Ogier du Terrail et al., FLamby (2022), Fed-IXI; Hou et al.,
    experiments; docs/theory/hou.md#experiments.
    """
    if len(volume) != 3 or any(side < 4 or side % 4 for side in volume):
        raise InvalidInput(
            f"unet3d needs volumes (D, H, W) of sides that are multiples of 4, got {tuple(volume)}; "
            "crop or pad the volumes"
        )
    check.count("channels", channels, least=4)
    if channels % 4:
        raise InvalidInput(f"channels must be a multiple of 4, got {channels}; 8 groups share 2 channels")
    return _unet3d(tuple(volume), channels, ridge)


@cache
def _unet3d(volume: tuple[int, ...], channels: int, ridge: float) -> ModelTask:
    return nn.network(
        partial(_initial, channels=channels), _apply, "dice", ridge=ridge, chunk=1,
        form=partial(nn.as_shape, shape=volume, model="unet3d"), record_shape=volume,
    )  # fmt: skip


def _initial(key: Array, channels: int) -> dict[str, Any]:
    c1, c2, c4, c8 = (channels * factor for factor in (1, 2, 4, 8))
    down1, down2, bottom, up2, up1, output = jax.random.split(key, 6)
    first, second = jax.random.split(down1)
    return {
        "down1": (_plain_start(first, 1, c1), _normed_start(second, c1, c2)),
        "down2": _pair_start(down2, c2, c2, c4),
        "bottom": _pair_start(bottom, c4, c4, c8),
        "up2": _pair_start(up2, c4 + c8, c4, c4),
        "up1": _pair_start(up1, c2 + c4, c2, c2),
        "output": nn.uniform_start(output, (c2, 1)),
    }


def _pair_start(key: Array, inputs: int, middle: int, outputs: int) -> tuple[nn.Layer, nn.Layer]:
    first, second = jax.random.split(key)
    return _normed_start(first, inputs, middle), _normed_start(second, middle, outputs)


def _plain_start(key: Array, inputs: int, outputs: int) -> nn.Layer:
    return {**nn.uniform_start(key, (3, 3, 3, inputs, outputs)), "slope": jnp.array(_SLOPE)}


def _normed_start(key: Array, inputs: int, outputs: int) -> nn.Layer:
    """As `_plain_start`, with the shift of the norm for a bias."""
    layer = _plain_start(key, inputs, outputs)
    return {"weight": layer["weight"], "slope": layer["slope"], **nn.norm_start(outputs)}


def _apply(params: dict[str, Any], x: Array) -> Array:
    fine = _pair(params["down1"], x[..., None])
    middle = _pair(params["down2"], nn.max_pool(fine))
    bottom = _pair(params["bottom"], nn.max_pool(middle))
    middle = _pair(params["up2"], _joined(middle, bottom))
    fine = _pair(params["up1"], _joined(fine, middle))
    return nn.dense(params["output"], fine)[..., 0]


def _pair(layers: tuple[nn.Layer, nn.Layer], x: Array) -> Array:
    for layer in layers:
        x = nn.convolve(layer["weight"], x)
        x = nn.group_norm(layer, x, _GROUPS) if "scale" in layer else x + layer["bias"]
        x = jnp.where(x > 0, x, layer["slope"] * x)
    return x


def _joined(before: Array, below: Array) -> Array:
    """What a level had before its pool, and what came up from below it, side by side."""
    up = jax.image.resize(below, (*before.shape[:-1], below.shape[-1]), "linear")
    return jnp.concatenate([before, up], axis=-1)
