"""Sums of clipped gradients that are formed one by one, of rows that share nothing but the model."""

from __future__ import annotations

from collections.abc import Callable

from noiseworthy._jax import Array, jax, jnp
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.clipping import clip, upper_norm_of_long


def formed_sum(
    loss: Callable[[Array, Array, Array], Array],
    theta: Array,
    parts: Batch,
    clip_norm: Array | float,
    norm: Norm,
) -> Array:
    """Sum of the rows' gradients, each clipped to C; parts in sequence, rows of a part at once.

    Args:
        loss: of parameters and one row, its features and its label.
        theta: parameters, shape (p,).
        parts: rows as `chunks` has them.
        clip_norm: C above 0.
        norm: in which C holds.

    Guarantee: each summand has norm at most C, float32 rounding included (`upper_norm`, `clip`). A row
    contributes zero if its gradient is not finite or its squared norm overflows.
    """

    def clipped(x: Array, y: Array) -> Array:
        gradient = jax.grad(loss)(theta, x, y)
        return clip(gradient, upper_norm_of_long(gradient, norm), clip_norm)

    def add(total: Array, chunk: Batch) -> tuple[Array, None]:
        kept, mask = jax.vmap(clipped)(chunk.x, chunk.y), chunk.mask.astype(theta.dtype)
        # XLA on CPU is twice as slow with a plain sum over the records.
        return total + jnp.matmul(mask, kept, precision="highest"), None

    return jax.lax.scan(add, jnp.zeros_like(theta), parts)[0]
