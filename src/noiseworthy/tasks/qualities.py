"""How good many models of one kind are on the same records, by a metric that a study names."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Metric = Literal["loss", "accuracy", "balanced-accuracy", "auc", "r2"]
"""What settings may be chosen by: `loss` anywhere, `r2` where labels are numbers, the others of classes."""
Real = NDArray[np.float64]
_SCORES: dict[str, str] = {"balanced-accuracy": "balanced accuracy", "auc": "AUC"}


def score_of(metric: str, classes: int | None) -> str:
    """What a model reaches, by the name that is shown: the metric, or what goes with the labels.

    Example:
        >>> score_of("auc", 2), score_of("loss", 2), score_of("loss", None)
        ('AUC', 'accuracy', 'R^2')
    """
    return _SCORES.get(metric, "R^2" if classes is None else "accuracy")


def quality(metric: Metric, outputs: ArrayLike, labels: ArrayLike) -> Real:
    """A metric of models, from their outputs, by the definitions of `model.metrics`.

    Args:
        metric: one of classes, `accuracy`, `balanced-accuracy` or `auc`.
        outputs: shape (S, n, K), by log-probabilities where AUC is of more than two classes; or (S, n, 1) for
            two, the second where it is above 0.
        labels: classes 0..K-1, shape (n,).

    Returns:
        Shape (S,). Classes without a record count in none; with a single class AUC is 1/2.

    Example:
        >>> z = [[[2.0, 0.0], [0.0, 1.0], [3.0, 1.0], [1.0, 0.0]]]
        >>> [quality(metric, z, [0, 1, 0, 1]).item() for metric in ("accuracy", "balanced-accuracy", "auc")]
        [0.75, 0.75, 1.0]
    """
    z, y = np.asarray(outputs, np.float64), np.asarray(labels)
    if z.shape[2] == 1:
        z = np.concatenate([-z, z], axis=2)
    occurring = np.unique(y)
    if metric == "auc":
        margins = z[..., 1:] - z[..., :1] if z.shape[2] == 2 else z
        kinds = [1] if z.shape[2] == 2 else occurring.tolist()
        return np.mean([_auc(margins[..., min(k, margins.shape[2] - 1)], y == k) for k in kinds], axis=0)
    right = z.argmax(axis=2) == y
    if metric == "accuracy":
        return right.mean(axis=1)
    return np.mean([right[:, y == k].mean(axis=1) for k in occurring], axis=0)


def constant_quality(metric: Metric, labels: ArrayLike) -> float:
    """The same of the constant answer that is best; R^2 of the mean is 0.

    Example:
        >>> [constant_quality(metric, [0, 0, 0, 1]) for metric in ("accuracy", "balanced-accuracy", "auc")]
        [0.75, 0.5, 0.5]
    """
    if metric in ("auc", "r2"):
        return 0.5 if metric == "auc" else 0.0
    shares = np.unique(np.asarray(labels), return_counts=True)[1] / np.size(labels)
    return float(shares.max()) if metric == "accuracy" else 1 / len(shares)


def _auc(scores: Real, positive: NDArray[np.bool_]) -> Real:
    """Shape (S,): the chance that a positive record has the larger score, ties counting half."""
    if positive.all() or not positive.any():
        return np.full(len(scores), 0.5)
    pairs = zip(np.sort(scores[:, ~positive]), scores[:, positive], strict=True)
    below = [[np.searchsorted(others, mine, side) for side in ("left", "right")] for others, mine in pairs]
    return np.mean(below, axis=(1, 2)) / (~positive).sum()
