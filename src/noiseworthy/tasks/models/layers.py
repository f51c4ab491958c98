"""Layers of one record, channels last."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.tasks.convolutions import largest
from noiseworthy.tasks.networks import ModelTask, model_task

Layer = dict[str, Array]
Start = Callable[[Array, tuple[int, ...]], Layer]


def network(
    initial: Callable[[Array], Any], apply: Callable[[Any, Array], Array], loss: str, **fields: Any
) -> ModelTask:
    """A task from a start that is drawn from a key, a function of (parameters, record), and a named loss."""
    sizes = jax.eval_shape(initial, jax.random.key(0))
    made = model_task(apply, jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float32), sizes), loss)

    def start(key: Array) -> Array:
        return ravel_pytree(jax.tree.map(lambda leaf: leaf.astype(jnp.float32), initial(key)))[0]

    return replace(made, start=start, **fields)


def checked_images(
    model: str, classes: int, image: Sequence[int], *, least: int = 1, factor: int = 1
) -> tuple[int, ...]:
    """The shape of images that a network takes, at least two classes of them.

    Raises:
        InvalidInput: fewer classes, or another shape.
    """
    check.count("classes", classes, least=2)
    if len(image) not in (2, 3) or min(image) < 1 or any(a < least or a % factor for a in image[:2]):
        sides = f" with sides of at least {least}" * (least > 1) + f", multiples of {factor}" * (factor > 1)
        raise InvalidInput(
            f"{model} needs images (H, W) or (H, W, channels){sides}, got {tuple(image)}; crop or pad them"
        )
    return tuple(image)


def layers(key: Array, shapes: dict[str, tuple[int, ...]], start: Start) -> dict[str, Layer]:
    """A layer of each shape (*kernel, in, out), by name."""
    keys = jax.random.split(key, len(shapes))
    return {name: start(key, shape) for key, (name, shape) in zip(keys, shapes.items(), strict=True)}


def he_start(key: Array, shape: tuple[int, ...]) -> Layer:
    """Normal weights of variance 2 / fan-in, biases 0.

    Source: He et al., Delving deep into rectifiers (2015).
    """
    return {"weight": jax.nn.initializers.he_normal()(key, shape, jnp.float32), "bias": jnp.zeros(shape[-1])}


def uniform_start(key: Array, shape: tuple[int, ...]) -> Layer:
    """Weights and biases uniform within 1 / sqrt(fan-in), the default of PyTorch.

    Source: the experiments of Hou et al. start there.
    """
    reach, (first, second) = math.prod(shape[:-1]) ** -0.5, jax.random.split(key)
    return {"weight": uniform(first, shape, reach), "bias": uniform(second, shape[-1:], reach)}


def uniform(key: Array, shape: tuple[int, ...], reach: float) -> Array:
    """Uniform in [-reach, reach). Drawn as a vector: XLA compiles a draw of five axes eight times as long."""
    return jax.random.uniform(key, (math.prod(shape),), jnp.float32, -reach, reach).reshape(shape)


def norm_start(channels: int) -> Layer:
    """Scale 1 and shift 0 for `group_norm`."""
    return {"scale": jnp.ones(channels), "shift": jnp.zeros(channels)}


def dense(layer: Layer, x: Array) -> Array:
    """x W + b along the last axis."""
    return x @ layer["weight"] + layer["bias"]


def convolve(weight: Array, x: Array, *, margin: int | None = None, stride: int = 1) -> Array:
    """Convolution of one record, padded with zeros; tasks compute it as is fastest (`convolutions.quick`).

    Args:
        weight: shape (*kernel, in, out).
        x: shape (*space, in).
        margin: zeros on each side of each axis of space; None for half the kernel, which keeps the size where
            sides are odd and `stride` is 1.
        stride: steps from one window to the next.

    Returns:
        Shape (*((space + 2 margin - kernel) // stride + 1), out).

    Example:
        >>> x, weight = jnp.ones((28, 28, 1)), jnp.ones((5, 5, 1, 6))
        >>> convolve(weight, x).shape, convolve(weight, x, margin=0, stride=2).shape
        ((28, 28, 6), (12, 12, 6))
    """
    axes = "DHW"[4 - x.ndim :]
    numbers = (f"N{axes}C", f"{axes}IO", f"N{axes}C")
    sides = [size // 2 if margin is None else margin for size in weight.shape[:-2]]
    margins, steps = [(side, side) for side in sides], (stride,) * len(axes)
    return jax.lax.conv_general_dilated(x[None], weight, steps, margins, dimension_numbers=numbers)[0]


def max_pool(x: Array) -> Array:
    """Maximum over blocks of side 2 of (*space, channels); the last of an odd number of rows is left out."""
    halves = [side // 2 for side in x.shape[:-1]]
    even = x[tuple(slice(2 * half) for half in halves)]
    blocks = [length for half in halves for length in (half, 2)]
    return largest(even.reshape(*blocks, x.shape[-1]), tuple(range(1, len(blocks), 2)))


def group_norm(layer: Layer, x: Array, groups: int) -> Array:
    """Each group of channels of one record to mean 0 and variance 1, then scaled and shifted by channel.

    No record sees another one, unlike in batch norm, so clipping single records remains meaningful.

    Args:
        layer: `norm_start` of the channels.
        x: shape (*space, channels).
        groups: divides the channels.

    Source: Wu and He, Group normalization (2018).
    """
    grouped = x.reshape(-1, groups, x.shape[-1] // groups)
    mean = jnp.mean(grouped, axis=(0, 2), keepdims=True)
    variance = jnp.mean(jnp.square(grouped - mean), axis=(0, 2), keepdims=True)
    normal = (grouped - mean) * jax.lax.rsqrt(variance + 1e-5)
    return normal.reshape(x.shape) * layer["scale"] + layer["shift"]


def channels_last(x: Array, space: int) -> Array:
    """A record (*space,) or (*space, channels) with its channels, one where it has none."""
    return x[..., None] if x.ndim == space else x


def as_shape(x: Array, shape: Sequence[int], model: str) -> Array:
    """Records (n, *shape) as float32; flat ones get their axes back.

    Raises:
        InvalidInput: records of another size.
    """
    if math.prod(x.shape[1:]) != math.prod(shape):
        raise InvalidInput(
            f"{model} was made for records of shape {tuple(shape)}, got {x.shape[1:]}; "
            "make it for these, or reshape them"
        )
    return x.astype(jnp.float32).reshape(len(x), *shape)
