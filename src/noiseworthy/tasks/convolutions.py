"""Convolutions and pools as windows and products, faster on a CPU and for gradients of single records."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from jax.extend.core import JaxprEqn
from jax.extend.core.primitives import conv_general_dilated_p, reduce_window_max_p

from noiseworthy._jax import Array, jax, jnp, lax
from noiseworthy.tasks.programs import run

_MOST_WINDOWS = 128
"""Of a kernel; each is an equation of its own."""

_TIE = 2.0**-20
"""Values this near to the largest, relative to it, are as large: compiled twice, one value may differ so."""

_FEWEST_OUTPUTS = 16
"""Channels that come out of a convolution, for which XLA's own is quicker than patches."""

Pairs = Sequence[tuple[int, int]]


def quick(function: Callable[..., Array]) -> Callable[..., Array]:
    """`as_windows` on a CPU; a function as it is elsewhere, where XLA's own are faster for many records."""
    return as_windows(function) if jax.default_backend() == "cpu" else function


def as_windows(function: Callable[..., Array]) -> Callable[..., Array]:
    """A function whose convolutions and pools run as windows and products.

    Outputs and gradients stay the same, up to rounding. Convolutions of many records at once stay XLA's own,
    with slopes that are convolutions of the same form (`side_by_side`). Left as they are: convolutions in
    groups or of stretched records (transposed ones), kernels of more than 128 places, pools that are
    stretched, and what loops and branches compute.

    Args:
        function: of pytrees of arrays.

    Example:
        >>> conv = lambda weight, x: lax.conv(x, weight, (1, 1), "SAME")
        >>> program = jax.make_jaxpr(as_windows(conv))(jnp.ones((2, 1, 3, 3)), jnp.ones((1, 1, 8, 8)))
        >>> "conv_general_dilated" in str(program), "dot_general" in str(program)
        (False, True)
    """

    def quicker(*arguments: Any) -> Array:
        program, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        results = run(program, jax.tree.leaves(arguments), _RULES)
        return jax.tree.unflatten(jax.tree.structure(shape), results)

    return quicker


