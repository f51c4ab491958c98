"""Tables as frames, as sheets and as rows of cells, and their columns by name."""

from __future__ import annotations

import logging
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.files import existing
from noiseworthy.data.thousands import Thousands
from noiseworthy.errors import DataError, InvalidInput

Arrays = dict[str, NDArray]
# once in a process, which may read a workbook often
tell = lru_cache(logging.getLogger("noiseworthy.data").warning)


def read_frame(path: Path, **options: Any) -> Any:
    """The table in a CSV file, as a pandas DataFrame.

    Args:
        path: the file; one that ends in .gz is decompressed on the way.
        options: arguments of `pandas.read_csv`.

    Raises:
        DataError: the file is missing, damaged or no table.
    """
    import pandas as pd  # here, because it takes most of a second to import

    existing(path)
    try:
        return pd.read_csv(path, **options)
    except (ValueError, OSError, EOFError, zlib.error) as cause:
        raise DataError(f"{path} cannot be read as a table: {_in_words(str(cause))}") from None


def _in_words(said: str) -> str:
    """What pandas says of a text that is no table, for people."""
    if "No columns to parse" in said:
        return "it is empty; put names of columns into its first row"
    if begins := re.search(r"EOF inside string starting at row (\d+)", said):
        return f"the quote in line {int(begins[1]) + 1} has no end; write one within twice, or close it"
    return said


def read_text_table(path: Path, coded: Collection[str] = (), **options: Any) -> Any:
    """The table in a text file that anybody may have written, as a pandas frame.

    Columns are parted by commas, semicolons, tabs or bars, as the header tells. Where it is not by commas, a
    cell of digits and one comma is a number: 120,5 is 120.5; and one whose points may part thousands is
    marked as none.

    Args:
        path: the file, .csv or .tsv, packed or not.
        coded: as in `readers.read_columns`.
        options: further arguments of `pandas.read_csv`.

    Raises:
        DataError: the file is missing, damaged or no table, has two columns of one name, one whose name
            holds other separators, a record with more cells than its header, or quotes that do not match.
    """
    import pandas as pd  # here, because it takes most of a second to import

    from noiseworthy.data.dialects import dialect, too_long, unmatched  # here, as other formats need none

    existing(path)
    found = unharmed(path, lambda: dialect(path), "a table")
    header = read_frame(path, **found.options, header=None, nrows=1, dtype=str, keep_default_na=False)
    _check_once(header.iloc[0].str.strip(), f"{path}: ")  # to pandas the second "age" is "age.1"
    _check_parted(header.iloc[0], found.mark, path)
    try:
        with catch_warnings(action="error", category=pd.errors.ParserWarning):
            # without index_col one more cell in the first record makes an index of the first cells of all and
            # moves the others by a column: one record would change every other one
            frame = read_frame(path, **found.options, index_col=False, **options)
    except (pd.errors.ParserWarning, DataError) as cause:
        if isinstance(cause, DataError) and "fields in line" not in str(cause):
            raise
        why = too_long(path, found, header.shape[1])
        raise DataError(f"{path} has a record of more cells than names in its header: {why}") from None
    if place := unmatched(path, found, len(frame)):
        raise DataError(
            f"{path} has a quote that ends no cell at its {place}, so that records may be taken for one "
            "cell; write a quote within a cell twice, or take it away"
        )
    if found.decimal_commas:
        typed = "dtype" not in options
        texts = read_frame(path, **found.options, index_col=False, dtype=str) if typed else frame
        _read_commas(frame, texts, found.mark, typed=typed)
    for name in (one for one in frame if one.strip() in coded and frame[one].dtype.kind == "i"):
        texts = read_frame(path, **found.options, index_col=False, usecols=[name], dtype=str)[name]
        frame[name] = texts.str.strip() if texts.str.match(r"0\d").any() else frame[name]
    frame.columns = [name.strip() or name for name in frame]
    return frame


def _read_commas(frame: Any, texts: Any, mark: str, *, typed: bool) -> None:
    """Read decimal commas in a frame by its cells as text, and mark what may part thousands by points."""
    import pandas as pd

    from noiseworthy.data.dialects import part_thousands, point

    thousands = part_thousands((cell for name in texts for cell in texts[name].tolist()), mark)
    # numbers of one type already are as they are written, unless points part thousands
    for name in frame.columns if thousands else frame.columns[frame.dtypes.map(lambda one: one.kind) == "O"]:
        cells = [point(cell, thousands) for cell in texts[name].tolist()]
        if any(isinstance(cell, Thousands) for cell in cells):
            frame[name] = pd.Series(cells, frame.index, dtype=object)
        elif frame[name].dtype.kind == "O":
            frame[name] = pd.Series(cells, frame.index, dtype=frame[name].dtype)
            if typed:
                with suppress(ValueError):
                    frame[name] = pd.to_numeric(frame[name])


def read_arrow(path: Path) -> Any:
    """A file of Parquet, or of Arrow or Feather in the format of files or of streams, as a pandas frame.

    Args:
        path: of the file.

    Raises:
        DataError: the file is damaged, holds no table or two columns of one name.
    """

    def read() -> Any:
        from pyarrow import feather, ipc, parquet

        if path.suffix.lower() == ".parquet":
            return of_arrow(parquet.ParquetFile(path).read())
        try:
            return of_arrow(feather.read_table(path))
        except ValueError:  # ArrowInvalid
            with path.open("rb") as file, ipc.open_stream(file) as stream:
                return of_arrow(stream.read_all())

    frame = unharmed(path, read, "a table")
    _check_once(map(str, frame.columns), f"{path}: ")
    return frame


