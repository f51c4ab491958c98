"""A small network in equinox, which examples/own_model.toml trains: model = "own_model:make"."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp


class Network(eqx.Module):
    """Two layers on one record of any shape."""

    first: eqx.nn.Linear
    second: eqx.nn.Linear

    def __call__(self, record: jax.Array) -> jax.Array:
        return self.second(jnp.tanh(self.first(record.ravel())))


def make(record_shape: tuple[int, ...], classes: int | None) -> Network:
    """The network for records of a shape: a number for each class, or one where labels are numbers."""
    one, other = jax.random.split(jax.random.key(0))
    width = int(jnp.prod(jnp.array(record_shape)))
    return Network(eqx.nn.Linear(width, 16, key=one), eqx.nn.Linear(16, classes or 1, key=other))
