"""The local steps of DP-ScaffNew and what a client keeps between them: as in simulation, so at an owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
from jax.random import fold_in

from noiseworthy._jax import Array, jnp, lax
from noiseworthy.methods.local import Numbers, clip_whole, mean_gradient
from noiseworthy.privacy.sensitivity import Norm

if TYPE_CHECKING:
    from noiseworthy.tasks.base import Task


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
