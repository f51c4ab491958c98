"""Stage 1 of DPFL-BCS: rounds in which clients report their noised losses beside their gradients.

Ma et al., Algorithm 2; docs/theory/ma.md#stages. A client that is asked releases three things, each with its
own noise:

    g_hat     = (1/D_n) sum_records clip(grad at w) + Z
    F_hat(w)  = (1/D_n) sum_records min(loss at w, Theta) + z_1
    F_hat(w') = (1/D_n) sum_records min(loss at w', Theta) + z_2,      w' = w - eta_t (g_hat + ridge w)

The paper computes the second loss at the client's step without noise. That step depends on the data, and the
loss at it changes by more than Theta/D_n with a record (docs/theory/ma.md#loss-at-a-noised-model); here w' is
made of what is released, so that each release is a mechanism of its own and their costs add up.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from jax.random import fold_in

from noiseworthy._jax import Array, jnp
from noiseworthy._keys import Purpose, named_key
from noiseworthy.methods.algorithm import ServerState
from noiseworthy.methods.dpfl_bcs.losses import LOSSES_PER_REPLY
from noiseworthy.methods.dpfl_bcs.two_stages import FirstStage
from noiseworthy.methods.fedsgd_dpc.algorithm import FedSGDDPC, exact_replies
from noiseworthy.methods.local import Memory, Numbers
from noiseworthy.methods.making import as_float
from noiseworthy.privacy.noise import simulated_noise
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch


class Reported(NamedTuple):
    """What the server keeps: its momentum (p,), and two noised losses of everybody asked, (T0, K, 2)."""

    velocity: Array
    losses: Array


class LossReports(FedSGDDPC):
    """The mean of equally weighted replies, with losses reported on the side.

    Attributes:
        loss_cap: Theta.
        loss_noise: noise size of one reported loss, shape (N,).
    """

    noises: ClassVar[tuple[str, ...]] = ("noise", "loss_noise")
    reads_uploads = True
    """Whose loss it is matters."""

    loss_cap: Numbers
    loss_noise: Numbers

    def init(self, theta: Array) -> ServerState:
        """theta_0, at rest, with nothing reported."""
        start = super().init(theta)
        reported = Reported(start.memory, jnp.zeros((*self.cohorts.shape, LOSSES_PER_REPLY)))
        return start._replace(memory=reported)

    def local_update(
        self, state: ServerState, client: Array, memory: Memory, shard: Batch, key: Array
    ) -> tuple[Array, Memory]:
        """The noised gradient, and the mean losses before and after a step along it, not noised yet."""
        exact, memory = super().local_update(state, client, memory, shard, key)
        # a key of its own: with the round's key itself `privatize` draws the noise of the losses
        noises = fold_in(named_key(key, Purpose.NOISE, state.round, client), 1)
        gradient = super().privatize(state, exact, client, noises)
        step = gradient + self.task.ridge * state.theta
        after = state.theta - self.steps[state.round] * step
        losses = [self._mean_loss(theta, client, shard) for theta in (state.theta, after)]
        return jnp.concatenate([gradient, jnp.stack(losses)]), memory

    def privatize(self, state: ServerState, update: Array, client: Array, key: Array) -> Array:
        """The losses with their noise; the gradient has its own already."""
        noise = simulated_noise(key, self.family, self.loss_noise[client], LOSSES_PER_REPLY)
        return update.at[-LOSSES_PER_REPLY:].add(noise)

    def combine(self, state: ServerState, cohort: Array, uploads: Array) -> Array:
        """The weighted sum of the gradients, then every client's losses."""
        gradients, losses = jnp.split(uploads, [uploads.shape[1] - LOSSES_PER_REPLY], axis=1)
        return jnp.concatenate([super().combine(state, cohort, gradients), losses.ravel()])

    def aggregate(self, state: ServerState, total: Array) -> ServerState:
        """One step against the gradients; the losses are kept."""
        direction, losses = jnp.split(total, [state.theta.size])
        kept = state.memory.losses.at[state.round].set(losses.reshape(-1, LOSSES_PER_REPLY))
        moved = super().aggregate(state._replace(memory=state.memory.velocity), direction)
        return moved._replace(memory=Reported(moved.memory, kept))

    def _mean_loss(self, theta: Array, client: Array, shard: Batch) -> Array:
        """Mean over the client's records of their losses within [0, Theta]; NaN counts as Theta."""
        losses = self.task.losses(theta, shard)
        # a clip keeps NaN, and a mean that is no number would tell of one record through any noise
        clipped = jnp.clip(jnp.where(jnp.isnan(losses), self.loss_cap, losses), 0.0, self.loss_cap)
        return jnp.sum(jnp.where(shard.mask > 0, clipped, 0.0)) / self.divisors[client]


def make(first: FirstStage, task: Task, seed: int) -> LossReports:
    """The algorithm of stage 1: its schedule drawn from `seed`, its numbers from the plan alone.

    Args:
        first: of `methods.dpfl_bcs.two_stages.plan`.
        task: of the dimension that the plan was made for.
        seed: of the public schedule.

    Raises:
        InvalidInput: a plan without step sizes, or for another dimension.
    """
    cap, noise = as_float(first.loss_cap), as_float(first.losses.mechanism.size)
    return exact_replies(LossReports, first.plan, task, seed, loss_cap=cap, loss_noise=noise)
