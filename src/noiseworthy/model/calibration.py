"""Probabilities that are as often right as they say: outputs times one number that is found in public."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field
from scipy.special import log_softmax

from noiseworthy._tables import Table
from noiseworthy._validate import Real

LEAST, MOST = 1 / 64, 64.0
"""Scales that are looked at."""
PUBLIC_TESTS = "the test records, which no client holds"
"""Where test records are a set of their own."""
FEWEST = 100
"""Records below which one that is found says little."""


class Calibration(Table):
    """By what outputs are multiplied before they become probabilities; classes and their order stay.

    Attributes:
        scale: one over the temperature.
        source: the public records that it was found on, in words.
        records: how many they are.
        error: calibration error on the test records without it.
    """

    scale: Annotated[float, Field(ge=LEAST, le=MOST)]
    source: str
    records: int
    error: float


def best_scale(z: ArrayLike, y: ArrayLike, weights: Real | None = None) -> float:
    """The scale at which the log loss of labelled records is least.

    Args:
        z: outputs before the softmax, shape (n, K), or log odds (n, 1).
        y: classes 0..K-1, shape (n,).
        weights: of the records, shape (n,); None for 1.

    Example:
        >>> round(best_scale([[2.0], [2.0], [2.0], [-2.0]], [1, 1, 0, 0]), 3)
        0.549

    Source: Guo et al., On calibration of modern neural networks (2017), temperature scaling.
    """
    outputs, true = np.asarray(z, np.float64), np.asarray(y)
    if outputs.shape[1] == 1:
        outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=1)
    each = np.arange(len(true))

    def loss(log_scale: float) -> float:
        shares = log_softmax(np.exp(log_scale) * outputs, axis=1)
        return float(-np.average(shares[each, true], weights=weights))

    ends = np.log(LEAST), np.log(MOST)
    from scipy.optimize import minimize_scalar  # here, because it is slow to load

    # The loss is convex in the scale, so that in its logarithm, too, it has one valley and no other.
    found: Any = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-6})
    return float(np.clip(np.exp(found.x), LEAST, MOST))


def crossed_scales(z: ArrayLike, y: ArrayLike, weights: Real | None = None) -> Real:
    """For every record the scale that the other half of the records has, shape (n,), by turns.

    Scores of a model with them are of records that its scale was not found on.
    """
    outputs, true = np.asarray(z), np.asarray(y)
    scales = np.empty(len(true))
    for half in (0, 1):
        other = slice(1 - half, None, 2)
        scales[half::2] = best_scale(outputs[other], true[other], None if weights is None else weights[other])
    return scales
