"""Numbers that are none as they are written: points that may part thousands, commas that may be decimal."""

from __future__ import annotations

import re

from numpy.typing import NDArray

THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?\s*")
UNPARTED = "write 1234 or, of a fraction, 1,234"
"""What to do about them."""
DECIMAL = re.compile(r"\s*[+-]?(?![1-9]\d{0,2},\d{3}\s*$)\d+,\d+\s*")
"""Numbers with a comma that parts no thousands, in a table where it is no decimal mark."""
POINTED = "write a point for a decimal comma, or part the columns of a csv by ;"


class Thousands(str):
    """Such a cell: its text."""

    __slots__ = ()


def not_numeric(values: NDArray) -> str:
    """What is said of a column of text that should hold numbers, and what to do.

    Args:
        values: shape (n,); cells, or a column without gaps as text.
    """
    for place, value in enumerate(values.tolist(), 1):
        if isinstance(value, Thousands) or (values.dtype.kind == "U" and THOUSANDS.fullmatch(value)):
            return f"has {value!r} in record {place}, whose points may part thousands; {UNPARTED}"
    return "is not numeric; encode it as numbers or leave it out of the features"
