"""What clients tell of their records once, with noise: the mean of them at norm 1, and shares of classes.

    upload_i = (1/n_i) sum_records (clip(x/|x|), w e_y) + noise,    in L2 at 1, in L1 at C = 0.63 sqrt(d),
    answer   = sum_i a_i upload_i,
    mean     = shrunk(its first d numbers),     shares = 1/K + shrunk(its last K numbers / w less their mean),

with shrunk(v) = (1 - (|v|^2 of noise alone)/|v|^2)_+ v. A record moves such an upload as it moves one of
clipped gradients. The noise in the answer has a public deviation, so that shrinking reads nothing: where
noise is all there is, the mean is 0 and the shares are equal. docs/theory/accounting.md#mean-of-records.

Of numbers to predict they tell the mean alone, which intercepts start at:

    upload_i = (1/n_i) sum_records (clip(y, lo, hi) - (lo + hi)/2) + noise,
    mean     = (lo + hi)/2 + sum_i a_i upload_i, kept within [lo, hi].

A record is one number of at most (hi - lo)/2, and moves such an upload as it moves one of gradients that
are clipped to it. What the answer is worth is known before anybody is asked.
docs/theory/accounting.md#mean-of-labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy._validate import Real
from noiseworthy.privacy.budget import PrivacyBudget, Relation
from noiseworthy.privacy.mechanisms import Family, Mechanism, law_of
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import Norm, mean_rows, of_mean_and_class, of_mean_gradient

RecordShape = Sequence[int]
SHARE = 0.1
"""Of every budget."""
SPREAD = 0.63
"""Mean of |x|_1 / (|x|_2 sqrt d) over the records of digits, and over those of Fashion-MNIST."""
OF_MEAN = 0.1
"""What noise of size 1 in the mean of rows is taken to cost, in nats of the loss."""


class Told(NamedTuple):
    """What is left of the answers without most of their noise.

    Attributes:
        mean: of records at norm 1, shape (d,).
        shares: of the classes, above 0 with the sum 1, shape (K,).
    """

    mean: Real
    shares: Real


class MeanRelease(NamedTuple):
    """How clients release the mean of their records and their shares of classes, by public facts alone.

    Attributes:
        release: of every client.
        weights: of their answers, by records over noise, with the sum 1, shape (N,).
        deviation: s, of the noise in each number of the weighted answer.
        classes: K.
        clip_norm: C, the most of a record in the norm of the noise.
        of_class: w, by which shares are multiplied: the more, the less noise they have, and the mean more.
    """

    release: Release
    weights: Real
    deviation: float
    classes: int
    clip_norm: float
    of_class: float

    @classmethod
    def of(
        cls, sizes: NDArray[np.int64], budget: PrivacyBudget, family: Family, shape: RecordShape, classes: int
    ) -> MeanRelease:
        """What clients tell for `SHARE` of a budget.

        Args:
            sizes: records of each client, shape (N,).
            budget: of which a share is spent, for one record of a client.
            family: the noise.
            shape: of a record, with d numbers.
            classes: K.

        Example:
            >>> made = MeanRelease.of(np.array([100, 100]), PrivacyBudget.of(1.0, 0.0, 2), "laplace", (4,), 2)
            >>> made.release.mechanism.size.round(3)  # 2 (C + w) / (n epsilon SHARE), C = 1.26, w = 1.47
            array([0.545, 0.545])
        """
        law, once = law_of(family), np.ones(len(sizes))
        most = most_of(law.norm, math.prod(shape))
        of_class = weight_of_class(law.norm, shape, classes, budget.relation)
        moved = of_mean_and_class(most, of_class, sizes, law.norm, budget.relation)
        noise = law.noise(law.paid_in.analysis.noise(moved.value, budget, SHARE, once))
        weights, deviation = averaged(noise, sizes)
        return cls(Release(noise, moved), weights, deviation, classes, most, of_class)

    def told(self, rows: ArrayLike, labels: NDArray) -> Real:
        """What a client tells of its records before noise, shape (d + K,).

        Args:
            rows: records, shape (n, ...) with d numbers each.
            labels: their classes 0..K-1, shape (n,).
        """
        norm = self.release.sensitivity.norm
        return mean_rows(rows, labels, self.clip_norm, self.of_class, self.classes, norm).mean(axis=0)

    def combined(self, answers: Mapping[int, Real]) -> Told:
        """What is read of the noised answers of some clients, or all, by their places."""
        there = list(answers)
        weights = self.weights[there] / self.weights[there].sum()
        noise = np.sqrt(np.square(weights) @ self.release.mechanism.variance[there])
        return self.read(weights @ np.stack([*answers.values()]), float(noise) / self.deviation)

    def read(self, answer: Real, noisier: float = 1.0) -> Told:
        """The mean and the shares in a noised answer, without about as much as noise is of them.

        Shares below the noise in them are raised to it, because of small ones noise makes anything.

        Args:
            answer: weighted mean of what clients told, shape (d + K,).
            noisier: what its noise was multiplied by.
        """
        noise = noisier * self.deviation
        mean, shares = np.split(answer, [-self.classes])
        of_share, equal = noise / self.of_class, 1 / self.classes
        # shares have a known sum: what noise adds to all of them alike is seen, and taken off
        shares = equal + _shrunk((shares - shares.mean()) / self.of_class, of_share, self.classes - 1)
        shares = np.maximum(shares, min(of_share, equal))
        return Told(_shrunk(mean, noise, len(mean)), shares / shares.sum())


def averaged(noise: Mechanism, sizes: NDArray[np.int64]) -> tuple[Real, float]:
    """Weights of clients' answers, by records over noise, and the deviation of noise in their mean."""
    weights = sizes / noise.size
    weights /= weights.sum()
    return weights, float(np.sqrt(np.square(weights) @ noise.variance))


