"""Laplace noise: hides an L1 sensitivity, adds up in pure epsilon, and costs less at a delta above 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from noiseworthy import _validate as check
from noiseworthy.privacy.mechanisms.base import GridNoise, Law, Mechanism
from noiseworthy.privacy.mechanisms.currencies import EPSILON, Real

LAW = Law(
    name="laplace", noisy=True, norm="l1", size_words=("scale", "scale"),
    variance_factor=2, square_spread=5.0, exponent=2,
    needs_delta=False, sampled=False, stable=False, currency=EPSILON,
    grid=GridNoise(1 / 8, "make_laplace"), freedom=2,
    noise=lambda size: Laplace(size), analysed_in=f"{__name__}_analysis",
)  # fmt: skip


@dataclass(frozen=True)
class Laplace(Mechanism):
    """Laplace noise with scale `noise_scale` per coordinate, shape (N,); density e^(-|x|/scale)."""

    noise_scale: Real
    law: ClassVar[Law] = LAW

    def __post_init__(self):
        check.positive("noise_scale", self.noise_scale)

    @property
    def size(self) -> Real:
        """Scale per coordinate."""
        return self.noise_scale
