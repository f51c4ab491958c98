"""Columns that are no features: the label, owners, persons, weights, what tests, and those left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr, model_validator

from noiseworthy._tables import Positive
from noiseworthy.data.schema.columns import Column
from noiseworthy.data.schema.fields import Classes, Ends, Keys, check_distinct, check_ordered
from noiseworthy.data.schema.reading import Reading, some
from noiseworthy.data.schema.values import gaps_among, keys, numbered, numbers, places, within

MOST_RECORDS = 1_000_000
"""Of one person."""


class Client(Column):
    """The column that says whose each record is."""

    role: Literal["client"]
    """Whose a record is."""


class Split(Column):
    """The column that marks each record as `train` or `test`."""

    role: Literal["split"]
    """Whether a record trains or tests."""


class Person(Column):
    """The column that says which records are one person's; nothing is learned from it."""

    role: Literal["person"]
    """Which records are one person's."""
    at_most: Annotated[int, Field(ge=1, le=MOST_RECORDS)] | None = None
    """Records that one person has at most at a client, public; a table with more is refused."""

    _whole: bool = PrivateAttr(default=False)

    @property
    def whole(self) -> bool:
        """Whether all records of a person are one row, `[privacy] unit = "person"`."""
        return self._whole

    def as_rows(self, whole: bool) -> Person:
        """The column whose persons are rows, or whose records are."""
        column = self.model_copy()
        column._whole = whole
        return column

    def counts(self, persons: Sequence[str], owners: Sequence[str] | None) -> NDArray[np.int64]:
        """How many records the person of each record has at its owner, shape (n,).

        Args:
            persons: `values.names` of the column, n of them.
            owners: whose each record is; None where all are one owner's.
        """
        whose = [*zip(persons, owners or [""] * len(persons), strict=True)]
        known = Counter(whose)
        return np.array([known[one] for one in whose], np.int64)

    def excess(self, persons: Sequence[str], counts: NDArray[np.int64]) -> tuple[NDArray[np.bool_], str]:
        """Records of persons with more of them than stated, shape (n,), and a sentence without names."""
        beyond = counts > (np.inf if self.at_most is None else self.at_most)
        if not np.any(beyond):
            return beyond, ""
        many, most = len({one for one, over in zip(persons, beyond, strict=True) if over}), int(counts.max())
        who = "1 person has" if many == 1 else f"{many} persons have"
        return beyond, (
            f"{who} more than {self.at_most} records at a client, up to {most}; drop records beyond "
            f"{self.at_most}, or state {most} and plan again"
        )


class Weight(Column):
    """The column that says how much each record counts: its loss is multiplied by it, before the clip."""

    role: Literal["weight"]
    """How much a record counts."""
    range: Ends
    """Least and greatest weight, public and at 0 or above, to which others are clipped."""
    step: Positive = 1.0
    """Public weight that counts as 1: the mean that the design of a survey gives."""

    expected: ClassVar[str] = "numbers at 0 or above"
    """What a value may be, in words."""
    remedy: ClassVar[str] = "mend them, or drop those records"
    """What to do about other values."""
    remedy_of_gaps: ClassVar[str] = "say what those records count, or drop them"
    """What to do about missing values."""
    known: ClassVar[Sequence[str]] = ()
    """It states no values."""

    @model_validator(mode="after")
    def _fits(self) -> Weight:
        check_ordered(*self.range, self.range)
        if self.range[0] < 0:
            raise ValueError(f"range must begin at 0 or above, got {self.range[0]:g}")
        return self

    @property
    def most(self) -> float:
        """Greatest weight as it counts."""
        return self.range[1] / self.step

    def read(self, values: NDArray) -> Reading:
        """Weights as they count, clipped to their range, shape (n, 1)."""
        found = numbers(values)
        gap = gaps_among(keys(values), ())
        clipped, outside = within(found, self.range)
        read = Reading.of(np.where(found < 0, np.nan, clipped) / self.step, gap, outside)
        return replace(read, wrong=read.wrong | read.gap, outside=read.outside & ~read.wrong)


class LeftOut(Column):
    """A column that nobody reads."""

    kind: Literal["left-out"]
    """Nothing that is looked at."""


class Label(Column):
    """The column to predict: a class, or a number in its own unit."""

    role: Literal["label"]
    """What is predicted."""
    kind: Literal["class", "number"]
    """Left out, a number where a range is stated, else a class."""
    classes: Classes | None = None
    """All classes in their order, or by name with the values that mean them: `{ no = 0, yes = [1, 2] }`."""
    values: Annotated[tuple[Keys, ...], Field(strict=False)] | None = None
    """Values that mean each class, where they are not written as they are called."""
    range: Ends | None = None
    """Least and greatest number, public, to which others are clipped; planning takes its size from it."""

    @model_validator(mode="before")
    @classmethod
    def _written_short(cls, stated: Any) -> Any:
        """`classes = { no = [0], yes = [1, 2] }` names values; the kind follows from what is stated."""
        if not isinstance(stated, dict):
            return stated
        named = stated.get("classes")
        if isinstance(named, dict):
            lists = [value if isinstance(value, list | tuple) else [value] for value in named.values()]
            stated = {**stated, "classes": [*named], "values": lists}
        return {"kind": "number" if "range" in stated else "class", **stated}

    @model_validator(mode="after")
    def _fits(self) -> Label:
        if self.kind == "number":
            if self.classes is not None or self.values is not None:
                raise ValueError("a label has classes, or is a number, and not both")
            if self.range is not None:
                check_ordered(*self.range, self.range)
            return self
        if self.classes is None or self.range is not None:
            raise ValueError(
                "a label needs classes = [...], all that there are; or range = [least, most], or kind = "
                '"number", where it is a number'
            )
        check_distinct("classes", self.classes, 2)
        if self.values is not None:
            if len(self.values) != len(self.classes) or not all(self.values):
                raise ValueError(f"each of the {len(self.classes)} classes needs values of its own")
            check_distinct("values of classes", self.known, 2)
        return self

    @property
    def known(self) -> Sequence[str]:
        """All values that mean a class."""
        if self.values is None:
            return self.classes or ()
        return tuple(value for of_one in self.values for value in of_one)

    @property
    def expected(self) -> str:
        """What a value may be, in words."""
        return "numbers" if self.classes is None else f"one of the classes {some(self.known)}"

    @property
    def remedy(self) -> str:
        """What to do about other values."""
        drop = "drop those records"
        return f"mend them, or {drop}" if self.classes is None else f"state all classes, or {drop}"

    @property
    def remedy_of_gaps(self) -> str:
        """What to do about missing values."""
        words = "" if self.classes is None else ", or list none, NA or null as a class where it is one"
        return f"drop those records{words}"

    def read(self, values: NDArray) -> Reading:
        """Labels as numbers, shape (n, 1): the place of the class, or the number clipped to its range."""
        read = self._read(values)
        return replace(read, wrong=read.wrong | read.gap)

    def _read(self, values: NDArray) -> Reading:
        texts = keys(values)
        gap = gaps_among(texts, (), self.known)
        if self.classes is not None:
            return Reading.of(places(texts, self._places), gap)
        found = numbers(values)
        if self.range is None:
            return Reading.of(found, gap)
        clipped, outside = within(found, self.range)
        return Reading.of(clipped, gap, outside)

    @property
    def _places(self) -> dict[str, int]:
        """The place of its class by every value."""
        if self.values is None:
            return numbered(self.known)
        return {value: place for place, of_one in enumerate(self.values) for value in of_one}
