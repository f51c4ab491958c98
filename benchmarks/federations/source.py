"""A source: real records with what a user would state of them, and nothing about owners yet."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.records import Records
from noiseworthy.data.schema import Schema, read_schema
from noiseworthy.data.table_records import from_columns
from noiseworthy.data.tables import Columns as PlainColumns

MOST_RECORDS = 20_000
"""Of a larger source so many are drawn by a fixed seed: what is planned for is small or middling."""
OWNER = "client"
"""Column of a table that says whose a record is; no feature."""


Table = dict[str, NDArray]


class Images(NamedTuple):
    """Images as bytes (n, height, width[, colours]), their labels (n,) and, if there are any, owners (n,)."""

    x: NDArray[np.uint8]
    y: NDArray[np.int32]
    owners: NDArray | None = None


@dataclass(frozen=True)
class Source:
    """Real records and what is publicly known of them.

    Attributes:
        name: of the source.
        parent: what its records come from; sources of one parent are relatives.
        read: a data frame that has the stated columns and perhaps `OWNER`, or images.
        columns: what a user would state of a table, features and label; empty for images.
        n_classes: classes; None where the label is a number.
        needs: what must be there: "sklearn", "statsmodels", "river" or "folder" (NOISEWORTHY_DATA).
        origin: whose data they are.
        licence: under which they are distributed.
        ships: whether the licence lets the product ship them.
        raw: whether columns are given as they are, unscaled, as a csv without `[columns]`.
    """

    name: str
    parent: str
    read: Callable[[], Any]
    columns: dict[str, dict[str, Any]]
    n_classes: int | None
    needs: str
    origin: str
    licence: str
    ships: bool = False
    raw: bool = False

    @property
    def is_image(self) -> bool:
        """Whether its records are images."""
        return not self.columns

    @property
    def label(self) -> str:
        """Name of the column that is predicted."""
        if self.is_image:
            return "label"
        return next(name for name, one in self.columns.items() if one.get("role") == "label")

    @property
    def schema(self) -> Schema | None:
        """What a user states of the columns; None for images and raw tables."""
        return None if self.is_image or self.raw else read_schema(self.columns)

    @property
    def label_scale(self) -> float | None:
        """Public size of the numbers that are predicted: root mean square over the stated range."""
        if self.n_classes is not None:
            return None
        least, most = self.columns[self.label]["range"]
        return float(np.sqrt((least**2 + least * most + most**2) / 3))

    def table(self) -> Table:
        """Its columns by name, `OWNER` among them where it has owners; images are the column `image`."""
        found = self.read()
        if isinstance(found, Images):
            owners = {} if found.owners is None else {OWNER: found.owners.astype(str)}
            table: Table = {"image": found.x, "label": found.y, **owners}
        else:
            wanted = [*self.columns, *(name for name in (OWNER,) if name in found)]
            table = {name: _plain(found[name].to_numpy()) for name in wanted}
        kept = drawn(len(table[self.label]))
        return {name: values[kept] for name, values in table.items()}

    def records(self, table: Table | None = None) -> Records:
        """Its records through the product's own reading, a fixed fifth of every owner's held out.

        Args:
            table: its columns with other owners; None takes `table()`.
        """
        table = self.table() if table is None else table
        schema = self.schema
        if schema is not None:
            owned = {OWNER: {"role": "client"}} if OWNER in table else {}
            return from_columns(table, read_schema(schema.tables() | owned), self.name)
        regression = self.n_classes is None
        return from_columns(
            table, PlainColumns(self.label, regression=regression, classes=self.classes), self.name
        )

    @property
    def classes(self) -> tuple[str | int, ...] | None:
        """Names of the classes in their order; None where the label is a number."""
        if self.is_image:
            return tuple(range(self.n_classes or 0))
        stated = self.columns[self.label].get("classes")
        return None if stated is None else tuple(stated)


def as_raw(source: Source) -> Source:
    """The same table as a csv whose columns nobody stated; all of them must be numbers."""
    return replace(source, name=f"{source.name}-raw", raw=True)


def drawn(n: int) -> NDArray[np.int64]:
    """Places of the records that are kept, in a fixed random order."""
    return np.random.default_rng(0).permutation(n)[:MOST_RECORDS]


def digest(text: str) -> int:
    """A number that is a public function of a text and of nothing else."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")


def half_of(source: Source) -> str:
    """`tuning` or `judging`, by a hash of what the records come from: relatives are on one side."""
    return ("tuning", "judging")[digest(source.parent) % 2]


def _plain(values: NDArray) -> NDArray:
    """Whole numbers as such, so that codes are written as they are stated."""
    if values.dtype.kind == "f" and np.all(np.isfinite(values)) and np.all(values == np.rint(values)):
        return values.astype(np.int64)
    return values
