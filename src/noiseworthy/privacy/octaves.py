"""How large private numbers are: counts of them in octaves below a public bound, and what noised counts tell.

A number y with |y| <= M lies in octave k where M / 2^(k+1) < |y| <= M / 2^k; the last octave takes all that
is smaller. One record is counted in one octave, so that exchanging it moves two counts by one, and one that
comes or goes moves one count, however large the numbers are and however many octaves there are.
docs/theory/accounting.md#size-of-labels derives what that costs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy.privacy.budget import RELATIONS, Relation
from noiseworthy.privacy.sensitivity import RIGHT_ANGLED, Norm

OCTAVES = 12
"""That are told apart: down to a two-thousandth of the bound."""
_MISFIT = 0.05
"""How far shares of real numbers are from those of the nearest known shape."""
_RARER = 0.25
"""Power of the size by which small sizes are less likely beforehand: ranges are seldom far too wide."""
_NONE, _SPREADS = (0.0, 0.25, 0.5, 0.75, 0.9), (0.25, 0.5, 1.0, 1.5)
"""Shares of numbers that are 0 in the shapes, and spreads of the logarithms of others."""
_POINTS, _PER_OCTAVE, _TAIL = 2000, 2, 1e-4
Quantiles = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def octave_counts(values: NDArray[np.float64], bound: float) -> NDArray[np.int64]:
    """How many of some numbers lie in each octave below a bound.

    Args:
        values: private numbers, shape (n,).
        bound: M above 0; what is beyond it counts in the first octave.

    Returns:
        shape (OCTAVES,), with the sum n.

    Example:
        >>> octave_counts(np.array([0.0, 8.0, -5.0, 4.0, 30.0]), 8.0)[:3]
        array([3, 1, 0])
    """
    limit = check.positive("bound", bound)
    share = np.maximum(np.abs(values) / limit, 2.0**-OCTAVES)
    return np.bincount(np.clip(-np.log2(share), 0, OCTAVES - 1).astype(int), minlength=OCTAVES)


def of_octave_counts(norm: Norm, relation: Relation) -> float:
    """The most that one record can change in counts of octaves.

    Guarantee: two counts move by one where a record is exchanged, one where it comes or goes.

    Example:
        >>> of_octave_counts("l1", "replace-one"), of_octave_counts("l2", "add-remove")
        (2.0, 1.0)
    """
    check.one_of("relation", relation, RELATIONS)
    return RIGHT_ANGLED[norm] if relation == "replace-one" else 1.0


class Told(NamedTuple):
    """What noised counts tell of numbers.

    Attributes:
        size: their root mean square, as a share of the bound.
        shares: of them in each octave, shape (OCTAVES,), with the sum 1.
    """

    size: float
    shares: NDArray[np.float64]


def told(shares: NDArray[np.float64], deviation: float) -> Told:
    """How numbers lie below their bound, by noised shares of octaves.

    Each of some shapes in each of many sizes is as likely as it fits the shares; the size is the mean of the
    logarithm of theirs, and the shares are the mean over shapes of that size.

    Args:
        shares: of the numbers in each octave, noised, shape (OCTAVES,).
        deviation: standard deviation of their noise, at least 0.

    Example:
        >>> even = octave_counts(np.linspace(0, 0.25, 1000), 1.0) / 1000
        >>> round(told(even, 0.0).size, 2), told(even, 0.0).shares[:2].round(2)
        (0.13, array([0., 0.]))
    """
    noise = check.non_negative("deviation", deviation).item()
    sizes, known = _shapes()
    distance = np.sum(np.square(shares - known), axis=2) / (2 * (noise**2 + _MISFIT**2))
    # the least is taken off, or all weights may underflow together
    weight = np.exp(distance.min() - distance) * sizes**_RARER
    log = np.log(sizes)
    size = np.average(log, weights=weight)
    nearest = known[np.arange(len(known)), np.argmin(np.abs(log - size), axis=1)]
    return Told(float(np.exp(size)), np.average(nearest, axis=0, weights=weight.sum(axis=1)))


@cache
def _shapes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Root mean squares below a bound of 1, shape (shapes, sizes), and shares, (shapes, sizes, OCTAVES).

    Some of the numbers are 0, the others even, bell-shaped, exponential or with a normal logarithm.
    """
    level = (np.arange(_POINTS) + 0.5) / _POINTS
    from scipy.stats import expon, lognorm, norm  # here, because it takes half a second to import

    others: list[Quantiles] = [np.asarray, expon.ppf, lambda q: norm.ppf((1 + q) / 2)]
    others += [lognorm(spread).ppf for spread in _SPREADS]
    shapes = [
        np.where(level < none, 0.0, one(np.clip((level - none) / (1 - none), _TAIL, 1 - _TAIL)))
        for none, one in product(_NONE, others)
    ]
    sizes = 2.0 ** (-np.arange(OCTAVES * _PER_OCTAVE) / _PER_OCTAVE)
    numbers = [[np.minimum(size * one / np.sqrt(np.mean(one**2)), 1.0) for size in sizes] for one in shapes]
    shares = [[octave_counts(one, 1.0) / _POINTS for one in each] for each in numbers]
    return np.sqrt(np.mean(np.square(numbers), axis=2)), np.array(shares)
