"""What is found in a table: said without a cell of it, and the cells beside it, for its owner alone."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from noiseworthy._names import shown
from noiseworthy.data.schema.values import key
from noiseworthy.data.thousands import Thousands

Level = Literal["refused", "warning", "note"]
LEVELS: tuple[Level, ...] = ("refused", "warning", "note")
_EXAMPLES = 4


@dataclass(frozen=True)
class Finding:
    """One thing that is found.

    Attributes:
        level: training is refused, or somebody should look, or it is good to know.
        where: column or owner; empty for the table as a whole.
        says: a sentence with counts and without a cell of the table.
        count: records that it is about, 0 for what is no record's.
        examples: cells and where they stand, private.
    """

    level: Level
    where: str
    says: str
    count: int = 0
    examples: tuple[str, ...] = ()


def refused(where: str, says: str, rows: NDArray[np.bool_] | None = None, *examples: str) -> Finding:
    """Something for which training is refused, perhaps of some records."""
    return Finding("refused", where, says, _count(rows), examples)


def warning(where: str, says: str, rows: NDArray[np.bool_] | None = None, *examples: str) -> Finding:
    """Something that somebody should look at, perhaps of some records."""
    return Finding("warning", where, says, _count(rows), examples)


def note(where: str, says: str, rows: NDArray[np.bool_] | None = None, *examples: str) -> Finding:
    """Something that is good to know, perhaps of some records."""
    return Finding("note", where, says, _count(rows), examples)


def _count(rows: NDArray[np.bool_] | None) -> int:
    return 0 if rows is None else int(rows.sum())


def cells_among(values: NDArray, rows: NDArray[np.bool_]) -> tuple[str, ...]:
    """The cells of some records that occur most often, with how often and where first; records count from 1.

    Example:
        >>> cells_among(np.array(["F", "m", "F", "?"], object), np.array([True, False, True, True]))
        ("'F' in 2 records, first in record 1", "'?' in record 4")
    """
    places = np.flatnonzero(rows)
    cells = values[places].tolist()
    texts = [value.strip() if isinstance(value, Thousands) else key(value) for value in cells]
    first: dict[str, int] = {}
    for text, place in zip(texts, (places + 1).tolist(), strict=True):
        first.setdefault(text, place)
    counted = Counter(texts).most_common(_EXAMPLES + 1)
    said = [
        f"{shown(text)!r} in record {first[text]}"
        if times == 1
        else f"{shown(text)!r} in {times} records, first in record {first[text]}"
        for text, times in counted[:_EXAMPLES]
    ]
    return (*said, "and others") if len(counted) > _EXAMPLES else tuple(said)


def rows_among(rows: NDArray[np.bool_]) -> tuple[str, ...]:
    """The first of some records, by their places from 1.

    Example:
        >>> rows_among(np.array([False, True, True]))
        ('in records 2, 3',)
    """
    places = (np.flatnonzero(rows) + 1).tolist()
    more = ", ..." if len(places) > _EXAMPLES else ""
    return (f"in record{'s' * (len(places) > 1)} {', '.join(map(str, places[:_EXAMPLES]))}{more}",)


def share(rows: NDArray[np.bool_]) -> str:
    """How many of all records some are, in words.

    Example:
        >>> share(np.array([True, False, False]))
        '1 of 3 records (33.3 %)'
    """
    return f"{int(rows.sum())} of {len(rows)} records ({100 * rows.mean():.3g} %)"
