"""What is computed of Gaussian noise."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon
from noiseworthy.privacy.mechanisms.analysis import Analysis, Counts, Looser, Ratios, each_once, least_noise
from noiseworthy.privacy.mechanisms.currencies import Real

if TYPE_CHECKING:
    from jax import Array

    from noiseworthy.privacy.power import Power


class _GaussianAnalysis(Analysis):
    def spent(self, shift: Real, used: Counts, delta: Real, sampling_rate: float) -> Real:
        if sampling_rate == 1.0:
            return gaussian_epsilon(np.sqrt(used) * shift, delta)

        def one(shift: float, uploads: float, delta: float) -> float:
            return _poisson_epsilon(shift, sampling_rate, int(uploads), delta)

        return each_once(one, shift, used.astype(float), delta)

    def unit_noise(self, budget: PrivacyBudget, used: Real, sampling_rate: float, settled: bool) -> Real:
        if sampling_rate == 1.0:
            return np.sqrt(used) / budget.mu
        if np.any(budget.delta == 0):
            raise InvalidInput("delta must be above 0 for Gaussian noise; use Laplace noise for pure epsilon")

        def one(epsilon: float, delta: float, uploads: float) -> float:
            return _poisson_unit_noise(epsilon, delta, int(uploads), sampling_rate, settled)

        return each_once(one, budget.epsilon, budget.delta, used)

    def closed_form(self, sampling_rate: float, delta: ArrayLike) -> bool:
        return sampling_rate == 1.0

    def growth(self, delta: ArrayLike) -> float:
        return 1.0

    def accountant(self, sampling_rate: float, delta: ArrayLike) -> str:
        if sampling_rate == 1.0:
            return "exact composition of Gaussian mechanisms (closed form)"
        return f"privacy loss distribution (dp-accounting {version('dp-accounting')})"

    def accounting(self, sampling_rate: float, delta: ArrayLike) -> str:
        if sampling_rate < 1:
            return "privacy loss distributions of the dp-accounting library, rounded toward more loss"
        return "the exact closed form for composed Gaussian noise"

    def looser(self, amount: Real, delta: Real) -> Looser:
        rho = amount / 2
        return Looser("zCDP", rho + 2 * np.sqrt(rho * -np.log(delta)))

    def power(self, ratios: Ratios, sampling_rate: float) -> Power:
        from noiseworthy.privacy.power import GaussianPower, poisson_power

        if sampling_rate == 1.0:
            return GaussianPower(sum(k * ratio**2 for ratio, k in ratios) ** 0.5)
        ((ratio, k),) = ratios
        return poisson_power(ratio, sampling_rate, k)

    def draws(self, key: Array, shape: tuple[int, ...]) -> Array:
        import jax

        return jax.random.normal(key, shape, "float32")

    def host_draws(self, generator: np.random.Generator, count: int) -> Real:
        return generator.standard_normal(count)  # as `distribution` draws, whose import takes half a second

    def distribution(self) -> Any:
        from scipy.stats import norm

        return norm()

    def log_density(self, values: Real) -> Real:
        return -np.square(values) / 2

    def statistic(self, values: Real) -> Real:
        return np.square(values)

    def size_ratio(self, mean: Real) -> Real:
        return np.sqrt(mean)

    def loss_distribution(self, ratio: float, sampling_rate: float, grid: float) -> Any:
        from noiseworthy.privacy.loss_distribution import poisson_gaussian_loss

        return poisson_gaussian_loss(ratio, sampling_rate, grid)


ANALYSIS = _GaussianAnalysis()


def _poisson_epsilon(shift: float, sampling_rate: float, uploads: int, delta: float) -> float:
    from noiseworthy.privacy.loss_distribution import poisson_gaussian_epsilon

    return poisson_gaussian_epsilon(shift, sampling_rate, uploads, delta) if uploads else 0.0


@lru_cache(maxsize=65536)
def _poisson_unit_noise(
    epsilon: float, delta: float, releases: int, sampling_rate: float, settled: bool = True
) -> float:
    """Std per unit of the *sampled* sensitivity C/(q n), guesses: a coarse grid, there Bu et al. 2020."""
    from noiseworthy.privacy.loss_distribution import poisson_gaussian_epsilon

    # q sqrt(k (e^(mu^2) - 1)) = mu(epsilon, delta), solved for 1 / mu
    guess = float(1 / np.sqrt(np.log1p((gaussian_mu(epsilon, delta) / sampling_rate) ** 2 / releases)))
    if settled:
        guess = _poisson_unit_noise(epsilon, delta, releases, sampling_rate, settled=False)
    return least_noise(
        lambda std: poisson_gaussian_epsilon(1 / std, sampling_rate, releases, delta, settled=settled),
        epsilon,
        guess,
    )
