"""Tables in spreadsheets: the first sheet of a workbook, with names of columns in its first row."""

import logging
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from noiseworthy.data.frames import needed, unharmed
from noiseworthy.errors import DataError

# once in a process, which may read a workbook often
_tell = lru_cache(logging.getLogger("noiseworthy.data").warning)


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
                _tell(f"{path}: its first sheet, {first.title!r}, is read, and not {', '.join(left)}")
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
