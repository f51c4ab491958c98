"""Plan DPFL-BCS for a study: rounds and clients per round are stated, who is asked how often is decided."""

from __future__ import annotations

import math
from dataclasses import replace

from noiseworthy.errors import ConfigError
from noiseworthy.methods.dpfl_bcs import planner as participation
from noiseworthy.methods.dpfl_bcs import two_stages
from noiseworthy.methods.dpfl_bcs.stages import Advice, advise
from noiseworthy.methods.dpfl_bcs.table import SelectionTable
from noiseworthy.methods.question import Answer, Question, analytic, clip_of, given, local_constants, step_of
from noiseworthy.methods.rivals.table import RivalTable
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Constant, Problem

_UNSTATED = ("No heterogeneity is stated: clients are chosen as if their data were alike.",)


def answer(question: Question, table: SelectionTable) -> Answer:
    """Plan DPFL-BCS; constants are needed only for what rests on them, heterogeneity and the step sizes.

    In two stages where the study says so, or where estimating heterogeneity is expected to pay.

    Raises:
        ConfigError: constants, a clip or a loss cap that cannot be had from what the study gives.
        InvalidInput: what `participation.plan` and `two_stages.plan` refuse.
    """
    advice = _stages(question, table)
    if advice.estimation_rounds == 0:
        made = chosen(question, table)
        notes = (advice.reason, *made.notes) if advice.reason else made.notes
        return Answer(replace(made, momentum=given(table.momentum) or 0.0, notes=notes), None)
    problem = question.problem(clip_of(question, table.name))
    made = two_stages.plan(
        problem,
        _constants(question, table.name, problem),
        rounds=table.rounds,
        clients_per_round=table.clients_per_round,
        estimation_rounds=advice.estimation_rounds,
        loss_cap=_stated_cap(question, table),
        step=step_of(table.step_size, table.step_decay),
        momentum=given(table.momentum) or 0.0,
        notes=(advice.reason,) if advice.reason else (),
    )
    return Answer(made, None)


def _stages(question: Question, table: SelectionTable) -> Advice:
    """Rounds of stage 1 as the study states them, or as far as they are worth it; with the reason, if any."""
    if question.heterogeneity is not None:
        if table.estimation_rounds not in (0, "auto"):
            raise ConfigError(
                f"[constants] heterogeneity is stated, and [algorithm] estimation_rounds = "
                f"{table.estimation_rounds} would estimate it; leave one of them out"
            )
        return Advice(0, "")
    if table.estimation_rounds != "auto":
        return Advice(table.estimation_rounds, "")
    problem = question.problem(clip_of(question, table.name))
    return advise(
        problem,
        _constants(question, table.name, problem),
        rounds=table.rounds,
        clients_per_round=table.clients_per_round,
        loss_cap=_loss_cap(question, table),
        spread=question.heterogeneity_spread,
    )


def _loss_cap(question: Question, table: SelectionTable) -> float | None:
    """Theta as stated, or the loss of a guess among the classes."""
    if table.loss_cap != "auto":
        return float(table.loss_cap)
    return None if question.classes is None else math.log(question.classes)


def _stated_cap(question: Question, table: SelectionTable) -> float:
    cap = _loss_cap(question, table)
    if cap is None:
        raise ConfigError(
            "[algorithm] loss_cap is missing: reported losses are clipped at it, and only a classifier on "
            "data has one by itself, ln(classes); state it, or set estimation_rounds = 0"
        )
    return cap


def chosen(question: Question, table: SelectionTable | RivalTable) -> Plan:
    """Who is asked how often, by the study's budgets, sizes and heterogeneity; errors as in `decide`."""
    problem = question.problem(clip_of(question, table.name))
    stated = question.heterogeneity
    return participation.plan(
        problem,
        _constants(question, table.name, problem),
        rounds=table.rounds,
        clients_per_round=table.clients_per_round,
        heterogeneity=stated,
        step=step_of(table.step_size, table.step_decay),
        notes=_UNSTATED if stated is None else (),
    )


def _constants(question: Question, name: str, problem: Problem) -> dict[str, Constant]:
    """Stated or analytic constants, if any."""
    if question.source is None and not question.assumed:
        return {}

    def from_bounds() -> dict[str, Constant]:
        """All but heterogeneity, of which no public bound tells clients apart."""
        known = analytic(question, problem.clip_norm)
        return {name: constant for name, constant in known.items() if name != "heterogeneity"}

    return local_constants(question, name, from_bounds, "smoothness and strong_convexity")


def leaves_free(table: SelectionTable) -> bool:
    """Whether the step size is left open."""
    return table.step_size == "auto"


def estimates(table: SelectionTable) -> bool:
    """Whether a first stage is stated, in which clients report losses."""
    return table.estimation_rounds not in (0, "auto")
