"""DPFL-BCS at owners: plain gradients, and in stage 1 two noised losses beside each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import equinox as eqx
import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import Array, jnp
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dpfl_bcs.losses import LOSSES_PER_REPLY
from noiseworthy.methods.fedsgd_dpc.wire import WIRE as GRADIENT
from noiseworthy.methods.local import Memory
from noiseworthy.methods.rows import gradient_rows, gradient_sum, is_derived, noise_of, of_each
from noiseworthy.methods.wire import Asked, Job, Size, Vector, Wire, Work
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import of_mean_loss
from noiseworthy.privacy.sums import NoisedSum
from noiseworthy.privacy.uploads import Derived, Upload
from noiseworthy.tasks.batch import Batch

if TYPE_CHECKING:
    from noiseworthy.methods.dpfl_bcs.two_stages import FirstStage
    from noiseworthy.tasks.base import Task


class LossReportWork(Work):
    """Stage 1 of DPFL-BCS: a gradient, and two noised losses within [0, `loss_cap`].

    `loss_noise` is the size of the noise of one loss, and `step_size` leads to where the second is taken.
    """

    name: Literal["dpfl-bcs"] = "dpfl-bcs"
    loss_cap: Size
    loss_noise: Size
    step_size: Size


@dataclass(frozen=True)
class LossReport(Job):
    """Stage 1 of DPFL-BCS: a mean gradient, and mean losses in [0, Theta] before and after a step along it.

    Losses are summed around Theta / 2, so that a clip of Theta / 2 is [0, Theta]. The step is taken along
    what is released, so that each of the three is a release of its own.

    Attributes:
        gradient: its noised sum.
        loss: the noised sum of one loss.
        cap: Theta.
        step: eta_t.
    """

    gradient: NoisedSum
    loss: NoisedSum
    cap: float
    step: float

    def made(self, upload: Upload | Derived) -> bool:
        """Whether it may be a noised gradient and two noised losses."""
        own = len(self.theta)
        return (
            is_derived(upload, own + LOSSES_PER_REPLY)
            and self.gradient.reaches(upload.values[:own])
            and self.loss.reaches(upload.values[own:] - self.cap / 2)
        )

    def upload(self, batch: Batch, memory: Memory) -> tuple[Derived, Memory]:
        """The mean gradient (p,), and two mean losses."""
        noised = self.gradient.of(gradient_rows(self.task, self.theta, batch, self.gradient))
        after = self.theta - self.step * (noised.values + self.task.ridge * self.theta)
        losses = [self._loss(theta, batch) for theta in (self.theta, after.astype(np.float32))]
        return Derived(np.concatenate([noised.values, *losses]), noised.assurance), memory

    def _loss(self, theta: Vector, batch: Batch) -> NDArray[np.float64]:
        losses = np.asarray(_losses(self.task, jnp.asarray(theta), batch), np.float64)
        within = np.clip(np.where(np.isnan(losses), self.cap, losses), 0.0, self.cap)
        return self.loss.of([within[:, None] - self.cap / 2]).values + self.cap / 2


@eqx.filter_jit
def _losses(task: Task, theta: Array, batch: Batch) -> Array:
    """The loss of each record as the only one, shape (n,)."""

    def alone(x: Array, y: Array, mask: Array) -> Array:
        return task.losses(theta, Batch(x[None], y[None], mask[None]))[0]

    return of_each(task, alone, batch)


def _work(first: FirstStage, client: int, t: int) -> LossReportWork:
    if first.plan.step is None:
        raise InvalidInput("stage 1 has no step size; state [algorithm] step_size")
    cap, noise = float(first.loss_cap), float(first.losses.mechanism.size[client])
    return LossReportWork(loss_cap=cap, loss_noise=noise, step_size=float(first.plan.step.at(np.array(t))))


def _job(request: Asked, work: LossReportWork, task: Task, records: int) -> Job:
    noise = noise_of(request, work.loss_noise)
    release = Release(noise, of_mean_loss(work.loss_cap, [records], noise.norm))
    loss = NoisedSum.planned(release, work.loss_cap / 2, records, 1, LOSSES_PER_REPLY)
    gradient = gradient_sum(request, records, task.dimension)
    return LossReport(task, request.theta, gradient, loss, work.loss_cap, work.step_size)


WIRE = Wire(table=LossReportWork, work=_work, job=_job)
IN_STAGES = replace(GRADIENT, first=WIRE)
"""Stage 2 and plans of one stage ask for plain gradients."""
