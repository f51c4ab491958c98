"""What a record's shape says of it as an image."""

from __future__ import annotations

import math
from collections.abc import Sequence

from noiseworthy.errors import InvalidInput
from noiseworthy.tasks.names import IMAGES


def image_shape(who: str, record_shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of an image; flat records of square length are square images in grey.

    Args:
        who: what needs images, for the error.
        record_shape: of one record.

    Raises:
        InvalidInput: flat records whose length is no square.

    Example:
        >>> image_shape("pooling", (784,)), image_shape("cnn", (32, 32, 3))
        ((28, 28), (32, 32, 3))
    """
    if len(record_shape) != 1:
        return tuple(record_shape)
    side = math.isqrt(record_shape[0])
    if side**2 != record_shape[0]:
        raise InvalidInput(
            f"{who} needs images, got records of {record_shape[0]} numbers, which make no square; "
            "give records the shape (H, W) or (H, W, channels)"
        )
    return side, side


def seen_shape(model: str | None, record_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape in which a model sees records: flat ones as square images where it needs images.

    Raises:
        InvalidInput: flat records of no square length for a model of images.

    Example:
        >>> seen_shape("cnn", (784,)), seen_shape("softmax", (784,))
        ((28, 28), (784,))
    """
    if model not in IMAGES:
        return record_shape
    return image_shape(str(model), record_shape)
