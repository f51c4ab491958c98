"""Tables in files and databases as columns by name; what a format needs is loaded when one is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.files import existing, read_frame, read_npz
from noiseworthy.errors import DataError

Arrays = dict[str, NDArray]
_CELLS = {"dtype": str, "na_filter": False, "skipinitialspace": True}


def read_columns(path: Path, *, cells: bool) -> Arrays:
    """The columns of a file in a format of `tables.FORMATS`, each of shape (n, ...).

    Args:
        path: of the file.
        cells: whether each cell is to be read by itself: those of a csv as text, and those of a spreadsheet
            or a database as whatever each is. Else a column has one type that suits all of its cells.

    Raises:
        DataError: a missing or damaged file, two columns of one name, or a package that is not installed.
    """
    existing(path)
    if path.suffix == ".npz":
        return read_npz(path)
    if path.suffix == ".xlsx":
        return of_rows(*_spreadsheet(path), f"{path}", cells=cells)
    if path.suffix in (".feather", ".arrow"):
        return of_frame(_arrow(path))
    text = path.suffix != ".parquet"
    found = of_frame(read_frame(path, **(_CELLS if cells and text else {})))
    if text and len(found) == 1 and any(mark in next(iter(found)) for mark in ";\t"):
        raise DataError(f"{path} has one column, {next(iter(found))!r}; separate columns by commas")
    return found


def of_frame(frame: Any) -> Arrays:
    """The columns of a pandas frame, or of what gives its columns to Arrow, as a polars frame does.

    Args:
        frame: has `columns`, or `__arrow_c_stream__`.
    """
    if not hasattr(frame, "iloc"):
        import pyarrow as pa

        frame = pa.table(frame).to_pandas()
    return {str(name): _plain(frame[name]) for name in frame.columns}


def of_rows(names: Sequence[Any], rows: Iterable[Sequence[Any]], name: str, *, cells: bool) -> Arrays:
    """The columns of rows whose cells are of any type.

    Args:
        names: of the columns.
        rows: cells in the order of the columns.
        name: what they are of, for errors.
        cells: as in `read_columns`.

    Raises:
        DataError: a column without a name, or two of one name.

    Example:
        >>> of_rows(["age", "sex"], [(61, "f"), (None, "m")], "ward", cells=False)["age"].tolist()
        [61.0, nan]
    """
    known = ["" if one is None else str(one).strip() for one in names]
    if wrong := [one for one in known if not one or known.count(one) > 1]:
        said = f"two columns called {wrong[0]!r}" if wrong[0] else "a column without a name"
        raise DataError(f"{name} has {said}; give every column a name of its own in the first row")
    columns = {one: np.empty(0, object) for one in known}
    for one, values in zip(known, zip(*rows, strict=True), strict=False):
        columns[one] = np.empty(len(values), object)
        columns[one][:] = values
    if cells:
        return columns
    import pandas as pd  # here, because it takes most of a second to import

    return of_frame(pd.DataFrame(columns).infer_objects())


def needed(package: str, extra: str, what: str) -> Any:
    """A package of an extra.

    Args:
        package: to import.
        extra: of noiseworthy, which brings it.
        what: needs it, for the error.

    Raises:
        DataError: it is not installed.
    """
    try:
        return import_module(package)
    except ImportError:
        raise DataError(f"{what} needs the package {package}; pip install 'noiseworthy[{extra}]'") from None


def unharmed(path: Path, read: Callable[[], Any], what: str) -> Any:
    """What is read of a file, or an error that names the file.

    Args:
        path: of the file.
        read: reads it.
        what: it should be.

    Raises:
        DataError: it cannot be read.
    """
    try:
        return read()
    except Exception as cause:  # readers of broken files raise whatever they stumble over
        raise DataError(f"{path} cannot be read as {what}: {_first_line(cause)}") from None


def _first_line(cause: Exception) -> str:
    return (str(cause).splitlines() or [type(cause).__name__])[0]


def _plain(column: Any) -> NDArray:
    """A pandas column as a NumPy array; nullable numbers become floats with NaN, what is missing None."""
    values = column.to_numpy()
    if values.dtype != object:
        return values
    if column.dtype.kind in "biuf":
        return column.to_numpy(np.float64, na_value=np.nan)
    return column.astype(object).where(column.notna(), None).to_numpy()


def _arrow(path: Path) -> Any:
    """A file of Arrow's or Feather's, in the format of files or of streams."""

    def read() -> Any:
        from pyarrow import feather, ipc

        try:
            return feather.read_table(path).to_pandas()
        except ValueError:  # ArrowInvalid
            with path.open("rb") as file, ipc.open_stream(file) as stream:
                return stream.read_all().to_pandas()

    return unharmed(path, read, "an Arrow table")


def _spreadsheet(path: Path) -> tuple[Sequence[Any], list[Sequence[Any]]]:
    """The names in the first row of a workbook's first sheet, and the rows below; empty ones are no rows."""
    openpyxl = needed("openpyxl", "excel", f"the spreadsheet {path}")

    def read() -> list[Sequence[Any]]:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            return [row for row in book.worksheets[0].iter_rows(values_only=True) if any(map(_filled, row))]
        finally:
            book.close()

    rows = unharmed(path, read, "an Excel workbook")
    if not rows:
        raise DataError(f"{path} has an empty first sheet; put names of columns into its first row")
    names, width = rows[0], max(place for place, one in enumerate(rows[0], 1) if _filled(one))
    return names[:width], [_cut(row, width, path) for row in rows[1:]]


def _filled(cell: Any) -> bool:
    return cell is not None and str(cell).strip() != ""


def _cut(row: Sequence[Any], width: int, path: Path) -> Sequence[Any]:
    if any(map(_filled, row[width:])):
        raise DataError(f"{path} has cells beside the columns that its first row names; name or clear them")
    return [*row[:width], *[None] * (width - len(row))]
