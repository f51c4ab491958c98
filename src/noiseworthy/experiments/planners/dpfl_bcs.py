"""Plan DPFL-BCS for a study: rounds and clients per round are stated, who is asked how often is decided."""

from __future__ import annotations

import math
from dataclasses import replace

from noiseworthy.config import RivalTable, SelectionTable
from noiseworthy.errors import ConfigError
from noiseworthy.experiments.planners.decision import (
    Decision,
    analytic,
    decay,
    given,
    local_constants,
    stated_constants,
)
from noiseworthy.experiments.prepare import Prepared
from noiseworthy.planning import participation, two_stages
from noiseworthy.planning.plan import Plan, StepSize
from noiseworthy.planning.problem import Constant, Problem
from noiseworthy.planning.stages import Advice, advise
from noiseworthy.privacy.mechanisms import law_of

_UNSTATED = ("No heterogeneity is stated: clients are chosen as if their data were alike.",)


def decide(prepared: Prepared, table: SelectionTable) -> Decision:
    """Plan DPFL-BCS; constants are needed only for what rests on them, heterogeneity and the step sizes.

    In two stages where the study says so, or where estimating heterogeneity is expected to pay.

    Raises:
        ConfigError: constants, a clip or a loss cap that cannot be had from what the study gives.
        InvalidInput: what `participation.plan` and `two_stages.plan` refuse.
    """
    advice = _stages(prepared, table)
    if advice.estimation_rounds == 0:
        made = chosen(prepared, table)
        notes = (advice.reason, *made.notes) if advice.reason else made.notes
        return Decision(replace(made, momentum=given(table.momentum) or 0.0, notes=notes), None)
    problem = prepared.problem(clip_of(prepared))
    made = two_stages.plan(
        problem,
        _constants(prepared, problem),
        rounds=table.rounds,
        clients_per_round=table.clients_per_round,
        estimation_rounds=advice.estimation_rounds,
        loss_cap=_stated_cap(prepared, table),
        step=_step(table),
        momentum=given(table.momentum) or 0.0,
        notes=(advice.reason,) if advice.reason else (),
    )
    return Decision(made, None)


def _stages(prepared: Prepared, table: SelectionTable) -> Advice:
    """Rounds of stage 1 as the study states them, or as far as they are worth it; with the reason, if any."""
    constants = prepared.study.constants
    if constants.heterogeneity is not None:
        if table.estimation_rounds not in (0, "auto"):
            raise ConfigError(
                f"[constants] heterogeneity is stated, and [algorithm] estimation_rounds = "
                f"{table.estimation_rounds} would estimate it; leave one of them out"
            )
        return Advice(0, "")
    if table.estimation_rounds != "auto":
        return Advice(table.estimation_rounds, "")
    problem = prepared.problem(clip_of(prepared))
    return advise(
        problem,
        _constants(prepared, problem),
        rounds=table.rounds,
        clients_per_round=table.clients_per_round,
        loss_cap=_loss_cap(prepared, table),
        spread=constants.heterogeneity_spread,
    )


def _loss_cap(prepared: Prepared, table: SelectionTable) -> float | None:
    """Theta as stated, or the loss of a guess among the classes."""
    if table.loss_cap != "auto":
        return float(table.loss_cap)
    classes = None if prepared.federation is None else prepared.federation.classes
    return None if classes is None else math.log(classes)


def _stated_cap(prepared: Prepared, table: SelectionTable) -> float:
    cap = _loss_cap(prepared, table)
    if cap is None:
        raise ConfigError(
            "[algorithm] loss_cap is missing: reported losses are clipped at it, and only a classifier on "
            "data has one by itself, ln(classes); state it, or set estimation_rounds = 0"
        )
    return cap


def chosen(prepared: Prepared, table: SelectionTable | RivalTable) -> Plan:
    """Who is asked how often, by the study's budgets, sizes and heterogeneity; errors as in `decide`."""
    problem = prepared.problem(clip_of(prepared))
    stated = prepared.heterogeneity
    return participation.plan(
        problem,
        _constants(prepared, problem),
        rounds=table.rounds,
        clients_per_round=table.clients_per_round,
        heterogeneity=stated,
        step=_step(table),
        notes=_UNSTATED if stated is None else (),
    )


def _constants(prepared: Prepared, problem: Problem) -> dict[str, Constant]:
    """Stated or analytic constants, if any."""
    study = prepared.study
    if study.constants.source is None and not stated_constants(study):
        return {}

    def from_bounds() -> dict[str, Constant]:
        """All but heterogeneity, of which no public bound tells clients apart."""
        known = analytic(prepared, problem.clip_norm)
        return {name: constant for name, constant in known.items() if name != "heterogeneity"}

    return local_constants(prepared, from_bounds, "smoothness and strong_convexity")


def _step(table: SelectionTable | RivalTable) -> StepSize | None:
    """The stated step; None for the schedule of the theory."""
    return None if table.step_size == "auto" else StepSize(float(table.step_size), decay(table.step_decay))


def clip_of(prepared: Prepared) -> float:
    """The stated clip, or the largest gradient of a linear model: a clip that changes nothing.

    Raises:
        ConfigError: a clip that is neither stated nor known.
    """
    privacy, name = prepared.study.privacy, prepared.study.algorithm.name
    if privacy.clip_norm != "auto":
        return float(privacy.clip_norm)
    if prepared.study.constants.source == "analytic" and law_of(privacy.mechanism).norm == "l2":
        return analytic(prepared, 1e30)["gradient_bound"].value
    raise ConfigError(
        f'[privacy] clip_norm = "auto" needs [constants] source = "analytic" and L2 noise for {name}; '
        "state a number"
    )
