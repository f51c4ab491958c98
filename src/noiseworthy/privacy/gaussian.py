"""The Gaussian mechanism, exactly: delta and mu for any number of clients at once.

A release with ratio mu = sensitivity / std has, exactly,

    delta(epsilon; mu) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu),

and releases with ratios mu_1, mu_2, ... compose, also adaptively, to one with mu = sqrt(sum mu_j^2).
(Balle & Wang 2018, Theorem 8; Dong, Roth & Su 2022, Corollary 3.3.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput

SMALLEST_MU = 1e-6
"""Below this ratio float64 no longer resolves delta well enough to stay on the safe side."""

SAFE_STEP = 1e-13
"""By which iterations end, relatively."""


def gaussian_delta(epsilon: ArrayLike, mu: ArrayLike) -> NDArray[np.float64]:
    """Exact delta of a Gaussian mechanism with ratio mu at a given epsilon.

    Args:
        epsilon: privacy loss, at least 0, broadcastable with mu.
        mu: sensitivity / std of the composed mechanism, at least 0.

    Returns:
        delta, of the broadcast shape. Relative error below 1e-10 for mu above 1e-4.

    Example:
        >>> float(gaussian_delta(1.0, 1.0).round(6))
        0.126937
    """
    from scipy.special import erfcx, ndtr  # here, because a study is read without it

    epsilon, mu = np.broadcast_arrays(np.asarray(epsilon, float), np.asarray(mu, float))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        # Where a > 0 both terms carry this one factor: the error of an exponential of a large square is many
        # last bits, but common to both, so that it scales their small difference and does not swamp it.
        density = np.exp(-np.square(a) / 2) / 2
        tail = density * erfcx(b / np.sqrt(2))  # e^epsilon Phi(-b), without overflow
        # erfcx overflows from -26.7 on; where a <= 0 the body is at least 1/2, and ndtr has it
        body = np.where(a > 0, density * erfcx(np.maximum(a, 0) / np.sqrt(2)), ndtr(-a))
    # rounding may leave the difference below 0; where mu is 0, a may be no number, and nothing is learnt
    return np.where(mu > 0, np.maximum(body - tail, 0.0), 0.0)


def gaussian_mu(epsilon: ArrayLike, delta: ArrayLike) -> NDArray[np.float64]:
    """Largest ratio mu that (epsilon, delta) allows; its inverse is s(epsilon, delta).

    Newton's iteration on log delta, which is concave in mu, started from the zCDP answer (always
    feasible): it rises towards the root without passing it. The result is checked and rounded down.

    Args:
        epsilon: above 0, broadcastable with delta.
        delta: in (0, 1).

    Returns:
        mu with delta(epsilon; mu) <= delta, of the broadcast shape.

    Raises:
        InvalidInput: delta 0 (no Gaussian noise is enough), values out of range, or budgets so small
            that mu falls below `SMALLEST_MU`.

    Example:
        >>> float((1 / gaussian_mu(1.0, 1e-5)).round(4))
        3.7306
    """
    epsilon = check.positive("epsilon", epsilon)
    remedy = "Gaussian noise needs a delta above 0; use Laplace noise for pure epsilon"
    delta = check.in_unit_interval("delta", delta, closed_left=False, remedy=remedy)
    epsilon, delta = np.broadcast_arrays(epsilon, delta)
    # a pair as one complex number, which np.unique can compare: thousands of clients have few budgets
    pairs, inverse = np.unique(epsilon.ravel() + 1j * delta.ravel(), return_inverse=True)
    mu = _solve_mu(pairs.real, pairs.imag)
    if np.any(mu < SMALLEST_MU):
        smallest = pairs.real[mu < SMALLEST_MU][0]
        raise InvalidInput(f"epsilon {smallest:g} is too small to be met exactly; use a larger one")
    return mu[inverse.ravel()].reshape(epsilon.shape)


def _solve_mu(epsilon: NDArray[np.float64], delta: NDArray[np.float64]) -> NDArray[np.float64]:
    log_inverse = -np.log(delta)
    # root of mu^2 / 2 + mu sqrt(2 L) = epsilon by its conjugate: sqrt(epsilon + L) - sqrt(L) would lose all
    # digits of a small epsilon
    mu = np.sqrt(2) * epsilon / (np.sqrt(epsilon + log_inverse) + np.sqrt(log_inverse))
    for _ in range(100):
        reached = gaussian_delta(epsilon, mu)
        # d delta / d mu is the density at a alone: what the two terms add beside it cancels exactly
        slope = np.exp(-np.square(epsilon / mu - mu / 2) / 2) / np.sqrt(2 * np.pi)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = (np.log(delta) - np.log(reached)) * reached / slope
        step = np.where(np.isfinite(step), step, 0.0)
        mu = np.clip(mu + step, mu / 2, mu * 2)  # where delta underflows its slope tells no distance
        if np.all(np.abs(step) <= SAFE_STEP * mu):
            break
    # the last step may end on either side of the root by rounding: only a mu that was asked is safe
    return rounded_down(mu, lambda m: gaussian_delta(epsilon, m) <= delta)


def rounded_down(value: NDArray[np.float64], safe) -> NDArray[np.float64]:
    """Lower each value, in growing relative steps, until `safe` holds for it."""
    step = SAFE_STEP
    for _ in range(40):
        bad = ~safe(value)
        if not np.any(bad):
            return value
        value = np.where(bad, value * (1 - step), value)
        step *= 2
    raise InvalidInput("no safe rounding found: the budget is beyond what float64 resolves; use a larger one")
