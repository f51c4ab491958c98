"""Data of your own: columns of a file, a database or a frame, or a dictionary of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.data.files import locate
from noiseworthy.data.labels import Features, Labels, as_text, class_numbers, classes_among, scaled_images
from noiseworthy.data.records import Records, TestOrigin, holdout, holdout_of_each, split_records
from noiseworthy.errors import DataError

if TYPE_CHECKING:
    from noiseworthy.data.schema import Schema
    from noiseworthy.data.sql import Query

FORMATS = (".csv", ".csv.gz", ".parquet", ".feather", ".arrow", ".xlsx", ".npz")
"""How files of tables end."""
SQL = "sql:"
"""How a source begins that is a database."""
CLIENT_COLUMN = "client"
SPLIT_COLUMN = "split"
HeldOut = Literal["rows", "records"]
"""How test records are chosen where no column marks them: by their places, so that sizes are the same
whatever the records are, or each by itself, so that one more or less moves no other."""
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


def from_columns(
    table: Mapping[str, ArrayLike], columns: Columns | Schema, name: str, *, held_out: HeldOut = "rows"
) -> Records:
    """Records from named columns of equal length.

    A schema says how each column is encoded, and which rows test. Without one columns are numbers as they
    are: several are laid side by side; a single one keeps its shape, so it may hold images. Bytes of two or
    more axes per record are taken as images and divided by 255; nothing else is scaled. A column `split` of
    'train' and 'test' gives the test set. Where no column does, a fixed random fifth of every client is held
    out, or a fifth by a hash of each record.

    Args:
        table: columns, each of shape (n, ...).
        columns: what they mean.
        name: what the data are, for reports.
        held_out: how test records are chosen without a column `split`: replace-one neighbours, whose sizes
            are public, need `rows`, add-remove neighbours `records`.

    Raises:
        DataError: a column is missing, of another length, not numeric, has missing or infinite values, or
            labels that are no classes; or a client keeps no training record.

    Example:
        >>> table = {"age": np.arange(10.0), "label": np.tile([0, 1], 5), "site": np.repeat(["a", "b"], 5)}
        >>> records = from_columns(table, Columns(client="site"), "clinic")
        >>> records.x.shape, records.test_x.shape, set(records.client_ids.tolist()) == {"a", "b"}
        ((8, 1), (2, 1), True)
    """
    from noiseworthy.data.schema.tables import plain_schema, stated_records  # here, as no gateway needs them

    if not isinstance(columns, Columns):
        return stated_records(table, columns, name, held_out)
    arrays = {key: np.asarray(value) for key, value in table.items()}
    owners = _owners(arrays, columns.client, name)
    x, y, classes = _examples(arrays, columns, name)
    groups = np.zeros(len(y), int) if owners is None else owners
    origin: TestOrigin = "marked" if SPLIT_COLUMN in arrays else held_out
    if origin == "marked":
        is_test = _marked(arrays[SPLIT_COLUMN], name)
    elif origin == "rows":
        is_test = holdout(groups)
    else:
        is_test = held_out_of_each(x, _plain_labels(arrays, columns, name), groups, name)
    _same_length({"labels": y, "clients": groups, SPLIT_COLUMN: is_test}, len(y), name)
    stated = columns.classes or columns.regression
    found = () if stated else classes_among(_complete_labels(arrays, columns, name))
    records = split_records(
        x, y, is_test, classes=classes, name=name, client_ids=owners, test_origin=origin, classes_found=found
    )
    schema = plain_schema(arrays, columns, _feature_names(arrays, columns, name), found)
    return replace(records, schema=schema)


def held_out_of_each(x: Features, labels: NDArray, owners: NDArray, name: str) -> NDArray[np.bool_]:
    """A split by hashes, which must leave every owner something to train on.

    Raises:
        DataError: an owner of whom all records would test.
    """
    _same_length({"clients": owners}, len(x), name)
    is_test = holdout_of_each(x, labels)
    if bare := sorted(set(owners.tolist()) - set(owners[~is_test].tolist())):
        raise DataError(
            f"{name}: all records of {bare[0]!r} are held out as test records, which under add-remove are "
            f"chosen one by one; mark rows 'train' and 'test' in a column {SPLIT_COLUMN}"
        )
    return is_test


def _complete_labels(table: Table, columns: Columns, name: str) -> NDArray:
    return _complete(_column(table, columns.label, name), columns.label, name)


def _plain_labels(table: Table, columns: Columns, name: str) -> NDArray:
    """Labels that do not depend on those of other records: numbers to predict, else text."""
    labels = _complete_labels(table, columns, name)
    return _numbers(labels, columns.label, name) if columns.regression else as_text(labels)


def opened(source: str, data_dir: str | Path | None = None, query: str | None = None) -> Path | Query:
    """Where a table is: the path of its file as it is found, or the query of a database.

    Args:
        source: a path that ends as one of `FORMATS`, or `sql:` and a connection string.
        data_dir: folder of data files; None takes the environment variable NOISEWORTHY_DATA.
        query: of a database.

    Raises:
        DataError: no such file.
        ConfigError: a query that may be read otherwise the next time, or a password in a connection string.
    """
    if not source.startswith(SQL):
        return locate(source, data_dir)
    from noiseworthy.data.sql import Query  # here, because few gateways read a database

    return Query(source.removeprefix(SQL), query or "", data_dir)


def read_table(source: Path | Query, columns: Columns | Schema, *, held_out: HeldOut = "rows") -> Records:
    """Records from a table that was `opened`; the name of the file or database becomes the name of the data.

    Raises:
        DataError: an unreadable file, another suffix, or columns that `from_columns` refuses.
    """
    table, name = _read(source, not isinstance(columns, Columns))
    return from_columns(table, columns, name, held_out=held_out)


def read_cells(source: Path | Query) -> dict[str, NDArray]:
    """The columns of a table as a schema wants them: cells of text, numbers and dates, each by itself.

    What one cell of a csv is read as would else depend on the others of its column.

    Args:
        source: that was `opened`.

    Raises:
        DataError: an unreadable file, or another suffix.
    """
    return dict(_read(source, True)[0])


def read_whole(
    source: Path | Query, columns: Columns | Schema, part: Literal["train", "test"]
) -> tuple[Features, Labels, int | None]:
    """All records of a table: none is set aside, and a column of clients is left out.

    Args:
        source: that was `opened`.
        columns: what they mean.
        part: the rows that are taken where a column `split` marks them.

    Returns:
        Features, labels and the number of classes.

    Raises:
        DataError: as `read_table`, or no row of the part.
    """
    table, name = _read(source, not isinstance(columns, Columns))
    if not isinstance(columns, Columns):
        from noiseworthy.data.schema.tables import stated_examples

        x, y, _, is_test = stated_examples(table, columns, name, whole=True)
        classes = columns.n_classes
    else:
        x, y, classes = _examples(table, columns, name)
        is_test = _marked(table[SPLIT_COLUMN], name) if SPLIT_COLUMN in table else None
    if is_test is not None:
        kept = is_test == (part == "test")
        x, y = x[kept], y[kept]
    if not len(x):
        raise DataError(f"{name} has no {part} records; bring some, or leave out the column {SPLIT_COLUMN}")
    return x, y, classes


def is_table(source: str) -> bool:
    """Whether a source is the path of a table, or a database."""
    return source.endswith(FORMATS) or source.startswith(SQL)


def _read(source: Path | Query, cells: bool) -> tuple[Table, str]:
    """The columns of a table, each cell by itself where `cells`, and the name of the data."""
    from noiseworthy.data.readers import read_columns  # here, because most sources are no tables

    if not isinstance(source, Path):
        return source.read(cells=cells), source.name
    for suffix in sorted(FORMATS, key=len, reverse=True):
        if source.name.endswith(suffix):
            return read_columns(source, cells=cells), source.name.removesuffix(suffix)
    raise DataError(f"{source} must end in one of {', '.join(FORMATS)}")


def _examples(table: Table, columns: Columns, name: str) -> tuple[Features, Labels, int | None]:
    """Features, labels and the number of classes, row by row."""
    y, classes = _labels(_column(table, columns.label, name), columns, name)
    return _features(table, _feature_names(table, columns, name), len(y), name), y, classes


def _column(table: Table, column: str, name: str) -> NDArray:
    if column not in table:
        raise DataError(f"{name} has no column {column!r}; it has {', '.join(map(repr, table))}")
    return table[column]


def _feature_names(table: Table, columns: Columns, name: str) -> Sequence[str]:
    if columns.features is None:
        return [column for column in table if column not in (columns.label, columns.client, SPLIT_COLUMN)]
    if columns.label in columns.features:
        raise DataError(f"{name}: column {columns.label!r} is the label and cannot be a feature too")
    return columns.features


def _features(table: Table, names: Sequence[str], n: int, name: str) -> NDArray[np.float32]:
    blocks = {column: _numbers(_column(table, column, name), column, name) for column in names}
    if not blocks:
        raise DataError(f"{name} has no feature columns; it has only {', '.join(map(repr, table))}")
    _same_length(blocks, n, name)
    if len(blocks) == 1:
        block = next(iter(blocks.values()))
        return block if block.ndim > 1 else block[:, None]
    for column, block in blocks.items():
        if block.ndim > 2:
            raise DataError(f"{name}: column {column!r} holds images; it must be the only feature column")
    return np.concatenate([block.reshape(n, -1) for block in blocks.values()], axis=1)


def _numbers(values: NDArray, column: str, name: str) -> NDArray[np.float32]:
    if values.dtype.kind not in "biuf":
        raise DataError(
            f"{name}: column {column!r} is not numeric; encode it as numbers or leave it out of the features"
        )
    if values.dtype == np.uint8 and values.ndim > 2:
        return scaled_images(values)
    return _finite(values, column, name)


def _finite(values: NDArray, column: str, name: str) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # beyond float32 is as bad as infinite
        numbers = values.astype(np.float32)
    bad = int(np.sum(~np.isfinite(numbers)))
    if bad:
        raise DataError(
            f"{name}: column {column!r} has {bad} NaN or infinite values; impute or drop those records first"
        )
    return numbers


def _complete(values: NDArray, column: str, name: str) -> NDArray:
    """One value per record without gaps; a gap in text is a value that is not text."""
    if values.ndim != 1:
        raise DataError(f"{name}: column {column!r} must hold one value per record, got shape {values.shape}")
    if values.dtype.kind == "f":
        _finite(values, column, name)
    if values.dtype != object:
        return values
    bad = sum(not isinstance(value, str | int) for value in values)
    if bad:
        raise DataError(f"{name}: column {column!r} has {bad} missing values; drop those records first")
    return values.astype(str)


def _labels(values: NDArray, columns: Columns, name: str) -> tuple[Labels, int | None]:
    complete = _complete(values, columns.label, name)
    if columns.regression:
        return _numbers(complete, columns.label, name), None
    return class_numbers(complete, f"{name}: column {columns.label!r}", columns.classes)


def _owners(table: Table, column: str, name: str) -> NDArray | None:
    if column == CLIENT_COLUMN and column not in table:
        return None
    return _complete(_column(table, column, name), column, name)


def _marked(values: NDArray, name: str) -> NDArray[np.bool_]:
    unknown = set(np.unique(values.astype(str)).tolist()) - {"train", "test"}
    if unknown:
        raise DataError(
            f"{name}: column {SPLIT_COLUMN!r} must hold 'train' or 'test', got {sorted(unknown)[0]!r}"
        )
    return values.astype(str) == "test"


def _same_length(arrays: Table, n: int, name: str) -> None:
    for column, values in arrays.items():
        if len(values) != n:
            raise DataError(f"{name}: column {column!r} has {len(values)} rows but there are {n} labels")
