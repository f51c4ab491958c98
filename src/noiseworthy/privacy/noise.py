"""Noise for simulations, stamped as such: float noise from a seed is no privacy mechanism.

One coordinate of float32 noise tells neighbouring data sets apart with probability 0.88, so a deployed
upload must never use this module. It has the right law for measuring accuracy, and that is all.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from noiseworthy.privacy.mechanisms import Family, law_of
from noiseworthy.privacy.uploads import Assurance, releasable

ASSURANCE: Assurance = "simulation"


@dataclass(frozen=True)
class SimulatedNoise:
    """Seeded noise behind the protocol of deployed noise, to rehearse a deployment and repeat it bit by bit.

    Attributes:
        family: of the noise.
        scale: noise size in steps of the grid.
        key: of the one upload that this noise is for.

    Example:
        >>> import jax
        >>> noise = SimulatedNoise("laplace", 100.0, jax.random.key(0))
        >>> noise.assurance, noise.added_to(np.zeros(4, np.int64)).dtype
        ('simulation', dtype('int64'))
    """

    family: Family
    scale: float
    key: Array

    @property
    def assurance(self) -> Assurance:
        """The stamp of uploads with this noise."""
        return ASSURANCE

    def added_to(self, total: NDArray[np.int64]) -> NDArray[np.int64]:
        """A total of whole steps plus rounded float noise, shape (p,); the same at every call.

        Raises:
            InvalidInput: anything but int64 within +-2^53, before or after.
        """
        drawn = simulated_noise(self.key, self.family, jnp.ones(()), releasable(total).size)
        return releasable(total + np.rint(self.scale * np.asarray(drawn, np.float64)).astype(np.int64))


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
