"""What a record adds to the mean that its client tells: itself at norm 1, and its class."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.privacy.sensitivity import Norm


def mean_rows(
    x: ArrayLike, labels: ArrayLike, clip_norm: float, of_class: float, classes: int, norm: Norm
) -> NDArray[np.float64]:
    """(clip(x/|x|), w e_y) of every record x of class y, one row each, shape (n, d + K).

    A record that is zero or holds a number that is not finite counts as zero.

    Args:
        x: records, shape (n, ...) with d numbers each.
        labels: their classes 0..K-1, shape (n,).
        clip_norm: C, the most of a record in the norm of the noise once its L2 norm is 1.
        of_class, classes, norm: w, K, and that of the noise.

    Example:
        >>> mean_rows([[3.0, 4.0], [np.nan, 1.0]], [1, 0], 1.0, 0.5, 2, "l2")
        array([[0.6, 0.8, 0. , 0.5],
               [0. , 0. , 0.5, 0. ]])
    """
    rows = np.asarray(x, np.float64)
    rows = rows.reshape(len(rows), -1)
    # NaN and infinity both come through a maximum of magnitudes, so that one test finds either
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    known = np.isfinite(largest) & (largest > 0)
    rows = np.divide(rows, largest, out=np.zeros_like(rows), where=known)  # so that no square overflows
    rows /= np.where(known, np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    across = np.linalg.norm(rows, 1 if norm == "l1" else 2, axis=1, keepdims=True)
    rows *= clip_norm / np.maximum(across, clip_norm)
    return np.concatenate([rows, of_class * np.eye(classes)[np.asarray(labels, np.int64)]], axis=1)
