"""DP-PASGD at owners: local steps, each with noise of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from noiseworthy.methods.local import Memory
from noiseworthy.methods.rows import gradient_rows, gradient_sum, is_derived
from noiseworthy.methods.wire import Asked, Job, StepSizes, Wire, Work
from noiseworthy.privacy.sums import NoisedSum
from noiseworthy.privacy.uploads import Derived, Upload
from noiseworthy.tasks.batch import Batch

if TYPE_CHECKING:
    from noiseworthy.privacy.mechanisms import Law
    from noiseworthy.tasks.base import Task


class PasgdWork(Work):
    """Local steps on all records, each with noise of its own: of the release, for each of its gradients."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: Literal["dp-pasgd"] = "dp-pasgd"
    step_sizes: StepSizes

    @property
    def steps(self) -> int:
        """All of them."""
        return len(self.step_sizes)

    @classmethod
    def obstacle(cls, law: Law) -> str:
        """A pure loss, which no local step is planned for."""
        said = "dp-pasgd adds gaussian noise at every local step; ask an owner whose budget is"
        return said if law.pure else ""


@dataclass(frozen=True)
class NoisedSteps(Job):
    """DP-PASGD: tau local steps, each along a mean gradient with noise of its own.

        theta_m <- theta_m - eta (g_hat(theta_m) + ridge theta_m)

    Where the model goes is computed from noised gradients alone, so that it may be told as it is.

    Attributes:
        gradient: the noised sum of one step.
        steps: eta, shape (tau,).
    """

    gradient: NoisedSum
    steps: NDArray[np.float64]

    def made(self, upload: Upload | Derived) -> bool:
        """Whether the model can have moved so far: by all steps in one direction, the ridge's part too."""
        farthest, most = 0.0, float(np.max(np.abs(self.theta), initial=0.0))
        for step in self.steps:
            farthest += float(step) * (self.gradient.reach + self.task.ridge * (most + farthest))
        return is_derived(upload, len(self.theta)) and bool(np.all(np.abs(upload.values) <= farthest))

    def upload(self, batch: Batch, memory: Memory) -> tuple[Derived, Memory]:
        """theta_m - theta."""
        moved = np.zeros(len(self.theta))
        for step in self.steps:
            theta = (self.theta + moved).astype(np.float32)
            noised = self.gradient.of(gradient_rows(self.task, theta, batch, self.gradient)).values
            moved = moved - step * (noised + self.task.ridge * theta)
        return Derived(moved, self.gradient.mechanism.noise.assurance), memory


def _job(request: Asked, work: PasgdWork, task: Task, records: int) -> Job:
    gradient = gradient_sum(request, records, task.dimension, len(work.step_sizes))
    return NoisedSteps(task, request.theta, gradient, work.step_sizes)


WIRE = Wire(
    table=PasgdWork, job=_job,
    work=lambda plan, client, t: PasgdWork(step_sizes=plan.local_step_sizes.reshape(plan.rounds, -1)[t]),
)  # fmt: skip
