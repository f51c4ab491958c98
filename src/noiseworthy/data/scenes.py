"""Patches of two photographs that ship with scikit-learn: what public features of images are scaled by."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

SCENES = "scenes"
"""Its name among public data. Both photographs are under CC BY 2.0."""
_PATCHES, _SEED = 1000, 20
_ZOOMS = (1, 2, 4)
"""Pixels of a photograph, along a side, that one pixel of a patch is the mean of."""
_LARGEST = 100
"""Side of a patch at most: four such sides are within a photograph."""


@cache
def scenes(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Patches in the shape of some images, from 0 to 1; always the same for the same shape.

    Args:
        shape: (H, W) for patches in grey, or (H, W, 3).

    Example:
        >>> scenes((28, 28)).shape, scenes((32, 32, 3)).shape
        ((1000, 28, 28), (1000, 32, 32, 3))
    """
    from sklearn.datasets import load_sample_images  # here, because it takes a second to import

    height, width, *colours = shape
    photographs = [np.asarray(one, np.float32) / 255 for one in load_sample_images().images]
    rng, patches = np.random.default_rng(_SEED), []
    for number in range(_PATCHES):
        photograph, zoom = photographs[number % 2], int(rng.choice(_ZOOMS))
        rows, columns = zoom * height, zoom * width
        top = rng.integers(0, photograph.shape[0] - rows + 1)
        left = rng.integers(0, photograph.shape[1] - columns + 1)
        patch = photograph[top : top + rows, left : left + columns]
        seen = patch.reshape(height, zoom, width, zoom, 3).mean(axis=(1, 3))
        patches.append(seen if colours else seen.mean(axis=2))
    return np.stack(patches).astype(np.float32)


def fits(shape: tuple[int, ...]) -> bool:
    """Whether patches can be had in a shape: images in grey or three colours, not larger than 100 pixels.

    Example:
        >>> fits((28, 28)), fits((32, 32, 3)), fits((28, 28, 4)), fits((30,))
        (True, True, False, False)
    """
    return len(shape) in (2, 3) and shape[2:] in ((), (3,)) and max(shape[:2]) <= _LARGEST
