"""DP-PASGD of Hu et al. as a method: the averaging period and the iterations that are paid for."""

from dataclasses import replace
from typing import Any

import numpy as np

from noiseworthy.methods.axes import Axes, Beside, spaced
from noiseworthy.methods.base import LocalStep, Method, made_by, never, nothing_to_check, wired_by
from noiseworthy.methods.conditions import missing_convexity
from noiseworthy.methods.dp_pasgd import planner
from noiseworthy.methods.dp_pasgd.planner import curves, stated
from noiseworthy.methods.dp_pasgd.table import AveragingTable, LossShape
from noiseworthy.methods.dp_pasgd.words import WORDS
from noiseworthy.methods.question import Answer, Question, averaging, batch, clip_of, given, local_constants
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
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel

_NEEDED = "smoothness, strong_convexity, gradient_variance and initial_gap"


def answer(question: Question, table: AveragingTable) -> Answer:
    """Plan DP-PASGD; where everything is stated, take it as it is."""
    problem = question.problem(clip_of(question, table.name))
    step = None if table.step_size == "auto" else StepSize(float(table.step_size), float("inf"))
    records_per_step = batch(table.batch_size)
    k, tau = given(table.total_iterations), given(table.local_steps)
    if k and tau and step and not question.assumed:
        return Answer(stated(problem, k, tau, step, records_per_step), None)
    records = NoisySteps(1, records_per_step).records(problem.sizes)
    constants = local_constants(
        question, table.name, lambda: averaging(question, records, problem.clip_norm), _NEEDED
    )
    shape = _shape(question) if table.loss_shape == "auto" else table.loss_shape
    made = planner.plan(
        problem, constants, step=step, batch_size=records_per_step, total_iterations=k, local_steps=tau,
        max_iterations=table.max_iterations, shape=shape,
    )  # fmt: skip
    return Answer(made, curves(problem, constants, made, k, shape=shape))


def _shape(question: Question) -> LossShape:
    """What is known of the loss: nothing without a model, or of one with several outputs."""
    task = question.task
    if not isinstance(task, LinearModel) or missing_convexity(task):
        return "general"
    return "quadratic" if task.loss == "squared" else "convex"


def leaves_free(table: AveragingTable) -> bool:
    """Whether iterations, local steps or the step size are left open."""
    return "auto" in (table.total_iterations, table.local_steps, table.step_size)


def local_step(question: Question, table: AveragingTable) -> LocalStep:
    """One step on all records or a minibatch, which never has more than a client holds."""
    return LocalStep(NoisySteps(1, batch(table.batch_size)).records(question.sizes), "A")


# In trials: rounds of tau noised local steps ----------------------------------------------------------


def plan(free: Free, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    """The plan of a setting, its step constant."""
    tau = free.local_steps(setting)
    wanted = min(max(1, free.most // tau), max(1, round(setting.passes)))
    rounds = free.rounds // tau if free.rounds else wanted
    problem, kept = free.clipped(problem, setting, scale.clip)
    step = free.constant_step(setting, rounds * tau, kept, scale)
    made = stated(problem, rounds * tau, tau, step, free.batch_size)
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
    terms=("start", "noise_weight", "drift", "drift_of_noise"), rows=rows, source="Hu et al., theorem 1",
    work=lambda plan: float(work_of(plan).steps), iterations=lambda plan: plan.rounds * work_of(plan).steps,
    steps=lambda work: max(1, round(work)), noise=noise_of_mean, noise_of=noise_of,
)  # fmt: skip


# Beside fixed settings: noised steps before an averaging, and rounds ----------------------------------

_PERIODS = (1, 2, 5, 10, 20)
_FEWEST = 5
"""Rounds that the grid is centred on at least."""


def place(plan: Plan) -> tuple[float, float]:
    """tau and R."""
    return work_of(plan).steps, plan.rounds


def cells(beside: Beside) -> list[Plan]:
    """Cells of R rounds with tau noised steps each, those that every device can pay for."""
    plan, problem = beside.plan, beside.problem
    batch = None if plan.local is None else plan.local.batch_size
    tau = work_of(plan).steps if plan.train else 0
    longest = problem.resources.most_rounds(1) if problem.resources is not None else np.inf
    rounds = beside.counts("rounds", spaced(int(min(longest, 2 * max(plan.rounds, _FEWEST)))))
    periods = beside.counts("local_steps", sorted({*_PERIODS, tau} - {0}))
    return [
        stated(problem, r * tau, tau, beside.step, batch)
        for r in rounds
        for tau in periods
        if problem.resources is None or problem.resources.affords(r, r * tau)
    ]


AXES = Axes(across="local_steps", series="rounds", place=place, cells=cells, papers={})

METHOD = Method(
    name="dp-pasgd", table=AveragingTable, only=None, answer=answer, check=nothing_to_check,
    leaves_free=leaves_free, tells_clients_apart=never, takes_heterogeneity=never, by_rule=None, stages=(),
    local_step=local_step, make=made_by("dp_pasgd.algorithm"), wire=wired_by("dp_pasgd.wire"), words=WORDS,
    space=SPACE, shape=SHAPE, axes=AXES, for_owners=False, held_against=None,
    reads="every local step carries the noise of its own, which a share of it would not be",
    shows="it releases every local step of a client",
)  # fmt: skip
METHODS = {METHOD.name: METHOD}
