"""All owners of a simulated federation at home: what each reaches alone, with the shared model, and tuned."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.data.federation import Federation
from noiseworthy.home.base import AtHome, Own, Parameters, Real
from noiseworthy.home.candidates import ALONE, BEST, CANDIDATES, SHARED
from noiseworthy.home.scores import limits_of, limits_of_gain, merits
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.preparation import preparing


@dataclass(frozen=True)
class Scored:
    """What owners reach with each candidate, on their own test records.

    Attributes:
        records: that each owner learns from, shape (N,).
        tests: of each, shape (N,).
        named: whether the data say whose test records are whose; else they are dealt by their labels.
        scores: of each candidate, shape (N,), NaN of owners without test records.
        limits: least and most of them, shape (N, 2).
        gains: of tuned over alone, shape (N,).
        gain_limits: shape (N, 2).
        overall: of each candidate on the test records of all owners.
        errors: standard errors on these, by owners that are drawn: of tuned less `alone` and less `shared`,
            and `of_shared` less alone.
    """

    records: NDArray[np.int64]
    tests: NDArray[np.int64]
    named: bool
    scores: dict[str, Real]
    limits: dict[str, Real]
    gains: Real
    gain_limits: Real
    overall: dict[str, float]
    errors: dict[str, float]


def owners_at_home(
    federation: Federation,
    task: Task,
    theta: ArrayLike,
    *,
    candidates: Mapping[str, AtHome] = CANDIDATES,
    seed: int = 0,
    on_progress: Callable[[float], None] = lambda done: None,
) -> Scored:
    """What every owner makes of a shared model, scored on its own test records.

    Args:
        federation: records of all owners, and the test records.
        task: model and loss.
        theta: parameters of the shared model, shape (p,).
        candidates: what is made of it, those of `CANDIDATES` among them.
        seed: of folds and starts at home, and of whose test records are whose where the data do not say.
        on_progress: told the share of owners done.
    """
    found = merits_at_home(federation, task, theta, candidates, seed=seed, on_progress=on_progress)
    return scored(federation.sizes, found, named=federation.test_owners is not None)


def merits_at_home(
    federation: Federation, task: Task, theta: ArrayLike, candidates: Mapping[str, AtHome], *, seed: int = 0,
    seen: Callable[[int, NDArray], NDArray] = lambda owner, x: x,
    owned: Callable[[int], Parameters] | None = None,
    on_progress: Callable[[float], None] = lambda done: None,
) -> dict[str, list[Real]]:  # fmt: skip
    """What each candidate is worth on every owner's own test records: one array of merits for each owner.

    Args:
        federation, task, theta, seed, on_progress: as in `owners_at_home`.
        candidates: what is made of the shared model.
        seen: an owner's prepared records as the model takes them there.
        owned: the model that an owner has of the training, untuned; None where that is the shared one.
    """
    shared, prepare = np.asarray(theta, np.float32), preparing(task)
    test_x, test_y = np.asarray(prepare(jax.device_put(federation.test_x))), federation.test_y
    owner_of, variance = test_owners(federation, seed), float(np.var(federation.test_y))
    found: dict[str, list[Real]] = {name: [] for name in candidates}
    for i, n in enumerate(federation.sizes.tolist()):
        mine = np.flatnonzero(owner_of == i)
        if not len(mine):
            for each in found.values():
                each.append(np.empty(0))
            continue
        x = np.asarray(prepare(jax.device_put(federation.x[i])))[:n]
        own, tested = Own(seen(i, x), federation.y[i, :n]), seen(i, test_x[mine])
        for name, made in candidates.items():
            start = owned(i) if owned is not None and name == SHARED else shared
            model = made(task, start, own, seed)
            found[name].append(merits(task, model, tested, test_y[mine], variance))
        on_progress((i + 1) / len(federation.sizes))
    return found


def scored(records: NDArray[np.int64], found: dict[str, list[Real]], *, named: bool) -> Scored:
    """Scores and limits from the merits of all owners' test records.

    Args:
        records: that each owner learns from, shape (N,).
        found: of each candidate, one array of merits for each owner.
        named: whether the data say whose test records are whose.
    """
    tests = np.array([len(one) for one in found[ALONE]])
    gains = _less(found[BEST], found[ALONE])
    return Scored(
        records=records, tests=tests, named=named,
        scores={name: _means(each) for name, each in found.items()},
        limits={name: np.array([limits_of(one) for one in each]) for name, each in found.items()},
        gains=_means(gains), gain_limits=np.array([limits_of_gain(one) for one in gains]),
        overall={name: overall_score(each) for name, each in found.items()},
        errors={name: _error(_less(found[BEST], found[name])) for name in found if name != BEST}
        | {"of_shared": _error(_less(found[SHARED], found[ALONE]))},
    )  # fmt: skip


def test_owners(federation: Federation, seed: int) -> NDArray[np.int64]:
    """Place of the owner of each test record, shape (m,); -1 for nobody's.

    Where the data do not say, each goes to the owner of a private record with its label, the next one above,
    or the largest: labels are dealt alike in training and test. Records with many labels go by sizes alone.
    """
    if federation.test_owners is not None:
        return federation.test_owners
    rng, sizes = np.random.default_rng(seed), federation.sizes
    owners = np.repeat(np.arange(len(sizes)), sizes)
    if federation.label_shape:
        return rng.choice(owners, len(federation.test_y))
    labels = np.concatenate([federation.y[i, :n] for i, n in enumerate(sizes.tolist())])
    order = np.lexsort((rng.random(len(labels)), labels))
    labels, owners = labels[order], owners[order]
    low = np.searchsorted(labels, federation.test_y, "left")
    high = np.searchsorted(labels, federation.test_y, "right")
    between = rng.integers(low, np.maximum(high, low + 1))
    return owners[np.minimum(between, len(owners) - 1)]


def _less(one: list[Real], other: list[Real]) -> list[Real]:
    return [mine - its for mine, its in zip(one, other, strict=True)]


def _means(each: list[Real]) -> Real:
    return np.array([one.mean() if len(one) else math.nan for one in each])


def overall_score(each: list[Real]) -> float:
    """Score on the test records of all owners, from the merits of each."""
    together = np.concatenate(each)
    return float(together.mean()) if len(together) else math.nan


def _error(each: list[Real]) -> float:
    """Standard error of a mean over all records, of owners that were drawn: the error of a ratio."""
    sums, counts = np.array([one.sum() for one in each]), np.array([len(one) for one in each])
    if (drawn := int(np.sum(counts > 0))) < 2:
        return math.nan
    apart = sums - counts * (sums.sum() / counts.sum())
    return float(np.sqrt(drawn / (drawn - 1) * np.sum(apart**2)) / counts.sum())
