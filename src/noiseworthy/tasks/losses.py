"""Losses of one record as functions of the model's output, with the quality that a score reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Loss(NamedTuple):
    """What a model's outputs z are worth for labels y.

    Attributes:
        value: loss of one record from its output z, shape (K,), and its label y, shape (); tokens have
            (L, V) and (L,), masks (*space) for both.
        quality: accuracy (R^2 for regression, Dice for masks) of n outputs for n labels.
    """

    value: Callable[[Array, Array], Array]
    quality: Callable[[Array, Array], Array]


def softmax_value(z: Array, y: Array) -> Array:
    """Cross entropy log(sum_k exp z_k) - z_y; its gradient in z is softmax(z) - onehot(y)."""
    return jax.nn.logsumexp(z) - jnp.vdot(jax.nn.one_hot(y, z.size, dtype=z.dtype), z)


def logistic_value(z: Array, y: Array) -> Array:
    """log(1 + exp z) - y z for y in {0, 1}; its derivative is sigmoid(z) - y."""
    z = z.reshape(())
    return jax.nn.softplus(z) - y.astype(z.dtype) * z


def hinge_value(z: Array, y: Array) -> Array:
    """Smooth hinge of the margin m = z for y = 1 and m = -z for y = 0: the Huber function of max(0, 1 - m).

        0 for m >= 1,    (1 - m)^2 / 2 for 0 < m < 1,    1/2 - m for m <= 0

    It is convex, its derivative lies between -1 and 1, and its second derivative is at most 1; the hinge
    max(0, 1 - m) of the usual support vector machine is nowhere more than 1/2 above it.

    Args:
        z: output of one record, shape (1,) or ().
        y: label 0 or 1, shape ().

    Returns:
        Shape ().

    Example:
        >>> margins = jnp.array([-1.0, 0.0, 0.5, 1.0, 2.0])
        >>> jax.vmap(hinge_value)(margins, jnp.ones(5)).tolist()
        [1.5, 0.5, 0.125, 0.0, 0.0]

    Source: Rennie & Srebro, Loss functions for preference levels (2005).
    """
    import optax  # here, because no other loss needs it

    z = z.reshape(())
    margin = (2 * y.astype(z.dtype) - 1) * z
    return optax.losses.huber_loss(jax.nn.relu(1 - margin))


def squared_value(z: Array, y: Array) -> Array:
    """(z - y)^2 / 2; its derivative is z - y."""
    return jnp.square(z.reshape(()) - y.astype(z.dtype)) / 2


def multiclass_accuracy(z: Array, y: Array) -> Array:
    """Share of labels (of records, or of tokens) that are their largest output."""
    return jnp.mean(jnp.argmax(z, axis=-1) == y)


def binary_accuracy(z: Array, y: Array) -> Array:
    """Share of records with z above 0 exactly where y is 1."""
    return jnp.mean((z.reshape(y.shape) > 0) == (y > 0))


def r_squared(z: Array, y: Array) -> Array:
    """1 - sum (y - z)^2 / sum (y - mean y)^2, and 0 where all y are equal."""
    y = y.astype(z.dtype)
    residual = jnp.sum(jnp.square(y - z.reshape(y.shape)))
    spread = jnp.sum(jnp.square(y - jnp.mean(y)))
    return jnp.where(spread > 0, 1.0 - residual / jnp.where(spread > 0, spread, 1.0), 0.0)


LINEAR_LOSSES = {
    "softmax": Loss(softmax_value, multiclass_accuracy),
    "logistic": Loss(logistic_value, binary_accuracy),
    "hinge": Loss(hinge_value, binary_accuracy),
    "squared": Loss(squared_value, r_squared),
}
"""The losses of linear models, by name; networks have two more (`structured_losses.LOSSES`)."""
