"""Plan a rival of DPFL-BCS for a study: everything is stated, or whom to ask is left to DPFL-BCS."""

from __future__ import annotations

from dataclasses import replace

from noiseworthy.config import RivalTable
from noiseworthy.experiments.planners.decision import Decision, decay
from noiseworthy.experiments.planners.dpfl_bcs import chosen, clip_of
from noiseworthy.experiments.prepare import Prepared
from noiseworthy.planning import rivals
from noiseworthy.planning.plan import StepSize


def decide(prepared: Prepared, table: RivalTable) -> Decision:
    """Plan a rival; with `selection = "biased"` clients are asked as often as DPFL-BCS would ask them.

    Raises:
        ConfigError: a clip, or constants of a biased selection, that cannot be had from what the study gives.
        InvalidInput: what `rivals.plan` refuses, or `participation.plan` where it selects.
    """
    problem = prepared.problem(clip_of(prepared))
    rivals.check_fits(table.name, problem)
    selected = chosen(prepared, table) if table.selection == "biased" else None
    made = rivals.plan(
        table.name,
        problem,
        rounds=table.rounds,
        clients_per_round=table.clients_per_round,
        step=StepSize(table.step_size, decay(table.step_decay)),
        counts=None if selected is None else selected.releases,
        momentum=table.momentum,
        personal_step=table.personal_step_size or rivals.PERSONAL_STEP,
        notes=() if selected is None else selected.notes,
    )
    return Decision(made if selected is None else replace(made, constants=selected.constants), None)
