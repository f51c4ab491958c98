"""No noise, for references that are not private: nothing is added, and nothing is promised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from noiseworthy.errors import UnsoundClaim
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.mechanisms.base import Law, Mechanism, Real

if TYPE_CHECKING:
    from jax import Array


def _refused(*_: Any, **__: Any) -> Any:
    raise UnsoundClaim("without noise nothing can be claimed of an upload; use a mechanism with noise")


class _NoLaw(Law):
    def noise(self, size: Real) -> NoNoise:
        return NoNoise(len(size))

    def unit_noise(self, budget: PrivacyBudget, used: Real, sampling_rate: float, settled: bool) -> Real:
        return np.zeros(budget.clients)

    def closed_form(self, sampling_rate: float, delta: ArrayLike) -> bool:
        return True

    def growth(self, delta: ArrayLike) -> float:
        return 0.0

    def accountant(self, sampling_rate: float, delta: ArrayLike) -> str:
        return "none: no noise, no guarantee"

    def draws(self, key: Array, shape: tuple[int, ...]) -> Array:
        import jax.numpy as jnp

        return jnp.zeros(shape, jnp.float32)

    spent = accounting = looser = power = distribution = log_density = _refused
    statistic = size_ratio = loss_distribution = _refused


LAW = _NoLaw(
    name="none",
    noisy=False,
    norm="l2",
    size_words=("std", "standard deviation"),
    variance_factor=1,
    square_spread=2.0,
    exponent=0,
    needs_delta=False,
    sampled=False,
    stable=True,
    currency=None,
    grid=None,
    freedom=1,
)


@dataclass(frozen=True)
class NoNoise(Mechanism):
    """No noise, for non-private references; `size` is zero for each of the `clients`."""

    clients: int
    law: ClassVar[Law] = LAW

    @property
    def size(self) -> Real:
        """Zero for every client."""
        return np.zeros(self.clients)
