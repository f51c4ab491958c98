"""Noise as a value: family, size per client, and nothing that draws it.

Sizes belong to the un-multiplied mean gradient of a client, per coordinate. Drawing is the business of
`privacy.noise`, accounting of `privacy.accountants`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy.privacy.sensitivity import Norm

Family = Literal["laplace", "gaussian", "none"]
FAMILIES: tuple[Family, ...] = ("laplace", "gaussian", "none")


@dataclass(frozen=True)
class Gaussian:
    """Normal noise with standard deviation `noise_std` per coordinate, shape (N,)."""

    noise_std: NDArray[np.float64]
    family: ClassVar[Family] = "gaussian"
    norm: ClassVar[Norm] = "l2"

    def __post_init__(self):
        check.positive("noise_std", self.noise_std)

    @property
    def size(self) -> NDArray[np.float64]:
        """Standard deviation per coordinate."""
        return self.noise_std

    @property
    def variance(self) -> NDArray[np.float64]:
        """Variance per coordinate, std^2."""
        return np.square(self.noise_std)


@dataclass(frozen=True)
class Laplace:
    """Laplace noise with scale `noise_scale` per coordinate, shape (N,); density e^(-|x|/scale)."""

    noise_scale: NDArray[np.float64]
    family: ClassVar[Family] = "laplace"
    norm: ClassVar[Norm] = "l1"

    def __post_init__(self):
        check.positive("noise_scale", self.noise_scale)

    @property
    def size(self) -> NDArray[np.float64]:
        """Scale per coordinate."""
        return self.noise_scale

    @property
    def variance(self) -> NDArray[np.float64]:
        """Variance per coordinate, 2 scale^2."""
        return 2 * np.square(self.noise_scale)


@dataclass(frozen=True)
class NoNoise:
    """No noise, for non-private references; `size` is zero for each of the `clients`."""

    clients: int
    family: ClassVar[Family] = "none"
    norm: ClassVar[Norm] = "l2"

    @property
    def size(self) -> NDArray[np.float64]:
        """Zero for every client."""
        return np.zeros(self.clients)

    @property
    def variance(self) -> NDArray[np.float64]:
        """Zero for every client."""
        return np.zeros(self.clients)


Mechanism: TypeAlias = Gaussian | Laplace | NoNoise