def of_arrow(table: Any) -> Any:
    """A table or batch of Arrow's as a pandas frame, whole numbers beside a gap as they are."""
    # as floats, which a gap makes of all of them, codes above 2^53 would be others
    return table.to_pandas(integer_object_nulls=True)


def of_frame(frame: Any) -> Arrays:
    """The columns of a pandas frame, or of what gives its columns to Arrow, as a polars frame does.

    Args:
        frame: has `columns`, or gives its columns to Arrow.

    Raises:
        InvalidInput: what is no frame.
        DataError: two columns of one name.
    """
    if not hasattr(frame, "iloc"):
        import pyarrow as pa

        if not hasattr(frame, "__arrow_c_stream__") and not hasattr(frame, "__arrow_c_array__"):
            raise InvalidInput(
                "data must be a name, a frame or a dictionary of columns by name, got "
                f"{type(frame).__name__}; pandas.DataFrame makes a frame of rows and of arrays"
            )
        frame = of_arrow(pa.table(frame))
    _check_once(str(name).strip() for name in frame.columns)
    return {str(name).strip() or str(name): _plain(frame[name]) for name in frame.columns}


def _check_once(names: Iterable[str], where: str = "") -> None:
    if twice := [name for name, times in Counter(names).items() if times > 1 and name]:
        raise DataError(f"{where}two columns are called {twice[0]!r}; give every column a name of its own")


def _check_parted(names: Sequence[str], mark: str, path: Path) -> None:
    if len(names) == 1 and {*";\t"} & {*names[0]}:
        raise DataError(
            f"{path} has one column, {names[0]!r}, as {mark!r} was taken to part columns; write a header of "
            "names that one separator parts, without quotes around all of them or another separator in sep="
        )


def of_rows(names: Sequence[Any], rows: Iterable[Sequence[Any]], name: str, *, cells: bool) -> Arrays:
    """The columns of rows whose cells are of any type.

    Args:
        names: of the columns.
        rows: cells in the order of the columns.
        name: what they are of, for errors.
        cells: as in `readers.read_columns`.

    Raises:
        DataError: a column without a name, or two of one name.

    Example:
        >>> of_rows(["age", "sex"], [(61, "f"), (None, "m")], "ward", cells=False)["age"].tolist()
        [61.0, nan]
    """
    known = ["" if one is None else str(one).strip() for one in names]
    if wrong := [one for one, times in Counter(known).items() if not one or times > 1]:
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
        first, *_ = str(cause).splitlines() or [type(cause).__name__]
        raise DataError(f"{path} cannot be read as {what}: {first}") from None


def read_spreadsheet(path: Path) -> tuple[Sequence[Any], list[Sequence[Any]]]:
    """The names in the first row of a workbook's first sheet, and the rows below; empty ones are no rows.

    Args:
        path: of the workbook.

    Raises:
        DataError: no package openpyxl, a damaged file, an empty sheet, or cells beside the named columns.
    """
    openpyxl = needed("openpyxl", "excel", f"the spreadsheet {path}")

    def read() -> list[Sequence[Any]]:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            first, *others = book.worksheets
            if left := [one.title for one in others if next(_rows(one), None)]:
                tell(f"{path}: its first sheet, {first.title!r}, is read, and not {', '.join(left)}")
            return [*_rows(first)]
        finally:
            book.close()

    rows = unharmed(path, read, "an Excel workbook")
    if not rows:
        raise DataError(f"{path} has an empty first sheet; put names of columns into its first row")
    names, width = rows[0], max(place for place, one in enumerate(rows[0], 1) if _filled(one))
    return names[:width], [_cut(row, width, path) for row in rows[1:]]


def _rows(sheet: Any) -> Iterator[Sequence[Any]]:
    sheet.reset_dimensions()  # what a program wrote of them may be less than there is
    return (row for row in sheet.iter_rows(values_only=True) if any(map(_filled, row)))


def _filled(cell: Any) -> bool:
    return cell is not None and str(cell).strip() != ""


def _cut(row: Sequence[Any], width: int, path: Path) -> Sequence[Any]:
    if any(map(_filled, row[width:])):
        raise DataError(f"{path} has cells beside the columns that its first row names; name or clear them")
    return [*row[:width], *[None] * (width - len(row))]


def _plain(column: Any) -> NDArray:
    """A pandas column as a NumPy array; numbers with gaps become floats with NaN, what is missing None.

    Guarantee: no other cell is changed by a gap. Whole numbers of which one is no float stay as they are.
    """
    import pandas as pd

    missing = column.isna().to_numpy()
    values = (column.astype(object) if column.dtype.kind in "iu" and missing.any() else column).to_numpy()
    if values.dtype != object:
        return values
    if column.dtype.kind == "f":
        return column.to_numpy(np.float64, na_value=np.nan)
    values = np.array(values)  # not the frame's own
    values[missing] = None
    known = values[~missing]
    if pd.api.types.infer_dtype(known) != "integer" or np.max(np.abs(known)) > 2**53:
        return values
    return np.where(missing, np.nan, values).astype(np.float64)
