"""Checks at the border: each names the value, the allowed range and the remedy."""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.errors import InvalidInput

T = TypeVar("T")


def _numbers(name: str, value: ArrayLike) -> NDArray[np.float64]:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be a number, got {value!r}") from None
    if np.any(np.isnan(array)):
        raise InvalidInput(f"{name} must be a number, got NaN; remove or replace the missing value")
    return array


def _offender(array: NDArray[np.float64], bad: NDArray[np.bool_]) -> str:
    """The first value that fails, with its position when there are several."""
    if array.ndim == 0:
        return f"got {array.item():g}"
    index = int(np.flatnonzero(bad)[0])
    return f"got {array.ravel()[index]:g} for client {index}"


def positive(name: str, value: ArrayLike, *, remedy: str = "") -> NDArray[np.float64]:
    """Finite numbers above zero, as a float64 array of the shape given."""
    array = _numbers(name, value)
    bad = ~(np.isfinite(array) & (array > 0))
    if np.any(bad):
        raise InvalidInput(_line(f"{name} must be finite and above 0, {_offender(array, bad)}", remedy))
    return array


def non_negative(name: str, value: ArrayLike, *, remedy: str = "") -> NDArray[np.float64]:
    """Finite numbers of at least zero, as a float64 array of the shape given."""
    array = _numbers(name, value)
    bad = ~(np.isfinite(array) & (array >= 0))
    if np.any(bad):
        raise InvalidInput(_line(f"{name} must be finite and at least 0, {_offender(array, bad)}", remedy))
    return array


def in_unit_interval(
    name: str, value: ArrayLike, *, closed_left: bool, remedy: str = ""
) -> NDArray[np.float64]:
    """Numbers in [0, 1) or, with `closed_left` false, in (0, 1)."""
    array = _numbers(name, value)
    bad = ~((array >= 0 if closed_left else array > 0) & (array < 1))
    if np.any(bad):
        interval = "[0, 1)" if closed_left else "(0, 1)"
        raise InvalidInput(_line(f"{name} must lie in {interval}, {_offender(array, bad)}", remedy))
    return array


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
        raise InvalidInput(
            _line(f"{name} must be a list with one entry per client, got shape {array.shape}", remedy)
        )
    bad = ~(np.isfinite(array) & (array >= least) & (array == np.floor(array)))
    if np.any(bad):
        raise InvalidInput(
            _line(f"{name} must be whole numbers of at least {least}, {_offender(array, bad)}", remedy)
        )
    return array.astype(np.int64)


def one_of(name: str, value: T, allowed: Collection[T], *, remedy: str = "") -> T:
    """A value among `allowed`."""
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise InvalidInput(_line(f"{name} must be one of {choices}, got {value!r}", remedy))
    return value


def per_client(name: str, value: ArrayLike, clients: int) -> NDArray[np.float64]:
    """A number for everyone, or one per client, as a vector of length `clients`."""
    array = _numbers(name, value)
    if array.ndim > 1 or (array.ndim == 1 and array.size != clients):
        raise InvalidInput(
            f"{name} must be one number or a list of {clients} (one per client), got {array.size} values"
        )
    return np.broadcast_to(array, (clients,)).astype(np.float64)


def _line(statement: str, remedy: str) -> str:
    return f"{statement}; {remedy}" if remedy else statement
