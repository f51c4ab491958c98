"""No noise, for references that are not private: nothing is added, and nothing is promised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noiseworthy.privacy.mechanisms.base import Law, Mechanism
from noiseworthy.privacy.mechanisms.currencies import Real

LAW = Law(
    name="none", noisy=False, norm="l2", size_words=("std", "standard deviation"),
    variance_factor=1, square_spread=2.0, exponent=0,
    needs_delta=False, sampled=False, stable=True, currency=None, grid=None,
    freedom=1, noise=lambda size: NoNoise(len(size)), analysed_in=f"{__name__}_analysis",
)  # fmt: skip


@dataclass(frozen=True)
class NoNoise(Mechanism):
    """No noise, for non-private references; `size` is zero for each of the `clients`."""

    clients: int
    law: ClassVar[Law] = LAW

    @property
    def size(self) -> Real:
        """Zero for every client."""
        return np.zeros(self.clients)
