"""DP-FedAvg in trials: rounds of E local steps under the mode with the tightest proof."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from noiseworthy.methods.conditions import largest_step, tightest_mode
from noiseworthy.methods.dp_fedavg import planner
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
from noiseworthy.plans.local_work import LocalSteps
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.clipping import ClippingMode
from noiseworthy.tasks.base import Task


def plan(free: Free, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    """The plan of a setting; a clip of whole updates is in units of the way that a typical client goes."""
    e, n = free.local_steps(setting), problem.n_clients
    mode = free.own.get("clipping_mode") or _mode(task, problem, e, free.batch_size)
    b = free.clients_per_round or n
    rounds = free.rounds_of(setting.passes, n, b, steps=e)
    problem = problem.clipped_as(mode)
    if mode == "D":
        step = free.step(setting, rounds * e, min(1.0, setting.clip), scale)
        unit = float(step.at(np.arange(rounds * e)).sum()) / rounds * scale.mean
        problem, _ = free.clipped(problem, setting, unit)
    else:
        problem, kept = free.clipped(problem, setting, scale.mean if mode == "C" else scale.clip)
        step = free.step(setting, rounds * e, kept, scale)
    if mode in ("B", "E") and free.step_size is None:
        step = replace(step, initial=min(step.initial, largest_step(task)))
    made = planner.stated(problem, rounds * e, e, b, step, free.batch_size)
    return replace(made, averaging=free.averaging_of(setting))


def _mode(task: Task, problem: Problem, local_steps: int, batch_size: int | None) -> ClippingMode:
    if local_steps == 1 and batch_size is None:
        return "A"
    return tightest_mode(task, problem.family, batch_size, problem.row)[0]


def steps_of(plan: Plan) -> int:
    """E of a plan."""
    return local_work_of(plan, LocalSteps, "local steps").steps


def decided(plan: Plan) -> dict[str, Any]:
    """Counts of a plan, and what it clips, by their keys in a study."""
    return {
        "total_iterations": plan.rounds * steps_of(plan),
        "local_steps": steps_of(plan),
        "clients_per_round": plan.clients_per_round,
        "clipping_mode": plan.problem.clipping,
    }


SPACE = SearchSpace(
    grid=LOCAL_STEPS_GRID,
    keys=Keys(rounds="total_iterations", work="local_steps", most="max_iterations", own=("clipping_mode",)),
    levers=frozenset({"decay"}),
    plan=plan,
    decided=decided,
    any_width=False,
)


def rows(counts: Counts, eight_condition: float) -> Real:
    """Heterogeneity, start, drift and noise over T + gamma, gamma = max(8 L/mu, E) (local_bound)."""
    t, e = counts.iterations, counts.work
    gamma = np.maximum(eight_condition, e)
    drift = 8 * np.square(e - 1) + 4 * np.square(e) * counts.asked
    noise = counts.rounds * np.square(e) * counts.noise / np.square(t + gamma - 1)
    first = 1 / (t + gamma)
    return np.column_stack([first, gamma * first, drift * first, noise])


SHAPE = Shape(
    terms=("heterogeneity", "start", "drift", "noise_weight"),
    rows=rows,
    source="Fu et al., theorem 3",
    work=lambda plan: float(steps_of(plan)),
    iterations=lambda plan: plan.rounds * steps_of(plan),
    steps=lambda work: max(1, round(work)),
    noise=noise_of_mean,
    noise_of=noise_of_uploads,
)
