"""How a text table is written: what parts its columns, which mark is decimal, in which letters.

All of it follows from the file's header, its ending or a cell by itself, never from other records: one
record cannot change how another is read.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

MARKS = (",", ";", "\t", "|")
"""What may part columns; where two part a header into as many, the one that stands first here."""
_HINT = re.compile(r"sep=(.)\r?\n?")
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+(?:[eE][+-]?\d+)?\s*")
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_WESTERN = "noiseworthy-western"
"""Name of the way to read bytes that are no UTF-8: each as a letter of Windows-1252."""


@dataclass(frozen=True)
class Dialect:
    """How a file of text holds a table.

    Attributes:
        mark: what parts columns, one of `MARKS`.
        encoding: UTF-8, or UTF-16 where the file says so; a byte that is no UTF-8 is a letter
            of Windows-1252.
        hint: whether the first line is Excel's hint `sep=;`, which is no part of the table.
    """

    mark: str
    encoding: str
    hint: bool

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of `pandas.read_csv` that read this file."""
        return {
            "sep": self.mark,
            "encoding": self.encoding,
            "encoding_errors": _WESTERN,
            "skiprows": int(self.hint),
        }

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
        UnicodeError: it says that it is UTF-16, and is not.
    """
    with _binary(path) as file:
        encoding = "utf-16" if file.read(2) in _WIDE else "utf-8-sig"
    with _text(path, encoding) as lines:
        first, second = [*islice((line for line in lines if line.strip()), 2), "", ""][:2]
    if hint := _HINT.fullmatch(first):
        return Dialect(hint[1] if hint[1] in MARKS else _mark(second), encoding, hint=True)
    return Dialect(_mark(first), encoding, hint=False)


def point(cell: Any) -> Any:
    """A cell in whose file a comma may be a decimal mark, with a point in its place where it is one.

    Example:
        >>> point("120,5"), point("-0,125"), point("1,2,3"), point("1.234,5"), point("Smith, J"), point(7.5)
        ('120.5', '-0.125', '1,2,3', '1.234,5', 'Smith, J', 7.5)
    """
    return cell.replace(",", ".") if isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(cell) else cell


def _mark(header: str) -> str:
    header = header[: csv.field_size_limit()]  # by a mark that is none, a wide table's header is one field
    return max(MARKS, key=lambda mark: len(next(csv.reader([header], delimiter=mark), [])))


def _binary(path: Path) -> Any:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _text(path: Path, encoding: str) -> TextIO:
    return TextIOWrapper(_binary(path), encoding=encoding, errors=_WESTERN, newline="")


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
