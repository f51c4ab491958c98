"""Clipping that ends on a grid: what a client sums is whole numbers, so that no rounding escapes the clip.

A sum of clipped float gradients rounds after the clip: exchanging a record can change the rounding of all
that was added before it, and no clip bounds that. Here each record's gradient is clipped and then truncated
toward zero to a multiple of the grid, before it is summed. Truncation makes no coordinate larger, so neither
norm grows, and whole numbers add exactly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.sensitivity import NORMS, Norm
from noiseworthy.privacy.uploads import LIMIT, Grid

_MARGIN = 1 - 2.0**-40
"""More than the few roundings of 2^-53 between the bound on a norm and a scaled vector."""
_LEAST_EXPONENT = -1000
"""Of the power of two of a row; the inverse of a smaller one would overflow."""


def clipped_sum(gradients: ArrayLike, clip_norm: float, norm: Norm, grid: Grid) -> NDArray[np.int64]:
    """Sum of a client's per-record gradients, each clipped and then truncated to the grid, in its steps.

        sum_r trunc(g_r min(1, C / |g_r|) / spacing)

    Args:
        gradients: one row per record, shape (n, p). A row that is not finite counts as zero: to refuse it
            would tell that the record is there.
        clip_norm: C above 0.
        norm: of the clip, `l1` or `l2`.
        grid: public; C must be at least one step.

    Returns:
        shape (p,), int64. Sums of parts of the records add up to the sum of all, exactly.

    Raises:
        InvalidInput: a clip below one step, or n C beyond 2^53 steps.

    Guarantee: each record contributes whole numbers of norm at most C / spacing, exactly and in either norm
    of the clip, whatever float64 numbers its gradient has; so exchanging one moves the result by at most
    2 C / spacing, and leaving one out by half.

    Example:
        >>> clipped_sum([[3.0, 4.0], [0.3, -0.3]], 1.0, "l2", Grid(-3))
        array([6, 4])
    """
    rows = np.atleast_2d(np.asarray(gradients, np.float64))
    _check_room(len(rows), clip_norm, grid)
    return _truncated(rows, clip_norm, norm, grid).sum(axis=0)


def _truncated(rows: NDArray[np.float64], clip_norm: float, norm: Norm, grid: Grid) -> NDArray[np.int64]:
    """Steps of every row, computed at the row's own power of two, where no norm and no factor overflows."""
    check.one_of("norm", norm, NORMS)
    usable = np.isfinite(rows).all(axis=1, keepdims=True)
    largest = np.max(np.abs(rows), axis=1, initial=0.0, keepdims=True, where=usable)
    exponent = np.maximum(np.frexp(largest)[1], _LEAST_EXPONENT)
    with np.errstate(under="ignore", over="ignore"):
        scaled = np.where(usable, rows, 0.0) * np.ldexp(1.0, -exponent)
        # undoes the row's power of two where nothing is clipped: exactly, so that only truncation moves it
        whole = np.ldexp(1.0, exponent - grid.exponent)
        factor = np.minimum(whole, _MARGIN * (clip_norm / grid.spacing) / _upper_norm(scaled, norm)[:, None])
        return np.trunc(scaled * factor).astype(np.int64)


def _upper_norm(rows: NDArray[np.float64], norm: Norm) -> NDArray[np.float64]:
    """At least the exact norm of every row, whose coordinates are at most 1; above 0.

    A float64 sum of p non-negative terms is low by at most p 2^-53 of itself, and by 2^-1022 for each term
    that underflows.
    """
    total = np.sum(np.abs(rows) if norm == "l1" else np.square(rows), axis=1)
    total = total * (1 + (rows.shape[1] + 4) * 2.0**-52) + (rows.shape[1] + 1) * 2.0**-1021
    return total if norm == "l1" else np.sqrt(total)


def _check_room(records: int, clip_norm: float, grid: Grid) -> None:
    steps = check.positive("clip_norm", clip_norm).item() / grid.spacing
    if steps < 1:
        raise InvalidInput(
            f"clip_norm must be at least one step of the grid, {grid.spacing:g}, got {clip_norm:g}; "
            "take a finer grid, or every gradient is truncated to zero"
        )
    if records * steps > LIMIT:
        raise InvalidInput(
            f"{records} records clipped to {clip_norm:g} may reach {records * steps:.3g} steps of the grid, "
            f"more than 2^53; take a coarser grid than {grid.spacing:g}"
        )
