"""The least noise with an epsilon that only an accountant knows."""

from collections.abc import Callable

import numpy as np

TOLERANCE = 2e-4
"""Relative excess of noise that root finding may leave; closed forms leave none."""


def least_noise(epsilon_of: Callable[[float], float], epsilon: float, guess: float) -> float:
    """Least noise with `epsilon_of(noise) <= epsilon`, up to `TOLERANCE`, and never less.

    It is bracketed from a guess and found by Brent's method.

    Args:
        epsilon_of: falls with the noise, as 1 / noise or faster; slower, and the excess is larger than that.
        epsilon: above 0.
        guess: of the noise, above 0.
    """

    # In logarithms an epsilon that falls about as 1 / noise is a line of slope -1, on which secants are good
    # steps, and one tolerance is relative at any size. An epsilon within it and not above is the root.
    def excess(log_noise: float) -> float:
        over = np.log(max(epsilon_of(float(np.exp(log_noise))), 1e-12) / epsilon) + TOLERANCE / 2
        return 0.0 if abs(over) <= TOLERANCE / 2 else over

    here = float(np.log(guess))
    over = excess(here)
    while over:
        # a tenth beyond where that line has its root, so that the two mostly bracket it; at most a factor e
        there = here + np.clip(1.1 * over, -1, 1) + np.copysign(TOLERANCE, over)
        if excess(there) * over <= 0:
            from scipy.optimize import brentq  # here, because it is slow to load

            here = float(brentq(excess, min(here, there), max(here, there), xtol=TOLERANCE / 4))  # pyright: ignore
            break
        here, over = there, excess(there)
    noise = float(np.exp(here))  # on either side of the root: only the accountant's own word makes it safe
    while epsilon_of(noise) > epsilon:
        noise *= 1 + TOLERANCE / 2
    return noise
