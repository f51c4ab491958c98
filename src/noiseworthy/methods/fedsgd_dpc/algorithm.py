"""FedSGD-DPC: one full-batch gradient per reply, clipped per record and noised by the client.

Zhou et al., "Optimizing the numbers of queries and replies in federated learning with differential
privacy" (2021), Algorithm 1; docs/theory/zhou.md#algorithm. Two departures from the paper, both needed for
its claims: a client replies at most ceil(bT/N) times and its noise pays for just that many, and updates are
aggregated, not parameters, so that unequal sizes do not rescale the model
(docs/theory/accounting.md#aggregates).

    upload_i  = (1/d_i) sum_records clip(grad) + w_i
    v        <- m v + (N/b) sum_{i in P_t} a_i upload_i + ridge theta,    a_i = d_i/d or as the plan weighs
    theta    <- theta - eta_t v

The momentum m is the server's: it reads noised uploads only. At a client, before the noise, it would carry
old gradients along, and one record would count up to 1/(1 - m) times.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self, TypeVar

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike

from noiseworthy._jax import Array, jax, jnp
from noiseworthy._keys import Purpose, named_key, schedule_generator
from noiseworthy.methods.algorithm import NoisedUploads, ServerState
from noiseworthy.methods.local import Memory, Numbers
from noiseworthy.methods.making import as_float, trainable
from noiseworthy.methods.selection import exact_counts, schedule
from noiseworthy.plans.plan import Plan
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch


class FedSGDDPC(NoisedUploads):
    """The numbers of one planned training.

    Attributes:
        sampled: whether batches are Poisson (static).
        weights: (N/b) a_i, shape (N,).
        divisors: q d_i, the fixed public divisor, shape (N,).
        sampling_rate: q.
        steps: eta_t, shape (T,).
        momentum: m, in [0, 1).
    """

    schedules: ClassVar[tuple[str, ...]] = ("steps", "cohorts")
    condensed = False
    """Clipping reads every record's gradient."""
    moves_locally = False
    """A reply is a gradient at the model that was sent."""

    sampled: bool = eqx.field(static=True)
    weights: Numbers
    divisors: Numbers
    sampling_rate: Numbers
    steps: Numbers
    momentum: Numbers

    @property
    def sums_records(self) -> bool:
        """Updates are sums over records, but for Poisson batches and where clients do something else."""
        return not self.sampled and type(self).local_update is FedSGDDPC.local_update

    def noiseless(self) -> Self:
        """Noise sizes of 0, and no Poisson batches."""
        return replace(super().noiseless(), sampled=False)

    def init(self, theta: Array) -> ServerState:
        """theta_0, at rest."""
        return super().init(theta)._replace(memory=jnp.zeros_like(theta))

    def local_update(
        self, state: ServerState, client: Array, memory: Memory, shard: Batch, key: Array
    ) -> tuple[Array, Memory]:
        """Mean of the client's clipped per-record gradients, over all records or a Poisson batch."""
        if self.sampled:
            chosen = jax.random.bernoulli(
                named_key(key, Purpose.BATCH, state.round, client), self.sampling_rate, shard.mask.shape
            )
            shard = shard._replace(mask=shard.mask * chosen.astype(shard.mask.dtype))
        total = self.task.clipped_gradient_sum(state.theta, shard, jnp.asarray(self.clip_norm), self.norm)
        # by the public q d_i: the number that was drawn depends on which records there are, and dividing by
        # it would undo the sensitivity C/(q d_i)
        return total / self.divisors[client], memory

    def sum_over_records(self, state: ServerState, clients: Array, weights: Array, shards: Batch) -> Array:
        """Clipped gradients of all clients' records, each counted as its client's mean and weight say."""
        # the mask counts after the clip; a weight of the loss would be clipped with its record
        counted = shards._replace(mask=shards.mask * (weights / self.divisors[clients])[:, None])
        together = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), counted)
        return self.task.clipped_gradient_sum(state.theta, together, jnp.asarray(self.clip_norm), self.norm)

    def weight(self, client: Array) -> Array:
        """(N/b) a_i, which makes the aggregate that of all clients on average over uniform cohorts."""
        return jnp.asarray(self.weights)[client]

    def aggregate(self, state: ServerState, total: Array) -> ServerState:
        """One step against the aggregate and the data-free ridge term, with what is left of earlier ones."""
        velocity = self.momentum * state.memory + total + self.task.ridge * state.theta
        return ServerState(state.theta - self.steps[state.round] * velocity, state.round + 1, velocity)


def make(plan: Plan, task: Task, seed: int) -> FedSGDDPC:
    """The algorithm of a plan: its schedule drawn from `seed`, its numbers from the plan alone.

    Args:
        plan: with `train` true and step sizes.
        task: of the dimension that the plan was made for.
        seed: of the public schedule.

    Raises:
        InvalidInput: a plan that does not train, without step sizes, or for another dimension.

    Guarantee: the schedule asks no client more often than `plan.releases` says.
    """
    step = trainable(plan, task)
    problem, b = plan.problem, plan.clients_per_round
    cohorts = schedule(problem.n_clients, b, plan.rounds, seed)
    return FedSGDDPC(
        task=task, family=problem.family, parts=plan.parts, norm=problem.norm,
        sampled=problem.sampling_rate < 1, clip_norm=as_float(problem.clip_norm),
        noise=as_float(plan.noise), weights=as_float(problem.n_clients / b * plan.weights),
        divisors=as_float(problem.sampling_rate * problem.sizes),
        sampling_rate=as_float(problem.sampling_rate), steps=as_float(step.at(np.arange(plan.rounds))),
        momentum=as_float(plan.momentum), cohorts=cohorts,
    )  # fmt: skip


Kind = TypeVar("Kind", bound=FedSGDDPC)


def exact_replies(
    kind: type[Kind], plan: Plan, task: Task, seed: int, weights: ArrayLike | None = None, **own: Any
) -> Kind:
    """An algorithm of one gradient per reply, asked by the plan's exact counts: DPFL-BCS and its rivals.

    Args:
        kind: which one.
        plan, task, seed: as `make`.
        weights: factor of each client's reply, shape (N,); None for 1/K, whatever clients hold.
        own: what `kind` has beside the fields of `FedSGDDPC`.

    Raises:
        InvalidInput: a plan that does not train, without step sizes, or for another dimension.

    Guarantee: the schedule asks client n exactly `plan.releases[n]` times, in different rounds.
    """
    step, problem, k = trainable(plan, task), plan.problem, plan.clients_per_round
    generator = schedule_generator(seed)
    return kind(
        task=task, family=problem.family, norm=problem.norm, sampled=problem.sampling_rate < 1,
        clip_norm=as_float(problem.clip_norm), noise=as_float(plan.noise),
        weights=as_float(np.full(problem.n_clients, 1 / k) if weights is None else weights),
        divisors=as_float(problem.sampling_rate * problem.sizes),
        sampling_rate=as_float(problem.sampling_rate), steps=as_float(step.at(np.arange(plan.rounds))),
        momentum=as_float(plan.momentum), cohorts=exact_counts(plan.releases, k, plan.rounds, generator),
        **own,
    )  # fmt: skip
