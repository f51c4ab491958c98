"""One upload in trials: the ridge, the step of classes, the clip and the weights; nothing is counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from noiseworthy.methods.moments.scale import RecordScale, check_task, stated
from noiseworthy.methods.shape import Counts, Real, Rounds, Shape, noise_of_mean, uniform_noise
from noiseworthy.methods.space import Free, GradientScale, Grid, Keys, SearchSpace, Setting
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.tasks.base import Task


def plan(free: Free, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    """The plan of a setting: `work` is the shrinkage, `reach` the step of classes, 1 for a regression."""
    model = check_task(task)
    problem = problem.clipped_as("M")
    typical = scale.clip / (model.record_norm or 1.0)
    known = RecordScale.of(task, problem.norm, typical)
    weight = free.own.get("label_weight") or known.label_weight
    alike = problem.norm == "l2" and model.normalise and model.loss != "squared"  # a clip would scale all
    share = 1.0 if alike else setting.clip
    clip = share * known.clip(weight) if free.clip_norm is None else free.clip_norm
    length = free.step_size or (1.0 if model.loss == "squared" else setting.reach)
    shrinkage = setting.work if free.work is None else free.work
    problem = replace(problem, clip_norm=clip)
    made = stated(problem, task, known, StepSize(length, np.inf), shrinkage, weight)
    return made.weighed(free.weighting_of(setting, made))


def decided(made: Plan) -> dict[str, Any]:
    """What trials chose of a plan, by the keys of the table."""
    if made.moments is None:
        return {}
    return {"shrinkage": made.moments.shrinkage, "label_weight": made.moments.label_weight}


SPACE = SearchSpace(
    grid=Grid(passes=(1,), work=(0.3, 1.0, 3.0), clips=(1.0, 0.3), reaches=(0.5, 1.0, 2.0)),
    keys=Keys(rounds=None, work="shrinkage", most=None, own=("label_weight",)),
    levers=frozenset({"weighting", "centring"}),
    plan=plan,
    decided=decided,
    any_width=False,
)


def rows(counts: Counts, gamma: float) -> Real:
    """noise_weight n + rest: nothing is counted."""
    return np.column_stack([counts.noise, np.ones(len(counts))])


def noise_of(plan: Plan, problem: Problem, rounds: Rounds, steps: int, per_round: int) -> Real:
    """The noise of the one upload; no other number of rounds is allowed."""
    once = uniform_noise(problem, np.ones(1, np.int64), problem.n_clients)
    return np.where(np.asarray(rounds) == 1, once, np.inf)


SHAPE = Shape(
    terms=("noise_weight", "rest"), rows=rows, source="variance of a ridge solution, docs/theory/moments.md",
    work=lambda plan: 1.0, iterations=lambda plan: plan.rounds, steps=lambda work: 1, noise=noise_of_mean,
    noise_of=noise_of,
)  # fmt: skip
