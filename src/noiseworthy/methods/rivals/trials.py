"""The methods that DPFL-BCS is held against in trials: all clients are asked alike."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from noiseworthy.methods.fedsgd_dpc import trials as one_gradient
from noiseworthy.methods.rivals import planner
from noiseworthy.methods.rivals.planner import RivalName
from noiseworthy.methods.space import Free, GradientScale, Keys, Setting
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Problem
from noiseworthy.tasks.base import Task


def plan(free: Free, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    """The plan of a setting."""
    problem, kept = free.clipped(problem, setting, scale.clip)
    name = cast(RivalName, free.algorithm)
    planner.check_fits(name, problem)
    n = problem.n_clients
    b = free.clients_per_round or n
    rounds = free.rounds_of(setting.passes, n, b)
    made = planner.plan(
        name,
        problem,
        rounds=rounds,
        clients_per_round=b,
        step=free.step(setting, rounds, kept, scale),
        momentum=free.momentum_of(setting),
        personal_step=free.own.get("personal_step_size") or planner.PERSONAL_STEP,
    )
    return replace(made, averaging=free.averaging_of(setting))


SPACE = replace(
    one_gradient.SPACE,
    keys=Keys(rounds="rounds", work=None, most=None, own=("personal_step_size",)),
    levers=frozenset({"momentum", "decay"}),
    plan=plan,
)
SHAPE = one_gradient.SHAPE
