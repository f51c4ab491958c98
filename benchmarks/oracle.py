"""The best that a full grid over counts, clip and step size finds on the private records themselves.

Nobody can plan like this: every point of the grid is trained and scored on the records that are to be
protected. It says how much there was to gain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from noiseworthy.engines.simulation import simulate
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.methods.fedsgd_dpc.algorithm import FedSGDDPC, make
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.tasks.batch import Batch
from quality import SCORING_SEEDS, Arena, Scores, finite

ROUNDS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500)
CLIPS = (1.0, 1 / 3, 1 / 10)
DECAY_ROUNDS = 50.0
SELECTION_SEEDS = (0, 1, 2)
FINALISTS = 12
_NEXT_CLIP = 3.0
"""Between a clip at the end of the grid and the next, which is tried where that end is the best."""
_STEPS = 8
_FACTOR = 2.5
"""Between a step and the next."""
_WIDENINGS = 3
_FINER = 6
"""Cells whose best step and clip are looked for once more, between their neighbours."""
_BETWEEN = np.array([-0.8, -0.6, -0.4, -0.2, 0.2, 0.4, 0.6, 0.8])
_CLIPS_AROUND = (3**-0.5, 1.0, 3**0.5)
_MOST_TRAVEL = 30.0
_PATIENCE = 0.05
"""Longer trainings are given up once two in a row lost so much of the gain beside shorter ones."""
_SAMPLE = 20
"""Records of each client whose gradients are measured."""
Progress = Callable[[float], None]


class Point(NamedTuple):
    """One setting of the grid: T, b, per-record clip and the first step size."""

    rounds: int
    clients: int
    clip: float
    step: float

    def plan(self, arena: Arena) -> Plan:
        """The plan that trains it."""
        problem = replace(arena.problem, clip_norm=self.clip)
        return queries_replies.stated(problem, self.rounds, self.clients, StepSize(self.step, DECAY_ROUNDS))


class Tried(NamedTuple):
    """A point with its mean loss over the selection seeds; infinite if one of them diverged."""

    point: Point
    loss: float


@dataclass(frozen=True)
class Oracle:
    """The best points of a grid under fresh seeds.

    Attributes:
        finalists: those that the grid liked best, in that order.
        scores: of each finalist.
    """

    finalists: tuple[Point, ...]
    scores: tuple[Scores, ...]

    @property
    def best(self) -> int:
        """The finalist of least mean loss under the scoring seeds: what lost gain is measured against.

        It is chosen by the scores that it is reported with, so it flatters the grid.
        """
        return int(np.argmin([np.mean(one.loss) for one in self.scores]))

    @property
    def best_loss(self) -> float:
        """Its mean loss."""
        return float(np.mean(self.scores[self.best].loss))


class Scale(NamedTuple):
    """What sizes of clip and step are natural: typical norms at the start.

    Attributes:
        record: L2 norm of a record, root mean square.
        gradient: L2 norm of a record's gradient, mean.
        clip: its norm in the norm of the clip, mean.
    """

    record: float
    gradient: float
    clip: float


def scale_of(arena: Arena) -> Scale:
    """Norms of some records of every client and of their gradients at the start."""
    train, theta = arena.shards.train, arena.task.initial(jax.random.key(0))
    x, y, mask = (leaf[:, :_SAMPLE].reshape(-1, *leaf.shape[2:]) for leaf in train)
    here = np.asarray(mask) > 0

    def norms(record: tuple[Array, Array]) -> tuple[Array, Array]:
        one = Batch(record[0][None], record[1][None], jnp.ones(1))
        gradient = arena.task.gradient(theta, one)
        order = 1 if arena.problem.norm == "l1" else 2
        return jnp.linalg.norm(gradient), jnp.linalg.norm(gradient, order)

    gradients, clips = (np.asarray(values)[here] for values in jax.lax.map(norms, (x, y)))
    records = np.linalg.norm(np.asarray(x)[here], axis=1)
    return Scale(float(np.sqrt(np.mean(records**2))), float(gradients.mean()), float(clips.mean()))


def search(
    arena: Arena, seeds: Sequence[int] = SELECTION_SEEDS, on_progress: Progress = lambda done: None
) -> tuple[Tried, ...]:
    """Train a full grid.

    T in 1, 2, 3, 5, 10, 20, ..., 500; b in {1, N/2, N}, with every second T at N/2; clips of 1, 1/3 and 1/10
    of the mean gradient norm at the start, and of 3 or 1/30 where an end is the best; at least 8 steps a
    factor 2.5 apart, more until the best is an inner one; for the best 6 (T, b, clip) finer steps and clips.
    Up to 100 (Laplace) or 200 (Gaussian) uploads of a client. The step falls as 1 / (1 + t/50).

    Args:
        arena: where to train.
        seeds: of schedule and noise.
        on_progress: told the share that is done, about.

    Returns:
        Every point, best first.
    """
    grid = _Grid(arena, scale_of(arena), tuple(seeds))
    cohorts = _cohorts(arena.problem.n_clients)
    tried: list[Tried] = []
    for done, b in enumerate(cohorts):
        tried += grid.with_cohort(b, lambda share, done=done: on_progress((done + share) / len(cohorts)))
    return tuple(sorted(tried + grid.finer(tried), key=lambda one: one.loss))


def judge(arena: Arena, tried: Sequence[Tried], seeds: Sequence[int] = SCORING_SEEDS) -> Oracle:
    """Score the best points of a grid under fresh seeds, one of each (T, b, clip).

    Args:
        arena: where to train; it may hold more records than the one that was searched.
        tried: what `search` found.
        seeds: others than it was searched with.
    """
    finalists = tuple(one.point for one in best_of_lines(tried)[:FINALISTS])
    trials = [_Trial.of(arena, *point[:2], seeds) for point in finalists]
    scores = [trial.scores(point.clip, [point.step]) for trial, point in zip(trials, finalists, strict=True)]
    return Oracle(finalists, tuple(Scores(*map(np.ravel, one)) for one in scores))


def best_of_lines(tried: Sequence[Tried]) -> list[Tried]:
    """The best step of every (T, b, clip), best first."""
    lines: dict[tuple[int, int, float], Tried] = {}
    for one in sorted(tried, key=lambda one: one.loss):
        lines.setdefault(one.point[:3], one)
    return [*lines.values()]


def _cohorts(clients: int) -> list[int]:
    return sorted({1, max(1, clients // 2), clients})


@dataclass(frozen=True)
class _Grid:
    """The grid of one arena."""

    arena: Arena
    scale: Scale
    seeds: tuple[int, ...]

    def rounds(self, cohort: int) -> list[int]:
        """Counts that are tried with a cohort."""
        n, law = self.arena.problem.n_clients, self.arena.problem.law
        paid = [t for t in ROUNDS if cohort * t <= n * (100 if law.exponent == 2 else 200)]
        return paid[1::2] if 1 < cohort < n else paid

    def with_cohort(self, cohort: int, on_progress: Progress) -> list[Tried]:
        """All points with b clients; longer trainings are given up once they only get worse."""
        tried: list[Tried] = []
        bests: list[float] = []
        counts = self.rounds(cohort)
        for rounds in counts:
            here = self.with_counts(rounds, cohort)
            tried += here
            bests.append(min(one.loss for one in here))
            on_progress(sum(counts[: len(bests)]) / sum(counts))
            if self._hopeless(bests):
                break
        return tried

    def with_counts(self, rounds: int, cohort: int) -> list[Tried]:
        """All points of T rounds with b clients."""
        trial = _Trial.of(self.arena, rounds, cohort, self.seeds)
        clips = np.array(CLIPS) * self.scale.clip
        tried = [one for clip in clips for one in self.line(trial, clip)]
        best = min(tried, key=lambda one: one.loss).point.clip
        if best == clips[0]:
            tried += self.line(trial, best * _NEXT_CLIP)
        if best == clips[-1]:
            tried += self.line(trial, best / _NEXT_CLIP)
        return tried

    def line(self, trial: _Trial, clip: float) -> list[Tried]:
        """Steps around a natural one, and further steps until the best has neighbours."""
        tried = trial.tried(clip, _around(self.natural_step(trial, clip)))
        for _ in range(_WIDENINGS):
            best = int(np.argmin([one.loss for one in tried]))
            if 0 < best < len(tried) - 1 or not np.isfinite(tried[best].loss):
                break
            first, last = tried[0].point.step, tried[-1].point.step
            if best == 0:
                tried = trial.tried(clip, first * _FACTOR ** np.arange(-_STEPS, 0.0)) + tried
            else:
                tried = tried + trial.tried(clip, last * _FACTOR ** np.arange(1.0, _STEPS + 1))
        return tried

    def natural_step(self, trial: _Trial, clip: float) -> float:
        """The step at which noise moves outputs by a typical slope, or a long way is gone if that is less.

        Steps eta d_t turn noise of variance V per coordinate of an aggregate into
        eta |x| sqrt(V sum d_t^2) of an output, and move theta by at most eta C sum d_t.
        """
        record, gradient, typical = self.scale
        decay = StepSize(1.0, DECAY_ROUNDS).at(np.arange(trial.rounds))
        noise = clip * trial.unit_noise * np.sqrt(np.sum(decay**2))
        reach = min(clip / typical, 1.0) * gradient * np.sum(decay)
        return gradient / record**2 * float(min(1 / noise, _MOST_TRAVEL / reach))

    def finer(self, tried: Sequence[Tried]) -> list[Tried]:
        """Steps between the neighbours of the best one, with clips around it, for the best (T, b, clip)."""
        finer: list[Tried] = []
        for one in best_of_lines(tried)[:_FINER]:
            rounds, cohort, clip, _ = one.point
            trial = _Trial.of(self.arena, rounds, cohort, self.seeds)
            for factor in _CLIPS_AROUND:
                steps = one.point.step / np.sqrt(factor) * _FACTOR**_BETWEEN
                finer += trial.tried(clip * factor, steps)
        return finer

    def _hopeless(self, bests: Sequence[float]) -> bool:
        least, last = min(bests), bests[-2:]
        given_up = least + _PATIENCE * max(self.arena.untrained_loss - least, 0.0)
        return len(bests) >= 3 and last[0] < last[1] and all(loss > given_up for loss in last)


def _around(step: float) -> NDArray[np.float64]:
    return np.multiply(step, _FACTOR ** (np.arange(_STEPS) - _STEPS / 2))


@dataclass(frozen=True)
class _Trial:
    """Trainings of T rounds with b clients, which differ in clip, step and seed only."""

    arena: Arena
    rounds: int
    cohort: int
    seeds: tuple[int, ...]
    units: tuple[FedSGDDPC, ...]
    releases: NDArray[np.int64]

    @classmethod
    def of(cls, arena: Arena, rounds: int, cohort: int, seeds: Sequence[int]) -> _Trial:
        """The algorithm at clip 1 and step 1, once for each seed, padded so that all T share a program."""
        plan = Point(rounds, cohort, 1.0, 1.0).plan(arena)
        made = [make(plan, arena.task, seed) for seed in seeds]
        units = tuple(one.padded(dict.fromkeys(one.schedules, max(ROUNDS))) for one in made)
        return cls(arena, rounds, cohort, tuple(seeds), units, plan.uploads)

    @property
    def unit_noise(self) -> float:
        """Root mean square noise of a coordinate of the aggregate, for clip 1."""
        problem = replace(self.arena.problem, clip_norm=1.0)
        total = float(problem.weighted_noise(self.releases[:1])[0])
        return float(np.sqrt(problem.n_clients / self.cohort * total / problem.dimension))

    def tried(self, clip: float, steps: NDArray[np.float64]) -> list[Tried]:
        """Each step with its mean loss."""
        means = self.scores(clip, steps).loss.mean(axis=1)
        points = [Point(self.rounds, self.cohort, float(clip), float(step)) for step in steps]
        return [Tried(point, float(loss)) for point, loss in zip(points, means, strict=True)]

    def scores(self, clip: float, steps: ArrayLike) -> Scores:
        """Losses and accuracies, shape (steps, seeds)."""
        algorithms = [_at(unit, clip, step) for step in np.asarray(steps) for unit in self.units]
        shape = (np.size(steps), len(self.seeds))
        at = np.array([self.rounds])
        run = simulate(algorithms, self.releases, self.arena.shards, at, self.seeds * shape[0])
        return Scores(finite(run.final_loss).reshape(shape), run.final_accuracy.reshape(shape))


def _at(unit: FedSGDDPC, clip: float, step: float) -> FedSGDDPC:
    """An algorithm of clip 1 and step 1 at another clip and step: its noise is proportional to the clip."""
    size, factor = np.float32(clip), np.float32(step)
    return replace(unit, clip_norm=size, noise=size * unit.noise, steps=factor * unit.steps)
