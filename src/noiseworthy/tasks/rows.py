"""Records as a model takes them, by one program for all models that differ in numbers alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from noiseworthy._jax import Array, jax
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel


def preparing(task: Task) -> Callable[..., Array]:
    """`task.prepare` as one program for all records of one shape, whatever they are seen against.

    With `clients`, rows are told apart by client in the same program: done later, that copies all of them.
    """
    if not isinstance(task, LinearModel):
        return partial(_program(task), None)
    seen = task.preparation
    numbers = seen.reference and seen.reference.arrays(seen.projection)
    return partial(_program(replace(task, start=(), preparation=replace(seen, reference=None))), numbers)


@lru_cache(maxsize=64)
def _program(task: Task) -> Callable[..., Array]:
    """Rows of records, given the numbers of a reference; programs of old tasks are let go."""

    def prepare(numbers: dict[str, Any] | None, x: Array, clients: int | None = None) -> Array:
        against = task
        if numbers and isinstance(task, LinearModel):
            from noiseworthy.tasks.reference import Reference  # here, because few requests name one

            seen = replace(task.preparation, reference=Reference(**numbers))
            against = replace(task, preparation=seen)
        rows = against.prepare(x)
        return rows if clients is None else rows.reshape(clients, -1, *rows.shape[1:])

    return jax.jit(prepare, static_argnames="clients")
