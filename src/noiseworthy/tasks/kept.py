"""Features of records on disk, so that a second training of the same records does not compute them again."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from noiseworthy.tasks.linear import LinearModel

MOST_BYTES = 2**30
"""Of all that is kept; what was used longest ago goes first."""
LEAST_RECORDS = 4096
"""Fewer are computed in a second or two, and are not kept."""
_MAP = 1
"""Version of the maps: another one where their numbers change."""


def rows_of(task: LinearModel, prepare: Callable[[Array], Array], x: NDArray) -> Array:
    """Prepared records, read from disk where they were prepared before, else kept there.

    Files lie in `features` beside the compiled programs, where these are kept, for the eyes of their user
    alone: they are as private as the records. A name says the content of the records and of the map.

    Args:
        task: whose preparation has features.
        prepare: `task.prepare`, compiled.
        x: records, shape (n, *record_shape).
    """
    formula = isinstance(task.preparation.features, str)  # an encoder keeps what it gives itself
    if not formula or len(x) < LEAST_RECORDS or (place := _place(task, x)) is None:
        return prepare(jnp.asarray(x))
    return jnp.asarray(once(place, lambda: np.asarray(prepare(jnp.asarray(x)))))


def once(place: Path | None, compute: Callable[[], NDArray]) -> NDArray:
    """What was kept at a place, else computed, and kept there if it is within the bound.

    Args:
        place: of `place_of`; None keeps nothing.
        compute: numbers.
    """
    if place is None:
        return compute()
    with contextlib.suppress(OSError, ValueError):
        rows = np.load(place, allow_pickle=False)
        os.utime(place)
        return rows
    rows = compute()
    if rows.nbytes <= MOST_BYTES:
        with contextlib.suppress(OSError):
            _keep(place, rows)
    return rows


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
    facts = (
        _MAP, version("jax"), str(whole.dtype), whole.shape, seen.features, seen.pooling, seen.projection,
        seen.seed, task.feature_norm, task.normalise, task.bias, [*numbers],
    )  # fmt: skip
    return place_of([repr(facts), whole.data, *(array.data for array in numbers.values())])


def _keep(place: Path, rows: NDArray) -> None:
    """Write a file beside its final name, move it there, and remove old ones beyond the bound."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = place.with_suffix(f".{os.getpid()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        np.save(file, rows)
    os.replace(draft, place)
    files = sorted(place.parent.glob("*.npy"), key=lambda file: file.stat().st_mtime)
    total = sum(file.stat().st_size for file in files)
    for file in files[:-1]:
        if total <= MOST_BYTES:
            return
        total -= file.stat().st_size
        file.unlink(missing_ok=True)
