"""The mean of labels at owners: one noised sum of them, each within a clip of a public middle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.rows import RowSum, gradient_sum
from noiseworthy.methods.wire import Asked, Job, Wire, Work
from noiseworthy.tasks.linear import LinearModel

if TYPE_CHECKING:
    from noiseworthy.tasks.base import Task
    from noiseworthy.tasks.batch import Batch


class LabelMeanWork(Work):
    """The mean of labels less a public number, each within the clip."""

    name: Literal["label-mean"] = "label-mean"
    middle: Annotated[float, Field(gt=-1e30, lt=1e30)]


def rows_of(batch: Batch, clip_norm: float, middle: float) -> NDArray[np.float64]:
    """What every record adds, shape (n, 1); nothing where its label is not a number."""
    apart = np.nan_to_num(np.asarray(batch.y, np.float64) - middle, posinf=clip_norm, neginf=-clip_norm)
    return np.clip(apart, -clip_norm, clip_norm)[:, None]


def _job(request: Asked, work: LabelMeanWork, task: Task, records: int) -> Job:
    if not isinstance(task, LinearModel):
        raise InvalidInput("a mean of labels is told of one number of each record, for a linear model")
    total, c, middle = gradient_sum(request, records, 1), request.clip_norm, work.middle
    return RowSum(task, request.theta, total, lambda few: rows_of(few, c, middle))


WIRE = Wire(table=LabelMeanWork, work=lambda how, client, t: LabelMeanWork(middle=how.middle), job=_job)
