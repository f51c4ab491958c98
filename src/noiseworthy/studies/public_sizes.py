"""How large records and what is predicted are, as far as a study says it in public."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from noiseworthy.data import Federation
from noiseworthy.data.prior_columns import blocks_of, expected_size
from noiseworthy.errors import ConfigError
from noiseworthy.studies.tables import Study

if TYPE_CHECKING:
    from noiseworthy.data.schema import Schema
    from noiseworthy.plans.stages import BoughtRanges

_FAR_BELOW = 0.25
"""Size of labels over that of numbers which lie evenly in their range, below which the range says little."""


def record_size(schema: Schema) -> float | None:
    """The norm of a record that its columns suggest; None where one is counted in steps, without a range."""
    if any(getattr(column, "step", None) is not None for column in schema.features):
        return None
    return expected_size(blocks_of(schema))


def label_range(study: Study, federation: Federation) -> tuple[float, float] | None:
    """The public range of the numbers that a regression predicts, where nothing closer is known of them."""
    if federation.classes is not None or study.columns is None or stated_scale(study) is not None:
        return None
    return study.columns.label.range


def label_scale(study: Study, federation: Federation) -> float | None:
    """The public size of the numbers that a regression predicts; None for classes.

    Raises:
        ConfigError: neither a size nor a range is stated.
    """
    if federation.classes is not None:
        return None
    if (stated := stated_scale(study)) is not None:
        return stated
    if study.columns is not None and study.columns.label.range is not None:
        return even_scale(*study.columns.label.range)
    raise ConfigError(
        "planning a regression by trial needs [planning] label_scale, the public root mean square of "
        "what it predicts, say 14.0 for interest rates in per cent, or the label's range in [columns]; clip "
        "and step size depend on it"
    )


def stated_scale(study: Study) -> float | None:
    """The size of labels as a number that a study states; None where it states none."""
    stated = study.planning.label_scale
    return None if isinstance(stated, str) else stated


def closer(study: Study, bought: BoughtRanges | None) -> BoughtRanges | None:
    """What was bought of the labels, where it says more than their range: they are far smaller than that."""
    if bought is None or bought.label_scale is None or study.columns is None:
        return None
    ends = study.columns.label.range
    return bought if ends is None or bought.label_scale < _FAR_BELOW * even_scale(*ends) else None


def even_scale(least: float, most: float) -> float:
    """Root mean square of numbers that lie evenly in a range.

    Example:
        >>> even_scale(-3.0, 3.0) ** 2
        2.9999999999999996
    """
    return math.sqrt((least**2 + least * most + most**2) / 3)


def untrained_loss(model: str | None, classes: int) -> float:
    """Loss of classes that all are as probable, ln K, or of an svm's margin of 0, 1/2."""
    return 0.5 if model == "svm" else math.log(classes)
