"""The least noise that a budget allows for a planned number of uploads.

Calibration rounds toward privacy and asks the accountant again before it answers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.privacy.accountants import Release, check_sampling, spent_epsilon
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.privacy.laplace import laplace_epsilon
from noiseworthy.privacy.loss_distribution import poisson_gaussian_epsilon
from noiseworthy.privacy.mechanisms import FAMILIES, Family, Gaussian, Laplace, Mechanism, NoNoise
from noiseworthy.privacy.sensitivity import Sensitivity

_TOLERANCE = 2e-4
"""Relative excess of noise that root finding over a PLD may leave; closed forms leave none."""


def unit_noise(
    family: Family,
    budget: PrivacyBudget,
    releases: ArrayLike,
    sampling_rate: float = 1.0,
    *,
    settled: bool = True,
) -> NDArray[np.float64]:
    """Noise size per unit of sensitivity that pays for k_i uploads of client i.

        Gaussian: sqrt(k) s(epsilon, delta)      Laplace, delta = 0: k / epsilon
        Laplace with a delta, and Poisson batches: root of the privacy loss distribution

    Args:
        family: `gaussian`, `laplace` or `none`.
        budget: (epsilon_i, delta_i), shape (N,).
        releases: planned uploads k_i, at least 1, shape (N,) or one for all.
        sampling_rate: 1 for full batches, q for Poisson batches.
        settled: False takes some tenths of a percent too much noise for Poisson batches, for pictures.

    Returns:
        Standard deviation or scale for sensitivity 1, shape (N,).

    Example:
        >>> unit_noise("laplace", PrivacyBudget.of([1.0, 5.0], 0.0, 2), 10)
        array([10.,  2.])
    """
    check.one_of("mechanism", family, FAMILIES)
    used = check.counts("releases", check.per_client("releases", releases, budget.clients)).astype(float)
    check_sampling(sampling_rate, family, budget.relation)
    if family == "none":
        return np.zeros(budget.clients)
    if family == "gaussian" and sampling_rate == 1.0:
        return np.sqrt(used) / budget.mu
    if family == "laplace":
        return _distinct(_laplace_unit_noise, budget.epsilon, budget.delta, used)
    if np.any(budget.delta == 0):
        raise InvalidInput("delta must be above 0 for Gaussian noise; use Laplace noise for pure epsilon")
    return _distinct(
        lambda e, d, k: _poisson_unit_noise(e, d, k, sampling_rate, settled),
        budget.epsilon,
        budget.delta,
        used,
    )


def calibrate(
    family: Family,
    sensitivity: Sensitivity,
    budget: PrivacyBudget,
    releases: ArrayLike,
    sampling_rate: float = 1.0,
) -> Release:
    """The release with the least noise that keeps every client within its budget.

    Args:
        family: `gaussian`, `laplace` or `none`.
        sensitivity: of one upload, per client, in the norm of the family.
        budget: (epsilon_i, delta_i) under the same relation.
        releases: planned uploads k_i, shape (N,) or one for all.
        sampling_rate: 1 for full batches, q for Poisson batches.

    Returns:
        A `Release` whose exact cost after k_i uploads is at most the budget.

    Raises:
        UnsoundClaim: sensitivity and budget under different relations, or a claim without proof.

    Guarantee: `spent_epsilon(release, releases, delta) <= epsilon`, checked here by the accountant;
    the noise exceeds the least possible by at most 0.1 %.
    """
    if sensitivity.relation != budget.relation:
        raise UnsoundClaim(
            f"sensitivity is {sensitivity.relation}, the budget {budget.relation}; use one relation for both"
        )
    if sensitivity.unit != budget.unit:
        raise UnsoundClaim(
            f"sensitivity is of one {sensitivity.unit}, the budget protects one {budget.unit}; "
            "use one unit for both"
        )
    size = sensitivity.value * unit_noise(family, budget, releases, sampling_rate)
    if family == "none":
        return Release(NoNoise(budget.clients), sensitivity)
    for _ in range(8):
        release = Release(_mechanism(family, size), sensitivity, sampling_rate)
        over = spent_epsilon(release, releases, budget.delta) > budget.epsilon
        if not np.any(over):
            return release
        size = np.where(over, size * (1 + 1e-12), size)  # the last bits of a division, never more
    raise UnsoundClaim("calibration could not be confirmed by the accountant; please report this budget")


def _mechanism(family: Literal["gaussian", "laplace"], size: NDArray[np.float64]) -> Mechanism:
    return Gaussian(size) if family == "gaussian" else Laplace(size)


def _distinct(
    solve: Callable[[float, float, int], float],
    epsilon: NDArray[np.float64],
    delta: NDArray[np.float64],
    releases: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Solve once for every distinct (epsilon, delta, releases)."""
    if not np.any(delta):
        return releases / epsilon
    rows, inverse = np.unique(np.stack([epsilon, delta, releases]), axis=1, return_inverse=True)
    return np.array([solve(float(e), float(d), int(k)) for e, d, k in rows.T])[inverse.ravel()]


@lru_cache(maxsize=65536)
def _laplace_unit_noise(epsilon: float, delta: float, releases: int) -> float:
    basic = releases / epsilon
    if releases == 1:
        return 1 / (epsilon - 2 * np.log1p(-delta))
    if delta == 0 or laplace_epsilon(epsilon / releases, releases, delta) > epsilon * (1 - _TOLERANCE):
        return basic
    central_limit = float(np.sqrt(releases) / gaussian_mu(epsilon, delta))
    return _least_noise(
        lambda scale: laplace_epsilon(1 / scale, releases, delta), epsilon, min(central_limit, basic)
    )


@lru_cache(maxsize=65536)
def _poisson_unit_noise(
    epsilon: float, delta: float, releases: int, sampling_rate: float, settled: bool = True
) -> float:
    """Std per unit of the *sampled* sensitivity C/(q n); the guess is the limit of Bu et al. 2020."""
    mu = float(gaussian_mu(epsilon, delta))
    central_limit = 1 / np.sqrt(np.log1p((mu / sampling_rate) ** 2 / releases))
    return _least_noise(
        lambda std: poisson_gaussian_epsilon(1 / std, sampling_rate, releases, delta, settled=settled),
        epsilon,
        float(central_limit),
    )


def _least_noise(epsilon_of: Callable[[float], float], epsilon: float, guess: float) -> float:
    """Least noise with `epsilon_of(noise) <= epsilon`, bracketed from a guess and found by Brent's method."""

    def excess(log_noise: float) -> float:
        return np.log(max(epsilon_of(float(np.exp(log_noise))), 1e-12) / epsilon)

    here = float(np.log(guess))
    over = excess(here)
    while abs(over) > _TOLERANCE / 4:
        there = here + np.clip(1.1 * over, -1, 1) + np.copysign(_TOLERANCE, over)
        if excess(there) * over <= 0:
            here = float(brentq(excess, min(here, there), max(here, there), xtol=_TOLERANCE / 4))  # pyright: ignore
            break
        here, over = there, excess(there)
    noise = float(np.exp(here))
    while epsilon_of(noise) > epsilon:
        noise *= 1 + _TOLERANCE / 2
    return noise
