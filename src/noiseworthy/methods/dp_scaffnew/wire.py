"""DP-ScaffNew at owners: local steps with a control variate that stays there, and one noised update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import numpy as np
from pydantic import Field

from noiseworthy._jax import Array, jax
from noiseworthy._tables import Count
from noiseworthy.methods.dp_scaffnew.local import Control, LocalSteps
from noiseworthy.methods.local import Numbers
from noiseworthy.methods.rows import WholeUpdate
from noiseworthy.methods.wire import Asked, Job, Size, Wire, Work
from noiseworthy.privacy.mechanisms import law_of

if TYPE_CHECKING:
    from noiseworthy.plans.local_work import Coins
    from noiseworthy.plans.plan import Plan
    from noiseworthy.tasks.base import Task


class ScaffNewWork(Work):
    """Local steps with a control variate that the owner keeps, the update clipped."""

    name: Literal["dp-scaffnew"] = "dp-scaffnew"
    step_size: Size
    probability: Annotated[float, Field(gt=0, le=1)]
    local_steps: Count

    @property
    def steps(self) -> int:
        """All of them."""
        return self.local_steps


class OwnSteps(LocalSteps):
    """The local steps that a request asks of one owner, on all its records."""

    count: Numbers

    def start(self, theta: Array) -> Control:
        """h_i = 0, at the common start."""
        return Control.at(theta)

    def update(self, theta: Array, memory: Control, shard: Any) -> tuple[Array, Control]:
        """The clipped update, and what is remembered; full batches draw nothing from the key."""
        return self.moved(theta, memory, shard, jax.random.key(0), self.count)


def _work(plan: Plan, client: int, t: int) -> ScaffNewWork:
    coins, step = cast("Coins", plan.local), float(plan.local_step_sizes[0])
    count = int(coins.counts(plan.rounds)[t])
    return ScaffNewWork(step_size=step, probability=coins.probability, local_steps=count)


def _job(request: Asked, work: ScaffNewWork, task: Task, records: int) -> Job:
    clip, step, chance = (
        np.asarray(given, np.float32) for given in (request.clip_norm, work.step_size, work.probability)
    )
    norm, count = law_of(request.mechanism).norm, np.array(work.local_steps, np.int32)
    return WholeUpdate.of(request, OwnSteps(task, norm, None, clip, step, chance, count), request.clip_norm)


WIRE = Wire(table=ScaffNewWork, work=_work, job=_job)
