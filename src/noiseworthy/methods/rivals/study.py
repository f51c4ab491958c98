"""Plan a rival of DPFL-BCS for a study: everything is stated, or whom to ask is left to DPFL-BCS."""

from __future__ import annotations

from dataclasses import replace

from noiseworthy.errors import ConfigError
from noiseworthy.methods.dpfl_bcs.study import chosen
from noiseworthy.methods.question import Answer, Question, clip_of, decay, given
from noiseworthy.methods.rivals import planner as rivals
from noiseworthy.methods.rivals.table import RivalTable
from noiseworthy.plans.plan import StepSize


def answer(question: Question, table: RivalTable) -> Answer:
    """Plan a rival; with `selection = "biased"` clients are asked as often as DPFL-BCS would ask them.

    Raises:
        ConfigError: a clip, a step, or constants of a biased selection, that the study does not give.
        InvalidInput: what `rivals.plan` refuses, or `participation.plan` where it selects.
    """
    problem = question.problem(clip_of(question, table.name))
    rivals.check_fits(table.name, problem)
    selected = chosen(question, table) if table.selection == "biased" else None
    made = rivals.plan(
        table.name, problem, rounds=table.rounds, clients_per_round=table.clients_per_round,
        step=_step(table), counts=None if selected is None else selected.releases,
        momentum=given(table.momentum) or 0.0,
        personal_step=table.personal_step_size or rivals.PERSONAL_STEP,
        notes=() if selected is None else selected.notes,
    )  # fmt: skip
    return Answer(made if selected is None else replace(made, constants=selected.constants), None)


def check(question: Question, table: RivalTable) -> None:
    """Refuse persons whom a rival does not clip before anything is tried.

    Raises:
        InvalidInput: rows that are persons, of a rival that clips single records.
    """
    if (problem := question.problem(1.0)).row == "person":
        rivals.check_fits(table.name, problem)


def _step(table: RivalTable) -> StepSize:
    """The stated step: no theory has one for a rival."""
    if table.step_size == "auto":
        raise ConfigError(
            f'[algorithm] step_size = "auto" is chosen for {table.name} by trial only, which needs data, '
            "noise, no [constants] and a uniform selection; state a number"
        )
    return StepSize(table.step_size, decay(table.step_decay))


def leaves_free(table: RivalTable) -> bool:
    """Whether the step size is left open."""
    return table.step_size == "auto"


def asks_as_told(table: RivalTable) -> bool:
    """Whether clients are asked as often as DPFL-BCS would ask them."""
    return table.selection == "biased"
