"""Public preparation of records: pooling, a public reference, projections. None reads private data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import Array

from noiseworthy import _validate as check
from noiseworthy._keys import Purpose, named_key
from noiseworthy.errors import InvalidInput
from noiseworthy.tasks.images import image_shape

if TYPE_CHECKING:
    from noiseworthy.tasks.reference import Reference

_MOST_NUMBERS = 2**22
"""A projection of more numbers than this takes longer to draw than trainings take."""


@dataclass(frozen=True)
class Preparation:
    """A map of each record alone, the same for all: pooling, then what is not common, then a projection.

        pooled_B = (1/k) sum of x over a k x k block B,    seen = pooled/|pooled| - m,
        projected = P seen,    P P^T = I

    Pooling and P have orthonormal rows, so that no L2 norm grows. Pooling divides the L1 norm by k or more,
    while the L2 norm of a smooth image stays nearly what it was: under Laplace noise the signal shrinks less
    than the noise, whose size follows L1 norms. With a reference the mean m of public records goes, which
    carries most of a record's norm and tells nothing, and P keeps the directions in which public records
    differ most; without one nothing is subtracted, and P is random.

    Attributes:
        pooling: k, side of the blocks in pixels, at least 1, which pools nothing. Sides that k does not
            divide are padded with zeros below and to the right; channels are pooled apart.
        projection: d', numbers per record after the projection, or None for no projection.
        seed: public, of a random P.
        reference: m and the rows of P, from public records as they are after pooling.

    Raises:
        InvalidInput: a k or d' below 1, a negative seed.

    Guarantee: the map depends on its attributes and the shape of records only, and each record's result on
    that record only, whatever the reference holds. Its L2 norm is at most the record's, or 2 with a
    reference of public records (`Reference.of`), up to rounding in float32.

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

    def __post_init__(self) -> None:
        check.count("pooling", self.pooling, remedy="1 leaves images as they are")
        if self.projection is not None:
            check.count("projection", self.projection, remedy="leave it out to project nothing")
        check.count("seed", self.seed, least=0)

    def __call__(self, x: Array) -> Array:
        """Records (n, *record_shape) as float32 of shape (n, *shape_after(record_shape)).

        Raises:
            InvalidInput: what `shape_after` refuses.
        """
        x = jnp.asarray(x, jnp.float32)
        self.shape_after(x.shape[1:])
        return self._projected(self._seen(self._pooled(x)))

    def shape_after(self, record_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of a record after the map.

        Args:
            record_shape: (H, W), (H, W, channels) or flat square images (H^2,) for pooling, else any.

        Raises:
            InvalidInput: pooling of records that are no images, or are smaller than a block; a reference of
                another size; a projection to more numbers than there are, or one too large to be drawn.
        """
        pooled = self._shape_pooled(tuple(record_shape))
        if self.reference is not None and len(self.reference.mean) != math.prod(pooled):
            raise InvalidInput(
                f"reference must hold records of {math.prod(pooled)} numbers, got "
                f"{len(self.reference.mean)}; take public records of the same kind"
            )
        if self.projection is None:
            return pooled
        self._check_projection(math.prod(pooled))
        return (self.projection,)

    def _shape_pooled(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if self.pooling == 1:
            return shape
        height, width, *channels = self._image(shape)
        return -(-height // self.pooling), -(-width // self.pooling), *channels

    def _image(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        image = image_shape("pooling", shape)
        if len(image) not in (2, 3):
            raise InvalidInput(
                f"pooling needs images of shape (H, W) or (H, W, channels), got records of shape {shape}; "
                "leave it out"
            )
        check.count("pooling", self.pooling, most=min(image[:2]), remedy=f"the images have shape {image}")
        return image

    def _check_projection(self, numbers: int) -> None:
        most, have = numbers, f"records have {numbers} numbers"
        if self.reference is not None:
            most = len(self.reference.directions)
            have = f"the reference has {most} directions"
        wanted = check.count("projection", self.projection, most=most, remedy=have)
        if wanted * numbers > _MOST_NUMBERS:
            raise InvalidInput(
                f"projection = {wanted} of records of {numbers} numbers is a matrix of more than "
                f"{_MOST_NUMBERS}; project to fewer numbers, or pool first"
            )

    def _pooled(self, x: Array) -> Array:
        if self.pooling == 1:
            return x
        k, (height, width, *channels) = self.pooling, self._image(x.shape[1:])
        images = x.reshape(len(x), height, width, -1)
        padded = jnp.pad(images, ((0, 0), (0, -height % k), (0, -width % k), (0, 0)))
        rows, columns = padded.shape[1] // k, padded.shape[2] // k
        blocks = padded.reshape(len(x), rows, k, columns, k, -1)
        return (blocks.sum(axis=(2, 4)) / k).reshape(len(x), rows, columns, *channels)

    def _seen(self, x: Array) -> Array:
        if self.reference is None:
            return x
        rows = x.reshape(len(x), -1)
        norms = jnp.linalg.norm(rows, axis=1, keepdims=True)
        return (rows / jnp.where(norms > 0, norms, 1.0) - self.reference.mean).reshape(x.shape)

    def _projected(self, x: Array) -> Array:
        if self.projection is None:
            return x
        rows = x.reshape(len(x), -1)
        return jnp.matmul(rows, self._directions(rows.shape[1]).T, precision="highest")

    def _directions(self, numbers: int) -> Array:
        """P, of the reference, or uniform among matrices with orthonormal rows, shape (d', d)."""
        if self.reference is not None:
            return jnp.asarray(self.reference.directions[: self.projection])
        key = named_key(jax.random.key(self.seed), Purpose.PROJECTION)
        return jax.random.orthogonal(key, self.projection or numbers, dtype=jnp.float32, m=numbers)


AS_THEY_ARE = Preparation()
"""Records go to the model unchanged."""
