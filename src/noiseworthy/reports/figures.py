"""The figures of a report: each a function from a record to a figure, or None where the record has no data.

They use matplotlib's objects without its global state, so they may be drawn in any thread or notebook.
"""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from noiseworthy.reports import panels
from noiseworthy.reports.clients import who_figure
from noiseworthy.reports.findings import Outcome, Record, finding, headline, score_name
from noiseworthy.reports.style import new_figure, styled
from noiseworthy.reports.wording import count

WIDTH = 7.4


@styled
def why_figure(record: Record) -> Figure | None:
    """Why the plan is right: the predicted value against rounds and clients, with the plan marked."""
    if not record["evidence"] or not record["evidence"]["curves"]:
        return None
    figure = new_figure(WIDTH, 3.9)
    panels.prediction(figure.subplots(), record, headline(record))
    return figure


@styled
def training_figure(record: Record) -> Figure | None:
    """Test loss and score per round, over seeds."""
    if not record["training"]:
        return None
    scored = any(Outcome.of([curve[-1]]) for curve in record["training"]["accuracy"])
    figure = new_figure(WIDTH, 3.1)
    axes = figure.subplots(1, 1 + scored, squeeze=False)[0]
    panels.curves(axes[0], record, "loss", "Test loss")
    if scored:
        panels.curves(axes[1], record, "accuracy", f"Test {score_name(record)}")
    return figure


@styled
def compare_figure(record: Record) -> Figure | None:
    """The plan beside fixed settings; the title says what was found."""
    if not record["compare"]:
        return None
    scored = any(Outcome.of(cell["accuracy"]) for cell in record["compare"]["cells"])
    figure = new_figure(WIDTH, 7.0 if scored else 3.9)
    axes = figure.subplots(1 + scored, 1, squeeze=False)[:, 0]
    panels.settings(axes[0], record, "loss", finding(record) or "")
    if scored:
        panels.settings(axes[1], record, "accuracy", f"The same by test {score_name(record)}")
    return figure


@styled
def hero_figure(record: Record) -> Figure | None:
    """One wide figure to show a colleague: what was predicted, and what came of it."""
    predicted = bool(record["evidence"]) and bool(record["evidence"]["curves"])
    measured = bool(record["compare"]) or bool(record["training"])
    if not predicted and not measured:
        return None
    with matplotlib.rc_context(
        {"font.size": 10.5, "xtick.labelsize": 10, "ytick.labelsize": 10, "axes.labelsize": 10.5}
    ):
        figure = new_figure(12.6 if predicted and measured else 8.0, 4.6)
        axes = figure.subplots(1, predicted + measured, squeeze=False)[0]
        if predicted:
            panels.prediction(axes[0], record, f"Planned: {_lower(headline(record))}")
        if measured:
            _measured(axes[-1], record)
        figure.get_layout_engine().set(wspace=0.06)  # pyright: ignore[reportOptionalMemberAccess]
    return figure


def _measured(axes, record: Record) -> None:
    if record["compare"]:
        panels.settings(axes, record, "loss", f"Measured: {_lower(finding(record) or '')}")
    else:
        seeds = count(len(record["training"]["seeds"]), "seed")
        panels.curves(axes, record, "loss", f"Measured: test loss, {seeds}")


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].removesuffix(".")


FIGURES = {
    "why": why_figure,
    "training": training_figure,
    "who": who_figure,
    "compare": compare_figure,
    "hero": hero_figure,
}


def all_figures(record: Record) -> dict[str, Figure]:
    """Every figure that the record has data for, by name."""
    drawn = {name: draw(record) for name, draw in FIGURES.items()}
    return {name: figure for name, figure in drawn.items() if figure is not None}
