"""Scores of a setting over seeds, and what two standard errors of a difference tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, stdtrit

TAIL = float(ndtr(-2.0))
"""Share of normal draws beyond two standard errors on one side: how often noise alone tells something."""


@dataclass(frozen=True)
class Sample:
    """A score of one setting, or a difference of such scores.

    Attributes:
        mean: over seeds.
        std: deviation over seeds, with n - 1; NaN where it is not known.
        seeds: how many there are.
        values: by seed; empty where only mean and deviation were kept.
        exact: whether it is a number without chance, such as a planned period.
        freedom: degrees of freedom of the deviation; None for n - 1.
    """

    mean: float
    std: float
    seeds: int
    values: tuple[float, ...] = ()
    exact: bool = False
    freedom: float | None = None

    @classmethod
    def of(cls, values: ArrayLike) -> Sample:
        """From a score of every seed; one that is not a number, or infinite, diverged.

        Example:
            >>> Sample.of([49.0, 51.0])
            Sample(mean=50.0, std=1.4142135623730951, seeds=2, values=(49.0, 51.0), exact=False, freedom=None)
        """
        found = np.asarray(values, float)
        mean, several = float(found.sum()) / len(found), len(found) > 1 and np.isfinite(found).all()
        # not by np.std, which takes four times as long, and judging a page asks for thousands
        std = math.sqrt(((found - mean) ** 2).sum() / (len(found) - 1)) if several else math.nan
        return cls(mean, std, len(found), tuple(found.tolist()))

    @classmethod
    def number(cls, value: float) -> Sample:
        """A number without chance."""
        return cls(float(value), 0.0, 0, exact=True)

    def told(self, comparisons: int = 1) -> int:
        """Its sign, where that is beyond two standard errors; 0 where it cannot be told.

        With few seeds the standard error itself is uncertain: Student's t takes 2.9 of them for five seeds,
        14 for two, so that noise alone is mistaken as rarely as by two under a normal law, 2.3 % a side.

        Args:
            comparisons: how many were looked at to find one; their chances of error add up (Bonferroni).

        Example:
            >>> Sample(8.75, 14.78, 5).told(), Sample(3.25, 1.86, 5).told(), Sample(-1.70, 0.59, 5).told()
            (0, 1, -1)
        """
        if self.exact:
            return int(np.sign(round(self.mean, 12)))
        if self.seeds < 2:
            return 0
        if self.values and np.all(np.isinf(self.values)) and len(set(self.values)) == 1:
            return int(np.sign(self.mean))
        if not self.std > 0 or not np.isfinite(self.mean):
            return 0
        freedom = self.seeds - 1 if self.freedom is None else self.freedom
        multiple = -stdtrit(freedom, TAIL / comparisons)
        return int(np.sign(self.mean)) if abs(self.mean) > multiple * self.std / self.seeds**0.5 else 0


def contrast(*terms: tuple[float, Sample]) -> Sample:
    """A weighted sum of scores, paired by seed where all are known by seed.

    Otherwise deviations are added as if seeds shared nothing, which is no smaller for a difference of scores
    that share their noise, with the degrees of freedom of Welch and Satterthwaite.

    Example:
        >>> contrast((1.0, Sample.of([2.0, 4.0])), (-1.0, Sample.of([1.0, 3.0]))).std
        0.0
        >>> round(contrast((1.0, Sample(2.0, 3.0, 5)), (-1.0, Sample(1.0, 4.0, 5))).std, 9)
        5.0
    """
    drawn = [(weight, sample) for weight, sample in terms if not sample.exact and weight]
    fixed = sum(weight * sample.mean for weight, sample in terms if sample.exact)
    if not drawn:
        return Sample.number(fixed)
    if all(sample.values for _, sample in drawn) and len({sample.seeds for _, sample in drawn}) == 1:
        with np.errstate(invalid="ignore"):
            values = sum(weight * np.array(sample.values) for weight, sample in drawn) + fixed
        return Sample.of(np.where(np.isnan(values), 0.0, values))
    seeds = min(sample.seeds for _, sample in drawn)
    if not seeds:
        return Sample(float("nan"), float("nan"), 0)
    parts = [weight**2 * sample.std**2 / sample.seeds for weight, sample in drawn]
    freedoms = [one.seeds - 1 if one.freedom is None else one.freedom for _, one in drawn]
    doubt = sum(part**2 / max(free, 1e-9) for part, free in zip(parts, freedoms, strict=True))
    mean = sum(weight * sample.mean for weight, sample in drawn) + fixed
    freedom = sum(parts) ** 2 / doubt if doubt > 0 else None
    return Sample(float(mean), float((sum(parts) * seeds) ** 0.5), seeds, freedom=freedom)


def every(contrasts: Sequence[Sample]) -> int:
    """1 where each is told to be positive, -1 where one is told to be negative, 0 where it is open."""
    if contrasts and all(one.told() > 0 for one in contrasts):
        return 1
    return -1 if any(one.told(len(contrasts)) < 0 for one in contrasts) else 0


def some(contrasts: Sequence[Sample]) -> int:
    """1 where one is told to be positive, -1 where each is told to be negative, 0 where it is open."""
    if any(one.told(len(contrasts)) > 0 for one in contrasts):
        return 1
    return -1 if contrasts and all(one.told() < 0 for one in contrasts) else 0
