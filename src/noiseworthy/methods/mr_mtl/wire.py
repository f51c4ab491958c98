"""MR-MTL at owners: a gradient at the owner's own model, which stays there and moves by its noised part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, cast

import numpy as np
from pydantic import Field

from noiseworthy._jax import Array, jnp
from noiseworthy.methods.mr_mtl.local import moved, share
from noiseworthy.methods.rows import OneSum, gradient_rows, gradient_sum
from noiseworthy.methods.wire import Asked, Job, Size, Wire, Work
from noiseworthy.privacy.uploads import Upload
from noiseworthy.tasks.batch import Batch

if TYPE_CHECKING:
    from noiseworthy.plans.plan import Plan, StepSize
    from noiseworthy.tasks.base import Task


class MrMtlWork(Work):
    """A gradient at the owner's own model, which then moves by it and towards the model that was sent."""

    name: Literal["mr-mtl"] = "mr-mtl"
    step_size: Size
    share: Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class OwnGradient(OneSum):
    """MR-MTL: the mean clipped gradient at the owner's own model.

        theta_m <- theta_m - eta (g_hat_m + ridge theta_m) - kappa (theta_m - theta)

    Attributes:
        step: eta.
        share: kappa.
    """

    remembers_noised: ClassVar[bool] = True
    step: float
    share: float

    @property
    def fresh_memory(self) -> Array:
        """The model that was sent, shape (p,)."""
        return jnp.asarray(self.theta)

    def upload(self, batch: Batch, memory: Array) -> tuple[Upload, Array]:
        """The noised gradient, and the owner's model after it."""
        noised = self.total.of(gradient_rows(self.task, np.asarray(memory), batch, self.total))
        values = jnp.asarray(noised.values, jnp.float32)
        return noised, moved(memory, values, self.theta, self.step, self.task.ridge, self.share)


def _work(plan: Plan, client: int, t: int) -> MrMtlWork:
    step = float(cast("StepSize", plan.step).at(np.array(t)))
    return MrMtlWork(step_size=step, share=float(share(step, plan.pull)))


def _job(request: Asked, work: MrMtlWork, task: Task, records: int) -> Job:
    gradient = gradient_sum(request, records, task.dimension)
    return OwnGradient(task, request.theta, gradient, work.step_size, work.share)


WIRE = Wire(table=MrMtlWork, work=_work, job=_job)
