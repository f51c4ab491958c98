"""DP-FedAvg at owners: local steps on all records, and one noised update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import ConfigDict

from noiseworthy._jax import Array, jax, jnp
from noiseworthy.errors import UnsoundClaim
from noiseworthy.methods.dp_fedavg.local import LocalSteps
from noiseworthy.methods.local import Memory, Numbers
from noiseworthy.methods.rows import WholeUpdate
from noiseworthy.methods.wire import Asked, Job, StepSizes, Wire, Work
from noiseworthy.privacy.mechanisms import law_of

if TYPE_CHECKING:
    from noiseworthy.plans.plan import Plan
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
