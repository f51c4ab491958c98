"""From a plan to an algorithm: what every `make` checks and how it keeps numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.errors import InvalidInput
from noiseworthy.planning.plan import Plan, StepSize
from noiseworthy.tasks.base import Task

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
