"""Averaging of iterates: what is delivered is the mean of the last models, not the last one.

    delivered_t = (1 / (t - s)) sum_{u = s+1}^t theta_u  for t > s,  theta_t before,    s = T - floor(share T)

The training itself goes on as without averaging, from theta_t. The mean is post-processing of what the
server knows and costs no privacy. It evens out the noise of the last rounds, which the last iterate keeps
all of; where step sizes fall as fast as the noise asks for, it gains nothing.

Source: Rakhlin, Shamir and Sridharan, "Making gradient descent optimal for strongly convex stochastic
optimization" (2012), suffix averaging.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from noiseworthy import _validate as check
from noiseworthy._jax import Array, jnp
from noiseworthy.methods.algorithm import Algorithm, ServerState
from noiseworthy.methods.around import Around, own_state
from noiseworthy.methods.local import Memory, Numbers


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
