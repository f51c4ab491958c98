"""Public preparation of records: features, pooling, a reference, projections. None reads private data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from noiseworthy import _validate as check
from noiseworthy._jax import Array, jax, jnp

if TYPE_CHECKING:
    from noiseworthy.tasks.base import Task
    from noiseworthy.tasks.encoder import Encoder
    from noiseworthy.tasks.reference import Reference


@dataclass(frozen=True)
class Preparation:
    """A map of each record alone, the same for all: pooling, features, what is not common, a projection.

        pooled_B = (1/k) sum of x over a k x k block B,    f = features(pooled),    z = (f - c)/s
        seen = z/|z| - m,    projected = P seen,    P P^T = I

    Pooling and P have orthonormal rows, so that no L2 norm grows. Pooling divides the L1 norm by k or more,
    while the L2 norm of a smooth image stays nearly what it was: under Laplace noise the signal shrinks less
    than the noise, whose size follows L1 norms. With a reference the mean m of public records goes, which
    carries most of a record's norm and tells nothing, and P keeps the directions in which public records
    differ most; without one nothing is subtracted, and P is random. Public features say more of a record than
    its pixels do; c and s, of the reference, bring their channels to one size.

    Attributes:
        pooling: k, side of the blocks in pixels, at least 1, which pools nothing. Sides that k does not
            divide are padded with zeros below and to the right; channels are pooled apart.
        projection: d', numbers per record after the projection, or None for no projection.
        seed: public, of a random P.
        reference: m, c, s and the rows of P, from public records as they are before they are seen against it.
        features: a public map, `scattering` of images, `fourier:COUNT:BANDWIDTH:SEED`, an encoder; or None.

    Raises:
        InvalidInput: a k or d' below 1, a negative seed.

    Guarantee: the map depends on its attributes and the shape of records only, and each record's result on
    that record only, whatever the reference holds. Its L2 norm is at most the record's (its features', where
    there are any), or 2 with a reference of public records (`Reference.of`), up to rounding in float32.

    Example:
        >>> Preparation(pooling=2)(jnp.arange(8.0).reshape(1, 2, 4))
        Array([[[5., 9.]]], dtype=float32)
        >>> Preparation(pooling=2, projection=50).shape_after((28, 28))
        (50,)
    """

    pooling: int = 1
    projection: int | None = None
    seed: int = 0
    reference: Reference | None = None
    features: str | Encoder | None = None

    def __post_init__(self) -> None:
        check.count("pooling", self.pooling, remedy="1 leaves images as they are")
        if self.projection is not None:
            check.count("projection", self.projection, remedy="leave it out to project nothing")
        check.count("seed", self.seed, least=0)

    @property
    def plain(self) -> bool:
        """Whether records stay as they are."""
        return self.pooling == 1 and self.projection is self.reference is self.features is None

    def __call__(self, x: Array) -> Array:
        """Records (n, *record_shape) as float32 of shape (n, *shape_after(record_shape)).

        Raises:
            InvalidInput: what `shape_after` refuses.
        """
        x = jnp.asarray(x, jnp.float32)
        if self.plain:
            return x
        from noiseworthy.tasks.preparing import prepared  # here, because most requests state none of it

        return prepared(self, x)

    def shape_after(self, record_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of a record after the map.

        Args:
            record_shape: (H, W), (H, W, channels) or flat square images (H^2,) for pooling and scattering,
                else any.

        Raises:
            InvalidInput: pooling of records that are no images, or are smaller than a block; features that
                are unknown or that records lack; a reference of another size; a projection to more numbers
                than there are, or one too large to be drawn.
        """
        if self.plain:
            return tuple(record_shape)
        from noiseworthy.tasks.preparing import shape_after

        return shape_after(self, tuple(record_shape))


@lru_cache(maxsize=64)
def preparing(task: Task) -> Callable[[Array], Array]:
    """`task.prepare` as one program for all records of one shape; those of old tasks are let go."""
    return jax.jit(task.prepare)


AS_THEY_ARE = Preparation()
"""Records go to the model unchanged."""
