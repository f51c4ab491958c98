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
        value: loss of one record from its output z, shape (K,), and its label y, shape ().
        quality: accuracy (R^2 for regression) of outputs, shape (n, K), for labels, shape (n,).
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


def squared_value(z: Array, y: Array) -> Array:
    """(z - y)^2 / 2; its derivative is z - y."""
    return jnp.square(z.reshape(()) - y.astype(z.dtype)) / 2


def multiclass_accuracy(z: Array, y: Array) -> Array:
    """Share of records whose largest output is their label."""
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


def unknown_quality(z: Array, y: Array) -> Array:
    """NaN: a loss that only its user knows has no accuracy."""
    return jnp.full((), jnp.nan)


LOSSES = {
    "softmax": Loss(softmax_value, multiclass_accuracy),
    "logistic": Loss(logistic_value, binary_accuracy),
    "squared": Loss(squared_value, r_squared),
}
"""The losses that have a name."""
