"""Weights and shares of classes as a study states them, in the order of the classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noiseworthy._names import nearest
from noiseworthy._wording import shortened
from noiseworthy.data import Federation
from noiseworthy.errors import ConfigError
from noiseworthy.studies.tables import Study
from noiseworthy.tasks.table import TaskTable

_ROUNDING = 0.01
"""By which shares may miss a sum of 1."""


def names_of_classes(study: Study, federation: Federation) -> list[str] | None:
    """Names of the classes in their order, their numbers where they have none; None for a regression."""
    if federation.classes is None:
        return None
    if federation.schema is not None and federation.schema.label.classes is not None:
        return list(federation.schema.label.classes)
    stated = study.federation.classes or federation.classes_found or range(federation.classes)
    return [str(one) for one in stated]


def with_numbers(table: TaskTable, names: Sequence[str] | None) -> TaskTable:
    """`[task]` with weights and shares as numbers in the order of the classes.

    Balanced weights are 1 / (K share): of records in these shares every class has a K-th of the loss.

    Args:
        table: as stated.
        names: of the classes in order; None for a regression.

    Returns:
        The same table where it states neither.

    Raises:
        ConfigError: classes that are missing or unknown, shares that are no shares, labels that are numbers.

    Example:
        >>> stated = TaskTable(class_weights="balanced", class_shares={"yes": 0.2, "no": 0.8})
        >>> with_numbers(stated, ["no", "yes"]).class_weights
        [0.625, 2.5]
    """
    if table.class_weights is None and table.class_shares is None:
        return table
    if names is None:
        raise ConfigError("[task] class_weights and class_shares are for classes; a regression takes neither")
    shares = table.class_shares
    if shares is not None:
        shares = _in_order("class_shares", shares, names)
        if abs(sum(shares) - 1) > _ROUNDING:
            raise ConfigError(f"[task] class_shares must add up to 1, got {sum(shares):.4g}; mend them")
        shares = [share / sum(shares) for share in shares]
    weights = table.class_weights
    if weights == "balanced":
        weights = [1 / (len(names) * share) for share in shares or ()]
    elif weights is not None:
        weights = _in_order("class_weights", weights, names)
    return table.model_copy(update={"class_weights": weights, "class_shares": shares})


def of_other_classes(table: TaskTable, classes: int | None) -> TaskTable:
    """`[task]` for public records of another number of classes: they take those of the study in turn.

    Shares are brought to a sum of 1 again, weights to their mean over the shares as it was.

    Args:
        table: with weights and shares as numbers.
        classes: of the public records; None for numbers.

    Example:
        >>> stated = TaskTable(class_weights=[1, 4], class_shares=[0.8, 0.2])
        >>> found = of_other_classes(stated, 3)
        >>> [round(share, 3) for share in found.class_shares], [round(v, 3) for v in found.class_weights]
        ([0.444, 0.111, 0.444], [1.2, 4.8, 1.2])
    """
    weights, shares = table.weights, shares_of(table)
    if classes is None or all(one is None or len(one) == classes for one in (weights, shares)):
        return table
    update, own = {}, None
    if shares is not None:
        own = np.resize(shares, classes) / np.resize(shares, classes).sum()
        update["class_shares"] = own.tolist()
    if weights is not None:
        others = np.resize(weights, classes)
        same = np.average(weights, weights=shares) / np.average(others, weights=own)
        update["class_weights"] = (same * others).tolist()
    return table.model_copy(update=update)


def shares_of(table: TaskTable) -> tuple[float, ...] | None:
    """Public shares of the classes, of a table that `with_numbers` gave."""
    return tuple(table.class_shares) if isinstance(table.class_shares, list) else None


def _in_order(key: str, stated: list[float] | dict[str, float], names: Sequence[str]) -> list[float]:
    """Numbers of all classes in their order."""
    known = shortened(", ".join(names), 80)
    if isinstance(stated, dict):
        if strange := [name for name in stated if name not in names]:
            raise ConfigError(
                f"[task] {key} names no class of the study: {strange[0]!r}{nearest(strange[0], names)}; the "
                f"classes are {known}"
            )
        if missing := [name for name in names if name not in stated]:
            raise ConfigError(f"[task] {key} lacks the class {missing[0]!r}; state all of {known}")
        return [float(stated[name]) for name in names]
    if len(stated) != len(names):
        raise ConfigError(
            f"[task] {key} must be one number for each of {len(names)} classes ({known}), got {len(stated)}"
        )
    return [*map(float, stated)]
