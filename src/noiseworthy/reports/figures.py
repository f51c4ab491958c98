"""The figures of a report: each a function from a record to a figure, or None where the record has no data.

They use matplotlib's objects without its global state, so they may be drawn in any thread or notebook.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import pairwise
from textwrap import fill
from typing import Any, TypeAlias

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from noiseworthy._wording import number, rounded_up
from noiseworthy.reports import alternatives, at_home, findings, panels, rivals_words, tradeoff_words
from noiseworthy.reports.alternatives import Leak, leak_of
from noiseworthy.reports.at_home_figure import home_figure
from noiseworthy.reports.clients import who_figure
from noiseworthy.reports.findings import (
    final,
    finding,
    is_scored,
    metric_name,
    metric_score,
    score_name,
    setting,
)
from noiseworthy.reports.marks import Ink, name_rows, points
from noiseworthy.reports.network import network_caption, network_figure, score_caption, score_figure
from noiseworthy.reports.participation import (
    estimates_caption,
    estimates_figure,
    has_participation,
    participation,
    participation_caption,
    participation_figure,
)
from noiseworthy.reports.result import title
from noiseworthy.reports.rivals import rivals_figure, standing, sweeps_figure
from noiseworthy.reports.rivals_words import own_points
from noiseworthy.reports.scales import score_limits, setting_axis
from noiseworthy.reports.schedules import in_brief
from noiseworthy.reports.style import (
    INK,
    MUTED,
    NARROW,
    PLAN,
    TONES,
    WIDE,
    drawable,
    head,
    new_figure,
    styled,
)
from noiseworthy.reports.tradeoff import tradeoff_figure, trusts_figure
from noiseworthy.reports.usual import usual_caption, usual_figure, usual_panel
from noiseworthy.reports.what_if_words import what_if_caption
from noiseworthy.studies.typed_evidence import WhatIfCurvePart
from noiseworthy.studies.typed_record import RunRecord

Draw: TypeAlias = Callable[[RunRecord], Figure | None]
Caption: TypeAlias = Callable[[RunRecord], str]
LARGE: dict[Any, Any] = {
    "font.size": 10.5, "xtick.labelsize": 10, "ytick.labelsize": 10, "axes.labelsize": 10.5,
}  # fmt: skip


@styled
def why_figure(record: RunRecord) -> Figure | None:
    """Why the plan is right: the predicted value along the axis that was decided, with the plan marked."""
    if not (evidence := record.evidence) or not evidence.curves:
        return None
    figure = new_figure(NARROW, 3.5)
    panels.prediction(figure.subplots(), record, evidence, f"Planned: {in_brief(record)}")
    return figure


@styled
def training_figure(record: RunRecord) -> Figure | None:
    """Test loss and score per round, over seeds."""
    if (training := record.scored) is None:
        return None
    scored = final(record, "accuracy") is not None
    figure = new_figure(NARROW, 3.0 * (1 + scored))
    axes = figure.subplots(1 + scored, 1, squeeze=False)[:, 0]
    panels.curves(axes[0], record, training, "loss", "Test loss")
    if scored:
        panels.curves(axes[1], record, training, "accuracy", f"Test {score_name(record)}")
    return figure


@styled
def compare_figure(record: RunRecord) -> Figure | None:
    """The plan beside fixed settings; the title says what was found."""
    if (compare := record.compare) is None:
        return None
    scored = is_scored(compare)
    figure = new_figure(NARROW, 6.4 if scored else 3.5)
    axes = figure.subplots(1 + scored, 1, squeeze=False, height_ratios=[3, 2][: 1 + scored])[:, 0]
    panels.settings(axes[0], record, compare, "loss", finding(record) or "")
    if scored:
        panels.settings(axes[1], record, compare, "accuracy", f"The same by test {score_name(record)}")
    return figure


@styled
def hero_figure(record: RunRecord) -> Figure | None:
    """One wide figure to show a colleague: what was predicted or whom to ask, and what came of it."""
    evidence = record.evidence if record.evidence and record.evidence.curves else None
    followed = record.scored is not None and evidence is not None and evidence.course is not None
    planned = evidence is not None or has_participation(record)
    measured = bool(record.compare or record.scored or record.rivals)
    if not planned and not measured:
        return None
    with matplotlib.rc_context(LARGE):
        figure = new_figure(12.6 if planned and measured else 8.0, 4.9)
        axes = figure.subplots(1, planned + measured, squeeze=False)[0]
        if followed and record.compare and record.scored:
            panels.curves(axes[0], record, record.scored, "loss", "Predicted and measured: test loss")
        elif evidence is not None:
            panels.prediction(axes[0], record, evidence, f"Planned: {in_brief(record)}")
        elif planned:
            participation(axes[0], record)
        if measured:
            _measured(axes[-1], record)
        said = fill(drawable(setting(record)), int(12 * figure.get_figwidth()))
        figure.suptitle(said, parse_math=False, x=0.008, ha="left", color=MUTED, fontsize=10)
    return figure


def _measured(axes: Axes, record: RunRecord) -> None:
    found = finding(record)
    if record.rivals:
        standing(axes, record, record.rivals, own_points(record.rivals)[0])
    elif record.compare and record.compare.usual:
        usual_panel(axes, record, record.compare, title(record))
    elif record.compare and found:
        panels.settings(axes, record, record.compare, "loss", f"Measured: {found[0].lower()}{found[1:]}")
    elif record.scored:
        panels.curves(axes, record, record.scored, "loss", "Measured: test loss of the plan")


@styled
def leak_figure(record: RunRecord) -> Figure | None:
    """Epsilon spent by the plan and by the printed noise, beside the budget; None where it is not known."""
    if (leak := leak_of(record.plan)) is None:
        return None
    figure = new_figure(WIDE, 2.15)
    axes = figure.subplots()
    title = f"Budget {rounded_up(leak.budget, 6)}, as printed {rounded_up(leak.printed, 3)}"
    head(axes, title, "privacy loss ε of the client that is worst off", "")
    axes.grid(visible=False)
    _bars(axes, _bars_of(leak))
    axes.axvline(leak.budget, color=INK, linewidth=1.2, linestyle=(0, (3, 2)), zorder=3)
    return figure


def _bars_of(leak: Leak) -> list[tuple[str, float, str]]:
    """Name, epsilon and colour of each bar."""
    noise = f"noise {number(leak.noise)}" if leak.noise else "no training"
    return [
        ("budget", leak.budget, INK),
        (f"this plan, {noise}", leak.plan, PLAN),
        (f"as printed, noise {number(leak.printed_noise)}", leak.printed, TONES[3]),
        ("as printed, by the paper's conversion", leak.converted, TONES[1]),
    ]


def _bars(axes: Axes, bars: list[tuple[str, float, str]]) -> None:
    names, values, colours = zip(*bars, strict=True)
    places = range(len(bars))
    axes.barh(places, values, height=0.6, color=colours)
    for place, value, colour in zip(places, values, colours, strict=True):
        axes.annotate(
            rounded_up(value, 3), (value, place), (5, 0), textcoords="offset points", va="center",
            color=colour, fontweight="bold",
        )  # fmt: skip
    name_rows(axes, names, below=0.5)
    axes.tick_params("y", labelcolor=INK)
    axes.set_xlim(0, 1.12 * max(values))


_TITLES = {"epsilon": "More privacy budget", "clients": "More clients", "cost": "More work"}
_DOTS = Ink(MUTED, "o")
_DASHED = (0, (3, 2))


@styled
def what_if_figure(record: RunRecord) -> Figure | None:
    """Predicted score along epsilon, clients and cost, dashed where it is extrapolated."""
    if record.what_if is None:
        return None
    curves = record.what_if.curves
    figure = new_figure(NARROW, 2.4 * len(curves))
    panels = figure.subplots(len(curves), 1, squeeze=False)[:, 0]
    levels = [accuracy for curve in curves.values() for accuracy in curve.accuracy]
    levels += [accuracy for curve in curves.values() for _, accuracy in curve.trials]
    for axes, (name, curve) in zip(panels, curves.items(), strict=True):
        head(axes, _TITLES[name], f"test {metric_name(record)}, predicted", curve.axis)
        setting_axis(axes, curve.x[0], curve.x[-1])
        score_limits(axes, record, levels)
        if metric_name(record) == "AUC":
            axes.yaxis.set_major_formatter(ScalarFormatter())
        _draw(axes, record, curve)
    return figure


def _draw(axes: Axes, record: RunRecord, curve: WhatIfCurvePart) -> None:
    """A curve in pieces, trials as dots, and the study's own place as a ring with its value."""
    places = list(zip(curve.x, curve.accuracy, curve.inside, strict=True))
    for (x, y, inside), (next_x, next_y, next_inside) in pairwise(places):
        style = "-" if inside and next_inside else _DASHED
        axes.plot([x, next_x], [y, next_y], color=PLAN, linewidth=1.8, linestyle=style, zorder=2)
    if curve.trials:
        x, y = np.array(curve.trials).T
        points(axes, x, y, _DOTS)
    own = float(np.interp(np.log(curve.own), np.log(curve.x), curve.accuracy))
    axes.plot([curve.own], [own], "o", color=PLAN, markersize=9, markerfacecolor="none",
              markeredgewidth=1.8, zorder=5, gid="plan")  # fmt: skip
    axes.annotate(
        metric_score(record, own), (curve.own, own), (0, 9), textcoords="offset points", ha="center",
        color=PLAN, fontweight="bold", fontsize=matplotlib.rcParams["font.size"],
    )  # fmt: skip


