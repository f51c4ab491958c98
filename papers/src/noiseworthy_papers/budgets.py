"""Budgets that clients draw for themselves, and what noise as Ma et al. bound it spends of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon

_DOMAIN = 0xB0D6E7


class Budgets(NamedTuple):
    """How every client draws its budget, in public and anew for each seed.

        epsilon_n ~ U[least, epsilon],    delta_n ~ U[deltas]

    Attributes:
        least: lower end of epsilon; an arm's epsilon is the upper one.
        deltas: both ends of delta; 0 and 0 for pure Laplace noise.
    """

    least: float
    deltas: tuple[float, float]

    def drawn(
        self, epsilon: float, clients: int, seed: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """epsilon_n and delta_n, shape (N,) each.

        One seed draws the same numbers whatever the upper end and the algorithm, so that these are compared
        on the same clients.

        Example:
            >>> some = Budgets(0.1, (1e-5, 1e-4))
            >>> epsilon, delta = some.drawn(3.0, 100, seed=0)
            >>> bool(np.all((epsilon > 0.1) & (epsilon < 3.0) & (delta > 1e-5) & (delta < 1e-4)))
            True
        """
        place, tail = np.random.default_rng([seed, _DOMAIN]).random((2, clients))
        low, high = self.deltas
        return self.least + place * (epsilon - self.least), low + tail * (high - low)


def bound_share(epsilon: ArrayLike, delta: ArrayLike) -> NDArray[np.float64]:
    """Gaussian noise of the bound of Ma et al. with c2 = 1, over what the budget needs; not private.

        (2 C / n) sqrt(k ln(1/delta)) / epsilon    against    (2 C / n) sqrt(k) s(epsilon, delta)

    Example:
        >>> bound_share([0.1, 1.0, 3.0], 1e-5).round(2)
        array([1.1 , 0.91, 0.81])

    Source: docs/theory/ma.md#noise, docs/theory/ma.md#linear-split.
    """
    return np.sqrt(-np.log(delta)) * gaussian_mu(np.asarray(epsilon, float), delta) / np.asarray(epsilon)


def spent_by_bound(epsilon: ArrayLike, delta: ArrayLike) -> NDArray[np.float64]:
    """The epsilon that noise of the bound with c2 = 1 really spends.

    Example:
        >>> spent_by_bound([0.1, 1.0, 3.0], 1e-5).round(2)
        array([0.09, 1.11, 3.8 ])
    """
    return gaussian_epsilon(np.asarray(epsilon, float) / np.sqrt(-np.log(delta)), delta)
