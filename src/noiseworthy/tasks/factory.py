"""A task from its name and the shape of the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.names import LINEAR, MODELS
from noiseworthy.tasks.preparation import Preparation

if TYPE_CHECKING:
    from noiseworthy.tasks.base import Task
    from noiseworthy.tasks.encoder import Encoder
    from noiseworthy.tasks.reference import Reference

_TWO_CLASSES = ("logistic", "svm")


def make_task(
    model: str, record_shape: Sequence[int], classes: int | None, *, ridge: float = 0.0,
    feature_norm: float | None = None, normalise: bool = False, bias: float = 0.0, pooling: int = 1,
    projection: int | None = None, reference: Reference | None = None,
    class_weights: Sequence[float] | None = None, most_weight: float | None = None,
    features: str | Encoder | None = None,
) -> Task:  # fmt: skip
    """The task called `model` for records of a shape.

    Args:
        model: `softmax`, `logistic` or `svm` (2 classes; the svm has a smooth hinge), `linear` (regression);
            `cnn` (Zhou et al.), `fu-cnn`, `two-layer-cnn`, `vgg11` (Hou et al.), `ma-cnn`, `lenet5`,
            `group-cnn`, `resnet20` (Ma et al.; images); `lstm` (tokens); `unet3d` (volumes with masks).
        record_shape: shape of one record: (H, W) or (H, W, channels) for images, or (H^2,) for square ones
            that come flat; (L,) for tokens; (D, H, W) for volumes.
        classes: number of classes, or None for regression; the vocabulary of tokens, 2 for masks.
        ridge: weight mu of (mu/2)||theta||^2, at least 0.
        feature_norm, normalise, bias, class_weights, most_weight: as `LinearModel`, for linear models only;
            networks have biases of their own.
        pooling, projection, reference, features: as `Preparation`, for linear models only.

    Returns:
        A task; equal arguments give equal tasks.

    Raises:
        InvalidInput: an unknown model, or one that does not fit the labels, the records or the options.

    Example:
        >>> make_task("softmax", (28, 28), 10).dimension, make_task("cnn", (784,), 62).dimension
        (7840, 110526)
        >>> make_task("softmax", (28, 28), 10, pooling=2).dimension
        1960
    """
    check.one_of("model", model, MODELS)
    shape = tuple(record_shape)
    if model in LINEAR:
        _check_labels(model, classes)
        outputs = (classes or 0) if model == "softmax" else 1
        preparation = Preparation(pooling, projection, reference=reference, features=features)
        numbers = math.prod(preparation.shape_after(shape if most_weight is None else (shape[0] - 1,)))
        return LinearModel(
            numbers, outputs, LINEAR[model], ridge, bias, feature_norm, normalise, preparation,
            None if class_weights is None else tuple(map(float, class_weights)), most_weight,
        )  # fmt: skip
    check_plain(
        model, feature_norm=feature_norm is not None, normalise=normalise, bias=bias != 0,
        pooling=pooling != 1, projection=projection is not None, reference=reference is not None,
        class_weights=class_weights is not None, features=features is not None,
        **{'role = "weight"': most_weight is not None},
    )  # fmt: skip
    from noiseworthy.tasks.models.making import network  # here, because linear models need none

    return network(model, shape, _classes(model, classes), ridge)


def _classes(model: str, classes: int | None) -> int:
    if classes is None:
        raise InvalidInput(f"{model} needs classes, got real targets; use linear for regression")
    return classes


def _check_labels(model: str, classes: int | None) -> None:
    if model == "linear":
        if classes is not None:
            raise InvalidInput(f"linear needs real targets, got {classes} classes; use softmax or logistic")
    elif _classes(model, classes) != 2 and model in _TWO_CLASSES:
        raise InvalidInput(f"{model} needs 2 classes, got {classes}; use softmax")


def check_plain(model: str, **given: bool) -> None:
    """Refuse options of linear models for another one, by InvalidInput."""
    for option in (name for name, present in given.items() if present):
        raise InvalidInput(f"{option} belongs to linear models and must be left out for {model}; remove it")
