"""From a plan to an algorithm: what every `make` checks and how it keeps numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.algorithm import Algorithm
from noiseworthy.tasks.base import Task

if TYPE_CHECKING:
    from noiseworthy.plans.plan import Plan, StepSize

A = TypeVar("A", bound=Algorithm)


def trainable(plan: Plan, task: Task) -> StepSize:
    """The step sizes of a plan that can be trained with this task.

    Raises:
        InvalidInput: a plan that does not train, without step sizes, or for another dimension.
    """
    if not plan.train or plan.release is None:
        raise InvalidInput(f"this plan does not train: {plan.outcome}")
    if plan.step is None:
        raise InvalidInput("this plan has no step size; state [algorithm] step_size before training")
    if task.dimension != plan.problem.dimension:
        raise InvalidInput(
            f"the plan was made for {plan.problem.dimension} parameters, the task has {task.dimension}"
        )
    return plan.step


def as_float(value: ArrayLike) -> NDArray[np.float32]:
    """Numbers stay on the host until a whole stack of trainings travels to the device at once."""
    return np.asarray(value, np.float32)


def aligned(algorithms: Sequence[A]) -> list[A]:
    """Algorithms with their schedules padded to common lengths, so that they share a compiled program."""
    every = [algorithm.lengths for algorithm in algorithms]
    most = {name: max(lengths[name] for lengths in every) for name in every[0]}
    return [one if one.lengths == most else one.padded(most) for one in algorithms]


def padded(algorithms: Sequence[A], room: int) -> list[A]:
    """Algorithms with their schedules padded, so that one program serves many lengths.

    Args:
        algorithms: that share a program once they are as long.
        room: length of the schedules; of longer ones the least power of four times it.
    """
    return [
        algorithm.padded({name: _roomy(length, room) for name, length in algorithm.lengths.items()})
        for algorithm in algorithms
    ]


def _roomy(length: int, room: int) -> int:
    while room < length:
        room *= 4
    return room
