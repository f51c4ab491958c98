"""Single values of a table as text, numbers and days, the same whatever type a file or a frame gives them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.thousands import Thousands

GAPS = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "none"})
"""Texts in small letters that are gaps in every column, unless a column states them among its values."""
NAMELESS = "say whose those records are, or drop them; NA, null and the like are names of nobody"
YES, NO = frozenset({"yes", "y", "true", "t", "1"}), frozenset({"no", "n", "false", "f", "0"})
_WRITTEN = {"true": "True", "false": "False", "-0": "0"}
_POINT = re.compile(r"([+-]?\d+)\.(\d*?)0*")


def key(value: Any) -> str:
    """A value as the text by which values are compared; a missing one is the empty text.

    Example:
        >>> key(1), key("1 "), key(1.0), key("1.0"), key(np.float32(0.1)), key(None), key(float("nan"))
        ('1', '1', '1', '1', '0.1', '', '')
        >>> key("01"), key(True), key("TRUE"), key("-0.0"), key(2**60 + 1)
        ('01', 'True', 'True', '0', '1152921504606846977')
    """
    if value is None:
        return ""
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        return str(int(value))
    if isinstance(value, float | np.floating):
        if value != value:
            return ""
        return str(int(value)) if value.is_integer() else str(value)
    written = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    text = normalize("NFC", written.strip())
    if found := _POINT.fullmatch(text):
        text = f"{found[1]}.{found[2]}" if found[2] else found[1]
    return _WRITTEN.get(text.lower(), text)


def keys(values: NDArray) -> list[str]:
    """`key` of every value, shape (n,)."""
    # float32 is written as such: as a float of Python 0.1 would be 0.10000000149011612; a time with its unit
    told = [*values] if values.dtype.kind in "fm" else values.tolist()
    known = {text: key(text) for text in set(told)} if {*map(type, told)} == {str} else {}  # few, repeated
    return [known[value] if known else key(value) for value in told]


def names(values: NDArray) -> list[str]:
    """Whose each record is, n names; the empty text where a cell does not say."""
    # nobody is called NA: records of many would be one person's row, or one client's, who answers for none
    return ["" if text.lower() in GAPS else text for text in keys(values)]


def gaps_among(texts: Sequence[str], codes: Collection[str], own: Collection[str] = ()) -> NDArray[np.bool_]:
    """Which values are missing.

    Args:
        texts: `keys` of the values, n of them.
        codes: texts that stand for a gap in this column.
        own: values of the column, which are no gaps whatever they look like.
    """
    return np.array([text in codes or (text.lower() in GAPS and text not in own) for text in texts], bool)


def numbers(values: NDArray) -> NDArray[np.float64]:
    """Values as numbers, NaN where one is none; shape (n,).

    Example:
        >>> numbers(np.array(["1.5", " 2", "1_0", "much", ""], object)).tolist()
        [1.5, 2.0, nan, nan, nan]
    """
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if values.dtype.kind in "mM":  # times are numbers only in a unit, which nobody stated
        return np.full(len(values), np.nan)
    return np.array([_number(value) for value in values.tolist()], np.float64)


def days(values: NDArray, form: str | None) -> NDArray[np.float64]:
    """Dates as days of the calendar, NaN where a value is none; shape (n,).

    Args:
        values: dates, times or text.
        form: of text, as `datetime.strptime` reads it; None reads ISO 8601, whose time of day is left out.

    Example:
        >>> days(np.array(["0001-01-01", "0001-01-02 10:30", "soon"]), None).tolist()
        [1.0, 2.0, nan]
    """
    if values.dtype.kind == "M":
        since_1970 = values.astype("datetime64[D]")
        found = since_1970.astype(np.float64) + date(1970, 1, 1).toordinal()
        return np.where(np.isnat(since_1970), np.nan, found)

    def read(text: str) -> datetime:
        return datetime.fromisoformat(text) if form is None else datetime.strptime(text, form)

    return np.array([_day(value, read) for value in values.tolist()], np.float64)


def within(found: NDArray[np.float64], ends: tuple[float, float]) -> tuple[NDArray, NDArray[np.bool_]]:
    """Numbers clipped to a range, and which lie outside of it; one that is infinite is none, NaN.

    Example:
        >>> within(np.array([1.0, 9.0, np.inf]), (0, 5))
        (array([ 1.,  5., nan]), array([False,  True, False]))
    """
    finite = np.where(np.isinf(found), np.nan, found)
    return np.clip(finite, *ends), (finite < ends[0]) | (finite > ends[1])


def numbered(known: Sequence[str]) -> dict[str, int]:
    """Texts by their places."""
    return {text: place for place, text in enumerate(known)}


def places(texts: Sequence[str], known: Mapping[str, int]) -> NDArray[np.float64]:
    """Places of texts by their numbers, NaN for a stranger; shape (n,)."""
    return np.array([known.get(text, np.nan) for text in texts], np.float64)


def _number(value: Any) -> float:
    if value is None or isinstance(value, Thousands) or (isinstance(value, str) and "_" in value):
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _day(value: Any, read: Callable[[str], datetime]) -> float:
    try:
        text = str(value).strip()  # a gap in a frame makes 2010.0 of 2010
        moment = value if isinstance(value, date) else read(key(text) if text.endswith(".0") else text)
        return float(moment.toordinal())
    except (ValueError, OverflowError):
        return np.nan


def columns_of(table: Any) -> dict[str, NDArray]:
    """The columns of a mapping or a frame as arrays by name; what a frame calls missing becomes None.

    Args:
        table: a mapping of names to columns, a pandas or polars frame, or a table of Arrow's.
    """
    if hasattr(table, "columns"):
        from noiseworthy.data.frames import of_frame  # here, because mappings need no pandas

        table = of_frame(table)
    # two names that differ by spaces alone stay two, of which one is not stated
    return {
        str(name) if str(name).strip() in table else str(name).strip(): _array(np.asarray(values))
        for name, values in table.items()
    }


def _array(values: NDArray) -> NDArray:
    return values.astype("M8[us]") if values.dtype == "M8[ns]" else values  # a list of those holds counts
