"""Kinds of columns to learn from: what each says in public, and how its values become numbers, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from noiseworthy._tables import Named, Positive, Table
from noiseworthy.data.schema.fields import (
    BoughtRange,
    Day,
    Days,
    Ends,
    Key,
    Keys,
    Range,
    Real,
    check_distinct,
    check_ordered,
)
from noiseworthy.data.schema.reading import Reading, distinct, some
from noiseworthy.data.schema.values import NO, YES, days, gaps_among, keys, numbered, numbers, places, within


class Column(Table):
    """One column by name."""

    name: Named
    """By which the table calls it, but for spaces around it."""


class Feature(Column):
    """A column to learn from."""

    role: Literal["feature"] = "feature"
    """What the column is for; left out, it is learned from."""
    gaps: Keys = ()
    """What stands for a missing value in this column, besides an empty cell, NaN, NA and the like."""
    missing: Any = False
    """`true` where values may be missing, and 0 stands for them; or the public value that does."""
    indicator: bool = True
    """Whether a number beside it says which values are missing."""

    _repeats: ClassVar[bool] = True
    """Whether rows share few values, so that each is read once; numbers are read faster than told apart."""
    remedy: ClassVar[str] = "mend them, or list under gaps what stands for a missing value"
    """What to do about other values."""
    remedy_of_gaps: ClassVar[str] = "state missing = true, or the public value that stands for them"
    """What to do about missing values."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers that it becomes."""
        return (*self._names, f"{self.name} is missing") if self._indicated else self._names

    @property
    def expected(self) -> str:
        """What a value may be, in words."""
        return f"one of {some(self.known)}"

    @property
    def known(self) -> Sequence[str]:
        """The values that it states, if it states them."""
        return ()

    def read(self, values: NDArray) -> Reading:
        """The values as numbers, each by itself.

        Args:
            values: shape (n,).
        """
        told, rows = distinct(values) if self._repeats else (values, slice(None))
        read = self._read(told).at(rows)
        if self.missing is False:
            return replace(read, wrong=read.wrong | read.gap)
        if self.missing is not True:
            stands = self._read(self._stand_in).numbers
            read = replace(read, numbers=np.where(read.gap[:, None], stands, read.numbers))
        if not self._indicated:
            return read
        return replace(read, numbers=np.hstack([read.numbers, read.gap[:, None]], dtype=np.float32))

    @property
    def _indicated(self) -> bool:
        return self.missing is not False and self.indicator

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def _stand_in(self) -> NDArray:
        return np.array([self.missing], object)

    def _read(self, values: NDArray) -> Reading:
        """Readings without indicator, where gaps are zeros and not wrong."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _fits(self) -> Feature:
        self._check()
        if both := [value for value in self.known if value in self.gaps]:
            raise ValueError(f"{both[0]!r} is among both values and gaps; it is one of the two")
        if self.missing is False and (self.gaps or not self.indicator):
            stated = "gaps" if self.gaps else "indicator"
            raise ValueError(f"{stated} goes with missing: true, or the value that stands for a missing one")
        if not isinstance(self.missing, bool):
            read = self._read(self._stand_in)
            if np.any(read.wrong | read.gap | read.outside):
                raise ValueError(f"missing must be true or a value of the column, got {str(self.missing)!r}")
        return self

    def _check(self) -> None:
        """What a kind wants of its own keys; raises ValueError."""


class NumberColumn(Feature):
    """A number: brought from a public range to [-1, 1], or counted in steps from a public center.

    `2 (T(v) - T(least)) / (T(most) - T(least)) - 1` with v clipped to the range and T the transform, or
    `(v - center) / step`, not clipped.
    """

    kind: Literal["number"]
    """A number."""
    range: Range | None = None
    """Least and greatest value, which become -1 and 1, what lies outside too; public, or `{ buy = ... }`."""
    transform: Literal["none", "log", "sqrt"] = "none"
    """What is taken of a number before it is brought to its range."""
    center: Real = 0.0
    """Public number that becomes 0, with `step`."""
    step: Positive | None = None
    """Instead of a range: public distance from `center` that becomes 1; nothing is clipped."""
    missing: bool | Real = False
    """`true` where values may be missing, and 0 stands for them; or the public number that does."""

    _repeats: ClassVar[bool] = False

    def _check(self) -> None:
        if (self.range is None) == (self.step is None):
            raise ValueError("a number needs range = [least, most] or a step, and not both")
        if self.range is None:
            if self.transform != "none":
                raise ValueError("transform goes with a range")
            return
        if self.center:
            raise ValueError("center goes with a step")
        if isinstance(self.range, BoughtRange) and not isinstance(self.missing, bool):
            raise ValueError(f"missing must be true where the range is bought, got {self.missing:g}")
        ends = self.limits or (0.0, 0.0)
        least = ends[0]
        if self.transform != "none" and (least < 0 or (self.transform == "log" and least == 0)):
            above = "above 0" if self.transform == "log" else "at 0 or above"
            raise ValueError(f"range must begin {above} for {self.transform}, got {least:g}")
        check_ordered(*self._ends(ends), ends)

    @property
    def limits(self) -> Ends | None:
        """The range; one that is to be bought is the public one around it until then."""
        return self.range.buy if isinstance(self.range, BoughtRange) else self.range

    def value_of(self, encoded: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values that become these numbers of its range, the other way round, of the same shape."""
        first, last = self._ends(self.limits or (-1.0, 1.0))
        values = first + (last - first) * (encoded + 1) / 2
        return {"none": np.positive, "log": np.exp, "sqrt": np.square}[self.transform](values)

    @property
    def expected(self) -> str:
        """What a value may be, in words."""
        return "numbers"

    def _read(self, values: NDArray) -> Reading:
        found, typed = numbers(values), values.dtype.kind in "biuf"
        gap = np.isnan(found)
        # NaN of a column of numbers is a gap; of text it may be a word, which is a mistake and no gap
        gap[gap] = typed or gaps_among(keys(values[gap]), self.gaps)
        kind = values.dtype if values.dtype.kind == "f" else np.float64  # of float32 -9.9 is another number
        with np.errstate(over="ignore"):
            gap |= np.isin(found, numbers(np.array(self.gaps, object)).astype(kind))
        if (limits := self.limits) is None:
            if self.center or self.step != 1:
                return Reading.of((found - self.center) / (self.step or 1), gap)
            if not typed:  # text that a frame takes for truth values is what they are
                found[lost] = places(keys(values[lost := np.isnan(found)]), {"False": 0, "True": 1})
            return Reading.of(values if typed else found, gap)
        first, last = self._ends(limits)
        clipped, outside = within(found, limits)
        scaled = 2 * (self._transformed(clipped) - first) / (last - first) - 1
        return Reading.of(np.clip(scaled, -1, 1), gap, outside)

    def _ends(self, stated: tuple[float, float]) -> tuple[float, float]:
        first, last = self._transformed(np.array(stated))
        return float(first), float(last)

    def _transformed(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return {"none": np.positive, "log": np.log, "sqrt": np.sqrt}[self.transform](values)


class YesNoColumn(Feature):
    """Yes or no, true or false, y or n, t or f, 1 or 0, in any case of letters: 1 or -1."""

    kind: Literal["yes-no"]
    """Yes or no."""
    missing: bool | Key = False
    """`true` where values may be missing, and 0 stands for them; or "yes" or "no", which does."""

    @property
    def expected(self) -> str:
        """What a value may be, in words."""
        return "yes and no"

    def _read(self, values: NDArray) -> Reading:
        texts = [text.lower() for text in keys(values)]
        found = [1.0 if text in YES else -1.0 if text in NO else np.nan for text in texts]
        return Reading.of(np.array(found), gaps_among(texts, {code.lower() for code in self.gaps}))


class CategoryColumn(Feature):
    """One of some values: a 1 in its place. With `other`, what is none of them has no 1."""

    kind: Literal["category"]
    """One of some values, in no order."""
    values: Keys
    """All values, public, each of which becomes a number."""
    other: bool = False
    """Whether there may be others, which become zeros; else a table with others is refused."""
    missing: bool | Key = False
    """`true` where values may be missing, and zeros stand for them; or the public value that does."""

    remedy: ClassVar[str] = "add them to values, or set other = true"

    def _check(self) -> None:
        check_distinct("values", self.values, 1)

    @property
    def known(self) -> Sequence[str]:
        """Its values."""
        return self.values

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(f"{self.name} = {value}" for value in self.values)

    def _read(self, values: NDArray) -> Reading:
        texts = keys(values)
        found = places(texts, numbered(self.values))
        ones = np.where(np.isnan(found)[:, None], np.nan, found[:, None] == np.arange(len(self.values)))
        gap = gaps_among(texts, self.gaps, self.values)
        return Reading.of(np.nan_to_num(ones) if self.other else ones, gap)


class OrderedColumn(Feature):
    """One of some values in their order: even steps from -1 to 1."""

    kind: Literal["ordered"]
    """One of some values, in their order."""
    values: Keys
    """All values, public, from the one that becomes -1 to the one that becomes 1."""
    missing: bool | Key = False
    """`true` where values may be missing, and 0 stands for them; or the public value that does."""

    remedy: ClassVar[str] = "put them into values, in their order"

    def _check(self) -> None:
        check_distinct("values", self.values, 2)

    @property
    def known(self) -> Sequence[str]:
        """Its values."""
        return self.values

    def _read(self, values: NDArray) -> Reading:
        texts = keys(values)
        steps = 2 * places(texts, numbered(self.values)) / (len(self.values) - 1) - 1
        return Reading.of(steps, gaps_among(texts, self.gaps, self.values))


class DateColumn(Feature):
    """A day of the calendar, brought from a public range to [-1, 1] and clipped to it.

    Text is read as ISO 8601, or as `format` says in the letters of `datetime.strptime`.
    """

    kind: Literal["date"]
    """A day."""
    range: Days
    """First and last day, public, which become -1 and 1; what lies outside counts as the nearer one."""
    format: Annotated[str, Field(min_length=2)] | None = None
    """Of text that is not ISO 8601, such as `"%d.%m.%Y"`."""
    missing: bool | Day = False
    """`true` where values may be missing, and 0 stands for them; or the public day that does."""

    def _check(self) -> None:
        check_ordered(*self._ends, self.range)

    @property
    def expected(self) -> str:
        """What a value may be, in words."""
        return "dates such as 2024-12-31" if self.format is None else f"dates of the form {self.format}"

    @property
    def _ends(self) -> tuple[int, int]:
        return self.range[0].toordinal(), self.range[1].toordinal()

    def _read(self, values: NDArray) -> Reading:
        found, (first, last) = days(values, self.format), self._ends
        gap = np.isnat(values) if values.dtype.kind == "M" else gaps_among(keys(values), self.gaps)
        gap |= np.isin(found, days(np.array(self.gaps, object), self.format))
        scaled = 2 * (np.clip(found, first, last) - first) / (last - first) - 1
        return Reading.of(scaled, gap, (found < first) | (found > last))
