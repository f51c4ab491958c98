"""Random Fourier features: a linear model on them sees curves in a table, from a public seed alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from noiseworthy._jax import Array, jax, jnp
from noiseworthy._keys import Purpose, named_key
from noiseworthy.errors import InvalidInput
from noiseworthy.tasks.names import FOURIER

_MOST_NUMBERS = 2**22
"""Frequencies times numbers of a record, beyond which they take longer to draw than trainings take."""


@dataclass(frozen=True)
class Fourier:
    """What a map is made of, all of it public.

    Attributes:
        count: numbers of a record after it, two for each frequency.
        bandwidth: distance of records, as they come, over which what is learned may change.
        seed: of the frequencies.
    """

    count: int
    bandwidth: float
    seed: int

    @classmethod
    def read(cls, name: str) -> Fourier:
        """That of a name such as `fourier:100:1.5:0`.

        Raises:
            InvalidInput: another name, an odd count, or a bandwidth of 0.
        """
        found = FOURIER.fullmatch(name)
        if found is None or int(found[1]) % 2 or not 1e-30 < float(found[2]) < 1e30:
            raise InvalidInput(
                'features must be "scattering", "fourier" or "fourier:COUNT:BANDWIDTH:SEED" with an even '
                f"COUNT and a BANDWIDTH above 0, such as fourier:100:1.5:0, got {name!r}"
            )
        return cls(int(found[1]), float(found[2]), int(found[3]))

    def shape_after(self, record_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the features of a record.

        Raises:
            InvalidInput: more frequencies than can be drawn for records of this size.

        Example:
            >>> Fourier.read("fourier:100:1.5:0").shape_after((13,))
            (100,)
        """
        if self.count * math.prod(record_shape) > 2 * _MOST_NUMBERS:
            raise InvalidInput(
                f"features = fourier:{self.count} of records of {math.prod(record_shape)} numbers draws more "
                f"than {_MOST_NUMBERS} of them; take a smaller count"
            )
        return (self.count,)

    def __call__(self, x: Array) -> Array:
        """sqrt(1/m) (cos W x, sin W x) of records, with W of m rows from N(0, I / bandwidth^2).

        Args:
            x: records, shape (n, ...).

        Returns:
            float32, shape (n, count).

        Guarantee: deterministic, each record's numbers depend on that record alone, and their norm is 1.

        Source: Rahimi and Recht (2007), random features for large-scale kernel machines; their inner
        products are about exp(-|x - y|^2 / (2 bandwidth^2)).
        """
        rows, m = x.reshape(len(x), -1), self.count // 2
        key = named_key(jax.random.key(self.seed), Purpose.FREQUENCIES)
        drawn = jax.random.normal(key, (rows.shape[1], m), jnp.float32) / self.bandwidth
        # angles may be many turns, of which factors that an accelerator rounds by 2^-11 leave no phase
        turned = jnp.matmul(rows, drawn, precision="highest")
        return jnp.concatenate([jnp.cos(turned), jnp.sin(turned)], axis=1) / m**0.5
