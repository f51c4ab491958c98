"""What releases are added up in: mu^2, or pure epsilon. Both are privacy filters, also for adaptive releases.

    mu^2:     sum k_j (sensitivity_j / std_j)^2   <= mu(epsilon, delta)^2
    epsilon:  sum k_j sensitivity_j / scale_j     <= epsilon

Source: Dong, Roth & Su 2022, Corollary 3.3; basic composition; Rogers et al. 2016 (filters).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noiseworthy._validate import Real
from noiseworthy.privacy.budget import PrivacyBudget

if TYPE_CHECKING:
    from noiseworthy.privacy.mechanisms.currency_analysis import CurrencyAnalysis


@dataclass(frozen=True)
class Currency:
    """What every release of a law has a price in.

    Attributes:
        name: in ledgers.
        symbol: of the shift of one release, sensitivity / size, in words.
        power: the amount of one release is its shift to this power; noise variance for a fixed budget grows
            with the number of releases to the power `2 / power`.
        size: the shift of the one release that spends a whole budget, shape (N,).
    """

    name: str
    symbol: str
    power: int
    size: Callable[[PrivacyBudget], Real]

    @property
    def analysis(self) -> CurrencyAnalysis:
        """What plans, filters and statements compute in it; a gateway asks for none of that."""
        from noiseworthy.privacy.mechanisms.currency_analysis import ANALYSES

        return ANALYSES[self.name]


MU_SQUARED = Currency("mu^2", "mu", 2, lambda budget: budget.mu)
EPSILON = Currency("epsilon", "epsilon", 1, lambda budget: budget.epsilon)
CURRENCIES = {one.name: one for one in (MU_SQUARED, EPSILON)}
"""By the name that ledgers keep."""
