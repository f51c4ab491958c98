"""Lifetime budgets, and releases as whole shares of them, rounded up.

A budget is divided into 2^62 shares. A release costs

    Gaussian: ceil(2^62 (sensitivity/std)^2 / mu(epsilon, delta)^2)
    Laplace, pure: ceil(2^62 (sensitivity/scale) / epsilon)

computed in rational numbers, so that sums of shares are exact, fit into 64 bits, and never say less than was
spent. A filter on such a sum is sound for adaptive releases (Rogers et al. 2016; Smith & Thakurta 2022).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.privacy.budget import PrivacyBudget, Relation, Unit
from noiseworthy.privacy.mechanisms import Family, law_of, noisy_names
from noiseworthy.privacy.mechanisms.currencies import CURRENCIES
from noiseworthy.privacy.releases import Release

WHOLE = 2**62
"""Shares of a whole budget."""
LAST_BITS = 2**22
"""Shares beyond the whole, 10^-12 of it, that are a matter of the last bits of planned noise."""
SCHEDULE = "schedule of "
"""What is added up where releases have no price of their own: uploads of one schedule, priced as a whole."""


@dataclass(frozen=True)
class Account:
    """The lifetime budget of one client on one data set.

    Attributes:
        data: the data set, by name.
        world: empty for real data; in simulation, which of several worlds that never meet.
        client: name.
        currency: what is added up: `mu^2`, `epsilon`, or `schedule of RUN`.
        size: of the whole budget: mu(epsilon, delta), epsilon, or 1.
        epsilon: of the whole budget.
        delta: of the whole budget.
        relation: which data sets count as neighbours.
        unit: whose change is hidden.

    Example:
        >>> one = Account("wards", "", "north", "epsilon", 2.0, 2.0, 0.0, "replace-one", "record")
        >>> one.share(0.5) == WHOLE // 4
        True
    """

    data: str
    world: str
    client: str
    currency: str
    size: float
    epsilon: float
    delta: float
    relation: Relation
    unit: Unit

    def __post_init__(self):
        check.positive("size of a budget", self.size)
        if self.currency not in CURRENCIES and not self.currency.startswith(SCHEDULE):
            raise InvalidInput(f"currency must be mu^2, epsilon or schedule of RUN, got {self.currency!r}")

    @property
    def row(self) -> tuple[str | float, ...]:
        """The fields in their order, numbers as floats."""
        values = (getattr(self, field.name) for field in fields(self))
        return tuple(value if isinstance(value, str) else float(value) for value in values)

    @property
    def whole(self) -> Fraction:
        """The budget in its currency, exactly."""
        return Fraction(self.size) ** (CURRENCIES[self.currency].power if self.currency in CURRENCIES else 1)

    def share(self, cost: float | Fraction) -> int:
        """A cost as shares of the whole, rounded up.

        Args:
            cost: mu^2, epsilon or part of the schedule; finite and at least 0.

        Raises:
            InvalidInput: NaN, negative or infinite.
        """
        if isinstance(cost, float):
            check.non_negative("cost of a release", cost, remedy="nothing was charged")
        if cost < 0:
            raise InvalidInput(f"cost of a release must be at least 0, got {cost}; nothing was charged")
        return math.ceil(Fraction(cost) * WHOLE / self.whole)


COLUMNS = ", ".join(field.name for field in fields(Account))
"""Of the table of accounts."""


def accounts_of(budget: PrivacyBudget, family: Family, data: str, world: str, clients: Sequence[str]):
    """An account for each client, whose releases add Gaussian or pure Laplace noise.

    Args:
        budget: lifetime (epsilon_i, delta_i), shape (N,).
        family: a mechanism with noise; what adds up in epsilon is charged its pure one.
        data: the data set, by name.
        world: empty for real data.
        clients: N names.

    Raises:
        InvalidInput: another family.
    """
    check.one_of("mechanism", family, sorted(noisy_names()), remedy="without noise nothing can be charged")
    currency = law_of(family).paid_in
    return each_of(currency.name, currency.size(budget), budget, data, world, clients)


def each_of(currency: str, sizes: Iterable[float], budget: PrivacyBudget, data: str, world: str, clients):
    """An account for each client, whose whole budget has a size in a currency."""
    terms = budget.relation, budget.unit
    return [
        Account(data, world, client, currency, float(size), float(epsilon), float(delta), *terms)
        for client, size, epsilon, delta in zip(clients, sizes, budget.epsilon, budget.delta, strict=True)
    ]


def costs_of(release: Release, places: Sequence[int] | None = None) -> list[Fraction]:
    """What one release costs all clients, or those at some places: mu^2 or epsilon, exactly.

    Raises:
        UnsoundClaim: Poisson batches, or no noise.

    Example:
        >>> from noiseworthy.privacy.mechanisms import Gaussian
        >>> from noiseworthy.privacy.sensitivity import of_mean_gradient
        >>> import numpy as np
        >>> costs_of(Release(Gaussian(np.array([0.5])), of_mean_gradient(1.0, [8], "l2")))
        [Fraction(1, 4)]
    """
    law = release.mechanism.law
    if not law.noisy or release.sampling_rate != 1.0:
        raise UnsoundClaim("only full batches with Gaussian or Laplace noise have a price of their own")
    power, some = law.paid_in.power, slice(None) if places is None else list(places)
    # floats as the fractions that they are: a quotient of floats may round below the price
    pairs = zip(release.sensitivity.value[some], release.hiding[some], strict=True)
    return [(Fraction(float(change)) / Fraction(float(noise))) ** power for change, noise in pairs]
