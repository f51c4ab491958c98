"""One type of number, whatever a user has enabled."""

from collections.abc import Iterator
from contextlib import contextmanager

from noiseworthy._jax import jax


@contextmanager
def in_float32() -> Iterator[None]:
    """What is computed meanwhile in this thread is float32, also where a user has enabled float64."""
    # of numbers that are float64 JAX would otherwise make states of another type, and draw other ones
    with jax.enable_x64(False):
        yield
