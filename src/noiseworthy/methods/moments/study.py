"""Plan one upload for a study: as stated, because no theory chooses for it; trials do."""

from __future__ import annotations

import numpy as np

from noiseworthy.errors import ConfigError
from noiseworthy.methods.moments.scale import RecordScale, check_task, stated
from noiseworthy.methods.moments.table import MomentsTable
from noiseworthy.methods.question import Answer, Question, given
from noiseworthy.plans.plan import StepSize


def answer(question: Question, table: MomentsTable) -> Answer:
    """Take a study as it is stated.

    Raises:
        ConfigError: something is left free, or constants are given: no bound is known.
        InvalidInput: another model than a linear one.
    """
    if leaves_free(table) or question.clip_norm is None or question.assumed or question.source is not None:
        raise ConfigError(
            "moments has no bound to plan by; leave [constants] out to plan by trial on public data, or "
            "state shrinkage, step_size and [privacy] clip_norm"
        )
    task, problem = question.model(), question.problem(question.clip_norm)
    label_weight = given(table.label_weight)
    size = label_weight and (check_task(task).record_norm or 1.0) / label_weight
    scale = RecordScale.of(task, problem.norm, size)
    weight = label_weight or scale.label_weight
    shrinkage, steps = float(table.shrinkage), StepSize(float(table.step_size), np.inf)
    made = stated(problem, task, scale, steps, shrinkage, weight, given(table.weighting) or 0.0)
    return Answer(made, None)


def leaves_free(table: MomentsTable) -> bool:
    """Whether the ridge or the step is left open, or the weighting is: none unless it is named."""
    named = [table.weighting] if "weighting" in table.model_fields_set else []
    return "auto" in (table.shrinkage, table.step_size, *named)


def check(question: Question, table: MomentsTable) -> None:
    """Refuse models that moments do not solve before anything is tried.

    Raises:
        InvalidInput: another model than a linear one, class weights, or too many features.
        UnsoundClaim: rows that are persons, whom no clip of single records' moments bounds.
    """
    check_task(question.model())
    question.problem(1.0, "M")
