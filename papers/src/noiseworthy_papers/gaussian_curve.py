"""The closed form of Zhou et al.'s bound for Gaussian noise, beside which the planner's search is held."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.methods.fedsgd_dpc.bound import RepliesBound
from noiseworthy.plans.problem import Problem


@dataclass(frozen=True)
class GaussianCurve:
    """U(T, b) = E1/(b(T+gamma)) + E2/(T+gamma) + E3 for Gaussian noise; b* = N always.

    Source: docs/theory/zhou.md#gaussian-planner.
    """

    gamma: float
    e1: float
    e2: float
    e3: float

    def at(self, rounds: ArrayLike, clients_per_round: ArrayLike) -> NDArray[np.float64]:
        """U(T, b) at real T >= 0 and b >= 1."""
        t, b = np.asarray(rounds, float), np.asarray(clients_per_round, float)
        return (self.e1 / b + self.e2) / (t + self.gamma) + self.e3

    def rounds_near_limit(self, clients_per_round: float, share: float = 0.1) -> float:
        """Least T with U <= (1 + share) E3: ceil((E1/b + E2)/(share E3) - gamma), at least 0."""
        numerator = self.e1 / clients_per_round + self.e2
        if numerator <= 0:
            return 0.0
        if self.e3 == 0:
            return np.inf
        return float(max(np.ceil(numerator / (share * self.e3) - self.gamma), 0.0))


def gaussian_curve(problem: Problem, bound: RepliesBound) -> GaussianCurve:
    """The constants E1, E2, E3 of a bound for full-batch Gaussian noise."""
    n = problem.n_clients
    shared = bound.sampling / max(n - 1, 1)
    e3 = bound.noise_weight * float(problem.weighted_noise(np.array([1]))[0])
    return GaussianCurve(bound.gamma, n * shared, bound.rest - shared - bound.gamma * e3, e3)
