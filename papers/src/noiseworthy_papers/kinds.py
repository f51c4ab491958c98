"""Kinds of claims on scores: what is ahead of what, what rises, differs, is alike, or reaches a level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

from noiseworthy_papers.judge import NEAR, SLACK, Case
from noiseworthy_papers.points import Measurement, Score
from noiseworthy_papers.samples import Sample, contrast, every, some
from noiseworthy_papers.selecting import (
    ALL,
    LOWER,
    PLACE,
    Where,
    advantage,
    best_of,
    deviation,
    ends,
    epsilon,
    gap,
    groups,
    number,
    rows,
    titled,
)


@dataclass(frozen=True)
class Ahead:
    """A setting scores better than each other that it is compared with.

    Attributes:
        mine: settings of which it is said; each is a case.
        than: settings that each is compared with.
        score: what is compared.
        by: least advantage; negative for what one may be behind.
        factor: of its own score, before the comparison: 1.1 for a loss that is 10 % less than another.
        tie: whether it may be behind by `SLACK` of what the best of the others gains over not training. Where
            that is not told to be anything, it must be ahead.
        match: what is equal in settings that are compared.
        without: compare with the series of its own label without this ending.
        each: whether every comparison is a case of its own.
    """

    mine: Where
    than: Where = ALL
    score: Score = "loss"
    by: float = 0.0
    factor: float = 1.0
    tie: bool = False
    match: tuple[str, ...] = PLACE
    without: str = ""
    each: bool = False

    def cases(self, points: Sequence[Measurement]) -> list[Case]:
        """One per setting of which it is said, or per comparison."""
        found, rivals = [], self.than.of(points)
        for mine in self.mine.of(points):
            others = [other for other in rivals if self._compared(mine, other)]
            together = [[other] for other in others] if self.each else [others] if others else []
            found += [self._case(mine, compared) for compared in together]
        return found

    def _compared(self, mine: Measurement, other: Measurement) -> bool:
        if mine is other or (self.without and other.series != mine.series.removesuffix(self.without)):
            return False
        return all(getattr(mine, key) == getattr(other, key) for key in self.match)

    def _case(self, mine: Measurement, others: Sequence[Measurement]) -> Case:
        best = best_of(others, self.score)
        slack = self._slack(best) if self.tie else None
        lead = advantage(self.score, mine, best)
        shown = f"{_result(self.score, mine)} against {_result(self.score, best)} ({gap(self.score, lead)})"
        gains = 0 if slack is None else slack.told()
        if slack is not None and gains <= 0:
            shown += "; nothing is told to gain on not training"
        terms = (-1.0, Sample.number(self.by)), *([(1.0, slack)] if slack is not None and gains > 0 else [])
        told = every([advantage(self.score, mine, one, *terms, factor=self.factor) for one in others])
        return Case(max(told, 0) if self.tie and not gains else told, titled(mine, shown))

    def _slack(self, best: Measurement) -> Sample | None:
        start = best.start(self.score)
        sign = -SLACK if self.score in LOWER else SLACK
        return None if start is None else contrast((sign, best.sample(self.score)), (-sign, start))


@dataclass(frozen=True)
class Ordered:
    """A score rises, or falls, with a quantity, everything else equal; equal neighbours tell nothing.

    Attributes:
        score: what rises.
        along: with which quantity.
        rising: or falls.
        where: of which settings.
        ends: compare the ends alone, not every two neighbours.
        by: least difference.
    """

    score: Score
    along: str
    rising: bool
    where: Where = ALL
    ends: bool = False
    by: float = 0.0

    def cases(self, points: Sequence[Measurement]) -> list[Case]:
        """One per two neighbours, or per two ends."""
        found = []
        for row in rows(self.where.of(points), self.along):
            for low, high in [(row[0], row[-1])] if self.ends else pairwise(row):
                found.append(self._case(low, high))
        return found

    def _case(self, low: Measurement, high: Measurement) -> Case:
        sign = 1.0 if self.rising else -1.0
        terms = (sign, high.sample(self.score)), (-sign, low.sample(self.score))
        told = contrast(*terms, (-1.0, Sample.number(self.by))).told()
        values = " to ".join(number(self.score, p.sample(self.score)) for p in (low, high))
        changed = gap(self.score, contrast((1.0, high.sample(self.score)), (-1.0, low.sample(self.score))))
        text = f"{low.series}, {ends(self.along, low, high)}: {values} ({changed})"
        return Case(told, titled(low, text, without=self.along))


@dataclass(frozen=True)
class Slower:
    """From end to end of a quantity one setting gains less than a share of what another gains.

    Attributes:
        mine: settings of which it is said.
        than: what each is compared with, under the same noise.
        score: what is gained.
        along: the quantity.
        share: of the other's gain.
    """

    mine: Where
    than: Where
    score: Score
    along: str
    share: float = 1.0

    def cases(self, points: Sequence[Measurement]) -> list[Case]:
        """One per two settings."""
        lines = [rows(where.of(points), self.along) for where in (self.mine, self.than)]
        return [
            self._case(mine, other)
            for mine in lines[0]
            for other in lines[1]
            if mine[0].mechanism == other[0].mechanism
        ]

    def _case(self, mine: Sequence[Measurement], other: Sequence[Measurement]) -> Case:
        gains = [advantage(self.score, line[-1], line[0]) for line in (mine, other)]
        told = contrast((self.share, gains[1]), (-1.0, gains[0])).told()
        shown = " against ".join(
            f"{line[0].series} {gap(self.score, gain)}"
            for line, gain in zip((mine, other), gains, strict=True)
        )
        return Case(told, f"{mine[0].mechanism}: from end to end {shown}")


@dataclass(frozen=True)
class Level:
    """A score lies between two levels, at every setting.

    Attributes:
        score: what.
        where: of which settings.
        least: lower level; None for none.
        most: upper level; None for none.
    """

    score: Score
    where: Where = ALL
    least: float | None = None
    most: float | None = None

    def cases(self, points: Sequence[Measurement]) -> list[Case]:
        """One per setting."""
        return [self._case(point) for point in self.where.of(points)]

    def _case(self, point: Measurement) -> Case:
        found = point.sample(self.score)
        shown = f"{point.series} {number(self.score, found)}{deviation(found)}"
        return Case(between(found, self.least, self.most), titled(point, shown))


@dataclass(frozen=True)
class Printed:
    """The best score under each budget is what the paper prints, within a factor of `NEAR`.

    Attributes:
        score: what is printed.
        values: by epsilon.
        where: settings whose best counts.
    """

    score: Score
    values: tuple[tuple[float, float], ...]
    where: Where = ALL

    def cases(self, points: Sequence[Measurement]) -> list[Case]:
        """One per budget."""
        found = []
        for budget, value in self.values:
            if chosen := [point for point in self.where.of(points) if point.epsilon == budget]:
                sample = best_of(chosen, self.score).sample(self.score)
                measured = f"{number(self.score, sample)}{deviation(sample)}"
                shown = f"{epsilon(budget)}: {measured}, paper {value:g}"
                found.append(Case(between(sample, value / NEAR, value * NEAR), shown))
        return found


@dataclass(frozen=True)
class Spread:
    """Under every budget some two settings differ by so much.

    Attributes:
        score: in what.
        where: which settings.
        by: least difference.
        factor: or the least quotient of a score that is better the lower it is.
    """

    score: Score
    where: Where = ALL
    by: float = 0.0
    factor: float = 1.0

    def cases(self, points: Sequence[Measurement]) -> list[Case]:
        """One per place."""
        return [self._case(one) for one in groups(self.where.of(points), PLACE) if len(one) > 1]

    def _case(self, settings: Sequence[Measurement]) -> Case:
        less = (-1.0, Sample.number(self.by))
        told = some(
            [
                advantage(self.score, good, bad, less, factor=self.factor)
                for good, bad in permutations(settings, 2)
            ]
        )
        ranked = sorted((one.sample(self.score) for one in settings), key=lambda sample: sample.mean)
        ends = " to ".join(number(self.score, one) for one in (ranked[0], ranked[-1]))
        return Case(told, titled(settings[0], f"{self.score} {ends}"))


@dataclass(frozen=True)
class Alike:
    """Settings that are equal in some attributes differ by no more than so much in a score.

    Attributes:
        score: in what.
        within: by how much.
        where: which settings.
        match: attributes that are equal in what is compared.
    """

    score: Score
    within: float
    where: Where = ALL
    match: tuple[str, ...] = PLACE

    def cases(self, points: Sequence[Measurement]) -> list[Case]:
        """One per group of settings."""
        return [self._case(one) for one in groups(self.where.of(points), self.match) if len(one) > 1]

    def _case(self, settings: Sequence[Measurement]) -> Case:
        allowed = (1.0, Sample.number(self.within))
        told = every([advantage(self.score, *two, allowed) for two in permutations(settings, 2)])
        shown = "; ".join(f"{one.series} {number(self.score, one.sample(self.score))}" for one in settings)
        return Case(told, titled(settings[0], shown))


@dataclass(frozen=True)
class Facts:
    """Cases without chance: entries that are equal or not, constants that fit or do not.

    Attributes:
        held: whether each holds.
        shown: what they say together.
    """

    held: tuple[bool, ...]
    shown: str

    def cases(self, points: Sequence[Measurement]) -> list[Case]:
        """One per fact."""
        return [Case(1 if held else -1, self.shown) for held in self.held]


@dataclass(frozen=True)
class Untestable:
    """A claim that nothing here can tell.

    Attributes:
        why: so.
    """

    why: str

    def cases(self, points: Sequence[Measurement]) -> list[Case]:
        """One, open."""
        return [Case(0, self.why)]


def between(sample: Sample, least: float | None, most: float | None) -> int:
    """1 where a score is told to lie between two levels, -1 where it is told not to."""
    limits = []
    if least is not None:
        limits.append(contrast((1.0, sample), (-1.0, Sample.number(least))))
    if most is not None:
        limits.append(contrast((-1.0, sample), (1.0, Sample.number(most))))
    return every(limits)


def _result(score: Score, point: Measurement) -> str:
    return f"{point.series} {number(score, point.sample(score))}"
