"""Features of records on disk, so that a second training of the same records does not compute them again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import Array, jax, jnp
from noiseworthy._places import once
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.preparation import preparing

LEAST_RECORDS = 4096
"""Fewer are computed in a second or two, and are not kept."""
_MAP = 1
"""Version of the maps: another one where their numbers change."""


def rows_of(task: LinearModel, x: NDArray) -> Array:
    """Prepared records, read from disk where they were prepared before, else kept there.

    Files lie in `features` beside the compiled programs, where these are kept, for the eyes of their user
    alone: they are as private as the records. A name says the content of the records and of the map.

    Args:
        task: whose preparation has features.
        x: records, shape (n, *record_shape).
    """
    formula = isinstance(task.preparation.features, str)  # an encoder keeps what it gives itself
    if not formula or len(x) < LEAST_RECORDS or (place := _place(task, x)) is None:
        return preparing(task)(jax.device_put(x))
    return jnp.asarray(once(place, lambda: np.asarray(preparing(task)(jax.device_put(x)))))


def place_of(parts: Iterable[bytes | str | memoryview]) -> Path | None:
    """Where what follows from some parts is kept; None where nothing is."""
    folder = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    if not folder:
        return None
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
    return Path(folder) / "features" / f"{digest.hexdigest()}.npy"


def _place(task: LinearModel, x: NDArray) -> Path | None:
    seen, whole = task.preparation, np.ascontiguousarray(x)
    numbers = {} if seen.reference is None else seen.reference.arrays(seen.projection)
    # whatever rows follow from: of two tasks that differ in what is left out one would read the other's rows
    facts = (
        _MAP, version("jax"), str(whole.dtype), whole.shape, seen.features, seen.pooling, seen.projection,
        seen.seed, task.feature_norm, task.normalise, task.bias, task.most_weight, [*numbers],
    )  # fmt: skip
    return place_of([repr(facts), whole.data, *(array.data for array in numbers.values())])
