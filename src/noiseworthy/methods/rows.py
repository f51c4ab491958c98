"""Noised sums that methods share at owners: of single records' clipped gradients, and of one whole update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import equinox as eqx
import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import Array, jax, jnp
from noiseworthy.methods.local import Memory
from noiseworthy.methods.wire import Asked, Job, Vector
from noiseworthy.privacy.mechanisms import Mechanism, law_of
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import of_clipped_whole, of_mean_gradient
from noiseworthy.privacy.sums import NoisedSum
from noiseworthy.privacy.uploads import Derived, Upload
from noiseworthy.tasks.batch import Batch, of_each
from noiseworthy.tasks.linear import LinearModel

if TYPE_CHECKING:
    from noiseworthy.tasks.base import Task
    from noiseworthy.tasks.personal import Personal

AT_ONCE = 2**22
"""Numbers of gradients of single records that are in memory at a time."""

Rows: TypeAlias = Iterator[NDArray[np.float32]]


def noise_of(request: Asked, size: float) -> Mechanism:
    """Noise of the kind that a request asks for, for one client."""
    return law_of(request.mechanism).noise(np.array([size]))


def gradient_sum(request: Asked, records: int, dimension: int, times: int = 1) -> NoisedSum:
    """The noised sum of the records' clipped gradients.

    Args:
        request: with its clip and noise.
        records: n of the owner.
        dimension: coordinates of a gradient.
        times: how often a job draws one.
    """
    noise = noise_of(request, request.noise)
    release = Release(noise, of_mean_gradient(request.clip_norm, [records], noise.norm))
    return NoisedSum.planned(release, request.clip_norm, records, dimension, times)


def parts_of(batch: Batch, numbers: int) -> Iterator[Batch]:
    """Records in their order, so many at a time that rows of so many numbers fit in memory."""
    part, n = max(1, AT_ONCE // numbers), len(batch.x)
    for start in range(0, n, part):
        yield batch if part >= n else jax.tree.map(lambda a, s=start: a[s : s + part], batch)


@dataclass(frozen=True)
class OneSum(Job):
    """A job of one noised sum, which leaves as it was drawn.

    Attributes:
        total: the noised sum.
    """

    total: NoisedSum

    def made(self, upload: Upload | Derived) -> bool:
        """Whether it may be the noised sum."""
        return self.total.drew(upload)


@dataclass(frozen=True)
class RowSum(OneSum):
    """Of rows that are made of single records.

    Attributes:
        rows: of some records, shape (m, u).
    """

    rows: Callable[[Batch], NDArray[np.floating]]

    def upload(self, batch: Batch, memory: Memory) -> tuple[Upload, Memory]:
        """The noised sum."""
        return self.total.of(map(self.rows, parts_of(batch, self.total.dimension))), memory


def gradient_rows(task: Task | Personal, theta: Vector, batch: Batch, total: NoisedSum) -> Rows:
    """The clipped gradient of every record as if it were alone, in parts of shape (m, p)."""
    clip, norm = jnp.float32(total.mechanism.clip_norm), total.mechanism.norm
    # no claim rests on this clip, which rounds in float32: `NoisedSum` clips every row again, on its grid
    for few in parts_of(batch, len(theta)):
        yield np.asarray(_gradients(task, jax.device_put(theta), few, clip, norm))


@eqx.filter_jit
def _gradients(task: Task | Personal, theta: Array, batch: Batch, clip_norm: Array, norm) -> Array:
    """The clipped gradient of each record as the only one, shape (m, p)."""

    def alone(x: Array, y: Array, mask: Array) -> Array:
        return task.clipped_gradient_sum(theta, Batch(x[None], y[None], mask[None]), clip_norm, norm)

    # Clips bound what a record adds only if its gradient, rounding included, is its own: in one product over
    # all records it could depend on the others, and a neighbour would change every row.
    return of_each(task, alone, batch)


def is_derived(upload: Upload | Derived, length: int) -> bool:
    """Whether something was derived from noised sums and has so many numbers."""
    return isinstance(upload, Derived) and len(upload.values) == length


class OwnWork(Protocol):
    """Local work of one round on all records of one owner, a pytree of its numbers."""

    @property
    def task(self) -> Task:
        """The model and its loss."""
        ...

    def start(self, theta: Array) -> Memory:
        """What the owner remembers before the first round."""
        ...

    def update(self, theta: Array, memory: Memory, shard: Any) -> tuple[Array, Memory]:
        """The raw update, shape (p,), and what the owner remembers; the simulation's own."""
        ...


@dataclass(frozen=True)
class WholeUpdate(OneSum):
    """Local steps on all records, clipped as a whole or bounded by their clips.

    Attributes:
        work: whose update the one row is.
    """

    work: OwnWork

    @classmethod
    def of(cls, request: Asked, work: OwnWork, clip_norm: float) -> WholeUpdate:
        """The update of an owner's local work, clipped to `clip_norm`, with the noise of a request."""
        noise, task = noise_of(request, request.noise), work.task
        release = Release(noise, of_clipped_whole(clip_norm, 1, noise.norm))
        return cls(task, request.theta, NoisedSum.planned(release, clip_norm, 1, task.dimension), work)

    @property
    def fresh_memory(self) -> Memory:
        """A control variate of zero, or nothing."""
        return self.work.start(jax.device_put(self.theta))

    def upload(self, batch: Batch, memory: Memory) -> tuple[Upload, Memory]:
        """The update that the simulation computes, with noise."""
        shard: Any = self.task.condense(batch) if isinstance(self.task, LinearModel) else batch
        update, memory = _updated(self.work, jax.device_put(self.theta), memory, shard)
        return self.total.of([np.asarray(update)[None]]), memory


@eqx.filter_jit
def _updated(work: OwnWork, theta: Array, memory: Memory, shard: Any) -> tuple[Array, Memory]:
    return work.update(theta, memory, shard)
