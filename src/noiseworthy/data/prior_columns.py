"""Columns of synthetic tables: which kinds there are, drawn or as a study states them, and their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy._validate import Real

if TYPE_CHECKING:
    from noiseworthy.data.schema import Schema

Kind = Literal["number", "yes-no", "category", "ordered"]
_KINDS: tuple[Kind, ...] = ("number", "yes-no", "category", "ordered")
_MIXED, _USUAL = 0.6, (2.0, 0.5, 0.7, 0.4)
"""Share of tables that hold more than numbers, and weights of kinds in the Dirichlet draw of their mix."""
_SQUARES: dict[Kind, float] = {"number": 0.3, "yes-no": 1.0, "category": 1.0, "ordered": 0.4}
"""Mean square of what a column becomes; of real numbers 0.03 to 1, mostly 0.25 to 0.4."""
_MOST_VALUES = 16
_MISSING = 0.25
"""Share of tables without a schema in which columns have gaps."""


class Block(NamedTuple):
    """What consecutive numbers of a record are; public, it says nothing of any record.

    Attributes:
        kind: a number (dates are numbers) and an ordered code lie in [-1, 1], yes or no is 1 or -1, and a
            category has a 1 in its place.
        values: of a category or an ordered column, how many there are; 1 of others.
        indicated: whether a number beside it says that the value is missing, for which 0 stands.
        described: whether a study says how its numbers lie; else they are in a unit of their own.
    """

    kind: Kind
    values: int = 1
    indicated: bool = False
    described: bool = True

    @property
    def width(self) -> int:
        """Numbers of a record that it becomes."""
        return (self.values if self.kind == "category" else 1) + self.indicated


class Marginals(NamedTuple):
    """How the numbers of one table are spread.

    Attributes:
        skewed: share of numbers with a long tail on one side.
        tailed: share of numbers with long tails on both.
        slack: mean of what public ranges have to spare, in ranges of the records.
        narrow: share of records at each end of a number that lies outside its public range.
        centred: whether the mean of a number is the middle of its range.
    """

    skewed: float
    tailed: float
    slack: float
    narrow: float
    centred: bool

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Marginals:
        """Of one table: from well-chosen ranges to such that nearly all records lie in a small part of."""
        skewed, tailed = rng.uniform(0, 1) ** 1.5, rng.uniform(0, 0.5)
        slack = rng.choice([0.0, 0.3, 1.5])
        narrow = rng.choice([0.0, 0.002, 0.02, 0.1])
        return cls(skewed, tailed * (1 - skewed), slack, narrow, rng.random() < 0.3)


def blocks_of(schema: Schema) -> tuple[Block, ...]:
    """The columns of a schema as blocks, in the order of encoding.

    Example:
        >>> from noiseworthy.data.schema import read_schema
        >>> sex = {"kind": "category", "values": ["f", "m"], "missing": True}
        >>> blocks_of(read_schema({"ill": {"role": "label", "classes": ["no", "yes"]}, "sex": sex}))
        (Block(kind='category', values=2, indicated=True, described=True),)
    """
    found = []
    for column in schema.features:
        stated = getattr(column, "kind", "number")
        kind: Kind = stated if stated in _KINDS else "number"
        indicated = column.missing is not False and column.indicator
        as_it_is = (getattr(column, "step", None), getattr(column, "center", None)) == (1.0, 0.0)
        found.append(Block(kind, max(1, len(column.known)), indicated, described=not as_it_is))
    return tuple(found)


def expected_size(blocks: Sequence[Block]) -> float:
    """The norm of a record that its columns suggest: sqrt(sum of the mean squares of their kinds).

    Example:
        >>> expected_size([Block("category", values=7), Block("yes-no"), *[Block("number")] * 10])
        2.23...
    """
    return float(np.sqrt(sum(_SQUARES[block.kind] for block in blocks)))


def size_of(rows: NDArray[Any]) -> float:
    """What `expected_size` would say of public rows, whose kinds show in their values: a number takes others
    than -1, 0 and 1.

    Args:
        rows: in [-1, 1], shape (n, width).

    Example:
        >>> size_of(np.array([[1, 0, 0.5], [0, 1, -0.2]]))
        1.14...
    """
    codes = np.all(np.isin(rows, (-1, 0, 1)), axis=0)
    return float(np.sqrt(np.mean(rows[:, codes] ** 2, axis=0).sum() + _SQUARES["number"] * np.sum(~codes)))


def drawn_blocks(features: int, rng: np.random.Generator) -> tuple[Block, ...]:
    """Columns of a table of so many numbers, of which nothing else is known."""
    mix = rng.dirichlet(_USUAL) if rng.random() < _MIXED else np.array([1.0, 0, 0, 0])
    gaps = rng.uniform(0, 0.5) if rng.random() < _MISSING else 0.0
    found: list[Block] = []
    while (left := features - sum(one.width for one in found)) > 0:
        kind = _KINDS[rng.choice(len(_KINDS), p=mix)]
        values = int(rng.integers(3, _MOST_VALUES)) if kind in ("category", "ordered") else 1
        block = Block(kind, values, bool(rng.random() < gaps))
        found.append(block if block.width <= left else Block("number"))
    return tuple(found)


def encoded(block: Block, views: Real, marginals: Marginals, rng: np.random.Generator) -> Real:
    """A column's numbers from what it sees of the causes.

    Args:
        block: what the column is.
        views: standard normal or nearly so, shape (n, values of a category, else 1).
        marginals: how numbers are spread in this table.
        rng: of ranges, thresholds and gaps.

    Returns:
        Within [-1, 1], shape (n, width).
    """
    numbers = {"number": _number, "yes-no": _yes_no, "category": _category, "ordered": _ordered}[block.kind](
        block, views, marginals, rng
    )
    if not block.indicated:
        return numbers
    missing = np.asarray(rng.random((len(views), 1)) < rng.beta(0.7, 3), np.float64)
    return np.hstack([numbers * (1 - missing), missing])


def _number(block: Block, views: Real, marginals: Marginals, rng: np.random.Generator) -> Real:
    """Brought from a public range, which was chosen without these records, to [-1, 1] and clipped to it."""
    values, drawn = views, rng.random()
    if drawn < marginals.skewed:
        values = rng.choice([-1, 1]) * np.exp(rng.uniform(0.4, 1.4) * views)
    elif drawn < marginals.skewed + marginals.tailed:
        values = np.sinh(rng.uniform(0.8, 1.6) * views)
    elif rng.random() < 0.3:
        from scipy.special import ndtr

        values = ndtr(views)
    low, high = np.quantile(values, [marginals.narrow, 1 - marginals.narrow])
    spare = marginals.slack * (high - low) * rng.exponential(0.5, 2)
    low, high = low - spare[0], high + spare[1]
    if marginals.centred:
        middle = values.mean()
        reach = max(high - middle, middle - low)
        low, high = middle - reach, middle + reach
    return np.clip(2 * (values - low) / (high - low) - 1, -1, 1)


def _yes_no(block: Block, views: Real, marginals: Marginals, rng: np.random.Generator) -> Real:
    return np.where(views > np.quantile(views, rng.beta(1.2, 1.2)), 1.0, -1.0)


def _category(block: Block, views: Real, marginals: Marginals, rng: np.random.Generator) -> Real:
    """The value whose view, with a bonus for usual ones, is largest; some are far more usual than others."""
    bonus = -rng.uniform(0, 1.5) * np.log(rng.permutation(block.values) + 1)
    chosen = np.argmax(views + bonus, axis=1)
    return np.eye(block.values)[chosen]


def _ordered(block: Block, views: Real, marginals: Marginals, rng: np.random.Generator) -> Real:
    cuts = np.cumsum(rng.dirichlet(np.full(block.values, 2.0)))[:-1]
    steps = np.searchsorted(np.quantile(views, cuts), views)
    return 2 * steps / max(1, block.values - 1) - 1


def width_of(blocks: Sequence[Block]) -> int:
    """Numbers of a record that columns become together."""
    return sum(one.width for one in blocks)
