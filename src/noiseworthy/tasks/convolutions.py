"""Convolutions and pools as windows and products, faster on a CPU and for gradients of single records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
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

_FEW_INPUTS, _FEW_OUTPUTS = 16, 32
"""Below both XLA's own takes two to three times as long as patches."""

_NARROW = 32
"""Numbers of a row of a window, up to which patches are made axis by axis, in half the time."""

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
    *kernel, inputs, _ = weight.shape
    left = len(kernel) - gathered
    axes, narrow = range(left, len(kernel)), kernel[-1] * inputs <= _NARROW
    patches = lax.pad(x, jnp.zeros((), x.dtype), [(*margin, 0) for margin in (*margins, (0, 0))])
    for some in [[axis] for axis in reversed(axes)] if narrow else [axes]:
        patches = jnp.concatenate(list(_windows(patches, some, kernel, strides, dilation)), axis=-1)
    windows = _windows(patches, range(left), kernel, strides, dilation)
    parts = (weight[place] for place in np.ndindex(*kernel[:left]))
    products = [_times(window, part) for window, part in zip(windows, parts, strict=True)]
    return sum(products[1:], start=products[0])


def _times(rows: Array, weight: Array) -> Array:
    """Rows (..., d) times a weight (*d, k)."""
    outputs = weight.shape[-1]
    if not _are_many(rows.shape[:-1], outputs):
        return rows @ weight.reshape(-1, outputs)
    # with the weight in this order its slopes come out in it, too: a quarter quicker
    return jnp.einsum("...d,kd->...k", rows, jnp.moveaxis(weight, -1, 0).reshape(outputs, -1))


def _are_many(positions: Sequence[int], outputs: int) -> bool:
    """Whether what is gained at each position is worth bringing a weight into another order."""
    return math.prod(positions) >= outputs


