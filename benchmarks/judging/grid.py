"""The best that can be had in a cell: a search over counts, clip, step and what becomes of records.

Nobody can plan like this: every point is trained and scored on the records that are to be protected. What may
become of records, the constant beside them, the loss of two classes, the weights of clients and whether late
models are averaged are searched as well, since a plan may choose them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from judging.trainer import DECAY_ROUNDS, Field, Law, Outcome, trained
from noiseworthy._keys import schedule_generator
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.methods.selection import reshuffled_round_robin
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.stages import BoughtRanges
from noiseworthy.studies.centring import may_centre, with_mean
from noiseworthy.studies.models import task_for, with_task
from noiseworthy.studies.prepare import Prepared
from noiseworthy.tasks.names import MEAN
from noiseworthy.trials.centring import constant_of_shares
from quality import Arena

ROUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
MOST_ROUNDS = max(ROUNDS)
SHARES = (0.1, 0.3, 1.0)
"""The constant beside records, in their typical norm."""
CLIPS = (1.0, 1 / 3, 1 / 10, 1 / 30)
"""In the mean norm of a record's gradient at the start."""
STEPS = 3.0 ** np.arange(-3, 3)
"""In a natural step; shifted until the best is an inner one."""
_SHIFT, _SHIFTS = 3.0**5, 2
_AROUND = 3.0 ** np.array([-1, -0.75, -0.5, -0.25, 0.25, 0.5, 0.75, 1])
_FINER = np.array([*product((0.6, 1.0, 1.7), _AROUND)])


class Effort(NamedTuple):
    """How thorough a search is.

    Attributes:
        seeds: that search, half of them for treatments.
        kept: treatments that are searched in full.
        refined: lines that are searched finer, and half as many whose neighbours are.
    """

    seeds: int
    kept: int
    refined: int


EFFORTS = {3e5: Effort(12, 4, 8), 1e6: Effort(6, 4, 8), np.inf: Effort(4, 2, 4)}
"""By the most numbers that a round touches for one setting: records times parameters."""
CHOOSING, SCORING = np.arange(100, 124), np.arange(1000, 1024)
"""Seeds that choose among the best lines, and seeds that report."""
_AT_ONCE = 2
"""Seeds of one call."""
_PATIENCE = 0.05
_MOST_TRAVEL = 30.0
_FINALISTS = 8
"""Lines that are chosen from."""
_MOST_UPLOADS = {"laplace": 100, "gaussian": 200}
_WORK = 5e6
"""Numbers that one round touches for one setting, records times parameters, where a table is large."""
RECORDS, TEST = (1200, 3000), 2000
_PROJECTED = 16
"""Tables wider than this are also projected, to half and to a quarter of their features."""
Progress = Callable[[float], None]


class Seen(NamedTuple):
    """How records are seen: keys of `[task]` as pairs, the model, the constant as a share of their norm."""

    keys: tuple[tuple[str, Any], ...]
    model: str
    share: float


class Line(NamedTuple):
    """Counts and treatment of settings that differ in clip and step only."""

    seen: Seen
    rounds: int
    clients: int
    weighting: float = 0.0


class Tried(NamedTuple):
    """A setting and its mean loss; `averaged` delivers the mean of the last half of all models."""

    line: Line
    clip: float
    step: float
    averaged: bool
    loss: float


