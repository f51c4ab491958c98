"""What is computed of no noise: nothing is promised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from noiseworthy.errors import UnsoundClaim
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.mechanisms.analysis import Analysis
from noiseworthy.privacy.mechanisms.currencies import Real

if TYPE_CHECKING:
    from jax import Array


def _refused(*_: Any, **__: Any) -> Any:
    raise UnsoundClaim("without noise nothing can be claimed of an upload; use a mechanism with noise")


class _NoAnalysis(Analysis):
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


ANALYSIS = _NoAnalysis()
