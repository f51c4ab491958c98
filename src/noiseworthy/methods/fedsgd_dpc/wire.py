"""The mean of clipped gradients at owners, which FedSGD-DPC and every method of plain gradients asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from noiseworthy.methods.rows import RowSum, gradient_rows, gradient_sum
from noiseworthy.methods.wire import Asked, Job, Wire, Work

if TYPE_CHECKING:
    from noiseworthy.tasks.base import Task


class FedSGDWork(Work):
    """The mean of clipped gradients of records, at the model that was sent."""

    name: Literal["fedsgd-dpc"] = "fedsgd-dpc"


def _job(request: Asked, work: FedSGDWork, task: Task, records: int) -> Job:
    total, theta = gradient_sum(request, records, task.dimension), request.theta
    return RowSum(task, theta, total, lambda few: np.concatenate([*gradient_rows(task, theta, few, total)]))


WIRE = Wire(table=FedSGDWork, work=lambda plan, client, t: FedSGDWork(), job=_job)
