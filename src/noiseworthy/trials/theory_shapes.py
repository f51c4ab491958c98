"""What each theory says the loss is made of, as terms whose weights trials can tell.

Every bound is a sum of known functions of counts and noise, times constants that are not negative, but for
one number that enters otherwise: a shift of the rounds, or a rate of contraction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlog1py

from noiseworthy.planning.local_bound import sampling_share
from noiseworthy.planning.local_work import Coins
from noiseworthy.planning.plan import Plan
from noiseworthy.planning.problem import Problem
from noiseworthy.planning.replies_bound import uploads

Real = NDArray[np.float64]


@dataclass(frozen=True)
class Counts:
    """Counts of plans with the noise that they need, arrays of one shape.

    Attributes:
        rounds: T where a reply is one gradient, else the number of averagings.
        iterations: local steps of the whole training; the rounds where a reply is one gradient.
        work: E or tau, or the probability p of communication; 1 where a reply is one gradient.
        asked: (N - b) / ((N - 1) b).
        noise: variance per coordinate of one aggregate, in units of the squared clip.
    """

    rounds: Real
    iterations: Real
    work: Real
    asked: Real
    noise: Real

    @classmethod
    def of(cls, plans: Sequence[Plan]) -> Counts:
        """Those of plans that train."""
        rows = [
            (plan.rounds, _iterations(plan), _work(plan), _asked(plan), aggregate_noise(plan))
            for plan in plans
        ]
        return cls(*np.array(rows, float).T)

    def __len__(self) -> int:
        return len(self.rounds)


def _iterations(plan: Plan) -> int:
    if isinstance(plan.local, Coins):
        return plan.local.iterations
    return plan.rounds if plan.local is None else plan.rounds * plan.local.steps


def _work(plan: Plan) -> float:
    if plan.local is None:
        return 1.0
    return plan.local.probability if isinstance(plan.local, Coins) else float(plan.local.steps)


def _asked(plan: Plan) -> float:
    return float(sampling_share(plan.clients_per_round, plan.problem.n_clients))


def aggregate_noise(plan: Plan) -> float:
    """Variance per coordinate of the noise in one aggregate, in units of the squared clip.

        (N/b) sum a_i^2 v_i,    or for clients chosen unequally    sum T_n v_n / (K^2 T)
    """
    if plan.release is None:
        return 0.0
    problem, b = plan.problem, plan.clients_per_round
    family = 2 if problem.family == "laplace" else 1
    variance = family * np.square(plan.release.mechanism.size / problem.clip_norm)
    if plan.algorithm == "dpfl-bcs":
        return float(np.sum(plan.releases * variance) / (b**2 * plan.rounds))
    return float(problem.n_clients / b * np.sum(np.square(problem.weights) * variance))


def uniform_noise(problem: Problem, rounds: NDArray[np.int64], clients_per_round: int) -> Real:
    """The same for clients who are asked alike in T rounds, shape (m,), without making the plans."""
    n = problem.n_clients
    one = problem.weighted_noise(uploads(rounds, clients_per_round, n))
    return n / clients_per_round * one / (problem.dimension * problem.clip_norm**2)


@dataclass(frozen=True)
class Shape:
    """The form of one theory's bound.

    Attributes:
        terms: names of the constants that enter linearly.
        rows: values of the terms, (m, terms), for counts and the number that enters otherwise.
        other: name of that number.
        others: values of it to try, given the iterations of the trials.
        source: the paper.
    """

    terms: tuple[str, ...]
    rows: Callable[[Counts, float], Real]
    other: str
    others: Callable[[Real], Real]
    source: str


def _shifts(iterations: Real) -> Real:
    return np.median(iterations) * np.geomspace(0.01, 30, 41)


def _rates(iterations: Real) -> Real:
    return np.unique(np.minimum(np.geomspace(0.1, 50, 41) / np.median(iterations), 0.999))


def _replies(counts: Counts, gamma: float) -> Real:
    """[offset, sampling asked, rest, noise_weight n] over T + gamma (replies_bound)."""
    shifted = counts.rounds + gamma
    ones = np.ones(len(counts))
    return np.column_stack([ones, counts.asked / shifted, ones / shifted, counts.noise / shifted])


def _local(counts: Counts, eight_condition: float) -> Real:
    """Heterogeneity, start, drift and noise over T + gamma, gamma = max(8 L/mu, E) (local_bound)."""
    t, e = counts.iterations, counts.work
    gamma = np.maximum(eight_condition, e)
    drift = 8 * np.square(e - 1) + 4 * np.square(e) * counts.asked
    noise = counts.rounds * np.square(e) * counts.noise / np.square(t + gamma - 1)
    first = 1 / (t + gamma)
    return np.column_stack([np.ones(len(counts)), first, gamma * first, drift * first, noise])


def _coins(counts: Counts, rate: float) -> Real:
    """rho^T (start + gradients / p^2) and noise, rho = max(1 - mu/L, 1 - p^2) (scaffnew_bound, exact)."""
    p = counts.work
    gap = np.minimum(rate, np.square(p))
    left = np.exp(xlog1py(counts.iterations, -np.minimum(gap, 1 - 1e-12)))
    noise = p * counts.noise * (1 - left) / gap
    return np.column_stack([np.ones(len(counts)), left, left / np.square(p), noise])


def _averaging(counts: Counts, rate: float) -> Real:
    """q^K alpha + (1 - q^K) B', q = 1 - eta lambda, B' linear in noise and in drift (averaging_bound)."""
    left = np.exp(xlog1py(counts.iterations, -rate))
    drift = counts.work - 1
    gone = (1 - left)[:, None] * np.column_stack([counts.noise, drift, drift * counts.noise])
    return np.column_stack([np.ones(len(counts)), left, gone])


_ONE_GRADIENT = Shape(
    ("offset", "sampling", "rest", "noise_weight"), _replies, "gamma", _shifts, "Zhou et al., theorems 1, 3"
)
_SHAPES = {
    "dp-fedavg": Shape(
        ("offset", "heterogeneity", "start", "drift", "noise_weight"), _local, "gamma", _shifts,
        "Fu et al., theorem 3",
    ),
    "dp-scaffnew": Shape(
        ("offset", "start", "control_variates", "noise_weight"), _coins, "rate", _rates, "Hou et al., theorem 1"
    ),
    "dp-pasgd": Shape(
        ("offset", "start", "noise_weight", "drift", "drift_of_noise"), _averaging, "rate", _rates,
        "Hu et al., theorem 1",
    ),
}  # fmt: skip


def shape_of(algorithm: str) -> Shape:
    """The form of an algorithm's theory; of one gradient per reply where it has none of its own."""
    return _SHAPES.get(algorithm, _ONE_GRADIENT)
