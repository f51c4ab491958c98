"""Batches that are worked on a part at a time."""

from __future__ import annotations

from collections.abc import Callable

from noiseworthy._jax import Array, jax, jnp
from noiseworthy.tasks.batch import Batch

_SHARE = 64
"""Bytes of a device for one number that is worked on at once: a sixteenth of its memory is filled."""


def room(cached: int, sharers: int = 1) -> int:
    """Numbers that each of some sharers works on: what a CPU caches, or a part of another device's memory."""
    if jax.default_backend() == "cpu":
        return cached
    known = jax.local_devices()[0].memory_stats() or {}
    return known.get("bytes_limit", _SHARE * cached * sharers) // (_SHARE * sharers)


def chunks(batch: Batch, most: int) -> Batch:
    """The batch as (chunks, records, ...) with chunks as even as possible; added copies have mask 0."""
    n = len(batch.mask)
    many = max(1, -(-n // most))
    size = -(-n // many)

    def split(values: Array, mode: str) -> Array:
        padding = [(0, many * size - n)] + [(0, 0)] * (values.ndim - 1)
        return jnp.pad(values, padding, mode=mode).reshape(many, size, *values.shape[1:])

    return Batch(split(batch.x, "edge"), split(batch.y, "edge"), split(batch.mask, "constant"))


def by_parts(function: Callable[..., Array], arrays: tuple[Array, ...], most: int) -> Array:
    """What a function of records side by side gives for all rows of arrays, at most so many at once."""
    n = len(arrays[0])
    many = max(1, -(-n // most))
    size = -(-n // many)

    def split(values: Array) -> Array:
        widths = [(0, many * size - n)] + [(0, 0)] * (values.ndim - 1)
        return jnp.pad(values, widths, mode="edge").reshape(many, size, *values.shape[1:])

    made = jax.lax.map(lambda part: function(*part), tuple(map(split, arrays)))
    return made.reshape(-1, *made.shape[2:])[:n]


def without_padding(batch: Batch) -> Batch:
    """The batch with a copy of a record in each place of mask 0: what padding holds can spoil no sum."""
    first, kept = jnp.argmax(batch.mask > 0), batch.mask > 0

    def fill(values: Array) -> Array:
        return jnp.where(kept.reshape(-1, *[1] * (values.ndim - 1)), values, values[first])

    return Batch(fill(batch.x), fill(batch.y), batch.mask)
