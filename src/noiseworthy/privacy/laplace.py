"""Laplace noise released many times, exactly: delta and epsilon from the law of the privacy loss.

One release with ratio m = L1 sensitivity / scale loses L = m with probability 1/2, L = -m with probability
e^-m / 2, and in between with density e^-((m - l) / 2) / 4. Its moment generating function is

    M(z) = e^(z m) [ (1 + e^-u) / 2 + m (1 - e^-u) / (2 u) ],    u = (2z + 1) m.

For the sum of k such losses, and any c > 0,

    delta(epsilon) = E (1 - e^(epsilon - L))_+
                   = (1 / 2 pi i) int_{c - i inf}^{c + i inf}  M(z)^k e^(-z epsilon) / (z (z + 1)) dz.

The integral is summed with steps h along a line through the saddle point, where nothing cancels, so that
even a delta of 1e-12 after 100,000 releases keeps nine digits. By Poisson's formula the sum is

    sum_j e^(c j B) delta(epsilon + j B),    B = 2 pi / h,

whose terms are positive: a finite step errs toward more loss. What lies beyond the last step t is at most
M(c)^k e^(-c epsilon) / (pi t), and is added.

Source: contour of Alghamdi et al. 2022 ("The saddle-point accountant"); Poisson summation.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_TAIL = 5e-5
"""Part of epsilon that what lies beyond the last step may add."""
_SMALLEST, _LARGEST = 1e-8, 1e8
"""Pure epsilons outside of which the law is not computed; basic composition answers."""
_LINES, _PAIRS = (0.9, 0.3, 0.02), 4_000
"""Parts of a rough delta(0) whose lines make a profile, and how many pairs each has, to a factor of two."""
_ROUNDING = 1 + 1e-9
"""More than float64 loses in a delta."""


class _Contour(NamedTuple):
    """What the integral needs that does not depend on epsilon: c, log M(c)^k, t_n, weights and the rest."""

    line: float
    log_mass: float
    heights: NDArray[Any]
    weights: NDArray[np.complex128]
    beyond: float


@lru_cache(maxsize=65536)
def laplace_epsilon(shift: float, releases: int, delta: float) -> float:
    """Epsilon at `delta` of Laplace noise released several times.

    The worst case of a p-dimensional query is the whole L1 shift in one coordinate, so a
    one-dimensional distribution suffices, also adaptively (docs/theory/accounting.md#laplace-mechanism).

    Args:
        shift: L1 sensitivity / Laplace scale of one release.
        releases: number of uploads k.
        delta: in (0, 1).

    Returns:
        An upper bound on epsilon, never above k * shift (basic composition), and some 1e-4 of itself too
        large where delta(0) is above 1e-3 and delta below a hundredth of that (elsewhere more); exact for one
        release, where delta(epsilon) = 1 - e^((epsilon - shift) / 2).

    Example:
        >>> round(laplace_epsilon(1 / 36.75, 100, 1e-5), 3)
        1.0
    """
    if releases == 1:
        return max(shift + 2 * math.log1p(-delta), 0.0)
    basic = releases * shift
    if basic <= 2 * delta:  # total variation is tanh(basic / 2) at most
        return 0.0
    if not _SMALLEST < basic < _LARGEST or _is_basic(basic, releases, delta):
        return basic
    contour = _contour(shift, releases, delta)
    # both ends and the root are asked for twice
    excess = cache(lambda epsilon: _log_delta(contour, epsilon) - math.log(delta))
    if excess(0.0) <= 0:
        return 0.0
    if excess(basic) >= 0:
        return basic
    # Brent's method ends on either side of the root: then upwards, until delta is met
    from scipy.optimize import brentq  # here, because it is slow to load

    root = float(brentq(excess, 0.0, basic, xtol=1e-13 * basic, rtol=1e-12))  # pyright: ignore[reportArgumentType]
    while excess(root) > 0:
        root *= 1 + 1e-11
    return min(root, basic)


def laplace_profile(shift: float, releases: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pairs of epsilon and delta of Laplace noise released several times.

    Args:
        shift: L1 sensitivity / Laplace scale of one release.
        releases: number of uploads k, at least 1.

    Returns:
        epsilon from 0 to k shift, ascending, and an upper bound on delta, tight to some 3e-3 of itself
        but for the smallest; exact for one release. The last delta is 0, that of basic composition.

    Example:
        >>> epsilon, delta = laplace_profile(0.5, 4)
        >>> float(delta[0].round(3)), float(epsilon[-1])
        (0.352, 2.0)
    """
    basic = releases * shift
    if releases == 1 or not _SMALLEST < basic < _LARGEST:
        epsilon = np.linspace(0.0, basic, _PAIRS)
        return epsilon, -np.expm1((epsilon - basic) / 2)
    # 2 Phi(mu / 2) - 1 is about 0.4 mu, for mu = sqrt(k) m as of many releases: it only places the lines
    variation = min(0.4 * math.sqrt(releases) * shift, 1.0)
    lines = [_along(_contour(shift, releases, part * variation), basic) for part in _LINES]
    epsilon, delta = np.concatenate(lines, axis=1)
    order = np.argsort(epsilon, kind="stable")
    return np.append(epsilon[order], basic), np.append(delta[order], 0.0)


def _along(contour: _Contour, basic: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pairs with epsilon below the basic one, all by one Fourier transform of the line."""
    size, period = len(contour.heights), 2 * math.pi / float(contour.heights[1])
    wanted = np.arange(min(size, math.ceil(basic / period * size)))[:: max(1, size // _PAIRS)]
    total = np.fft.fft(contour.weights).real[wanted] + contour.beyond
    epsilon = np.float64(period / size) * wanted
    log = contour.log_mass - contour.line * epsilon + np.log(np.maximum(total, 1e-300) * _ROUNDING)
    return epsilon, np.exp(np.minimum(log, 0.0))


def _is_basic(basic: float, releases: int, delta: float) -> bool:
    """Whether delta buys next to nothing: the loss is k m with probability 2^-k.

    epsilon >= k m + log(1 - 2^k delta), which is k m up to a relative `_TAIL`.
    """
    log_share = releases * math.log(2) + math.log(delta)
    return log_share < math.log(_TAIL * min(basic, 1.0))


def _log_mgf(z: Any, shift: float) -> Any:
    """log M(z) for a real part above -1/2."""
    u = (2 * z + 1) * shift
    # no expm1: a small u costs 1 - e^-u its digits, but m / (2 u) = 1 / (2 (2z + 1)) makes of that no more
    # than a last bit of the sum, which is near 1
    falling = np.exp(-u)
    return z * shift + np.log((1 + falling) / 2 + shift * (1 - falling) / (2 * u))


def _contour(shift: float, releases: int, delta: float) -> _Contour:
    """A line through about the saddle point of the epsilon that is looked for, with steps along it.

    c makes the Chernoff bound least. Steps h = 2 pi / B repeat nothing of weight where B is several times s,
    the standard deviation of the loss tilted by c.
    """
    line = _line(shift, releases, delta)
    log_mass = releases * float(_log_mgf(line, shift))
    spread = _spread(line, shift, releases)
    # The copies that a finite step adds: 14 spreads above epsilon next to nothing of the tilted law is left,
    # and below it e^(-c B) makes a delta of at most 1 less than e^-25 of the one that is wanted.
    period = max(14 * spread, (math.log(1 / delta) + 25) / line)
    slope = max(line * line * spread * spread, 1.0)  # c epsilon, or less
    reach = line * (1 + line) * spread / (_TAIL * slope)
    steps = int(np.clip(reach * period / (2 * math.pi), 2_000, 2_000_000))
    heights = np.float64(2 * math.pi / period) * np.arange(steps)
    z = line + 1j * heights
    # |M| is largest on the axis, so that no power of it exceeds 1 once log_mass is off; k is whole, so that
    # the branch of the complex logarithm does not matter
    weights = np.exp(releases * _log_mgf(z, shift) - log_mass) / (z * (1 + z))
    weights[0] /= 2  # the line is symmetric: one side is summed and doubled, and its middle is there once
    # the rest begins at the last height summed, no step further: falling terms add less than their integral
    return _Contour(line, log_mass, heights, weights * 2 / period, 1 / (math.pi * heights[-1]))


def _line(shift: float, releases: int, delta: float) -> float:
    """The c that makes the Chernoff bound on epsilon least, found on a logarithmic scale."""

    def bound(log_c: float) -> float:
        c = math.exp(log_c)
        return (releases * float(_log_mgf(c, shift)) - math.log(delta) - math.log(c * (1 + c))) / c

    centre = math.log(math.sqrt(2 * math.log(1 / delta) + 1) / (shift * math.sqrt(releases)))
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(bound, bounds=(centre - 12, centre + 12), method="bounded")
    return math.exp(found.x)  # pyright: ignore[reportAttributeAccessIssue]


def _spread(line: float, shift: float, releases: int) -> float:
    """Standard deviation of the summed loss under the law tilted by c, by a second difference."""
    h = 1e-2 * min(line, 1 / (shift * math.sqrt(releases)))
    above, here, below = (float(_log_mgf(c, shift)) for c in (line + h, line, line - h))
    return math.sqrt(max(releases * (above - 2 * here + below), 1e-30)) / h


def _log_delta(contour: _Contour, epsilon: float) -> float:
    """log of an upper bound on delta(epsilon)."""
    turning = np.exp(-1j * contour.heights * epsilon)
    total = float(np.sum((contour.weights * turning).real)) + contour.beyond
    return contour.log_mass - contour.line * epsilon + math.log(max(total, 1e-300) * _ROUNDING)