@dataclass(frozen=True)
class Ground:
    """A cell that can be trained on: its study, thinned records, and what was prepared before."""

    made: Prepared
    _arenas: dict[tuple[Any, str], Arena] = field(default_factory=dict, repr=False)
    _fields: dict[Seen, Field] = field(default_factory=dict, repr=False)

    @cached_property
    def records(self) -> NDArray[np.int64]:
        """Records of each client to hold, a share of all, so that a round of one setting touches few."""
        whole = np.clip(_WORK / self.made.dimension, *RECORDS)
        share = min(1.0, whole / self.made.sizes.sum())
        return np.ceil(share * self.made.sizes).astype(np.int64)

    @cached_property
    def effort(self) -> Effort:
        """How thoroughly it is searched: the smaller, the more."""
        work = self.made.dimension * self.records.sum()
        return next(effort for most, effort in EFFORTS.items() if work <= most)

    @property
    def seeds(self) -> NDArray[np.int64]:
        """Seeds that search."""
        return np.arange(self.effort.seeds)

    def arena(self, keys: tuple[tuple[str, Any], ...], model: str) -> Arena:
        """Records treated in a way, without a constant."""
        if (keys, model) not in self._arenas:
            task = {"model": model, "bias": 0.0, **dict(keys)}
            if "reference" in task:
                task["reference"] = list(task["reference"])  # a tuple among keys, which are hashed
            self._arenas[keys, model] = self.of_task(task)
        return self._arenas[keys, model]

    def of_task(self, task: dict[str, Any], bought: BoughtRanges | None = None) -> Arena:
        """Records treated as keys of `[task]` say, by what clients told before a plan, who paid for it."""
        federation, _ = self.made.trained()
        study = with_task(self.made.study, task)
        bought = with_mean(self.made, study).ranges if bought is None else bought
        opened = task_for(study, federation, bought)
        made = replace(self.made, study=study, task=opened, dimension=opened.dimension, ranges=bought)
        return Arena.of(federation, opened, made.problem(1.0), self.records, TEST)

    def field(self, seen: Seen) -> Field:
        """Where settings of a treatment are trained."""
        if seen not in self._fields:
            arena = self.arena(seen.keys, seen.model)
            self._fields[seen] = Field.of(arena, self.bias(seen), self.start(seen) if seen.share else ())
        return self._fields[seen]

    def start(self, seen: Seen) -> tuple[float, ...]:
        """Outputs that training starts at: by shares of classes told beside a mean, or the mean of labels."""
        ranges = self.made.ranges
        if ranges is not None and ranges.label_mean is not None:
            return (ranges.label_mean,)
        if "reference" not in dict(seen.keys):
            return ()
        task = self.arena(seen.keys, seen.model).task
        bought = with_mean(self.made, with_task(self.made.study, {"reference": [MEAN]})).ranges
        return constant_of_shares(task, np.array(bought.class_shares))

    def bias(self, seen: Seen) -> float:
        """The constant of a treatment."""
        train = self.arena(seen.keys, seen.model).shards.train
        here = np.asarray(train.mask) > 0
        norms = np.linalg.norm(np.asarray(train.x)[here], axis=-1)
        return float(seen.share * np.sqrt(np.mean(norms**2)))

    def plan(self, line: Line, clip: float = 1.0, step: float = 1.0) -> Plan:
        """The plan of a line."""
        arena = self.arena(line.seen.keys, line.seen.model)
        dimension = arena.task.dimension + (line.seen.share > 0) * max(arena.task.outputs, 1)
        problem = replace(arena.problem, clip_norm=clip, dimension=dimension)
        plan = queries_replies.stated(problem, line.rounds, line.clients, StepSize(step, DECAY_ROUNDS))
        return plan.weighed(line.weighting)

    @property
    def untrained(self) -> tuple[float, float]:
        """Loss and accuracy of the start."""
        arena = next(iter(self._arenas.values()))
        return arena.untrained_loss, arena.untrained_accuracy

    @property
    def clients(self) -> int:
        """N."""
        return len(self.made.sizes)

    @property
    def fewest(self) -> int:
        """The fewest clients that a round may ask: one, but of sums as many as hide each other."""
        return self.made.problem(1.0).trust.least_cohort


View = tuple[tuple[tuple[str, Any], ...], str]
"""Keys of `[task]`, and the model."""


