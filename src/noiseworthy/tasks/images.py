"""What a record's shape says of it as an image."""

from __future__ import annotations

import math
from collections.abc import Sequence

from noiseworthy.errors import InvalidInput


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
