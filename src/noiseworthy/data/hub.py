"""Named public data sets from the Hugging Face hub, through the optional package `datasets`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.records import Records
from noiseworthy.data.tables import SPLIT_COLUMN, Columns, from_columns
from noiseworthy.errors import DataError

Load = Callable[[str], Mapping[str, Any]]


def read_hub(name: str, columns: Columns, load: Load | None = None) -> Records:
    """Records of a public data set by name, e.g. `mnist` or `flwrlabs/femnist`.

    The splits `train` and `test` are used; without `test`, a fixed random fifth of every client is set aside.

    Args:
        name: repository on the hub.
        columns: what the columns mean; an image column keeps its axes and is scaled to [0, 1].
        load: name to splits, each with `column_names` and columns by name; None: `datasets.load_dataset`.

    Raises:
        DataError: no package `datasets`, no split `train`, or columns that `from_columns` refuses.
    """
    splits = (load or _load_dataset())(name)
    if "train" not in splits:
        raise DataError(f"{name} has no split 'train'; it has {', '.join(map(repr, splits))}")
    tables = {part: _table(splits[part], columns) for part in ("train", "test") if part in splits}
    joined = {key: np.concatenate([table[key] for table in tables.values()]) for key in tables["train"]}
    if "test" in tables:
        joined[SPLIT_COLUMN] = np.repeat(["train", "test"], [_rows(table) for table in tables.values()])
    return from_columns(joined, columns, name)


def _load_dataset() -> Load:
    try:
        from datasets import load_dataset  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise DataError("hub: sources need the package datasets; pip install 'noiseworthy[data]'") from None
    return load_dataset


def _table(dataset: Any, columns: Columns) -> dict[str, NDArray]:
    chosen = columns.features or [
        key for key in dataset.column_names if key not in (columns.label, columns.client)
    ]
    wanted = [*chosen, columns.label, *([columns.client] if columns.client else [])]
    absent = [key for key in wanted if key not in dataset.column_names]
    if absent:
        raise DataError(
            f"no column {absent[0]!r}; the data have {', '.join(map(repr, dataset.column_names))}"
        )
    return {key: _stacked(dataset, key) for key in wanted}


def _stacked(dataset: Any, column: str) -> NDArray:
    try:
        return np.stack([np.asarray(value) for value in dataset[column]])
    except ValueError:
        raise DataError(
            f"column {column!r} must hold values of one shape; choose other feature columns"
        ) from None


def _rows(table: dict[str, NDArray]) -> int:
    return len(next(iter(table.values())))
