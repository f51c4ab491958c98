"""What is left of a budget: charged with every kind of release, it refuses what would exceed it.

A later release may be planned by what earlier ones showed, noise and counts included, as long as the sum

    Gaussian: sum k_j mu_j^2 <= mu(epsilon, delta)^2        Laplace: sum k_j epsilon_j <= epsilon

never passes the budget: that is a privacy filter (fully adaptive composition). Every mu_j is fixed before the
release that it belongs to, by a rule that reads released values only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy.errors import BudgetExceeded, InvalidInput, UnsoundClaim
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.mechanisms import Family, law_of
from noiseworthy.privacy.mechanisms.currency_analysis import MARGIN, CurrencyAnalysis
from noiseworthy.privacy.releases import Release

_ROUNDING = 1e-12
"""Relative excess that is a matter of the last bits of a sum; `remaining` stays twice as far below."""


@dataclass(frozen=True)
class PrivacyFilter:
    """Budgets with what has been spent of them, mu^2 or epsilon.

    Attributes:
        budget: of every client, whole.
        family: kind of noise; what adds up in epsilon is charged its pure one.
        used: sum of k mu^2, or of k epsilon, shape (N,).

    Example:
        >>> from noiseworthy.privacy.mechanisms import Laplace
        >>> from noiseworthy.privacy.sensitivity import of_mean_gradient
        >>> upload = Release(Laplace(np.array([0.2])), of_mean_gradient(1.0, [100], "l1"))  # epsilon 0.1
        >>> spent = PrivacyFilter.open(PrivacyBudget.of(1.0, 0.0, 1), "laplace").charge(upload, 4)
        >>> spent.remaining.epsilon.round(9)
        array([0.6])
        >>> spent.charge(upload, 7)
        Traceback (most recent call last):
        ...
        noiseworthy.errors.BudgetExceeded: client 0 has spent 40 % of its budget and another 70 % is ...

    Source: Rogers et al. 2016 (filters); Feldman & Zrnic 2021, Smith & Thakurta 2022 (Gaussian).
    """

    budget: PrivacyBudget
    family: Family
    used: NDArray[np.float64]

    @classmethod
    def open(cls, budget: PrivacyBudget, family: Family) -> PrivacyFilter:
        """A filter with nothing spent.

        Raises:
            InvalidInput: no noise, which spends no budget that could be left.
        """
        _currency(family)
        return cls(budget, family, np.zeros(budget.clients))

    @property
    def whole(self) -> NDArray[np.float64]:
        """mu^2 or epsilon of the whole budget, shape (N,)."""
        return _currency(self.family).whole(self.budget)

    @property
    def left(self) -> NDArray[np.float64]:
        """mu^2 or epsilon that is left, at least 0, shape (N,)."""
        return np.maximum(self.whole - self.used, 0.0)

    def cost(self, release: Release, uses: ArrayLike) -> NDArray[np.float64]:
        """k mu^2, or k epsilon, of `uses` releases, shape (N,).

        Raises:
            UnsoundClaim: noise of another family, another relation or unit, or Poisson batches.
        """
        same = (release.sensitivity.relation, release.sensitivity.unit)
        if release.mechanism.family != self.family or same != (self.budget.relation, self.budget.unit):
            raise UnsoundClaim(
                f"a {self.family} filter for one {self.budget.unit} under {self.budget.relation} neighbours "
                f"cannot charge {release.mechanism.family} noise for one {same[1]} under {same[0]}; use one "
                "kind of noise and of neighbours"
            )
        if release.sampling_rate < 1:
            raise UnsoundClaim("a filter charges full batches only; use sampling_rate = 1")
        k = check.counts("uses", check.per_client("uses", uses, self.budget.clients), least=0)
        return k.astype(float) * _currency(self.family).amount(release.shift)

    def charge(self, release: Release, uses: ArrayLike) -> PrivacyFilter:
        """The filter after `uses` more releases of each client; checks all, then charges.

        Raises:
            BudgetExceeded: a client whose budget does not pay for them; nothing was charged.
            UnsoundClaim: as for `cost`.
        """
        cost = self.cost(release, uses)
        over = np.flatnonzero(self.used + cost > self.whole * (1 + _ROUNDING))
        if over.size:
            first = over[0]
            spent, asked = 100 * self.used[first] / self.whole[first], 100 * cost[first] / self.whole[first]
            raise BudgetExceeded(
                f"client {first} has spent {spent:.4g} % of its budget and another {asked:.4g} % is asked; "
                "nothing was charged, release less or with more noise"
            )
        return replace(self, used=self.used + cost)

    @property
    def remaining(self) -> PrivacyBudget:
        """The budget that is left, as epsilon at the same delta, less a billionth.

        Raises:
            BudgetExceeded: a client with nothing left.
            InvalidInput: a delta so large that no epsilon describes the rest.

        Guarantee: spending all of it after what was charged spends the whole budget at most.
        """
        empty = np.flatnonzero(self.left <= 4 * _ROUNDING * self.whole)
        if empty.size:
            raise BudgetExceeded(f"client {empty[0]} has spent its whole budget; nothing is left to plan on")
        left = self.left - 2 * _ROUNDING * self.whole
        epsilon = _currency(self.family).spendable(left, self.budget.delta)
        poor = np.flatnonzero(epsilon <= 0)
        if poor.size:
            raise InvalidInput(
                f"delta {self.budget.delta[poor[0]]:g} of client {poor[0]} is more than what is left of its "
                "budget would use, so it cannot be split; use a smaller delta"
            )
        untouched = self.budget.epsilon * (1 - MARGIN)
        return replace(self.budget, epsilon=np.where(self.used > 0, epsilon, untouched))


def _currency(family: Family) -> CurrencyAnalysis:
    law = law_of(family)
    if not law.noisy:
        raise InvalidInput("a study without privacy has no budget to split; use gaussian or laplace")
    return law.paid_in.analysis
