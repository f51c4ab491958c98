"""How a preparation is computed: what most tasks do without."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from noiseworthy import _validate as check
from noiseworthy._jax import Array, jax, jnp
from noiseworthy._keys import Purpose, named_key
from noiseworthy.errors import InvalidInput
from noiseworthy.tasks import scattering
from noiseworthy.tasks.images import image_shape
from noiseworthy.tasks.names import FOURIER, SCATTERING
from noiseworthy.tasks.preparation import Preparation

if TYPE_CHECKING:
    from noiseworthy.tasks.encoder import Encoder


_MOST_NUMBERS = 2**22
"""Of a projection, or frequencies times those of a record: more take longer to draw than trainings take."""


@dataclass(frozen=True)
class Fourier:
    """Random Fourier features: a linear model on them sees curves in a table; all of it is public.

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


_AT_ONCE = 32
"""Records whose features are computed together: what they need on the way fits a core's cache."""


class Map(NamedTuple):
    """A public map of single records: of a batch, of the shape of one, and whether it needs much room."""

    of: Callable[[Array], Array]
    shape_after: Callable[[tuple[int, ...]], tuple[int, ...]]
    roomy: bool


def map_of(features: str | Encoder) -> Map:
    """The public map of a name, or of an encoder.

    Raises:
        InvalidInput: no map has it.
    """
    if not isinstance(features, str):
        return Map(features, features.shape_after, roomy=False)
    if features == SCATTERING:
        return Map(scattering.scattering, scattering.shape_after, roomy=True)
    fourier = Fourier.read(features)
    return Map(fourier, fourier.shape_after, roomy=False)


def prepared(preparation: Preparation, x: Array) -> Array:
    """Records as float32 after all steps of a preparation; `Preparation.__call__`."""
    shape = shape_after(preparation, x.shape[1:])
    if preparation.features is None:
        return _finished(preparation, _pooled(preparation, x))
    if not len(x):
        return jnp.zeros((0, *shape), jnp.float32)

    features = map_of(preparation.features)

    def several(records: Array) -> Array:
        return _finished(preparation, features.of(_pooled(preparation, records)))

    if not features.roomy:
        return several(x)
    return jax.lax.map(lambda record: several(record[None])[0], x, batch_size=_AT_ONCE)


def shape_after(preparation: Preparation, record_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a record after all steps; `Preparation.shape_after`."""
    before = _shape_pooled(preparation, record_shape)
    if preparation.features is not None:
        before = map_of(preparation.features).shape_after(before)
    reference, numbers = preparation.reference, math.prod(before)
    if reference is not None and len(reference.mean) != numbers:
        raise InvalidInput(
            f"reference must hold records of {numbers} numbers, got "
            f"{len(reference.mean)}; take public records of the same kind"
        )
    if preparation.projection is None:
        return before
    _check_projection(preparation, preparation.projection, numbers)
    return (preparation.projection,)


def _finished(preparation: Preparation, x: Array) -> Array:
    return _projected(preparation, _seen(preparation, x))


def _shape_pooled(preparation: Preparation, shape: tuple[int, ...]) -> tuple[int, ...]:
    if (side := preparation.pooling) == 1:
        return shape
    height, width, *channels = _image(side, shape)
    return -(-height // side), -(-width // side), *channels


def _image(side: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    image = image_shape("pooling", shape)
    if len(image) not in (2, 3):
        raise InvalidInput(
            f"pooling needs images (H, W) or (H, W, channels), got records of shape {shape}; leave it out"
        )
    check.count("pooling", side, most=min(image[:2]), remedy=f"the images have shape {image}")
    return image


def _check_projection(preparation: Preparation, projection: int, numbers: int) -> None:
    most, have = numbers, f"records have {numbers} numbers"
    if preparation.reference is not None:
        most = len(preparation.reference.directions)
        have = f"the reference has {most} directions"
    wanted = check.count("projection", projection, most=most, remedy=have)
    if wanted * numbers > _MOST_NUMBERS:
        raise InvalidInput(
            f"projection = {wanted} of records of {numbers} numbers is a matrix of more than "
            f"{_MOST_NUMBERS}; project to fewer numbers, or pool first"
        )


def _pooled(preparation: Preparation, x: Array) -> Array:
    if (k := preparation.pooling) == 1:
        return x
    height, width, *channels = _image(k, x.shape[1:])
    images = x.reshape(len(x), height, width, -1)
    padded = jnp.pad(images, ((0, 0), (0, -height % k), (0, -width % k), (0, 0)))
    rows, columns = padded.shape[1] // k, padded.shape[2] // k
    blocks = padded.reshape(len(x), rows, k, columns, k, -1)
    return (blocks.sum(axis=(2, 4)) / k).reshape(len(x), rows, columns, *channels)


def _seen(preparation: Preparation, x: Array) -> Array:
    if (reference := preparation.reference) is None:
        return x
    rows = x.reshape(len(x), -1)
    if reference.center is not None and reference.spread is not None:
        rows = (rows - reference.center) / reference.spread
    norms = jnp.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / jnp.where(norms > 0, norms, 1.0) - reference.mean).reshape(x.shape)


def _projected(preparation: Preparation, x: Array) -> Array:
    if preparation.projection is None:
        return x
    rows = x.reshape(len(x), -1)
    return jnp.matmul(rows, _directions(preparation, rows.shape[1]).T, precision="highest")


def _directions(preparation: Preparation, numbers: int) -> Array:
    """P, of the reference, or uniform among matrices with orthonormal rows, shape (d', d)."""
    if preparation.reference is not None:
        return jnp.asarray(preparation.reference.directions[: preparation.projection])
    key = named_key(jax.random.key(preparation.seed), Purpose.PROJECTION)
    return jax.random.orthogonal(key, preparation.projection or numbers, dtype=jnp.float32, m=numbers)
