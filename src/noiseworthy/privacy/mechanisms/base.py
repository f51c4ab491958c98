"""What a kind of noise must say of itself: `Law`, and noise of a law as a value: `Mechanism`.

A law that leaves out a part cannot be made, so that an incomplete one is refused at import. What is computed
of it (`analysis.py`) lies apart: who adds noise needs no calibration.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from noiseworthy.errors import UnsoundClaim
from noiseworthy.privacy.mechanisms.currencies import EPSILON, Currency, Real
from noiseworthy.privacy.sensitivity import Norm

if TYPE_CHECKING:
    from noiseworthy.privacy.mechanisms.analysis import Analysis

Family: TypeAlias = str
"""The name of a law, as studies, plans, ledgers and messages have it."""


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


@dataclass(frozen=True)
class Law:
    """A kind of noise, independent in every coordinate, and what is to be known of it to release with it.

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
        freedom: of the chi-square law of `Analysis.statistic`.
        noise: of this law, with a size per client, shape (N,).
        analysed_in: module whose `ANALYSIS` holds all else, loaded when it is asked for.
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
    noise: Callable[[Real], Mechanism]
    analysed_in: str

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

    @cached_property
    def analysis(self) -> Analysis:
        """What planners, simulations and auditors compute of it; a gateway asks for none of that."""
        return import_module(self.analysed_in).ANALYSIS


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
