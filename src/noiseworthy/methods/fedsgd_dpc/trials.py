"""FedSGD-DPC in trials: rounds and clients per round, and the bound of one gradient per reply."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from noiseworthy.methods.fedsgd_dpc import planner
from noiseworthy.methods.shape import Counts, Real, Shape, noise_of_mean, noise_of_uploads
from noiseworthy.methods.space import (
    ONE_GRADIENT_GRID,
    Free,
    GradientScale,
    Keys,
    SearchSpace,
    Setting,
    rounds_and_clients,
)
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Problem
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel

MOST_TRAVEL = 12.0
"""Largest step times the curvature of the loss: from 2 on, steps along the steepest direction overshoot."""


def plan(free: Free, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    """The plan of a setting; `work` is the share of clients that a round asks."""
    problem, kept = free.clipped(problem, setting, scale.clip)
    n = problem.n_clients
    b = free.clients_per_round or max(1, round(setting.work * n))
    rounds = free.rounds_of(setting.passes, n, b)
    step = free.step(setting, rounds, kept, scale)
    if free.step_size is None:
        # with a momentum m steps overshoot from 2 (1 + m) over the curvature on
        most = _longest(task) * (1 + free.momentum_of(setting)) / kept
        step = replace(step, initial=min(step.initial, most))
    made = planner.stated(problem, rounds, b, step)
    return replace(
        made.weighed(free.weighting_of(setting, made)),
        momentum=free.momentum_of(setting),
        averaging=free.averaging_of(setting),
        steering=free.steering_of(setting, rounds),
    )


def _longest(task: Task) -> float:
    """The longest step on whole gradients that a public bound on the curvature of the loss allows."""
    smoothness = task.smoothness if isinstance(task, LinearModel) else None
    return np.inf if smoothness is None else MOST_TRAVEL / smoothness


SPACE = SearchSpace(
    grid=ONE_GRADIENT_GRID,
    keys=Keys(rounds="rounds", work=None, most="max_rounds", own=()),
    levers=frozenset({"momentum", "weighting", "cohorts", "decay", "steering", "centring"}),
    plan=plan,
    decided=rounds_and_clients,
    any_width=True,
)


def rows(counts: Counts, gamma: float) -> Real:
    """[sampling asked + rest + noise_weight n] / (T + gamma) (replies_bound)."""
    terms = np.column_stack([counts.asked, np.ones(len(counts)), counts.noise])
    return terms / (counts.rounds + gamma)[:, None]


SHAPE = Shape(
    terms=("sampling", "rest", "noise_weight"), rows=rows, source="Zhou et al., theorems 1, 3",
    work=lambda plan: 1.0, iterations=lambda plan: plan.rounds, steps=lambda work: 1, noise=noise_of_mean,
    noise_of=noise_of_uploads,
)  # fmt: skip
