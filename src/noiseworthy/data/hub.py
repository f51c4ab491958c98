"""Named public data sets from the Hugging Face hub, through the optional package `datasets`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.frames import needed
from noiseworthy.data.records import Records
from noiseworthy.data.schema import Schema
from noiseworthy.data.table_records import HeldOut, from_columns
from noiseworthy.data.tables import CLIENT_COLUMN, SPLIT_COLUMN, Columns
from noiseworthy.errors import DataError

Load = Callable[[str], Mapping[str, Any]]


def read_hub(
    name: str, columns: Columns | Schema, load: Load | None = None, *, held_out: HeldOut = "rows"
) -> Records:
    """Records of a public data set by name, e.g. `mnist` or `flwrlabs/femnist`.

    The splits `train` and `test` are used; without `test`, a fifth is set aside as by `from_columns`.

    Args:
        name: repository on the hub.
        columns: what the columns mean; an image column keeps its axes and is scaled to [0, 1]. Or what they
            are, as a schema; a column with the role of the split counts for more than the splits do.
        load: name to splits, each with `column_names` and columns by name; None: `datasets.load_dataset`.
        held_out: as for `from_columns`.

    Raises:
        DataError: no package `datasets`, no split `train`, or columns that `from_columns` refuses.
    """
    splits = _splits(name, load or needed("datasets", "data", "a source hub:NAME").load_dataset)
    if not isinstance(columns, Columns):
        return _stated(splits, columns, name, held_out)
    tables = {part: _table(splits[part], columns, name) for part in ("train", "test") if part in splits}
    joined = {key: np.concatenate([table[key] for table in tables.values()]) for key in tables["train"]}
    if "test" in tables:
        rows = [len(table[columns.label]) for table in tables.values()]
        joined[SPLIT_COLUMN] = np.repeat(["train", "test"], rows)
    return from_columns(joined, columns, name, held_out=held_out)


def _stated(splits: Mapping[str, Any], schema: Schema, name: str, held_out: HeldOut) -> Records:
    """Records of cells, each of which is read by itself."""
    parts = [splits[part] for part in ("train", "test") if part in splits]
    tables = [{key: _cells(part[key]) for key in part.column_names} for part in parts]
    if odd := sorted(tables[0].keys() ^ tables[-1].keys()):
        raise DataError(f"{name} has the column {odd[0]!r} in one of its splits only; read it as a table")
    joined = {key: np.concatenate([table[key] for table in tables]) for key in tables[0]}
    rows = [len(part[schema.label.name]) for part in parts if schema.label.name in part.column_names]
    is_test = np.repeat([False, True], rows) if len(rows) == 2 else None
    return from_columns(joined, schema, name, held_out=held_out, is_test=is_test)


def _cells(column: Any) -> NDArray:
    """The cells of a column one by one, lists among them whole; shape (n,)."""
    values = [*column]
    held = np.empty(len(values), object)
    held[:] = values
    return held


def _splits(name: str, load: Load) -> Mapping[str, Any]:
    try:
        splits = load(name)
    except (OSError, ValueError) as cause:
        raise DataError(f"{name} cannot be loaded from the hub: {cause}") from None
    if "train" not in splits:
        raise DataError(f"{name} has no split 'train'; it has {', '.join(map(repr, splits))}")
    return splits


def _table(dataset: Any, columns: Columns, name: str) -> dict[str, NDArray]:
    named = dataset.column_names
    chosen = columns.features or [key for key in named if key not in (columns.label, columns.client)]
    unnamed = columns.client == CLIENT_COLUMN and columns.client not in named
    wanted = [*chosen, columns.label, *([] if unnamed else [columns.client])]
    for key in wanted:
        if key not in named:
            raise DataError(f"{name} has no column {key!r}; it has {', '.join(map(repr, named))}")
    return {key: _stacked(dataset, key) for key in wanted}


def _stacked(dataset: Any, column: str) -> NDArray:
    try:
        return np.stack([np.asarray(value) for value in dataset[column]])
    except ValueError:
        raise DataError(f"column {column!r} must hold values of one shape; choose other features") from None
