"""What a theory says the loss is made of, as terms whose weights trials can tell.

Every bound is a sum of known functions of counts and noise, times constants that are not negative, but for
one number that enters otherwise: gamma, by which the count of steps is shifted. Where the theory states its
bound at a step size of one's choice, it is taken at eta mu = 1/(T + gamma), which is planned for T steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from noiseworthy._validate import Real
from noiseworthy.methods.dp_fedavg.bound import sampling_share
from noiseworthy.methods.fedsgd_dpc.bound import uploads
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Problem

Rounds: TypeAlias = NDArray[np.int64]


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

    def columns(self) -> tuple[Real, ...]:
        """All arrays, in their order."""
        return self.rounds, self.iterations, self.work, self.asked, self.noise

    def __len__(self) -> int:
        return len(self.rounds)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The form of one theory's bound, and where a plan of its method lies in it.

    Attributes:
        terms: names of the constants that enter linearly.
        rows: values of the terms, (m, terms), for counts and gamma.
        source: the paper.
        work: E, tau or p of a plan; 1 where a reply is one gradient.
        iterations: local steps of a whole plan; its rounds where a reply is one gradient.
        steps: local steps before an upload for some work, on average where coins decide.
        noise: variance per coordinate of the noise in one aggregate of a plan, over the squared clip.
        noise_of: the same without making plans, shape (m,), for a problem, m numbers of rounds, steps before
            an upload and clients per round, where all else is as in a plan; infinite where nothing allows it.
    """

    terms: tuple[str, ...]
    rows: Callable[[Counts, float], Real]
    source: str
    work: Callable[[Plan], float]
    iterations: Callable[[Plan], int]
    steps: Callable[[float], int]
    noise: Callable[[Plan], float]
    noise_of: Callable[[Plan, Problem, Rounds, int, int], Real]

    def counts(self, plans: Sequence[Plan]) -> Counts:
        """Those of plans that train."""
        rows = [
            (plan.rounds, self.iterations(plan), self.work(plan), _asked(plan), self.noise(plan))
            for plan in plans
        ]
        return Counts(*np.array(rows, float).T)


def _asked(plan: Plan) -> float:
    return float(sampling_share(plan.clients_per_round, plan.problem.n_clients))


def shifts(iterations: Real) -> Real:
    """Values of gamma to try."""
    return np.median(iterations) * np.geomspace(0.01, 30, 15)


def noise_of_mean(plan: Plan) -> float:
    """Variance per coordinate of the noise in a weighted mean, (N/b) sum a_i^2 v_i, over the squared clip."""
    if plan.release is None:
        return 0.0
    problem = plan.problem
    weighted = np.sum(np.square(problem.weights) * variances(plan))
    return float(problem.n_clients / plan.clients_per_round * weighted)


def variances(plan: Plan) -> Real:
    """Variance per coordinate of each client's released noise over the squared clip, shape (N,)."""
    if plan.release is None:
        return np.zeros(plan.problem.n_clients)
    return plan.variance_factor * np.square(plan.release.mechanism.size / plan.problem.clip_norm)


def uniform_noise(problem: Problem, releases: Rounds, clients_per_round: int) -> Real:
    """The noise of a mean where everybody's pays for k releases, shape (m,), without making the plans."""
    unit = problem.dimension * problem.clip_norm**2
    return problem.n_clients / clients_per_round * problem.weighted_noise(releases, clients_per_round) / unit


def noise_of_uploads(plan: Plan, problem: Problem, rounds: Rounds, steps: int, per_round: int) -> Real:
    """The same where everybody is asked alike and noise is paid for by uploads."""
    return uniform_noise(problem, uploads(rounds, per_round, problem.n_clients), per_round)
