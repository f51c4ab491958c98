"""Public data by name, whole and made to look like the study's records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import jax, jnp
from noiseworthy.data import load_records
from noiseworthy.data.datasets import FILES, required_folder
from noiseworthy.data.files import locate
from noiseworthy.data.prior import prior_seed, prior_table
from noiseworthy.data.prior_columns import Block, size_of
from noiseworthy.data.prior_images import RECORDS, prior_images
from noiseworthy.data.records import Records
from noiseworthy.data.shipped import PARENTS
from noiseworthy.errors import DataError, InvalidInput
from noiseworthy.trials.facts import PublicFacts

REGRESSION = "diabetes-progression"
"""What ships with the product and has numbers to predict."""
_DRAWN_SIDE = 32
"""Pixels along a side of images that are drawn; larger ones are drawn small and enlarged."""
TWINS = ({"mnist", "mnist-writers"}, {"cifar10", "cifar10-jpeg"}, {REGRESSION, "diabetes"})
"""Names of the same records in two forms."""


def whole(source: str, data_dir: str | Path | None = None) -> Records:
    """All records of a source, read once as long as its files stay as they are."""
    return _read(source, data_dir, stamps(source, data_dir))


def stamps(source: str, data_dir: str | Path | None) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of change of every file of a source; none for data that ship with packages."""
    try:
        if source in FILES:  # `mnist-writers` lies in the folder of `mnist`
            named = required_folder(source, data_dir).iterdir()
            places = [place for place in named if source.startswith(place.name)]
        else:
            places = [locate(source.split(":", 1)[-1], data_dir)]
    except DataError:
        return ()
    files = sorted(file for place in places for file in (place, *place.rglob("*")) if file.is_file())
    return tuple((str(file), (stat := file.stat()).st_size, stat.st_mtime_ns) for file in files)


@lru_cache(maxsize=32)
def _read(source: str, data_dir: str | Path | None, files: tuple[object, ...]) -> Records:
    return load_records(source, data_dir=data_dir)


def public_records(facts: PublicFacts, source: str, data_dir: str | Path | None = None) -> Records:
    """Public records made to look like those of the study.

    Images are resized to its shape, rows scaled to the norm that its columns suggest, or brought to units of
    their own where columns are not described; classes merged to two for two and brought to its shares,
    numbers brought to its range or size. What is drawn from the prior is images for images with classes,
    else a table with the study's columns.

    Raises:
        InvalidInput: numbers where the study has classes, or classes where it predicts numbers.
    """
    if (seed := prior_seed(source)) is not None:
        drawn = _drawn(facts.record_shape, facts.classes, seed, facts.columns)
        return _known(_undescribed(drawn, facts, source), facts)
    records = _sized(_in_shape(whole(source, data_dir), facts.record_shape), facts.record_size)
    records = _undescribed(records, facts, source)
    return _known(_relabelled(records, facts.classes) if facts.classes else records, facts)


def _known(records: Records, facts: PublicFacts) -> Records:
    """The records with what a study knows of its labels: shares of classes, or their size."""
    if facts.classes:
        return _in_shares(records, facts.class_shares)
    if facts.label_range and records.classes is None:
        return _ranged(records, *facts.label_range)
    if facts.label_octaves and records.classes is None:
        records = _in_octaves(records, facts.label_octaves)
    return _rescaled(records, facts.label_scale)


def is_made(source: str) -> bool:
    """Whether a source is made to the facts of the study, whatever its records are: no real data.

    Example:
        >>> is_made("prior:3"), is_made("wine")
        (True, False)
    """
    return prior_seed(source) is not None


def same_data(one: str, other: str, data_dir: str | Path | None = None) -> bool:
    """Whether two sources hold the same records: one name, one file, or one data set in two forms."""
    if PARENTS.get(one, one) == PARENTS.get(other, other) or {one, other} in TWINS:
        return True
    try:
        paths = [locate(source.split(":", 1)[-1], data_dir).resolve() for source in (one, other)]
    except DataError:
        return False
    return paths[0] == paths[1]


