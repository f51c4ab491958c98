"""Families of noise: which epsilon a measured advantage proves, given the kind of noise but not its size.

An attacker's advantage is a total variation, delta(0) of the composed mechanism. Within a family it grows
with the ratios shift / noise of the releases, and so does epsilon. What trials prove is the `scale`: the
factor by which all ratios exceed those that the plan states. A sound plan has scale 1.

The counting bound at delta = 1e-5 would need some hundred thousand trials to see anything: the family is what
makes the bound tight, and the bound is conditional on it (`docs/audit.md`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from noiseworthy.privacy.gaussian import gaussian_delta
from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon
from noiseworthy.privacy.mechanisms import Law
from noiseworthy.privacy.mechanisms.currencies import MU_SQUARED
from noiseworthy.privacy.power import ProfiledPower

Parts: TypeAlias = tuple[tuple[float, int], ...]
"""Releases of one client: pairs of a ratio shift / noise and how often it is released."""
_MOST_SCALE = 1e3
_FINENESS = 100
"""Grid points of a privacy loss distribution per ratio of one release."""
_COARSEST, _POINTS = 1e-2, 1e5
"""Largest distance of grid points, and most of them over the ratio of the largest release."""


class Family(Protocol):
    """The mechanisms of several clients, up to one unknown scale of their ratios shift / noise."""

    def advantage(self, scale: float) -> float:
        """Total variation, the mean over the clients."""
        ...

    def delta_at(self, epsilon: float, scale: float) -> float:
        """delta(epsilon), the mean over the clients: that of a client drawn in public."""
        ...

    def epsilon(self, scale: float, delta: NDArray[np.float64]) -> NDArray[np.float64]:
        """epsilon of each client at its delta, shape (m,)."""
        ...


@dataclass(frozen=True)
class GaussianFamily:
    """Gaussian releases: composed, each client's is one of ratio mu.

    Attributes:
        mu: root of the summed squared ratios of each client, shape (m,).

    Example:
        >>> family = GaussianFamily(np.array([1.0]))
        >>> float(family.epsilon(1.0, np.array([1e-5]))[0].round(4)), round(family.advantage(1.0), 4)
        (4.3772, 0.3829)

    Source: Dong, Roth & Su 2022, Corollary 3.3.
    """

    mu: NDArray[np.float64]

    def advantage(self, scale: float) -> float:
        """2 Phi(mu / 2) - 1, the mean over the clients."""
        return float(np.mean(2 * ndtr(scale * self.mu / 2) - 1))

    def delta_at(self, epsilon: float, scale: float) -> float:
        """delta(epsilon), the mean over the clients."""
        return float(np.mean(gaussian_delta(epsilon, scale * self.mu)))

    def epsilon(self, scale: float, delta: NDArray[np.float64]) -> NDArray[np.float64]:
        """epsilon of each client, shape (m,)."""
        return gaussian_epsilon(scale * self.mu, delta)


@dataclass(frozen=True)
class LossFamily:
    """Releases composed exactly by their privacy loss distribution, of Poisson batches under add-or-remove.

    Attributes:
        law: of the noise.
        parts: releases of each client, length m; ratios of the record where it is in the batch.
        sampling_rate: q.

    Example:
        >>> from noiseworthy.privacy.mechanisms import law_of
        >>> family = LossFamily(law_of("laplace"), (((0.5, 4),),))
        >>> float(family.epsilon(1.0, np.zeros(1))[0]), round(family.advantage(1.0), 3)
        (2.0, 0.352)
        >>> sampled = LossFamily(law_of("gaussian"), (((1.0, 10),),), 0.1)
        >>> round(sampled.advantage(1.0), 3) < round(GaussianFamily(np.array([10**0.5])).advantage(1.0), 3)
        True
    """

    law: Law
    parts: tuple[Parts, ...]
    sampling_rate: float = 1.0

    def advantage(self, scale: float) -> float:
        """delta(0), the mean over the clients."""
        return self.delta_at(0.0, scale)

    def delta_at(self, epsilon: float, scale: float) -> float:
        """delta(epsilon), the mean over the clients, of the direction that is worse."""
        return _mean(self.parts, lambda parts: self._of(parts, scale).get_delta_for_epsilon(epsilon))

    def epsilon(self, scale: float, delta: NDArray[np.float64]) -> NDArray[np.float64]:
        """epsilon of each client, shape (m,): that of basic composition at most where noise is pure."""
        return np.array([self._epsilon(p, scale, d) for p, d in zip(self.parts, delta, strict=True)])

    def _epsilon(self, parts: Parts, scale: float, delta: float) -> float:
        if not self.law.pure:
            return self._of(parts, scale).get_epsilon_for_delta(delta)
        basic = sum(scale * ratio * count for ratio, count in parts)
        return basic if delta == 0 else min(basic, self._of(parts, scale).get_epsilon_for_delta(delta))

    def _of(self, parts: Parts, scale: float) -> Any:
        return _composed(self.law, parts, scale, self.sampling_rate)


def family_at(law: Law, parts: tuple[Parts, ...], sampling_rate: float = 1.0) -> Family:
    """The family of releases of a law, by its closed form where it has one.

    Args:
        law: of the noise.
        parts: releases of each client.
        sampling_rate: q.
    """
    if law.currency is MU_SQUARED and sampling_rate == 1.0:
        return GaussianFamily(np.array([sum(k * ratio**2 for ratio, k in one) ** 0.5 for one in parts]))
    return LossFamily(law, parts, sampling_rate)


def largest_rejected(family: Family, advantage: float) -> float:
    """The scale of which the family has just this advantage: all smaller ones are rejected by it.

    Args:
        family: the clients' mechanisms.
        advantage: a lower limit on the total variation, in [0, 1).

    Returns:
        At least 0, and at most 1000.

    Example:
        >>> family = GaussianFamily(np.array([1.0, 2.0]))
        >>> round(largest_rejected(family, family.advantage(0.7)), 3)
        0.7
    """
    if advantage <= 0:
        return 0.0
    low = high = 1.0
    while family.advantage(low) > advantage:
        low /= 1.5
    while family.advantage(high) < advantage and high < _MOST_SCALE:
        high *= 1.5
    if high >= _MOST_SCALE:
        return _MOST_SCALE
    return float(brentq(lambda scale: family.advantage(scale) - advantage, low / 1.5, high, xtol=1e-6))  # pyright: ignore


def tradeoff(family: Family, scale: float, rates: Sequence[float]) -> list[float]:
    """Least rate of misses that each rate of false alarms leaves an attacker: the trade-off curve.

    It is what the best test's power leaves (`privacy.power`).

    Args:
        family: the clients' mechanisms; the curve is that of a client drawn in public.
        scale: factor on all ratios.
        rates: alpha in [0, 1].

    Returns:
        f(alpha) for each, at least 0.

    Example:
        >>> [round(miss, 3) for miss in tradeoff(GaussianFamily(np.array([1.0])), 1.0, [0.0, 0.3085, 1.0])]
        [1.0, 0.309, 0.0]

    Source: Dong, Roth & Su 2022, Proposition 2.12.
    """
    epsilon = np.concatenate([[0.0], np.geomspace(1e-3, 60, 240)])
    delta = np.array([family.delta_at(float(one), scale) for one in epsilon])
    return (1 - ProfiledPower(epsilon, delta).at(rates)).tolist()


def _mean(parts: tuple[Parts, ...], of: Callable[[Parts], float]) -> float:
    """A mean over clients, asked once for each kind of them."""
    kinds = {kind: parts.count(kind) for kind in set(parts)}
    return float(sum(many * of(kind) for kind, many in kinds.items()) / len(parts))


@lru_cache(maxsize=4096)
def _composed(law: Law, parts: Parts, scale: float, sampling_rate: float) -> Any:
    """One after the other; the library rounds losses up, so that every delta is an upper bound."""
    whole, grid = None, _grid(parts, sampling_rate * scale)
    for ratio, count in parts:
        part = law.analysis.loss_distribution(scale * ratio, sampling_rate, grid).self_compose(count)
        whole = part if whole is None else whole.compose(part)
    return whole


def _grid(parts: Parts, scale: float) -> float:
    least, most = (scale * end(ratio for ratio, _ in parts) for end in (min, max))
    return max(min(least / _FINENESS, _COARSEST), most / _POINTS)
