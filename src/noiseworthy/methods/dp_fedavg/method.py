"""DP-FedAvg of Fu et al. as a method: the tightest clipping mode, then iterations and local steps."""

from dataclasses import replace
from typing import Any

import numpy as np

from noiseworthy.methods.axes import Axes, Beside, around
from noiseworthy.methods.base import LocalStep, Method, made_by, never, nothing_to_check, wired_by
from noiseworthy.methods.conditions import check_condition, check_mode, largest_step, tightest_mode
from noiseworthy.methods.dp_fedavg import planner
from noiseworthy.methods.dp_fedavg.bound import local_bound
from noiseworthy.methods.dp_fedavg.planner import affordable, curves, stated, theory_step
from noiseworthy.methods.dp_fedavg.table import FedAvgTable
from noiseworthy.methods.dp_fedavg.words import WORDS
from noiseworthy.methods.question import (
    NEEDED,
    Answer,
    Question,
    analytic,
    batch,
    clip_of,
    given,
    local_constants,
    step_of,
)
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
from noiseworthy.plans.local_work import LocalSteps, divisors
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.clipping import ClippingMode
from noiseworthy.tasks.base import Task

Mode = tuple[ClippingMode, str]
"""A clipping mode and why it was chosen."""


def answer(question: Question, table: FedAvgTable) -> Answer:
    """Plan DP-FedAvg; where everything is stated, take it as it is.

    With `clipping_mode = "auto"` a client that takes one full-batch step is clipped per record (A), one
    that takes several by the tightest mode whose proof holds; where the number of steps is free as well,
    both are planned and the lower bound decides.
    """
    # before anything is planned
    check_mode(table.clipping_mode, question.task, batch(table.batch_size))
    step = step_of(table.step_size, table.step_decay)
    if step and not leaves_free(table) and question.clip_norm is not None and not question.assumed:
        return _as_stated(question, table, step)
    if _clips_updates(question, table):
        return _without_bound(question, table)
    found = [_planned(question, table, mode) for mode in _modes(question, table)]
    return min(found, key=lambda one: one.plan.prediction.bound if one.plan.prediction else float("inf"))


def leaves_free(table: FedAvgTable) -> bool:
    """Whether counts or the step size are left open."""
    return "auto" in (table.total_iterations, table.local_steps, table.step_size)


def mode_for(question: Question, table: FedAvgTable, local_steps: int) -> Mode:
    """The clipping mode of a stated number of local steps."""
    if table.clipping_mode != "auto":
        return table.clipping_mode, "as stated"
    public = question.problem(1.0)
    if public.trust.secret:
        return "D", "secret cohorts hide whole uploads"
    if local_steps == 1 and batch(table.batch_size) is None:
        return "A", "one full-batch step per reply"
    return tightest_mode(question.task, question.mechanism, batch(table.batch_size), public.row)


def _modes(question: Question, table: FedAvgTable) -> list[Mode]:
    """Modes to plan with: one where it is stated or serves any number of steps, else A beside it."""
    if table.clipping_mode != "auto" or table.local_steps != "auto":
        return [mode_for(question, table, given(table.local_steps) or 2)]
    several = mode_for(question, table, 2)
    if several[0] == "B" or batch(table.batch_size) is not None:
        return [several]
    t, b = given(table.total_iterations), given(table.clients_per_round)
    if not affordable(question.problem(clip_of(question, table.name)), t, 1, b):
        return [several]
    return [mode_for(question, table, 1), several]


def _planned(question: Question, table: FedAvgTable, chosen: Mode) -> Answer:
    mode, _ = chosen
    problem = question.problem(clip_of(question, table.name), mode)
    constants = local_constants(question, table.name, lambda: analytic(question, problem.clip_norm), NEEDED)
    bound = local_bound(constants)
    made = planner.plan(
        problem, bound, constants, clients_per_round=given(table.clients_per_round),
        total_iterations=given(table.total_iterations),
        local_steps=1 if mode == "A" else given(table.local_steps), max_iterations=table.max_iterations,
        step=step_of(table.step_size, table.step_decay),
        notes=(_mode_note(chosen), *_unchecked(question, mode)),
    )  # fmt: skip
    if isinstance(made.local, LocalSteps):
        local = replace(made.local, batch_size=batch(table.batch_size))
        made = replace(made, local=local)
        if question.task is not None and made.step is not None and made.train:
            check_condition(mode, question.task, made.step.initial, local, problem.budget.relation)
    lines = curves(problem, bound, made, given(table.total_iterations), table.max_iterations)
    return Answer(made, lines)


def _clips_updates(question: Question, table: FedAvgTable) -> bool:
    """Whether whole updates are clipped (mode D, which no bound covers) in stated counts."""
    if "auto" in (table.total_iterations, table.local_steps):
        return False
    return mode_for(question, table, int(table.local_steps))[0] == "D"


def _without_bound(question: Question, table: FedAvgTable) -> Answer:
    """Stated counts under mode D; constants serve for the theory's step size alone."""
    if step := step_of(table.step_size, table.step_decay):
        return _noted(_as_stated(question, table, step), "constants are not used.")
    constants = local_constants(
        question, table.name, lambda: analytic(question, clip_of(question, table.name)), NEEDED
    )
    step = theory_step(local_bound(constants), int(table.local_steps))
    made = _noted(_as_stated(question, table, step), "constants serve for the step size alone.")
    return replace(made, plan=replace(made.plan, constants=constants))


