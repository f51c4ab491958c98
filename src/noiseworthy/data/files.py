"""Where data files lie, and reading them safely."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseworthy.errors import DataError

DATA_DIR_VARIABLE = "NOISEWORTHY_DATA"
REMEDY = f"name the data folder by data_dir or the environment variable {DATA_DIR_VARIABLE}"


def data_folder(data_dir: str | Path | None = None) -> Path | None:
    """The folder of data files: the argument, else the environment variable NOISEWORTHY_DATA, else None.

    Raises:
        DataError: the folder is named but does not exist.
    """
    named = data_dir or os.environ.get(DATA_DIR_VARIABLE)
    if named and not Path(named).is_dir():
        raise DataError(f"data folder {named} does not exist; {REMEDY}")
    return Path(named) if named else None


def locate(path: str, data_dir: str | Path | None = None, wanted: str = "another path") -> Path:
    """The path as given where that exists, else beneath the folder of data files; errors say what is wanted.

    Raises:
        DataError: it is in neither place.
    """
    given = Path(path)
    if given.exists():
        return given
    folder = data_folder(data_dir)
    if folder is None:
        raise DataError(f"no data at {given}; give {wanted}, or {REMEDY}")
    if not (folder / path).exists():
        raise DataError(f"no data at {given} or {folder / path}; give {wanted} or data folder")
    return folder / path


def existing(path: Path) -> Path:
    """The path of a file that is there.

    Raises:
        DataError: it is not.
    """
    if not path.is_file():
        raise DataError(f"no file {path}; {REMEDY}")
    return path


def read_npz(path: Path, *needed: str) -> dict[str, NDArray]:
    """Arrays of an npz file by name; object arrays are refused, because unpickling runs foreign code.

    Raises:
        DataError: the file is missing, damaged, holds object arrays or lacks one that is needed.
    """
    existing(path)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, TypeError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as cause:
        why = "it is cut off, or holds Python objects" if "pickle" in str(cause) else cause
        raise DataError(f"{path} is not an npz file of plain arrays: {why}") from None
    if absent := [name for name in needed if name not in arrays]:
        *some, last = needed
        raise DataError(f"{path} must hold the arrays {', '.join(some)} and {last}; {absent[0]} is missing")
    return arrays
