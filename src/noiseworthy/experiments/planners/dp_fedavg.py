"""Plan DP-FedAvg for a study: the clipping mode with the tightest proof, then iterations and local steps."""

from __future__ import annotations

from dataclasses import replace

from noiseworthy.algorithms.conditions import check_condition, missing_convexity, tightest_mode
from noiseworthy.config import FedAvgTable
from noiseworthy.errors import ConfigError, UnsoundClaim
from noiseworthy.experiments.planners.decision import (
    NEEDED,
    Decision,
    analytic,
    decay,
    given,
    local_constants,
)
from noiseworthy.experiments.prepare import Prepared
from noiseworthy.planning.local_bound import local_bound
from noiseworthy.planning.local_iterations import affordable, curves, plan, stated, theory_step
from noiseworthy.planning.local_work import LocalSteps
from noiseworthy.planning.plan import StepSize
from noiseworthy.privacy.clipping import ClippingMode
from noiseworthy.privacy.mechanisms import law_of

Mode = tuple[ClippingMode, str]
"""A clipping mode and why it was chosen."""


def decide(prepared: Prepared, table: FedAvgTable) -> Decision:
    """Plan DP-FedAvg; where everything is stated, take it as it is.

    With `clipping_mode = "auto"` a client that takes one full-batch step is clipped per record (A), one
    that takes several by the tightest mode whose proof holds; where the number of steps is free as well,
    both are planned and the lower bound decides.
    """
    _check_mode(prepared, table)
    if _all_stated(prepared, table):
        return _as_stated(prepared, table, _stated_step(table))
    if _clips_updates(prepared, table):
        return _without_bound(prepared, table)
    found = [_planned(prepared, table, mode) for mode in _modes(prepared, table)]
    return min(found, key=lambda one: one.plan.prediction.bound if one.plan.prediction else float("inf"))


def mode_for(prepared: Prepared, table: FedAvgTable, local_steps: int) -> Mode:
    """The clipping mode of a stated number of local steps."""
    if table.clipping_mode != "auto":
        return table.clipping_mode, "as stated"
    if local_steps == 1 and _batch(table) is None:
        return "A", "one full-batch step per reply"
    return tightest_mode(prepared.task, prepared.study.privacy.mechanism, _batch(table))


def _modes(prepared: Prepared, table: FedAvgTable) -> list[Mode]:
    """Modes to plan with: one where it is stated or serves any number of steps, else A beside it."""
    if table.clipping_mode != "auto" or table.local_steps != "auto":
        return [mode_for(prepared, table, given(table.local_steps) or 2)]
    several = mode_for(prepared, table, 2)
    if several[0] == "B" or _batch(table) is not None:
        return [several]
    t, b = given(table.total_iterations), given(table.clients_per_round)
    if not affordable(prepared.problem(_clip(prepared)), t, 1, b):
        return [several]
    return [mode_for(prepared, table, 1), several]


def _planned(prepared: Prepared, table: FedAvgTable, chosen: Mode) -> Decision:
    mode, _ = chosen
    problem = prepared.problem(_clip(prepared), mode)
    constants = local_constants(prepared, lambda: analytic(prepared, problem.clip_norm), NEEDED)
    bound = local_bound(constants)
    made = plan(
        problem,
        bound,
        constants,
        clients_per_round=given(table.clients_per_round),
        total_iterations=given(table.total_iterations),
        local_steps=1 if mode == "A" else given(table.local_steps),
        max_iterations=table.max_iterations,
        step=_step(table),
        notes=(_mode_note(chosen), *_unchecked(prepared, mode)),
    )
    if isinstance(made.local, LocalSteps):
        local = replace(made.local, batch_size=_batch(table))
        made = replace(made, local=local)
        if prepared.task is not None and made.step is not None and made.train:
            check_condition(mode, prepared.task, made.step.initial, local)
    lines = curves(problem, bound, made, given(table.total_iterations), table.max_iterations)
    return Decision(made, lines)


