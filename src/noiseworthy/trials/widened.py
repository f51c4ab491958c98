"""Stand-ins of unlike widths in one program: narrower ones have columns of zeros, whose weights get no noise.

Such a weight moves no output and has no gradient. Without noise it stays where it starts, at 0, and the other
weights are trained as those of the narrow model are, with the noise that is drawn for them there.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import Array, jax, jnp
from noiseworthy.engines.shards import Shards
from noiseworthy.methods.algorithm import Algorithm, ServerState
from noiseworthy.methods.around import Around, own_state
from noiseworthy.methods.local import Memory, Numbers
from noiseworthy.tasks.linear import LinearModel


class Kept(NamedTuple):
    """The memory of the algorithm, and nothing beside it."""

    own: Memory


class Narrow(Around):
    """An algorithm of a wide model whose columns of zeros get no noise; all else is the algorithm's.

    Attributes:
        algorithm: of the wide model.
        drawn: which number of a draw of noise each weight gets, shape (p,); p where none.
    """

    algorithm: Algorithm
    drawn: Numbers

    @classmethod
    def of(cls, stacked: Algorithm, task: LinearModel, room: int) -> Self:
        """Around stacked trainings, for a narrow model with columns of zeros up to so many features."""
        kept, wide = places(task, room), replace(task, features=room).dimension
        drawn = np.full((len(stacked.cohorts), wide), wide, np.int32)
        drawn[:, kept] = np.arange(len(kept))
        return cls(stacked, drawn)

    def init(self, theta: Array) -> ServerState:
        """The algorithm's start."""
        start = self.algorithm.init(theta)
        return start._replace(memory=Kept(start.memory))

    def privatize(self, state: ServerState, update: Array, client: Array, key: Array) -> Array:
        """The update with the algorithm's noise where the narrow model has weights."""
        noise = self.algorithm.privatize(own_state(state), jnp.zeros_like(update), client, key)
        return update + self._seen(noise)

    def aggregate_noise(self, state: ServerState, cohort: Array, key: Array) -> Array:
        """The algorithm's where the narrow model has weights."""
        return self._seen(self.algorithm.aggregate_noise(own_state(state), cohort, key))

    def aggregate(self, state: ServerState, total: Array) -> ServerState:
        """The algorithm's."""
        after = self.algorithm.aggregate(own_state(state), total)
        return after._replace(memory=Kept(after.memory))

    def _seen(self, noise: Array) -> Array:
        return jnp.take(noise, jnp.asarray(self.drawn), mode="fill", fill_value=0.0)


def places(task: LinearModel, room: int) -> NDArray[np.int64]:
    """Where the weights of a model lie among those of one of so many features: the intercepts come last.

    Example:
        >>> places(LinearModel(2, 1, "logistic", bias=1.0), 4)
        array([0, 1, 4])
    """
    rows = np.append(np.arange(task.features), np.full(int(task.bias > 0), room))
    return (rows[:, None] * task.outputs + np.arange(task.outputs)).ravel()


def widened(shards: Shards, task: LinearModel, room: int) -> Shards:
    """Padded records with columns of zeros after their features, up to so many."""

    def wide(x: Array) -> Array:
        return jax.device_put(np.insert(np.asarray(x), [task.features] * (room - task.features), 0, axis=-1))

    return seen_by(shards, wide)


def seen_by(shards: Shards, see: Callable[[Array], Array]) -> Shards:
    """A federation with all its padded records as something sees them."""
    groups = tuple(one._replace(train=one.train._replace(x=see(one.train.x))) for one in shards.groups)
    return Shards(shards.train._replace(x=see(shards.train.x)), see(shards.test_x), shards.test_y, groups)
