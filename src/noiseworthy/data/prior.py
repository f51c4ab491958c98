"""Synthetic tables drawn from a prior over what tables are like: random causes, columns and labels.

Made in the spirit of the priors that tabular foundation models are trained on (Hollmann et al., "TabPFN",
2023): a random graph of hidden causes, columns that see some of them through noise, and a label that follows
from causes, so that no model of the columns is perfect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy.data.labels import Labels
from noiseworthy.data.prior_columns import Block, Marginals, drawn_blocks, encoded, width_of
from noiseworthy.data.records import Records
from noiseworthy.errors import InvalidInput

PRIOR = "prior"
"""First part of the names `prior:SEED` among public data."""
RECORDS = 4000
_TEST = 0.25
_SEED = 20
_MOST_CAUSES = 30
_HIDDEN = 0.4
"""Share of tables whose label follows from the causes; in others it follows from some of the columns."""
_NUDGE = 1e-6


def prior_seed(source: str) -> int | None:
    """K of a source that is named `prior:K`; None of other sources.

    Raises:
        InvalidInput: a K that is no whole number of at most 9 digits.

    Example:
        >>> prior_seed("prior:3"), prior_seed("adult")
        (3, None)
    """
    kind, _, seed = source.partition(":")
    if kind != PRIOR:
        return None
    if not (seed.isascii() and seed.isdigit() and len(seed) <= 9):
        raise InvalidInput(f"{PRIOR}:K takes a whole number of at most 9 digits, as prior:0; got {source!r}")
    return int(seed)


def prior_table(
    record_shape: tuple[int, ...],
    classes: int | None,
    seed: int,
    *,
    columns: Sequence[Block] = (),
    records: int = RECORDS,
) -> Records:
    """A table drawn from the prior: always the same one for the same arguments.

    Tables differ in how many causes there are and how well columns see them, in kinds and ranges of columns,
    in how many columns are useless or repeat others, in how far the label bends away from a linear function
    of the causes, in its noise, and in the shares of the classes.

    Args:
        record_shape: shape of one record.
        classes: number of classes K, or None for numbers to predict, whose root mean square is 1.
        seed: of everything.
        columns: what the numbers of a record are; without any they are drawn.
        records: how many, a quarter of them to test.

    Returns:
        Features within [-1, 1]; each class occurs among the private records.

    Raises:
        InvalidInput: too few records for the classes, or columns of another width.

    Example:
        >>> table = prior_table((12,), 3, seed=0)
        >>> table.x.shape, table.test_x.shape, float(abs(table.x).max()) <= 1
        ((3000, 12), (1000, 12), True)
    """
    features = math.prod(record_shape)
    n = check.count("records", records, least=4 * max(2, classes or 2), remedy="take four for each class")
    rng = np.random.default_rng([_SEED, check.count("seed", seed, least=0)])
    blocks = tuple(columns) or drawn_blocks(features, rng)
    if width_of(blocks) != features:
        raise InvalidInput(
            f"columns must become {features} numbers, as a record has, got {width_of(blocks)}; leave them out"
        )
    causes = _causes(n, _count_of_causes(features, classes, rng), rng)
    x = _features(causes, blocks, rng).astype(np.float32).reshape(n, *record_shape)
    kept = n - round(_TEST * n)
    told_by = causes if rng.random() < _HIDDEN else _standard(x.reshape(n, -1).astype(float))
    y = _numbers(told_by, rng) if classes is None else _labels(told_by, classes, kept, rng)
    return Records(x[:kept], y[:kept], x[kept:], y[kept:], classes, f"{PRIOR}:{seed}")


def _count_of_causes(features: int, classes: int | None, rng: np.random.Generator) -> int:
    """From two to as many as there are features, and no fewer than tell the classes apart."""
    least = 2 + math.ceil(math.log2(classes or 2))
    most = max(least + 1, min(features // 2, _MOST_CAUSES))
    return int(np.exp(rng.uniform(np.log(least), np.log(most + 1))))


def _causes(records: int, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Hidden causes, of mean 0 and variance 1; later ones follow from one to three earlier ones, and noise.

    In some tables a few records lie far out in all causes.
    """
    far = rng.choice([0.0, 0.3, 0.8])
    causes = rng.standard_normal((records, count)) * np.exp(far * rng.standard_normal((records, 1)))
    for j in range(1, count):
        if rng.random() < 0.5:
            parents = rng.choice(j, min(j, int(rng.integers(1, 4))), replace=False)
            pushed = _standard(causes[:, parents] @ rng.standard_normal(len(parents)))
            causes[:, j] += rng.uniform(0.3, 2) * _standard(_BENDS[rng.integers(len(_BENDS))](pushed))
        causes[:, j] = _standard(causes[:, j])
    return causes


