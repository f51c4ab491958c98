"""Public records that private ones are seen against: their mean and their principal directions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.errors import DataError

MOST_DIRECTIONS = 256
"""Principal directions that are kept; those of public data say little of private ones further down."""
_NOTHING = 1e-9
"""Share of the largest eigenvalue under which one is rounding."""
_ALONE = Lock()
"""Limits of threads are lifted before others are set."""


@dataclass(frozen=True, eq=False)
class Reference:
    """What records of one kind have in common, learned from public ones.

        m = mean of x/|x|,    C = mean of (x/|x| - m)(x/|x| - m)^T = sum of l_j v_j v_j^T,   l_1 >= l_2 >= ...

    Images share most of their mass: 69 % of the squared norm of a digit lies in the mean image, which tells
    no class from another, but is clipped and pays for noise as all else does. m and C are averages over the
    public data sets; C is taken inside each of them. Features of several channels are standardised first,
    x = (f - c)/s with one c and one s for all of a channel: the coarsest channel would outweigh all others.

    Attributes:
        mean: m, float32, shape (d,).
        directions: v_1, v_2, ... as rows, float32, shape (at most 256, d).
        center: c, float32, shape (d,); None where nothing is standardised.
        spread: s, above 0, the same shape, or None with it.

    Example:
        >>> one = Reference.of([[[3.0, 4.0], [3.0, -4.0]]])
        >>> one.mean.round(3), one.directions[0]
        (array([0.6, 0. ], dtype=float32), array([0., 1.], dtype=float32))
    """

    mean: NDArray[np.float32]
    directions: NDArray[np.float32]
    center: NDArray[np.float32] | None = None
    spread: NDArray[np.float32] | None = None

    @classmethod
    def of(cls, sources: Sequence[ArrayLike], *, channels: bool = False) -> Reference:
        """The mean and directions of public data sets, each counting the same.

        Args:
            sources: records of each, shape (n, *record_shape).
            channels: whether the first axis of a record is one of channels, which are standardised.

        Raises:
            DataError: no data set, or one without a record other than zero.

        Guarantee: a function of public records alone.
        """
        center, spread = _scales(sources) if channels and sources else (None, None)
        units = [_units(_standardised(source, center, spread)) for source in sources]
        if not units or not all(len(rows) for rows in units):
            raise DataError("a reference needs public records that are not all zero, got none; name others")
        means = [rows.mean(axis=0) for rows in units]
        if center is not None:
            apart = [(rows - m) / np.sqrt(len(rows)) for rows, m in zip(units, means, strict=True)]
            directions = principal(np.concatenate(apart))
            return cls(np.mean(means, axis=0).astype(np.float32), directions, center, spread)
        inside = np.mean([np.cov(rows.T, bias=True).reshape(rows.shape[1], -1) for rows in units], axis=0)
        return cls(np.mean(means, axis=0).astype(np.float32), _principal(inside))

    def arrays(self, kept: int | None) -> dict[str, NDArray[np.float32]]:
        """Its numbers by name, as `Reference(**arrays)` reads them, with the directions that are kept."""
        directions = np.ascontiguousarray(self.directions[: kept or 0])
        arrays = {"mean": self.mean, "directions": directions}
        if self.center is None or self.spread is None:
            return arrays
        return arrays | {"center": self.center, "spread": self.spread}

    @cached_property
    def _digest(self) -> bytes:
        numbers = (self.mean, self.directions, self.center, self.spread)
        return hashlib.sha256(b"".join(one.tobytes() for one in numbers if one is not None)).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)


def _units(records: ArrayLike) -> NDArray[np.float64]:
    """Records as rows of norm 1, without those that are zero."""
    x = np.asarray(records, np.float64)
    rows = x.reshape(len(x), -1)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows[norms[:, 0] > 0] / norms[norms > 0][:, None]


def _scales(sources: Sequence[ArrayLike]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """c and s of every number of a record: mean and deviation of its channel, sources counting the same."""
    flat = [f.reshape(*f.shape[:2], -1) for f in (np.asarray(source, np.float64) for source in sources)]
    size = flat[0].shape[2]
    moments = [[f.mean(axis=(0, 2)), np.square(f).mean(axis=(0, 2))] for f in flat]
    mean, square = np.mean(moments, axis=0)
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    spread = np.where(deviation > 0, deviation, 1.0)
    return np.repeat(mean, size).astype(np.float32), np.repeat(spread, size).astype(np.float32)


def _standardised(
    records: ArrayLike, center: NDArray[np.float32] | None, spread: NDArray[np.float32] | None
) -> ArrayLike:
    if center is None or spread is None:
        return records
    rows = np.asarray(records)
    return (rows.reshape(len(rows), -1) - center) / spread


def principal(rows: NDArray[np.floating]) -> NDArray[np.float32]:
    """The directions in which rows are longest, at most 256 of them, as orthonormal rows, shape (k, d)."""
    n, d = rows.shape
    if n >= d:
        return _principal(rows.T @ rows)
    values, vectors = _largest(rows @ rows.T)
    known = values > _NOTHING * values[-1]
    return _signed((rows.T @ vectors[:, known] / np.sqrt(values[known])).T[::-1])


def _principal(spread: NDArray[np.floating]) -> NDArray[np.float32]:
    """Eigenvectors of the largest eigenvalues as rows, each with its largest entry above zero."""
    return _signed(_largest(spread)[1].T[::-1])


def _largest(matrix: NDArray[np.floating]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """The largest eigenvalues, rising, with their eigenvectors as columns.

    On one thread: those of BLAS wait for each other where cores are busy, for 6 s in the place of 0.1.
    """
    from scipy.linalg import eigh  # here, because it is slow to load
    from threadpoolctl import threadpool_limits

    with _ALONE, threadpool_limits(1, "blas"):
        return eigh(matrix, subset_by_index=[max(0, len(matrix) - MOST_DIRECTIONS), len(matrix) - 1])


def _signed(rows: NDArray[np.floating]) -> NDArray[np.float32]:
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
    return np.ascontiguousarray(rows * np.sign(largest), np.float32)
