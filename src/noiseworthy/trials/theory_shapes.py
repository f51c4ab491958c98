"""What each theory says the loss is made of, as terms whose weights trials can tell.

Every bound is a sum of known functions of counts and noise, times constants that are not negative, but for
one number that enters otherwise: gamma, by which the count of steps is shifted. Where the theory states its
bound at a step size of one's choice, it is taken at eta mu = 1/(T + gamma), which is planned for T steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noiseworthy.methods.dp_fedavg.bound import sampling_share
from noiseworthy.methods.dpfl_bcs.bound import exponent, participation_costs
from noiseworthy.methods.dpfl_bcs.search import greedy
from noiseworthy.plans.local_work import Coins
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Problem

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
            (plan.rounds, _iterations(plan), work_of(plan), _asked(plan), aggregate_noise(plan))
            for plan in plans
        ]
        return cls(*np.array(rows, float).T)

    def columns(self) -> tuple[Real, ...]:
        """All arrays, in their order."""
        return self.rounds, self.iterations, self.work, self.asked, self.noise

    def __len__(self) -> int:
        return len(self.rounds)


def _iterations(plan: Plan) -> int:
    if isinstance(plan.local, Coins):
        return plan.local.iterations
    return plan.rounds if plan.local is None else plan.rounds * plan.local.steps


def work_of(plan: Plan) -> float:
    """E, tau or p of a plan; 1 where a reply is one gradient."""
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
    variance = problem.law.variance_factor * np.square(plan.release.mechanism.size / problem.clip_norm)
    if plan.algorithm == "dpfl-bcs":
        return float(np.sum(plan.releases * variance) / (b**2 * plan.rounds))
    return float(problem.n_clients / b * np.sum(np.square(problem.weights) * variance))


def uniform_noise(problem: Problem, releases: NDArray[np.int64], clients_per_round: int) -> Real:
    """The same where everybody's noise pays for k releases, shape (m,), without making the plans."""
    unit = problem.dimension * problem.clip_norm**2
    return problem.n_clients / clients_per_round * problem.weighted_noise(releases) / unit


def chosen_noise(problem: Problem, rounds: NDArray[np.int64], clients_per_round: int) -> Real:
    """The same for clients whom DPFL-BCS chooses in T rounds, shape (m,)."""
    return np.array([_chosen(problem, int(t), clients_per_round) for t in rounds])


def _chosen(problem: Problem, rounds: int, clients_per_round: int) -> float:
    alike = np.zeros(problem.n_clients)
    costs = participation_costs(problem, {}, alike, rounds, clients_per_round)
    if costs.most.sum() < clients_per_round * rounds:
        return np.inf
    asked = greedy(costs, clients_per_round * rounds).astype(float)
    total = np.sum(asked ** (1 + exponent(problem)) * problem.upload_variance)
    return float(total / (clients_per_round**2 * rounds * problem.dimension * problem.clip_norm**2))


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
    return np.median(iterations) * np.geomspace(0.01, 30, 15)


def _replies(counts: Counts, gamma: float) -> Real:
    """[sampling asked + rest + noise_weight n] / (T + gamma) (replies_bound)."""
    terms = np.column_stack([counts.asked, np.ones(len(counts)), counts.noise])
    return terms / (counts.rounds + gamma)[:, None]


def _local(counts: Counts, eight_condition: float) -> Real:
    """Heterogeneity, start, drift and noise over T + gamma, gamma = max(8 L/mu, E) (local_bound)."""
    t, e = counts.iterations, counts.work
    gamma = np.maximum(eight_condition, e)
    drift = 8 * np.square(e - 1) + 4 * np.square(e) * counts.asked
    noise = counts.rounds * np.square(e) * counts.noise / np.square(t + gamma - 1)
    first = 1 / (t + gamma)
    return np.column_stack([first, gamma * first, drift * first, noise])


def _coins(counts: Counts, gamma: float) -> Real:
    """rho^T (start + gradients (eta/p)^2) + noise (eta/p)^2 p/(1 - rho) (scaffnew_bound).

    The step is eta mu = 1/(T + gamma). Clips go with eta/p, and so does the noise.
    """
    p, step = counts.work, 1 / (counts.iterations + gamma)
    left = np.maximum(step, np.exp(-counts.iterations * np.square(p)))
    moved = np.square(step / p)
    noise = counts.noise * moved * p / np.minimum(step, np.square(p))
    return np.column_stack([left, left * moved, noise])


def _averaging(counts: Counts, gamma: float) -> Real:
    """Start, eta noise, eta^2 drift without and with noise, eta lambda = 1/(K + gamma) (averaging_bound)."""
    step, drift = 1 / (counts.iterations + gamma), counts.work - 1
    apart = drift * np.square(step)
    return np.column_stack([step, counts.noise * step, apart, apart * counts.noise])


_ONE_GRADIENT = Shape(
    ("sampling", "rest", "noise_weight"), _replies, "gamma", _shifts, "Zhou et al., theorems 1, 3"
)
_SHAPES = {
    "dp-fedavg": Shape(
        ("heterogeneity", "start", "drift", "noise_weight"), _local, "gamma", _shifts,
        "Fu et al., theorem 3",
    ),
    "dp-scaffnew": Shape(
        ("start", "control_variates", "noise_weight"), _coins, "gamma", _shifts, "Hou et al., theorem 1"
    ),
    "dp-pasgd": Shape(
        ("start", "noise_weight", "drift", "drift_of_noise"), _averaging, "gamma", _shifts,
        "Hu et al., theorem 1",
    ),
}  # fmt: skip


def shape_of(algorithm: str) -> Shape:
    """The form of an algorithm's theory; of one gradient per reply where it has none of its own."""
    return _SHAPES.get(algorithm, _ONE_GRADIENT)
