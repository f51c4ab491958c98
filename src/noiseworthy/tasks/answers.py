"""What many models of one kind answer to the same records."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


@partial(jax.jit, static_argnums=0)
def answers_of(task: Any, theta: Array, x: Array) -> Array:
    """Outputs of models, theta of shape (S, p), for prepared records, shape (S, n, outputs)."""
    return jax.lax.map(lambda one: task.answers(one, x).reshape(len(x), -1), jnp.asarray(theta))
