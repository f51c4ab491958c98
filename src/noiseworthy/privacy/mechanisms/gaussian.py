"""Gaussian noise: hides an L2 sensitivity, adds up in mu^2, and has amplification by Poisson batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from noiseworthy import _validate as check
from noiseworthy.privacy.mechanisms.base import GridNoise, Law, Mechanism
from noiseworthy.privacy.mechanisms.currencies import MU_SQUARED, Real

LAW = Law(
    name="gaussian", noisy=True, norm="l2", size_words=("std", "standard deviation"),
    variance_factor=1, square_spread=2.0, exponent=1,
    needs_delta=True, sampled=True, stable=True, currency=MU_SQUARED,
    grid=GridNoise(1 / 24, "make_gaussian"), freedom=1,
    noise=lambda size: Gaussian(size), analysed_in=f"{__name__}_analysis",
)  # fmt: skip


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """Normal noise with standard deviation `noise_std` per coordinate, shape (N,)."""

    noise_std: Real
    law: ClassVar[Law] = LAW

    def __post_init__(self):
        check.positive("noise_std", self.noise_std)

    @property
    def size(self) -> Real:
        """Standard deviation per coordinate."""
        return self.noise_std
