"""The reference of a study: what public data of the same kind have in common with the private records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import jax, jnp
from noiseworthy.data.scenes import SCENES, fits, scenes
from noiseworthy.errors import InvalidInput
from noiseworthy.tasks.encoder import Encoder
from noiseworthy.tasks.preparation import Preparation
from noiseworthy.tasks.reference import Reference
from noiseworthy.trials.public import is_alike, is_made, resized, same_data, seen_as, stamps, whole

_RECORDS, _SEED = 2000, 20
"""Public records of each data set that are looked at, and the seed that chooses them."""
_FEATURED = 1000
"""The same where features are seen, which are many times as many numbers."""


def alike(sources: Sequence[str], shape: tuple[int, ...], data_dir: str | Path | None = None) -> list[str]:
    """Real public data whose records can be seen as records of a shape: that shape, or images to resize."""
    return [one for one in sources if _suits(one, shape, data_dir)]


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
    features: str | Encoder | None = None,
) -> Reference:
    """Mean and principal directions of public data, resized and pooled as the study's records are.

    Args:
        sources: names of public data.
        own: name of the study's own data, which must not be among them.
        shape: of a record of the study.
        pooling: side of the blocks by which images are pooled first.
        data_dir: folder of data files.
        features: public map that images are replaced by then; channels of it are standardised.

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
        if not _suits(source, shape, data_dir):
            raise InvalidInput(
                f"{source} under [task] reference does not hold records like those of the study, of shape "
                f"{shape}; name public data of the same kind, or leave reference out"
            )
    files = tuple(stamps(source, data_dir) for source in sources)
    folder = str(data_dir) if data_dir else None
    return _reference(tuple(sources), tuple(shape), pooling, folder, features, files)


@lru_cache(maxsize=16)
def _reference(
    sources: tuple[str, ...], shape: tuple[int, ...], pooling: int, data_dir: str | None,
    features: str | Encoder | None, files: tuple[object, ...],
) -> Reference:  # fmt: skip
    before = jax.jit(Preparation(pooling, features=features)) if features else Preparation(pooling)
    most = _FEATURED if features else _RECORDS
    few = [np.asarray(before(jnp.asarray(_some(one, shape, most, data_dir)))) for one in sources]
    return Reference.of(few, channels=features is not None)


def _some(source: str, shape: tuple[int, ...], most: int, data_dir: str | None) -> NDArray[np.float32]:
    """So many of a source's records, resized."""
    if source == SCENES:
        return scenes(shape)
    records = whole(source, data_dir).x
    chosen = np.random.default_rng(_SEED).permutation(len(records))[:most]
    return resized(records[np.sort(chosen)], seen_as(records.shape[1:], shape))


def _suits(source: str, shape: tuple[int, ...], data_dir: str | Path | None) -> bool:
    """Whether a source holds real records that can be seen as ones of a shape."""
    if source == SCENES:
        return fits(shape)
    return not is_made(source) and is_alike(source, shape, data_dir)