def weight_of_class(norm: Norm, shape: RecordShape, classes: int, relation: Relation) -> float:
    """w, with which the noise in the mean and in shares of a known sum costs the least loss together.

    The noise in a number grows as S, the most that a record holds of both, and in a share as S/w, where it
    costs K (K-1)/2 times its square (even shares, second order):

        S^2 (k d + K (K-1)/(2 w^2)),    S = C + w in L1, and in L2 S^2 = 1 + w^2/2 (add-remove: 1 + w^2)
        least at w^3 = C r in L1, and in L2 at w^4 = 2 r (add-remove: r),    r = K (K-1) / (2 k d)

    with k = `OF_MEAN` of rows. Of images, which are mostly their mean and whose classes are mostly alike, a
    squared unit of noise counts alike in both: k = K/2.
    """
    features, of_mean = math.prod(shape), OF_MEAN if len(shape) == 1 else classes / 2
    free = classes * (classes - 1) / (2 * of_mean * features)
    if norm == "l1":
        return float((free * most_of(norm, features)) ** (1 / 3))
    return float((2 * free if relation == "replace-one" else free) ** 0.25)


def _shrunk(noised: Real, deviation: float, free: int) -> Real:
    """Noised numbers, so many of which are free, times the share of their square that is not noise, about."""
    noise = free * deviation**2
    return noised * max(0.0, 1 - noise / max(float(noised @ noised), 1e-300))


def most_of(norm: Norm, features: int) -> float:
    """C, the most that a record of norm 1 may be in the norm of the noise."""
    return 1.0 if norm == "l2" else SPREAD * features**0.5


SHARES = (0.01, 0.02, 0.05, 0.1)
"""Of every budget, of which the first is spent that tells the mean"""
CLOSE, TELLING = 0.02, 0.05
"""this close, as a share of the ends' distance; the last is worth it up to the other."""


class LabelMean(NamedTuple):
    """How clients release the mean of their labels, by public facts alone.

    Attributes:
        release, weights: as those of `privacy.means.MeanRelease`.
        deviation: of the noise in the weighted answer.
        share: of every budget, that it costs.
        least, most: public ends [lo, hi] that labels are kept within.
    """

    release: Release
    weights: NDArray[np.float64]
    deviation: float
    share: float
    least: float
    most: float

    @classmethod
    def of(
        cls, sizes: NDArray[np.int64], budget: PrivacyBudget, family: Family, least: float, most: float
    ) -> LabelMean:
        """What clients tell for the smallest of `SHARES` that tells it `CLOSE`, or the largest.

        Args:
            sizes, budget, family: as `privacy.means.MeanRelease.of`.
            least, most: public ends of the labels, one below the other.

        Example:
            >>> made = LabelMean.of(np.array([100]), PrivacyBudget.of(10.0, 0.0, 1), "laplace", 20.0, 80.0)
            >>> made.share, made.release.mechanism.size.round(3)  # (hi - lo) / (n epsilon share)
            (0.1, array([0.6]))
        """
        law, once = law_of(family), np.ones(len(sizes))
        moved = of_mean_gradient((most - least) / 2, sizes, law.norm, budget.relation)
        noises = [law.noise(law.paid_in.analysis.noise(moved.value, budget, share, once)) for share in SHARES]
        made = [
            cls(Release(noise, moved), *averaged(noise, sizes), share, least, most)
            for share, noise in zip(SHARES, noises, strict=True)
        ]
        return next((one for one in made if one.deviation <= CLOSE * (most - least)), made[-1])

    @property
    def telling(self) -> bool:
        """Whether it tells more than the ends do, whatever the labels are."""
        return self.deviation <= TELLING * (self.most - self.least)

    def told(self, labels: ArrayLike) -> NDArray[np.float64]:
        """What a client tells of its labels before noise, shape (1,).

        Args:
            labels: numbers, shape (n,); what is none counts as the middle.
        """
        known = np.nan_to_num(np.asarray(labels, np.float64), nan=self.middle)
        return np.clip(known, self.least, self.most).mean(keepdims=True) - self.middle

    def combined(self, answers: Mapping[int, NDArray[np.float64]]) -> float:
        """The mean in the noised answers of some clients, or all, by their places."""
        weights = self.weights[[*answers]]
        mean = self.middle + weights @ np.concatenate([*answers.values()]) / weights.sum()
        return float(np.clip(mean, self.least, self.most))

    @property
    def middle(self) -> float:
        """Between the ends."""
        return (self.least + self.most) / 2

    @property
    def clip_norm(self) -> float:
        """C, that a label is from the middle at most."""
        return (self.most - self.least) / 2
