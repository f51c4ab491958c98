"""JAX, loaded when something is computed: a plan from constants asks models what they are and runs none."""

from collections.abc import Iterator
from contextlib import contextmanager
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

__all__ = ["Array", "in_float32", "jax", "jnp", "lax"]


@contextmanager
def in_float32() -> Iterator[None]:
    """What is computed meanwhile in this thread is float32, also where a user has enabled float64."""
    # of numbers that are float64 JAX would otherwise make states of another type, and draw other ones
    with jax.enable_x64(False):
        yield
