"""True heterogeneity of a federation: what estimates are held against. It reads data and is not private."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from scipy.optimize import minimize

from noiseworthy.engines.shards import Shards
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch

Real = NDArray[np.float64]
_OPTIONS = {"maxiter": 1000, "maxfun": 2000, "gtol": 1e-5, "ftol": 1e-6}
"""A step that gains less than a millionth ends the search; the rest to the minimum is some 1e-4."""


class Truth(NamedTuple):
    """Gamma_n = F_n(w*) - min F_n, and its first part.

    Attributes:
        heterogeneity: Gamma_n, shape (N,).
        common: F_n(w*), shape (N,).
    """

    heterogeneity: Real
    common: Real


def true_heterogeneity(shards: Shards, task: Task) -> Truth:
    """Gamma_n of every client for a convex task, by minimising F and each F_n without noise.

        F_n(w) = mean loss of client n + (ridge/2) ||w||^2,    F = (1/N) sum F_n,    w* = argmin F

    For comparison only: the result belongs to nobody who has not seen all records.

    Args:
        shards: the federation.
        task: linear model.

    Returns:
        `Truth`.

    Example:
        >>> from noiseworthy.data import Federation
        >>> from noiseworthy.tasks import LinearModel
        >>> alone = [([[1.0]], [0.0]), ([[1.0]], [2.0])]
        >>> fed = Federation.from_clients(alone, test=alone[0], classes=None, name="two")
        >>> task = LinearModel(1, 1, "squared")
        >>> true_heterogeneity(Shards.load(fed, task), task).heterogeneity.round(3)  # w* = 1, (w* - y)^2 / 2
        array([0.5, 0.5])
    """

    def own(theta: Array, batch: Any) -> Array:
        return _mean_loss(task, theta, batch)

    def mean(theta: Array, batch: Any) -> Array:
        return jnp.mean(jax.vmap(own, in_axes=(None, 0))(theta, batch))

    start, everybody = np.zeros(task.dimension), shards.train
    best, _ = _least(jax.jit(jax.value_and_grad(mean)), start, everybody)
    common = jax.jit(jax.vmap(own, in_axes=(None, 0)))(jnp.asarray(best, jnp.float32), everybody)
    descend = jax.jit(jax.value_and_grad(own))
    least = [_least(descend, best, shards.of(client))[1] for client in range(shards.clients)]
    at_common = np.asarray(common, float)
    return Truth(np.maximum(at_common - np.array(least), 0.0), at_common)


def _mean_loss(task: Task, theta: Array, batch: Batch) -> Array:
    losses = jnp.where(batch.mask > 0, task.losses(theta, batch), 0.0)
    return jnp.sum(losses) / jnp.maximum(batch.size, 1) + task.ridge / 2 * jnp.sum(jnp.square(theta))


def _least(value_and_slope: Callable[..., Any], start: Real, batch: Any) -> tuple[Real, float]:
    """Where a convex loss is least, and its value there."""

    def at(theta: Real) -> tuple[float, Real]:
        value, slope = value_and_slope(jnp.asarray(theta, jnp.float32), batch)
        return float(value), np.asarray(slope, float)

    found = minimize(at, start, jac=True, method="L-BFGS-B", options=_OPTIONS)
    return found.x, float(found.fun)
