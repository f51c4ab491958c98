"""Checks at the border: each names the value, the allowed range and the remedy."""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.errors import InvalidInput

T = TypeVar("T")
Real: TypeAlias = NDArray[np.float64]


def _numbers(name: str, value: ArrayLike) -> Real:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = None
    if array is None or np.asarray(value).dtype.kind in "US":  # NumPy reads numbers out of texts
        raise InvalidInput(f"{name} must be a number, got {value!r}")
    if np.isnan(array).any():
        raise InvalidInput(f"{name} must be a number, got NaN; remove or replace the missing value")
    return array


def _all(name: str, array: Real, good: NDArray[np.bool_], must: str, remedy: str, each: str) -> Real:
    """The array where all of it is good; else the first value that is not, by whose it is among several."""
    if not good.all():
        first = array.ravel()[index := int(np.argmin(good))]
        where = f" for {each} {index}" if array.ndim else ""
        raise InvalidInput(_line(f"{name} must {must}, got {first:g}{where}", remedy))
    return array


def positive(name: str, value: ArrayLike, *, remedy: str = "", each: str = "client") -> Real:
    """Finite numbers above zero, as a float64 array of the shape given; of several, one for `each`."""
    array = _numbers(name, value)
    return _all(name, array, np.isfinite(array) & (array > 0), "be finite and above 0", remedy, each)


def non_negative(name: str, value: ArrayLike, *, remedy: str = "") -> Real:
    """Finite numbers of at least zero, as a float64 array of the shape given."""
    array = _numbers(name, value)
    return _all(name, array, np.isfinite(array) & (array >= 0), "be finite and at least 0", remedy, "client")


def in_unit_interval(name: str, value: ArrayLike, *, closed_left: bool, remedy: str = "") -> Real:
    """Numbers in [0, 1) or, with `closed_left` false, in (0, 1)."""
    array = _numbers(name, value)
    good = (array >= 0 if closed_left else array > 0) & (array < 1)
    return _all(name, array, good, f"lie in {'[' if closed_left else '('}0, 1)", remedy, "client")


def count(name: str, value: Any, *, least: int = 1, most: int | None = None, remedy: str = "") -> int:
    """A whole number between `least` and `most`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidInput(_line(f"{name} must be a whole number, got {value!r}", remedy)) from None
    if isinstance(value, bool) or number < least or (most is not None and number > most):
        allowed = f"at least {least}" if most is None else f"between {least} and {most}"
        raise InvalidInput(_line(f"{name} must be {allowed}, got {value!r}", remedy))
    return number


def counts(name: str, value: ArrayLike, *, least: int = 1, remedy: str = "") -> NDArray[np.int64]:
    """A vector of whole numbers of at least `least`, one per client."""
    array = np.atleast_1d(_numbers(name, value))
    if array.ndim != 1 or array.size == 0:
        said = f"{name} must be a list with one entry per client, got shape {array.shape}"
        raise InvalidInput(_line(said, remedy))
    whole = np.isfinite(array) & (array >= least) & (array == np.floor(array))
    _all(name, array, whole, f"be whole numbers of at least {least}", remedy, "client")
    # what float64 rounds up to 2^63 is no int64: it would be cast to a negative number without a word
    return _all(name, array, array < 2.0**63, "be below 2^63", remedy, "client").astype(np.int64)


def one_of(name: str, value: T, allowed: Collection[T], *, remedy: str = "") -> T:
    """A value among `allowed`."""
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise InvalidInput(_line(f"{name} must be one of {choices}, got {value!r}", remedy))
    return value


def per_client(name: str, value: ArrayLike, clients: int) -> Real:
    """A number for everyone, or one per client, as a vector of length `clients`."""
    array = _numbers(name, value)
    if array.ndim > 1 or (array.ndim == 1 and array.size != clients):
        raise InvalidInput(
            f"{name} must be one number or a list of {clients} (one per client), got {array.size} values"
        )
    return np.broadcast_to(array, (clients,)).astype(np.float64)


def _line(statement: str, remedy: str) -> str:
    return f"{statement}; {remedy}" if remedy else statement
