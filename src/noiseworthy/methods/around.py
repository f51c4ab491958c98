"""What an algorithm around another one leaves as it is: whom to ask, weights, and the noise of a sum.

An algorithm around another one keeps a memory of its own beside the other's, as `state.memory.own`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self, TypeVar

import equinox as eqx

from noiseworthy._jax import Array
from noiseworthy.methods.algorithm import Algorithm, ServerState, Shard
from noiseworthy.methods.local import Memory
from noiseworthy.tasks.batch import Batch

T = TypeVar("T")


def _of_inner(read: Callable[[Algorithm], T]) -> T:
    """A property that is the inner algorithm's, of the type that it has there."""
    made: Any = property(lambda around: read(around.algorithm), doc="The algorithm's.")
    return made


class Around(eqx.Module):
    """The part of an algorithm that is the inner algorithm's.

    Attributes:
        algorithm: the inner one.
    """

    algorithm: eqx.AbstractVar[Algorithm]

    task = _of_inner(lambda inner: inner.task)
    cohorts = _of_inner(lambda inner: inner.cohorts)
    condensed = _of_inner(lambda inner: inner.condensed)
    moves_locally = _of_inner(lambda inner: inner.moves_locally)
    steps_in_span = _of_inner(lambda inner: inner.steps_in_span)
    remembers_noised = _of_inner(lambda inner: inner.remembers_noised)
    reads_uploads = _of_inner(lambda inner: inner.reads_uploads)
    lengths = _of_inner(lambda inner: inner.lengths)
    seen_at = _of_inner(lambda inner: inner.seen_at)
    owned = _of_inner(lambda inner: inner.owned)
    weight = _of_inner(lambda inner: inner.weight)
    init_client = _of_inner(lambda inner: inner.init_client)

    @property
    def sums_records(self) -> bool:
        """As the algorithm does, unless clients compute something else here."""
        return type(self).local_update is Around.local_update and self.algorithm.sums_records

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

    def model(self, state: ServerState) -> Array:
        """The algorithm's."""
        return self.algorithm.model(own_state(state))


def own_state(state: ServerState) -> ServerState:
    """The state as the inner algorithm knows it."""
    return state._replace(memory=state.memory.own)
