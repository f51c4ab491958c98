"""DPFL-BCS in trials: rounds of clients chosen by budget and size, and the noise of unequal counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from noiseworthy.methods.dpfl_bcs import planner
from noiseworthy.methods.dpfl_bcs.bound import exponent, participation_costs
from noiseworthy.methods.dpfl_bcs.search import greedy
from noiseworthy.methods.fedsgd_dpc import trials as one_gradient
from noiseworthy.methods.shape import Real, Rounds, variances
from noiseworthy.methods.space import Free, GradientScale, Keys, Setting
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Problem
from noiseworthy.tasks.base import Task


def plan(free: Free, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    """The plan of a setting, as if the clients' data were alike."""
    problem, kept = free.clipped(problem, setting, scale.clip)
    n = problem.n_clients
    b = free.clients_per_round or n
    rounds = free.rounds_of(setting.passes, n, b)
    step = free.step(setting, rounds, kept, scale)
    made = planner.plan(problem, {}, rounds=rounds, clients_per_round=b, step=step)
    return replace(made, momentum=free.momentum_of(setting), averaging=free.averaging_of(setting))


SPACE = replace(
    one_gradient.SPACE,
    keys=Keys(rounds="rounds", work=None, most=None, own=()),
    levers=frozenset({"momentum", "decay"}),
    plan=plan,
)


def noise(plan: Plan) -> float:
    """sum T_n v_n / (K^2 T), of clients asked unequally often."""
    if plan.release is None:
        return 0.0
    return float(np.sum(plan.releases * variances(plan)) / (plan.clients_per_round**2 * plan.rounds))


def noise_of(plan: Plan, problem: Problem, rounds: Rounds, steps: int, per_round: int) -> Real:
    """The same for the clients who would be chosen."""
    return np.array([_chosen(problem, int(t), per_round) for t in rounds])


def _chosen(problem: Problem, rounds: int, clients_per_round: int) -> float:
    alike = np.zeros(problem.n_clients)
    costs = participation_costs(problem, {}, alike, rounds, clients_per_round)
    if costs.most.sum() < clients_per_round * rounds:
        return np.inf
    asked = greedy(costs, clients_per_round * rounds).astype(float)
    total = np.sum(asked ** (1 + exponent(problem)) * problem.upload_variance)
    return float(total / (clients_per_round**2 * rounds * problem.dimension * problem.clip_norm**2))


SHAPE = replace(one_gradient.SHAPE, noise=noise, noise_of=noise_of)
