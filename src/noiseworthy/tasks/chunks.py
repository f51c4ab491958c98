"""Batches that are worked on a part at a time."""

from __future__ import annotations

from collections.abc import Callable

from noiseworthy._jax import Array, jax, jnp
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.clipping import clip, upper_norm_of_long

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
    # copies of records, because zeros may have slopes that are NaN (of a norm at 0), which no mask undoes
    return Batch(_split(batch.x, most), _split(batch.y, most), _split(batch.mask, most, "constant"))


def by_parts(function: Callable[..., Array], arrays: tuple[Array, ...], most: int) -> Array:
    """What a function of records side by side gives for all rows of arrays, at most so many at once."""
    made = jax.lax.map(lambda part: function(*part), tuple(_split(one, most) for one in arrays))
    return jax.tree.map(lambda all: all.reshape(-1, *all.shape[2:])[: len(arrays[0])], made)


def _split(rows: Array, most: int, mode: str = "edge") -> Array:
    """Rows as (parts, rows, ...), at most so many in a part, with some added at the end."""
    many = max(1, -(-len(rows) // most))
    size = -(-len(rows) // many)
    added = [(0, many * size - len(rows))] + [(0, 0)] * (rows.ndim - 1)
    return jnp.pad(rows, added, mode=mode).reshape(many, size, *rows.shape[1:])


def without_padding(batch: Batch) -> Batch:
    """The batch with a copy of a record in each place of mask 0: what padding holds can spoil no sum."""
    first, kept = jnp.argmax(batch.mask > 0), batch.mask > 0

    def fill(values: Array) -> Array:
        return jnp.where(kept.reshape(-1, *[1] * (values.ndim - 1)), values, values[first])

    return Batch(fill(batch.x), fill(batch.y), batch.mask)


def formed_sum(
    loss: Callable[[Array, Array, Array], Array], theta: Array, parts: Batch, clip_norm: Array | float,
    norm: Norm,
) -> Array:  # fmt: skip
    """Sum of the rows' gradients, each formed and clipped to C; parts in sequence, rows of a part at once.

    For rows that share nothing but the model.

    Args:
        loss: of parameters and one row, its features and its label.
        theta: parameters, shape (p,).
        parts: rows as `chunks` has them.
        clip_norm: C above 0.
        norm: in which C holds.

    Guarantee: each summand has norm at most C, float32 rounding included (`upper_norm`, `clip`). A row
    contributes zero if its gradient is not finite or its squared norm overflows.
    """

    def clipped(x: Array, y: Array) -> Array:
        gradient = jax.grad(loss)(theta, x, y)
        return clip(gradient, upper_norm_of_long(gradient, norm), clip_norm)

    def add(total: Array, chunk: Batch) -> tuple[Array, None]:
        kept, mask = jax.vmap(clipped)(chunk.x, chunk.y), chunk.mask.astype(theta.dtype)
        # XLA on CPU is twice as slow with a plain sum over the records.
        return total + jnp.matmul(mask, kept, precision="highest"), None

    return jax.lax.scan(add, jnp.zeros_like(theta), parts)[0]
