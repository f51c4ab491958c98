"""A race of settings on public proxies: a coarse grid first, then fewer and finer ones with fresh noise."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from noiseworthy.trials.bench import Bench, Candidate, Scores
from noiseworthy.trials.spaces import HAVE_MOMENTUM, Setting, Space
from noiseworthy.trials.treatment import Treatment

_CAP = 0.5
"""Lost gain that one proxy may count at most, so that an odd one does not decide."""
_PER_DECADE = 8
"""Lattice points of passes, clips and reaches in a factor of ten."""
_TIE = 0.003
"""Lost gain within which the setting with fewer uploads wins."""


@dataclass(frozen=True)
class Rung:
    """One round of a race.

    Attributes:
        kept: candidates that enter it from the one before.
        finer: lattice steps to the neighbours that are added; None adds none.
        levers: whether momentum, schedule and averaging are varied.
        seeds: fresh noise seeds.
    """

    kept: int
    finer: int | None
    levers: bool
    seeds: int


RUNGS = (
    Rung(kept=10, finer=2, levers=False, seeds=2),
    Rung(kept=6, finer=1, levers=True, seeds=2),
    Rung(kept=16, finer=None, levers=False, seeds=4),
)
_FINAL = 6


@dataclass(frozen=True)
class Result:
    """What a race found.

    Attributes:
        winner: the candidate of least mean lost gain over the proxies.
        spread: its lost gain on the proxy that it suits least.
        lost: its lost gain on each proxy.
        scores: its final trials, shape (proxies, 1, seeds).
        trainings: how many were run.
        unfinished: whether the time ran out before the last rung.
        tried: all candidates, with their mean losses over seeds, shape (proxies,) each.
    """

    winner: Candidate
    spread: float
    lost: NDArray[np.float64]
    scores: Scores
    trainings: int
    unfinished: bool
    tried: list[tuple[Candidate, NDArray[np.float64]]] = field(default_factory=list)


class Deadline:
    """A limit on the time of planning; infinite if none is set."""

    def __init__(self, seconds: float = np.inf):
        self._end = time.monotonic() + seconds

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() > self._end


def race(
    bench: Bench,
    space: Space,
    kinds: Sequence[Treatment | None],
    seeds: int,
    deadline: Deadline,
    on_progress: Callable[[float], None] = lambda done: None,
) -> Result:
    """The setting of a space that loses least over the proxies.

    Args:
        bench: the proxies.
        space: what is free.
        kinds: treatments of records to choose from.
        seeds: noise seeds of the final, at least 1.
        deadline: after which the leader of the last finished rung wins.
        on_progress: told the share of the work that is done.

    Returns:
        A `Result`; a function of public inputs alone, unless the deadline cuts it short.
    """
    fresh, best = count(), np.ones(len(bench.sources))
    field_of: list[Candidate] = []
    tried: list[tuple[Candidate, NDArray[np.float64]]] = []
    trainings, losses = 0, np.empty((len(bench.sources), 0))
    for done, kind in enumerate(kinds):
        few = bench.possible(space, [Candidate(setting, kind) for setting in space.first()])
        scores = bench.scores(space, few, [next(fresh), next(fresh)])
        field_of, losses = [*field_of, *few], np.column_stack([losses, scores.loss.mean(axis=2)])
        trainings += scores.loss.size
        on_progress(0.4 * (done + 1) / len(kinds))
        if deadline.passed:
            break
    tried += zip(field_of, losses.T, strict=True)
    stages = [*RUNGS, Rung(_FINAL, None, False, seeds)]
    for number, rung in enumerate(stages):
        lead = _leaders(field_of, _vote(losses, np.minimum(best, losses.min(axis=1))), rung.kept)
        if deadline.passed:
            stages = stages[:number]
            break
        entered = bench.possible(space, _entered(space, lead, rung))
        drawn = [next(fresh) for _ in range(rung.seeds)]
        scores = bench.scores(space, entered, drawn)
        field_of, losses = entered, scores.loss.mean(axis=2)
        tried += zip(field_of, losses.T, strict=True)
        best, trainings = np.minimum(best, losses.min(axis=1)), trainings + scores.loss.size
        on_progress(0.4 + 0.6 * (number + 1) / (len(RUNGS) + 1))
    best = np.minimum(best, losses.min(axis=1))
    votes = _vote(losses, best)
    place = _cheapest(bench, space, field_of, votes)
    lost = _lost(losses, best)[:, place]
    final = Scores(scores.loss[:, [place]], scores.accuracy[:, [place]]) if stages else scores
    return Result(
        field_of[place], float(lost.max()), lost, final, trainings, len(stages) <= len(RUNGS), tried
    )


def _lost(losses: NDArray[np.float64], best: NDArray[np.float64]) -> NDArray[np.float64]:
    """(L - best) / (untrained - best) per proxy, losses in shares of the untrained one, at most 2."""
    return np.minimum((losses - best[:, None]) / np.maximum(1 - best, 1e-3)[:, None], 2.0)


def _vote(losses: NDArray[np.float64], best: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean lost gain over the proxies, each counting `_CAP` at most, shape (candidates,)."""
    lost = _lost(losses, best)
    return np.minimum(lost, _CAP).mean(axis=0) + 1e-3 * lost.mean(axis=0)


