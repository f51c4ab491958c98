"""The mean of clipped gradients at owners, which FedSGD-DPC and every method of plain gradients asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from noiseworthy.methods.local import Memory
from noiseworthy.methods.rows import gradient_rows, gradient_sum
from noiseworthy.methods.wire import Asked, Job, Wire, Work, no_obstacle, one_step
from noiseworthy.privacy.sums import NoisedSum
from noiseworthy.privacy.uploads import Derived, Upload
from noiseworthy.tasks.batch import Batch

if TYPE_CHECKING:
    from noiseworthy.plans.plan import Plan
    from noiseworthy.tasks.base import Task


class FedSGDWork(Work):
    """The mean of clipped gradients of records, at the model that was sent."""

    name: Literal["fedsgd-dpc"] = "fedsgd-dpc"


@dataclass(frozen=True)
class MeanGradient(Job):
    """The mean clipped gradient at the model that was sent.

    Attributes:
        gradient: its noised sum.
    """

    gradient: NoisedSum

    def made(self, upload: Upload | Derived) -> bool:
        """Whether it may be the noised gradient."""
        return self.gradient.drew(upload)

    def upload(self, batch: Batch, memory: Memory) -> tuple[Upload, Memory]:
        """The noised sum of the records' gradients."""
        return self.gradient.of(gradient_rows(self.task, self.theta, batch, self.gradient)), memory


def _work(plan: Plan, client: int, t: int) -> FedSGDWork:
    return FedSGDWork()


def _job(request: Asked, work: FedSGDWork, task: Task, records: int) -> Job:
    return MeanGradient(task, request.theta, gradient_sum(request, records, task.dimension))


GRADIENT = Wire(
    name="fedsgd-dpc", table=FedSGDWork, steps=one_step, obstacle=no_obstacle,
    work=_work, job=_job, first=None,
)  # fmt: skip
WIRES = {"fedsgd-dpc": GRADIENT}
