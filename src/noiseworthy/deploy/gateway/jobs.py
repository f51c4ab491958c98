"""What a request makes an owner compute, by the product's own updates and the owner's own sensitivity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noiseworthy.deploy.gateway.gradients import (
    LossReport,
    MeanGradient,
    NoisedSteps,
    PersonalGradient,
)
from noiseworthy.deploy.gateway.job import Job
from noiseworthy.deploy.gateway.messages import Derived, Request
from noiseworthy.deploy.gateway.sums import NoisedSum
from noiseworthy.deploy.gateway.work import (
    FedAvgWork,
    FedSGDWork,
    LossReportWork,
    PasgdWork,
    PrivateFLWork,
    ScaffNewWork,
)
from noiseworthy.errors import UnsoundClaim
from noiseworthy.methods.algorithm import Algorithm, Memory, ServerState
from noiseworthy.methods.dp_fedavg.algorithm import DPFedAvg
from noiseworthy.methods.dp_scaffnew.algorithm import DPScaffNew
from noiseworthy.methods.dpfl_bcs.two_stages import LOSSES_PER_REPLY
from noiseworthy.methods.making import as_float
from noiseworthy.privacy.accountants import Release
from noiseworthy.privacy.mechanisms import Mechanism, law_of
from noiseworthy.privacy.sensitivity import of_clipped_whole, of_mean_gradient, of_mean_loss
from noiseworthy.privacy.uploads import Upload
from noiseworthy.tasks import Batch, LinearModel, Task
from noiseworthy.tasks.personal import personalised


def job_of(request: Request, task: Task, records: int) -> Job:
    """The job that a request describes.

    Args:
        request: with finite parameters.
        task: of the request, for the owner's records.
        records: n of the owner.

    Raises:
        InvalidInput: numbers out of range, or a clip that does not fit the noise.
        UnsoundClaim: local steps whose clip does not bound the update, or noise of another kind than the
            algorithm is proved for.

    Guarantee: the sensitivities in `sums` are the owner's own, from its n and the clips that are applied.
    """
    work, theta = request.algorithm, request.theta
    match work:
        case FedAvgWork():
            return _local_steps(request, work, task)
        case ScaffNewWork():
            return _corrected(request, work, task)
        case FedSGDWork():
            return MeanGradient(task, theta, _gradient(request, records, task.dimension))
        case PasgdWork():
            return _noised_steps(request, work, task, records)
        case PrivateFLWork():
            personal = personalised(task)
            both = _gradient(request, records, personal.dimension)
            return PersonalGradient(task, theta, both, personal, work.personal_step)
        case LossReportWork():
            gradient, loss = _gradient(request, records, task.dimension), _loss(request, work, records)
            return LossReport(task, theta, gradient, loss, work.loss_cap, work.step_size)


def _gradient(request: Request, records: int, dimension: int, times: int = 1) -> NoisedSum:
    noise = _noise(request, request.noise)
    release = Release(noise, of_mean_gradient(request.clip_norm, [records], noise.norm))
    return NoisedSum.planned(release, request.clip_norm, records, dimension, times)


def _loss(request: Request, work: LossReportWork, records: int) -> NoisedSum:
    noise = _noise(request, work.loss_noise)
    release = Release(noise, of_mean_loss(work.loss_cap, [records], noise.norm))
    return NoisedSum.planned(release, work.loss_cap / 2, records, 1, LOSSES_PER_REPLY)


def _noised_steps(request: Request, work: PasgdWork, task: Task, records: int) -> Job:
    if law_of(request.mechanism).pure:
        raise UnsoundClaim("dp-pasgd adds gaussian noise at every local step; ask an owner whose budget is")
    gradient = _gradient(request, records, task.dimension, len(work.step_sizes))
    return NoisedSteps(task, request.theta, gradient, work.step_sizes)


@dataclass(frozen=True)
class WholeUpdate(Job):
    """DP-FedAvg and DP-ScaffNew: local steps on all records, clipped as a whole or bounded by their clips.

    Attributes:
        update: its noised sum, of one row.
        algorithm: whose `local_update` is computed; knows one client and one round.
    """

    update: NoisedSum
    algorithm: Algorithm

    @property
    def sums(self) -> tuple[NoisedSum, ...]:
        """The update."""
        return (self.update,)

    @property
    def fresh_memory(self) -> Memory:
        """A control variate of zero, or nothing."""
        return self.algorithm.init_client(jnp.asarray(self.theta))

    def made(self, upload: Upload | Derived) -> bool:
        """Whether it may be the noised update."""
        return self.update.drew(upload)

    def upload(self, batch: Batch, memory: Memory) -> tuple[Upload, Memory]:
        """The update that the simulation computes, with noise."""
        shard: Any = batch
        if self.algorithm.condensed and isinstance(self.task, LinearModel):
            shard = self.task.condense(batch)
        update, memory = _updated(self.algorithm, jnp.asarray(self.theta), memory, shard)
        return self.update.of([np.asarray(update)[None]]), memory


def _local_steps(request: Request, work: FedAvgWork, task: Task) -> Job:
    if work.clipping == "C" and task.ridge:
        raise UnsoundClaim(
            f"a ridge of {task.ridge:g} moves the model beside the clipped steps of mode C; use mode D"
        )
    noise, steps = _noise(request, request.noise), work.step_sizes
    moved = float(steps.sum()) if work.clipping == "C" else 1.0
    algorithm = DPFedAvg(
        task=task, family=noise.family, norm=noise.norm, clipping=work.clipping, batch_size=None,
        clip_norm=as_float(request.clip_norm), noise=as_float(noise.size), scale=as_float([moved]),
        weights=np.ones(1, np.float32), sizes=np.ones(1, np.int32), steps=as_float(steps),
        local_steps=np.array(len(steps), np.int32), cohorts=_ALONE,
    )  # fmt: skip
    return _whole(request, algorithm, moved * request.clip_norm)


def _corrected(request: Request, work: ScaffNewWork, task: Task) -> Job:
    noise = _noise(request, request.noise)
    algorithm = DPScaffNew(
        task=task, family=noise.family, norm=noise.norm, batch_size=None,
        clip_norm=as_float(request.clip_norm), noise=as_float(noise.size),
        step=as_float(work.step_size), probability=as_float(work.probability),
        counts=np.array([work.local_steps], np.int32), cohorts=_ALONE,
    )  # fmt: skip
    return _whole(request, algorithm, request.clip_norm)


def _whole(request: Request, algorithm: Algorithm, clip_norm: float) -> Job:
    noise, task = _noise(request, request.noise), algorithm.task
    release = Release(noise, of_clipped_whole(clip_norm, 1, noise.norm))
    update = NoisedSum.planned(release, clip_norm, 1, task.dimension)
    return WholeUpdate(task, request.theta, update, algorithm)


def _noise(request: Request, size: float) -> Mechanism:
    return law_of(request.mechanism).noise(np.array([size]))


_ALONE = np.zeros((1, 1), np.int32)
"""One round that asks one client."""


@eqx.filter_jit
def _updated(algorithm: Algorithm, theta: Array, memory: Memory, shard: Any) -> tuple[Array, Memory]:
    """The local update of the one client; full batches draw nothing from the key."""
    state = ServerState(theta, jnp.int32(0))
    return algorithm.local_update(state, jnp.int32(0), memory, shard, jax.random.key(0))