def _all_stated(prepared: Prepared, table: FedAvgTable) -> bool:
    free = (table.total_iterations, table.local_steps, table.step_size, prepared.study.privacy.clip_norm)
    return "auto" not in free and not prepared.study.constants.assumed()


def _stated_step(table: FedAvgTable) -> StepSize:
    return StepSize(float(table.step_size), decay(table.step_decay))


def _clips_updates(prepared: Prepared, table: FedAvgTable) -> bool:
    """Whether whole updates are clipped (mode D, which no bound covers) in stated counts."""
    if "auto" in (table.total_iterations, table.local_steps):
        return False
    return mode_for(prepared, table, int(table.local_steps))[0] == "D"


def _without_bound(prepared: Prepared, table: FedAvgTable) -> Decision:
    """Stated counts under mode D; constants serve for the theory's step size alone."""
    if table.step_size != "auto":
        return _noted(_as_stated(prepared, table, _stated_step(table)), "constants are not used.")
    constants = local_constants(prepared, lambda: analytic(prepared, _clip(prepared)), NEEDED)
    step = theory_step(local_bound(constants), int(table.local_steps))
    made = _noted(_as_stated(prepared, table, step), "constants serve for the step size alone.")
    return replace(made, plan=replace(made.plan, constants=constants))


def _noted(decision: Decision, use: str) -> Decision:
    note = f"No bound covers clipped updates (mode D): {use}"
    return replace(decision, plan=replace(decision.plan, notes=(*decision.plan.notes, note)))


def _as_stated(prepared: Prepared, table: FedAvgTable, step: StepSize) -> Decision:
    local_steps = int(table.local_steps)
    chosen = mode_for(prepared, table, local_steps)
    made = stated(
        prepared.problem(_clip(prepared), chosen[0]),
        int(table.total_iterations),
        local_steps,
        given(table.clients_per_round) or len(prepared.sizes),
        step,
        _batch(table),
    )
    if prepared.task is not None:
        check_condition(chosen[0], prepared.task, step.initial, LocalSteps(local_steps, _batch(table)))
    notes = (_mode_note(chosen), *_unchecked(prepared, chosen[0]))
    return Decision(replace(made, notes=(*made.notes, *notes)), None)


def _check_mode(prepared: Prepared, table: FedAvgTable) -> None:
    """A stated mode whose condition the model cannot meet is refused before anything is planned."""
    mode, task = table.clipping_mode, prepared.task
    if mode in ("B", "E") and task is not None and (missing := missing_convexity(task)):
        raise UnsoundClaim(f"clipping mode {mode} has no proof here: {missing}; use mode C or D")
    if mode in ("A", "B", "E") and _batch(table) is not None:
        raise UnsoundClaim(
            f"clipping mode {mode} is proved for full batches, got batch_size = {table.batch_size}; "
            "leave it out, or use mode C or D"
        )


def _mode_note(chosen: Mode) -> str:
    return f"Clipping mode {chosen[0]}: {chosen[1]}."


def _unchecked(prepared: Prepared, mode: ClippingMode) -> tuple[str, ...]:
    if mode not in ("B", "E") or prepared.task is not None:
        return ()
    return (
        f"Warning: clipping mode {mode} holds only for a convex loss whose records are at most as smooth as "
        "the stated constant; without a model at hand this was not checked.",
    )


def _clip(prepared: Prepared) -> float:
    clip, study = prepared.study.privacy.clip_norm, prepared.study
    if clip != "auto":
        return float(clip)
    if study.constants.source == "analytic" and law_of(study.privacy.mechanism).norm == "l2":
        return float(analytic(prepared, 1e30)["gradient_bound"].value)
    raise ConfigError(
        f'[privacy] clip_norm = "auto" needs analytic constants and L2 noise for {study.algorithm.name}; '
        "state a number"
    )


def _step(table: FedAvgTable) -> StepSize | None:
    """The stated step; None for the schedule of the theory, which depends on E."""
    return None if table.step_size == "auto" else StepSize(float(table.step_size), decay(table.step_decay))


def _batch(table: FedAvgTable) -> int | None:
    return None if table.batch_size == "full" else int(table.batch_size)