def _windows(
    x: Array, axes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> Iterator[Array]:
    """What each place of a kernel along some axes of space meets, one place after the other."""
    for place in np.ndindex(*(kernel[axis] for axis in axes)):
        met = [slice(None)] * x.ndim
        for axis, at in zip(axes, place, strict=True):
            last = x.shape[axis] - dilation[axis] * (kernel[axis] - 1 - at)
            met[axis] = slice(at * dilation[axis], last, strides[axis])
        yield x[tuple(met)]


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


def _back(margins: Pairs, held: tuple[Array, Array], slopes: Array) -> tuple[Array, Array]:
    x, weight = held
    of_weight = _in_order(jnp.transpose(x, (3, 1, 2, 0)), jnp.transpose(slopes, (1, 2, 0, 3)), margins)
    return _slopes_of_x(slopes, weight, margins), jnp.transpose(of_weight, (1, 2, 0, 3))


side_by_side.defvjp(lambda x, weight, margins: (_in_order(x, weight, margins), (x, weight)), _back)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def slopes_only(x: Array, weight: Array, margins: tuple[tuple[int, int], ...]) -> Array:
    """Zeros that have the slopes in x of `side_by_side`, and none in the weight; arguments are its own.

    Beside patches of what has no slopes it is the convolution of single records of which only the slopes in
    the weight differ from record to record: those in x are one convolution of all records that share it.
    """
    shape = jax.eval_shape(partial(_in_order, margins=margins), x, weight).shape
    return jnp.zeros(shape, x.dtype)


slopes_only.defvjp(
    lambda x, weight, margins: (slopes_only(x, weight, margins), weight),
    lambda margins, weight, slopes: (_slopes_of_x(slopes, weight, margins), jnp.zeros_like(weight)),
)


def _slopes_of_x(slopes: Array, weight: Array, margins: Pairs) -> Array:
    turned = jnp.swapaxes(lax.rev(weight, (0, 1)), 2, 3)
    return _in_order(slopes, turned, _opposite(weight.shape, margins))


def _opposite(kernel: Sequence[int], margins: Pairs) -> list[tuple[int, int]]:
    """Margins with which what comes back goes through the turned kernel."""
    return [(side - 1 - low, side - 1 - high) for side, (low, high) in zip(kernel, margins, strict=False)]


def _in_order(x: Array, weight: Array, margins: Pairs) -> Array:
    order = ("NHWC", "HWIO", "NHWC")
    plain = partial(lax.conv_general_dilated, window_strides=(1, 1), padding=margins, dimension_numbers=order)
    shared = jax.custom_batching.custom_vmap(plain)

    @shared.def_vmap
    def several(size: int, batched: Sequence[bool], x: Array, weight: Array) -> tuple[Array, bool]:
        if batched[1]:
            axes = [0 if one else None for one in batched]
            return jax.vmap(jax.custom_batching.sequential_vmap(plain), axes)(x, weight), True
        made = _in_order(x.reshape(-1, *x.shape[2:]), weight, margins)
        return made.reshape(*x.shape[:2], *made.shape[1:]), True

    return shared(x, weight)


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


def _convolution(equation: JaxprEqn, x: Array, weight: Array) -> list[Array] | None:
    params, numbers = equation.params, equation.params["dimension_numbers"]
    groups = params["feature_group_count"], params["batch_group_count"]
    kernel = [weight.shape[axis] for axis in numbers.rhs_spec[2:]]
    stretched = set(params["lhs_dilation"]) - {1}
    if groups != (1, 1) or stretched or not 0 < math.prod(kernel) <= _MOST_WINDOWS or x.dtype != jnp.float32:
        return None
    batch, channels, *space = numbers.lhs_spec
    outputs, inputs, *places = numbers.rhs_spec
    records = jnp.transpose(x, (batch, *space, channels))
    matrix = jnp.transpose(weight, (*places, inputs, outputs))
    margins, strides, dilation = tuple(params["padding"]), params["window_strides"], params["rhs_dilation"]
    gathered = 1 if len(space) > 2 and records.shape[-1] > 1 else len(space)

    def as_patches(records: Array) -> Array:
        one = partial(patch_product, gathered=gathered, margins=margins, strides=strides, dilation=dilation)
        return one(matrix, records[0])[None] if len(records) == 1 else jax.vmap(partial(one, matrix))(records)

    plain = len(space) == 2 and {*strides, *dilation} == {1}
    few = matrix.shape[-2] < _FEW_INPUTS and matrix.shape[-1] < _FEW_OUTPUTS
    made: Any
    if plain and len(records) > 1 and not few and _is_quick(records.shape, matrix.shape, margins):
        made = side_by_side(records, matrix, margins)
    elif plain and _has_quick_slopes(jax.eval_shape(as_patches, records).shape, matrix.shape, margins):
        made = as_patches(lax.stop_gradient(records))
        made += slopes_only(records, lax.stop_gradient(matrix), margins)
    else:
        made = as_patches(records)
    first, last, *between = numbers.out_spec
    order = np.argsort((first, *between, last)).tolist()
    return [jnp.transpose(made, order)]


def _has_quick_slopes(made: Sequence[int], weight: Sequence[int], margins: Pairs) -> bool:
    """Whether the slopes in records are quick as a convolution of those in what is made of them, on a CPU."""
    *kernel, inputs, outputs = weight
    quick = _is_quick(made, (*kernel, outputs, inputs), _opposite(kernel, margins))
    return quick and _are_many(made[1:-1], outputs) and jax.default_backend() == "cpu"


def _is_quick(records: Sequence[int], weight: Sequence[int], margins: Pairs) -> bool:
    """Whether `side_by_side` is quick: it is 100 times slower where images are smaller than the kernel."""
    *kernel, _, outputs = weight
    inside = all(0 <= margin < side for pair, side in zip(margins, kernel, strict=True) for margin in pair)
    large = all(length >= side for length, side in zip(records[1:-1], kernel, strict=True))
    return inside and large and outputs >= _FEWEST_OUTPUTS


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
