"""Records of a table whose columns are stated, and the schema of one of plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from noiseworthy._names import nearest
from noiseworthy.data.labels import Labels
from noiseworthy.data.records import Records, TestOrigin, holdout, split_records
from noiseworthy.data.schema.reading import many
from noiseworthy.data.schema.schema import Schema, check_nothing_wrong, missing
from noiseworthy.data.schema.values import columns_of, keys
from noiseworthy.data.tables import SPLIT_COLUMN, Columns, HeldOut, held_out_of_each


def stated_examples(
    table: Any, schema: Schema, name: str, *, whole: bool = False
) -> tuple[NDArray[np.float32], Labels, NDArray | None, NDArray[np.bool_] | None]:
    """Features, labels, owners and test rows of a table, by what is stated of its columns.

    Args:
        table: columns of shape (n,) by name, or a frame.
        schema: what they are.
        name: of the data, for errors.
        whole: all records are one owner's, or the server's: columns of owners and of the split may be absent.

    Returns:
        x (n, d), y (n,), names of owners (n,) or None, and which records test, or None where none is marked.

    Raises:
        DataError: everything that is wrong: columns that are not stated, or stated and not there, gaps that
            are not allowed, unknown values.
    """
    columns = columns_of(table)
    others = [schema.client, schema.split]
    needed = [one for one in others if one and not whole]
    stated = [one.name for one in schema.columns]
    said = [
        f'column {one!r} is not stated{nearest(one, stated)}; say what it is, or that it is "left-out"'
        for one in columns
        if one not in stated
    ] + missing(columns, needed)
    wanted = (*schema.features, schema.label)
    usable = [one for one in wanted if one.name in columns]
    said += missing(columns, [one.name for one in wanted])
    readings = schema.read(columns, name, usable)
    said += schema.wrong(columns, readings)
    owners, marks = (np.array(keys(columns[one])) if one and one in columns else None for one in others)
    said += _gaps(owners, schema.client) + _unmarked(marks, schema.split)
    check_nothing_wrong(said, name)
    return (
        schema.encoded(readings),
        schema.labels(readings),
        owners,
        None if marks is None else marks == "test",
    )


def stated_records(table: Any, schema: Schema, name: str, held_out: HeldOut) -> Records:
    """Records of a table whose columns are stated, with a test set as `from_columns` chooses it.

    Args:
        table: columns of shape (n,) by name, or a frame.
        schema: what they are.
        name: of the data.
        held_out: how test records are chosen where no column marks them.

    Raises:
        DataError: as `stated_examples`, or a client that keeps no training record.
    """
    x, y, owners, is_test = stated_examples(table, schema, name)
    groups = np.zeros(len(y), int) if owners is None else owners
    origin: TestOrigin = held_out if is_test is None else "marked"
    if is_test is None:
        is_test = holdout(groups) if held_out == "rows" else held_out_of_each(x, y, groups, name)
    records = split_records(
        x, y, is_test, classes=schema.n_classes, name=name, client_ids=owners, test_origin=origin
    )
    return replace(records, schema=schema)


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


def _gaps(owners: NDArray | None, name: str | None) -> list[str]:
    if owners is None or not np.any(gaps := owners == ""):
        return []
    return [f"column {name!r} has {many(gaps, 'missing value')}; say whose those records are, or drop them"]


def _unmarked(marks: NDArray | None, name: str | None) -> list[str]:
    if marks is None or not np.any(other := ~np.isin(marks, ("train", "test"))):
        return []
    return [f"column {name!r} must hold 'train' or 'test', got {str(marks[other][0])!r}"]
