"""JAX, loaded when something is computed: a plan from constants asks models what they are and runs none."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jax as jax
    import jax.numpy as jnp
    from jax import Array, lax
else:

    class _WhenUsed:
        def __init__(self, module):
            self._module = module

        def __getattr__(self, name):
            return getattr(import_module(self._module), name)

    jax, jnp, lax = map(_WhenUsed, ("jax", "jax.numpy", "jax.lax"))
    Array = "jax.Array"  # for annotations, which nothing evaluates

__all__ = ["Array", "jax", "jnp", "lax"]
