"""How a text table is written: what parts its columns, which mark is decimal, in which letters.

All of it follows from the file's header, its ending or a cell by itself, never from other records: one
record cannot change how another is read. Other cells only tell whether one is refused whose point may part
thousands, and other lines whether a table is whose quotes do not match, or whose letters are not read here.
"""

import codecs
import csv
import gzip
import re
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from noiseworthy.data.thousands import THOUSANDS, Thousands

MARKS = (";", "\t", "|", ",")
"""What may part columns."""
_HINT = re.compile(r'("?)sep=(.)\1\s*')
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+(?:[eE][+-]?\d+)?\s*")
_DECIMAL_POINT = re.compile(r"\s*[+-]?\d*\.\d+(?:[eE][+-]?\d+)?\s*")
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_WESTERN = "noiseworthy-western"
"""Name of the way to read bytes that are no UTF-8: each as a letter of Windows-1252."""
_STRAY = re.compile("[\udc80-\udcff]+")
_LETTERS, _OPEN = {*map(chr, range(0xDCC0, 0xDD00))}, {*"\udc81\udc8d\udc8f\udc90\udc9d"}
"""Of bytes that are no UTF-8, letters of Windows-1252, and those that it leaves open."""


@dataclass(frozen=True)
class Dialect:
    """How a file of text holds a table.

    Attributes:
        mark: what parts columns, one of `MARKS`.
        encoding: UTF-8, or UTF-16 where the file says so; a byte that is no UTF-8 is a letter
            of Windows-1252.
        skipped: lines up to Excel's hint `sep=;`, which are no part of the table.
    """

    mark: str
    encoding: str
    skipped: int

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of `pandas.read_csv` that read this file."""
        text = {"encoding": self.encoding, "encoding_errors": _WESTERN, "skipinitialspace": True}
        return {"sep": self.mark, "skiprows": self.skipped, **text}

    @property
    def decimal_commas(self) -> bool:
        """Whether a comma within a cell may be a decimal mark: where commas part no columns."""
        return self.mark != ","


def dialect(path: Path) -> Dialect:
    """The dialect of a file, from its first bytes and its header.

    Args:
        path: of a text table; one that ends in .gz is unpacked on the way.

    Raises:
        OSError: it cannot be read.
        UnicodeError: it says that it is UTF-16, and is not; or its letters are hardly those of Windows-1252.
    """
    with _binary(path) as file:
        encoding = "utf-16" if file.read(2) in _WIDE else "utf-8-sig"
    if encoding != "utf-16" and _foreign(path):
        raise UnicodeError("its letters are hardly UTF-8 or Windows-1252; save it again as csv in UTF-8")
    with _text(path, encoding) as file:
        # no more: by a mark that is none, a wide table's header is one field
        lines = [*StringIO(file.read(csv.field_size_limit()), newline="")]
    first = next((place for place, line in enumerate(lines) if line.strip()), 0)
    if hint := _HINT.fullmatch("".join(lines[first : first + 1])):
        mark = hint[2] if hint[2] in MARKS else _mark(lines[first + 1 :])
        return Dialect(mark, encoding, skipped=first + 1)
    return Dialect(_mark(lines[first:]), encoding, skipped=0)


def point(cell: Any, thousands: bool = False) -> Any:
    """A cell in whose file a comma may be a decimal mark, with a point in its place where it is one.

    Where points part thousands in the table, a number with some is marked.

    Example:
        >>> point("120,5"), point("-0,125"), point("1,2,3"), point("1.234,5"), point("Smith, J"), point(7.5)
        ('120.5', '-0.125', '1,2,3', '1.234,5', 'Smith, J', 7.5)
        >>> [type(point(cell, True)).__name__ for cell in ("9.392", "0.392", "1.234.567", "01.02.2020")]
        ['Thousands', 'str', 'Thousands', 'str']
    """
    if not isinstance(cell, str):
        return cell
    if thousands and "." in cell and THOUSANDS.fullmatch(cell):
        return Thousands(cell)
    return cell.replace(",", ".") if "," in cell and _DECIMAL_COMMA.fullmatch(cell) else cell


def part_thousands(cells: Iterable[Any], mark: str) -> bool:
    """Whether 9.392 may be 9392 in a table of such cells, whose columns a mark parts.

    It may where a number has a decimal comma. Without one it may where semicolons part the columns, as
    spreadsheets write them where the comma is decimal, and no number has a point that must be decimal.

    Example:
        >>> part_thousands(["9.392", "36,5"], "|"), part_thousands(["9.392", "971"], ";")
        (True, True)
        >>> part_thousands(["9.392", "971"], "|"), part_thousands(["9.392", "0.5"], ";")
        (False, False)
    """
    decimal = False
    for cell in (one for one in cells if isinstance(one, str)):
        if "," in cell and (_DECIMAL_COMMA.fullmatch(cell) or THOUSANDS.fullmatch(cell)):
            return True
        if not decimal and "." in cell:
            decimal = bool(_DECIMAL_POINT.fullmatch(cell) and not THOUSANDS.fullmatch(cell))
    return mark == ";" and not decimal


def too_long(path: Path, found: Dialect, names: int) -> str:
    """Which record of a text table has more cells than there are names, and why that may be, in words."""
    with _below_hint(path, found) as file, suppress(csv.Error):
        records = filter(None, csv.reader(file, delimiter=found.mark, skipinitialspace=True))
        for place, cells in enumerate(records):
            if len(cells) > names:
                ends = "separators at the end of records are one too many: take them away"
                why = "name each, or quote cells that hold the separator" if cells[-1].strip() else ends
                return f"record {place} has {len(cells)}, and there are {names} names; {why}"
    return "name each"


def unmatched(path: Path, found: Dialect, records: int) -> str | None:
    """Where the quotes of a text table do not match, so that records may lie within a cell; None if nowhere.

    Args:
        path: of the table.
        found: its dialect.
        records: that were read, the header not counted.
    """
    with _below_hint(path, found) as file:
        if sum(not line.isspace() for line in file) == records + 1:
            return None
    with _below_hint(path, found) as file:
        reader = csv.reader(file, delimiter=found.mark, skipinitialspace=True, strict=True)
        try:
            deque(reader, maxlen=0)
        except csv.Error:
            return f"line {found.skipped + reader.line_num}"
    return None


def _mark(head: list[str]) -> str:
    return max(MARKS, key=lambda mark: _parts(head, mark))


def _parts(head: list[str], mark: str) -> tuple[bool, int, bool]:
    """How well a mark parts a text's first record: without stray quotes, into many, and no comma of names."""
    names = next(filter(None, csv.reader(head, delimiter=mark, skipinitialspace=True)), [])
    return not any('"' in name for name in names), len(names), (mark != ",") == (len(names) > 1)


