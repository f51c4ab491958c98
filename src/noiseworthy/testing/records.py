"""Records that try to escape a clip."""

import numpy as np
from numpy.typing import NDArray


def adversarial(features: int) -> NDArray[np.float64]:
    """Rows that have broken clips: just above it, huge, tiny, not finite, in one coordinate or in all.

    Returns:
        shape (rows, features).

    Example:
        >>> adversarial(3).shape[1]
        3
    """
    one = np.eye(features)[0]
    every = np.ones(features) / np.sqrt(features)
    sizes = [0.0, 1e-310, 1e-30, 0.3, 1.0, np.nextafter(1.0, 2), np.nextafter(np.float32(1), 2), 3.0, 1e6,
             1e19, 1e154, 1.4e154, 1e308, np.inf, np.nan]  # fmt: skip
    with np.errstate(invalid="ignore"):
        rows = [sign * size * axis for size in sizes for axis in (one, every) for sign in (1.0, -1.0)]
    noisy = np.random.default_rng(7).normal(size=(8, features)) * 10.0 ** np.arange(-4, 4)[:, None]
    return np.vstack([*rows, noisy])
