"""A federation in a folder: records end to end in `.npy` files, which are mapped; also made of Parquet."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy._places import mapped, writing
from noiseworthy.data.federation import Federation, check_alike, checked_pair, numbered
from noiseworthy.data.frames import of_frame, unharmed
from noiseworthy.data.ragged import Ragged
from noiseworthy.data.tables import Columns, Table, complete_column, feature_names, plain_examples, read_parts
from noiseworthy.errors import DataError, InvalidInput

ABOUT, SIZES = "federation.json", "sizes.npy"
RECORDS, TESTS = ("x.npy", "y.npy"), ("test_x.npy", "test_y.npy")
_VERSION = 1
Pair = tuple[Any, Any]


def write(
    folder: Path, clients: Iterable[tuple[ArrayLike, ArrayLike]], count: int,
    test: tuple[ArrayLike, ArrayLike], classes: int | None, name: str, names: Sequence[str] | None = None,
) -> None:  # fmt: skip
    """Write a federation client by client.

    Args:
        folder: new or empty.
        clients: features and labels of each, read once.
        count: number of clients N.
        test: features and labels.
        classes: number of classes, or None for regression.
        name: what the data are.
        names: of the clients; None numbers them.

    Raises:
        DataError: what `Federation.from_clients` refuses, or a folder that holds something.
    """
    known = numbered(count) if names is None else tuple(map(str, names))
    if not count or not len(known) == len(set(known)) == count:
        said = f"needs a client and different client_names for each, got {count}, {len({*known})}"
        raise DataError(f"a federation {said}")
    tests, sizes = checked_pair(*test, classes, "the test set"), np.zeros(count, np.int64)
    with filled(folder, tests, classes, name, None if names is None else known) as keep:
        with _growing(folder, tests) as add:
            for i, ((x, y), who) in enumerate(zip(clients, known, strict=True)):
                pair = checked_pair(x, y, classes, who)
                check_alike([pair, tests])
                add(pair)
                sizes[i] = len(pair[0])
        keep(sizes)


@contextmanager
def filled(folder: Path, tests: Pair, classes: int | None, name: str, names: Sequence[str] | None):
    """A folder that is being filled, and what to tell sizes of clients once all records are in its files.

    Raises:
        DataError: one that holds something, or cannot be written.
    """
    with writing(folder, "name another folder"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise DataError(f"{folder} holds something already; name a new folder")
        for file in (ABOUT, SIZES, *RECORDS, *TESTS):
            (folder / file).touch(0o600)  # a folder that was there may be open to others

        def keep(sizes: NDArray[np.int64]) -> None:
            np.save(folder / SIZES, sizes)
            for file, part in zip(TESTS, tests, strict=True):
                np.save(folder / file, part)
            about = {"version": _VERSION, "name": name, "classes": classes, "clients": names, "records": ""}
            for file in RECORDS:
                with (folder / file).open("rb") as written:
                    about["records"] += hashlib.file_digest(written, "sha256").hexdigest()
            (folder / ABOUT).write_text(json.dumps(about))

        yield keep


@contextmanager
def _growing(folder: Path, like: Pair) -> Iterator[Any]:
    """Two `.npy` files that are appended to; their headers, which have room, say in the end how much."""
    files, rows = [(folder / name).open("wb") for name in RECORDS], 0

    def headed(rows: int) -> None:
        for file, part in zip(files, like, strict=True):
            file.seek(0)
            said = {"descr": part.dtype.str, "fortran_order": False, "shape": (rows, *part.shape[1:])}
            np.lib.format.write_array_header_1_0(file, said)

    def add(pair: Pair) -> None:
        nonlocal rows
        for file, part, kind in zip(files, pair, like, strict=True):
            np.ascontiguousarray(part, kind.dtype).tofile(file)
        rows += len(pair[0])

    try:
        headed(0)
        yield add
        headed(rows)
    finally:
        for file in files:
            file.close()


def read(folder: Path) -> Federation:
    """The federation that a folder holds, its records mapped.

    Raises:
        DataError: no such folder, or damaged files.
    """
    try:
        about = json.loads((folder / ABOUT).read_text())
        x, y = (np.asarray(np.load(folder / name, mmap_mode="r", allow_pickle=False)) for name in RECORDS)
        test_x, test_y = (np.load(folder / name, allow_pickle=False) for name in TESTS)
        sizes = np.load(folder / SIZES, allow_pickle=False)
        names = about["clients"]
        if about["version"] != _VERSION or not len(x) == len(y) == sizes.sum():
            raise ValueError("its parts do not fit")
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise DataError(
            f"{folder} holds no whole federation ({error}); write it again with Federation.from_function or "
            "Federation.from_parquet into a new folder"
        ) from None
    return Federation(
        cast(Any, Ragged.of(x, sizes)), cast(Any, Ragged.of(y, sizes)), sizes, test_x, test_y,
        about["classes"], about["name"], numbered(len(sizes)) if names is None else tuple(names),
        filed=about.get("records", ""),
    )  # fmt: skip


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
    tests = read_parts(Path(test), columns, ["test"])[0][:2] if isinstance(test, str | Path) else test
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
