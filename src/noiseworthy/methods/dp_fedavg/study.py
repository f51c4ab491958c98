"""Plan DP-FedAvg for a study: the clipping mode with the tightest proof, then iterations and local steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from noiseworthy.methods.base import LocalStep
from noiseworthy.methods.conditions import check_condition, check_mode, tightest_mode
from noiseworthy.methods.dp_fedavg.bound import local_bound
from noiseworthy.methods.dp_fedavg.planner import affordable, curves, plan, stated, theory_step
from noiseworthy.methods.dp_fedavg.table import FedAvgTable
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
from noiseworthy.plans.local_work import LocalSteps
from noiseworthy.plans.plan import StepSize
from noiseworthy.privacy.clipping import ClippingMode

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
    made = plan(
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
    made = stated(
        question.problem(clip_of(question, table.name), chosen[0]),
        int(table.total_iterations),
        local_steps,
        given(table.clients_per_round) or len(question.sizes),
        step,
        batch(table.batch_size),
    )
    if question.task is not None:
        local, relation = LocalSteps(local_steps, batch(table.batch_size)), made.problem.budget.relation
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
