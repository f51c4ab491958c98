"""Losses of records with many labels: tokens of a text, voxels of a volume; and all losses by name."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from noiseworthy.tasks.losses import LINEAR_LOSSES, Loss, multiclass_accuracy, softmax_value


def tokens_value(z: Array, y: Array) -> Array:
    """Mean over positions of the cross entropy of z, shape (L, V), for tokens y, shape (L,)."""
    return jnp.mean(jax.vmap(softmax_value)(z, y))


def dice_value(z: Array, y: Array) -> Array:
    """Soft Dice loss 1 - (2 sum p y + 1) / (sum p + sum y + 1) with p = sigmoid(z), for a mask y in {0, 1}.

    Both 1 are one voxel of agreement, so that an empty mask asks for an empty prediction. It lies in [0, 1).

    Source: Milletari et al., V-Net (2016).
    """
    p, y = jax.nn.sigmoid(z), y.astype(z.dtype)
    return 1.0 - (2.0 * jnp.sum(p * y) + 1.0) / (jnp.sum(p) + jnp.sum(y) + 1.0)


def dice_coefficient(z: Array, y: Array) -> Array:
    """Mean over records of 2 |A and B| / (|A| + |B|), A where z > 0, B where y > 0; 1 if both are empty."""
    space = tuple(range(1, z.ndim))
    predicted, true = z > 0, y > 0
    both = jnp.sum(predicted & true, axis=space)
    total = jnp.sum(predicted, axis=space) + jnp.sum(true, axis=space)
    return jnp.mean(jnp.where(total > 0, 2 * both / jnp.maximum(1, total), 1.0))


LOSSES = {
    **LINEAR_LOSSES,
    "tokens": Loss(tokens_value, multiclass_accuracy),
    "dice": Loss(dice_value, dice_coefficient),
}
"""The losses that have a name."""
