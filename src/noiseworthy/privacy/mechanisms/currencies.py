"""What releases are added up in: mu^2, or pure epsilon. Both are privacy filters, also for adaptive releases.

    mu^2:     sum k_j (sensitivity_j / std_j)^2   <= mu(epsilon, delta)^2
    epsilon:  sum k_j sensitivity_j / scale_j     <= epsilon

Source: Dong, Roth & Su 2022, Corollary 3.3; basic composition; Rogers et al. 2016 (filters).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.privacy.budget import PrivacyBudget

Real: TypeAlias = NDArray[np.float64]
MARGIN = 1e-9
"""Part of what is left that stays unspent, so that no order of rounding exceeds the whole."""


@dataclass(frozen=True)
class Currency:
    """What every release of a law has a price in; as written here, a pure epsilon.

    Attributes:
        name: in ledgers.
        symbol: of the shift of one release, sensitivity / size, in words.
        power: the amount of one release is its shift to this power; noise variance for a fixed budget grows
            with the number of releases to the power `2 / power`.
    """

    name: str
    symbol: str
    power: int

    def amount(self, shift: Real) -> Real:
        """What one release costs, of the shape of its shift."""
        return shift

    def size(self, budget: PrivacyBudget) -> Real:
        """The shift of the one release that spends a whole budget, shape (N,)."""
        return budget.epsilon

    def epsilon(self, amount: Real, delta: ArrayLike) -> Real:
        """Epsilon at delta of what was spent."""
        return amount

    def spendable(self, left: Real, delta: Real) -> Real:
        """Epsilon at delta of what is left, so that spending it all never passes the whole."""
        return left

    def noise(self, sensitivity: Real, budget: PrivacyBudget, share: float, times: ArrayLike) -> Real:
        """Noise size of which `times` releases spend a share of a budget, shape (N,)."""
        return sensitivity * np.asarray(times, float) / (share * budget.epsilon)

    def pure(self, shift: Real) -> Real:
        """The largest pure epsilon whose release costs no more than one of this shift, of its shape."""
        return shift

    def whole(self, budget: PrivacyBudget) -> Real:
        """The amount of a whole budget, shape (N,)."""
        return self.amount(self.size(budget))


class _MuSquared(Currency):
    def amount(self, shift: Real) -> Real:
        return np.square(shift)

    def size(self, budget: PrivacyBudget) -> Real:
        return budget.mu

    def epsilon(self, amount: Real, delta: ArrayLike) -> Real:
        from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon  # here: gateways add up mu^2 alone

        return gaussian_epsilon(np.sqrt(amount), delta)

    def spendable(self, left: Real, delta: Real) -> Real:
        from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon

        return gaussian_epsilon(np.sqrt(left) * (1 - MARGIN), delta)

    def noise(self, sensitivity: Real, budget: PrivacyBudget, share: float, times: ArrayLike) -> Real:
        return sensitivity / (budget.mu * np.sqrt(share / np.asarray(times)))

    def pure(self, shift: Real) -> Real:
        """log(Phi(mu / 2) / Phi(-mu / 2)), by which what is epsilon-private is mu-Gaussian private."""
        from scipy.special import log_ndtr  # here, because mistakes in a study wait for nothing heavy

        return log_ndtr(shift / 2) - log_ndtr(-shift / 2)


MU_SQUARED = _MuSquared("mu^2", "mu", 2)
EPSILON = Currency("epsilon", "epsilon", 1)
CURRENCIES = {one.name: one for one in (MU_SQUARED, EPSILON)}
"""By the name that ledgers keep."""
