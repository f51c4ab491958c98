"""DP-ScaffNew of Hou et al. as a method: iterations, probability, and the coins that noise pays for."""

from dataclasses import replace
from typing import Any

import numpy as np

from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.methods.axes import Axes, Beside, around
from noiseworthy.methods.base import LocalStep, Method, made_by, never, nothing_to_check, wired_by
from noiseworthy.methods.dp_scaffnew import planner
from noiseworthy.methods.dp_scaffnew.bound import scaffnew_bound
from noiseworthy.methods.dp_scaffnew.planner import affordable, curves, stated
from noiseworthy.methods.dp_scaffnew.table import ScaffNewTable
from noiseworthy.methods.dp_scaffnew.words import WORDS
from noiseworthy.methods.question import NEEDED, Answer, Question, analytic, batch, given, local_constants
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
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import ANALYTIC, Constant, Problem
from noiseworthy.tasks.base import Task


def answer(question: Question, table: ScaffNewTable) -> Answer:
    """Plan DP-ScaffNew; where everything is stated, take it as it is."""
    if question.clip_norm is None:
        raise ConfigError('[privacy] clip_norm = "auto" is not planned for dp-scaffnew; state a number')
    problem = question.problem(question.clip_norm, "D")
    step = None if table.step_size == "auto" else StepSize(float(table.step_size), float("inf"))
    records = batch(table.batch_size)
    t, p = given(table.iterations), given(table.communication_probability)
    if t and p and step and not question.assumed:
        return Answer(stated(problem, t, p, step, table.coin_seed, records), None)
    constants = _constants(question, table.name)
    made = planner.plan(
        problem, constants, rule=table.rule, iterations=t, probability=p,
        max_iterations=table.max_iterations, coin_seed=table.coin_seed, batch_size=records, step=step,
    )  # fmt: skip
    return Answer(made, curves(scaffnew_bound(problem, constants), made))


def _constants(question: Question, name: str) -> dict[str, Constant]:
    """Stated or analytic constants: at the optimum a client's gradient, ridge included, is at most 2 G."""
    constants = local_constants(question, name, lambda: analytic(question, float("inf")), NEEDED)
    if question.source == "analytic" and "optimum_gradient_sq" not in constants:
        steepest = analytic(question, float("inf"))["gradient_bound"].value
        value = len(question.sizes) * (2 * steepest) ** 2
        constants["optimum_gradient_sq"] = Constant(value, ANALYTIC)
    return constants


def leaves_free(table: ScaffNewTable) -> bool:
    """Whether iterations, the probability or the step size are left open."""
    return "auto" in (table.iterations, table.communication_probability, table.step_size)


def local_step(question: Question, table: ScaffNewTable) -> LocalStep:
    """One step on all records or a minibatch, not clipped: the update is."""
    records, size = question.sizes, batch(table.batch_size)
    return LocalStep(records if size is None else np.full_like(records, size), "D")


# In trials: iterations and the probability of communication -------------------------------------------

_LEAST = 0.001
"""Probability of communication below which none is tried."""


def plan(free: Free, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    """The plan of a setting, its step constant, its clip in units of the way that a typical client goes."""
    p = free.work or float(np.clip(setting.work, _LEAST, 1.0))
    iterations = free.rounds or min(free.most, max(1, round(setting.passes / p)))
    step = free.constant_step(setting, iterations, min(1.0, setting.clip), scale)
    problem, _ = free.clipped(problem.clipped_as("D"), setting, step.initial / p * scale.mean)
    made = stated(problem, iterations, p, step, free.own.get("coin_seed", 0), free.batch_size)
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
    terms=("start", "control_variates", "noise_weight"), rows=rows, source="Hou et al., theorem 1",
    work=lambda plan: coins_of(plan).probability, iterations=lambda plan: coins_of(plan).iterations,
    steps=lambda work: max(1, round(1 / work)), noise=noise_of_mean, noise_of=noise_of_uploads,
)  # fmt: skip


# Beside fixed settings: the probability of communication, and iterations ------------------------------

_PROBABILITIES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)


def place(plan: Plan) -> tuple[float, float]:
    """p and T."""
    return coins_of(plan).probability, coins_of(plan).iterations


def cells(beside: Beside) -> list[Plan]:
    """Cells with the plan's seed of coins; those whose coins never fall are left out."""
    plan, problem = beside.plan, beside.problem
    coins = plan.local if isinstance(plan.local, Coins) else Coins(1, 1.0)
    planned = coins.iterations if plan.train else beside.longest
    made = [
        stated(problem, t, p, beside.step, coins.seed, coins.batch_size)
        for t in beside.counts("iterations", around(planned))
        for p in beside.values("communication_probability", _PROBABILITIES)
        if affordable(problem, t, p)
    ]
    return [cell for cell in made if cell.train]


AXES = Axes(across="communication_probability", series="iterations", place=place, cells=cells, papers={})

METHOD = Method(
    name="dp-scaffnew", table=ScaffNewTable, only=None, answer=answer, check=nothing_to_check,
    leaves_free=leaves_free, tells_clients_apart=never, takes_heterogeneity=never, by_rule=None, stages=(),
    local_step=local_step, make=made_by("dp_scaffnew.algorithm"), wire=wired_by("dp_scaffnew.wire"),
    words=WORDS, space=SPACE, shape=SHAPE, axes=AXES, for_owners=False, held_against=None, reads="",
    shows="clients remember in which rounds they took part, and move by it",
)  # fmt: skip
METHODS = {METHOD.name: METHOD}
