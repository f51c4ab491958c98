"""What an algorithm around another one leaves as it is: whom to ask, weights, and the noise of a sum.

An algorithm around another one keeps a memory of its own beside the other's, as `state.memory.own`.

One of them averages iterates: what is delivered is the mean of the last models, not the last one.

    delivered_t = (1 / (t - s)) sum_{u = s+1}^t theta_u  for t > s,  theta_t before,    s = T - floor(share T)

The training itself goes on as without averaging, from theta_t. The mean is post-processing of what the
server knows and costs no privacy. It evens out the noise of the last rounds, which the last iterate keeps
all of; where step sizes fall as fast as the noise asks for, it gains nothing.

Source: Rakhlin, Shamir and Sridharan, "Making gradient descent optimal for strongly convex stochastic
optimization" (2012), suffix averaging.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Self, TypeVar

import equinox as eqx
import numpy as np

from noiseworthy import _validate as check
from noiseworthy._jax import Array, jnp
from noiseworthy.methods.algorithm import Algorithm, ServerState, Shard
from noiseworthy.methods.local import Memory, Numbers
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


class Tail(NamedTuple):
    """What the server of an averaged training keeps: the algorithm's own memory, and the mean so far (p,)."""

    own: Memory
    mean: Array


class Averaged(Around):
    """An algorithm whose iterates after round s are averaged; all else is the algorithm's.

    Attributes:
        algorithm: what trains.
        start: s, rounds before the first one that enters the mean.
    """

    algorithm: Algorithm
    start: Numbers

    def init(self, theta: Array) -> ServerState:
        """The algorithm's start, which is also what would be delivered."""
        start = self.algorithm.init(theta)
        return start._replace(memory=Tail(start.memory, theta))

    def aggregate(self, state: ServerState, total: Array) -> ServerState:
        """The algorithm's next iterate, taken into the mean; up to round s + 1 it is the mean."""
        after = self.algorithm.aggregate(own_state(state), total)
        share = 1.0 / jnp.maximum(1, after.round - self.start).astype(after.theta.dtype)
        mean = (1 - share) * state.memory.mean + share * after.theta
        return after._replace(memory=Tail(after.memory, mean))

    def model(self, state: ServerState) -> Array:
        """The mean."""
        return state.memory.mean


def averaged(algorithm: Algorithm, rounds: int, share: float) -> Averaged:
    """An algorithm that delivers the mean of its last floor(share T) iterates, at least of the last one.

    Args:
        algorithm: what trains.
        rounds: T.
        share: of the rounds, in [0, 1).

    Raises:
        InvalidInput: a share outside [0, 1), no rounds.
    """
    check.in_unit_interval("averaging", share, closed_left=True, remedy="0 delivers the last model")
    last = math.floor(share * check.count("rounds", rounds) + 1e-9)  # 0.29 * 100 is 28.999...
    return Averaged(algorithm, np.asarray(rounds - last, np.int32))