def views(made: Prepared) -> Iterator[View]:
    """Treatments of records and models that are tried: as they are (public ranges, where columns are
    stated), norm 1, images pooled or wide tables projected, and against the mean that clients tell."""
    federation, _ = made.trained()
    shape = federation.record_shape
    one = (("normalise", True), ("feature_norm", 1.0))
    keys: list[tuple[tuple[str, Any], ...]] = [(), one]
    if len(shape) > 1:
        keys += [(*one, ("pooling", side)) for side in (2, 4) if min(shape[:2]) >= 4 * side]
    elif shape[0] > _PROJECTED:
        keys += [(*one, ("projection", shape[0] // share)) for share in (2, 4)]
    return chain(product(keys, _models(made)), of_means(made))


def of_means(made: Prepared) -> Iterator[View]:
    """Records of norm 1 against the mean that clients tell, where a plan may choose that."""
    keys = (("normalise", True), ("feature_norm", 1.0), ("reference", (MEAN,)))
    return product([keys] if may_centre(made) else [], _models(made))


def _models(made: Prepared) -> list[str]:
    classes = made.trained()[0].classes
    return ["linear"] if classes is None else ["softmax"] + ["logistic"] * (classes == 2)


@dataclass
class Search:
    """A search in one cell.

    Attributes:
        ground: where.
        views: what becomes of records.
        tried: all settings that were trained.
        trainings: how many, each a setting under a seed.
    """

    ground: Ground
    views: Callable[[Prepared], Iterator[View]] = views
    tried: list[Tried] = field(default_factory=list)
    trainings: int = 0
    _cohorts: dict[tuple[int, int], NDArray[np.int32]] = field(default_factory=dict, repr=False)

    def run(self, on_progress: Progress = lambda done: None) -> None:
        """Search: treatments coarsely, the best of them in full, the best lines finely."""
        kept = self.treatments()
        on_progress(0.2)
        for done, seen in enumerate(kept):
            for b in self.cohorts():
                self.counts(seen, b)
            on_progress(0.2 + 0.5 * (done + 1) / len(kept))
        refined = self.ground.effort.refined
        for one in self.leading(refined):
            self.finer(one)
        for one in self.leading(refined // 2):
            self.beside(one)
        for one in self.lines()[:2]:
            self.finer(one)
            self.beside(one)
        on_progress(1.0)

    def treatments(self) -> list[Seen]:
        """The treatments that do best with a few counts, one of each kind, each with its best constant."""
        every = [Seen(keys, model, 0.3) for keys, model in self.views(self.ground.made)]
        for seen in every:
            self.probe(seen)
        kept = self.ground.effort.kept
        for best in self.best_treatments()[:kept]:
            for share in SHARES:
                if share != best.share:
                    self.probe(best._replace(share=share))
        found, kinds = [], set()
        for seen in self.best_treatments():
            if (seen.keys, seen.model) not in kinds and len(found) < kept:
                kinds.add((seen.keys, seen.model))
                found.append(seen)
        return found

    def probe(self, seen: Seen) -> None:
        """A treatment with a few counts."""
        n, one = self.ground.clients, self.ground.fewest
        for rounds, b in ((4, n), (24, n), (min(n, 100), one), (min(4 * n, 200), one)):
            self.line(Line(seen, rounds, b), self.ground.seeds[: len(self.ground.seeds) // 2], widen=1)

    def best_treatments(self) -> list[Seen]:
        """All treatments that were tried, best first."""
        return list(dict.fromkeys(one.line.seen for one in sorted(self.tried, key=lambda one: one.loss)))

    def cohorts(self) -> list[int]:
        """Clients of a round that are tried."""
        n = self.ground.clients
        return sorted({self.ground.fewest, n, *([n // 4] if n >= 8 else [])}, reverse=True)

    def counts(self, seen: Seen, b: int) -> None:
        """All T with b clients; longer trainings are given up once they only get worse."""
        untrained, bests = self.ground.untrained[0], []
        most = _MOST_UPLOADS[self.ground.made.study.privacy.mechanism]
        for rounds in ROUNDS:
            if b * rounds > self.ground.clients * most or (b > self.ground.fewest and rounds > 256):
                break
            bests.append(self.line(Line(seen, rounds, b), self.ground.seeds))
            least = min(bests)
            given_up = least + _PATIENCE * max(untrained - least, 0.0)
            if len(bests) >= 3 and bests[-2] < bests[-1] and min(bests[-2:]) > given_up:
                break

    def line(self, line: Line, seeds: NDArray, widen: int = _SHIFTS) -> float:
        """Clips and steps of a line, with further steps until the best is an inner one; the least loss."""
        scale = self.scale(line.seen)
        clips = np.repeat(np.multiply(CLIPS, scale.clip), len(STEPS))
        natural = [self.natural(line, scale, clip) for clip in np.multiply(CLIPS, scale.clip)]
        steps = np.concatenate([one * STEPS for one in natural])
        shift, best = 1.0, np.inf
        for _ in range(1 + widen):
            found = self.train(line, clips, shift * steps, seeds)
            least = min(found, key=lambda one: one.loss)
            best = min(best, least.loss)
            place = int(np.argmin([one.loss for one in found])) // 2 % len(STEPS)
            if 0 < place < len(STEPS) - 1 or not np.isfinite(best) or least.loss > best:
                break
            shift *= _SHIFT ** (1 if place else -1)
        return best

    def train(self, line: Line, clips: NDArray, steps: NDArray, seeds: NDArray) -> list[Tried]:
        """Settings of a line with their mean losses, two each: the last model, and the mean of late ones."""
        mean = self.outcome(line, clips, steps, seeds).loss.mean(axis=0)
        found = [
            Tried(line, float(clip), float(step), averaged, float(losses[int(averaged)]))
            for clip, step, losses in zip(clips, steps, mean, strict=True)
            for averaged in (False, True)
        ]
        self.tried += found
        return found

    def outcome(self, line: Line, clips: NDArray, steps: NDArray, seeds: NDArray) -> Outcome:
        """Losses and accuracies of settings under seeds, some seeds at a time."""
        self.trainings += len(clips) * len(seeds)
        place, plan = self.ground.field(line.seen), self.ground.plan(line)
        parts = []
        for some in np.split(seeds, max(len(seeds) // _AT_ONCE, 1)):
            law = Law.of(plan, np.stack([self.asked(line.clients, int(seed)) for seed in some]))
            parts.append(trained(place, law, clips, steps, some))
        return Outcome(*(np.concatenate(values) for values in zip(*parts, strict=True)))

    def asked(self, b: int, seed: int) -> NDArray[np.int32]:
        """Cohorts of b clients, shape (most rounds, b)."""
        if (b, seed) not in self._cohorts:
            generator = schedule_generator(seed)
            self._cohorts[b, seed] = reshuffled_round_robin(self.ground.clients, b, MOST_ROUNDS, generator)
        return self._cohorts[b, seed]

    def finer(self, one: Tried) -> None:
        """Clips and steps around the best of a line."""
        self.train(one.line, one.clip * _FINER[:, 0], one.step * _FINER[:, 1], self.ground.seeds)

    def beside(self, one: Tried) -> None:
        """Counts between those of the grid, other constants, and weights by precision."""
        line, share = one.line, one.line.seen.share
        near = [line._replace(rounds=max(1, round(factor * line.rounds))) for factor in (0.7, 1.4)]
        near += [line._replace(seen=line.seen._replace(share=share * factor)) for factor in (0.5, 2.0)]
        if np.ptp(self.ground.made.sizes) > 1:
            near += [line._replace(weighting=q) for q in (0.5, 1.0)]
        for other in near:
            if other.rounds <= MOST_ROUNDS and other != line:
                self.finer(one._replace(line=other))

    def lines(self) -> list[Tried]:
        """The best setting of every line, best first."""
        best: dict[Line, Tried] = {}
        for one in sorted(self.tried, key=lambda one: one.loss):
            best.setdefault(one.line, one)
        return [*best.values()]

    def leading(self, count: int) -> list[Tried]:
        """The best line of each treatment and model that was searched in full, then the best others."""
        lines, first = self.lines(), {}
        for one in lines:
            first.setdefault((one.line.seen.keys, one.line.seen.model), one)
        best = [*first.values()][: min(self.ground.effort.kept, count)]
        return [*best, *(one for one in lines if one not in best)][:count]

    def chosen(self) -> Tried:
        """The best setting of the best lines under seeds that did not search."""
        finalists: list[Tried] = []
        size = len(_FINER)
        for one in self.leading(_FINALISTS):
            mine = sorted((other for other in self.tried if other.line == one.line), key=lambda one: one.loss)
            mine = [mine[place % len(mine)] for place in range(size)]
            clips, steps = np.array([other.clip for other in mine]), np.array([other.step for other in mine])
            loss = self.outcome(one.line, clips, steps, CHOOSING).loss.mean(axis=0)
            finalists += [
                other._replace(loss=float(loss[place, int(other.averaged)]))
                for place, other in enumerate(mine)
            ]
        return min(finalists, key=lambda one: one.loss)

    def scored(self, one: Tried, seeds: NDArray = SCORING) -> tuple[NDArray, NDArray]:
        """Losses and accuracies of a setting under the scoring seeds."""
        clips, steps = (np.full(len(_FINER), value) for value in (one.clip, one.step))
        found = self.outcome(one.line, clips, steps, seeds)
        return found.loss[:, 0, int(one.averaged)], found.accuracy[:, 0, int(one.averaged)]

    def scale(self, seen: Seen) -> Scale:
        """Typical norms of records and of their gradients at the start."""
        place = self.ground.field(seen)
        here = np.asarray(place.rows.w) > 0
        x, y = np.asarray(place.rows.x)[here], np.asarray(place.rows.y)[here]
        slopes, order = _slopes_at_start(place, y), 1 if place.norm == "l1" else 2
        lengths = np.linalg.norm(x, axis=1)
        gradient = np.mean(lengths * np.linalg.norm(slopes, axis=1))
        clip = np.mean(np.linalg.norm(x, order, axis=1) * np.linalg.norm(slopes, order, axis=1))
        return Scale(float(np.sqrt(np.mean(lengths**2))), float(gradient), float(clip))

    def natural(self, line: Line, scale: Scale, clip: float) -> float:
        """The step at which noise moves outputs by a typical slope, or a long way is gone if that is less."""
        law = Law.of(self.ground.plan(line), np.zeros((1, 1, line.clients), int))
        decay = StepSize(1.0, DECAY_ROUNDS).at(np.arange(line.rounds))
        gaussian = self.ground.made.study.privacy.mechanism == "gaussian"
        unit = law.noise * np.sqrt(law.summands * (1 if gaussian else 2))
        noise = clip * unit * np.sqrt(np.sum(decay**2))
        reach = min(clip / scale.clip, 1.0) * scale.gradient * np.sum(decay)
        return scale.gradient / scale.record**2 * float(min(1 / noise, _MOST_TRAVEL / reach))


class Scale(NamedTuple):
    """Norms at the start: of records (root mean square), of gradients, of gradients in the clip's norm."""

    record: float
    gradient: float
    clip: float


def _slopes_at_start(place: Field, y: NDArray) -> NDArray:
    if place.loss == "softmax":
        return 1 / place.outputs - np.eye(place.outputs)[y]
    return (0.5 - y if place.loss == "logistic" else -y)[:, None].astype(float)
