"""Places that are written to: what is kept between runs, and those that cannot be."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import ENOENT
from pathlib import Path
from time import time
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from noiseworthy.errors import DataError

CACHE_VARIABLE = "NOISEWORTHY_CACHE"
MOST_BYTES = 2**30
"""Of all that is kept in a folder; what was used longest ago goes first."""
_DRAFT = ".noiseworthy-draft-"
_DEAD = 86_400
"""Seconds after which nobody is still at work on a draft."""


def kept_folder() -> Path:
    """The folder of what is kept between runs: NOISEWORTHY_CACHE says where, else it is the user's cache.

    Raises:
        DataError: none is stated, and the user has no home, as in a container.
    """
    stated = os.environ.get(CACHE_VARIABLE) or os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(stated or Path.home() / ".cache") / "noiseworthy"
    except RuntimeError:
        raise DataError(f"no home folder is known; name one of your own by {CACHE_VARIABLE}") from None


@contextmanager
def writing(place: Path | str, remedy: str = "choose another with --out") -> Iterator[None]:
    """Say in a line which place cannot be written to, and what to do.

    Raises:
        DataError: it cannot.
    """
    try:
        yield
    except OSError as error:
        raise DataError(f"{place} cannot be written ({error}); {remedy}") from None


def mapped(place: Path, rows: int, like: NDArray[Any]) -> np.memmap:
    """A new `.npy` file of rows like these, mapped; a disk has room for all of it, or it is refused here.

    Writing to a mapped row for which a disk then has no room would end the process without a word.

    Raises:
        OSError: no room, or no place to write to.
    """
    made = open_memmap(place, "w+", like.dtype, (rows, *like.shape[1:]))
    if hasattr(os, "posix_fallocate"):  # not on macOS
        with place.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, place.stat().st_size)
    return made


@contextmanager
def whole(place: Path, mode: int | None = None) -> Iterator[Path]:
    """A draft of a file, which takes the file's place once it is written: whole, or not at all.

    What is there and is no file, such as a pipe, is written to itself; what links to a file goes on to do so.
    A file that may not be written to is not replaced, and one that is there keeps its mode unless another is
    stated.
    """
    from tempfile import TemporaryDirectory  # here, because few commands that are told by a start write

    place = Path(os.path.realpath(place))
    if not place.parent.is_dir():  # or the draft's folder would be named
        raise FileNotFoundError(ENOENT, "there is no such folder", str(place.parent))
    if (there := place.exists()) and not place.is_file():
        yield place
        return
    if there:
        place.open("r+b").close()
    clear_drafts(place.parent, f"{_DRAFT}*")
    with TemporaryDirectory(prefix=_DRAFT, dir=place.parent) as beside:
        draft = Path(beside) / place.name
        draft.touch(0o666 if mode is None else mode)
        if there and mode is None:
            shutil.copymode(place, draft)
        yield draft
        os.replace(draft, place)


def clear_drafts(folder: Path, pattern: str) -> None:
    """Remove the folders of drafts that processes left which were killed: those of a name and an age."""
    for left in folder.glob(pattern):
        with suppress(OSError):  # gone meanwhile, or another user's
            if time() - left.lstat().st_mtime > _DEAD:
                shutil.rmtree(left)


def write_whole(place: Path, content: str | bytes, mode: int | None = None) -> None:
    """Write a file as `whole` does, text as UTF-8."""
    with whole(place, mode) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)


def once(place: Path | None, compute: Callable[[], NDArray]) -> NDArray:
    """What was kept at a place, else computed, and kept there if it is within the bound.

    Args:
        place: of a file; None keeps nothing.
        compute: numbers.
    """
    if place is None:
        return compute()
    with suppress(OSError, ValueError, EOFError):
        rows = np.load(place, allow_pickle=False)
        with suppress(OSError):  # a disk that can be read alone
            os.utime(place)
        return rows
    rows = compute()
    if rows.nbytes <= MOST_BYTES:
        with suppress(OSError):
            _keep(place, rows)
    return rows


def _keep(place: Path, rows: NDArray) -> None:
    """Write a file beside its final name, move it there, and remove old ones beyond the bound."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with whole(place, 0o600) as draft, draft.open("wb") as file:
        np.save(file, rows)
    files = sorted(place.parent.glob("*.npy"), key=lambda file: file.stat().st_mtime)
    total = sum(file.stat().st_size for file in files)
    for file in files[:-1]:
        if total <= MOST_BYTES:
            return
        total -= file.stat().st_size
        file.unlink(missing_ok=True)
