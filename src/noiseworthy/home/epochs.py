"""Networks that train on at home from a given start, and stop where cross-validation says."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from noiseworthy._jax import Array, jax, jnp, lax
from noiseworthy.home.base import FOLDS, Own, Parameters, folds_of
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch


class Epochs(NamedTuple):
    """What is tried of a network at home.

    Attributes:
        steps: numbers of steps after which it may stop, ascending from 0.
        sizes: of the steps of Adam on the mean gradient of all records.
        folds: of the `FOLDS` that are left out in turn, so many.
    """

    steps: tuple[int, ...]
    sizes: tuple[float, ...] = (1e-3, 1e-2)
    folds: int = FOLDS


def after_epochs(task: Task, start: Parameters, own: Own, seed: int, tried: Epochs) -> Parameters:
    """A model after some steps of Adam on an owner's records, each an epoch.

    Args:
        task: model and loss; its own ridge is left out.
        start: parameters, shape (p,).
        own: the owner's records.
        seed: of the folds.
        tried: what to choose from.

    Returns:
        Parameters, shape (p,), after as many steps of the size whose loss on records that were left out is
        least; the start where none is less than its.
    """
    folds = folds_of(own.y, seed, own.whose)
    n, size = len(folds), 1 << max(3, (len(folds) - 1).bit_length())
    fill = [(0, size - n)]
    x = jnp.asarray(np.pad(own.x, fill + [(0, 0)] * (own.x.ndim - 1)))
    y = jnp.asarray(np.pad(own.y, fill + [(0, 0)] * (own.y.ndim - 1)))
    learnt = np.concatenate([np.arange(tried.folds)[:, None] != folds, np.ones((1, n), bool)])
    masks = jnp.asarray(np.pad(learnt, [(0, 0), *fill]), jnp.float32)
    left_out = jnp.asarray(np.pad(~learnt, [(0, 0), *fill]), jnp.float32)
    begun = jnp.asarray(start, jnp.float32)
    found, losses = _trained(task, begun, x, y, masks, left_out, tried)  # (sizes, folds + 1, steps)
    missed = np.nan_to_num(np.asarray(losses, np.float64)[:, :-1].sum(axis=1), nan=np.inf)
    missed[:, 0] = missed[0, 0]
    size_of_step, stop = np.unravel_index(np.argmin(missed), missed.shape)
    return np.asarray(found[size_of_step, -1, stop], np.float32)


@partial(jax.jit, static_argnums=(0, 6))
def _trained(
    task: Task, start: Array, x: Array, y: Array, masks: Array, left_out: Array, tried: Epochs
) -> tuple[Array, Array]:
    """Parameters (sizes, folds + 1, stops, p), and summed losses of what was left out, without the p."""
    import optax

    def training(step_size: Array, mask: Array, other: Array) -> tuple[Array, Array]:
        adam = optax.adam(1.0)

        def step(_: Array, carry: tuple[Array, optax.OptState]) -> tuple[Array, optax.OptState]:
            theta, state = carry
            moved, state = adam.update(task.gradient(theta, Batch(x, y, mask)), state)
            return theta + step_size * jnp.asarray(moved), state

        carry, kept = (start, adam.init(start)), [start]
        for before, after in pairwise(tried.steps):
            carry = lax.fori_loop(before, after, step, carry)
            kept.append(carry[0])
        thetas = jnp.stack(kept)
        missed = lax.map(lambda theta: task.losses(theta, Batch(x, y, other)), thetas)
        return thetas, jnp.sum(jnp.where(other > 0, missed, 0.0), axis=1)

    folds = jax.vmap(training, in_axes=(None, 0, 0))
    return jax.vmap(folds, in_axes=(0, None, None))(jnp.asarray(tried.sizes), masks, left_out)
