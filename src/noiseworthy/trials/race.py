"""A race of settings on public proxies: a coarse grid first, then fewer and finer ones with fresh noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import NamedTuple

import numpy as np

from noiseworthy._validate import Real
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.space import Setting
from noiseworthy.trials.bench import Bench, Candidate, Scores
from noiseworthy.trials.courses import room_for_seeds
from noiseworthy.trials.deadline import Deadline
from noiseworthy.trials.spaces import Space
from noiseworthy.trials.treatment import Treatment
from noiseworthy.trials.votes import TELLING, Price, doubts, frontier, lost_of, settled, vote

_PER_DECADE = 8
"""Lattice points of passes, clips and reaches in a factor of ten."""


@dataclass(frozen=True)
class Rung:
    """One round of a race.

    Attributes:
        kept: candidates that enter it from the one before.
        finer: lattice steps to the neighbours that are added; None adds none.
        longer: lattice steps to more passes that are tried of each, where noise is not steep in replies.
        levers: whether momentum, schedule, averaging and weights are varied.
        seeds: fresh noise seeds.
        more_seeds: whether there are more where noise is steep in replies, as many as take little longer.
        gentler: whether variants are tried that do less to the records.
        cheaper: whether variants are tried that ask for fewer uploads.
        at_home: whether models of a study for its owners are scored as these tune them; else as they are.
    """

    kept: int
    finer: int | None
    levers: bool
    seeds: int
    longer: int = 0
    more_seeds: bool = False
    gentler: bool = False
    cheaper: bool = False
    at_home: bool = False


RUNGS = (
    Rung(kept=10, finer=2, levers=False, seeds=2, longer=4),
    Rung(kept=6, finer=1, levers=True, seeds=2),
    Rung(kept=16, finer=None, levers=False, seeds=4, at_home=True),
)
_OF_IMAGES = (replace(RUNGS[0], finer=4, longer=0), replace(RUNGS[1], finer=2), replace(RUNGS[2], seeds=2))
"""The same of linear models of images, of which trials take long and treatments are many: after a first grid
of every other value neighbours lie twice as far away."""
_OF_NETWORKS = (
    Rung(kept=2, finer=4, levers=False, seeds=1),
    Rung(kept=1, finer=2, levers=True, seeds=1),
    Rung(kept=6, finer=None, levers=False, seeds=2, at_home=True),
)
"""The same of networks, of which a training takes longer than its program does to compile."""
_LOOSER = (0, 2, 4)
"""Gentler variants of the winner: clips so many lattice points larger."""
_FEWER = (-2, -4, -8)
"""Cheaper variants: passes so many lattice points fewer."""
_ACCELERATED = ((-4, 0.5), (-6, 0.75), (-8, 0.75))
"""The same with a momentum, with which fewer and longer steps go as far and do not overshoot."""
_ACCELERATED_STEEP = ((-2, 0.5), *_ACCELERATED)
"""The same where noise is steep in replies, which are few: of six three, two and one are left."""
_STRONGER = 8.0
"""Another sum of the gains of steering, twice that of the first settings."""
_MORE_SEEDS = 4
"""Times the seeds of the last rungs, at most, where there are more."""
_COARSE = 0.4
"""Share of the work that the first grid is, about."""


class Effort(NamedTuple):
    """How much of a space is tried.

    Attributes:
        stride: of the values along each axis of the first grid, every so many-th is tried.
        seeds: noise seeds of the first grid.
        rungs: what follows it.
        final: candidates of the rung before variants of the winner.
        most: passes of the first grid at most.
        cheaper_last: whether fewer uploads are tried after gentler variants, of what these settle on.
    """

    stride: int
    seeds: int
    rungs: tuple[Rung, ...]
    final: int
    most: float = np.inf
    cheaper_last: bool = False


@dataclass(frozen=True)
class Result:
    """What a race found.

    Attributes:
        winner: the candidate that loses least of the gain over all proxies.
        spread: its lost gain on the proxy that it suits least, of those on which anything can be gained.
        lost: its lost gain on each proxy.
        scores: its last trials, shape (proxies, 1, seeds).
        trainings: how many were run.
        frontier: what fewer or more uploads would lose, from the most uploads to the fewest.
        unfinished: whether the time ran out before the last rung.
    """

    winner: Candidate
    spread: float
    lost: Real
    scores: Scores
    trainings: int
    unfinished: bool
    frontier: tuple[Price, ...] = ()


@dataclass(frozen=True)
class _Standing:
    """Candidates of one rung with their scores."""

    candidates: list[Candidate]
    scores: Scores

    @property
    def losses(self) -> Real:
        """What is voted on, mean over seeds, shape (proxies, candidates)."""
        return self.scores.voted.mean(axis=2)

    def beside(self, other: _Standing) -> _Standing:
        return _Standing([*self.candidates, *other.candidates], self.scores.beside(other.scores))


def race(
    bench: Bench, space: Space, kinds: Sequence[Treatment | None], seeds: int, deadline: Deadline,
    on_progress: Callable[[float], None] = lambda done: None,
) -> Result:  # fmt: skip
    """The setting of a space that loses least over the proxies.

    Args:
        bench: the proxies.
        space: what is free.
        kinds: treatments of records to choose from.
        seeds: noise seeds of the final, at least 1; where noise is steep in replies up to four times as many.
        deadline: after which the leader of the last finished rung wins.
        on_progress: told the share of the work that is done.

    Returns:
        A `Result`; a function of public inputs alone, unless the deadline cuts it short.
    """
    fresh, effort = count(), _effort(bench)
    standing = _coarse(bench, space, kinds, effort, fresh, deadline, lambda done: on_progress(_COARSE * done))
    best, trainings = np.ones(len(bench.sources)), standing.scores.loss.size
    final = Rung(effort.final, None, False, seeds, more_seeds=True, at_home=True)
    last = replace(final, kept=1, gentler=True, cheaper=not effort.cheaper_last)
    rungs = (*effort.rungs, final, last, *[replace(final, kept=1, cheaper=True)] * effort.cheaper_last)
    for done, rung in enumerate(rungs, start=1):
        if deadline.passed:
            return _result(bench, space, standing, best, trainings, unfinished=True)
        leaders = _leaders(bench, space, standing, best, rung)
        entered = bench.possible(space, _entered(bench, space, leaders, rung, kinds[0]))
        drawn = list(islice(fresh, _seeds_of(bench, rung, len(entered))))
        scores = bench.scores(space, entered, drawn, at_home=rung.at_home)
        if (scores.missed is None) != (standing.scores.missed is None):
            best = np.ones(len(bench.sources))  # of something else
        standing = _Standing(entered, scores)
        best = np.minimum(best, standing.losses.min(axis=1))
        trainings += standing.scores.loss.size
        on_progress(_COARSE + (1 - _COARSE) * done / len(rungs))
    return _result(bench, space, standing, best, trainings, unfinished=False)


def _seeds_of(bench: Bench, rung: Rung, entered: int) -> int:
    """Seeds of a rung, more where noise is steep in replies; but owners would tune every model at home."""
    more = rung.more_seeds and bench.facts.problem.law.exponent == 2 and not bench.facts.for_owners
    room = room_for_seeds(bench.proxies()[0].task, entered) if more else 0
    return max(rung.seeds, min(room, _MORE_SEEDS * rung.seeds))


def _effort(bench: Bench) -> Effort:
    """A whole grid of tables; of images a coarser one, and of networks fewer that go on."""
    if not bench.linear:
        return Effort(2, 1, _OF_NETWORKS, 2)
    if len(bench.facts.record_shape) > 1:
        return Effort(2, 2, _OF_IMAGES, 6)
    return Effort(1, 2, RUNGS, 6, most=30, cheaper_last=True)


def _coarse(
    bench: Bench, space: Space, kinds: Sequence[Treatment | None], effort: Effort, fresh: Iterator[int],
    deadline: Deadline, on_progress: Callable[[float], None],
) -> _Standing:  # fmt: skip
    """The first grid under every treatment, as far as the time goes; at least under the first."""
    seeds, standing = list(islice(fresh, effort.seeds)), None
    for done, kind in enumerate(kinds, start=1):
        settings = space.first(bench.facts.problem.law.exponent == 2, effort.stride, effort.most)
        few = bench.possible(space, [Candidate(setting, kind) for setting in settings])
        found = _Standing(few, bench.scores(space, few, seeds))
        standing = found if standing is None else standing.beside(found)
        on_progress(done / len(kinds))
        if deadline.passed:
            break
    if standing is None:
        raise InvalidInput("treatments must name at least one way to treat records, got none; use [None]")
    return standing


def _result(
    bench: Bench, space: Space, standing: _Standing, best: Real, trainings: int,
    unfinished: bool,
) -> Result:  # fmt: skip
    best = np.minimum(best, standing.losses.min(axis=1))
    votes = vote(bench, standing.losses, best)
    unsure = doubts(bench, standing.scores.voted, best) if _effort(bench).cheaper_last else 0.0
    place = settled(bench, space, standing.candidates, votes, unsure)
    lost = lost_of(standing.losses, best)[:, place]
    scores = standing.scores.of([place])
    prices = frontier(bench, space, standing.candidates, votes)
    spread = float(lost[told].max()) if np.any(told := best < TELLING) else float(lost.max())
    return Result(standing.candidates[place], spread, lost, scores, trainings, unfinished, prices)


def _leaders(bench: Bench, space: Space, standing: _Standing, best: Real, rung: Rung) -> list[Candidate]:
    votes = vote(bench, standing.losses, np.minimum(best, standing.losses.min(axis=1)))
    if rung.cheaper and not rung.gentler:
        return [standing.candidates[settled(bench, space, standing.candidates, votes)]]
    order: list[int] = np.argsort(votes, kind="stable")[: rung.kept].tolist()
    return [standing.candidates[i] for i in order]


def _entered(
    bench: Bench, space: Space, leaders: Sequence[Candidate], rung: Rung, untreated: Treatment | None
) -> list[Candidate]:
    """Leaders with their neighbours and variants; `untreated` is the treatment that does least."""
    steep = bench.facts.problem.law.exponent == 2
    found = [
        Candidate(setting, leader.treatment)
        for leader in leaders
        for setting in _around(space, leader.setting, rung, steep)
    ]
    first, own = leaders[0].setting, leaders[0].treatment
    for kind in dict.fromkeys((own, untreated)) if rung.gentler else (own,):
        found += [Candidate(one, kind) for one in _variants(space, first, rung)]
    if rung.cheaper:
        variants = _ACCELERATED_STEEP if steep else _ACCELERATED
        found += [Candidate(one, own) for one in _accelerated(space, first, variants)]
    return list(dict.fromkeys(found))


def _variants(space: Space, setting: Setting, rung: Rung) -> Iterable[Setting]:
    """The setting with larger clips, and with fewer passes, where the rung tries these and they are free."""
    if rung.gentler:
        for looser in _LOOSER if space.clip_norm is None else (0,):
            yield replace(setting, clip=max(setting.clip, min(1.0, _moved(setting.clip, looser))))
    if rung.cheaper:
        for fewer in _FEWER if space.rounds is None else ():
            yield _with(setting, passes=_moved(setting.passes, fewer))


def _accelerated(space: Space, setting: Setting, variants: Iterable[tuple[int, float]]) -> Iterable[Setting]:
    """The setting with fewer passes and a momentum, where both are free and more than one pass is made."""
    free = "momentum" in space.method.levers and space.momentum is None and space.rounds is None
    if free and setting.passes > 1:
        for fewer, momentum in variants:
            yield _with(setting, passes=_moved(setting.passes, fewer), momentum=momentum)


def _around(space: Space, setting: Setting, rung: Rung, steep: bool) -> Iterable[Setting]:
    yield setting
    if rung.finer is not None:
        yield from _neighbours(space, setting, rung.finer)
    if rung.longer and space.one_gradient and space.rounds is None and not steep:
        yield _with(setting, passes=_moved(setting.passes, rung.longer))
    if rung.levers:
        yield from _levered(space, setting, steep)


def _neighbours(space: Space, setting: Setting, steps: int) -> Iterable[Setting]:
    """The setting moved along one axis, and with passes and reach together."""
    free = {
        "passes": space.rounds is None,
        "clip": space.clip_norm is None,
        "reach": space.step_size is None,
        "work": not space.one_gradient and space.work is None,
    }
    for name in (name for name, is_free in free.items() if is_free):
        for by in (steps, -steps):
            yield _with(setting, **{name: _moved(getattr(setting, name), by)})
    if free["passes"] and free["reach"]:
        for by in (steps, -steps):
            passes, reach = _moved(setting.passes, by), _moved(setting.reach, by)
            yield _with(setting, passes=passes, reach=reach)


def _with(setting: Setting, **moved: float) -> Setting:
    """The setting moved, with at least one reply of every client."""
    made = replace(setting, **moved)
    return replace(made, passes=max(1.0, made.passes))


def _moved(value: float, steps: int) -> float:
    """The value so many lattice points further: powers of 10^(1/8), which settings of a race share."""
    return 10 ** ((round(_PER_DECADE * np.log10(value)) + steps) / _PER_DECADE)


def _levered(space: Space, setting: Setting, steep: bool) -> Iterable[Setting]:
    """The setting with other momentum, schedule, averaging or weights, and asking one client at a time."""
    levers = space.method.levers
    if "momentum" in levers and space.momentum is None:
        yield replace(setting, momentum=0.8)
    if "decay" in levers and space.decay_rounds is None and space.step_size is None:
        yield replace(setting, decay=np.inf)
        yield replace(setting, decay=0.15)
    if space.averaging is None:
        yield replace(setting, averaging=0.5)
    if "weighting" in levers and space.weighting is None:
        yield replace(setting, weighting=0.0)
        yield replace(setting, weighting=1.0)
    if space.steers:
        yield replace(setting, steering=0.0)
        yield replace(setting, steering=_STRONGER)
    if steep and "cohorts" in levers and space.clients_per_round is None:
        yield replace(setting, work=0.0)
