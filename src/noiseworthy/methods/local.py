"""What local algorithms share at a client: its mean gradient, and a clip of a whole vector."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from noiseworthy.methods.algorithm import Numbers
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.base import Batch, Task
from noiseworthy.tasks.clipping import clip, upper_norm_of_long


def mean_gradient(task: Task, theta: Array, shard: Any, batch_size: int | None, key: Array) -> Array:
    """The mean gradient of a client's records, without the ridge, or of a minibatch drawn with replacement.

    Args:
        task: model and loss.
        theta: shape (p,).
        shard: the client's records, or their moments.
        batch_size: records per minibatch; None takes all.
        key: of the minibatch.

    Returns:
        Shape (p,). Nothing in it is clipped: what a client sends must be.
    """
    if batch_size is not None:
        chosen = jax.random.randint(key, (batch_size,), 0, shard.size)
        shard = Batch(shard.x[chosen], shard.y[chosen], jnp.ones(batch_size))
    return task.gradient(theta, shard)


def clip_whole(v: Array, clip_norm: Numbers, norm: Norm) -> Array:
    """v scaled to norm at most C, float32 rounding included; zero where v is not finite."""
    return clip(v, upper_norm_of_long(v, norm), jnp.asarray(clip_norm))
