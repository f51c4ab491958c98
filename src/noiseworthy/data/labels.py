"""Features and labels as numbers: classes by their places, images from bytes."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import normalize

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.errors import DataError

Features = NDArray[np.float32] | NDArray[np.int32]
Labels = NDArray[np.int32] | NDArray[np.float32]


def class_numbers(
    labels: ArrayLike, name: str, classes: Sequence[str | int] | None = None
) -> tuple[NDArray[np.int32], int]:
    """Labels as numbers 0..K-1, with K.

    The set of classes is taken to be public, as it is for every classifier.

    Args:
        labels: whole numbers, booleans or text, shape (n,).
        name: what the labels are, for the error.
        classes: all that there are, in their order, compared as text; None takes the distinct labels, sorted.

    Raises:
        DataError: fractions, NaN or infinite values, fewer than two classes, or a value that is none.

    Example:
        >>> class_numbers(["yes", "no", "yes"], "loan")
        (array([1, 0, 1], dtype=int32), 2)
        >>> class_numbers([2, 0, 2], "grade", [0, 1, 2])
        (array([2, 0, 2], dtype=int32), 3)
    """
    array = np.asarray(labels)
    if array.dtype.kind == "f" and np.any(bad := ~np.isfinite(array) | (array != np.floor(array))):
        said = f"whole numbers or text as classes, got {array[bad][0]:g}; or set regression = true"
        raise DataError(f"{name} must hold {said}")
    if classes is not None:
        return _numbered(array, name, [normalize("NFC", str(one)) for one in classes]), len(classes)
    values, numbers = np.unique(array.astype(str) if array.dtype == object else array, return_inverse=True)
    if len(values) < 2:
        raise DataError(f"{name} must hold at least two classes, got only {values.tolist()}")
    return numbers.astype(np.int32), len(values)


def as_text(labels: NDArray) -> NDArray[np.str_]:
    """Labels that are classes, as they are compared: whole numbers without a point.

    Example:
        >>> as_text(np.array([1.0, 2.0])).tolist(), as_text(np.array([True])).tolist()
        (['1', '2'], ['True'])
    """
    return (labels.astype(np.int64) if labels.dtype.kind == "f" else labels).astype(str)


def _numbered(labels: NDArray, name: str, classes: list[str]) -> NDArray[np.int32]:
    """Places of labels in a stated list."""
    text = as_text(labels)
    places = np.argsort(classes)
    # what sorts behind all classes takes the first place by the remainder, and is found out on the next line
    found = places[np.searchsorted(classes, text, sorter=places) % len(classes)]
    other = np.asarray(classes)[found] != text
    if np.any(other):
        raise DataError(
            f"{name} has {np.sum(other)} labels that are none of the classes {', '.join(classes)}, such as "
            f"{str(text[other][0])!r}; state all classes, or drop those records first"
        )
    return found.astype(np.int32)


def scaled_images(pixels: NDArray) -> NDArray[np.float32]:
    """Bytes in [0, 1], a range of their format, for which no data are read; other integers as they are."""
    if pixels.dtype == np.uint8:
        return np.divide(pixels, np.float32(255), dtype=np.float32)
    from noiseworthy.data.frames import tell  # here, as few images are of them

    tell(f"images of {pixels.dtype} stay as they are, as bytes alone are scaled; divide by a public bound")
    return pixels.astype(np.float32)
