"""How well anybody can tell two neighbouring data sets apart by all that was released of them.

Whoever sees the releases tests which of two neighbouring data sets is held. A test that takes the first for
the second with probability alpha (a false alarm) finds the second with probability (power)

    p(alpha) = min over epsilon >= 0 of  delta(epsilon) + e^epsilon alpha,
               1 - e^-epsilon (1 - delta(epsilon) - alpha)

at most, whatever it computes; for worst-case data the likelihood ratio reaches it. Gaussian noise of ratio mu
has p(alpha) = Phi(Phi^-1(alpha) + mu). A guess between two equally likely data sets is right with
probability (1 + delta(0)) / 2 at most, and two data sets that are two moves apart are told apart with power
p(p(alpha)) at most.

That is a claim about tests, which hold before the releases are seen. It does not say that no release ever
makes its reader surer than e^epsilon / (1 + e^epsilon): with noise of epsilon 1 at delta 1e-5, that happens
with probability 16 delta.

Source: Wasserman & Zhou 2010; Dong, Roth & Su 2022, Propositions 2.5 and 2.12, Theorem 2.14, equation 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtr, ndtri

from noiseworthy.privacy.laplace import laplace_profile
from noiseworthy.privacy.loss_distribution import poisson_gaussian_profile


class Power(Protocol):
    """The best tests between two neighbouring data sets."""

    def at(self, false_alarms: ArrayLike) -> NDArray[np.float64]:
        """Largest probability of finding the second, for each alpha in [0, 1]."""
        ...

    @property
    def guess(self) -> float:
        """Largest probability with which a guess between two equally likely data sets is right."""
        ...


@dataclass(frozen=True)
class GaussianPower:
    """Tests of Gaussian releases, which compose to one of ratio mu, exactly.

    Attributes:
        mu: root of the summed squared ratios sensitivity / std, at least 0.

    Example:
        >>> power = GaussianPower(1.0)
        >>> power.at([0.01, 0.05]).round(3), round(power.guess, 3)
        (array([0.092, 0.26 ]), 0.691)
    """

    mu: float

    def at(self, false_alarms: ArrayLike) -> NDArray[np.float64]:
        """Phi(Phi^-1(alpha) + mu)."""
        return ndtr(ndtri(np.asarray(false_alarms, float)) + self.mu)

    @property
    def guess(self) -> float:
        """Phi(mu / 2)."""
        return float(ndtr(self.mu / 2))


@dataclass(frozen=True)
class ProfiledPower:
    """Tests of a mechanism that is (epsilon, delta)-private for each of some pairs.

    Attributes:
        epsilon: of the pairs, at least 0, shape (m,).
        delta: of the pairs, or more, shape (m,).

    Example:
        >>> stated = ProfiledPower(np.array([1.0]), np.array([0.0]))  # all that an epsilon of 1 says
        >>> stated.at([0.01, 0.5]).round(3), round(stated.guess, 3)
        (array([0.027, 0.816]), 0.731)
    """

    epsilon: NDArray[np.float64]
    delta: NDArray[np.float64]

    def at(self, false_alarms: ArrayLike) -> NDArray[np.float64]:
        """The least bound of all pairs."""
        alpha = np.asarray(false_alarms, float)[..., None]
        # beyond epsilon 709 e^epsilon is infinite, and infinity times an alpha of 0 is no number
        with np.errstate(over="ignore", invalid="ignore"):
            steep = self.delta + np.where(alpha > 0, np.exp(self.epsilon) * alpha, 0.0)
        flat = 1 - np.exp(-self.epsilon) * (1 - self.delta - alpha)
        return np.clip(np.minimum(steep, flat).min(axis=-1), alpha[..., 0], 1.0)

    @property
    def guess(self) -> float:
        """The least of (e^epsilon + delta) / (1 + e^epsilon)."""
        right = expit(self.epsilon)
        return float(np.min(right + self.delta * (1 - right)))


def laplace_power(shift: float, releases: int) -> ProfiledPower:
    """Power against Laplace noise released several times, by the exact law of its privacy loss.

    Args:
        shift: L1 sensitivity / Laplace scale of one release.
        releases: k, at least 1.

    Example:
        >>> round(laplace_power(1.0, 1).guess, 4)  # 1 - e^(-1/2) / 2
        0.6967
    """
    return ProfiledPower(*laplace_profile(shift, releases))


def pure_power(epsilon: float) -> ProfiledPower:
    """Power against releases of which a pure epsilon is all that is known.

    Example:
        >>> round(pure_power(1.0).guess, 3)
        0.731
    """
    return ProfiledPower(np.array([epsilon]), np.zeros(1))


def poisson_power(ratio: float, sampling_rate: float, releases: int) -> ProfiledPower:
    """Power against Gaussian releases over fresh Poisson batches, under add-or-remove, in either direction.

    Args:
        ratio: clip / std of the noise on the sum of clipped gradients, one release.
        sampling_rate: q.
        releases: k, at least 1.

    Example:
        >>> poisson_power(1.0, 0.1, 10).guess < GaussianPower(10**0.5).guess
        True
    """
    return ProfiledPower(*poisson_gaussian_profile(ratio, sampling_rate, releases))


def after_two_moves(power: Power, false_alarms: ArrayLike) -> NDArray[np.float64]:
    """Power between data sets that have a common neighbour: an exchange where a move adds or removes.

    Example:
        >>> after_two_moves(GaussianPower(0.5), [0.05]).round(6) == GaussianPower(1.0).at([0.05]).round(6)
        array([ True])
    """
    return power.at(power.at(false_alarms))
