"""What is computed of a kind of noise: its calibration and price in all, draws of simulations, tests of it.

An analysis that leaves out a part cannot be made. What is heavy (jax, scipy.stats, dp-accounting) is imported
where it is used: who plans needs no jax.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.errors import UnsoundClaim
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.mechanisms.currencies import Real

if TYPE_CHECKING:
    from jax import Array

    from noiseworthy.privacy.power import Power

Counts: TypeAlias = NDArray[np.int64]
Ratios: TypeAlias = list[tuple[float, int]]
"""Releases of one client: shift, sensitivity over noise size, and how often."""
TOLERANCE = 2e-4
"""Relative excess of noise that root finding may leave; closed forms leave none."""


class Looser(NamedTuple):
    """What a looser way of adding up would have said.

    Attributes:
        name: of it.
        epsilon: of each client, shape (N,).
    """

    name: str
    epsilon: Real


class Analysis(ABC):
    """What is computed of a law."""

    # What it costs ----------------------------------------------------------------------------------------

    @abstractmethod
    def spent(self, shift: Real, used: Counts, delta: Real, sampling_rate: float) -> Real:
        """Exact epsilon at delta of each client after its uploads; shift is sensitivity / size."""

    @abstractmethod
    def unit_noise(self, budget: PrivacyBudget, used: Real, sampling_rate: float, settled: bool) -> Real:
        """Least size per unit of sensitivity that pays for `used` uploads, shape (N,)."""

    @abstractmethod
    def closed_form(self, sampling_rate: float, delta: ArrayLike) -> bool:
        """Whether noise is a power of the number of releases, and each has a price of its own."""

    @abstractmethod
    def growth(self, delta: ArrayLike) -> float:
        """z for many releases of full batches, also where they have no price of their own."""

    @abstractmethod
    def accountant(self, sampling_rate: float, delta: ArrayLike) -> str:
        """How epsilon is counted, as a plan says it."""

    @abstractmethod
    def accounting(self, sampling_rate: float, delta: ArrayLike) -> str:
        """How epsilon is counted, in a sentence after "by"."""

    @abstractmethod
    def looser(self, amount: Real, delta: Real) -> Looser | None:
        """What a looser composition says of an amount in the currency; None where it says the same."""

    @abstractmethod
    def power(self, ratios: Ratios, sampling_rate: float) -> Power:
        """The best tests against all releases of one client, at least."""

    # What it draws ----------------------------------------------------------------------------------------

    @abstractmethod
    def draws(self, key: Array, shape: tuple[int, ...]) -> Array:
        """Float32 draws of size 1 for simulations."""

    def host_draws(self, generator: np.random.Generator, count: int) -> Real:
        """Float64 draws of size 1 for what clients of a simulation tell before training, shape (count,)."""
        return self.distribution().rvs(count, random_state=generator)

    divisible: ClassVar[bool] = False
    """Whether `shares` are known of a law that is not stable, of which smaller ones leave a smaller noise."""

    def shares(self, key: Array, shape: tuple[int, ...], parts: int) -> Array:
        """Float32 draws of which `parts` add up to one of size 1.

        Raises:
            UnsoundClaim: noise that is not divisible.
        """
        raise UnsoundClaim("this noise is not known to divide into shares; use gaussian or laplace noise")

    # What an auditor holds against it ---------------------------------------------------------------------

    @abstractmethod
    def distribution(self) -> Any:
        """Of one coordinate of size 1, frozen, of scipy.stats."""

    @abstractmethod
    def log_density(self, values: Real) -> Real:
        """Of each coordinate of size 1, up to a constant."""

    def log_ratio(self, absent: Real, present: Real) -> Real:
        """Log-likelihood of the second over the first, of residuals over the last axis."""
        return np.sum(self.log_density(present) - self.log_density(absent), axis=-1)

    @abstractmethod
    def statistic(self, values: Real) -> Real:
        """Of each coordinate of size 1, how large it is: chi-square with `freedom` degrees."""

    @abstractmethod
    def size_ratio(self, mean: Real) -> Real:
        """Size over planned size, from the mean of `statistic / freedom`."""

    @abstractmethod
    def loss_distribution(self, ratio: float, sampling_rate: float, grid: float) -> Any:
        """Privacy loss distribution by dp-accounting of one release with shift `ratio`, losses rounded up."""


def each_once(solve: Callable[..., float], *columns: Real) -> Real:
    """`solve` of every row, called once for each that is distinct; shape (N,)."""
    rows, inverse = np.unique(np.stack(columns), axis=1, return_inverse=True)
    return np.array([solve(*row.tolist()) for row in rows.T])[inverse.ravel()]


def least_noise(epsilon_of: Callable[[float], float], epsilon: float, guess: float) -> float:
    """Least noise with `epsilon_of(noise) <= epsilon`, up to `TOLERANCE`, and never less.

    For an epsilon that only an accountant knows. It is bracketed from a guess and found by Brent's method.

    Args:
        epsilon_of: falls with the noise, as 1 / noise or faster; slower, and the excess is larger than that.
        epsilon: above 0.
        guess: of the noise, above 0.
    """

    # In logarithms an epsilon that falls about as 1 / noise is a line of slope -1, on which secants are good
    # steps, and one tolerance is relative at any size. An epsilon within it and not above is the root.
    def excess(log_noise: float) -> float:
        over = np.log(max(epsilon_of(float(np.exp(log_noise))), 1e-12) / epsilon) + TOLERANCE / 2
        return 0.0 if abs(over) <= TOLERANCE / 2 else over

    here = float(np.log(guess))
    over = excess(here)
    while over:
        # a tenth beyond where that line has its root, so that the two mostly bracket it; at most a factor e
        there = here + np.clip(1.1 * over, -1, 1) + np.copysign(TOLERANCE, over)
        if excess(there) * over <= 0:
            from scipy.optimize import brentq  # here, because it is slow to load

            here = float(brentq(excess, min(here, there), max(here, there), xtol=TOLERANCE / 4))  # pyright: ignore
            break
        here, over = there, excess(there)
    noise = float(np.exp(here))  # on either side of the root: only the accountant's own word makes it safe
    while epsilon_of(noise) > epsilon:
        noise *= 1 + TOLERANCE / 2
    return noise
