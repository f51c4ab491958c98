"""The local steps of DP-FedAvg, the same in simulation and at an owner."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
from jax.random import fold_in

from noiseworthy._jax import Array, jnp, lax
from noiseworthy.methods.local import Numbers, clip_whole, mean_gradient
from noiseworthy.privacy.sensitivity import Norm

if TYPE_CHECKING:
    from noiseworthy.privacy.clipping import ClippingMode
    from noiseworthy.tasks.base import Task


class LocalSteps(eqx.Module):
    """Local steps of one round at one client.

    Attributes:
        task: model and loss (static).
        norm: of the clip (static).
        clipping: what is clipped, A to E (static).
        batch_size: records per step, None for all (static).
        clip_norm: zeta, or C for mode D.
    """

    task: Task = eqx.field(static=True)
    norm: Norm = eqx.field(static=True)
    clipping: ClippingMode = eqx.field(static=True)
    batch_size: int | None = eqx.field(static=True)
    clip_norm: Numbers

    def moved(
        self, theta: Array, shard: Any, size: Array, key: Array, count: Numbers, eta: Callable[[Array], Array]
    ) -> Array:
        """Delta_l of E local steps, summed on its own so that its rounding is relative to itself.

        Args:
            theta: the model that was sent, shape (p,).
            shard: the client's records, or what full batches need to know of them.
            size: records n_l.
            key: of the round's minibatches.
            count: E.
            eta: the step size of step j.

        Returns:
            Shape (p,), clipped in mode D.
        """

        def step(j: Array, moved: Array) -> Array:
            return moved - eta(j) * self._direction(theta + moved, shard, size, fold_in(key, j))

        moved = lax.fori_loop(0, count, step, jnp.zeros_like(theta))
        return clip_whole(moved, self.clip_norm, self.norm) if self.clipping == "D" else moved

    def _direction(self, theta: Array, shard: Any, size: Array, key: Array) -> Array:
        """The local gradient, clipped where the mode says, with the ridge of the local model."""
        ridge = self.task.ridge * theta
        if self.clipping in ("C", "D"):
            mean = mean_gradient(self.task, theta, shard, self.batch_size, key)
            return ridge + (mean if self.clipping == "D" else clip_whole(mean, self.clip_norm, self.norm))
        total = self.task.clipped_gradient_sum(theta, shard, jnp.asarray(self.clip_norm), self.norm)
        return ridge + total / size.astype(total.dtype)
