"""DP-PASGD by real numbers: the relaxed problem, and the solution that Hu et al. print, which is not private.

Both are for comparison only: rounding either breaks the resource budget and leaves a tau that does not divide
K, and the noise of the second comes from the wrong root of a quadratic (theory 4.4; 4.6, items 1 to 4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from noiseworthy.planning.averaging_bound import AveragingBound
from noiseworthy.planning.averaging_search import (
    Given,
    Setting,
    StepNoise,
    binding,
    sensitivity,
    zcdp_budget,
)
from noiseworthy.planning.local_work import NoisySteps
from noiseworthy.planning.problem import Problem
from noiseworthy.planning.resources import Resources
from noiseworthy.privacy.gaussian import gaussian_epsilon

Real = NDArray[np.float64]
_POINTS = 4000
WHY = "the other root of rho + 2 sqrt(rho ln(1/delta)) = epsilon, which is far above epsilon"

# The relaxed problem ----------------------------------------------------------------------------------


def relaxed(bound: AveragingBound, noise: StepNoise, resources: Resources, most: int) -> dict[str, float]:
    """The least bound over real K with tau(K) = max(1, c1 K/(C - c2 K)), the largest of all clients.

    Returns:
        `total_iterations`, `local_steps` and `bound`; never above the bound of a whole plan but for the width
        of the grid, and no plan itself.

    Source: theory 4.4, "relaxation".
    """

    def value(k: Real) -> Real:
        tau = np.maximum(affordable_steps(resources, k), 1.0)
        return np.where(bound.allows(tau), bound.at(k, tau, noise.relaxed(k)), np.inf)

    k = least_real(value, longest(resources, most))
    tau = max(1.0, float(affordable_steps(resources, np.array([k]))[0]))
    return {"total_iterations": k, "local_steps": tau, "bound": float(value(np.array([k]))[0])}


def affordable_steps(resources: Resources, iterations: Real) -> Real:
    """tau(K) = c1 K/(C - c2 K) of the dearest client, of any size below C/c2: eq. (22), shape (m,)."""
    few, tau = binding(resources), np.zeros(len(iterations))
    for c1, c2, budget in zip(few.cost_per_round, few.cost_per_step, few.budget, strict=True):
        left = budget - c2 * iterations
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = np.where(left > 0, c1 * iterations / left, np.inf)
        tau = np.maximum(tau, needed if c1 > 0 else np.where(left >= 0, 0.0, np.inf))
    return tau


def longest(resources: Resources, most: int) -> float:
    """C/c2, where nothing is left for communication, at most `most`."""
    with np.errstate(divide="ignore"):
        return float(min(np.min(resources.budget / resources.cost_per_step), most))


def least_real(value: Callable[[Real], Real], most: float) -> float:
    """The K in (0, most) of least value: a dense grid, then Brent's method around its best point.

    The objectives have several minima, so that descent from one start may stop anywhere.
    """
    even = np.linspace(0, most, _POINTS + 1)[1:]
    grid = np.unique(np.append(even, np.geomspace(min(1e-3, most / 2), most, _POINTS)))
    values = value(grid)
    best = int(np.argmin(values))
    around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
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
        resources), `noise` per client, `private`, `why`, and for the client that is worst off
        `spent_epsilon`, exact, and `spent_epsilon_zcdp` by the paper's own conversion. Empty without noise.
    """
    if problem.family == "none":
        return {}
    k, tau = _rounded(problem, bound, work, given, most) if problem.resources else found[:2]
    noise = printed_noise(problem, work, k)
    mu = sensitivity(problem, work) * np.sqrt(work.uses(k, problem.sizes)) / noise
    delta = problem.budget.delta
    rho = np.square(mu) / 2
    return {
        "rounds": k / tau,
        "local_steps": tau,
        "total_iterations": k,
        "cost": None if problem.resources is None else float(problem.resources.cost(k / tau, k).max()),
        "noise": noise.tolist(),
        "private": False,
        "why": WHY,
        "spent_epsilon": float(gaussian_epsilon(mu, delta).max()),
        "spent_epsilon_zcdp": float(np.max(rho + 2 * np.sqrt(rho * -np.log(delta)))),
    }


def printed_noise(problem: Problem, work: NoisySteps, iterations: float) -> Real:
    """sigma_m of (23), S_m sqrt(K / (2 Z)) with Z the wrong root, every record in every step; shape (M,)."""
    return sensitivity(problem, work) * np.sqrt(iterations / (2 * zcdp_budget(problem, sign=1.0)))


def _rounded(
    problem: Problem, bound: AveragingBound, work: NoisySteps, given: Given, most: int
) -> tuple[int, int]:
    """K* and tau* of (24), rounded to the nearest integers of at least 1; what is given stays."""
    resources = problem.resources
    unit = float(np.mean(np.square(printed_noise(problem, work, 1))))

    def period(k: Real) -> Real:
        if given.local_steps is not None:
            return np.full(len(k), float(given.local_steps))
        return affordable_steps(resources, k)  # pyright: ignore[reportArgumentType]

    def value(k: Real) -> Real:
        tau = period(k)
        return np.where(np.isfinite(tau), bound.printed_at(k, np.minimum(tau, 1e300), unit * k), np.inf)

    k = given.total_iterations or least_real(value, longest(resources, most))  # pyright: ignore
    tau = float(period(np.array([float(k)]))[0])
    return max(round(k), 1), max(round(tau), 1) if np.isfinite(tau) else max(round(k), 1)
