"""The least bound of DP-PASGD over whole rounds R and local steps tau, within what clients can pay for.

For a given K the bound rises with tau, so that only the least divisor of K that clients can pay for and the
step size allows need be looked at: one candidate for every K instead of one for every (R, tau).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy.methods.dp_pasgd.bound import AveragingBound
from noiseworthy.plans.local_work import NoisySteps, divisors
from noiseworthy.plans.problem import Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.calibration import unit_noise

Whole = NDArray[np.int64]
_TIE = 1e-12

# The noise of one local step --------------------------------------------------------------------------


@dataclass(frozen=True)
class StepNoise:
    """sigma-bar^2(K): the variance per coordinate that pays for K noised steps, mean over clients.

        sigma_m^2 = S_m^2 s_m^2 uses_m(K),   S_m the sensitivity of a mean over X_m records

    Attributes:
        work: how records are dealt into minibatches.
        sizes: records of one client for every distinct number of minibatches, shape (n,).
        unit: variance per use, summed over the clients that share it and divided by M, shape (n,).

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.array([100, 200]), 4, PrivacyBudget.of(1.0, 1e-5, 2), "gaussian", 1.0)
        >>> StepNoise.exact(problem, NoisySteps(1, 100))(np.array([1, 2, 3])).round(5)
        array([0.00557, 0.00835, 0.01392])

    Source: docs/theory/hu.md#algorithm.
    """

    work: NoisySteps
    sizes: Whole
    unit: NDArray[np.float64]

    @classmethod
    def exact(cls, problem: Problem, work: NoisySteps) -> StepNoise:
        """With the least noise of the exact Gaussian accountant; 0 for mechanism none."""
        return cls._of(problem, work, unit_noise(problem.family, problem.budget, 1))

    @classmethod
    def zcdp(cls, problem: Problem, work: NoisySteps) -> StepNoise:
        """With the least noise of zero-concentrated privacy, s^2 = 1/(2 rho*)."""
        return cls._of(problem, work, 1 / np.sqrt(2 * zcdp_budget(problem)))

    @classmethod
    def _of(cls, problem: Problem, work: NoisySteps, unit: NDArray[np.float64]) -> StepNoise:
        variance = np.square(sensitivity(problem, work) * unit) / problem.n_clients
        _, first, group = np.unique(work.batches(problem.sizes), return_index=True, return_inverse=True)
        unit = np.bincount(group, weights=variance).astype(float)
        return cls(work, problem.sizes[first], unit)

    def __call__(self, iterations: Whole) -> NDArray[np.float64]:
        """sigma-bar^2 for whole K, shape (m,) to (m,)."""
        total = np.zeros(len(iterations))
        for size, unit in zip(np.split(self.sizes, len(self.sizes)), self.unit, strict=True):
            total += unit * self.work.uses(iterations, size)
        return total

    def relaxed(self, iterations: ArrayLike) -> NDArray[np.float64]:
        """The same for real K, with K/batches uses of a record instead of whole ones."""
        return np.asarray(iterations, float) * float(np.sum(self.unit / self.work.batches(self.sizes)))


def sensitivity(problem: Problem, work: NoisySteps) -> NDArray[np.float64]:
    """What one record can change in the mean of one step over X_m records, 2G/X_m or G/X_m, shape (M,)."""
    return stepwise(problem, work).sensitivity.value


def stepwise(problem: Problem, work: NoisySteps) -> Problem:
    """The problem of a single step, whose clients hold the X_m records of a minibatch."""
    return replace(problem, sizes=work.records(problem.sizes))


def zcdp_budget(problem: Problem) -> NDArray[np.float64]:
    """rho* = (sqrt(epsilon + l) - sqrt(l))^2 with l = ln(1/delta), shape (M,).

    The root of rho + 2 sqrt(rho l) = epsilon, without the difference of two nearly equal square roots.
    """
    epsilon, log = problem.budget.epsilon, -np.log(problem.budget.delta)
    return np.square(epsilon / (np.sqrt(epsilon + log) + np.sqrt(log)))


def zcdp_noise(problem: Problem, work: NoisySteps, iterations: int) -> NDArray[np.float64]:
    """sigma_m of zero-concentrated privacy, S_m sqrt(uses / (2 rho*)), shape (M,)."""
    uses = work.uses(iterations, problem.sizes)
    return sensitivity(problem, work) * np.sqrt(uses / (2 * zcdp_budget(problem)))


# The search -------------------------------------------------------------------------------------------


class Given(NamedTuple):
    """What is fixed; None is planned."""

    total_iterations: int | None = None
    local_steps: int | None = None


class Setting(NamedTuple):
    """K and tau at a step size, with the bound there."""

    total_iterations: int
    local_steps: int
    step_size: float
    value: float

    @property
    def rounds(self) -> int:
        """R = K/tau."""
        return self.total_iterations // self.local_steps


NOTHING = Given()


@dataclass(frozen=True)
class Candidates:
    """Every K that may be chosen, with the rounds that all clients can pay for beside it.

    Attributes:
        given: what is fixed.
        iterations: K, ascending: 1..n, multiples of a fixed tau, or a fixed K; shape (m,).
        affordable: most rounds for each, at most K; 0 where not even one is paid for.
    """

    given: Given
    iterations: Whole
    affordable: Whole

    @classmethod
    def within(cls, resources: Resources | None, most: int, given: Given = NOTHING) -> Candidates:
        """All K up to `most`, or what is fixed, within the resources of the clients."""
        k = _lengths(resources, most, given)
        return cls(given, k, affordable_rounds(resources, k))

    @cached_property
    def least_steps(self) -> Whole:
        """The least affordable tau that divides K, 0 where none is; a fixed tau where it is affordable."""
        fixed = self.given.local_steps
        if fixed is not None:
            return np.where(self.iterations <= self.affordable * fixed, fixed, 0)
        rounds = largest_divisors(self.iterations, self.affordable)
        return np.where(rounds > 0, self.iterations // np.maximum(rounds, 1), 0)

    def most_steps(self, longest: int) -> Whole:
        """The largest tau up to `longest` instead: the fewest rounds where the bound does not count them."""
        if self.given.local_steps is not None:
            return self.least_steps
        steps = largest_divisors(self.iterations, np.full_like(self.iterations, longest))
        return np.where(self.iterations <= self.affordable * steps, steps, 0)


def optimum(bounds: Sequence[AveragingBound], noise: StepNoise, candidates: Candidates) -> Setting | None:
    """The (K, tau, eta) of least bound among the affordable; None where no step size allows any.

    One tau for every K: the least, because the bound rises with tau, or the largest where there is neither
    noise nor gradient variance and it does not. Ties go to the fewest rounds, then to the fewest iterations.

    Args:
        bounds: one for each step size that may be chosen.
        noise: sigma-bar^2(K).
        candidates: K and tau that are affordable.

    Source: docs/theory/hu.md#planner, "exact integer optimum".
    """
    variance = noise(candidates.iterations)
    found = [_best(bound, candidates, variance) for bound in bounds]
    return _first([setting for setting in found if setting is not None])


def _best(bound: AveragingBound, candidates: Candidates, variance: NDArray[np.float64]) -> Setting | None:
    longest, quiet = bound.most_local_steps, bound.gradient_variance == 0 and not np.any(variance)
    steps = candidates.most_steps(longest) if quiet else candidates.least_steps
    allowed = np.flatnonzero((steps > 0) & (steps <= longest))
    if allowed.size == 0:
        return None
    k, steps = candidates.iterations[allowed], steps[allowed]
    values = bound.at(k, steps, variance[allowed])
    near = np.flatnonzero(values <= values.min() * (1 + _TIE))
    chosen = near[np.lexsort((k[near], k[near] // steps[near]))[0]]
    return Setting(int(k[chosen]), int(steps[chosen]), bound.step_size, float(values[chosen]))


def _first(found: list[Setting]) -> Setting | None:
    """The least bound; of equals the fewest rounds, then iterations, then the earliest step size."""
    if not found:
        return None
    least = min(setting.value for setting in found) * (1 + _TIE)
    ties = [setting for setting in found if setting.value <= least]
    return min(ties, key=lambda setting: (setting.rounds, setting.total_iterations))


def _lengths(resources: Resources | None, most: int, given: Given) -> Whole:
    """Every K that a single round could pay for and that agrees with what is fixed."""
    k, tau = given
    if k is not None:
        return np.array([k])
    if resources is not None:
        most = int(min(most, resources.most_steps()))
    return np.arange(tau or 1, most + 1, tau or 1)


def largest_divisors(numbers: Whole, limits: Whole) -> Whole:
    """The largest divisor of each number that is at most its limit; 0 where the limit is below 1.

    Args:
        numbers: 1..n, or a single number, shape (n,).
        limits: shape (n,).

    Example:
        >>> largest_divisors(np.arange(1, 7), np.array([1, 1, 5, 3, 0, 4]))
        array([1, 1, 3, 2, 0, 3])
        >>> largest_divisors(np.array([12]), np.array([5]))
        array([4])
    """
    if len(numbers) == 1:
        every = divisors(int(numbers[0]))
        return np.array([np.max(every[every <= limits[0]], initial=0)])
    table, root = np.zeros_like(numbers), math.isqrt(len(numbers))
    for small in range(1, root + 1):
        multiples = slice(small - 1, None, small)
        np.copyto(table[multiples], small, where=limits[multiples] >= small)
    # each pass goes up, and the second meets again what the first kept of small cofactors: the last is the
    # largest
    for cofactor in range(root, 0, -1):
        multiples = slice(cofactor - 1, None, cofactor)
        large = numbers[multiples] // cofactor
        np.copyto(table[multiples], large, where=limits[multiples] >= large)
    return table


# What is affordable -----------------------------------------------------------------------------------


def affordable_rounds(resources: Resources | None, iterations: Whole) -> Whole:
    """Rounds that every client can pay for beside K local steps, at most K, shape (m,); 0 where none.

    Example:
        >>> affordable_rounds(Resources.of(100.0, 1.0, 1000.0, clients=2), np.array([1, 81, 200, 901]))
        array([1, 9, 8, 0])
    """
    if resources is None:
        return iterations
    few = binding(resources)
    rounds = iterations.astype(float)
    for c1, c2, budget in zip(few.cost_per_round, few.cost_per_step, few.budget, strict=True):
        # rather a round too many than one too few: `affords` has the last word and takes it back
        left = budget * (1 + 1e-11) - c2 * iterations
        with np.errstate(divide="ignore", over="ignore"):
            most = np.where(left > 0, left / c1, 0.0)
        rounds = np.minimum(rounds, most)
    whole = np.floor(np.maximum(rounds, 0)).astype(np.int64)
    return np.where((whole == 0) | few.affords(whole, iterations), whole, whole - 1)


def binding(resources: Resources) -> Resources:
    """The clients that limit training: none of the others can be short where these are not.

    Example:
        >>> binding(Resources.of([9.0, 9.0, 1.0], [1.0, 1.0, 2.0], [50.0, 40.0, 90.0], clients=3)).budget
        array([40., 90.])
    """
    rows = np.column_stack([resources.cost_per_round, resources.cost_per_step, -resources.budget])
    # in descending order a row that is nowhere larger than another stands behind it, so that `at` keeps its
    # place
    rows, at = np.unique(rows, axis=0)[::-1], 0
    while at < len(rows):
        beaten = np.all(rows <= rows[at], axis=1)
        beaten[at] = False
        rows = rows[~beaten]
        at += 1
    return Resources(rows[:, 0], rows[:, 1], -rows[:, 2], resources.unit)
