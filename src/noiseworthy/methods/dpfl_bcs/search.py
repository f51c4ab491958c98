"""How often each client takes part, at the least cost: by real numbers and, exactly, by whole ones.

    J = sum T_n^(z+1) Phi_n + kappa sum T_n Gamma_n,    sum T_n = K T,    0 <= T_n <= cap_n

J is separable and convex, so that one price nu decides for all clients: everyone takes part as long as the
next participation costs at most nu (docs/theory/ma.md#planner).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy._validate import Real

Counts = NDArray[np.int64]
Exponent = Literal[1, 2]


@dataclass(frozen=True)
class ParticipationCosts:
    """What participations of each client add to J, and how many it may have.

    Attributes:
        noise: Phi_n, finite and at least 0, shape (N,).
        bias: kappa Gamma_n, at least 0, shape (N,).
        exponent: z, by which the noise of one upload grows with T_n: 1 Gaussian, 2 Laplace.
        most: cap_n, whole numbers, shape (N,).

    Example:
        >>> costs = ParticipationCosts(np.array([1.0, 2.0]), np.array([5.0, 0.0]), 1, np.array([9, 9]))
        >>> costs.value(np.array([2, 1])), costs.of_next(np.array([2, 1]))
        (16.0, array([10.,  6.]))
    """

    noise: Real
    bias: Real
    exponent: Exponent
    most: Counts

    @classmethod
    def of(cls, noise: Real, bias: Real, exponent: Exponent, most: Counts) -> ParticipationCosts:
        """The same, where a client whose noise is beyond all floats may not take part."""
        possible = np.isfinite(noise)
        return cls(np.where(possible, noise, 0.0), bias, exponent, np.where(possible, most, 0))

    def value(self, counts: ArrayLike) -> float:
        """J at counts T_n, whole or real, shape (N,)."""
        t = np.asarray(counts, float)
        return float(np.sum(t ** (self.exponent + 1) * self.noise) + np.sum(t * self.bias))

    def of_next(self, counts: Counts) -> Real:
        """Phi_n ((x+1)^(z+1) - x^(z+1)) + kappa Gamma_n: one participation after x others, shape (N,)."""
        x = counts.astype(float)
        with np.errstate(over="ignore"):
            # multiplied out, because the difference of two powers of large counts cancels
            return self.noise * (2 * x + 1 if self.exponent == 1 else 3 * x * (x + 1) + 1) + self.bias

    def slope(self, counts: ArrayLike) -> Real:
        """dJ/dT_n = (z+1) Phi_n T_n^z + kappa Gamma_n, shape (N,)."""
        with np.errstate(over="ignore"):
            return (self.exponent + 1) * self.noise * np.asarray(counts, float) ** self.exponent + self.bias

    def only(self, clients: NDArray[np.intp]) -> ParticipationCosts:
        """The costs of some of the clients."""
        return ParticipationCosts(self.noise[clients], self.bias[clients], self.exponent, self.most[clients])


def uniform_counts(clients_per_round: int, rounds: int, clients: int) -> Counts:
    """K T participations dealt to N clients as evenly as whole numbers allow, shape (N,).

    Example:
        >>> uniform_counts(2, 5, 4)
        array([3, 3, 2, 2])
    """
    each, left = divmod(clients_per_round * rounds, clients)
    return each + (np.arange(clients) < left).astype(np.int64)


# By real numbers --------------------------------------------------------------------------------------


def continuous(costs: ParticipationCosts, total: int) -> Real:
    """Real T_n of least J with a given sum, by water-filling.

        T_n(nu) = clip( ((nu - kappa Gamma_n)_+ / ((z+1) Phi_n))^(1/z), 0, cap_n ),    sum T_n(nu) = K T

    nu is found by bisection to the last bit. Clients without noise and of equal bias share by their caps.

    Args:
        costs: of the clients.
        total: K T, at most the sum of the caps.

    Returns:
        shape (N,).

    Raises:
        InvalidInput: a total that is negative or beyond the caps.

    Example:
        >>> costs = ParticipationCosts(np.array([1.0, 3.0]), np.zeros(2), 1, np.array([4, 4]))
        >>> continuous(costs, 4)
        array([3., 1.])

    Source: docs/theory/ma.md#planner; without bias and caps Proposition 1 of Ma et al., T_n proportional to
        Phi_n^(-1/z).
    """
    _check_total(costs, total)
    few, many = np.zeros(len(costs.most)), costs.most.astype(float)
    floor, ceiling = _rank(costs.bias.min()) - 1, _rank(costs.slope(many).max())
    while ceiling - floor > 1:
        middle = (floor + ceiling) // 2
        tried = _water(costs, _price(middle))
        if tried.sum() <= total:
            few, floor = tried, middle
        else:
            many, ceiling = tried, middle
    # prices of the two are neighbouring floats: clients without noise jump to their caps between them, and no
    # price fills the total, but a share of the jump does
    between = many.sum() - few.sum()
    return few + (many - few) * ((total - few.sum()) / between if between > 0 else 0.0)


def _water(costs: ParticipationCosts, price: float) -> Real:
    """T_n(nu) where the derivative of every client's cost equals the price, within 0 and the cap."""
    room = price - costs.bias
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        level = np.maximum(room, 0.0) / ((costs.exponent + 1) * costs.noise)
    level = np.where(costs.noise > 0, level, np.where(room >= 0, np.inf, 0.0))
    return np.minimum(np.sqrt(level) if costs.exponent == 2 else level, costs.most)


