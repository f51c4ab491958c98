"""What is computed of Laplace noise."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.privacy.mechanisms.analysis import (
    TOLERANCE,
    Analysis,
    Counts,
    Looser,
    Ratios,
    each_once,
    least_noise,
)
from noiseworthy.privacy.mechanisms.currencies import Real

if TYPE_CHECKING:
    from jax import Array

    from noiseworthy.privacy.power import Power


class _LaplaceAnalysis(Analysis):
    def spent(self, shift: Real, used: Counts, delta: Real, sampling_rate: float) -> Real:
        if not np.any(delta):
            return used * shift
        return each_once(_epsilon, shift, used.astype(float), delta)

    def unit_noise(self, budget: PrivacyBudget, used: Real, sampling_rate: float, settled: bool) -> Real:
        if not np.any(budget.delta):
            return used / budget.epsilon
        return each_once(_unit_noise, budget.epsilon, budget.delta, used)

    def closed_form(self, sampling_rate: float, delta: ArrayLike) -> bool:
        return sampling_rate == 1.0 and not np.any(delta)

    def growth(self, delta: ArrayLike) -> float:
        return 1.0 if np.any(delta) else 2.0

    def accountant(self, sampling_rate: float, delta: ArrayLike) -> str:
        exact = "exact composition of Laplace mechanisms (contour integral of the privacy loss)"
        return exact if np.any(delta) else "pure epsilon, basic composition"

    def accounting(self, sampling_rate: float, delta: ArrayLike) -> str:
        exact = "the exact law of the privacy loss of Laplace noise, rounded toward more loss"
        return exact if np.any(delta) else "the sum of pure epsilons"

    def looser(self, amount: Real, delta: Real) -> Looser | None:
        return Looser("basic composition", amount) if np.any(delta) else None

    def power(self, ratios: Ratios, sampling_rate: float) -> Power:
        from noiseworthy.privacy.power import laplace_power, pure_power

        if len(ratios) > 1:
            return pure_power(sum(k * ratio for ratio, k in ratios))
        return laplace_power(*ratios[0])

    def draws(self, key: Array, shape: tuple[int, ...]) -> Array:
        import jax

        return jax.random.laplace(key, shape, "float32")

    def host_draws(self, generator: np.random.Generator, count: int) -> Real:
        return generator.laplace(size=count)  # as `distribution` draws, whose import takes half a second

    divisible = True

    def shares(self, key: Array, shape: tuple[int, ...], parts: int) -> Array:
        """Differences of two gamma draws of shape 1/parts, whose sums have shapes that add up."""
        import jax

        up, down = jax.random.gamma(key, 1 / parts, (2, *shape), "float32")
        return up - down

    def distribution(self) -> Any:
        from scipy.stats import laplace

        return laplace()

    def log_density(self, values: Real) -> Real:
        return -np.abs(values)

    def statistic(self, values: Real) -> Real:
        return 2 * np.abs(values)

    def size_ratio(self, mean: Real) -> Real:
        return mean

    def loss_distribution(self, ratio: float, sampling_rate: float, grid: float) -> Any:
        from dp_accounting.pld import privacy_loss_distribution as library

        return library.from_laplace_mechanism(1 / ratio, value_discretization_interval=grid)


ANALYSIS = _LaplaceAnalysis()


def _epsilon(shift: float, uploads: float, delta: float) -> float:
    from noiseworthy.privacy.laplace import laplace_epsilon

    return laplace_epsilon(shift, int(uploads), delta) if uploads and delta > 0 else uploads * shift


@lru_cache(maxsize=65536)
def _unit_noise(epsilon: float, delta: float, uploads: float) -> float:
    from noiseworthy.privacy.laplace import laplace_epsilon

    releases = int(uploads)
    basic = releases / epsilon
    if releases == 1:
        return 1 / (epsilon - 2 * np.log1p(-delta))
    # where delta buys less than root finding may leave, the closed form is as little noise and exact
    if delta == 0 or laplace_epsilon(epsilon / releases, releases, delta) > epsilon * (1 - TOLERANCE):
        return basic
    central_limit = float(np.sqrt(releases) / gaussian_mu(epsilon, delta))
    start = min(central_limit, basic)
    return least_noise(lambda scale: laplace_epsilon(1 / scale, releases, delta), epsilon, start)
