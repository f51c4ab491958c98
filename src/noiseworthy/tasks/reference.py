"""Public records that private ones are seen against: their mean and their principal directions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh

from noiseworthy.errors import DataError

MOST_DIRECTIONS = 256
"""Principal directions that are kept; those of public data say little of private ones further down."""


@dataclass(frozen=True, eq=False)
class Reference:
    """What records of one kind have in common, learned from public ones.

        m = mean of x/|x|,    C = mean of (x/|x| - m)(x/|x| - m)^T = sum of s_j v_j v_j^T,   s_1 >= s_2 >= ...

    Images share most of their mass: 69 % of the squared norm of a digit lies in the mean image, which tells
    no class from another, but is clipped and pays for noise as all else does. m and C are averages over the
    public data sets; C is taken inside each of them.

    Attributes:
        mean: m, float32, shape (d,).
        directions: v_1, v_2, ... as rows, float32, shape (at most 256, d).

    Example:
        >>> one = Reference.of([[[3.0, 4.0], [3.0, -4.0]]])
        >>> one.mean.round(3), one.directions[0]
        (array([0.6, 0. ], dtype=float32), array([0., 1.], dtype=float32))
    """

    mean: NDArray[np.float32]
    directions: NDArray[np.float32]

    @classmethod
    def of(cls, sources: Sequence[ArrayLike]) -> Reference:
        """The mean and directions of public data sets, each counting the same.

        Args:
            sources: records of each, shape (n, *record_shape).

        Raises:
            DataError: no data set, or one without a record other than zero.

        Guarantee: a function of public records alone.
        """
        units = [_units(source) for source in sources]
        if not units or not all(len(rows) for rows in units):
            raise DataError("a reference needs public records that are not all zero, got none; name others")
        means = [rows.mean(axis=0) for rows in units]
        spread = np.mean([np.cov(rows.T, bias=True).reshape(rows.shape[1], -1) for rows in units], axis=0)
        return cls(np.mean(means, axis=0).astype(np.float32), _principal(spread))

    @cached_property
    def _digest(self) -> bytes:
        return hashlib.sha256(self.mean.tobytes() + self.directions.tobytes()).digest()

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


def _principal(spread: NDArray[np.float64]) -> NDArray[np.float32]:
    """Eigenvectors of the largest eigenvalues as rows, each with its largest entry above zero."""
    d = len(spread)
    rows = eigh(spread, subset_by_index=[max(0, d - MOST_DIRECTIONS), d - 1])[1].T[::-1]
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
    return np.ascontiguousarray(rows * np.sign(largest), np.float32)
