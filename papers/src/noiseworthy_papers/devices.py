"""Scores by device, as Hu et al. report them: each device's records are split, and devices count alike."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from noiseworthy.data import Federation
from noiseworthy.tasks import Task
from noiseworthy.tasks.batch import Score

TRAINING, HELD_OUT = 0.8, 0.9
"""Where the records of a device are cut: 80 % train, 10 % validate, 10 % test."""


@dataclass(frozen=True)
class HeldOut:
    """Records of each device that it does not train on, prepared for a task; empty parts are left out."""

    parts: tuple[tuple[Array, Array], ...]

    def score(self, task: Task, theta: ArrayLike) -> Score:
        """Mean over devices of their own loss and accuracy, for S models of shape (S, p); shape (S,) each."""
        scores = [_score(task, jnp.asarray(theta), x, y) for x, y in self.parts]
        return Score(*(np.mean(values, axis=0) for values in zip(*scores, strict=True)))


@dataclass(frozen=True)
class Split:
    """A federation whose devices each keep some of their records for validation and for the test.

    Attributes:
        training: the first 80 % of each device's records; at least one.
        validation: the next 10 %.
        test: the rest.
    """

    training: Federation
    validation: HeldOut
    test: HeldOut

    @classmethod
    def of(cls, whole: Federation, task: Task) -> Split:
        """Cut every device's records, which a partition has put in random order."""
        first, second = (np.floor(share * whole.sizes).astype(int) for share in (TRAINING, HELD_OUT))
        return cls(
            trained_on(whole), _parts(whole, task, first, second), _parts(whole, task, second, whole.sizes)
        )


def trained_on(whole: Federation) -> Federation:
    """The first 80 % of every device's records.

    Example:
        >>> pair = (np.zeros((10, 2)), np.zeros(10))
        >>> whole = Federation.from_clients([pair], test=pair, classes=2, name="ten")
        >>> trained_on(whole).sizes
        array([8])
    """
    return whole.take_records(np.maximum(1, np.floor(TRAINING * whole.sizes)))


def _parts(whole: Federation, task: Task, start: NDArray[np.int64], stop: NDArray[np.int64]) -> HeldOut:
    prepare = jax.jit(task.prepare)
    parts = [
        (prepare(whole.x[device, a:b]), jnp.asarray(whole.y[device, a:b]))
        for device, (a, b) in enumerate(zip(start, stop, strict=True))
        if b > a
    ]
    return HeldOut(tuple(parts))


@eqx.filter_jit
def _score(task: Task, theta: Array, x: Array, y: Array) -> Score:
    return jax.vmap(task.score, in_axes=(0, None, None))(theta, x, y)
