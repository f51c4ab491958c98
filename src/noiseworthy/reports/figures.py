"""The figures of a report: each a function from a record to a figure, or None where the record has no data.

They use matplotlib's objects without its global state, so they may be drawn in any thread or notebook.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noiseworthy.reports import panels
from noiseworthy.reports.clients import who_figure
from noiseworthy.reports.estimates import estimates_figure
from noiseworthy.reports.findings import Record, final, finding, is_scored, score_name, setting
from noiseworthy.reports.leaks import leak_figure
from noiseworthy.reports.network import network_figure
from noiseworthy.reports.participation import has_participation, participation, participation_figure
from noiseworthy.reports.rivals import rivals_figure, standing, sweeps_figure
from noiseworthy.reports.rivals_words import own_points
from noiseworthy.reports.schedules import in_brief
from noiseworthy.reports.style import MUTED, drawable, new_figure, styled
from noiseworthy.reports.tradeoff import tradeoff_figure
from noiseworthy.reports.what_if import what_if_figure

WIDTH = 7.4
LARGE: dict[Any, Any] = {
    "font.size": 10.5,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "axes.labelsize": 10.5,
}


@styled
def why_figure(record: Record) -> Figure | None:
    """Why the plan is right: the predicted value along the axis that was decided, with the plan marked."""
    if not record["evidence"] or not record["evidence"]["curves"]:
        return None
    figure = new_figure(WIDTH, 3.9)
    panels.prediction(figure.subplots(), record, f"Planned: {in_brief(record)}")
    return figure


@styled
def training_figure(record: Record) -> Figure | None:
    """Test loss and score per round, over seeds."""
    if not record["training"]:
        return None
    scored = final(record, "accuracy") is not None
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
    scored = is_scored({**record, "training": None})
    figure = new_figure(WIDTH, 6.4 if scored else 3.9)
    axes = figure.subplots(1 + scored, 1, squeeze=False, height_ratios=[3, 2][: 1 + scored])[:, 0]
    panels.settings(axes[0], record, "loss", finding(record) or "")
    if scored:
        panels.settings(axes[1], record, "accuracy", f"The same by test {score_name(record)}")
    return figure


@styled
def hero_figure(record: Record) -> Figure | None:
    """One wide figure to show a colleague: what was predicted or whom to ask, and what came of it."""
    predicted = bool(record["evidence"]) and bool(record["evidence"]["curves"])
    planned = predicted or has_participation(record)
    measured = bool(record["compare"] or record["training"] or record.get("rivals"))
    if not planned and not measured:
        return None
    with matplotlib.rc_context(LARGE):
        figure = new_figure(12.6 if planned and measured else 8.0, 4.9)
        axes = figure.subplots(1, planned + measured, squeeze=False)[0]
        if predicted:
            panels.prediction(axes[0], record, f"Planned: {in_brief(record)}")
        elif planned:
            participation(axes[0], record)
        if measured:
            _measured(axes[-1], record)
        figure.suptitle(
            drawable(setting(record)), parse_math=False, x=0.008, ha="left", color=MUTED, fontsize=10
        )
    return figure


def _measured(axes: Axes, record: Record) -> None:
    found = finding(record)
    if record.get("rivals"):
        standing(axes, record, own_points(record)[0])
    elif found is None:
        panels.curves(axes, record, "loss", "Measured: test loss of the plan")
    else:
        panels.settings(axes, record, "loss", f"Measured: {found[0].lower()}{found[1:]}")


FIGURES = {
    "why": why_figure,
    "what-if": what_if_figure,
    "leak": leak_figure,
    "participation": participation_figure,
    "estimates": estimates_figure,
    "training": training_figure,
    "network": network_figure,
    "who": who_figure,
    "compare": compare_figure,
    "tradeoff": tradeoff_figure,
    "rivals": rivals_figure,
    "rivals-varied": sweeps_figure,
    "hero": hero_figure,
}


def all_figures(record: Record, names: Collection[str] = tuple(FIGURES)) -> dict[str, Figure]:
    """Every figure (of `names`) that the record has data for."""
    drawn = {name: draw(record) for name, draw in FIGURES.items() if name in names}
    return {name: figure for name, figure in drawn.items() if figure is not None}