def _noted(decision: Answer, use: str) -> Answer:
    note = f"No bound covers clipped updates (mode D): {use}"
    return replace(decision, plan=replace(decision.plan, notes=(*decision.plan.notes, note)))


def _as_stated(question: Question, table: FedAvgTable, step: StepSize) -> Answer:
    local_steps = int(table.local_steps)
    chosen = mode_for(question, table, local_steps)
    problem = question.problem(clip_of(question, table.name), chosen[0])
    b, size = given(table.clients_per_round) or len(question.sizes), batch(table.batch_size)
    made = stated(problem, int(table.total_iterations), local_steps, b, step, size)
    if question.task is not None:
        local, relation = LocalSteps(local_steps, size), problem.budget.relation
        check_condition(chosen[0], question.task, step.initial, local, relation)
    notes = (_mode_note(chosen), *_unchecked(question, chosen[0]))
    return Answer(replace(made, notes=(*made.notes, *notes)), None)


def _mode_note(chosen: Mode) -> str:
    return f"Clipping mode {chosen[0]}: {chosen[1]}."


def _unchecked(question: Question, mode: ClippingMode) -> tuple[str, ...]:
    if mode not in ("B", "E") or question.task is not None:
        return ()
    return (
        f"Warning: clipping mode {mode} holds only for a convex loss whose records are at most as smooth as "
        "the stated constant; without a model at hand this was not checked.",
    )


def local_step(question: Question, table: FedAvgTable) -> LocalStep:
    """One step on all records or a minibatch, clipped as several steps are where their number is open."""
    records, size = question.sizes, batch(table.batch_size)
    mode, _ = mode_for(question, table, given(table.local_steps) or 2)
    return LocalStep(records if size is None else np.full_like(records, size), mode)


# In trials: rounds of E local steps under the mode with the tightest proof ----------------------------


def plan(free: Free, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    """The plan of a setting; a clip of whole updates is in units of the way that a typical client goes."""
    e, n = free.local_steps(setting), problem.n_clients
    mode = free.own.get("clipping_mode") or _tried_mode(task, problem, e, free.batch_size)
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
    made = stated(problem, rounds * e, e, b, step, free.batch_size)
    return replace(made, averaging=free.averaging_of(setting))


def _tried_mode(task: Task, problem: Problem, local_steps: int, batch_size: int | None) -> ClippingMode:
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
    terms=("heterogeneity", "start", "drift", "noise_weight"), rows=rows, source="Fu et al., theorem 3",
    work=lambda plan: float(steps_of(plan)), iterations=lambda plan: plan.rounds * steps_of(plan),
    steps=lambda work: max(1, round(work)), noise=noise_of_mean, noise_of=noise_of_uploads,
)  # fmt: skip


# Beside fixed settings: local steps before an upload, and iterations of all rounds together -----------


def place(plan: Plan) -> tuple[float, float]:
    """E and T."""
    return steps_of(plan), plan.rounds * steps_of(plan)


def some_divisors(number: int, most: int = 6) -> list[int]:
    """The divisors of a number, at most so many of them, evenly chosen with both ends.

    Example:
        >>> some_divisors(12), some_divisors(120)
        ([1, 2, 3, 4, 6, 12], [1, 4, 8, 15, 30, 120])
    """
    every = divisors(number)
    chosen = np.unique(np.linspace(0, len(every) - 1, min(most, len(every))).round().astype(int))
    return every[chosen].tolist()


def cells(beside: Beside) -> list[Plan]:
    """Cells of T iterations in rounds of E, with the plan's minibatches."""
    plan, problem = beside.plan, beside.problem
    b = plan.clients_per_round or problem.n_clients
    batch = None if plan.local is None else plan.local.batch_size
    planned = plan.rounds * steps_of(plan) if plan.train else beside.longest
    pairs = [
        (t, e)
        for t in beside.counts("iterations", around(planned))
        for e in beside.counts("local_steps", some_divisors(t))
        if t % e == 0
    ]

    def clipped(e: int) -> Problem:
        return problem if problem.clipping != "A" or e == 1 else problem.clipped_as(beside.several)

    return [stated(clipped(e), t, e, b, beside.step, batch) for t, e in pairs if affordable(problem, t, e, b)]


AXES = Axes(across="local_steps", series="iterations", place=place, cells=cells, papers={})

METHOD = Method(
    name="dp-fedavg", table=FedAvgTable, only=None, answer=answer, check=nothing_to_check,
    leaves_free=leaves_free, tells_clients_apart=never, takes_heterogeneity=never, by_rule=None, stages=(),
    local_step=local_step, make=made_by("dp_fedavg.algorithm"), wire=wired_by("dp_fedavg.wire"), words=WORDS,
    space=SPACE, shape=SHAPE, axes=AXES, for_owners=False, held_against=None, reads="", shows="",
)  # fmt: skip
METHODS = {METHOD.name: METHOD}
