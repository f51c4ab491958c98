"""DP-ScaffNew at owners: local steps with a control variate that stays there, and one noised update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

import equinox as eqx
import numpy as np
from jax.random import fold_in
from pydantic import Field

from noiseworthy._jax import Array, jax, jnp, lax
from noiseworthy._tables import Count
from noiseworthy.methods.local import Numbers, clip_whole, mean_gradient
from noiseworthy.methods.rows import WholeUpdate
from noiseworthy.methods.wire import Asked, Job, Size, Wire, Work
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.privacy.sensitivity import Norm

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


class Control(NamedTuple):
    """What a client keeps between rounds: its control variate h_i and where its local steps ended, (p,)."""

    variate: Array
    reached: Array

    @classmethod
    def at(cls, theta: Array) -> Control:
        """h_i = 0, at the common start."""
        return cls(jnp.zeros_like(theta), theta)


class LocalSteps(eqx.Module):
    """Local steps of one round at one client.

    Attributes:
        task: model and loss (static).
        norm: of the clip (static).
        batch_size: records per step, None for all (static).
        clip_norm: C.
        step: eta.
        probability: p.
    """

    task: Task = eqx.field(static=True)
    norm: Norm = eqx.field(static=True)
    batch_size: int | None = eqx.field(static=True)
    clip_norm: Numbers
    step: Numbers
    probability: Numbers

    def moved(
        self, theta: Array, memory: Control, shard: Any, key: Array, count: Numbers
    ) -> tuple[Array, Control]:
        """The clipped update after a round's local steps, and the client's new memory.

        Args:
            theta: the common model that was sent, shape (p,).
            memory: of the round before.
            shard: the client's records, or what full batches need to know of them.
            key: of the round's minibatches.
            count: local steps.
        """
        lead = self.step / self.probability
        variate = memory.variate + (theta - memory.reached) / lead

        def step(j: Array, x: Array) -> Array:
            mean = mean_gradient(self.task, x, shard, self.batch_size, fold_in(key, j))
            return x - self.step * (mean + self.task.ridge * x - variate)

        reached = lax.fori_loop(0, count, step, theta)
        # the end of the steps and h_i carry all earlier gradients, none of them clipped: this clip alone
        # bounds what a client can change
        update = clip_whole(reached - lead * variate - theta, self.clip_norm, self.norm)
        return update, Control(variate, reached)


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
