"""What algorithms share at a client, simulated or its owner: memory, a mean gradient, a clip of a vector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.clipping import clip, upper_norm_of_long

if TYPE_CHECKING:
    from noiseworthy.tasks.base import Task

Numbers: TypeAlias = Array | np.ndarray
"""Numbers of an algorithm: on the host while trainings are assembled, on the device while they run."""
Memory: TypeAlias = Any
"""What a client or the server keeps from one round to the next, a pytree of arrays; () if nothing."""


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
        # padding lies behind the records, so that every place below their number is one
        chosen = jax.random.randint(key, (batch_size,), 0, shard.size)
        shard = Batch(shard.x[chosen], shard.y[chosen], jnp.ones(batch_size))
    return task.gradient(theta, shard)


def clip_whole(v: Array, clip_norm: Numbers, norm: Norm) -> Array:
    """v scaled to norm at most C, float32 rounding included; zero where v is not finite."""
    return clip(v, upper_norm_of_long(v, norm), jnp.asarray(clip_norm))
