"""DP-ScaffNew at owners: local steps with a control variate that stays there, and one noised update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, cast

import numpy as np
from pydantic import Field

from noiseworthy._tables import Count
from noiseworthy.methods.dp_scaffnew.algorithm import DPScaffNew
from noiseworthy.methods.making import as_float
from noiseworthy.methods.rows import ALONE, WholeUpdate, noise_of
from noiseworthy.methods.wire import Asked, Job, Probe, Size, Wire, Work, no_obstacle, nothing_beside
from noiseworthy.tasks.base import Task

if TYPE_CHECKING:
    from noiseworthy.plans.local_work import Coins
    from noiseworthy.plans.plan import Plan


class ScaffNewWork(Work):
    """Local steps with a control variate that the owner keeps, the update clipped."""

    name: Literal["dp-scaffnew"] = "dp-scaffnew"
    step_size: Size
    probability: Annotated[float, Field(gt=0, le=1)]
    local_steps: Count


def _work(plan: Plan, client: int, t: int) -> ScaffNewWork:
    coins, step = cast("Coins", plan.local), float(plan.local_step_sizes[0])
    count = int(coins.counts(plan.rounds)[t])
    return ScaffNewWork(step_size=step, probability=coins.probability, local_steps=count)


def _job(request: Asked, work: ScaffNewWork, task: Task, records: int) -> Job:
    noise = noise_of(request, request.noise)
    algorithm = DPScaffNew(
        task=task, family=noise.family, norm=noise.norm, batch_size=None,
        clip_norm=as_float(request.clip_norm), noise=as_float(noise.size),
        step=as_float(work.step_size), probability=as_float(work.probability),
        counts=np.array([work.local_steps], np.int32), cohorts=ALONE,
    )  # fmt: skip
    return WholeUpdate.of(request, algorithm, request.clip_norm)


SCAFFNEW = Wire(
    name="dp-scaffnew", table=ScaffNewWork, steps=lambda work: work.local_steps, obstacle=no_obstacle,
    work=_work, job=_job, first=None,
    probe=Probe(
        work=lambda noise: ScaffNewWork(step_size=100.0, probability=0.5, local_steps=1),
        whole=True, sign=-1.0, beside=nothing_beside,
    ),
)  # fmt: skip
WIRES = {"dp-scaffnew": SCAFFNEW}
