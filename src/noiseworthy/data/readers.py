"""Where tables are, in files and databases, and their columns by name; a format's reader is loaded for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from noiseworthy.data.files import existing, locate, read_npz
from noiseworthy.errors import DataError

if TYPE_CHECKING:
    from noiseworthy.data.frames import Arrays
    from noiseworthy.data.sql import Query

TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
"""How text tables end; what parts their columns is read off the header."""
FORMATS = (*TEXT, ".parquet", ".feather", ".arrow", ".xlsx", ".npz")
"""How files of tables end."""
SQL = "sql:"
"""How a source begins that is a database."""
_CELLS = {"dtype": str, "na_filter": False}


def is_table(source: str) -> bool:
    """Whether a source is the path of a table, or a database."""
    return source.lower().endswith(FORMATS) or source.startswith(SQL)


def no_table(path: str) -> str:
    """What is said of a path that does not end as tables do."""
    excel = "; save it as .xlsx" if path.lower().endswith(".xls") else ""
    return f"{path} must end in one of {', '.join(FORMATS)}{excel}"


def opened(source: str, data_dir: str | Path | None = None, query: str | None = None) -> Path | Query:
    """Where a table is: the path of its file as it is found, or the query of a database.

    Args:
        source: a path that ends as one of `FORMATS`, or `sql:` and a connection string.
        data_dir: folder of data files; None takes the environment variable NOISEWORTHY_DATA.
        query: of a database.

    Raises:
        DataError: no such file.
        ConfigError: a query that may be read otherwise the next time, or a password in a connection string.
    """
    if not source.startswith(SQL):
        return locate(source, data_dir)
    from noiseworthy.data.sql import Query  # here, because few gateways read a database

    return Query(source.removeprefix(SQL), query or "", data_dir)


def read_columns(source: Path | Query, *, cells: bool, coded: tuple[str, ...] = ()) -> tuple[Arrays, str]:
    """The columns of a table, each of shape (n, ...), and the name of its file or database.

    Args:
        source: that was `opened`.
        cells: whether each cell is to be read by itself: those of a csv as text, and those of a spreadsheet
            or a database as whatever each is. Else a column has one type that suits all of its cells.
        coded: columns of whole numbers that are text where zeros stand before some, as in 01.

    Raises:
        DataError: a missing or damaged file, another suffix, two columns of one name, a package that is not
            installed, or a query that fails.
    """
    if not isinstance(source, Path):
        return source.read(cells=cells), source.name
    for suffix in sorted(FORMATS, key=len, reverse=True):
        if source.name.lower().endswith(suffix):
            return _of_file(source, suffix, cells, coded), source.name[: -len(suffix)]
    raise DataError(no_table(str(source)))


def _of_file(path: Path, suffix: str, cells: bool, coded: tuple[str, ...]) -> Arrays:
    existing(path)
    if suffix == ".npz":
        return read_npz(path)
    from noiseworthy.data import frames  # here, as arrays need none

    if suffix == ".xlsx":
        return frames.of_rows(*frames.read_spreadsheet(path), f"{path}", cells=cells)
    if suffix in (".parquet", ".feather", ".arrow"):
        return frames.of_frame(frames.read_arrow(path))
    return frames.of_frame(frames.read_text_table(path, coded, **(_CELLS if cells else {})))