_BENDS: tuple[Callable[[NDArray], NDArray], ...] = (
    np.positive,
    np.tanh,
    np.abs,
    lambda z: np.maximum(z, 0),
    lambda z: np.sin(2 * z),
)


def _standard(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return (values - values.mean(axis=0)) / (values.std(axis=0) + _NUDGE)


def _features(
    causes: NDArray[np.float64], blocks: Sequence[Block], rng: np.random.Generator
) -> NDArray[np.float64]:
    """What all columns see of the causes, encoded, shape (n, features)."""
    marginals, clear = Marginals.drawn(rng), rng.uniform(0.4, 0.98)
    useless, repeated = rng.uniform(0, 0.4), rng.uniform(0, 0.4) * (rng.random() < 0.5)
    weights = np.arange(1, causes.shape[1] + 1) ** -rng.uniform(0, 2)
    one_way = rng.random() < 0.4
    seen: list[NDArray[np.float64]] = []
    found = []
    for block in blocks:
        views = block.values if block.kind == "category" else 1
        noise = rng.standard_normal((len(causes), views))
        if rng.random() < useless:
            view = noise
        elif seen and rng.random() < repeated:
            view = _mixed(seen[rng.integers(len(seen))][:, :1] * rng.choice([-1, 1], views), noise, 0.95)
        else:
            share = rng.beta(4 * clear, 4 * (1 - clear))
            loadings = _few(weights, views, rng)
            loadings = np.abs(loadings) if one_way and views == 1 else loadings
            view = _mixed(_standard(causes @ loadings), noise, share)
        seen.append(view)
        found.append(encoded(block, view, marginals, rng))
    return np.hstack(found)


def _mixed(signal: NDArray, noise: NDArray, share: float) -> NDArray:
    """Both together, the signal with this share of the variance."""
    return np.sqrt(share) * signal + np.sqrt(1 - share) * noise


def _few(weights: NDArray[np.float64], views: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Random weights of one to four causes for each view, heavy ones more often, shape (causes, views)."""
    few = min(len(weights), int(rng.integers(1, 5)))
    chosen = rng.choice(len(weights), few, replace=False, p=weights / weights.sum())
    loadings = np.zeros((len(weights), views))
    loadings[chosen] = weights[chosen, None] * rng.standard_normal((few, views))
    return loadings


def _scores(told_by: NDArray[np.float64], outputs: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Standard functions of causes or columns, shape (n, outputs): linear, with a bent part of up to 60 %."""
    relevant = rng.random(told_by.shape[1]) < rng.uniform(0.2, 1)
    used = told_by[:, relevant] if relevant.sum() > 1 else told_by
    straight = _standard(used @ rng.standard_normal((used.shape[1], outputs)))
    hidden = np.tanh(1.5 * used @ rng.standard_normal((used.shape[1], 8)) / np.sqrt(used.shape[1]))
    bent = _standard(hidden * hidden[:, ::-1] @ rng.standard_normal((8, outputs)))
    return _standard(_mixed(straight, bent, 1 - 0.6 * rng.random() ** 3))


def _labels(told_by: NDArray, classes: int, kept: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Classes drawn from a softmax of scores, some changed at random; each occurs in the first `kept`."""
    sharp, uneven = np.exp(rng.uniform(np.log(2), np.log(100))), rng.choice([0.0, 0.25, 0.5])
    scores = sharp * _scores(told_by, classes, rng)
    scores += np.hypot(sharp, 1.3) * uneven * rng.standard_normal(classes)
    labels = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    wrong = rng.random(len(labels)) < rng.choice([0.0, 0.0, 0.05, 0.15])
    labels[wrong] = rng.integers(0, classes, wrong.sum())
    for absent in np.setdiff1d(np.arange(classes), labels[:kept]):
        spared = np.bincount(labels[:kept], minlength=classes)[labels[:kept]] > 1
        labels[np.argmax(np.where(spared, scores[:kept, absent], -np.inf))] = absent
    return labels.astype(np.int32)


def _numbers(told_by: NDArray[np.float64], rng: np.random.Generator) -> Labels:
    """Numbers to predict, rarely centred and sometimes skewed, of root mean square 1."""
    values = _mixed(_scores(told_by, 1, rng)[:, 0], rng.standard_normal(len(told_by)), rng.uniform(0.3, 0.97))
    if rng.random() < 0.4:
        values = _standard(np.exp(rng.uniform(0.2, 0.9) * values))
    values = values + rng.choice([-1, 1]) * np.exp(rng.uniform(np.log(0.2), np.log(5)))
    return (values / np.sqrt(np.mean(values**2))).astype(np.float32)
