"""A task from its name and the shape of the data."""

from __future__ import annotations

import math
from collections.abc import Sequence

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.cnn import paper_cnn
from noiseworthy.tasks.linear import LinearLoss, LinearModel

_LINEAR: dict[str, LinearLoss] = {"softmax": "softmax", "logistic": "logistic", "linear": "squared"}
MODELS = (*_LINEAR, "cnn")
"""The names that `make_task` knows."""


def make_task(
    model: str,
    record_shape: Sequence[int],
    classes: int | None,
    *,
    ridge: float = 0.0,
    feature_norm: float | None = None,
    normalise: bool = False,
    bias: bool = False,
) -> Task:
    """The task called `model` for records of a shape.

    Args:
        model: `softmax`, `logistic` (2 classes), `linear` (regression) or `cnn` (images).
        record_shape: shape of one record.
        classes: number of classes, or None for regression.
        ridge: weight mu of (mu/2)||theta||^2, at least 0.
        feature_norm: radius of the L2 ball onto which each record is projected; linear models only.
        normalise: scale each record to norm `feature_norm` instead; linear models only.
        bias: append a feature that is always 1; linear models only (the cnn has biases).

    Returns:
        A task; equal arguments give equal tasks.

    Raises:
        InvalidInput: an unknown model, or one that does not fit the labels, the records or the options.

    Example:
        >>> make_task("softmax", (28, 28), 10).dimension, make_task("cnn", (28, 28), 62).dimension
        (7840, 110526)
    """
    check.one_of("model", model, MODELS)
    _check_labels(model, classes)
    shape = tuple(record_shape)
    if model == "cnn":
        _check_plain(feature_norm, normalise, bias)
        return paper_cnn(classes or 0, shape, ridge=ridge)
    outputs = (classes or 0) if model == "softmax" else 1
    return LinearModel(math.prod(shape), outputs, _LINEAR[model], ridge, bias, feature_norm, normalise)


def _check_labels(model: str, classes: int | None) -> None:
    if model == "linear" and classes is not None:
        raise InvalidInput(f"linear needs real targets, got {classes} classes; use softmax or logistic")
    if model != "linear" and classes is None:
        raise InvalidInput(f"{model} needs classes, got real targets; use linear for regression")
    if model == "logistic" and classes != 2:
        raise InvalidInput(f"logistic needs 2 classes, got {classes}; use softmax")


def _check_plain(feature_norm: float | None, normalise: bool, bias: bool) -> None:
    given = {"feature_norm": feature_norm is not None, "normalise": normalise, "bias": bias}
    for option in (name for name, present in given.items() if present):
        raise InvalidInput(f"{option} belongs to linear models and must be left out for cnn; remove it")
