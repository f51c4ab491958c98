"""What a trade-off surface says, in the words and numbers that its figure, page and table share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noiseworthy._wording import count, finite, level, number, percent, rounded_up
from noiseworthy.reports.findings import Outcome, score, score_name
from noiseworthy.reports.schedules import words_of
from noiseworthy.studies.typed_parts import Quantity
from noiseworthy.studies.typed_record import RunRecord
from noiseworthy.studies.typed_sweeps import AxisPart, PairPart, TradeoffPart

NO_PLAN = "no plan"


def quantity_of(tradeoff: TradeoffPart) -> Quantity:
    """What the surface shows: `accuracy`, or `loss` where nothing has a score."""
    scores = [value for cell in tradeoff.cells for value in cell.accuracy]
    return "loss" if Outcome.of("accuracy", scores) is None else "accuracy"


def name_of(record: RunRecord, tradeoff: TradeoffPart) -> str:
    """The name of what the surface shows."""
    return f"test {'loss' if quantity_of(tradeoff) == 'loss' else score_name(record)}"


def mean_of(tradeoff: TradeoffPart, cell: PairPart) -> float | None:
    """Mean over seeds of what the surface shows; None without a plan, or where a training diverged."""
    if not cell.loss or not np.all(np.isfinite(finite(cell.loss))):
        return None
    shown = quantity_of(tradeoff)
    outcome = Outcome.of(shown, cell.over_seeds(shown))
    return None if outcome is None else outcome.mean


def reached(record: RunRecord, tradeoff: TradeoffPart, cell: PairPart) -> str:
    """What a cell reaches, as it is written in it."""
    if not cell.loss:
        return NO_PLAN
    if (mean := mean_of(tradeoff, cell)) is None:
        return "diverged"
    if quantity_of(tradeoff) == "loss":
        return level(mean)
    return score(record, mean) if score_name(record) == "R²" else percent(mean, 1)


def decision(record: RunRecord, cell: PairPart) -> str:
    """What is planned in a cell, as equations; empty without a plan."""
    if not cell.loss:
        return ""
    words = words_of(record.plan)
    return words.symbols(cell.setting, words.decided) if cell.train else "no training"


def tick(value: float, axis: AxisPart) -> str:
    """A budget at the axis: a number, or a multiple of the clients' own budgets."""
    written = f"{value:,.0f}" if 1000 <= value < 1e9 else number(value)
    return f"{written}\N{NO-BREAK SPACE}×" if axis.per_client else written


def epsilon_axis(record: RunRecord, tradeoff: TradeoffPart) -> str:
    """What the horizontal axis is."""
    per = record.plan.privacy.unit
    if tradeoff.epsilon.per_client:
        return f"privacy budgets ε per {per}, as multiples of the clients' own"
    return f"privacy budget ε per {per}"


def budget_axis(budget: AxisPart) -> str:
    """What the vertical axis is."""
    if budget.per_client:
        return "resource budgets, as multiples of the clients' own"
    unit = "" if budget.unit == "units" else f" in {budget.unit}"
    return f"resource budget C of a client{unit}"


def by_trust(tradeoff: TradeoffPart) -> TradeoffPart:
    """The pairs of each trust in the place of those of each resource budget."""
    return tradeoff.model_copy(update={"cells": tradeoff.trust})


def trusts(tradeoff: TradeoffPart) -> list[str]:
    """Whom owners trust, in the order of the rows."""
    return [*dict.fromkeys(cell.trust for cell in tradeoff.trust)]


def trusts_caption(record: RunRecord) -> str:
    """What was simulated under each trust; empty where it was not asked for."""
    if (tradeoff := record.tradeoff) is None or not tradeoff.trust:
        return ""
    own = record.plan.whom
    missing = f"as the study states it, {own.colluders} colluders and {own.dropouts} drop-outs"
    sums = missing if own.model == "secure-sum" else "nobody colluding or missing"
    seeds = count(len(tradeoff.seeds), "seed")
    framed = " The framed cell is this study." if any(cell.own for cell in tradeoff.trust) else ""
    return (
        f"The {name_of(record, tradeoff)} that each privacy budget reaches with the study's own resources "
        f"(mean of {seeds}), above what the planner decides: every upload seen by everybody (local), sums of "
        f"uploads only (secure-sum, {sums}), or clipped uploads seen by a server that adds the noise "
        "(central). Epsilon bounds what another adversary learns in each row."
        f"{framed}{_without_plan(tradeoff.trust)}"
    )


def caption(record: RunRecord) -> str:
    """What was simulated, and what it would cost to choose by it; empty without a trade-off."""
    if (tradeoff := record.tradeoff) is None:
        return ""
    cells, seeds = tradeoff.cells, len(tradeoff.seeds)
    trained = sum(1 for cell in cells if cell.train)
    spread = "" if seeds == 1 else _spread(record, tradeoff)
    mean = "one simulated training" if seeds == 1 else f"mean of {seeds} simulated trainings{spread}"
    search = _search(record, tradeoff)
    framed = " The framed cell is this study." if any(cell.own for cell in cells) else ""
    return (
        f"The {name_of(record, tradeoff)} that each pair of budgets reaches ({mean}), above what the planner "
        f"decides for it; darker is better.{framed} Every cell is a training of its own: to choose among "
        f"them by looking at private data would run {count(trained, 'training')}{search}. Reading "
        f"accuracies off private test records is not covered.{_without_plan(cells)}"
    )


def _spread(record: RunRecord, tradeoff: TradeoffPart) -> str:
    """The largest standard deviation of a cell over its seeds."""
    shown = quantity_of(tradeoff)
    known = [cell.over_seeds(shown) for cell in tradeoff.cells if mean_of(tradeoff, cell) is not None]
    widest = max((float(np.std(finite(values))) for values in known), default=0.0)
    if shown == "accuracy" and score_name(record) == "accuracy":
        return f", standard deviation at most {number(100 * widest, 2)} points"
    return f", standard deviation at most {number(widest, 2)}"


def _search(record: RunRecord, tradeoff: TradeoffPart) -> str:
    most, spent = max(row.epsilon for row in record.plan.privacy.clients), tradeoff.search_epsilon
    if spent is None:
        return " and add up what they spend"
    return (
        f" and spend epsilon {rounded_up(spent, 3)} of the client that is worst off, where the plan of this "
        f"study spends at most {rounded_up(most, 6)}"
    )


def _without_plan(cells: Sequence[PairPart]) -> str:
    """Why some cells are empty."""
    if not (empty := [cell.reason for cell in cells if cell.reason]):
        return ""
    return f" {count(len(empty), 'cell')} without a plan, first because {empty[0].rstrip('.')}."
