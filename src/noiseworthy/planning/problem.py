"""What a planner is given: a federation's public facts, its budget, and the constants of a bound."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from noiseworthy import _validate as check
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.calibration import calibrate, unit_noise
from noiseworthy.privacy.mechanisms import Family
from noiseworthy.privacy.sensitivity import Norm, Sensitivity, of_mean_gradient

ASSUMED = "assumed"
"""Provenance of a constant that the user stated."""
ANALYTIC = "analytic"
"""Provenance of a constant that follows from the model and public bounds."""


@dataclass(frozen=True)
class Constant:
    """A number that a bound rests on, with where it came from.

    `provenance` is one of `analytic`, `assumed`, `fitted to trials on ...`, `bought (epsilon, delta)`.
    """

    value: float
    provenance: str


@dataclass(frozen=True)
class Problem:
    """The public facts of a private training: sizes, budgets, mechanism, clip and dimension.

    Attributes:
        sizes: records d_i of each client, shape (N,).
        dimension: number of parameters p.
        budget: (epsilon_i, delta_i) with their relation.
        family: `laplace`, `gaussian` or `none`.
        clip_norm: per-record clip xi in the norm of the family.
        sampling_rate: probability q of a record to enter a batch; 1 is the full batch.

    Raises:
        InvalidInput: a client without records, a clip that is not above 0, lengths that differ.
    """

    sizes: NDArray[np.int64]
    dimension: int
    budget: PrivacyBudget
    family: Family
    clip_norm: float
    sampling_rate: float = 1.0

    def __post_init__(self):
        check.counts("sizes", self.sizes, remedy="leave a client without records out of the federation")
        check.count("dimension", self.dimension)
        check.one_of("mechanism", self.family, ["laplace", "gaussian", "none"])
        check.per_client("epsilon", self.budget.epsilon, len(self.sizes))
        _ = self.sensitivity

    @property
    def n_clients(self) -> int:
        """Number of clients N."""
        return len(self.sizes)

    @property
    def norm(self) -> Norm:
        """Norm of the clip: l1 for Laplace noise, l2 otherwise."""
        return "l1" if self.family == "laplace" else "l2"

    @property
    def weights(self) -> NDArray[np.float64]:
        """Aggregation weights a_i = d_i / d, shape (N,), summing to 1."""
        return self.sizes / self.sizes.sum()

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """What one record can change in one upload."""
        return of_mean_gradient(
            self.clip_norm, self.sizes, self.norm, self.budget.relation, self.sampling_rate
        )

    def release(self, releases: NDArray[np.int64]):
        """The least noise that pays for `releases[i]` uploads of client i, as a `Release`."""
        return calibrate(self.family, self.sensitivity, self.budget, releases, self.sampling_rate)

    def weighted_noise(self, releases: NDArray[np.int64]) -> NDArray[np.float64]:
        """Sum over clients of a_i^2 E||w_i||^2 when each is asked `releases` times (theory 0.7).

        Args:
            releases: uploads k per client, the same for all; shape (m,), one plan candidate each.

        Returns:
            shape (m,). Exact where the noise has a closed form; where it comes from a privacy loss
            distribution, exact on a geometric grid of k and monotonely interpolated between.
        """
        releases = np.asarray(releases)
        closed = self.family == "none" or (
            self.sampling_rate == 1.0 and (self.family == "gaussian" or not np.any(self.budget.delta))
        )
        if closed:
            exponent = 2 if self.family == "laplace" else 1
            return self._weighted_noise_at(1) * releases.astype(float) ** exponent
        grid = np.unique(np.geomspace(1, max(int(releases.max()), 2), 12).round().astype(int))
        values = np.array([self._weighted_noise_at(int(k)) for k in grid])
        return np.exp(PchipInterpolator(np.log(grid), np.log(values))(np.log(releases)))

    def _weighted_noise_at(self, releases: int) -> float:
        size = self.sensitivity.value * unit_noise(self.family, self.budget, releases, self.sampling_rate)
        variance = np.square(size) * (2 if self.family == "laplace" else 1)
        return float(self.dimension * np.sum(np.square(self.weights) * variance))
