"""How well a model does on test records, beside what always answering the same would reach."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy._tables import Table
from noiseworthy.tasks.qualities import quality

BINS = 15
"""Of the calibration error."""
_LEAST = np.finfo(np.float64).eps
"""Probability below which a log loss counts no more."""
Number = float | None


class Metrics(Table):
    """Scores of one model on test records; None where a score is not defined.

    Attributes:
        records: number of test records.
        accuracy: share of records whose class is named.
        balanced_accuracy: mean over the classes of that share.
        auc: area under the ROC curve, the mean of one class against the rest where there are more than two.
        log_loss: mean of -log p of the true class; None where a model gives no probabilities.
        calibration_error: mean distance between the probability of the named class and how often it is
            right, in bins of equal width, weighted by their records (ECE).
        prior_accuracy, prior_balanced_accuracy, prior_log_loss: of always answering the shares of the classes
            among the test records.
        prior_weighted_loss: the least mean loss of always answering the same, where losses are weighted.
        r2: share of the variance that is explained.
        error: root of the mean squared error; `prior_error` that of always answering the mean.
    """

    records: int
    accuracy: Number = None
    balanced_accuracy: Number = None
    auc: Number = None
    log_loss: Number = None
    calibration_error: Number = None
    prior_accuracy: Number = None
    prior_balanced_accuracy: Number = None
    prior_log_loss: Number = None
    prior_weighted_loss: Number = None
    r2: Number = None
    error: Number = None
    prior_error: Number = None

    @property
    def constant_loss(self) -> Number:
        """Test loss of always answering the same, in the unit of trainings; None where they have another."""
        if self.log_loss is None and self.accuracy is not None:
            return None
        if self.prior_weighted_loss is not None:
            return self.prior_weighted_loss
        return self.prior_log_loss if self.prior_error is None else self.prior_error**2 / 2


def of_classes(
    y: ArrayLike, scores: NDArray, *, probabilities: bool = True, weights: NDArray[np.float64] | None = None
) -> Metrics:
    """Scores of a classifier.

    Args:
        y: true classes 0..K-1, shape (n,), n at least 1.
        scores: of every class, shape (n, K), the largest of which names the class.
        probabilities: whether scores are probabilities.
        weights: of the records, shape (n,), by which the loss of the training is weighted; None for 1.

    Example:
        >>> found = of_classes([0, 0, 1], np.array([[0.9, 0.1], [0.6, 0.4], [0.4, 0.6]]))
        >>> found.accuracy, found.auc, round(found.log_loss, 3), round(found.prior_log_loss, 3)
        (1.0, 1.0, 0.376, 0.637)
    """
    true, scores = np.asarray(y), np.asarray(scores, np.float64)
    named, shares = scores.argmax(axis=1), np.bincount(true) / len(true)
    weighted = None if weights is None else np.bincount(true, weights)
    found = {
        "accuracy": float(np.mean(named == true)),
        "balanced_accuracy": float(np.mean([np.mean(named[true == k] == k) for k in np.unique(true)])),
        "auc": _auc(true, scores, probabilities),
        "prior_accuracy": float(shares.max()),
        "prior_balanced_accuracy": 1 / np.count_nonzero(shares),
        "prior_log_loss": _prior_loss(shares),
        "prior_weighted_loss": None if weighted is None else _prior_loss(weighted / weighted.sum()),
    }
    if probabilities:
        scores = scores / scores.sum(axis=1, keepdims=True)
        of_true = scores[np.arange(len(true)), true]
        found |= {
            "log_loss": float(-np.mean(np.log(np.maximum(of_true, _LEAST)))),
            "calibration_error": _calibration_error(named == true, scores.max(axis=1)),
        }
    return Metrics(records=len(true), **found)


def of_numbers(y: ArrayLike, predicted: ArrayLike, weights: ArrayLike | None = None) -> Metrics:
    """Scores of a regression, of n at least 1 records, where losses may be weighted.

    Example:
        >>> of_numbers([0.0, 2.0], [0.0, 1.0]).r2
        0.5
    """
    true, given = np.asarray(y, np.float64).ravel(), np.asarray(predicted, np.float64).ravel()
    return Metrics(
        records=len(true),
        r2=_r2(true, given) if len(true) > 1 else None,
        error=float(np.sqrt(np.mean(np.square(true - given)))),
        prior_error=float(true.std()),
        prior_weighted_loss=None if weights is None else _weighted_spread(true, weights),
    )


def _r2(true: NDArray[np.float64], given: NDArray[np.float64]) -> float:
    """Of labels that are all alike 1 where they are met, else 0, as scikit-learn has it."""
    missed, spread = np.sum(np.square(true - given)), np.sum(np.square(true - true.mean()))
    return float(1 - missed / spread) if spread else float(missed == 0)


def _prior_loss(shares: NDArray[np.float64]) -> float:
    """Log loss of always answering some shares, where classes come in them."""
    occurring = shares[shares > 0]
    return float(abs(np.sum(occurring * np.log(occurring))))


def _weighted_spread(true: NDArray[np.float64], weights: ArrayLike) -> float:
    """Half the mean squared distance to the mean, both weighted."""
    given = np.asarray(weights, np.float64)
    mean = np.average(true, weights=given)
    return float(np.average(np.square(true - mean), weights=given) / 2)


def _auc(true: NDArray, scores: NDArray[np.float64], probabilities: bool) -> Number:
    """None where a class does not occur: nothing can be told apart from it."""
    if len(np.unique(true)) < scores.shape[1]:
        return None
    # Records that are all but sure differ in what is left of 1, of which their difference keeps nothing.
    levels = np.log(np.maximum(scores, np.finfo(np.float64).tiny)) if probabilities else scores
    return float(quality("auc", levels[None], true)[0])


def _calibration_error(right: NDArray[np.bool_], confidence: NDArray[np.float64]) -> float:
    """scikit-learn draws reliability curves and has no such number."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, weights=right.astype(float) - confidence, minlength=BINS)
    return float(np.abs(gaps).sum() / len(right))
