"""Kinds of claims on places: where a score is best, whether that lies inside, moves, or is as printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from noiseworthy_papers.judge import NEAR, SLACK, Case
from noiseworthy_papers.kinds import between
from noiseworthy_papers.points import Measurement, Score
from noiseworthy_papers.samples import Sample, contrast, every
from noiseworthy_papers.selecting import (
    ALL,
    PLACE,
    Where,
    advantage,
    best_of,
    ends,
    figures,
    groups,
    number,
    rows,
    split,
    tied,
    titled,
)


@dataclass(frozen=True)
class Interior:
    """The best value of a quantity lies inside the range that was tried: both ends are worse.

    Attributes:
        along: the quantity.
        score: what is best there.
        where: of which settings.
        by: how much worse the ends are, at least.
        most: the best score is at most this; None asks nothing.
        apart: what else tells rows of settings apart.
    """

    along: str
    score: Score = "loss"
    where: Where = ALL
    by: float = 0.0
    most: float | None = None
    apart: tuple[str, ...] = ()

    def cases(self, points: Sequence[Measurement]) -> list[Case]:
        """One per row of settings that differ in the quantity alone."""
        found = rows(self.where.of(points), self.along, self.apart)
        return [self._case(row) for row in found if len(row) > 2]

    def _case(self, row: Sequence[Measurement]) -> Case:
        inner, ends = row[1:-1], (row[0], row[-1])
        best, less = best_of(inner, self.score), (-1.0, Sample.number(self.by))
        inside = all(advantage(self.score, best, end, less).told(len(inner)) > 0 for end in ends)
        at_end = any(
            every([advantage(self.score, end, one, (1.0, Sample.number(self.by))) for one in inner]) > 0
            for end in ends
        )
        low = [between(one.sample(self.score), None, self.most) for one in row] if self.most else [1]
        told = 1 if inside and max(low) > 0 else -1 if at_end or max(low) < 0 else 0
        over = best_of(row, self.score)
        values = [number(self.score, one.sample(self.score)) for one in (over, *ends)]
        place = f"best {values[0]} at {over.quantity(self.along):g}, ends {values[1]} and {values[2]}"
        return Case(told, titled(row[0], f"{_apart(row[0])}{place}", without=self.along))


@dataclass(frozen=True)
class OptimumMoves:
    """The best value of a quantity rises, or falls, with another; where both are alike it tells nothing.

    What is not told to be worse than the best may be the best: two optima are in order only where no such
    value of one is beyond such a value of the other.

    Attributes:
        along: the quantity that is best.
        over: the other quantity.
        rising: whether both rise together.
        score: what is best there.
        where: of which settings.
        apart: what else tells rows of settings apart.
    """

    along: str
    over: str
    rising: bool
    score: Score = "loss"
    where: Where = ALL
    apart: tuple[str, ...] = ()

    def cases(self, points: Sequence[Measurement]) -> list[Case]:
        """One per two neighbours along the other quantity."""
        keys = [key for key in (*PLACE, *self.apart) if key != self.over]
        found = rows(self.where.of(points), self.along, self.apart)
        lines = split(found, lambda row: tuple(getattr(row[0], key) for key in keys))
        return [
            self._case(*two)
            for line in lines
            for two in pairwise(sorted(line, key=lambda row: row[0].quantity(self.over)))
        ]

    def _case(self, low: Sequence[Measurement], high: Sequence[Measurement]) -> Case:
        first, second = (places(row, self.along, self.score) for row in (low, high))
        told = (min(second) > max(first)) - (max(second) < min(first))
        shown = " to ".join(optimum(row, self.along, self.score) for row in (low, high))
        text = f"{_apart(low[0])}{ends(self.over, low[0], high[0])}: best at {shown}"
        return Case(int(told) * (1 if self.rising else -1), titled(low[0], text, without=self.over))


@dataclass(frozen=True)
class Near:
    """A value of a quantity, planned or best, is what is printed or best elsewhere, within `NEAR`.

    Attributes:
        along: the quantity.
        mine: settings with the value; of several under one budget the best counts.
        printed: the value by epsilon; empty compares with `target`.
        target: settings whose best is compared with.
        score: what is best.
    """

    along: str
    mine: Where
    printed: tuple[tuple[float, float], ...] = ()
    target: Where = ALL
    score: Score = "loss"

    def cases(self, points: Sequence[Measurement]) -> list[Case]:
        """One per budget."""
        found = []
        for mine in groups(self.mine.of(points), PLACE):
            if self.printed:
                value = dict(self.printed).get(mine[0].epsilon)
                if value is not None:
                    found.append(self._case(mine, [value], f"paper {value:g}"))
                continue
            others = [p for p in self.target.of(points) if _place(p) == _place(mine[0])]
            if others:
                there = places(others, self.along, self.score)
                found.append(self._case(mine, there, f"best {optimum(others, self.along, self.score)}"))
        return found

    def _case(self, mine: Sequence[Measurement], there: Sequence[float], shown: str) -> Case:
        here = places(mine, self.along, self.score)
        close = [_close(a, b) for a in here for b in there]
        told = 1 if all(close) else -1 if not any(close) else 0
        return Case(told, titled(mine[0], f"{optimum(mine, self.along, self.score)}, {shown}"))


@dataclass(frozen=True)
class LowestLine:
    """From some length on a line lies lowest, or ties with the lowest, wherever it was measured.

    Others are taken at the same place, linear in log loss between their own. `SLACK` of what the best of them
    gains over not training is a tie.

    Attributes:
        series: the line.
        along: quantity along which lines run.
        least: from where on.
        where: settings that lines are made of.
    """

    series: str
    along: str
    least: float
    where: Where

    def cases(self, points: Sequence[Measurement]) -> list[Case]:
        """One per measured place of the line."""
        lines = {line[0].series: line for line in split(self.where.of(points), lambda p: p.series)}
        mine = [p for p in lines.pop(self.series, []) if p.quantity(self.along) >= self.least]
        return [self._case(point, lines) for point in mine]

    def _case(self, point: Measurement, lines: dict[str, list[Measurement]]) -> Case:
        own, place = point.sample("loss"), point.quantity(self.along)
        others = {name: _at(line, self.along, place) for name, line in lines.items()}
        rival = min(others, key=lambda name: others[name].mean)
        shown = (
            f"{self.along} {place:g}: {figures(own.mean)} against {figures(others[rival].mean)} of {rival}"
        )
        start = point.start("loss")
        slack = None if start is None else contrast((SLACK, start), (-SLACK, others[rival]))
        gains = 0 if slack is None else slack.told()
        tie = [(1.0, slack)] if slack is not None and gains > 0 else []
        told = every([contrast((1.0, other), (-1.0, own), *tie) for other in others.values()])
        if gains <= 0:
            shown += "; nothing is told to gain on not training"
        return Case(told if gains else max(told, 0), shown)


@dataclass(frozen=True)
class FlattestLine:
    """From some length on the loss of a line varies least, largest over smallest mean.

    Attributes:
        series: the line.
        along: quantity along which lines run.
        least: from where on.
        where: settings that lines are made of.
    """

    series: str
    along: str
    least: float
    where: Where

    def cases(self, points: Sequence[Measurement]) -> list[Case]:
        """One against each other line."""
        spans = {
            line[0].series: _span([p for p in line if p.quantity(self.along) >= self.least])
            for line in split(self.where.of(points), lambda p: p.series)
        }
        own = spans.pop(self.series, None)
        if own is None:
            return []
        gaps = {name: contrast((1.0, other), (-1.0, own)) for name, other in spans.items()}
        return [
            Case(gap.told(), f"{_times(own)} against {_times(spans[name])} of {name}")
            for name, gap in gaps.items()
        ]


def places(row: Sequence[Measurement], along: str, score: Score) -> list[float]:
    """Values of a quantity that are not told to be worse than the best."""
    return sorted({one.quantity(along) for one in tied(row, score)})


def optimum(row: Sequence[Measurement], along: str, score: Score) -> str:
    """The best value, and in brackets the range of those not told to be worse."""
    best, found = best_of(row, score).quantity(along), places(row, along, score)
    return f"{best:g}" if len(found) == 1 else f"{best:g} ({found[0]:g}–{found[-1]:g})"


def _close(one: float, other: float) -> bool:
    return one == other or (one > 0 and other / NEAR <= one <= other * NEAR)


def _place(point: Measurement) -> tuple:
    return tuple(getattr(point, key) for key in PLACE)


def _apart(point: Measurement) -> str:
    """Algorithm and clip, where it is figures of several that are judged."""
    short = {"dp-fedavg": "FedAvg", "dp-scaffnew": "ScaffNew"}.get(point.algorithm, "")
    return f"{short} C={point.quantity('clip_norm'):g}, " if short and "steps" in point.series else ""


def _at(line: Sequence[Measurement], along: str, place: float) -> Sample:
    """The loss of a line at a place, seed by seed where seeds are known."""
    ordered = sorted(line, key=lambda p: p.quantity(along))
    at, losses = [p.quantity(along) for p in ordered], [p.sample("loss") for p in ordered]
    if place in at or not all(loss.values for loss in losses):
        return losses[int(np.argmin(np.abs(np.array(at) - place)))]
    logs = np.log([loss.values for loss in losses])
    return Sample.of(np.exp([np.interp(place, at, by_seed) for by_seed in logs.T]))


def _span(line: Sequence[Measurement]) -> Sample:
    """Logarithm of the loss where its mean is largest over that where it is smallest, seed by seed."""
    losses = sorted((p.sample("loss") for p in line), key=lambda sample: sample.mean)
    if not all(loss.values for loss in losses):
        return Sample(float("nan"), float("nan"), 0)
    return Sample.of(np.log(losses[-1].values) - np.log(losses[0].values))


def _times(span: Sample) -> str:
    return f"{np.exp(span.mean):.1f} times"
