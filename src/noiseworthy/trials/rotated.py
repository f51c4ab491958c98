"""Trials of images along the main directions of their records: a third of the numbers, the same norms.

    x' = V x |x| / |V x|,    V: the principal directions of a stand-in's first deal, as orthonormal rows

Every step moves a linear model by records and by noise. Noise that is the same in all directions is so along
V, too, so that W' = V W has the outputs and gradients of the records as V sees them. That |x'| = |x| keeps
the noise in the outputs and what the clip does as large as they are. Laplace noise is not the same in all
directions; along one that is spread over many pixels it is nearly Gaussian of its variance: the excess
kurtosis is 3 sum_j V_kj^4. The L1 norm that it is clipped by comes with each record as its last number. The
feature of the intercept stays as it is.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import Array, jax
from noiseworthy.engines.flat import FlatRecords
from noiseworthy.engines.shards import Shards
from noiseworthy.home.base import Parameters
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.reference import MOST_DIRECTIONS, principal
from noiseworthy.trials.widened import seen_by

_LEAST = 2 * MOST_DIRECTIONS
"""Numbers of a record from which on fewer are worth their rotation."""


@dataclass(frozen=True)
class Rotated(LinearModel):
    """A linear model of rotated records, whose last number is the norm that their clip goes by."""

    @classmethod
    def of(cls, task: LinearModel) -> Self:
        """The model of records along few directions."""
        return cls(MOST_DIRECTIONS, task.outputs, task.loss, task.ridge, task.bias, start=task.start)

    def rows(self, x: Array) -> Array:
        """Records without their norms."""
        return x[:, : self._width]

    def norms(self, x: Array, norm: Norm) -> Array:
        """Those that records had."""
        return x[:, -1]


def can_rotate(task: Task, shards: Shards) -> bool:
    """Whether records are padded and of many numbers, which a linear model without weights sees."""
    linear = isinstance(task, LinearModel) and not task.weighted and task.features >= _LEAST
    return linear and not isinstance(shards.train, FlatRecords)


def directions_of(task: LinearModel, shards: Shards) -> NDArray[np.float32]:
    """V: the principal directions of padded records and test records, shape (256, d); zeros past the last."""
    rows = np.asarray(shards.train[0])[np.asarray(shards.train[2]) > 0]
    few = principal(np.concatenate([rows, shards.test_x])[:, : task.features])
    return np.pad(few, [(0, MOST_DIRECTIONS - len(few)), (0, 0)])


def rotated(shards: Shards, directions: NDArray[np.float32], norm: Norm) -> Shards:
    """Padded records along directions, each followed by the norm that it is clipped by."""
    features, order = directions.shape[1], 1 if norm == "l1" else 2

    def length(x: NDArray[np.float32], order: int = 2) -> NDArray[np.float32]:
        return np.linalg.norm(x, order, axis=-1, keepdims=True)

    def along(prepared: Array) -> Array:
        whole = np.asarray(prepared).reshape(-1, prepared.shape[-1])  # one product: many small ones are slow
        x, intercept = np.split(whole, [features], axis=-1)
        seen = x @ directions.T
        seen *= np.divide(length(x), left := length(seen), out=np.zeros_like(left), where=left > 0)
        found = np.concatenate([seen, intercept, length(whole, order)], axis=-1)
        return jax.device_put(found.reshape(*prepared.shape[:-1], -1))

    return seen_by(shards, along)


def back(theta: Parameters, task: LinearModel, directions: NDArray[np.float32]) -> Parameters:
    """Models of the records as they were, shape (..., p), from those along directions."""
    every = theta.shape[:-1]
    features, intercepts = np.split(theta.reshape(*every, -1, task.outputs), [len(directions)], axis=-2)
    return np.concatenate([directions.T @ features, intercepts], axis=-2).reshape(*every, -1)
