"""What a trade-off surface says, in the words and numbers that its figure, page and table share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noiseworthy._wording import count, finite, level, number, percent, rounded_up
from noiseworthy.methods.words import Record
from noiseworthy.reports.findings import Outcome, score, score_name
from noiseworthy.reports.schedules import decided

NO_PLAN = "no plan"


def quantity_of(tradeoff: Record) -> str:
    """What the surface shows: `accuracy`, or `loss` where nothing has a score."""
    scores = [value for cell in tradeoff["cells"] for value in cell["accuracy"]]
    return "loss" if Outcome.of("accuracy", scores) is None else "accuracy"


def name_of(record: Record) -> str:
    """The name of what the surface shows."""
    return f"test {'loss' if quantity_of(record['tradeoff']) == 'loss' else score_name(record)}"


def mean_of(record: Record, cell: Record) -> float | None:
    """Mean over seeds of what the surface shows; None without a plan, or where a training diverged."""
    shown, values = quantity_of(record["tradeoff"]), cell["accuracy"]
    if not cell["loss"] or not np.all(np.isfinite(finite(cell["loss"]))):
        return None
    outcome = Outcome.of(shown, cell["loss"] if shown == "loss" else values)
    return None if outcome is None else outcome.mean


def reached(record: Record, cell: Record) -> str:
    """What a cell reaches, as it is written in it."""
    if not cell["loss"]:
        return NO_PLAN
    mean = mean_of(record, cell)
    if mean is None:
        return "diverged"
    if quantity_of(record["tradeoff"]) == "loss":
        return level(mean)
    return score(record, mean) if score_name(record) == "R²" else percent(mean, 1)


def decision(record: Record, cell: Record) -> str:
    """What is planned in a cell, as equations; empty without a plan."""
    if not cell["loss"]:
        return ""
    return decided({**cell, "algorithm": record["plan"]["algorithm"]}) if cell["train"] else "no training"


def tick(value: float, axis: Record) -> str:
    """A budget at the axis: a number, or a multiple of the clients' own budgets."""
    written = f"{value:,.0f}" if 1000 <= value < 1e9 else number(value)
    return f"{written}\N{NO-BREAK SPACE}×" if axis["per_client"] else written


def epsilon_axis(record: Record) -> str:
    """What the horizontal axis is."""
    per = record["plan"]["privacy"]["unit"]
    if record["tradeoff"]["epsilon"]["per_client"]:
        return f"privacy budgets ε per {per}, as multiples of the clients' own"
    return f"privacy budget ε per {per}"


def budget_axis(record: Record) -> str:
    """What the vertical axis is."""
    budget = record["tradeoff"]["budget"]
    if budget["per_client"]:
        return "resource budgets, as multiples of the clients' own"
    unit = "" if budget["unit"] == "units" else f" in {budget['unit']}"
    return f"resource budget C of a client{unit}"


def caption(record: Record) -> str:
    """What was simulated, and what it would cost to choose by it."""
    tradeoff = record["tradeoff"]
    cells, seeds = tradeoff["cells"], len(tradeoff["seeds"])
    trained = sum(1 for cell in cells if cell["train"])
    mean = "one simulated training" if seeds == 1 else f"mean of {seeds} simulated trainings{_spread(record)}"
    framed = " The framed cell is this study." if any(cell["own"] for cell in cells) else ""
    return (
        f"The {name_of(record)} that each pair of budgets reaches ({mean}), above what the planner decides "
        f"for it; darker is better.{framed} Every cell is a training of its own: to choose among them by "
        f"looking at private data would run {count(trained, 'training')}{_search(record)}. Reading "
        f"accuracies off private test records is not covered.{_without_plan(cells)}"
    )


def _spread(record: Record) -> str:
    """The largest standard deviation of a cell over its seeds."""
    shown = quantity_of(record["tradeoff"])
    known = [cell[shown] for cell in record["tradeoff"]["cells"] if mean_of(record, cell) is not None]
    widest = max((float(np.std(finite(values))) for values in known), default=0.0)
    if shown == "accuracy" and score_name(record) == "accuracy":
        return f", standard deviation at most {number(100 * widest, 2)} points"
    return f", standard deviation at most {number(widest, 2)}"


def _search(record: Record) -> str:
    spent = record["tradeoff"]["search_epsilon"]
    most = max(row["epsilon"] for row in record["plan"]["privacy"]["clients"])
    if spent is None:
        return " and add up what they spend"
    return (
        f" and spend epsilon {rounded_up(spent, 3)} of the client that is worst off, where the plan of this "
        f"study spends at most {number(most, 6)}"
    )


def _without_plan(cells: Sequence[Record]) -> str:
    """Why some cells are empty."""
    empty = [cell["reason"] for cell in cells if cell["reason"]]
    if not empty:
        return ""
    return f" {count(len(empty), 'cell')} without a plan, first because {empty[0].rstrip('.')}."
