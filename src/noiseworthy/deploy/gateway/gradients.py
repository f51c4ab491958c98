"""Jobs whose rows are single records: gradients, steps along them, losses; each record's is clipped alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from noiseworthy.deploy.gateway.job import Job, Vector
from noiseworthy.deploy.gateway.messages import Derived
from noiseworthy.deploy.gateway.sums import NoisedSum
from noiseworthy.methods.algorithm import Memory
from noiseworthy.methods.dpfl_bcs.two_stages import LOSSES_PER_REPLY
from noiseworthy.privacy.uploads import Upload
from noiseworthy.tasks import Batch, Task
from noiseworthy.tasks.personal import Personal

_AT_ONCE = 2**22
"""Numbers of gradients of single records that are in memory at a time."""

Rows: TypeAlias = Iterator[NDArray[np.float32]]


def gradient_rows(task: Task | Personal, theta: Vector, batch: Batch, total: NoisedSum) -> Rows:
    """The clipped gradient of every record as if it were alone, in parts of shape (m, p)."""
    count, part = len(batch.x), max(1, _AT_ONCE // len(theta))
    clip, norm = jnp.float32(total.mechanism.clip_norm), total.mechanism.norm
    for start in range(0, count, min(count, part)):
        taken = jax.tree.map(lambda a, start=start: a[start : start + part], batch)
        yield np.asarray(_gradients(task, jnp.asarray(theta), taken, clip, norm))


@dataclass(frozen=True)
class MeanGradient(Job):
    """FedSGD-DPC: the mean clipped gradient at the model that was sent.

    Attributes:
        gradient: its noised sum.
    """

    gradient: NoisedSum

    @property
    def sums(self) -> tuple[NoisedSum, ...]:
        """The gradient."""
        return (self.gradient,)

    def made(self, upload: Upload | Derived) -> bool:
        """Whether it may be the noised gradient."""
        return self.gradient.drew(upload)

    def upload(self, batch: Batch, memory: Memory) -> tuple[Upload, Memory]:
        """The noised sum of the records' gradients."""
        return self.gradient.of(gradient_rows(self.task, self.theta, batch, self.gradient)), memory


@dataclass(frozen=True)
class NoisedSteps(Job):
    """DP-PASGD: tau local steps, each along a mean gradient with noise of its own.

        theta_m <- theta_m - eta (g_hat(theta_m) + ridge theta_m)

    Where the model goes is computed from noised gradients alone, so that it may be told as it is.

    Attributes:
        gradient: the noised sum of one step.
        steps: eta, shape (tau,).
    """

    gradient: NoisedSum
    steps: NDArray[np.float64]

    @property
    def sums(self) -> tuple[NoisedSum, ...]:
        """The gradient of a step, tau times."""
        return (self.gradient,)

    def made(self, upload: Upload | Derived) -> bool:
        """Whether the model can have moved so far: by all steps in one direction, the ridge's part too."""
        farthest, most = 0.0, float(np.max(np.abs(self.theta), initial=0.0))
        for step in self.steps:
            farthest += float(step) * (self.gradient.reach + self.task.ridge * (most + farthest))
        return _derived(upload, len(self.theta)) and bool(np.all(np.abs(upload.values) <= farthest))

    def upload(self, batch: Batch, memory: Memory) -> tuple[Derived, Memory]:
        """theta_m - theta."""
        moved = np.zeros(len(self.theta))
        for step in self.steps:
            theta = (self.theta + moved).astype(np.float32)
            noised = self.gradient.of(gradient_rows(self.task, theta, batch, self.gradient)).values
            moved = moved - step * (noised + self.task.ridge * theta)
        return Derived(moved, self.gradient.mechanism.noise.assurance), memory


@dataclass(frozen=True)
class PersonalGradient(Job):
    """PrivateFL: one clipped gradient of transform and model, of which the transform's part stays.

        phi <- phi - eta_phi g_hat_phi

    Both parts carry noise: a transform that was moved without it would have read all records, and one of
    them would move the gradients of all others.

    Attributes:
        both: the noised sum of q + p coordinates.
        personal: the model behind a transform of its records.
        step: eta_phi.
    """

    both: NoisedSum
    personal: Personal
    step: float

    @property
    def sums(self) -> tuple[NoisedSum, ...]:
        """The gradient in transform and model."""
        return (self.both,)

    def made(self, upload: Upload | Derived) -> bool:
        """Whether it may be the shared part of the noised gradient."""
        return self.both.drew(upload, len(self.theta))

    @property
    def fresh_memory(self) -> Memory:
        """The transform that changes nothing, shape (q,)."""
        return self.personal.identity()

    def upload(self, batch: Batch, memory: Memory) -> tuple[Upload, Memory]:
        """The shared part, and the transform after its own noised part."""
        phi = np.concatenate([np.asarray(memory), self.theta])
        noised, own = self.both.of(gradient_rows(self.personal, phi, batch, self.both)), len(memory)
        moved = np.asarray(memory) - self.step * noised.values[:own]
        return replace(noised, steps=noised.steps[own:]), jnp.asarray(moved, jnp.float32)


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

    @property
    def sums(self) -> tuple[NoisedSum, ...]:
        """The gradient, and the loss twice."""
        return self.gradient, self.loss

    def made(self, upload: Upload | Derived) -> bool:
        """Whether it may be a noised gradient and two noised losses."""
        own = len(self.theta)
        return (
            _derived(upload, own + LOSSES_PER_REPLY)
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


def _derived(upload: Upload | Derived, length: int) -> bool:
    return isinstance(upload, Derived) and len(upload.values) == length


@eqx.filter_jit
def _gradients(task: Task | Personal, theta: Array, batch: Batch, clip_norm: Array, norm) -> Array:
    """The clipped gradient of each record as the only one, shape (m, p)."""

    def alone(x: Array, y: Array, mask: Array) -> Array:
        return task.clipped_gradient_sum(theta, Batch(x[None], y[None], mask[None]), clip_norm, norm)

    return jax.vmap(alone)(*batch)


@eqx.filter_jit
def _losses(task: Task, theta: Array, batch: Batch) -> Array:
    """The loss of each record as the only one, shape (n,)."""

    def alone(x: Array, y: Array, mask: Array) -> Array:
        return task.losses(theta, Batch(x[None], y[None], mask[None]))[0]

    return jax.vmap(alone)(*batch)
