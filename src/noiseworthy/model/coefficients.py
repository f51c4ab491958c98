"""The coefficients of linear models under the names of their features."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.schema import columns as kinds
from noiseworthy.model.description import Description
from noiseworthy.tasks.names import LINEAR

COLUMNS = ("feature", "class", "coefficient", "per_unit")
INTERCEPT = "(intercept)"
Row = tuple[str, str, float, float | None]
"""Of `COLUMNS`: the last one per unit of the column itself, None where it has no such."""


def coefficients_of(description: Description, theta: NDArray[np.float32]) -> list[Row]:
    """A row for every feature and output, intercepts last; none where the model is not linear.

    A model of two classes with one output has the log odds (logistic) or the margin (svm) of the second one;
    softmax a row for each class, of which only differences between classes say anything. What holds per unit
    holds of records that no norm cuts; where all are scaled to a norm, nothing does.
    """
    task = description.task
    if task.model not in LINEAR:
        return []
    outputs = _outputs(description)
    weights = np.asarray(theta, np.float64).reshape(-1, len(outputs))
    bias = 0.0 if task.bias == "auto" else task.bias
    slopes, constants = (weights[:-1], bias * weights[-1]) if bias else (weights, 0 * weights[0])
    centers, units = _scales(description, len(slopes))
    known = ~np.isnan(units)
    moved = constants - (centers[known] / units[known]) @ slopes[known]
    rows: list[Row] = [
        (name, output, float(slopes[j, k]), float(slopes[j, k] / units[j]) if known[j] else None)
        for j, name in enumerate(_names(description, len(slopes)))
        for k, output in enumerate(outputs)
    ]
    return rows + [
        (INTERCEPT, output, float(constants[k]), float(moved[k]) if np.any(known) else None)
        for k, output in enumerate(outputs)
    ]


def in_units(said: Description, width: int) -> tuple[list[str], NDArray[np.int64], NDArray[np.float64]]:
    """How the coefficients of one output follow from parameters, as regressions are told.

    Beside a constant the first value of every category is left out, which the constant and the other values
    determine: they are told beside it.

    Args:
        said: of a linear model.
        width: parameters of an output, that of the constant last where records have one.

    Returns:
        Names, the intercept last; places of the parameters that are kept, shape (k,); and a row for each
        name, shape (m, k): per unit of the column where that is known, else as seen.
    """
    task = said.task
    bias = 0.0 if task.bias == "auto" else task.bias
    features = width - (bias > 0)
    names, (centers, units) = _names(said, features), _scales(said, features)
    first = _first_values(said) if bias else set()
    kept = np.array([j for j in range(width) if j >= features or names[j] not in first], np.int64)
    known = ~np.isnan(units)
    slopes = np.eye(features, width) / np.where(known, units, 1.0)[:, None]
    constant = bias * np.eye(width)[-1:] - np.where(known, centers, 0.0) @ slopes
    shown = kept[kept < features]
    matrix = np.concatenate([slopes[shown], constant])[:, kept]
    return [*(names[j] for j in shown), INTERCEPT], kept, matrix


def _first_values(description: Description) -> set[str]:
    """The first of the numbers of each category, where the model sees columns as they are encoded."""
    if description.columns is None or not _as_encoded(description):
        return set()
    return {one.names[0] for one in description.columns.features if isinstance(one, kinds.CategoryColumn)}


def _outputs(description: Description) -> list[str]:
    """What each output speaks of: a class, or the number that is predicted."""
    if description.classes is None:
        return [description.label_name]
    return description.classes if description.task.model == "softmax" else description.classes[1:]


def _names(description: Description, features: int) -> list[str]:
    """Names of the numbers that the model sees."""
    plain = _as_encoded(description, moved=True)
    if plain and description.columns is not None:
        return list(description.columns.feature_names)
    shape = tuple(description.record_shape)
    if plain and math.prod(shape) == features:
        return [f"x[{', '.join(map(str, place))}]" for place in np.ndindex(*shape)]
    return [f"prepared[{j}]" for j in range(features)]


def _as_encoded(description: Description, *, moved: bool = False) -> bool:
    """Whether the model sees records as they are encoded, but for their norm and, if `moved`, a mean."""
    task = description.task
    return task.pooling == 1 and task.projection is task.features is None and (moved or not task.reference)


def _scales(description: Description, features: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Centers and units of columns, where (value - center) / unit is encoded; NaN for all others."""
    centers, units = np.full((2, features), np.nan)
    if description.columns is None or description.task.normalise or not _as_encoded(description):
        return centers, units
    places = {name: j for j, name in enumerate(description.columns.feature_names)}
    for one in description.columns.features:
        if (ends := _ends(one)) is not None:
            least, most = ends
            centers[places[one.name]], units[places[one.name]] = (least + most) / 2, (most - least) / 2
    return centers, units


def _ends(column: kinds.Feature) -> tuple[float, float] | None:
    """What becomes -1 and 1 in units of the column: numbers, days, places in an order, no (0) and yes (1)."""
    match column:
        case kinds.NumberColumn(transform="none", step=step):
            return column.limits or (column.center - (step or 1), column.center + (step or 1))
        case kinds.DateColumn(range=(first, last)):
            return 0.0, (last - first).days
        case kinds.OrderedColumn(values=values):
            return 0.0, len(values) - 1
        case kinds.YesNoColumn():
            return 0.0, 1.0
    return None
