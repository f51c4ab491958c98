"""Second moments at owners: one noised sum of the upper triangles of their records' products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from noiseworthy._jax import jnp
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.moments.local import Real, asked_of_outputs, moment_rows
from noiseworthy.methods.rows import RowSum, noise_of
from noiseworthy.methods.wire import Asked, Job, Vector, Wire, Work
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import RIGHT_ANGLED, Norm, of_moments
from noiseworthy.privacy.sums import MARGIN, NoisedSum
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.linear import LinearModel

if TYPE_CHECKING:
    from noiseworthy.plans.plan import Plan
    from noiseworthy.tasks.base import Task


class MomentsWork(Work):
    """The mean of second moments of records and what their labels ask."""

    name: Literal["moments"] = "moments"
    label_weight: Annotated[float, Field(gt=1e-30, lt=1e30)]


def rows_of(task: Task, theta: Vector, batch: Batch, weight: float, clip_norm: float, norm: Norm) -> Real:
    """The clipped moments of every record at a model, shape (n, u)."""
    model = _linear(task)
    x = np.asarray(batch.x, np.float64)
    # Sums of rows, not a product over all records, which may round one by how many others there are.
    outputs = [np.sum(x * one, axis=1) for one in theta.reshape(-1, model.outputs).T]
    asked = asked_of_outputs(model, jnp.asarray(np.stack(outputs, axis=1), jnp.float32), batch)
    return moment_rows(x, np.asarray(asked, np.float64), weight, norm, model.loss == "squared", clip_norm)


def _linear(task: Task) -> LinearModel:
    if not isinstance(task, LinearModel) or task.weighted:
        raise InvalidInput("moments are uploaded for linear models without weights alone")
    return task


def _work(plan: Plan, client: int, t: int) -> MomentsWork:
    if plan.moments is None:
        raise InvalidInput("this plan has no second moments; plan it again")
    return MomentsWork(label_weight=plan.moments.label_weight)


def _job(request: Asked, work: MomentsWork, task: Task, records: int) -> Job:
    model, noise = _linear(task), noise_of(request, request.noise)
    width = task.dimension // model.outputs
    numbers = width * (width + 1) // 2 + task.dimension + (model.loss == "squared")
    release = Release(noise, of_moments(request.clip_norm, [records], noise.norm))
    # Rows at right angles need not stay so once they are truncated to the grid: what `MARGIN` leaves free
    # makes up for it.
    total = NoisedSum.planned(
        release, request.clip_norm, records, numbers, apart=RIGHT_ANGLED[noise.norm], slack=1 - MARGIN
    )
    clip, norm, c = total.mechanism.clip_norm, noise.norm, work.label_weight
    return RowSum(task, request.theta, total, lambda few: rows_of(task, request.theta, few, c, clip, norm))


WIRE = Wire(table=MomentsWork, work=_work, job=_job)
