"""How good a model is on records that its owners hold out: what each record says, and what is read of it.

    upload_i = (1/n_i) sum_records a(record) + noise,        a = r, or (r, c, r c)/L of two classes

with r = 1 where the model is right and -1 where it is wrong, c = 1 of the second class and -1 of the first,
and L = 3 in L1 and sqrt 3 in L2, which makes every row as long as the clip of 1. For numbers r falls
evenly from 1 to -1 as the prediction's error grows from 0 to a public reach. No record that is held out is
trained on, so that these releases have a budget of their own. docs/theory/accounting.md#scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.mechanisms import Family, law_of
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import ANSWER_LENGTHS, of_mean_answer

Real = NDArray[np.float64]
CLIP = 1.0
"""Norm of a record's row."""
_APART = 0.3
"""Standard deviation that r is taken to have between owners: of 15 points in the share that is right."""


class FoundClass(NamedTuple):
    """How much of a class a model finds.

    Attributes:
        share: of all records that are of the class.
        found: part of these that the model says so of.
        deviation: standard deviation of that part.
    """

    share: float
    found: float
    deviation: float


class Scored(NamedTuple):
    """What noised answers say of a model.

    Attributes:
        score: share of the records that it is right on, or the mean error of its predictions.
        deviation: standard deviation of the score, by noise and by which records were held out: no
            less than it is, because errors are taken to spread as widely as their mean lets them.
        classes: of two classes, what the model finds of each; None of one whose share drowns in noise.
    """

    score: float
    deviation: float
    classes: tuple[FoundClass | None, ...] = ()


class ScoreRelease(NamedTuple):
    """How owners release what their held-out records say of a model, by public facts alone.

    Attributes:
        release: of every owner.
        sizes: records that each holds out, shape (N,).
        two_classes: whether answers are told by class.
        reach: error of a prediction that counts as wrong, where numbers are predicted; 0 for classes.
    """

    release: Release
    sizes: NDArray[np.int64]
    two_classes: bool
    reach: float = 0.0

    @classmethod
    def of(
        cls, sizes: NDArray[np.int64], budget: PrivacyBudget, family: Family, floors: ArrayLike,
        *, two_classes: bool, reach: float = 0.0,
    ) -> ScoreRelease:  # fmt: skip
        """One release for all of a budget that held-out records have to themselves.

        Args:
            sizes: records, or persons, that each owner holds out, shape (N,).
            budget: of one of them at each owner.
            family: the noise.
            floors: the least noise of each owner, in units of what a neighbour changes, shape (N,).
            two_classes, reach: as the attributes.

        Example:
            >>> budget = PrivacyBudget.of(2.0, 0.0, 1)
            >>> made = ScoreRelease.of(np.array([100]), budget, "laplace", [0.1], two_classes=False)
            >>> made.release.mechanism.size  # 2 / (n epsilon)
            array([0.01])
        """
        law, once = law_of(family), np.ones(len(sizes))
        moved = of_mean_answer(CLIP, sizes, law.norm, two_classes=two_classes)
        size = law.paid_in.analysis.noise(moved.value, budget, 1.0, once)
        noise = law.noise(np.maximum(size, np.asarray(floors) * moved.value))
        return cls(Release(noise, moved), sizes, two_classes, reach)

    def read(self, answers: Mapping[int, Real]) -> Scored:
        """What the noised answers of some owners, or all, say of all records that these hold out.

            weight_i = (tau^2 n_i/n + lambda)/(tau^2 + 1/n_i + v_i),        v_i of the noise in r,

        sums to 1: as near as noise allows to each record counting alike, if r differs by tau between owners.

        Args:
            answers: by place, shape (3,) of two classes and (1,) else.

        Example:
            >>> budget = PrivacyBudget.of(50.0, 1e-5, 1)
            >>> made = ScoreRelease.of(np.array([400]), budget, "gaussian", [0.1], two_classes=True)
            >>> rows = np.array([[1, 1, 1]] * 90 + [[-1, 1, -1]] * 10 + [[1, -1, -1]] * 300) / 3**0.5
            >>> found = made.read({0: rows.mean(axis=0)})
            >>> round(found.score, 3), [round(one.found, 3) for one in found.classes]
            (0.975, [1.0, 0.9])
        """
        there = [*answers]
        length = ANSWER_LENGTHS[self.release.sensitivity.norm] if self.two_classes else 1.0
        noises = length**2 * self.release.mechanism.variance[there]
        drawn, shares = 1 / self.sizes[there], self.sizes[there] / self.sizes[there].sum()
        spreads = _APART**2 + drawn + noises
        weights = _APART**2 * shares / spreads
        weights += (1 - weights.sum()) / spreads / np.sum(1 / spreads)
        r, *others = length * (weights @ np.stack([*answers.values()]))
        apart = _APART**2 * np.sum(np.square(weights - shares))  # as if it were noise
        noise, drawn = float(np.square(weights) @ noises + apart), float(np.square(weights) @ drawn)
        right = float(np.clip((1 + r) / 2, 0, 1))
        deviation = (noise / 4 + _drawn(right, drawn)) ** 0.5
        if self.reach:
            return Scored(self.reach * (1 - right), self.reach * deviation)
        if not others:
            return Scored(right, deviation)
        c, rc = others
        ends = [(1 - c, 1 + r - c - rc), (1 + c, 1 + r + c + rc)]
        return Scored(right, deviation, tuple(_found(a / 2, b / 4, noise, drawn) for a, b in ends))


def _drawn(part: float, one: float) -> float:
    """Variance of a part of records that were drawn, of which each counts `one`.

    Two more are taken to be on either side, so that of a few records without a mistake not all are certain.
    """
    likely = (part + 2 * one) / (1 + 4 * one)
    return one * likely * (1 - likely)


def _found(share: float, both: float, noise: float, drawn: float) -> FoundClass | None:
    """What is found of a class by its share and what is both of it and found; None where noise is its share.

    Of three numbers with noise of variance v the share has v/4, what is of the class and found 3 v/16, and
    both together v/8; a ratio moves by these to first order.
    """
    if share <= noise**0.5:
        return None
    part = float(np.clip(both / share, 0, 1))
    moved = noise * (3 / 16 - part / 4 + part**2 / 4) / share**2
    return FoundClass(min(share, 1.0), part, (moved + _drawn(part, drawn / share)) ** 0.5)
