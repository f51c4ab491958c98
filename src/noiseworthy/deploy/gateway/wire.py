"""Messages between machines: plain values and arrays as bytes that say their types and shapes.

    NWMS | version, 2 bytes | length of the outline, 4 bytes | outline, JSON | arrays, little-endian

The outline is the value itself. Plain values stand for themselves, and so does a dictionary with text keys.
What JSON does not know is a list with a letter first: `["l", ...]` a list, `["t", ...]` a tuple,
`["b", length]` bytes, `["a", type, shape]` an array. The bytes of arrays follow in the order of the outline.
Nothing is unpickled, nothing is imported by name, and no memory is taken for what is not there: what the
outline declares must be as long as what follows it.
"""

import json
import math
import struct
from collections.abc import Collection
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from noiseworthy.errors import WireError

VERSION = 1
"""Of the format; another one is refused by name."""
LARGEST = 2**30
"""Bytes of a message, unless less is allowed."""
TYPES = ("bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
"""Of the numbers in arrays, by letter and bytes."""
MALFORMED = f"these bytes are no message of version {VERSION}; send what wire.pack makes"

_START = struct.Struct("<4sHI")
_MAGIC = b"NWMS"
_OUTLINE = 2**20
_DEPTH = 16
_AXES = 8


def pack(value: Any, *, most: int = LARGEST) -> bytes:
    """A value as a message.

    Args:
        value: None, truth values, whole numbers of 64 bits, finite numbers, text, bytes and NumPy arrays, in
            dictionaries with text keys, lists and tuples, at most 16 deep. Arrays of other libraries must be
            made NumPy's first. An array may hold NaN; who reads it says whether that is allowed.
        most: bytes of the message.

    Raises:
        WireError: a value that no message can carry, or one that is too long.

    Example:
        >>> sent = {"round": 3, "theta": np.array([0.5, -1.0], np.float32), "coins": (True, None)}
        >>> unpack(pack(sent))
        {'round': 3, 'theta': array([ 0.5, -1. ], dtype=float32), 'coins': (True, None)}
    """
    parts: list[bytes] = []
    outline = json.dumps(_outlined(value, parts, _DEPTH), separators=(",", ":"), allow_nan=False).encode()
    size = _START.size + len(outline) + sum(map(len, parts))
    if len(outline) > _OUTLINE or size > most:
        raise WireError(f"a message has at most {most:,} bytes and {_OUTLINE:,} without arrays; got {size:,}")
    return b"".join([_START.pack(_MAGIC, VERSION, len(outline)), outline, *parts])


def unpack(data: bytes, *, most: int = LARGEST, not_finite: Collection[str] = ()) -> Any:
    """The value of a message.

    Args:
        data: of `pack`, or of nobody knows whom.
        most: bytes that are looked at.
        not_finite: fields whose arrays may hold NaN and infinities, as paths of keys with dots between them;
            places in lists and tuples count as keys. All others must be finite.

    Returns:
        What was packed; arrays are new and may be written to.

    Raises:
        WireError: another version, by name; anything else that is wrong in one fixed sentence, which shows
            nothing of the bytes.

    Guarantee: takes memory in proportion to the bytes given, whatever they declare.

    Example:
        >>> unpack(pack([1, 2])[:-1])
        Traceback (most recent call last):
        ...
        noiseworthy.errors.WireError: these bytes are no message of version 1; send what wire.pack makes
    """
    try:
        outline, arrays = _split(data, most)
        reader = _Reader(memoryview(arrays), frozenset(not_finite))
        value = reader.value(json.loads(outline, object_pairs_hook=_no_key_twice, parse_constant=_refuse), ())
        if reader.rest:  # bytes that the outline does not speak of
            _refuse()
    except (ValueError, TypeError, OverflowError, RecursionError, struct.error) as error:
        if isinstance(error, WireError):
            raise
        raise WireError(MALFORMED) from None
    return value


def _split(data: bytes, most: int) -> tuple[bytes, bytes]:
    magic, version, length = _START.unpack_from(data)
    if magic == _MAGIC and version != VERSION:
        told = f"version {version} cannot be read, only version {VERSION}; update one side"
        raise WireError(f"a message of {told}")
    end = _START.size + length
    if magic != _MAGIC or len(data) > most or length > _OUTLINE or end > len(data):
        _refuse()
    return data[_START.size : end], data[end:]


def _refuse(*_: Any) -> NoReturn:
    raise WireError(MALFORMED)


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _refuse()


class _Reader:
    """Takes the arrays of a message in the order of its outline."""

    def __init__(self, rest: memoryview, not_finite: frozenset[str]):
        self.rest = rest
        self._not_finite = not_finite

    def value(self, node: Any, path: tuple[str, ...]) -> Any:
        """The value that a part of the outline stands for."""
        if len(path) > _DEPTH:
            _refuse()
        if isinstance(node, dict):
            return {key: self.value(part, (*path, key)) for key, part in node.items()}
        if isinstance(node, list):
            return self._tagged(node, path)
        return node if _plain(node) else _refuse()

    def _tagged(self, node: list[Any], path: tuple[str, ...]) -> Any:
        letter, *parts = node
        if letter in ("l", "t"):
            values = [self.value(part, (*path, str(place))) for place, part in enumerate(parts)]
            return values if letter == "l" else tuple(values)
        if letter == "b":
            return bytes(self._taken(*parts))
        return self._array(*parts, path=path) if letter == "a" else _refuse()

    def _array(self, kind: str, shape: list[int], *, path: tuple[str, ...]) -> NDArray:
        if kind not in TYPES or len(shape) > _AXES:
            _refuse()
        # an axis of 0 counts as 1: the others of an empty array are bounded too, since arrays may be made by
        # them later
        length = math.prod(max(_size(axis), 1) for axis in shape) * _dtype(kind).itemsize
        if length > LARGEST:
            _refuse()
        array = np.frombuffer(self._taken(length if all(shape) else 0), _dtype(kind)).reshape(shape)
        if array.dtype == bool and np.any(array.view(np.uint8) > 1):
            _refuse()
        free = array.dtype.kind != "f" or ".".join(path) in self._not_finite
        if not free and not np.all(np.isfinite(array)):
            _refuse()
        return array.astype(array.dtype.newbyteorder("="))

    def _taken(self, length: int) -> memoryview:
        if _size(length) > len(self.rest):
            _refuse()
        taken, self.rest = self.rest[:length], self.rest[length:]
        return taken


def _outlined(value: Any, parts: list[bytes], depth: int) -> Any:
    if depth < 0:
        raise WireError(f"a message is at most {_DEPTH} deep; send flatter values")
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {key: _outlined(part, parts, depth - 1) for key, part in value.items()}
    if type(value) in (list, tuple):
        return [type(value).__name__[0], *(_outlined(part, parts, depth - 1) for part in value)]
    if isinstance(value, bytes):
        parts.append(value)
        return ["b", len(value)]
    if isinstance(value, np.ndarray):
        return _array_outlined(value, parts)
    if not _plain(value):
        raise WireError(f"no message carries {type(value).__name__} {value!r}; send plain values or arrays")
    return value


def _array_outlined(array: NDArray, parts: list[bytes]) -> list[Any]:
    kind = "bool" if array.dtype == bool else f"{array.dtype.kind}{array.dtype.itemsize}"
    if kind not in TYPES or array.ndim > _AXES:
        raise WireError(
            f"a message carries arrays of {', '.join(TYPES)} with at most {_AXES} axes, got {array.dtype} "
            f"with {array.ndim}; convert it first"
        )
    parts.append(array.astype(_dtype(kind)).tobytes())
    return ["a", kind, list(array.shape)]


def _plain(value: Any) -> bool:
    if type(value) is int:
        return -(2**63) <= value < 2**63
    return value is None or type(value) in (bool, str) or (type(value) is float and math.isfinite(value))


def _size(value: Any) -> int:
    return value if type(value) is int and value >= 0 else _refuse()


def _dtype(kind: str) -> np.dtype:
    return np.dtype(kind).newbyteorder("<")
