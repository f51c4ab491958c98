"""What a request makes an owner compute: the product's own local update, as rows to be clipped on a grid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from noiseworthy.algorithms.base import Algorithm, Memory, ServerState
from noiseworthy.algorithms.dp_fedavg import DPFedAvg
from noiseworthy.algorithms.dp_scaffnew import DPScaffNew
from noiseworthy.algorithms.fedsgd_dpc import FedSGDDPC
from noiseworthy.algorithms.making import as_float
from noiseworthy.errors import UnsoundClaim
from noiseworthy.gateway.messages import FedAvgWork, FedSGDWork, Request, ScaffNewWork
from noiseworthy.privacy.accountants import Release
from noiseworthy.privacy.mechanisms import Gaussian, Laplace
from noiseworthy.privacy.sensitivity import of_clipped_whole, of_mean_gradient
from noiseworthy.tasks import Batch, LinearModel, Task

_AT_ONCE = 2**22
"""Numbers of gradients of single records that are in memory at a time."""


@dataclass(frozen=True)
class Job:
    """One release as the owner understands it.

    Attributes:
        algorithm: whose `local_update` is computed; knows one client and one round.
        release: what is accounted for.
        clip_norm: of a row: of a record's gradient, or of the whole update.
        theta: the model that was sent.
    """

    algorithm: Algorithm
    release: Release
    clip_norm: float
    theta: NDArray[np.float32]

    @property
    def by_record(self) -> bool:
        """Whether each record's gradient is a row, or the whole update is the one row."""
        return self.release.sensitivity.unit == "record"

    @property
    def fresh_memory(self) -> Memory:
        """What the owner remembers before the first release of a run; () if nothing, ever."""
        return self.algorithm.init_client(jnp.asarray(self.theta))

    def rows(self, batch: Batch, memory: Memory) -> tuple[Iterator[NDArray[np.float32]], Memory]:
        """Rows to be clipped and summed, in parts of shape (m, p), and what the owner remembers."""
        if self.by_record:
            return self._rows_of_records(batch), memory
        shard: Any = batch
        if self.algorithm.condensed and isinstance(self.algorithm.task, LinearModel):
            shard = self.algorithm.task.condense(batch)
        update, memory = _updated(self.algorithm, jnp.asarray(self.theta), memory, shard)
        return iter([np.asarray(update)[None]]), memory

    def _rows_of_records(self, batch: Batch) -> Iterator[NDArray[np.float32]]:
        """The local update of every record as if it were alone."""
        count, theta = len(batch.x), jnp.asarray(self.theta)
        part = max(1, min(count, _AT_ONCE // len(self.theta)))
        for start in range(0, count, part):
            taken = jax.tree.map(lambda a, start=start: a[start : start + part], batch)
            yield np.asarray(_updated_alone(self.algorithm, theta, taken))


def job_of(request: Request, task: Task, records: int) -> Job:
    """The job that a request describes.

    Args:
        request: with finite parameters.
        task: of the request, for the owner's records.
        records: n of the owner.

    Raises:
        InvalidInput: numbers out of range.
        UnsoundClaim: local steps whose clip does not bound the update.

    Guarantee: the sensitivity in `release` is the owner's own, from its n and the clip that is applied.
    """
    work = request.algorithm
    if isinstance(work, FedSGDWork):
        return _gradient(request, task, records)
    return (
        _local_steps(request, work, task) if isinstance(work, FedAvgWork) else _corrected(request, work, task)
    )


def _gradient(request: Request, task: Task, records: int) -> Job:
    noise, ones = _noise(request), np.ones(1, np.float32)
    algorithm = FedSGDDPC(
        task=task, family=noise.family, norm=noise.norm, sampled=False, clip_norm=as_float(request.clip_norm),
        noise=as_float(noise.size), weights=ones, divisors=ones, sampling_rate=ones[0], steps=ones,
        momentum=np.zeros((), np.float32), cohorts=_ALONE,
    )  # fmt: skip
    release = Release(noise, of_mean_gradient(request.clip_norm, [records], noise.norm))
    return Job(algorithm, release, request.clip_norm, request.theta)


def _local_steps(request: Request, work: FedAvgWork, task: Task) -> Job:
    if work.clipping == "C" and task.ridge:
        raise UnsoundClaim(
            f"a ridge of {task.ridge:g} moves the model beside the clipped steps of mode C; use mode D"
        )
    noise, steps = _noise(request), work.step_sizes
    moved = float(steps.sum()) if work.clipping == "C" else 1.0
    algorithm = DPFedAvg(
        task=task, family=noise.family, norm=noise.norm, clipping=work.clipping, batch_size=None,
        clip_norm=as_float(request.clip_norm), noise=as_float(noise.size), scale=as_float([moved]),
        weights=np.ones(1, np.float32), sizes=np.ones(1, np.int32), steps=as_float(steps),
        local_steps=np.array(len(steps), np.int32), cohorts=_ALONE,
    )  # fmt: skip
    return _whole(request, algorithm, moved * request.clip_norm)


def _corrected(request: Request, work: ScaffNewWork, task: Task) -> Job:
    noise = _noise(request)
    algorithm = DPScaffNew(
        task=task, family=noise.family, norm=noise.norm, batch_size=None,
        clip_norm=as_float(request.clip_norm), noise=as_float(noise.size),
        step=as_float(work.step_size), probability=as_float(work.probability),
        counts=np.array([work.local_steps], np.int32), cohorts=_ALONE,
    )  # fmt: skip
    return _whole(request, algorithm, request.clip_norm)


def _whole(request: Request, algorithm: Algorithm, clip_norm: float) -> Job:
    noise = _noise(request)
    return Job(
        algorithm, Release(noise, of_clipped_whole(clip_norm, 1, noise.norm)), clip_norm, request.theta
    )


def _noise(request: Request) -> Gaussian | Laplace:
    size = np.array([request.noise])
    return Gaussian(size) if request.mechanism == "gaussian" else Laplace(size)


_ALONE = np.zeros((1, 1), np.int32)
"""One round that asks one client."""


@eqx.filter_jit
def _updated(algorithm: Algorithm, theta: Array, memory: Memory, shard: Any) -> tuple[Array, Memory]:
    """The local update of the one client; full batches draw nothing from the key."""
    state = ServerState(theta, jnp.int32(0))
    return algorithm.local_update(state, jnp.int32(0), memory, shard, jax.random.key(0))


@eqx.filter_jit
def _updated_alone(algorithm: Algorithm, theta: Array, batch: Batch) -> Array:
    """The local update of each record as the only one, shape (m, p)."""

    def alone(x: Array, y: Array, mask: Array) -> Array:
        return _updated(algorithm, theta, (), Batch(x[None], y[None], mask[None]))[0]

    return jax.vmap(alone)(*batch)
