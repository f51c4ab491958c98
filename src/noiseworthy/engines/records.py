"""What a training leaves behind: curves, parameters and counts, for one or many seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Kept = Callable[[int, int], tuple[NDArray[Any], ...]]
"""Leaves of what is kept, by training and client."""


@dataclass(frozen=True)
class Trajectory:
    """Trainings of one plan under S seeds, or of S stacked plans.

    Attributes:
        rounds: evaluated rounds, ascending, the start being 0, shape (E,).
        loss: test loss without the ridge term, shape (S, E).
        accuracy: test accuracy (R^2 for regression), shape (S, E).
        theta: parameters that are delivered, those of the last scores, shape (S, p).
        uploads: uploads that each client made, shape (S, N).
        memory: what a client of a training keeps in the end, its leaves; None where nobody keeps anything.
    """

    rounds: NDArray[np.int64]
    loss: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    theta: NDArray[np.float32]
    uploads: NDArray[np.int64]
    memory: Kept | None = None

    def __repr__(self) -> str:
        reached = f"test loss {self.final_loss.mean():.4g}, score {self.final_accuracy.mean():.3g}"
        return f"{type(self).__name__} of {self.rounds[-1]} rounds and {len(self.loss)} seeds: {reached}"

    @property
    def final_loss(self) -> NDArray[np.float64]:
        """Test loss after the last round, shape (S,)."""
        return self.loss[:, -1]

    @property
    def final_accuracy(self) -> NDArray[np.float64]:
        """Test accuracy after the last round, shape (S,)."""
        return self.accuracy[:, -1]


class Curves(NamedTuple):
    """What trainings have reached so far.

    Attributes:
        rounds: evaluated rounds, shape (e,).
        loss: shape (S, e).
        accuracy: shape (S, e).
    """

    rounds: NDArray[np.int64]
    loss: NDArray[np.float64]
    accuracy: NDArray[np.float64]


def evaluation_rounds(rounds: int, points: int = 25) -> NDArray[np.int64]:
    """Rounds to evaluate at: the start, the end and about `points` between, densest at the beginning.

    Example:
        >>> evaluation_rounds(4)
        array([0, 1, 2, 3, 4])
    """
    if rounds <= points:
        return np.arange(rounds + 1)
    spaced = np.linspace(0, np.sqrt(rounds), points + 1) ** 2
    # the square of a root may end some 1e-10 above the rounds, and its ceiling would be one round too many
    return np.unique(np.concatenate([[0], np.ceil(spaced - 1e-9), [rounds]]).astype(np.int64))
