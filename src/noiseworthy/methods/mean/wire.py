"""The mean at owners: one noised sum of their records at norm 1, each beside its class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from noiseworthy._validate import Real
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.rows import RowSum, noise_of
from noiseworthy.methods.wire import Asked, Job, Size, Wire, Work
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import Norm, mean_rows, of_mean_and_class
from noiseworthy.privacy.sums import MARGIN, NoisedSum
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.linear import LinearModel

if TYPE_CHECKING:
    from noiseworthy.tasks.base import Task


class MeanWork(Work):
    """The mean of records at norm 1 and shares of classes, these times w."""

    name: Literal["mean"] = "mean"
    of_class: Size


def rows_of(task: Task, batch: Batch, clip_norm: float, of_class: float, norm: Norm) -> Real:
    """What every record adds, shape (n, d + K): a little within C and w, for rounding to the grid."""
    c, w = MARGIN * clip_norm, MARGIN * of_class
    return mean_rows(batch.x, batch.y, c, w, of_classes(task).classes, norm)


def of_classes(task: Task) -> LinearModel:
    """The model of a request, which says how many numbers a record has and how many classes there are."""
    if not isinstance(task, LinearModel) or task.weighted or not task.classes:
        raise InvalidInput("a mean is told of records with classes, for a linear model without weights")
    return task


def _job(request: Asked, work: MeanWork, task: Task, records: int) -> Job:
    model, c, w = of_classes(task), request.clip_norm, work.of_class
    noise = noise_of(request, request.noise)
    release = Release(noise, of_mean_and_class(c, w, [records], noise.norm))
    longest = c + w if noise.norm == "l1" else (c**2 + w**2) ** 0.5
    # In L2 no rows are opposite, for two classes are at right angles: less than 2 is what is accounted for.
    apart = 2.0 if noise.norm == "l1" else release.sensitivity.value.item() * records / longest
    numbers = model.dimension // model.outputs + model.classes
    total = NoisedSum.planned(release, longest, records, numbers, apart=apart, slack=1 - MARGIN)
    return RowSum(task, request.theta, total, lambda few: rows_of(task, few, c, w, noise.norm))


WIRE = Wire(table=MeanWork, work=lambda how, client, t: MeanWork(of_class=how.of_class), job=_job)