def seen_as(shape: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """The wanted shape of images for images; rows at least as wide as the wanted ones for rows.

    Example:
        >>> seen_as((8, 8), (28, 28)), seen_as((30,), (28, 28)), seen_as((9,), (12,)), seen_as((30,), (12,))
        ((28, 28), (30,), (12,), (30,))
    """
    if len(shape) != len(wanted):
        return shape
    return max(shape, wanted) if len(wanted) == 1 else wanted


def is_alike(source: str, shape: tuple[int, ...], data_dir: str | Path | None = None) -> bool:
    """Whether records of a source have a shape, or are images that can be brought to it."""
    return seen_as(whole(source, data_dir).record_shape, shape) == shape


def resized(images: NDArray, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Images of another size; pixels that are merged are averaged, as scanners and cameras do.

    Rows are followed by zeros, which teach nothing: stand-ins of one width share a compiled program.
    """
    if images.shape[1:] == shape:
        return np.asarray(images, np.float32)
    if len(shape) == 1:
        return np.pad(np.asarray(images, np.float32), [(0, 0), (0, shape[0] - images.shape[1])])
    resize = jax.jit(lambda image: jax.image.resize(image, shape, "linear"))
    return np.asarray(jax.lax.map(resize, jnp.asarray(images, jnp.float32), batch_size=1024))


@lru_cache(maxsize=8)
def _in_shape(records: Records, shape: tuple[int, ...]) -> Records:
    return _resized(records, seen_as(records.record_shape, shape))


@lru_cache(maxsize=8)
def _drawn(shape: tuple[int, ...], classes: int | None, seed: int, columns: tuple[Block, ...]) -> Records:
    if classes is None or len(shape) == 1:
        return prior_table(shape, classes, seed, columns=columns)
    small = (min(shape[0], _DRAWN_SIDE), min(shape[1], _DRAWN_SIDE), *shape[2:])
    return _resized(prior_images(small, classes, seed, records=max(RECORDS, 8 * classes)), shape)


def _resized(records: Records, shape: tuple[int, ...]) -> Records:
    return replace(records, x=resized(records.x, shape), test_x=resized(records.test_x, shape))


def _undescribed(records: Records, facts: PublicFacts, source: str) -> Records:
    """Columns in units of their own: those that a study of classes does not describe, or as large a share."""
    own = np.array([not block.described for block in facts.columns for _ in range(block.width)])
    if not np.any(own) or facts.classes is None or records.x.ndim != 2:
        return records
    seed, width = [*Path(source).name.encode()], records.x.shape[1]  # the same wherever a file lies
    if not is_made(source):
        own = np.random.default_rng([*seed, width]).random(width) < own.mean()
    return in_own_units(records, own, seed)


def _relabelled(records: Records, classes: int) -> Records:
    """Every second class against the others where the study has two, and numbers above their median."""
    if records.classes is None and classes == 2:
        return _halved(records)
    if records.classes is None:
        raise InvalidInput(
            f"the study predicts {classes} classes, but the public data {records.name} hold numbers; remove "
            "them from [planning] public"
        )
    if classes != 2 or records.classes == 2:
        return records
    return replace(records, y=records.y % 2, test_y=records.test_y % 2, classes=2)


def _in_shares(records: Records, shares: Sequence[float] | None) -> Records:
    """Records of classes in some shares, those of the study's classes in turn; of others some are dropped."""
    if shares is None or records.classes is None:
        return records
    wanted = np.resize(shares, records.classes)
    train, test = (_kept(y, wanted / wanted.sum()) for y in (records.y, records.test_y))
    owners = None if records.client_ids is None else records.client_ids[train]
    return replace(
        records, x=records.x[train], y=records.y[train], client_ids=owners,
        test_x=records.test_x[test], test_y=records.test_y[test],
    )  # fmt: skip


def _kept(y: NDArray, shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Places of as many records as there are in some shares, the first of each class, at least one."""
    have = np.bincount(y, minlength=len(shares))
    most = np.min(have[have > 0] / shares[have > 0])
    rank = np.zeros(len(y), np.int64)
    for one in range(len(shares)):
        rank[y == one] = np.arange(have[one])
    return np.flatnonzero(rank < np.maximum(1, np.round(most * shares))[y])


def _halved(records: Records) -> Records:
    """Numbers to predict as two classes, above their median or not: a hard problem, as many real ones are."""
    middle = np.median(records.y)
    y, test_y = (np.asarray(values > middle, np.int32) for values in (records.y, records.test_y))
    return replace(records, y=y, test_y=test_y, classes=2)


def _ranged(records: Records, least: float, most: float) -> Records:
    """Numbers to predict in another range: as far from its ends as those that ship are from theirs, [-1, 1],
    which were stated without looking at them; others fill it."""
    known = records.name == REGRESSION or records.name in PARENTS
    ends = (-1.0, 1.0) if known else (float(records.y.min()), float(records.y.max()))
    y, test_y = (np.interp(y, ends, (least, most)).astype(np.float32) for y in (records.y, records.test_y))
    return replace(records, y=y, test_y=test_y)


def _in_octaves(records: Records, shares: Sequence[float]) -> Records:
    """Numbers to predict that lie in octaves below 1 as known shares do, in the order that they have."""
    upper = 2.0 ** -np.arange(len(shares))[::-1]
    reached = np.cumsum([0.0, *np.maximum(shares[::-1], 1e-9)])
    there = np.sort(records.y)

    def moved(values: NDArray) -> NDArray[np.float32]:
        below = (np.searchsorted(there, values, side) for side in ("left", "right"))
        rank = sum(below) / (2 * len(there)) * reached[-1]
        return np.interp(rank, reached, [0.0, *upper]).astype(np.float32)

    return replace(records, y=moved(records.y), test_y=moved(records.test_y))


def _sized(records: Records, size: float | None) -> Records:
    """Rows in another norm: as far from what their columns suggest as real ones are."""
    if size is None or records.x.ndim != 2:
        return records
    factor = np.float32(size / size_of(records.x))
    return replace(records, x=factor * records.x, test_x=factor * records.test_x)


def _rescaled(records: Records, label_scale: float | None) -> Records:
    """Numbers to predict brought to the size that the study states for its own."""
    if records.classes is not None:
        raise InvalidInput(
            f"the study predicts numbers, but the public data {records.name} hold classes; remove them from "
            "[planning] public"
        )
    factor = np.float32((label_scale or 1.0) / max(float(np.sqrt(np.mean(np.square(records.y)))), 1e-12))
    return replace(records, y=records.y * factor, test_y=records.test_y * factor)


_DECADES = (0.1, 1.5)
"""Standard deviation of the logarithms (base 10) of the columns' spreads, of tables from one to another."""
_AWAY = (np.log(1.8), 1.0)
"""Mean and standard deviation of the logarithm of a column's mean over its spread."""
_CONSTANT = 1e-6


def in_own_units(records: Records, columns: NDArray[np.bool_], seed: Sequence[int]) -> Records:
    """Records with some columns in units of their own, far from 0 for their spread:

        x_j -> u_j (z_j + m_j),    z_j standardised,    log10 u_j ~ N(0, s^2),    log m_j ~ N(log 1.8, 1)

    with s between 0.1 and 1.5, one of a table. So lie numbers of real tables (docs/trials.md).

    Args:
        records: rows of d numbers.
        columns: which are changed, shape (d,); constant ones stay.
        seed: of the units.

    Example:
        >>> rows = np.array([[0.0, 1.0], [1.0, 1.0]], np.float32)
        >>> table = Records(rows, np.array([0, 1]), rows, np.array([0, 1]), 2, "own")
        >>> made = in_own_units(table, np.array([True, True]), seed=[0]).x
        >>> made[:, 1].tolist(), bool(0 < made[0, 0] < made[1, 0])
        ([1.0, 1.0], True)
    """
    rng, (mean, spread) = np.random.default_rng(seed), (records.x.mean(axis=0), records.x.std(axis=0))
    unit = 10 ** (rng.uniform(*_DECADES) * rng.standard_normal(len(mean)))
    away, scale = unit * np.exp(rng.normal(*_AWAY, len(mean))), unit / np.maximum(spread, _CONSTANT)
    changed = columns & (spread > _CONSTANT)
    x, test_x = (np.where(changed, scale * (one - mean) + away, one) for one in (records.x, records.test_x))
    return replace(records, x=x.astype(np.float32), test_x=test_x.astype(np.float32))
