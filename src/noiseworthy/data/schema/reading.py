"""What becomes of the values of one column, and what is said of those that cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from noiseworthy._names import nearest, shown
from noiseworthy.data.schema.values import key, numbered

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


class Said(Protocol):
    """A column, as far as errors speak of it."""

    @property
    def name(self) -> str:
        """By which tables know it."""
        ...

    @property
    def expected(self) -> str:
        """What its values must be, in words."""
        ...

    @property
    def remedy(self) -> str:
        """What to do about others."""
        ...

    @property
    def remedy_of_gaps(self) -> str:
        """What to do about missing ones."""
        ...

    @property
    def known(self) -> Sequence[str]:
        """The values that it states, if it states them."""
        ...


def complaints(column: Said, values: NDArray, read: Reading) -> list[str]:
    """What is wrong with the values of a column, in a sentence each without a full stop.

    Args:
        column: what it should be.
        values: shape (n,).
        read: what became of them.
    """
    said, gaps, strange = [], read.wrong & read.gap, read.wrong & ~read.gap
    if np.any(gaps):
        said.append(f"column {column.name!r} has {many(gaps, 'missing value')}; {column.remedy_of_gaps}")
    if np.any(strange):
        first = key(values[int(np.argmax(strange))])
        said.append(
            f"column {column.name!r} has {many(strange, 'value')} other than {column.expected}, such as "
            f"{shown(first)!r}{nearest(first, column.known)}; {column.remedy}"
        )
    return said


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
    count = int(rows.sum())
    return f"{count} {what}{'' if count == 1 else 's'}"
