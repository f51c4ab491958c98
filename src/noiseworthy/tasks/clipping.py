"""Clipping that float32 rounding cannot undo: norms are bounded from above before they are used."""

from __future__ import annotations

from noiseworthy._jax import Array, jnp
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.batch import SAFETY

_ROUNDING = 2.0**-24
_SMALLEST = 2.0**-126
_ROW = 512


def upper_norm(v: Array, norm: Norm) -> Array:
    """Upper bound on the L1 or L2 norm along the last axis, tight to n 2^-24 for vectors of length n.

        (S + n 2^-126) / (1 - n 2^-24),    S = sum |v_k|  or  sum v_k^2  (then the square root)

    Guarantee: at least the exact norm, whatever order the sum is taken in: a float32 sum of n
    non-negative terms is low by at most n 2^-24 of itself, and by 2^-126 for each term that underflows.

    Args:
        v: float32, shape (..., n) with n below 2^24.
        norm: `l1` or `l2`.

    Returns:
        Shape (...). Infinite or NaN where v is, or where S overflows (an L2 norm above 1.8e19).

    Example:
        >>> [round(float(upper_norm(jnp.array([3.0, -4.0]), norm)), 5) for norm in ("l1", "l2")]
        [7.0, 5.0]

    Source: Higham, Accuracy and Stability of Numerical Algorithms, section 4.2.
    """
    n = v.shape[-1]
    total = jnp.sum(jnp.abs(v) if norm == "l1" else jnp.square(v), axis=-1)
    # a GPU keeps squares below 2^-126, a CPU makes them 0: the bound is of both
    total = (total + n * _SMALLEST) / (1.0 - n * _ROUNDING)
    return total if norm == "l1" else jnp.sqrt(total)


def upper_norm_of_long(v: Array, norm: Norm) -> Array:
    """`upper_norm`, of the same arguments, as the norm of the norms of rows: tight to (512 + n/512) 2^-24.

    Example:
        >>> round(float(upper_norm_of_long(jnp.ones(10_000), "l2")), 2)
        100.0
    """
    *leading, n = v.shape
    width = min(_ROW, n)
    rows = jnp.pad(v, [(0, 0)] * len(leading) + [(0, -n % width)]).reshape(*leading, -1, width)
    return upper_norm(upper_norm(rows, norm), norm)


def clip(v: Array, size: Array, clip_norm: Array | float) -> Array:
    """v min(1, C (1 - 2^-20) / size), and zero where `size` is not finite.

    Args:
        v: vectors, shape (..., k).
        size: upper bounds on the norms of the gradients that v belongs to, shape (...).
        clip_norm: C above 0, in the unit of `size`.

    Returns:
        Shape (..., k), scaled so that those gradients have norm at most C.

    Guarantee: fewer than 16 roundings of 2^-24 each stand between `size` and the scaled gradient, so the
    margin 2^-20 covers them. Subnormal numbers, which round by more, are zeros (`flushed`). Matrix products
    of what is clipped need `precision="highest"`: by default an accelerator rounds their factors by 2^-11.

    Example:
        >>> clip(jnp.array([[3.0, 4.0], [jnp.inf, 0.0]]), jnp.array([5.0, jnp.inf]), 1.0).round(3)
        Array([[0.6, 0.8],
               [0. , 0. ]], dtype=float32)
    """
    # chosen after the product: 0 times an infinite entry is NaN, which a sum would spread over all records
    return jnp.where(jnp.isfinite(size)[..., None], flushed(v * clip_factor(size, clip_norm)[..., None]), 0.0)


def clip_factor(size: Array, clip_norm: Array | float) -> Array:
    """What `clip` multiplies a gradient by: min(1, C (1 - 2^-20) / size), zero where that is subnormal."""
    return flushed(jnp.minimum(1.0, SAFETY * clip_norm / size))


def flushed(v: Array) -> Array:
    """Subnormal numbers as zeros, as on a CPU: a GPU keeps them, rounded by up to all of their size."""
    return jnp.where(jnp.abs(v) < _SMALLEST, 0.0, v)
