"""DP-FedAvg at owners: local steps on all records, as in simulation, and one noised update."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import numpy as np
from jax.random import fold_in
from pydantic import ConfigDict

from noiseworthy._jax import Array, jax, jnp, lax
from noiseworthy.errors import UnsoundClaim
from noiseworthy.methods.local import Memory, Numbers, clip_whole, mean_gradient
from noiseworthy.methods.rows import WholeUpdate
from noiseworthy.methods.wire import Asked, Job, StepSizes, Wire, Work
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.privacy.sensitivity import Norm

if TYPE_CHECKING:
    from noiseworthy.plans.plan import Plan
    from noiseworthy.privacy.clipping import ClippingMode
    from noiseworthy.tasks.base import Task


class FedAvgWork(Work):
    """Local steps on all records: the clip holds for each gradient (C) or for the update (D)."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: Literal["dp-fedavg"] = "dp-fedavg"
    clipping: Literal["C", "D"]
    step_sizes: StepSizes

    @property
    def steps(self) -> int:
        """All of them."""
        return len(self.step_sizes)


class LocalSteps(eqx.Module):
    """Local steps of one round at one client.

    Attributes:
        task: model and loss (static).
        norm: of the clip (static).
        clipping: what is clipped, A to E (static).
        batch_size: records per step, None for all (static).
        clip_norm: zeta, or C for mode D.
    """

    task: Task = eqx.field(static=True)
    norm: Norm = eqx.field(static=True)
    clipping: ClippingMode = eqx.field(static=True)
    batch_size: int | None = eqx.field(static=True)
    clip_norm: Numbers

    def moved(
        self, theta: Array, shard: Any, size: Array, key: Array, count: Numbers, eta: Callable[[Array], Array]
    ) -> Array:
        """Delta_l of E local steps, summed on its own so that its rounding is relative to itself.

        Args:
            theta: the model that was sent, shape (p,).
            shard: the client's records, or what full batches need to know of them.
            size: records n_l.
            key: of the round's minibatches.
            count: E.
            eta: the step size of step j.

        Returns:
            Shape (p,), clipped in mode D.
        """

        def step(j: Array, moved: Array) -> Array:
            return moved - eta(j) * self._direction(theta + moved, shard, size, fold_in(key, j))

        moved = lax.fori_loop(0, count, step, jnp.zeros_like(theta))
        return clip_whole(moved, self.clip_norm, self.norm) if self.clipping == "D" else moved

    def _direction(self, theta: Array, shard: Any, size: Array, key: Array) -> Array:
        """The local gradient, clipped where the mode says, with the ridge of the local model."""
        ridge = self.task.ridge * theta
        if self.clipping in ("C", "D"):
            mean = mean_gradient(self.task, theta, shard, self.batch_size, key)
            return ridge + (mean if self.clipping == "D" else clip_whole(mean, self.clip_norm, self.norm))
        total = self.task.clipped_gradient_sum(theta, shard, jnp.asarray(self.clip_norm), self.norm)
        return ridge + total / size.astype(total.dtype)


class OwnSteps(LocalSteps):
    """The local steps that a request asks of one owner, on all its records."""

    steps: Numbers
    count: Numbers

    def start(self, theta: Array) -> Memory:
        """Nothing is remembered."""
        return ()

    def update(self, theta: Array, memory: Memory, shard: Any) -> tuple[Array, Memory]:
        """Delta_l of the steps; full batches draw nothing from the key."""
        one, key = jnp.ones((), jnp.int32), jax.random.key(0)
        return self.moved(theta, shard, one, key, self.count, lambda j: self.steps[j]), memory


def _work(plan: Plan, client: int, t: int) -> FedAvgWork:
    mode = plan.problem.clipping
    if mode not in ("C", "D"):
        raise UnsoundClaim(f"no gateway computes {plan.algorithm} in clipping mode {mode}; use mode C or D")
    return FedAvgWork(clipping=mode, step_sizes=plan.local_step_sizes.reshape(plan.rounds, -1)[t])


def _job(request: Asked, work: FedAvgWork, task: Task, records: int) -> Job:
    if work.clipping == "C" and task.ridge:
        raise UnsoundClaim(f"a ridge of {task.ridge:g} moves the model beside mode C's steps; use mode D")
    norm, steps = law_of(request.mechanism).norm, work.step_sizes
    moved = float(steps.sum()) if work.clipping == "C" else 1.0
    clip, eta = (np.asarray(given, np.float32) for given in (request.clip_norm, steps))
    own = OwnSteps(task, norm, work.clipping, None, clip, eta, np.array(len(steps), np.int32))
    # float32 steps can add up to more than the sum of their clips: the update is clipped to that sum once
    # more, in float64, so that the claim does not rest on how they round
    return WholeUpdate.of(request, own, moved * request.clip_norm)


WIRE = Wire(table=FedAvgWork, work=_work, job=_job)