# By whole numbers -------------------------------------------------------------------------------------


def greedy(costs: ParticipationCosts, total: int) -> Counts:
    """Whole T_n of least J with a given sum: the K T participations of least marginal cost.

    What a heap finds by giving one participation at a time to the client whose next one costs least, in no
    more time than a few sweeps over the clients: bisection on the price, to the last bit. Equal costs go to
    whoever was asked least, then to the lowest index.

    Arguments and errors are those of `continuous`; the answer, shape (N,), is the exact integer optimum.

    Example:
        >>> costs = ParticipationCosts(np.array([1.0, 3.0]), np.array([0.0, 5.0]), 1, np.array([4, 4]))
        >>> greedy(costs, 4), greedy(costs, 5)
        (array([4, 0]), array([4, 1]))

    Source: docs/theory/ma.md#planner; exact because J is separable and convex (Fox 1966).
    """
    _check_total(costs, total)
    few, many = np.zeros_like(costs.most), costs.most
    last = costs.of_next(np.maximum(many - 1, 0))
    floor, ceiling = _rank(costs.of_next(few).min()) - 1, _rank(last.max())
    while ceiling - floor > 1 and few.sum() < total:
        middle = (floor + ceiling) // 2
        tried = _within(costs, _price(middle), few, many)
        if tried.sum() <= total:
            few, floor = tried, middle
        else:
            many, ceiling = tried, middle
    return _filled(few, many, total)


def _within(costs: ParticipationCosts, price: float, few: Counts, many: Counts) -> Counts:
    """How many participations of each client cost at most the price, known to be between two counts."""
    asked, open_ones = few.copy(), np.flatnonzero(few < many)
    some, low, high = costs.only(open_ones), few[open_ones], many[open_ones]
    while np.any(low < high):
        middle = (low + high + 1) // 2
        cheap = some.of_next(middle - 1) <= price
        low, high = np.where(cheap, middle, low), np.where(cheap, high, middle - 1)
    asked[open_ones] = low
    return asked


def _filled(few: Counts, many: Counts, total: int) -> Counts:
    """`total` participations between two counts that cost the same: the least asked first, then by index."""
    low, high = int(few.min()), int(many.max())
    while low < high:
        middle = (low + high + 1) // 2
        fits = np.clip(middle, few, many).sum() <= total
        low, high = (middle, high) if fits else (low, middle - 1)
    asked = np.clip(low, few, many)
    next_ones = np.flatnonzero((few <= low) & (low < many))[: total - asked.sum()]
    asked[next_ones] += 1
    return asked


def _check_total(costs: ParticipationCosts, total: int) -> None:
    remedy = "the caps of the clients allow no more"
    check.count("participations", total, least=0, most=int(costs.most.sum()), remedy=remedy)


def _rank(price: float) -> int:
    """Position of a number of at least 0 (or -0.0) among all floats: halving ranks reaches the last bit."""
    # bits of floats from +0.0 on are in the order of the floats, and adding 0.0 makes +0.0 of -0.0
    return int(np.float64(price + 0.0).view(np.int64))


def _price(rank: int) -> float:
    """The number at a position, the inverse of `_rank`."""
    return float(np.int64(rank).view(np.float64))
