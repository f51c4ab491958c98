"""From a plan to an algorithm: what every `make` checks and how it keeps numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.errors import InvalidInput
from noiseworthy.tasks.base import Task

if TYPE_CHECKING:
    from noiseworthy.plans.plan import Plan, StepSize

A = TypeVar("A")


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
    """Algorithms with their arrays padded by zeros to common lengths, so that they share a compiled program.

    Only schedules differ in length (rounds, steps); what is padded is never reached.
    """

    def pad(*leaves: NDArray[np.generic]) -> list[NDArray[np.generic]]:
        if leaves[0].ndim == 0:
            return list(leaves)
        most = max(len(leaf) for leaf in leaves)
        return [np.pad(leaf, [(0, most - len(leaf)), *[(0, 0)] * (leaf.ndim - 1)]) for leaf in leaves]

    structure = jax.tree.structure(algorithms[0])
    columns = [pad(*leaves) for leaves in zip(*map(jax.tree.leaves, algorithms), strict=True)]
    return [structure.unflatten(row) for row in zip(*columns, strict=True)]


_SCHEDULES = ("cohorts", "steps", "scale", "counts")
"""Fields of algorithms that have one entry for every round or step."""


def padded(algorithms: Sequence[A], room: int) -> list[A]:
    """Algorithms with their schedules padded by zeros, so that one program serves many lengths.

    Args:
        algorithms: that share a program once they are as long.
        room: length of the schedules; of longer ones the least power of four times it.

    Returns:
        As many; what is padded is never reached.
    """

    def pad(path: tuple[Any, ...], leaf: NDArray[np.generic]) -> NDArray[np.generic]:
        if path[-1].name not in _SCHEDULES or np.ndim(leaf) == 0:
            return leaf
        length = room
        while length < len(leaf):
            length *= 4
        return np.pad(leaf, [(0, length - len(leaf)), *[(0, 0)] * (np.ndim(leaf) - 1)])

    return [jax.tree_util.tree_map_with_path(pad, algorithm) for algorithm in algorithms]


def with_noise(algorithm: A, factor: float) -> A:
    """The same algorithm with `factor` times the noise, for trials in which few clients stand for many."""

    def scaled(path: tuple[Any, ...], leaf: NDArray[np.generic]) -> NDArray[np.generic]:
        return as_float(factor * np.asarray(leaf, np.float64)) if path[-1].name == "noise" else leaf

    return algorithm if factor == 1 else jax.tree_util.tree_map_with_path(scaled, algorithm)
