"""What an owner makes of a shared model: its type, and the records that it has for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from noiseworthy.tasks.base import Task

FOLDS = 5
"""Of the cross-validation at home."""
Real = NDArray[np.float64]
Parameters = NDArray[np.floating]


class Own(NamedTuple):
    """An owner's records, which have been through the task's `prepare`.

    Attributes:
        x: features, shape (n, ...).
        y: labels, shape (n, *label_shape).
        whose: number of the person of each, shape (n,), whose records stay together; None where nobody says.
    """

    x: NDArray
    y: NDArray
    whose: NDArray | None = None

    def some(self, kept: NDArray[np.bool_]) -> Own:
        """Those of some places."""
        return Own(self.x[kept], self.y[kept], None if self.whose is None else self.whose[kept])


AtHome: TypeAlias = Callable[[Task, Parameters, Own, int], Parameters]
"""What an owner makes of a shared model with its own records. Nothing of it is noised, nothing leaves.

Args:
    task: model and loss.
    shared: parameters of the shared model, shape (p,); not finite where its training diverged.
    own: the owner's records.
    seed: of the folds of the cross-validation, and of a start.

Returns:
    Parameters of the owner's model, shape (p,).
"""


def folds_of(y: NDArray, seed: int, whose: NDArray | None = None) -> NDArray[np.int64]:
    """Fold of each record, shape (n,): drawn at random, as alike in their labels as can be, persons whole.

    Example:
        >>> folds_of(np.repeat([0, 1], 5), 0).reshape(2, 5).sum(axis=1)
        array([10, 10])
    """
    if whose is not None:
        _, first, rows = np.unique(whose, return_index=True, return_inverse=True)
        return folds_of(y[first], seed)[rows]
    key = y if y.ndim == 1 else np.zeros(len(y))
    order = np.lexsort((np.random.default_rng(seed).random(len(y)), key))
    folds = np.empty(len(y), np.int64)
    folds[order] = np.arange(len(y)) % FOLDS
    return folds