def _leaders(candidates: Sequence[Candidate], votes: NDArray[np.float64], kept: int) -> list[Candidate]:
    return [candidates[i] for i in np.argsort(votes, kind="stable")[:kept]]


def _cheapest(bench: Bench, space: Space, candidates: Sequence[Candidate], votes: NDArray[np.float64]) -> int:
    """Among the candidates within `_TIE` of the best vote, the one with the fewest uploads."""
    near = np.flatnonzero(votes <= votes.min() + _TIE)
    uploads = [
        np.inf if (made := bench.plan(space, candidates[i])) is None else float(made.uploads.sum())
        for i in near
    ]
    return int(near[int(np.argmin(uploads))])


def _entered(space: Space, leaders: Sequence[Candidate], rung: Rung) -> list[Candidate]:
    settings = [
        (leader.treatment, setting) for leader in leaders for setting in _around(space, leader.setting, rung)
    ]
    return list(dict.fromkeys(Candidate(setting, kind) for kind, setting in settings))


def _around(space: Space, setting: Setting, rung: Rung) -> Iterable[Setting]:
    yield setting
    if rung.finer is not None:
        yield from _neighbours(space, setting, rung.finer)
    if rung.levers:
        yield from _levered(space, setting)


def _neighbours(space: Space, setting: Setting, steps: int) -> Iterable[Setting]:
    """The setting moved along one axis, and with passes and reach together."""
    free = {
        "passes": space.rounds is None,
        "clip": space.clip_norm is None,
        "reach": space.step_size is None,
        "work": not space.one_step and space.work is None,
    }
    for name in (name for name, is_free in free.items() if is_free):
        for by in (steps, -steps):
            yield replace(setting, **{name: _moved(getattr(setting, name), by)})
    if free["passes"] and free["reach"]:
        for by in (steps, -steps):
            passes, reach = _moved(setting.passes, by), _moved(setting.reach, by)
            yield replace(setting, passes=passes, reach=reach)


def _moved(value: float, steps: int) -> float:
    """The value so many lattice points further: powers of 10^(1/8), which settings of a race share."""
    return 10 ** ((round(_PER_DECADE * np.log10(value)) + steps) / _PER_DECADE)


def _levered(space: Space, setting: Setting) -> Iterable[Setting]:
    if space.algorithm in HAVE_MOMENTUM and space.momentum is None:
        yield replace(setting, momentum=0.8)
    if (
        space.decay_rounds is None
        and space.step_size is None
        and space.algorithm not in ("dp-scaffnew", "dp-pasgd")
    ):
        yield replace(setting, decay=np.inf)
        yield replace(setting, decay=0.15)
    if space.averaging is None:
        yield replace(setting, averaging=0.5)
