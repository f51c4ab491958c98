"""What clients tell of the numbers to predict once, with noise: their mean, which intercepts start at.

    upload_i = (1/n_i) sum_records (clip(y, lo, hi) - (lo + hi)/2) + noise,
    mean     = (lo + hi)/2 + sum_i a_i upload_i, kept within [lo, hi].

A record is one number of at most (hi - lo)/2, and moves such an upload as it moves one of gradients that
are clipped to it. The noise in the answer has a public deviation, so that what the answer is worth is known
before anybody is asked. docs/theory/accounting.md#mean-of-labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.means import averaged
from noiseworthy.privacy.mechanisms import Family, law_of
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import of_mean_gradient

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
