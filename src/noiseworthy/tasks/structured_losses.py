"""Losses of records with many labels, tokens or voxels; and all losses by name, with what a score reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from noiseworthy._jax import Array, jax, jnp
from noiseworthy.tasks.losses import LINEAR_LOSSES, softmax_value


class Loss(NamedTuple):
    """What a model's outputs z are worth for labels y.

    Attributes:
        value: loss of one record from its output z, shape (K,), and its label y, shape (); tokens have
            (L, V) and (L,), masks (*space) for both.
        quality: accuracy (R^2 for regression, Dice for masks) of n outputs for n labels.
    """

    value: Callable[[Array, Array], Array]
    quality: Callable[[Array, Array], Array]


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
    """Mean over records of 2 |A and B| / (|A| + |B|), A where z > 0, B where y > 0; 1 if both are empty.

    A voxel whose z is NaN counts as wrong.
    """
    space, true = tuple(range(1, z.ndim)), y > 0
    predicted = jnp.where(jnp.isnan(z), ~true, z > 0)
    both = jnp.sum(predicted & true, axis=space)
    total = jnp.sum(predicted, axis=space) + jnp.sum(true, axis=space)
    return jnp.mean(jnp.where(total > 0, 2 * both / jnp.maximum(1, total), 1.0))


def multiclass_accuracy(z: Array, y: Array) -> Array:
    """Share of labels (of records, or of tokens) that are their largest output; of NaN none is."""
    return jnp.mean((jnp.argmax(z, axis=-1) == y) & ~jnp.isnan(z).any(axis=-1))


def binary_accuracy(z: Array, y: Array) -> Array:
    """Share of records with z above 0 exactly where y is 1, and at 0 or below elsewhere."""
    z = z.reshape(y.shape)
    return jnp.mean(jnp.where(y > 0, z > 0, z <= 0))


def r_squared(z: Array, y: Array) -> Array:
    """1 - sum (y - z)^2 / sum (y - mean y)^2, and 0 where all y are equal."""
    y = y.astype(z.dtype)
    residual = jnp.sum(jnp.square(y - z.reshape(y.shape)))
    spread = jnp.sum(jnp.square(y - jnp.mean(y)))
    return jnp.where(spread > 0, 1.0 - residual / jnp.where(spread > 0, spread, 1.0), 0.0)


_QUALITIES = {
    "softmax": multiclass_accuracy,
    "logistic": binary_accuracy,
    "hinge": binary_accuracy,
    "squared": r_squared,
}
LOSSES = {
    **{name: Loss(value, _QUALITIES[name]) for name, value in LINEAR_LOSSES.items()},
    "tokens": Loss(tokens_value, multiclass_accuracy),
    "dice": Loss(dice_value, dice_coefficient),
}
"""The losses that have a name."""
