"""Records as a task computes with them, and what a score says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from noiseworthy._jax import Array, jax, jnp

SAFETY = 1.0 - 2.0**-20
"""Records are clipped to C (1 - 2^-20), so that float32 rounding (1.1e-7 relative) cannot exceed C."""


class Batch(NamedTuple):
    """Records of one client: features (n, *shape), labels, mask (n,).

    The mask is 0 on padding, 1 on records, and w on a public record that stands for w.
    Labels have shape (n,), or (n, *label_shape) where a record has many: tokens (n, L), masks (n, D, H, W).
    """

    x: Array
    y: Array
    mask: Array

    @property
    def size(self) -> Array:
        """Number of records with mask 1, a whole number."""
        return jnp.sum(self.mask > 0, axis=-1)

    @property
    def divisor(self) -> Array:
        """What a sum over the records is divided by for their mean: their number, 1 of none."""
        return jnp.maximum(1, self.size).astype(jnp.float32)


class Score(NamedTuple):
    """Mean test loss without the ridge term, and accuracy (R^2 for regression, Dice for segmentation)."""

    loss: Array
    accuracy: Array


def of_each(task: Any, alone: Callable[[Array, Array, Array], Array], batch: Batch) -> Array:
    """What is computed of each record as the only one, in a batch or, where the task says so, in turn."""
    if getattr(task, "one_by_one", False):
        return jax.lax.map(lambda record: alone(*record), batch)
    return jax.vmap(alone)(*batch)
