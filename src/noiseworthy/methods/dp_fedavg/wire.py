"""DP-FedAvg at owners: local steps on all records, and one noised update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import ConfigDict

from noiseworthy.errors import UnsoundClaim
from noiseworthy.methods.dp_fedavg.algorithm import DPFedAvg
from noiseworthy.methods.making import as_float
from noiseworthy.methods.rows import ALONE, WholeUpdate, noise_of
from noiseworthy.methods.wire import Asked, Job, Probe, StepSizes, Wire, Work, no_obstacle, nothing_beside
from noiseworthy.tasks.base import Task

if TYPE_CHECKING:
    from noiseworthy.plans.plan import Plan


class FedAvgWork(Work):
    """Local steps on all records: the clip holds for each gradient (C) or for the update (D)."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: Literal["dp-fedavg"] = "dp-fedavg"
    clipping: Literal["C", "D"]
    step_sizes: StepSizes


def _work(plan: Plan, client: int, t: int) -> FedAvgWork:
    mode = plan.problem.clipping
    if mode not in ("C", "D"):
        raise UnsoundClaim(f"no gateway computes {plan.algorithm} in clipping mode {mode}; use mode C or D")
    return FedAvgWork(clipping=mode, step_sizes=plan.local_step_sizes.reshape(plan.rounds, -1)[t])


def _job(request: Asked, work: FedAvgWork, task: Task, records: int) -> Job:
    if work.clipping == "C" and task.ridge:
        raise UnsoundClaim(
            f"a ridge of {task.ridge:g} moves the model beside the clipped steps of mode C; use mode D"
        )
    noise, steps = noise_of(request, request.noise), work.step_sizes
    moved = float(steps.sum()) if work.clipping == "C" else 1.0
    algorithm = DPFedAvg(
        task=task, family=noise.family, norm=noise.norm, clipping=work.clipping, batch_size=None,
        clip_norm=as_float(request.clip_norm), noise=as_float(noise.size), scale=as_float([moved]),
        weights=np.ones(1, np.float32), sizes=np.ones(1, np.int32), steps=as_float(steps),
        local_steps=np.array(len(steps), np.int32), cohorts=ALONE,
    )  # fmt: skip
    return WholeUpdate.of(request, algorithm, moved * request.clip_norm)


FEDAVG = Wire(
    name="dp-fedavg", table=FedAvgWork, steps=lambda work: len(work.step_sizes), obstacle=no_obstacle,
    work=_work, job=_job, first=None,
    probe=Probe(
        work=lambda noise: FedAvgWork(clipping="D", step_sizes=np.array([100.0])),
        whole=True, sign=-1.0, beside=nothing_beside,
    ),
)  # fmt: skip
WIRES = {"dp-fedavg": FEDAVG}
