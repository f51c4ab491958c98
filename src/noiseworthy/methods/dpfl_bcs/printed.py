"""DPFL-BCS as Ma et al. print it: real numbers of participations, which nobody can make; not private.

For comparison only. A client with a budget for 0.13 replies that is asked once spends 7.8 times its epsilon,
and no client is kept from being planned for more replies than there are rounds (docs/theory/ma.md#errata).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from noiseworthy.methods.dpfl_bcs.bound import Curvature, Real, exponent, noise_constant
from noiseworthy.methods.dpfl_bcs.search import ParticipationCosts, continuous
from noiseworthy.plans.problem import Problem

_WHOLE = 1e-9
"""Relative distance from a whole number that is put down to rounding."""


def as_printed(
    problem: Problem, rounds: int, clients_per_round: int, heterogeneity: Real, curvature: Curvature | None
) -> dict[str, Any]:
    """What the printed P1 chooses and the noise that Algorithm 2 then adds; not private.

    Returns:
        `rounds`, `clients_per_round`, `releases` (real T_n), `noise` per client (0 where T_n is 0),
        `private`, `why`, `overspending_share` (of clients that spend more than epsilon_n if they reply as
        long as anything is left), `worst_overspending` (the largest ceil(T_n)/T_n) and `worst_client`. Empty
        without noise, and where all T_n are whole.
    """
    if not problem.law.noisy:
        return {}
    t = printed_participations(problem, rounds, clients_per_round, heterogeneity, curvature)
    factor = overspending(t)
    worst, share = int(factor.argmax()), float(np.mean(factor > 1))
    if share == 0:
        return {}
    return {
        "rounds": rounds,
        "clients_per_round": clients_per_round,
        "releases": t.tolist(),
        "noise": printed_noise(problem, t).tolist(),
        "private": False,
        "why": (
            f"numbers of replies that are not whole: {share:.0%} of the clients may spend more than their "
            f"budget, client {worst} {factor[worst]:.3g} times it"
        ),
        "overspending_share": share,
        "worst_overspending": float(factor[worst]),
        "worst_client": worst,
    }


def printed_participations(
    problem: Problem, rounds: int, clients_per_round: int, heterogeneity: Real, curvature: Curvature | None
) -> Real:
    """T_n of the printed P1, shape (N,): c2 = 1, another kappa, and T_n above T not ruled out.

    Phi_n = ln(1/delta_n) / (D_n epsilon_n)^2, Laplace 1 / (D_n epsilon_n)^2
    kappa = K (4 L + 3 mu T / 8) / Lambda
    """
    log = -np.log(problem.budget.delta) if problem.law.needs_delta else 1.0
    with np.errstate(divide="ignore"):
        phi = log / np.square(problem.sizes * problem.budget.epsilon)
    slope = 4 * curvature.smoothness + 3 * curvature.strong_convexity * rounds / 8 if curvature else 0.0
    bias = clients_per_round * slope / noise_constant(problem) * (heterogeneity - heterogeneity.min())
    total = clients_per_round * rounds
    every = np.full(problem.n_clients, total)
    return continuous(ParticipationCosts.of(phi, bias, exponent(problem), every), total)


def printed_noise(problem: Problem, participations: Real) -> Real:
    """Noise of one reply among T_n by a linear split of the budget, (epsilon_n, delta_n)/T_n; shape (N,).

    Gaussian: Delta_n sqrt(2 ln(1.25 T_n / delta_n)) T_n / epsilon_n. Laplace: Delta_n T_n / epsilon_n.
    """
    scale = problem.sensitivity.value * participations / problem.budget.epsilon
    if problem.law.pure:
        return scale
    asked = np.where(participations > 0, participations, 1.0)
    return scale * np.sqrt(np.maximum(2 * np.log(1.25 * asked / problem.budget.delta), 0.0))


def overspending(participations: Real) -> Real:
    """Budgets that a client spends if it replies as long as anything is left: ceil(T_n)/T_n; shape (N,).

    1 where T_n is whole or 0.

    Example:
        >>> overspending(np.array([0.125, 1.5, 7.0, 0.0])).round(2)
        array([8.  , 1.33, 1.  , 1.  ])
    """
    asked = np.where(participations > 0, participations, 1.0)
    replies = np.maximum(np.ceil(asked * (1 - _WHOLE)), 1.0)
    return np.maximum(replies / asked, 1.0)
