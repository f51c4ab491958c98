"""Records of a table, by columns that are numbers as they are or are stated, with a test set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError

from noiseworthy.data.labels import Features, Labels, as_text
from noiseworthy.data.readers import read_columns
from noiseworthy.data.records import Records, classes_among, holdout, holdout_of_each, split_records
from noiseworthy.data.schema import Schema
from noiseworthy.data.schema.tables import stated_examples
from noiseworthy.data.tables import (
    CLIENT_COLUMN,
    SPLIT_COLUMN,
    Columns,
    check_lengths,
    complete_column,
    feature_names,
    plain_examples,
)
from noiseworthy.errors import DataError

if TYPE_CHECKING:
    from noiseworthy.data.sql import Query


HeldOut = Literal["rows", "records"]
"""How test records are chosen where no column marks them: by their places, so that sizes are the same
whatever the records are, or each by itself, so that one more or less moves no other."""


def from_columns(
    table: Mapping[str, ArrayLike],
    columns: Columns | Schema,
    name: str,
    *,
    held_out: HeldOut = "rows",
    is_test: NDArray[np.bool_] | None = None,
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
        is_test: which rows test, shape (n,), where that is known beside columns that a schema states.

    Raises:
        DataError: a column is missing, of another length, not numeric, has missing or infinite values, or
            labels that are no classes; or a client keeps no training record.

    Example:
        >>> table = {"age": np.arange(10.0), "label": np.tile([0, 1], 5), "site": np.repeat(["a", "b"], 5)}
        >>> records = from_columns(table, Columns(client="site"), "clinic")
        >>> records.x.shape, records.test_x.shape, set(records.client_ids.tolist()) == {"a", "b"}
        ((8, 1), (2, 1), True)
    """
    if isinstance(columns, Columns):
        arrays = {key: np.asarray(value) for key, value in table.items()}
        return _plain_records(arrays, columns, name, held_out)
    x, y, owners, marks = stated_examples(table, columns, name)
    tests = is_test if marks is None else marks
    if columns.persons is not None:
        from noiseworthy.data.persons import names_of, of_persons  # here, because few tables are of persons

        names = names_of(table, columns)
        one_by_one = held_out == "records"
        return of_persons(x, y, names, columns, name, owners=owners, is_test=tests, one_by_one=one_by_one)
    records = _split(x, y, columns.n_classes, owners, tests, y, name, held_out)
    return replace(records, schema=columns)


def read_table(source: Path | Query, columns: Columns | Schema, *, held_out: HeldOut = "rows") -> Records:
    """Records from a table that was `opened`; the name of the file or database becomes the name of the data.

    Raises:
        DataError: an unreadable file, another suffix, or columns that `from_columns` refuses.
    """
    table, name = read_columns(source, cells=not isinstance(columns, Columns), coded=columns.coded)
    return from_columns(table, columns, name, held_out=held_out)


def _plain_records(table: Mapping[str, NDArray], columns: Columns, name: str, held_out: HeldOut) -> Records:
    unnamed = columns.client == CLIENT_COLUMN and columns.client not in table
    owners = None if unnamed else complete_column(table, columns.client, name)
    x, y, is_test, classes = plain_examples(table, columns, name)
    labels = complete_column(table, columns.label, name)
    # a hash of a record takes what its label is whatever other records are: a number to predict, else text
    hashed = y if columns.regression else as_text(labels)
    records = _split(x, y, classes, owners, is_test, hashed, name, held_out)
    found = () if columns.classes or columns.regression else classes_among(labels)
    schema = plain_schema(table, columns, feature_names(table, columns, name), found)
    return replace(records, classes_found=found, schema=schema)


def _split(
    x: Features, y: Labels, classes: int | None, owners: NDArray | None, is_test: NDArray[np.bool_] | None,
    own: NDArray, name: str, held_out: HeldOut,
) -> Records:  # fmt: skip
    """Records with the test rows that are marked, or held out of every owner's; `own` labels are hashed."""
    groups = np.zeros(len(y), int) if owners is None else owners
    marks = {} if is_test is None else {SPLIT_COLUMN: is_test}
    check_lengths({"clients": groups, **marks}, len(y), name)
    origin = held_out if is_test is None else "marked"
    if is_test is None:
        is_test = holdout(groups) if held_out == "rows" else _held_out_of_each(x, own, groups, name)
    return split_records(x, y, is_test, classes=classes, name=name, client_ids=owners, test_origin=origin)


def _held_out_of_each(x: Features, labels: NDArray, owners: NDArray, name: str) -> NDArray[np.bool_]:
    """A split by hashes, which must leave every owner something to train on."""
    is_test = holdout_of_each(x, labels)
    if bare := sorted(set(owners.tolist()) - set(owners[~is_test].tolist())):
        raise DataError(
            f"{name}: all records of {bare[0]!r} are held out as test records, which under add-remove are "
            f"chosen one by one; mark rows 'train' and 'test' in a column {SPLIT_COLUMN}"
        )
    return is_test


def plain_schema(
    arrays: Mapping[str, NDArray], columns: Columns, features: Sequence[str], found: Sequence[str]
) -> Schema | None:
    """The schema of a table of numbers that are taken as they are.

    Args:
        arrays: all columns by name.
        columns: what they mean.
        features: names of those to learn from, in order.
        found: classes that were read off the labels, where none are stated.

    Returns:
        None where a column holds more than a number per record, or where two classes, such as "a" and "a ",
        are one value in a schema's writing.
    """
    if any(one in arrays and arrays[one].ndim > 1 for one in features):
        return None
    classes = [str(one) for one in columns.classes or found]
    kind: dict[str, Any] = {"kind": "number"} if columns.regression else {"classes": classes}
    tables: dict[str, dict[str, Any]] = {one: {"kind": "number", "step": 1.0} for one in features}
    tables[columns.label] = {"role": "label", **kind}
    roles = {columns.client: "client", SPLIT_COLUMN: "split"}
    tables |= {one: {"role": role} for one, role in roles.items() if one in arrays and one not in tables}
    rest = {one: {"kind": "left-out"} for one in arrays if one not in tables}
    try:
        return Schema.model_validate(tables | rest)
    except ValidationError:
        return None
