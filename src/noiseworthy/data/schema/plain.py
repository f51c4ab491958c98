"""The schema of a table of plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray
from pydantic import ValidationError

from noiseworthy.data.schema.schema import Schema
from noiseworthy.data.tables import SPLIT_COLUMN, Columns


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
