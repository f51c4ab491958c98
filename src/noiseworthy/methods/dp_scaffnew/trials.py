"""DP-ScaffNew in trials: iterations and the probability of communication."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dp_scaffnew import planner
from noiseworthy.methods.shape import Counts, Real, Shape, noise_of_mean, noise_of_uploads
from noiseworthy.methods.space import (
    LOCAL_STEPS_GRID,
    Free,
    GradientScale,
    Keys,
    SearchSpace,
    Setting,
    local_work_of,
)
from noiseworthy.plans.local_work import Coins
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Problem
from noiseworthy.tasks.base import Task

_LEAST = 0.001
"""Probability of communication below which none is tried."""


def plan(free: Free, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    """The plan of a setting, its step constant, its clip in units of the way that a typical client goes."""
    p = float(np.clip(setting.work, _LEAST, 1.0))
    iterations = free.rounds or min(free.most, max(1, round(setting.passes / p)))
    step = free.constant_step(setting, iterations, min(1.0, setting.clip), scale)
    problem, _ = free.clipped(problem.clipped_as("D"), setting, step.initial / p * scale.mean)
    made = planner.stated(problem, iterations, p, step, free.own.get("coin_seed", 0), free.batch_size)
    if not made.train:
        raise InvalidInput(f"no coin falls in {iterations} iterations with p = {p:g}; take more of them")
    return replace(made, averaging=free.averaging_of(setting))


def coins_of(plan: Plan) -> Coins:
    """The coins of a plan."""
    return local_work_of(plan, Coins, "coins")


def decided(plan: Plan) -> dict[str, Any]:
    """Counts of a plan by their keys in a study."""
    coins = coins_of(plan)
    return {"iterations": coins.iterations, "communication_probability": coins.probability}


SPACE = SearchSpace(
    grid=replace(LOCAL_STEPS_GRID, work=(1.0, 0.3, 0.1)),
    keys=Keys(
        rounds="iterations", work="communication_probability", most="max_iterations", own=("coin_seed",)
    ),
    levers=frozenset(),
    plan=plan,
    decided=decided,
    any_width=False,
)


def rows(counts: Counts, gamma: float) -> Real:
    """rho^T (start + gradients (eta/p)^2) + noise (eta/p)^2 p/(1 - rho) (scaffnew_bound).

    The step is eta mu = 1/(T + gamma), and rho^T is taken as the larger of that and e^(-p^2 T). Clips go with
    eta/p, and so does the noise.
    """
    p, step = counts.work, 1 / (counts.iterations + gamma)
    left = np.maximum(step, np.exp(-counts.iterations * np.square(p)))
    moved = np.square(step / p)
    noise = counts.noise * moved * p / np.minimum(step, np.square(p))
    return np.column_stack([left, left * moved, noise])


SHAPE = Shape(
    terms=("start", "control_variates", "noise_weight"),
    rows=rows,
    source="Hou et al., theorem 1",
    work=lambda plan: coins_of(plan).probability,
    iterations=lambda plan: coins_of(plan).iterations,
    steps=lambda work: max(1, round(1 / work)),
    noise=noise_of_mean,
    noise_of=noise_of_uploads,
)
