"""Parquet files of many clients, turned batch by batch into a federation that is mapped from files."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy._places import mapped
from noiseworthy.data.federation import checked_pair
from noiseworthy.data.flat_files import RECORDS, Pair, filled
from noiseworthy.data.frames import of_frame, unharmed
from noiseworthy.data.tables import Columns, Table, complete_column, feature_names, plain_examples, read_whole
from noiseworthy.errors import DataError, InvalidInput

_ROWS = 65_536
"""Records that are held in memory at once."""


def write_parquet(
    folder: Path, source: Path, test: str | Path | tuple[ArrayLike, ArrayLike], columns: Columns
) -> None:
    """Write the records of Parquet files; arguments and errors are those of `Federation.from_parquet`.

    The files are read twice: who has how many records, then the records, each to its place.
    """
    if (columns.classes is None) != columns.regression:
        raise InvalidInput("classes must be stated, or else regression = True; private labels are not read")
    files = _files(source, Path(test) if isinstance(test, str | Path) else None)
    columns = _ordered(files, columns)
    by_column, clients = _counted(files, columns.client)
    if not clients or min(clients.values()) == 0:
        raise DataError(f"{source} has a client without records, or none; leave it out of the federation")
    classes = None if columns.classes is None else len(columns.classes)
    tests = read_whole(Path(test), columns, "test")[:2] if isinstance(test, str | Path) else test
    x, y = checked_pair(*tests, classes, "the test set")
    like = x.astype(np.float32), y  # arrays of int32 would be tokens, and cut records to whole numbers
    names, sizes = list(clients), np.array([*clients.values()], np.int64)
    with filled(folder, like, classes, source.stem, names) as keep:
        held = [mapped(folder / file, int(sizes.sum()), one) for file, one in zip(RECORDS, like, strict=True)]
        free = np.cumsum(sizes) - sizes
        place = {name: i for i, name in enumerate(names)}
        for file in files:
            for owners, pair in _batches(file, columns, by_column):
                whose = np.array([place[one] for one in owners], np.int64)
                rows = _rows(whose, free)
                for into, part in zip(held, pair, strict=True):
                    if into.shape[1:] != part.shape[1:]:
                        raise DataError(
                            f"{file} has records of shape {part.shape[1:]}, the test set {into.shape[1:]}; "
                            "give both the same columns"
                        )
                    into[rows] = part
        for into in held:
            into.flush()
        keep(sizes)


def _files(source: Path, test: Path | None) -> list[Path]:
    """Files of records that train: one of test records may lie among them."""
    there = [source] if source.is_file() else sorted(source.rglob("*.parquet"))
    files = [file for file in there if test is None or file.resolve() != test.resolve()]
    if deeper := [file for file in files if source not in (file, file.parent)]:
        raise DataError(f"{deeper[0]} lies in a folder of its own; put the files of all clients side by side")
    if not files:
        raise DataError(f"{source} holds no files that end in .parquet to train; name their folder, or one")
    return files


def _opened(file: Path) -> Any:
    from pyarrow import parquet  # here, because it takes long to import

    return unharmed(file, lambda: parquet.ParquetFile(file, memory_map=True), "a Parquet table")


def _ordered(files: list[Path], columns: Columns) -> Columns:
    """Columns to learn from in the order of the first file, which others need not have."""
    if columns.features is not None:
        return columns
    first, *others = (feature_names(_heads(file), columns, str(file)) for file in files)
    for file, names in zip(files[1:], others, strict=True):
        if set(names) != set(first):
            raise DataError(f"{file} has other columns than {files[0]}; state feature_columns")
    return replace(columns, features=tuple(first))


def _heads(file: Path) -> Table:
    """The columns without their rows."""
    with _opened(file) as table:
        return of_frame(table.schema_arrow.empty_table())


def _counted(files: list[Path], column: str) -> tuple[bool, dict[str, int]]:
    """Whether a column names the clients, and the records of each, sorted by name; else files are clients."""
    counts: Counter[str] = Counter()
    columns, floats = set(), set()
    for file in files:
        with _opened(file) as table:
            columns.add(column in table.schema_arrow.names)
            if len(columns) > 1:
                raise DataError(f"{file} and other files differ in whether they have a column {column!r}")
            if columns == {False}:
                counts[file.stem] = table.metadata.num_rows
                continue
            if table.metadata.num_rows:
                floats.add(str(table.schema_arrow.field(column).type) in ("halffloat", "float", "double"))
            if len(floats) > 1:
                said = f"{file} and other files differ in whether column {column!r} is of floats"
                raise DataError(f"{said}, and client 1 would be another one than 1.0; write it alike in all")
            for batch in table.iter_batches(_ROWS, columns=[column]):
                counts.update(_owners(of_frame(batch), column, file))
    return columns == {True}, dict(sorted(counts.items()))


def _owners(arrays: Table, column: str, file: Path) -> list[str]:
    """Whose each row is."""
    return [str(one) for one in complete_column(arrays, column, str(file)).tolist()]


def _batches(file: Path, columns: Columns, by_column: bool) -> Iterator[tuple[list[str], Pair]]:
    """Owners and records, of some rows at a time."""
    with _opened(file) as table:
        for batch in table.iter_batches(_ROWS):
            arrays = of_frame(batch)
            x, y, tests, _ = plain_examples(arrays, columns, str(file))
            if tests is not None and tests.any():
                raise DataError(f"{file} has rows marked 'test', which would train; name them apart, by test")
            yield _owners(arrays, columns.client, file) if by_column else [file.stem] * len(x), (x, y)


def _rows(whose: NDArray[np.int64], free: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where records of these clients go: after those that are there, in their order; `free` moves on."""
    order = np.argsort(whose, kind="stable")
    sorted_ = whose[order]
    first = np.flatnonzero(np.append(True, sorted_[1:] != sorted_[:-1]))
    within = np.arange(len(whose)) - np.repeat(first, np.diff(np.append(first, len(whose))))
    rows = np.empty(len(whose), np.int64)
    rows[order] = free[sorted_] + within
    np.add.at(free, whose, 1)
    return rows