PLOTS: dict[str, tuple[Draw, str, Caption]] = {
    "usual": (usual_figure, "The plan beside usual settings", usual_caption),
    "training": (training_figure, "What training reached", findings.training_caption),
    "home": (home_figure, "What each owner reaches", at_home.home_caption),
    "why": (why_figure, "Why this plan", findings.why_caption),
    "what-if": (what_if_figure, "What if", what_if_caption),
    "leak": (leak_figure, "What the printed formula would have leaked", alternatives.leak_caption),
    "participation": (participation_figure, "Whom to ask", participation_caption),
    "estimates": (estimates_figure, "What was estimated", estimates_caption),
    "score": (score_figure, "What owners told of the model", score_caption),
    "network": (network_figure, "How the network did", network_caption),
    "compare": (compare_figure, "The plan beside other counts at its own step", at_home.compare_caption),
    "tradeoff": (tradeoff_figure, "Trade-off", tradeoff_words.caption),
    "trusts": (trusts_figure, "Whom to trust", tradeoff_words.trusts_caption),
    "rivals": (rivals_figure, "DPFL-BCS beside its rivals", rivals_words.caption),
    "rivals-varied": (sweeps_figure, "Other budgets, other data", rivals_words.sweeps_caption),
    "who": (who_figure, "Who was asked, and what it cost", findings.who_caption),
}
"""The figures on the page, with their titles and captions."""
FIGURES = {name: draw for name, (draw, _, _) in PLOTS.items()} | {"hero": hero_figure}
"""All figures."""


def all_figures(record: RunRecord, names: Collection[str] = tuple(FIGURES)) -> dict[str, Figure]:
    """Every figure (of `names`) that the record has data for."""
    drawn = {name: draw(record) for name, draw in FIGURES.items() if name in names}
    return {name: figure for name, figure in drawn.items() if figure is not None}
