"""Noise for simulations, stamped as such: float noise from a seed is no privacy mechanism.

One coordinate of float32 noise tells neighbouring data sets apart with probability 0.88, so a deployed
upload must never use this module. It has the right law for measuring accuracy, and that is all.
"""

from __future__ import annotations

from noiseworthy._jax import Array, jnp
from noiseworthy.privacy.mechanisms import Family, law_of
from noiseworthy.privacy.uploads import Assurance

ASSURANCE: Assurance = "simulation"


def simulated_noise(key: Array, family: Family, size: Array, dimension: int, parts: int = 1) -> Array:
    """Noise of one upload, shape (dimension,), of a mechanism and size.

    Where `parts` is more than 1, so many of a law that is not stable add up to one noise of this size.

    Example:
        >>> import jax
        >>> simulated_noise(jax.random.key(0), "none", jnp.array(1.0), 3)
        Array([0., 0., 0.], dtype=float32)
    """
    law = law_of(family)
    if parts > 1:
        return size * law.analysis.shares(key, (dimension,), parts)
    drawn = law.analysis.draws(key, (dimension,))
    return size * drawn if law.noisy else drawn


def simulated_sum(key: Array, family: Family, sizes: Array, dimension: int, parts: int = 1) -> Array:
    """The summed noise of several uploads, shape (dimension,), with weighted sizes (b,).

    Of a stable law, one draw of the summed variance has the law of the sum of b draws; others need all b.
    Where `parts` is more than 1, so many of them add up to one noise of their size.

    Example:
        >>> import jax
        >>> simulated_sum(jax.random.key(0), "none", jnp.ones(5), 2)
        Array([0., 0.], dtype=float32)
    """
    law = law_of(family)
    if law.stable:
        return simulated_noise(key, family, jnp.sqrt(jnp.sum(jnp.square(sizes))), dimension)
    if parts > 1:
        return sizes @ law.analysis.shares(key, (len(sizes), dimension), parts)
    return sizes @ law.analysis.draws(key, (len(sizes), dimension))
