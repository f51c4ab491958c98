"""How right a model is on each record, as owners tell it with noise."""

from __future__ import annotations

from typing import Any

import equinox as eqx

from noiseworthy._jax import Array, jax, jnp
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch, of_each
from noiseworthy.tasks.persons import Persons


@eqx.filter_jit
def rightness(task: Task, theta: Array, batch: Batch, two_classes: bool, reach: Any = None) -> Array:
    """What each record, or person, says of a model.

        r, 1 where the model is right and -1 where not; or (r, c, r c) with c = 1 of the second class, else -1

    Args:
        task: the model.
        theta: its parameters, shape (p,).
        batch: n prepared rows.
        two_classes: whether to tell the class, too; no error has a reach then.
        reach: error above 0 at which a predicted number counts as wrong, r falling evenly up to it; None of
            classes, masks and tokens, on which r goes by the score of the record alone.

    Returns:
        Shape (n, 3) or (n, 1), of a person the mean over its records.

    Guarantee: a row depends on its record alone, and is within [-1, 1] whatever the model answers.
    """
    model: Any = task.task if isinstance(task, Persons) else task

    def of_record(x: Array, y: Array) -> Array:
        if reach is not None and not two_classes:  # whole numbers alone add up without rounding
            right = 1 - jnp.abs(model.answers(theta, x[None]).reshape(()) - y) / reach
        else:
            right = model.score(theta, x[None], y[None]).accuracy
        r, c = 2 * jnp.clip(jnp.nan_to_num(right), 0, 1) - 1, jnp.where(y > 0, 1.0, -1.0)
        return jnp.stack([r, c, r * c]) if two_classes else r[None]

    def of_row(x: Array, y: Array, mask: Array) -> Array:
        if isinstance(task, Persons):
            there = (x[:, -1] > 0).astype(x.dtype)  # counted: many shares add up to more than 1
            return there @ jax.vmap(of_record)(task.records(x), y) / there.sum()
        return of_record(x, y)

    return of_each(task, of_row, batch)
