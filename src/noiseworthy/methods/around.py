"""What an algorithm around another one leaves as it is: whom to ask, weights, and the noise of a sum.

An algorithm around another one keeps a memory of its own beside the other's, as `state.memory.own`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Self

import equinox as eqx

from noiseworthy._jax import Array
from noiseworthy.methods.algorithm import Algorithm, ServerState, Shard, StepsInSpan
from noiseworthy.methods.local import Memory, Numbers
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch


class Around(eqx.Module):
    """The part of an algorithm that is the inner algorithm's.

    Attributes:
        algorithm: the inner one.
    """

    algorithm: eqx.AbstractVar[Algorithm]

    @property
    def task(self) -> Task:
        """The algorithm's."""
        return self.algorithm.task

    @property
    def cohorts(self) -> Numbers:
        """The algorithm's."""
        return self.algorithm.cohorts

    @property
    def condensed(self) -> bool:
        """The algorithm's."""
        return self.algorithm.condensed

    @property
    def moves_locally(self) -> bool:
        """The algorithm's."""
        return self.algorithm.moves_locally

    @property
    def steps_in_span(self) -> StepsInSpan | None:
        """The algorithm's."""
        return self.algorithm.steps_in_span

    @property
    def remembers_noised(self) -> bool:
        """The algorithm's."""
        return self.algorithm.remembers_noised

    @property
    def sums_records(self) -> bool:
        """As the algorithm does, unless clients compute something else here."""
        return type(self).local_update is Around.local_update and self.algorithm.sums_records

    @property
    def lengths(self) -> dict[str, int]:
        """The algorithm's."""
        return self.algorithm.lengths

    def seen_at(self, memory: Memory, x: Array) -> Array:
        """The algorithm's."""
        return self.algorithm.seen_at(memory, x)

    def owned(self, memory: Memory, theta: Array) -> Array:
        """The algorithm's."""
        return self.algorithm.owned(memory, theta)

    def padded(self, lengths: Mapping[str, int]) -> Self:
        """Around the algorithm padded."""
        return replace(self, algorithm=self.algorithm.padded(lengths))

    def with_noise(self, factor: float) -> Self:
        """Around the algorithm with so many times its noise."""
        return replace(self, algorithm=self.algorithm.with_noise(factor))

    def noiseless(self) -> Self:
        """Around the algorithm without noise."""
        return replace(self, algorithm=self.algorithm.noiseless())

    def select(self, state: ServerState) -> Array:
        """The algorithm's."""
        return self.algorithm.select(own_state(state))

    def weight(self, client: Array) -> Array:
        """The algorithm's."""
        return self.algorithm.weight(client)

    @property
    def reads_uploads(self) -> bool:
        """The algorithm's."""
        return self.algorithm.reads_uploads

    def init_client(self, theta: Array) -> Memory:
        """The algorithm's."""
        return self.algorithm.init_client(theta)

    def local_update(
        self, state: ServerState, client: Array, memory: Memory, shard: Shard, key: Array
    ) -> tuple[Array, Memory]:
        """The algorithm's, at the model that was sent."""
        return self.algorithm.local_update(own_state(state), client, memory, shard, key)

    def sum_over_records(self, state: ServerState, clients: Array, weights: Array, shards: Batch) -> Array:
        """The algorithm's, at the model that was sent."""
        return self.algorithm.sum_over_records(own_state(state), clients, weights, shards)

    def privatize(self, state: ServerState, update: Array, client: Array, key: Array) -> Array:
        """The algorithm's."""
        return self.algorithm.privatize(own_state(state), update, client, key)

    def combine(self, state: ServerState, cohort: Array, uploads: Array) -> Array:
        """The algorithm's."""
        return self.algorithm.combine(own_state(state), cohort, uploads)

    def aggregate_noise(self, state: ServerState, cohort: Array, key: Array) -> Array:
        """The algorithm's."""
        return self.algorithm.aggregate_noise(own_state(state), cohort, key)


def own_state(state: ServerState) -> ServerState:
    """The state as the inner algorithm knows it."""
    return state._replace(memory=state.memory.own)
