"""How numbers, ranges and lists are written, the same in figures, pages, tables and sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray


def number(value: float | None, digits: int = 3) -> str:
    """A number to `digits` significant digits; whole numbers below a million in full.

    Example:
        >>> number(0.083214), number(1500.0), number(1e-5), number(None)
        ('0.0832', '1500', '1e-05', 'none')
    """
    if value is None:
        return "none"
    if math.isnan(value):
        return "not a number"
    if float(value).is_integer() and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.{digits}g}"


def level(value: float | None) -> str:
    """A loss to three digits, zeros kept.

    Example:
        >>> level(0.6), level(2.302585), level(1234.5), level(float("inf"))
        ('0.600', '2.30', '1,234', 'diverged')
    """
    if value is None or not math.isfinite(value):
        return "diverged"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:#.3g}".removesuffix(".")


def about(mean: float) -> str:
    """A mean count to three digits.

    Example:
        >>> about(4.8113), about(220.4), about(1234.5), about(5.0)
        ('4.81', '220', '1,234', '5')
    """
    return f"{mean:,.0f}" if mean >= 100 else number(mean)


def rounded_up(value: float, digits: int = 4) -> str:
    """A privacy loss, never written smaller than it is (but for rounding errors of 1e-9).

    Example:
        >>> rounded_up(3.33331), rounded_up(3.9999999999999405), rounded_up(2980.96, 3)
        ('3.334', '4', '2,990')
    """
    if value <= 0 or not math.isfinite(value):
        return "0" if value == 0 else number(value)
    step = 10.0 ** (digits - 1 - math.floor(math.log10(value)))
    up = math.ceil(value * (1 - 1e-9) * step) / step
    return f"{math.ceil(up):,}" if up >= 1000 else f"{up:.{digits}g}"


def rounded_down(value: float) -> str:
    """A lower bound on a privacy loss, never written larger than it is (but for rounding errors of 1e-11).

    Example:
        >>> rounded_down(2.9279), rounded_down(0.0), rounded_down(12.0)
        ('2.92', '0', '12.00')
    """
    return "0" if value <= 0 else f"{math.floor(100 * value + 1e-9) / 100:.2f}"


def percent(share: float, decimals: int = 0) -> str:
    """A share in percent, with a space that does not break.

    Example:
        >>> percent(0.983), percent(-0.0321, 1)
        ('98\\xa0%', '-3.2\\xa0%')
    """
    return f"{100 * share:.{decimals}f}\N{NO-BREAK SPACE}%"


def percent_up(share: float) -> str:
    """A share in percent to three digits, never written smaller than it is.

    Example:
        >>> percent_up(0.6241), percent_up(0.05), percent_up(0.99991)
        ('62.5\\xa0%', '5\\xa0%', '100\\xa0%')
    """
    return f"{rounded_up(100 * share, 3)}\N{NO-BREAK SPACE}%"


def span(values: Iterable[float], write=number) -> str:
    """One number if all are written alike, else the least and the greatest.

    Example:
        >>> span([2.0, 2.0]), span([5, 6, 5])
        ('2', '5 to 6')
    """
    values = list(values)
    least, most = write(min(values)), write(max(values))
    return least if least == most else f"{least} to {most}"


def count(how_many: int, thing: str) -> str:
    """A count with its noun.

    Example:
        >>> count(1, "seed"), count(2000, "record")
        ('1 seed', '2,000 records')
    """
    return f"{how_many:,} {thing}{'' if how_many == 1 else 's'}"


def times(how_often: str) -> str:
    """How often, from a span of counts.

    Example:
        >>> times("1"), times("5 to 6")
        ('once', '5 to 6 times')
    """
    return "once" if how_often == "1" else f"{how_often} times"


def shortened(name: str, most: int = 18) -> str:
    """A name cut to `most` characters.

    Example:
        >>> shortened("hospital of the northern province")
        'hospital of the n…'
    """
    return name if len(name) <= most else f"{name[: most - 1]}…"


def shortened_apart(names: Sequence[str], most: int = 18) -> list[str]:
    """Names cut as by `shortened`; of those that would be alike, the word is kept in which they differ.

    Example:
        >>> shortened_apart(["north", "hospital of the county of A", "hospital of the county of B"])
        ['north', 'hospit…A', 'hospit…B']
    """
    ordered = sorted(names)
    last = {shortened(name, most): name for name in ordered}
    first = {shortened(name, most): name for name in reversed(ordered)}
    return [_apart(name, first[cut], last[cut], most) for name in names for cut in [shortened(name, most)]]


def _apart(name: str, first: str, last: str, most: int) -> str:
    """A name, cut, with the word in which the first and the last of those that begin alike differ."""
    if first == last:
        return shortened(name, most)
    same = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    word, head = len(re.sub(r"[^\W_]*$", "", name[:same])), most // 3
    return shortened(f"{name[:head]}…{name[word if word > head else same :]}", most)


def finite(values: Sequence[float | None], missing: float = np.inf) -> NDArray[np.float64]:
    """Values as floats; what is missing or not a number becomes `missing`.

    Example:
        >>> finite([1.0, None])
        array([ 1., inf])
    """
    array = np.array([missing if value is None else value for value in values], float)
    return np.where(np.isnan(array), missing, array)
