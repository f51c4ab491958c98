"""What is computed in a currency: amounts of releases and budgets, what they say, and noise for a share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon
from noiseworthy.privacy.mechanisms.currencies import EPSILON, MU_SQUARED, Currency, Real

MARGIN = 1e-9
"""Part of what is left that stays unspent, so that no order of rounding exceeds the whole."""


@dataclass(frozen=True)
class CurrencyAnalysis:
    """What is computed in a currency; as written here, in pure epsilon."""

    currency: Currency

    def amount(self, shift: Real) -> Real:
        """What one release costs, of the shape of its shift."""
        return shift

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
        return self.amount(self.currency.size(budget))


class _InMuSquared(CurrencyAnalysis):
    def amount(self, shift: Real) -> Real:
        return np.square(shift)

    def epsilon(self, amount: Real, delta: ArrayLike) -> Real:
        return gaussian_epsilon(np.sqrt(amount), delta)

    def spendable(self, left: Real, delta: Real) -> Real:
        return gaussian_epsilon(np.sqrt(left) * (1 - MARGIN), delta)

    def noise(self, sensitivity: Real, budget: PrivacyBudget, share: float, times: ArrayLike) -> Real:
        return sensitivity / (budget.mu * np.sqrt(share / np.asarray(times)))

    def pure(self, shift: Real) -> Real:
        """log(Phi(mu / 2) / Phi(-mu / 2)), by which what is epsilon-private is mu-Gaussian private."""
        from scipy.special import log_ndtr  # here, because mistakes in a study wait for nothing heavy

        return log_ndtr(shift / 2) - log_ndtr(-shift / 2)


ANALYSES = {one.currency.name: one for one in (_InMuSquared(MU_SQUARED), CurrencyAnalysis(EPSILON))}
"""By the name of the currency."""
