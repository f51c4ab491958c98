"""DP-PASGD in trials: rounds of tau noised local steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from noiseworthy.methods.dp_pasgd import planner
from noiseworthy.methods.shape import Counts, Real, Rounds, Shape, noise_of_mean, uniform_noise
from noiseworthy.methods.space import (
    LOCAL_STEPS_GRID,
    Free,
    GradientScale,
    Keys,
    SearchSpace,
    Setting,
    local_work_of,
)
from noiseworthy.plans.local_work import NoisySteps
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Problem
from noiseworthy.tasks.base import Task


def plan(free: Free, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    """The plan of a setting, its step constant."""
    tau = free.local_steps(setting)
    wanted = min(max(1, free.most // tau), max(1, round(setting.passes)))
    rounds = free.rounds // tau if free.rounds else wanted
    problem, kept = free.clipped(problem, setting, scale.clip)
    step = free.constant_step(setting, rounds * tau, kept, scale)
    made = planner.stated(problem, rounds * tau, tau, step, free.batch_size)
    return replace(made, averaging=free.averaging_of(setting))


def work_of(plan: Plan) -> NoisySteps:
    """The noised steps of a plan."""
    return local_work_of(plan, NoisySteps, "noised steps")


def decided(plan: Plan) -> dict[str, Any]:
    """Counts of a plan by their keys in a study."""
    tau = work_of(plan).steps
    return {"total_iterations": plan.rounds * tau, "local_steps": tau}


SPACE = SearchSpace(
    grid=LOCAL_STEPS_GRID,
    keys=Keys(rounds="total_iterations", work="local_steps", most="max_iterations", own=()),
    levers=frozenset(),
    plan=plan,
    decided=decided,
    any_width=False,
)


def rows(counts: Counts, gamma: float) -> Real:
    """Start, eta noise, eta^2 drift without and with noise, eta lambda = 1/(K + gamma) (averaging_bound)."""
    step, drift = 1 / (counts.iterations + gamma), counts.work - 1
    apart = drift * np.square(step)
    return np.column_stack([step, counts.noise * step, apart, apart * counts.noise])


def noise_of(plan: Plan, problem: Problem, rounds: Rounds, steps: int, per_round: int) -> Real:
    """Noise per step pays for the steps that a record takes part in."""
    work = replace(work_of(plan), steps=steps)
    most = [work.uses(count * steps, problem.sizes).max() for count in rounds]
    return uniform_noise(problem, np.array(most), per_round)


SHAPE = Shape(
    terms=("start", "noise_weight", "drift", "drift_of_noise"),
    rows=rows,
    source="Hu et al., theorem 1",
    work=lambda plan: float(work_of(plan).steps),
    iterations=lambda plan: plan.rounds * work_of(plan).steps,
    steps=lambda work: max(1, round(work)),
    noise=noise_of_mean,
    noise_of=noise_of,
)
