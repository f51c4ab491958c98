"""Comparisons and contests in the terms of owners: what they make at home of each one's shared model."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import jax, jnp
from noiseworthy.home.base import AtHome
from noiseworthy.home.candidates import ALONE, BEST, CANDIDATES, PUBLISHED, SHARED
from noiseworthy.home.owners import merits_at_home, overall_score
from noiseworthy.methods.local import Memory
from noiseworthy.methods.registry import make
from noiseworthy.studies.at_home import counted_once, delivers_to_owners
from noiseworthy.studies.prepare import Prepared
from noiseworthy.sweeps.compare import Comparison, HomeScores, OwnersScores
from noiseworthy.sweeps.contest import Condition, Contest, Entry, Progress
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel

PLAN, GRID = "the plan", "the best fixed setting"


def with_home(
    comparison: Comparison, prepared: Prepared, on_progress: Progress = lambda done: None
) -> Comparison:
    """The comparison with what owners reach alone, with each shared model, and with it tuned at home.

    The models are those of the first seed: the plan's, the best fixed setting's, and those of what people
    take without planning. Scores are of owners' own test records.

    Args:
        comparison: trained.
        prepared: the study.
        on_progress: told the share of models done.

    Returns:
        The comparison as it is, of a study that delivers to others.
    """
    if not delivers_to_owners(prepared):
        return comparison
    models = _models(comparison)
    federation, task = counted_once(*prepared.trained())

    def scores(theta: NDArray[np.floating], *names: str) -> list[float]:
        each = merits_at_home(federation, task, theta, {name: CANDIDATES[name] for name in names})
        return [overall_score(each[name]) for name in names]

    found: list[HomeScores] = []
    for name, theta in models.items():
        found.append(HomeScores(name, *scores(theta, SHARED, BEST)))
        on_progress(len(found) / len(models))
    (alone,) = scores(models[GRID], ALONE)
    return replace(comparison, home=OwnersScores(alone, tuple(found)))


def _models(comparison: Comparison) -> dict[str, NDArray[np.floating]]:
    """Parameters of the cells that were trained, by what they are called."""
    usual = {f"{one.usual.name}, {one.usual.rounds} rounds": one.cell for one in comparison.usual}
    cells = {PLAN: comparison.planned, GRID: comparison.best, **usual}
    return {name: cell.theta for name, cell in cells.items() if cell.theta is not None}


# Contests ---------------------------------------------------------------------------------------------

_Seen: TypeAlias = Callable[[int, NDArray], NDArray]
_Owned: TypeAlias = Callable[[int], NDArray]


def with_homes(contest: Contest, prepared: Prepared, on_progress: Progress = lambda done: None) -> Contest:
    """The contest with what owners make of the models of the study's own points.

    All ways stand on the same shared models, those of the first seed, so that none costs epsilon beyond
    theirs; scores are of owners' own test records. Where a rival lets clients keep something, its model is
    used with what the owner kept: PrivateFL's behind a transform; MR-MTL's is a model of the owner's own,
    while what is tuned is the mean. Networks are tuned in one way.

    Args:
        contest: trained.
        prepared: the study.
        on_progress: told the share of models done.
    """
    federation, task = counted_once(*prepared.trained())
    own = contest.points[0]
    here = [p for p in contest.points if (p.epsilon_max, p.alpha) == (own.epsilon_max, own.alpha)]
    count, seed, found = sum(len(point.entries) for point in here), contest.seeds[0], {}

    def scores(entry: Entry, candidates: Mapping[str, AtHome]) -> dict[str, float]:
        seen, owned = _kept(entry, task, seed)
        each = merits_at_home(federation, task, entry.theta, candidates, seen=seen, owned=owned)
        return {name: overall_score(merits) for name, merits in each.items()}

    published = PUBLISHED if isinstance(task, LinearModel) else {}
    ways = {**{name: made for name, made in CANDIDATES.items() if name != ALONE}, **published}
    alone = scores(own.entries[0], {ALONE: CANDIDATES[ALONE]})
    for point in here:
        for entry in point.entries:
            found[id(entry)] = {**alone, **scores(entry, ways)}
            on_progress(len(found) / count)

    def at_home(point: Condition) -> Condition:
        entries = (replace(entry, home=found.get(id(entry), {})) for entry in point.entries)
        return replace(point, entries=tuple(entries))

    return replace(contest, points=tuple(map(at_home, contest.points)))


def _kept(entry: Entry, task: Task, seed: int) -> tuple[_Seen, _Owned | None]:
    """How an owner sees its records, and the model that it has, with what it kept of the training."""
    if (kept := entry.memory) is None:
        return lambda owner, x: x, None
    algorithm, theta = make(entry.plan, task, seed), jnp.asarray(entry.theta)
    layout = jax.tree.structure(algorithm.init_client(theta))

    def memory(owner: int) -> Memory:
        return layout.unflatten(map(jnp.asarray, kept(owner)))

    def seen(owner: int, x: NDArray) -> NDArray:
        return np.asarray(algorithm.seen_at(memory(owner), jnp.asarray(x)))

    def owned(owner: int) -> NDArray:
        return np.asarray(algorithm.owned(memory(owner), theta))

    return seen, owned