def patch_product(
    weight: Array, x: Array, gathered: int, margins: Pairs, strides: Sequence[int], dilation: Sequence[int]
) -> Array:
    """A convolution as patches along the last `gathered` axes of space times a matrix, summed over the rest.

    Args:
        weight: shape (*kernel, in, out).
        x: shape (*space, in).
        gathered: axes of space.
        margins: zeros before and after each axis of space, or numbers that are cut off, below 0.
        strides: steps from one window to the next, by axis.
        dilation: steps from one place of the kernel to the next, by axis.

    Returns:
        Shape (*space', out).
    """
    *kernel, _, channels = weight.shape
    padded = lax.pad(x, jnp.zeros((), x.dtype), [(*margin, 0) for margin in (*margins, (0, 0))])
    reach = [step * (size - 1) + 1 for step, size in zip(dilation, kernel, strict=True)]
    space = [(side - r) // s + 1 for side, r, s in zip(padded.shape, reach, strides, strict=False)]
    left = len(space) - gathered
    partly, steps = (*padded.shape[:left], *space[left:]), (*[1] * left, *strides[left:])
    places = [tuple(s * d for s, d in zip(shift, dilation, strict=True)) for shift in np.ndindex(*kernel)]
    inner, outer = places[: math.prod(kernel[left:])], places[:: math.prod(kernel[left:])]
    patches = jnp.concatenate([_window(padded, place, partly, steps) for place in inner], axis=-1)
    products = [
        _window(patches, place[:left], space[:left], strides[:left]) @ weight[shift].reshape(-1, channels)
        for shift, place in zip(np.ndindex(*kernel[:left]), outer, strict=True)
    ]
    return sum(products[1:], start=products[0])


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def side_by_side(x: Array, weight: Array, margins: tuple[tuple[int, int], ...]) -> Array:
    """XLA's own convolution of records that share a weight, every window once, also in a loop.

    XLA on CPU is quick where axes are in the order that is given here. It brings them into it at the top of a
    program, not in loops, where it takes 20 to 50 times as long: so the slopes are put into this order, too.
    Where weights differ, as under `vmap` over clients, one follows the other.

    Args:
        x: shape (n, height, width, in).
        weight: shape (*kernel, in, out).
        margins: zeros before and after height and width, less than the kernel is long.

    Returns:
        Shape (n, height', width', out).
    """
    return _in_order(x, weight, margins)


def _ahead(x: Array, weight: Array, margins: Pairs) -> tuple[Array, tuple[Array, Array]]:
    return _in_order(x, weight, margins), (x, weight)


def _back(margins: Pairs, held: tuple[Array, Array], slopes: Array) -> tuple[Array, Array]:
    x, weight = held
    rest = [
        (side - 1 - low, side - 1 - high) for side, (low, high) in zip(weight.shape, margins, strict=False)
    ]
    of_x = _in_order(slopes, jnp.swapaxes(lax.rev(weight, (0, 1)), 2, 3), rest)
    of_weight = _in_order(jnp.transpose(x, (3, 1, 2, 0)), jnp.transpose(slopes, (1, 2, 0, 3)), margins)
    return of_x, jnp.transpose(of_weight, (1, 2, 0, 3))


side_by_side.defvjp(_ahead, _back)


def _in_order(x: Array, weight: Array, margins: Pairs) -> Array:
    order = ("NHWC", "HWIO", "NHWC")
    convolve = partial(
        lax.conv_general_dilated, window_strides=(1, 1), padding=margins, dimension_numbers=order
    )
    return jax.custom_batching.sequential_vmap(convolve)(x, weight)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def largest(blocks: Array, axes: tuple[int, ...]) -> Array:
    """Maximum over some axes; what ties shares the slope.

    The derivative of `jnp.max` asks who equals it, and divides by their number: that is nobody where a
    compiler computes the values again and rounds them otherwise.
    """
    return jnp.max(blocks, axis=axes)


@largest.defjvp
def _along(axes: tuple[int, ...], primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (blocks,), (along,) = primals, tangents
    most = largest(blocks, axes)
    least = jnp.expand_dims(most - _TIE * jnp.abs(most), axes)
    ties = (blocks >= least).astype(along.dtype)
    number = jnp.maximum(jnp.sum(ties, axis=axes), 1)
    return most, jnp.sum(along * ties, axis=axes) / number


def _window(x: Array, shift: Sequence[int], lengths: Sequence[int], steps: Sequence[int]) -> Array:
    axes = zip(shift, lengths, steps, strict=True)
    return x[tuple(slice(start, start + step * (length - 1) + 1, step) for start, length, step in axes)]


def _convolution(equation: JaxprEqn, x: Array, weight: Array) -> list[Array] | None:
    params = equation.params
    numbers, groups = (
        params["dimension_numbers"],
        (params["feature_group_count"], params["batch_group_count"]),
    )
    kernel = [weight.shape[axis] for axis in numbers.rhs_spec[2:]]
    stretched = set(params["lhs_dilation"]) - {1}
    if groups != (1, 1) or stretched or not 0 < math.prod(kernel) <= _MOST_WINDOWS or x.dtype != jnp.float32:
        return None
    batch, channels, *space = numbers.lhs_spec
    outputs, inputs, *places = numbers.rhs_spec
    records = jnp.transpose(x, (batch, *space, channels))
    matrix = jnp.transpose(weight, (*places, inputs, outputs))
    deep = len(space) > 2 and records.shape[-1] > 1
    margins, strides, dilation = params["padding"], params["window_strides"], params["rhs_dilation"]

    def one(record: Array) -> Array:
        return patch_product(matrix, record, 1 if deep else len(space), margins, strides, dilation)

    made: Any
    if len(records) == 1:
        made = one(records[0])[None]
    elif {*strides, *dilation} == {1} and _is_quick(records.shape[1:-1], matrix.shape, margins):
        made = side_by_side(records, matrix, tuple(margins))
    else:
        made = jax.vmap(one)(records)
    first, last, *between = numbers.out_spec
    order = np.argsort((first, *between, last)).tolist()
    return [jnp.transpose(made, order)]


def _is_quick(space: Sequence[int], weight: Sequence[int], margins: Pairs) -> bool:
    """Whether `side_by_side` is quick: it is 100 times slower where images are smaller than the kernel."""
    *kernel, _, outputs = weight
    inside = all(0 <= margin < side for pair, side in zip(margins, kernel, strict=True) for margin in pair)
    large = all(length >= side for length, side in zip(space, kernel, strict=True))
    return len(space) == 2 and inside and large and outputs >= _FEWEST_OUTPUTS


def _pool(equation: JaxprEqn, x: Array) -> list[Array] | None:
    """The maximum of windows that lie side by side; XLA's own is faster where they overlap."""
    params = equation.params
    window, padding = params["window_dimensions"], params["padding"]
    stretched = {*params["base_dilation"], *params["window_dilation"]} - {1}
    outside = any(not 0 <= side < size for size, pair in zip(window, padding, strict=True) for side in pair)
    if stretched or outside or tuple(window) != tuple(params["window_strides"]) or x.dtype != jnp.float32:
        return None
    padded = lax.pad(x, jnp.array(-jnp.inf, x.dtype), [(*margin, 0) for margin in padding])
    lengths = [side // size for side, size in zip(padded.shape, window, strict=True)]
    whole = padded[tuple(slice(n * size) for n, size in zip(lengths, window, strict=True))]
    blocks = whole.reshape([side for pair in zip(lengths, window, strict=True) for side in pair])
    return [largest(blocks, tuple(range(1, blocks.ndim, 2)))]


_RULES = {conv_general_dilated_p: _convolution, reduce_window_max_p: _pool}
