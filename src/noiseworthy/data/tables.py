"""What the columns of a table of plain numbers mean, and all records that an owner's own table holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.labels import Features, Labels, class_numbers, scaled_images
from noiseworthy.data.readers import read_columns
from noiseworthy.errors import DataError

if TYPE_CHECKING:
    from noiseworthy.data.schema import Schema
    from noiseworthy.data.sql import Query

CLIENT_COLUMN = "client"
SPLIT_COLUMN = "split"
Table = Mapping[str, NDArray]


@dataclass(frozen=True)
class Columns:
    """What the columns of a table mean.

    Attributes:
        label: column to predict.
        client: column that names the owner of each record; a table may lack it if it has the default name.
        features: columns to learn from; None takes all others (a column `split` excepted).
        regression: predict the label as a number instead of a class.
        classes: all labels that there are, in their order; None takes those that occur, sorted.
    """

    label: str = "label"
    client: str = CLIENT_COLUMN
    features: tuple[str, ...] | None = None
    regression: bool = False
    classes: tuple[str | int, ...] | None = None

    @property
    def coded(self) -> tuple[str, ...]:
        """Where 01 is a name, not the number 1: clients, and the label unless classes are stated without."""
        zeros = any(str(one)[:1] == "0" != str(one) for one in self.classes or ("01",))
        return (self.client, self.label) if zeros and not self.regression else (self.client,)


def read_parts(
    source: Path | Query, columns: Columns | Schema, parts: Sequence[Literal["train", "test"]]
) -> list[tuple[Features, Labels, int | None]]:
    """Records of a table that are one owner's, or the server's: those that a column `split` marks, or all.

    Args:
        source: that was `readers.opened`.
        columns: what they mean; a column of clients is left out.
        parts: one of them, or both. Of both a fixed fifth tests where no column marks any.

    Returns:
        For each part features, labels and the number of classes; rows of persons (`data.persons`) where the
        schema has them so and the part that trains is among them.

    Raises:
        DataError: an unreadable file, another suffix, columns that do not fit, no row of a part, or, of both,
            persons in either or of whom nobody says who is in which.
    """
    trains = "train" in parts
    table, name = read_columns(source, cells=not isinstance(columns, Columns), coded=columns.coded)
    if isinstance(columns, Columns):
        x, y, is_test, classes = plain_examples(table, columns, name)
    else:
        from noiseworthy.data.schema.tables import stated_examples

        x, y, _, is_test = stated_examples(table, columns, name, whole=True, testing=not trains)
        classes = columns.n_classes
    if len(parts) > 1:
        from noiseworthy.data.records import held_apart, persons_of  # here: few owners hold records out

        is_test = held_apart(is_test, persons_of(table, columns), name, len(y))
    made = []
    for part in parts:
        kept = np.ones(len(y), bool) if is_test is None else is_test == (part == "test")
        if not kept.any():
            said = f"bring some, or leave out the column {SPLIT_COLUMN}"
            raise DataError(f"{name} has no {part} records; {said}")
        rows = x[kept], y[kept]
        if trains and not isinstance(columns, Columns) and columns.persons is not None:
            from noiseworthy.data.persons import own_rows  # here, because few tables are of persons

            rows = own_rows(table, columns, x, y, kept)
        made.append((*rows, classes))
    return made


def plain_examples(
    table: Table, columns: Columns, name: str
) -> tuple[NDArray[np.float32], Labels, NDArray[np.bool_] | None, int | None]:
    """Features and labels of a table of numbers as they are, and its test rows.

    Args:
        table: columns of shape (n, ...) by name.
        columns: what they mean.
        name: of the data, for errors.

    Returns:
        x (n, ...), y (n,), which records test (n,), or None where no column says, and the number of classes.

    Raises:
        DataError: a column is missing, of another length, not numeric, has missing or infinite values, or
            labels that are no classes.
    """
    y, classes = _labels(complete_column(table, columns.label, name), columns, name)
    x = _features(table, feature_names(table, columns, name), len(y), name)
    return x, y, _marked(table[SPLIT_COLUMN], name) if SPLIT_COLUMN in table else None, classes


def feature_names(table: Table, columns: Columns, name: str) -> Sequence[str]:
    """Names of the columns to learn from, in order.

    Raises:
        DataError: the label is among them.
    """
    if columns.features is None:
        return [column for column in table if column not in (columns.label, columns.client, SPLIT_COLUMN)]
    if columns.label in columns.features:
        raise DataError(f"{name}: column {columns.label!r} is the label and cannot be a feature too")
    return columns.features


def complete_column(table: Table, column: str, name: str) -> NDArray:
    """One value per record without gaps; a gap in text is a value that is not text.

    Raises:
        DataError: no such column, more than a value per record, or gaps.
    """
    values = _column(table, column, name)
    if values.ndim != 1:
        raise DataError(f"{name}: column {column!r} must hold one value per record, got shape {values.shape}")
    if values.dtype.kind == "f":
        _finite(values, column, name)
    if values.dtype.kind not in "OU":
        return values
    if values.dtype == object and (bad := sum(not isinstance(value, str | int) for value in values)):
        said = f"{bad} missing values, as NA and null are; rename those that are none, or drop the records"
        raise DataError(f"{name}: column {column!r} has {said}")
    # one of the writings that look the same: a Mac may write ö as an o and two dots
    return np.array([normalize("NFC", text) for text in values.astype(str)], str)


def check_lengths(arrays: Table, n: int, name: str) -> None:
    """Checks that every column has a row for each of n labels.

    Raises:
        DataError: one has more or fewer.
    """
    for column, values in arrays.items():
        if len(values) != n:
            raise DataError(f"{name}: column {column!r} has {len(values)} rows but there are {n} labels")


def _column(table: Table, column: str, name: str) -> NDArray:
    if column not in table:
        raise DataError(f"{name} has no column {column!r}; it has {', '.join(map(repr, table))}")
    return table[column]


def _features(table: Table, names: Sequence[str], n: int, name: str) -> NDArray[np.float32]:
    blocks = {column: _numbers(_column(table, column, name), column, name) for column in names}
    if not blocks:
        raise DataError(f"{name} has no feature columns; it has only {', '.join(map(repr, table))}")
    check_lengths(blocks, n, name)
    if len(blocks) == 1:
        block = next(iter(blocks.values()))
        return block if block.ndim > 1 else block[:, None]
    for column, block in blocks.items():
        if block.ndim > 2:
            raise DataError(f"{name}: column {column!r} holds images; it must be the only feature column")
    return np.concatenate([block.reshape(n, -1) for block in blocks.values()], axis=1)


def _numbers(values: NDArray, column: str, name: str) -> NDArray[np.float32]:
    if values.dtype.kind not in "biuf":
        from noiseworthy.data.thousands import not_numeric  # here, as few columns are none

        raise DataError(f"{name}: column {column!r} {not_numeric(values)}")
    if values.dtype.kind in "iu" and values.ndim > 2:
        return scaled_images(values)
    return _finite(values, column, name)


def _finite(values: NDArray, column: str, name: str) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # beyond float32 is as bad as infinite
        numbers = values.astype(np.float32)
    if bad := int(np.sum(~np.isfinite(numbers))):
        said = f"has {bad} NaN or infinite values; impute or drop those records first"
        raise DataError(f"{name}: column {column!r} {said}")
    return numbers


def _labels(values: NDArray, columns: Columns, name: str) -> tuple[Labels, int | None]:
    if columns.regression:
        return _numbers(values, columns.label, name), None
    return class_numbers(values, f"{name}: column {columns.label!r}", columns.classes)


def _marked(values: NDArray, name: str) -> NDArray[np.bool_]:
    if unknown := set(np.unique(values.astype(str)).tolist()) - {"train", "test"}:
        raise DataError(f"{name}: column {SPLIT_COLUMN!r} must hold 'train' or 'test', got {min(unknown)!r}")
    return values.astype(str) == "test"
