"""What a kind of noise must say of itself: `Law`, and noise of a law as a value: `Mechanism`.

A law that leaves out a part cannot be made, so that an incomplete one is refused at import. What is heavy
(jax, scipy.stats, dp-accounting, OpenDP) is imported where a law uses it: who plans needs no jax, and who
adds noise needs no calibration.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.errors import UnsoundClaim
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.mechanisms.currencies import EPSILON, Currency, Real
from noiseworthy.privacy.sensitivity import Norm

if TYPE_CHECKING:
    from jax import Array

    from noiseworthy.privacy.power import Power

Family: TypeAlias = str
"""The name of a law, as studies, plans, ledgers and messages have it."""
Counts: TypeAlias = NDArray[np.int64]
Ratios: TypeAlias = list[tuple[float, int]]
"""Releases of one client: shift, sensitivity over noise size, and how often."""


@dataclass(frozen=True)
class GridNoise:
    """The discrete noise on a grid that stands for a law where uploads are really sent.

    Attributes:
        distance: eta s^2, for eta the total variation between one coordinate of it and the law's own noise
            rounded to the grid, with s steps of the grid to the noise.
        measurement: its name in OpenDP.
    """

    distance: float
    measurement: str


class Looser(NamedTuple):
    """What a looser way of adding up would have said.

    Attributes:
        name: of it.
        epsilon: of each client, shape (N,).
    """

    name: str
    epsilon: Real


@dataclass(frozen=True)
class Law(ABC):
    """A kind of noise, independent in every coordinate, and all that the product knows of it.

    Attributes:
        name: in studies, plans, ledgers and messages.
        noisy: whether there is noise.
        norm: of the sensitivity that it hides.
        size_words: what its size is: short, for tables, and long, for sentences.
        variance_factor: variance of a coordinate over its squared size.
        square_spread: Var(w^2) / Var(w)^2 of a coordinate w.
        exponent: z, by which its variance for a fixed budget grows with the number k of releases, k^z, where
            each has a price of its own; 0 without noise.
        needs_delta: whether no epsilon holds at delta 0.
        sampled: whether Poisson batches are accounted for.
        stable: whether a sum of independent draws is a draw.
        currency: what releases are added up in; None without noise.
        grid: what stands for it in deployed uploads; None if nothing does.
        freedom: of the chi-square law of `statistic`.
    """

    name: Family
    noisy: bool
    norm: Norm
    size_words: tuple[str, str]
    variance_factor: float
    square_spread: float
    exponent: int
    needs_delta: bool
    sampled: bool
    stable: bool
    currency: Currency | None
    grid: GridNoise | None
    freedom: int

    @property
    def title(self) -> str:
        """The name at the start of a sentence."""
        return self.name.capitalize()

    @property
    def pure(self) -> bool:
        """Whether releases add up to a pure epsilon."""
        return self.currency is EPSILON

    @property
    def paid_in(self) -> Currency:
        """The currency.

        Raises:
            UnsoundClaim: there is no noise.
        """
        if self.currency is None:
            raise UnsoundClaim("without noise nothing can be charged; use a mechanism with noise")
        return self.currency

    @property
    def on_grid(self) -> GridNoise:
        """What stands for it in deployed uploads.

        Raises:
            UnsoundClaim: nothing does.
        """
        if self.grid is None:
            raise UnsoundClaim(f"{self.name} noise has no discrete sampler; use a mechanism that has")
        return self.grid

    @property
    def order(self) -> int:
        """Of the norm, 1 or 2."""
        return 1 if self.norm == "l1" else 2

    @abstractmethod
    def noise(self, size: Real) -> Mechanism:
        """Noise of this law with a size per client, shape (N,)."""

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


@dataclass(frozen=True)
class Mechanism(ABC):
    """Noise of a law with a size for each client."""

    law: ClassVar[Law]

    @property
    @abstractmethod
    def size(self) -> Real:
        """Per coordinate, shape (N,)."""

    @property
    def family(self) -> Family:
        """Name of the law."""
        return self.law.name

    @property
    def norm(self) -> Norm:
        """Of the sensitivity that it hides."""
        return self.law.norm

    @property
    def variance(self) -> Real:
        """Per coordinate, shape (N,)."""
        return self.law.variance_factor * np.square(self.size)


def each_once(solve: Callable[..., float], *columns: Real) -> Real:
    """`solve` of every row, called once for each that is distinct; shape (N,)."""
    rows, inverse = np.unique(np.stack(columns), axis=1, return_inverse=True)
    return np.array([solve(*row.tolist()) for row in rows.T])[inverse.ravel()]
