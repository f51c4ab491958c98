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


def record_size(schema: Schema) -> float | None:
    """The norm of a record that its columns suggest; None where one is counted in steps, without a range."""
    if any(getattr(column, "step", None) is not None for column in schema.features):
        return None
    return expected_size(blocks_of(schema))


def label_range(study: Study, federation: Federation) -> tuple[float, float] | None:
    """The public range of the numbers that a regression predicts, where nothing closer is known of them."""
    if federation.classes is not None or study.columns is None or study.planning.label_scale is not None:
        return None
    return study.columns.label.range


def label_scale(study: Study, federation: Federation) -> float | None:
    """The public size of the numbers that a regression predicts; None for classes.

    Raises:
        ConfigError: neither a size nor a range is stated.
    """
    if federation.classes is not None:
        return None
    if study.planning.label_scale is not None:
        return study.planning.label_scale
    if study.columns is not None and study.columns.label.range is not None:
        least, most = study.columns.label.range
        return math.sqrt((least**2 + least * most + most**2) / 3)  # of numbers that lie evenly in the range
    raise ConfigError(
        "planning a regression by trial needs [planning] label_scale, the public root mean square of "
        "what it predicts, say 14.0 for interest rates in per cent, or the label's range in [columns]; clip "
        "and step size depend on it"
    )
