"""Features, labels and owners of a table whose columns are stated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy._names import nearest
from noiseworthy.data.labels import Labels
from noiseworthy.data.schema.reading import many
from noiseworthy.data.schema.schema import Schema, check_nothing_wrong, missing
from noiseworthy.data.schema.values import NAMELESS, columns_of, names


def stated_examples(
    table: Any, schema: Schema, name: str, *, whole: bool = False, testing: bool = False
) -> tuple[NDArray[np.float32], Labels, NDArray | None, NDArray[np.bool_] | None]:
    """Features, labels, owners and test rows of a table, by what is stated of its columns.

    Args:
        table: columns of shape (n,) by name, or a frame.
        schema: what they are.
        name: of the data, for errors.
        whole: all records are one owner's, or the server's: columns of owners and of the split may be absent.
        testing: they are the server's, which test: whose they are may be absent, too.

    Returns:
        x (n, d), or (n, d + 1) with the weight of each record last, y (n,), names of owners (n,) or None, and
        which records test, or None where none is marked.

    Raises:
        DataError: everything that is wrong: columns that are not stated, or stated and not there, gaps that
            are not allowed, unknown values, persons with more records than they have at most.
    """
    columns = columns_of(table)
    others = [schema.client, schema.split]
    needed = [one for one in others if one and not whole]
    # of persons that nobody told of none would have too many records, whatever is claimed of them
    if schema.person is not None and not testing:
        needed.append(schema.person.name)
    stated = {one.name: one for one in schema.columns}
    said = [
        f'column {one!r} is not stated{nearest(one, stated)}; say what it is, or {{ kind = "left-out" }}'
        for one in columns
        if one not in stated
    ] + missing(columns, needed)
    wanted = schema.learned
    usable = [one for one in wanted if one.name in columns]
    said += missing(columns, [one.name for one in wanted])
    readings = schema.read(columns, name, usable)
    said += schema.wrong(columns, readings)
    owners, marks = (np.array(names(columns[one])) if one and one in columns else None for one in others)
    said += _gaps(owners, schema.client) + _unmarked(marks, schema.split)
    said += _many_records(columns, schema, owners)
    check_nothing_wrong(said, name)
    is_test = None if marks is None else marks == "test"
    return schema.records(readings), schema.labels(readings), owners, is_test


def _gaps(owners: NDArray | None, name: str | None) -> list[str]:
    if owners is None or not np.any(gaps := owners == ""):
        return []
    return [f"column {name!r} has {many(gaps, 'missing value')}; {NAMELESS}"]


def _many_records(columns: Mapping[str, NDArray], schema: Schema, owners: NDArray | None) -> list[str]:
    """Persons with more records at an owner than the schema states."""
    person = schema.person
    if person is None or person.name not in columns:
        return []
    persons = names(columns[person.name])
    if "" in persons:
        return _gaps(np.array(persons), person.name)
    _, says = person.excess(persons, person.counts(persons, None if owners is None else owners.tolist()))
    return [f"column {person.name!r}: {says}"] if says else []


def _unmarked(marks: NDArray | None, name: str | None) -> list[str]:
    if marks is None or not np.any(other := ~np.isin(marks, ("train", "test"))):
        return []
    return [f"column {name!r} must hold 'train' or 'test', got {str(marks[other][0])!r}"]
