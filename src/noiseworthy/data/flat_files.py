"""A federation in a folder: records end to end in `.npy` files, which are mapped and not read as a whole."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy._places import writing
from noiseworthy.data.federation import Federation, check_alike, checked_pair, numbered
from noiseworthy.data.ragged import Ragged
from noiseworthy.errors import DataError

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
