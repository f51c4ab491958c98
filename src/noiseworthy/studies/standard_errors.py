"""Coefficients with standard errors of a run folder, from the noised moments that it keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy._json import strict_json
from noiseworthy.data.files import read_npz
from noiseworthy.data.schema.columns import NumberColumn
from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.methods.moments.estimates import Estimates, estimates
from noiseworthy.model.coefficients import in_units
from noiseworthy.model.description import Description
from noiseworthy.studies import checkpoints, plan_file
from noiseworthy.studies.typed_record import PlanPart, RunRecord

CONFIDENCE = 0.95
"""Of the intervals in records."""
_MOMENTS, _START = "server_00", "server_01"


def coefficients_in(folder: Path, record: RunRecord, description: Description) -> dict[str, Any] | None:
    """What a record says of the coefficients of its first training, as `CoefficientsPart` has it.

    Per unit of a column where that is known. Owners whose upload did not arrive are left out. None of a run
    that is no regression by one upload.

    Args:
        folder: of the run, with its plan and its checkpoint.
        record: of the run, as far as it is made.
        description: of the model that was trained.
    """
    if description.task.model != "linear" or record.plan.label_weight is None or record.federation is None:
        return None
    arrived: list[bool] | int = 1
    if record.network and record.network.rounds:
        arrived = [record.network.rounds[0].answers.get(name) == "" for name in record.client_names]
    names, places, matrix = in_units(description, record.federation.dimension)
    try:
        found = estimates_of(folder, uploads=arrived, places=places).seen_through(matrix)
    except InvalidInput as why:
        return {"confidence": CONFIDENCE, "why_not": str(why)}
    columns = (found.coefficients, found.errors, found.errors_of_noise, *found.interval(CONFIDENCE).T)
    keys = ("feature", "coefficient", "error", "error_of_noise", "least", "most")
    rows = [dict(zip(keys, row, strict=True)) for row in zip(names, *columns, strict=True)]
    told = {"confidence": CONFIDENCE, "residual": found.residual, "rows": rows}
    return strict_json(told | {"may_scale": _may_scale(record.plan, description)})


def _may_scale(plan: PlanPart, description: Description) -> bool:
    """Whether norm or clip scale a record that the columns allow, which biases coefficients."""
    columns, task = description.columns, description.task
    if columns is None or columns.label.range is None or task.normalise or task.bias == "auto":
        return True
    # of each column a number up to 1, and the one that tells a gap beside the value that stands for it
    square = sum(1 + (one.indicator and not isinstance(one.missing, bool)) for one in columns.features)
    mean = plan.bought_label_mean or 0.0
    label = (plan.label_weight or 0.0) * max(abs(end - mean) for end in columns.label.range)
    size = square + task.bias**2 + label**2
    if plan.clip == "l1":
        size = ((square + task.bias + label) ** 2 + size) / 2
    unbound = any(isinstance(one, NumberColumn) and one.limits is None for one in columns.features)
    return unbound or square > (task.radius or np.inf) ** 2 or size > plan.clip_norm


def estimates_of(
    folder: str | Path, training: int = 0, uploads: ArrayLike = 1, places: NDArray[np.int64] | None = None
) -> Estimates:
    """Least-squares coefficients with standard errors of a regression that one upload trained.

    Args:
        folder: of a finished run.
        training: which of its seeds, by place.
        uploads: of each client, 0 of those that did not arrive.
        places: of the features to regress on; None takes all.

    Raises:
        ConfigError: a folder without such a run.
        InvalidInput: no regression by moments, or noise that hides the smallest eigenvalue of the moments.
    """
    folder = Path(folder)
    if not (folder / checkpoints.FILE).is_file() or not (folder / plan_file.FILE).is_file():
        raise ConfigError(f"{folder} holds no finished run; train into it with --out first")
    plan, kept = plan_file.load_plan(folder / plan_file.FILE).plan, read_npz(folder / checkpoints.FILE)
    if _START not in kept or not 0 <= training < len(kept[_MOMENTS]):
        raise ConfigError(f"{folder} keeps no moments of training {training}; take another, of one upload")
    mean, start = (np.asarray(kept[name][training], np.float64) for name in (_MOMENTS, _START))
    return estimates(plan, mean, start, uploads, places)
