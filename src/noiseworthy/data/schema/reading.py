"""What becomes of the values of one column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.schema.values import numbered

_LISTED = 8
"""Values that an error names at most."""


@dataclass(frozen=True)
class Reading:
    """What became of one column; every row by itself.

    Attributes:
        numbers: float32, shape (n, width); zeros in rows that cannot be used.
        gap: values that are missing, shape (n,).
        outside: values outside the stated range, which count as its nearer end, shape (n,).
        wrong: values that cannot be used: unreadable ones, and gaps where none is allowed, shape (n,).
    """

    numbers: NDArray[np.float32]
    gap: NDArray[np.bool_]
    outside: NDArray[np.bool_]
    wrong: NDArray[np.bool_]

    @classmethod
    def of(cls, found: NDArray, gap: NDArray[np.bool_], outside: NDArray[np.bool_] | None = None) -> Reading:
        """A reading of numbers that are finite where a value can be used; gaps are not held against it.

        Args:
            found: shape (n,) or (n, width).
            gap: shape (n,).
            outside: shape (n,); None where there is no range.
        """
        with np.errstate(over="ignore"):  # beyond float32 is as bad as infinite
            rows = found.astype(np.float32).reshape(len(gap), *(found.shape[1:] or (1,)))
        usable = np.isfinite(rows).all(axis=1) & ~gap
        beyond = np.zeros(len(gap), bool) if outside is None else outside & ~gap
        return cls(np.where(usable[:, None], rows, np.float32(0)), gap, beyond, ~usable & ~gap)

    def at(self, rows: NDArray[np.intp] | slice) -> Reading:
        """What became of values that are among these, by their places."""
        return Reading(self.numbers[rows], self.gap[rows], self.outside[rows], self.wrong[rows])


def distinct(values: NDArray) -> tuple[NDArray, NDArray[np.intp] | slice]:
    """Texts or integers once each, and which of them every value is, shape (n,); others as they are.

    Example:
        >>> distinct(np.array(["low", "high", "low"]))
        (array(['low', 'high'], dtype=object), array([0, 1, 0]))
    """
    told = values.tolist() if values.dtype.kind in "OU" else []
    if {*map(type, told)} - {type(None)} not in ({str}, {int}):
        return values, slice(None)
    known = numbered([*dict.fromkeys(told)])
    return np.array([*known], object), np.fromiter(map(known.__getitem__, told), np.intp, len(told))


def some(values: Sequence[str]) -> str:
    """The first of some values, for an error.

    Example:
        >>> some(("low", "high"))
        "'low', 'high'"
    """
    named = ", ".join(map(repr, values[:_LISTED]))
    return named if len(values) <= _LISTED else f"{named}, ..."


def many(rows: NDArray[np.bool_], what: str) -> str:
    """How many rows there are of something, in words."""
    return f"{rows.sum()} {what}{'' if rows.sum() == 1 else 's'}"
