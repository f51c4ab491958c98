"""DP-PASGD by real numbers: the relaxed problem, and the solution that Hu et al. print, which is not private.

Both are for comparison only: rounding either breaks the resource budget and leaves a tau that does not divide
K, and the noise of the second comes from the wrong root of a quadratic (docs/theory/hu.md#planner,
docs/theory/hu.md#errata).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from noiseworthy._validate import Real
from noiseworthy.methods.dp_pasgd.bound import AveragingBound
from noiseworthy.methods.dp_pasgd.search import Given, Setting, StepNoise, binding, sensitivity
from noiseworthy.plans.local_work import NoisySteps
from noiseworthy.plans.problem import Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon

_POINTS = 2000
WHY = "the other root of rho + 2 sqrt(rho ln(1/delta)) = epsilon, which is far above epsilon"

# The relaxed problem ----------------------------------------------------------------------------------


def relaxed(
    bound: AveragingBound, noise: StepNoise, resources: Resources, found: Setting, most: int
) -> dict[str, float]:
    """The least bound over real K with tau(K) = max(1, c1 K/(C - c2 K)), the largest of all clients.

    Returns:
        `total_iterations`, 0 for no training, `local_steps` and `bound`, at most that of `found`; no plan.

    Source: docs/theory/hu.md#planner, "relaxation".
    """

    few = binding(resources)

    def value(k: Real) -> Real:
        tau = np.maximum(affordable_steps(few, k), 1.0)
        possible = np.isfinite(tau) & bound.allows(tau)
        return np.where(possible, bound.at(k, np.where(possible, tau, 1.0), noise.relaxed(k)), np.inf)

    k = least_real(value, longest(resources, most), 0.0, found.total_iterations)
    tau = max(1.0, float(affordable_steps(few, np.array([k]))[0]))
    return {"total_iterations": k, "local_steps": tau, "bound": float(value(np.array([k]))[0])}


def affordable_steps(resources: Resources, iterations: Real) -> Real:
    """tau(K) = c1 K/(C - c2 K) of the dearest client, for K <= C/c2, below 1 too: eq. (22), shape (m,)."""
    rows = resources.cost_per_round, resources.cost_per_step, resources.budget
    c1, c2, budget = (row[:, None] for row in rows)
    left = budget - c2 * iterations
    with np.errstate(divide="ignore", invalid="ignore"):
        tau = np.where(left > 0, c1 * iterations / left, np.where(c1 > 0, np.inf, 0.0))
    return tau.max(axis=0)


def longest(resources: Resources, most: int) -> float:
    """C/c2, where nothing is left for communication, at most `most`."""
    with np.errstate(divide="ignore"):
        return float(min(np.min(resources.budget / resources.cost_per_step), most))


def least_real(value: Callable[[Real], Real], most: float, *known: float) -> float:
    """The K in (0, most) of least value: a dense grid and known K, then Brent's method around the best.

    The objectives have several minima, so that descent from one start may stop anywhere.
    """
    even, small = np.linspace(0, most, _POINTS + 1)[1:], np.geomspace(min(1e-3, most / 2), most, _POINTS)
    grid = np.unique([*even, *small, *np.minimum(known, most)])
    values = value(grid)
    best = int(np.argmin(values))
    near = [one for one in (best - 1, best, best + 1) if 0 <= one < len(grid) and np.isfinite(values[one])]
    around = grid[near[0]], grid[near[-1]]
    from scipy.optimize import minimize_scalar  # here, because it is slow to load

    found = minimize_scalar(lambda k: float(value(np.array([k]))[0]), bounds=around, method="bounded")
    return float(found.x) if found.fun < values[best] else float(grid[best])


# As printed -------------------------------------------------------------------------------------------


def as_printed(
    problem: Problem, bound: AveragingBound, work: NoisySteps, given: Given, found: Setting, most: int
) -> dict[str, Any]:
    """What (22) to (25) choose, what that costs, and the epsilon it would really spend; not private.

    The least of (24) over real K with tau = c1 K/(C - c2 K), below 1 too, both rounded. Without resources
    the noise alone, for the K of the plan.

    Returns:
        `rounds` K/tau, `local_steps`, `total_iterations`, `cost` of the dearest client (None without
        resources), `noise` per client, `private`, `why`, `worst_client`, the number of the client that is
        worst off, and for it `spent_epsilon`, exact, and `spent_epsilon_zcdp` by the paper's own conversion.
        Empty without noise.
    """
    if not problem.law.noisy:
        return {}
    k, tau = found[:2]
    if problem.resources is not None:
        k, tau = _rounded(problem, bound, work, given, binding(problem.resources), most)
    noise = printed_noise(problem, work, k)
    mu = sensitivity(problem, work) * np.sqrt(work.uses(k, problem.sizes)) / noise
    delta = problem.budget.delta
    rho, spent = np.square(mu) / 2, gaussian_epsilon(mu, delta)
    return {
        "rounds": k / tau,
        "local_steps": tau,
        "total_iterations": k,
        "cost": None if problem.resources is None else float(problem.resources.cost(k / tau, k).max()),
        "noise": noise.tolist(),
        "private": False,
        "why": WHY,
        "worst_client": int(spent.argmax()),
        "spent_epsilon": float(spent.max()),
        "spent_epsilon_zcdp": float(np.max(rho + 2 * np.sqrt(rho * -np.log(delta)))),
    }


def printed_noise(problem: Problem, work: NoisySteps, iterations: float) -> Real:
    """sigma_m of (23), S_m sqrt(K / (2 Z)), Z = (sqrt(epsilon + l) + sqrt(l))^2, l = ln(1/delta); shape (M,).

    S_m is 2G/X_m or G/X_m, every record is in every step, and the minus of rho* has become a plus.
    """
    epsilon, log = problem.budget.epsilon, -np.log(problem.budget.delta)
    z = np.square(np.sqrt(epsilon + log) + np.sqrt(log))
    return sensitivity(problem, work) * np.sqrt(iterations / (2 * z))


def _rounded(
    problem: Problem, bound: AveragingBound, work: NoisySteps, given: Given, resources: Resources, most: int
) -> tuple[int, int]:
    """K* and tau* of (24), rounded to the nearest integers of at least 1; what is given stays."""
    unit = float(np.mean(np.square(printed_noise(problem, work, 1))))
    paper = replace(bound, noise_dimension=None)

    def period(k: Real) -> Real:
        if given.local_steps is not None:
            return np.full(len(k), float(given.local_steps))
        return affordable_steps(resources, k)

    def value(k: Real) -> Real:
        tau = period(k)
        possible = np.isfinite(tau)
        return np.where(possible, paper.printed_at(k, np.where(possible, tau, 1.0), unit * k), np.inf)

    k = given.total_iterations or least_real(value, longest(resources, most))
    tau = float(period(np.array([float(k)]))[0])
    return max(round(k), 1), max(round(tau), 1)
