"""The Gaussian mechanism, exactly: the epsilon that a ratio mu gives away at a delta."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy.privacy.gaussian import SAFE_STEP, gaussian_delta, rounded_down

SMALLEST_EPSILON = 1e-12


def gaussian_epsilon(mu: ArrayLike, delta: ArrayLike) -> NDArray[np.float64]:
    """Exact epsilon of a Gaussian mechanism with ratio mu at a given delta.

    Newton's iteration on log delta, concave in epsilon, from the zCDP bound downwards; checked and
    rounded up.

    Args:
        mu: sensitivity / std of the composed mechanism, at least 0, broadcastable with delta.
        delta: in (0, 1).

    Returns:
        The smallest epsilon with delta(epsilon; mu) <= delta, at least 1e-12; 0 where delta(0; mu) is
        already below.

    Example:
        >>> float(gaussian_epsilon(1.0, 1e-5).round(4))
        4.3772
    """
    mu = check.non_negative("mu", mu)
    delta = check.in_unit_interval("delta", delta, closed_left=False)
    mu, delta = np.broadcast_arrays(mu, delta)
    spends = gaussian_delta(0.0, mu) > delta
    epsilon = np.zeros(mu.shape)
    epsilon[spends] = _solve_epsilon(mu[spends], delta[spends])
    return epsilon


def _solve_epsilon(mu: NDArray[np.float64], delta: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import erfcx  # here, as in `gaussian_delta`

    rho = np.square(mu) / 2
    epsilon = rho + 2 * np.sqrt(rho * -np.log(delta))
    moving = np.ones(mu.shape, bool)  # each stops for itself: what one has spent depends on no other
    for _ in range(100):
        reached = gaussian_delta(epsilon, mu)
        a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        # -d delta / d epsilon is e^epsilon Phi(-b), written as in `gaussian_delta` without overflow
        slope = np.exp(-np.square(a) / 2) / 2 * erfcx(b / np.sqrt(2))
        with np.errstate(divide="ignore", invalid="ignore"):
            step = (np.log(reached) - np.log(delta)) * reached / slope
        step = np.where(moving & np.isfinite(step), step, 0.0)
        epsilon = np.maximum(epsilon + step, SMALLEST_EPSILON)
        moving &= np.abs(step) > SAFE_STEP * epsilon
        if not moving.any():
            break
    # an inverse rounded down is an epsilon rounded up; what is asked is the very quotient that is returned
    return 1 / rounded_down(1 / epsilon, lambda inverse: gaussian_delta(1 / inverse, mu) <= delta)
