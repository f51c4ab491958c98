"""The reference of a study: what public data of the same kind have in common with the private records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from noiseworthy.errors import InvalidInput
from noiseworthy.tasks import Preparation, Reference
from noiseworthy.trials.public import is_alike, is_made, resized, same_data, seen_as, whole

_RECORDS, _SEED = 2000, 20
"""Public records of each data set that are looked at, and the seed that chooses them."""


def alike(sources: Sequence[str], shape: tuple[int, ...], data_dir: str | Path | None = None) -> list[str]:
    """Real public data whose records can be seen as records of a shape: that shape, or images to resize."""
    return [one for one in sources if not is_made(one) and is_alike(one, shape, data_dir)]


def apart_from(
    sources: Sequence[str], own: str, shape: tuple[int, ...], data_dir: str | Path | None = None
) -> list[str]:
    """Those of a reference's data sets that suit records of a shape and are other data than `own`.

    A trial sees public data against others only, as the plan will see private records.
    """
    return [one for one in alike(sources, shape, data_dir) if not same_data(own, one, data_dir)]


def reference_of(
    sources: Sequence[str],
    own: str,
    shape: tuple[int, ...],
    pooling: int = 1,
    data_dir: str | Path | None = None,
) -> Reference:
    """Mean and principal directions of public data, resized and pooled as the study's records are.

    Args:
        sources: names of public data.
        own: name of the study's own data, which must not be among them.
        shape: of a record of the study.
        pooling: side of the blocks by which images are pooled first.
        data_dir: folder of data files.

    Raises:
        InvalidInput: the study's own data, or records of another kind.
        DataError: data that cannot be read.

    Example:
        >>> reference_of(["digits"], "mnist", (8, 8)).directions.shape
        (64, 64)
    """
    for source in sources:
        if same_data(own, source, data_dir):
            raise InvalidInput(
                f"{source} is the private data of this study and cannot be its reference; name other public "
                "data under [task] reference, or leave it out"
            )
        if is_made(source) or not is_alike(source, shape, data_dir):
            raise InvalidInput(
                f"{source} under [task] reference does not hold records like those of the study, of shape "
                f"{shape}; name public data of the same kind, or leave reference out"
            )
    return _reference(tuple(sources), tuple(shape), pooling, str(data_dir) if data_dir else None)


@lru_cache(maxsize=16)
def _reference(
    sources: tuple[str, ...], shape: tuple[int, ...], pooling: int, data_dir: str | None
) -> Reference:
    pool = Preparation(pooling)
    few = []
    for source in sources:
        records = whole(source, data_dir).x
        chosen = np.random.default_rng(_SEED).permutation(len(records))[:_RECORDS]
        seen = resized(records[np.sort(chosen)], seen_as(records.shape[1:], shape))
        few.append(np.asarray(pool(jnp.asarray(seen))))
    return Reference.of(few)
