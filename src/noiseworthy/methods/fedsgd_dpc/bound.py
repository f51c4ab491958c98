"""The convergence bound of FedSGD-DPC over rounds T and clients b, and its closed-form optima.

Zhou et al., "Optimizing the numbers of queries and replies in federated learning with differential
privacy" (2021); docs/theory/zhou.md#bound. Symbols: N clients, b per round, T rounds, k = ceil(bT/N) uploads
per client, p parameters, d_i records, L smoothness, mu strong convexity, gamma = 2L/mu, G gradient
bound, Gamma heterogeneity, Y_0 = ||theta_0 - theta*||^2.

    U(T, b) = [ sampling (N-b)/((N-1) b) + rest + noise_weight n(T, b) ] / (T + gamma)

bounds Y_T for T >= 1, with n(T, b) = (N/b) sum a_i^2 E||w_i||^2 the noise in one aggregate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy.plans.problem import Constant, Problem, stated_values

CONSTANT_NAMES = (
    "smoothness", "strong_convexity", "gradient_bound", "initial_distance_sq", "heterogeneity",
    "record_variance",
)  # fmt: skip


@dataclass(frozen=True)
class RepliesBound:
    """The bound's shape U(T, b), whether its numbers come from theory or from a fit to trials.

    Attributes:
        gamma: shift of the round count, at least 0.
        sampling: weight of the variance from asking b of N clients, 8 G^2 / mu^2 in theory.
        rest: (4/mu^2)(2 L Gamma + batch variance) + gamma Y_0 in theory.
        noise_weight: 4 / mu^2 in theory.
        no_training: value at T = 0, Y_0 in theory.
        offset: added to every value; 0 in theory, the reachable loss in a fit.
        unit: what is bounded.
        near_limit: share of the limit of a Gaussian bound, which only falls with T, at which to stop.
    """

    gamma: float
    sampling: float
    rest: float
    noise_weight: float
    no_training: float
    offset: float = 0.0
    unit: str = "squared distance to the optimum"
    near_limit: float = 0.1

    def at(self, problem: Problem, rounds: ArrayLike, clients_per_round: ArrayLike) -> NDArray[np.float64]:
        """U(T, b) with exact uploads k = ceil(bT/N), of the broadcast shape; T >= 1."""
        rounds, b = np.broadcast_arrays(np.asarray(rounds), np.asarray(clients_per_round))
        n = problem.n_clients
        asked = (n - b) / (max(n - 1, 1) * b)
        noise = n / b * problem.weighted_noise(uploads(rounds, b, n), b)
        total = self.sampling * asked + self.rest + self.noise_weight * noise
        return self.offset + total / (rounds + self.gamma)


def theory_bound(problem: Problem, constants: dict[str, Constant]) -> RepliesBound:
    """The bound from the constants of a strongly convex problem.

    Args:
        problem: sizes, budgets and mechanism.
        constants: `smoothness` L, `strong_convexity` mu <= L, `gradient_bound` G,
            `initial_distance_sq` Y_0, `heterogeneity` Gamma, and for Poisson batches
            `record_variance` (of a single record's gradient inside a client; default G^2).

    Raises:
        InvalidInput: a missing or negative constant, or mu above L.

    Source: docs/theory/zhou.md#bound; Zhou et al., Theorems 1 and 3, with the factor 2 of Lemma 2 as printed
        (docs/theory/zhou.md#factor-two).
    """
    value = stated_values(constants, CONSTANT_NAMES[:5])
    smoothness, mu = value["smoothness"], value["strong_convexity"]
    gradient_sq = check.non_negative("gradient_bound", value["gradient_bound"]).item() ** 2
    start = check.non_negative("initial_distance_sq", value["initial_distance_sq"]).item()
    heterogeneity = check.non_negative("heterogeneity", value["heterogeneity"]).item()
    gamma, weight = 2 * smoothness / mu, 4 / mu**2
    rest = weight * 2 * smoothness * heterogeneity + gamma * start
    if problem.sampling_rate < 1:
        variance = check.non_negative("record_variance", value.get("record_variance", gradient_sq)).item()
        rest += weight * variance / (problem.sampling_rate * problem.sizes.sum())
    sampling = 2 * weight * gradient_sq if problem.n_clients > 1 else 0.0
    return RepliesBound(gamma, sampling, rest, weight, start)


def uploads(rounds: ArrayLike, clients_per_round: ArrayLike, clients: int) -> NDArray[np.int64]:
    """Most uploads of one client in the reshuffled round robin, k = ceil(bT/N).

    Example:
        >>> uploads([22, 100], [1, 10], 10)
        array([  3, 100])
    """
    asked = np.asarray(rounds, dtype=np.int64) * np.asarray(clients_per_round, dtype=np.int64)
    return -(-asked // clients)


# Closed forms of the continuous relaxation k = bT/N --------------------------------------------------


@dataclass(frozen=True)
class LaplaceCurve:
    """U(T, b) = (C1/b + C2 b T^2 + C3) / (T + gamma) for pure-epsilon Laplace noise.

    Source: docs/theory/zhou.md#laplace-planner.
    """

    gamma: float
    c1: float
    c2: float
    c3: float

    def at(self, rounds: ArrayLike, clients_per_round: ArrayLike) -> NDArray[np.float64]:
        """U(T, b) at real T >= 0 and b >= 1."""
        t, b = np.asarray(rounds, float), np.asarray(clients_per_round, float)
        return (self.c1 / b + self.c2 * b * t**2 + self.c3) / (t + self.gamma)

    def best_rounds(self, clients_per_round: float) -> float:
        """T*(b) = sqrt(gamma^2 + (C1/b + C3)/(C2 b)) - gamma; infinite without noise."""
        if self.c2 == 0:
            return np.inf
        b = clients_per_round
        return float(np.sqrt(self.gamma**2 + max(self.c1 / b + self.c3, 0.0) / (self.c2 * b)) - self.gamma)

    def best_clients(self, rounds: float, clients: int) -> float:
        """b*(T) = sqrt(C1/(C2 T^2)), clipped to [1, N]."""
        if self.c2 == 0:
            return float(clients)
        return float(np.clip(np.sqrt(self.c1 / self.c2) / rounds, 1, clients))

    def best(self, clients: int) -> tuple[float, float]:
        """The joint optimum (T*, b*): b* = 1 if C3 > 2 gamma sqrt(C1 C2), else N (rule 1.4 c)."""
        if self.c2 == 0:
            return np.inf, float(clients)
        b = 1.0 if self.c3 > 2 * self.gamma * np.sqrt(self.c1 * self.c2) else float(clients)
        return self.best_rounds(b), b


def laplace_curve(problem: Problem, bound: RepliesBound) -> LaplaceCurve:
    """The constants C1, C2, C3 of a bound for pure-epsilon Laplace noise."""
    n = problem.n_clients
    shared = bound.sampling / max(n - 1, 1)
    c2 = bound.noise_weight * float(problem.weighted_noise(np.array([1]))[0]) / n
    return LaplaceCurve(bound.gamma, n * shared, c2, bound.rest - shared)


def vacuous_until(bound: RepliesBound) -> float:
    """Rounds below which the bound cannot recommend training, whatever the budget.

    The noise-free bound with all clients is rest/(T + gamma), above the untrained value until then.
    """
    start = bound.no_training - bound.offset
    return np.inf if start <= 0 else bound.rest / start - bound.gamma
