"""Noise for simulations, stamped as such: float noise from a seed is no privacy mechanism.

One coordinate of float32 noise tells neighbouring data sets apart with probability 0.88, so a deployed
upload must never use this module. It has the right law for measuring accuracy, and that is all.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from noiseworthy import _validate as check
from noiseworthy.privacy.mechanisms import FAMILIES, Family

ASSURANCE = "simulation"


def simulated_noise(key: Array, family: Family, size: Array, dimension: int) -> Array:
    """Noise of one upload, shape (dimension,): Gaussian with std `size`, or Laplace with scale `size`.

    Example:
        >>> simulated_noise(jax.random.key(0), "none", jnp.array(1.0), 3)
        Array([0., 0., 0.], dtype=float32)
    """
    check.one_of("mechanism", family, FAMILIES)
    if family == "gaussian":
        return size * jax.random.normal(key, (dimension,), jnp.float32)
    if family == "laplace":
        return size * jax.random.laplace(key, (dimension,), jnp.float32)
    return jnp.zeros(dimension, jnp.float32)


def simulated_sum(key: Array, family: Family, sizes: Array, dimension: int) -> Array:
    """The summed noise of several uploads, shape (dimension,), with weighted sizes (b,).

    One Gaussian draw of the summed variance has the law of the sum of b draws; Laplace noise needs all b.

    Example:
        >>> simulated_sum(jax.random.key(0), "none", jnp.ones(5), 2)
        Array([0., 0.], dtype=float32)
    """
    if family != "laplace":
        return simulated_noise(key, family, jnp.sqrt(jnp.sum(jnp.square(sizes))), dimension)
    return sizes @ jax.random.laplace(key, (len(sizes), dimension), jnp.float32)
