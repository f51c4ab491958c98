"""Columns that are no features: the label, whose each record is, which records test, and those left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from noiseworthy.data.schema.columns import Column
from noiseworthy.data.schema.fields import Classes, Ends, Keys, check_distinct, check_ordered
from noiseworthy.data.schema.reading import Reading, some
from noiseworthy.data.schema.values import gaps_among, keys, numbered, numbers, places


class Client(Column):
    """The column that says whose each record is."""

    role: Literal["client"]
    """Whose a record is."""


class Split(Column):
    """The column that marks each record as `train` or `test`."""

    role: Literal["split"]
    """Whether a record trains or tests."""


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
        return "drop those records"

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
        outside = (found < self.range[0]) | (found > self.range[1])
        return Reading.of(np.clip(found, *self.range), gap, outside)

    @property
    def _places(self) -> dict[str, int]:
        """The place of its class by every value."""
        if self.values is None:
            return numbered(self.known)
        return {value: place for place, of_one in enumerate(self.values) for value in of_one}
