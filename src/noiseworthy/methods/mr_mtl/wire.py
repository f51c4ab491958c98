"""MR-MTL at owners: a gradient at the owner's own model, which stays there and moves by its noised part.

How it moves is the same in simulation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, cast

import numpy as np
from pydantic import Field

from noiseworthy._jax import Array, jnp
from noiseworthy.methods.local import Numbers
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


def share(step: Numbers | float, pull: Numbers | float) -> Array:
    """kappa = min(1, eta lambda), the share of the way to the mean that a reply draws an owner's model."""
    # A larger share would swing around the mean, and one above 2 lead away from it for good.
    return jnp.minimum(1.0, jnp.asarray(step) * pull)


def moved(
    own: Array, noised: Numbers, mean: Numbers, step: Numbers | float, ridge: float, kappa: Numbers | float
) -> Array:
    """The owner's model after a reply: own - step (noised + ridge own) - kappa (own - mean), shape (p,).

    Args:
        own: theta_m, at which the gradient was taken.
        noised: g_hat, with the noise that it is uploaded with.
        mean: theta, as the server sent it.
        step: eta.
        ridge: of the task.
        kappa: from `share`.
    """
    return own - step * (noised + ridge * own) - kappa * (own - mean)


def _work(plan: Plan, client: int, t: int) -> MrMtlWork:
    step = float(cast("StepSize", plan.step).at(np.array(t)))
    return MrMtlWork(step_size=step, share=float(share(step, plan.pull)))


def _job(request: Asked, work: MrMtlWork, task: Task, records: int) -> Job:
    gradient = gradient_sum(request, records, task.dimension)
    return OwnGradient(task, request.theta, gradient, work.step_size, work.share)


WIRE = Wire(table=MrMtlWork, work=_work, job=_job)
