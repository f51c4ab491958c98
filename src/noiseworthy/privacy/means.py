"""The mean of records of norm 1, which clients tell once: what that costs and how much noise is in it.

    upload_i = (1/n_i) sum_records clip(x/|x|) + noise,    in L2 at 1, in L1 at C = 0.63 sqrt(d),
    mean     = shrink x sum_i a_i upload_i,                shrink = (1 - d s^2/|sum_i a_i upload_i|^2)_+,

A record moves such a mean as it moves one of clipped gradients. s is the deviation of the noise in the
weighted mean, which is public, so that shrinking reads nothing: where noise is all there is, nothing is left.
docs/theory/accounting.md#mean-of-records.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.mechanisms import Family, law_of
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import Norm, of_mean_gradient

Real = NDArray[np.float64]
SHARE = 0.1
"""Of every budget."""
SPREAD = 0.63
"""Mean of |x|_1 / (|x|_2 sqrt d) over the records of digits, and over those of Fashion-MNIST."""


class MeanRelease(NamedTuple):
    """How clients release the mean of their records, by public facts alone.

    Attributes:
        release: of every client.
        weights: of their answers, by records over noise, with the sum 1, shape (N,).
        deviation: of the noise in each number of the weighted mean.
    """

    release: Release
    weights: Real
    deviation: float

    @classmethod
    def of(
        cls, sizes: NDArray[np.int64], budget: PrivacyBudget, family: Family, features: int
    ) -> MeanRelease:
        """What clients tell for `SHARE` of a budget.

        Args:
            sizes: records of each client, shape (N,).
            budget: of which a share is spent, for one record of a client.
            family: the noise.
            features: d, of a record.

        Example:
            >>> made = MeanRelease.of(np.array([100, 100]), PrivacyBudget.of(1.0, 0.0, 2), "laplace", 4)
            >>> made.release.mechanism.size, made.weights  # 2 C / (n epsilon SHARE), C = 1.26
            (array([0.252, 0.252]), array([0.5, 0.5]))
        """
        law, once = law_of(family), np.ones(len(sizes))
        moved = of_mean_gradient(most_of(law.norm, features), sizes, law.norm, budget.relation)
        noise = law.noise(law.paid_in.noise(moved.value, budget, SHARE, once))
        weights = sizes / noise.size
        weights /= weights.sum()
        return cls(Release(noise, moved), weights, float(np.sqrt(np.square(weights) @ noise.variance)))

    def shrunk(self, mean: Real, noisier: float = 1.0) -> Real:
        """A noised mean times the share of it that is not noise, about, shape (d,).

        Args:
            mean: the weighted mean of the answers.
            noisier: what its noise was multiplied by.
        """
        noise = len(mean) * (noisier * self.deviation) ** 2
        return mean * max(0.0, 1 - noise / max(float(mean @ mean), 1e-300))


def most_of(norm: Norm, features: int) -> float:
    """C, the most that a record of norm 1 may be in the norm of the noise."""
    return 1.0 if norm == "l2" else SPREAD * features**0.5


def mean_of(rows: ArrayLike, norm: Norm) -> Real:
    """The mean of records, each scaled to norm 1 and clipped, shape (d,).

    A record that is zero or holds a number that is not finite counts as zero.

    Args:
        rows: records, shape (n, ...) with d numbers each.
        norm: of the noise.

    Example:
        >>> mean_of(np.array([[3.0, 4.0], [np.nan, 1.0]]), "l2")
        array([0.3, 0.4])
    """
    x = np.asarray(rows, np.float64)
    x = x.reshape(len(x), -1)
    largest = np.abs(x).max(axis=1, keepdims=True, initial=0.0)
    known = np.isfinite(largest) & (largest > 0)
    x = np.divide(x, largest, out=np.zeros_like(x), where=known)  # so that no square overflows
    x /= np.where(known, np.linalg.norm(x, axis=1, keepdims=True), 1.0)
    if norm == "l1":
        across = np.maximum(np.abs(x).sum(axis=1, keepdims=True), 1e-300)
        x *= np.minimum(1.0, most_of(norm, x.shape[1]) / across)
    return x.mean(axis=0)