def _binary(path: Path) -> Any:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")


def _text(path: Path, encoding: str) -> TextIO:
    return TextIOWrapper(_binary(path), encoding=encoding, errors=_WESTERN, newline="")


@contextmanager
def _below_hint(path: Path, found: Dialect) -> Iterator[TextIO]:
    with _text(path, found.encoding) as file:
        for _ in range(found.skipped):
            file.readline()
        yield file


def _foreign(path: Path) -> bool:
    """Whether bytes that are no UTF-8 are hardly Windows-1252, but Cyrillic, Chinese and the like.

    Runs of four, of which Western words have none, tell, and open ones: two, and a fifth of all that differ.
    """
    with _binary(path) as file:
        lines = (line.decode("utf-8", "surrogateescape") for line in file if not line.isascii())
        runs = {run for line in lines for run in _STRAY.findall(line)}
    odd = [run for run in runs if (len(run) > 3 and len(_LETTERS & {*run}) > 1) or _OPEN & {*run}]
    return len(odd) > max(1, len(runs) / 5)


def _western(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError) or not error.encoding.startswith("utf-8"):
        raise error
    stray = error.object[error.start : error.end]
    return "".join(_letter(byte) for byte in stray), error.end


def _letter(byte: int) -> str:
    """Windows-1252 leaves five bytes open; they are what Latin-1 has there."""
    one = bytes([byte])
    try:
        return one.decode("cp1252")
    except UnicodeDecodeError:
        return one.decode("latin-1")


codecs.register_error(_WESTERN, _western)
