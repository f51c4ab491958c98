"""Losses of one record as functions of the model's output."""

from __future__ import annotations

from noiseworthy._jax import Array, jax, jnp


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


LINEAR_LOSSES = {
    "softmax": softmax_value,
    "logistic": logistic_value,
    "hinge": hinge_value,
    "squared": squared_value,
}
"""The losses of linear models, by name; `structured_losses.LOSSES` has more, with what a score reports."""
