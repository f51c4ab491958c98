"""The plan beside what people take without planning: a row for each setting, with its own clip and step."""

from __future__ import annotations

from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noiseworthy._wording import count
from noiseworthy.reports import style
from noiseworthy.reports.findings import Outcome, over_seeds, score_name
from noiseworthy.reports.marks import beside
from noiseworthy.reports.result import beside_usual, compared_by, usual_verdict, written
from noiseworthy.reports.scales import free_limits, percent_axis
from noiseworthy.reports.style import INK, MUTED, NARROW, PAPER, PLAN, RULE, TONES, head, new_figure, styled
from noiseworthy.studies.typed_parts import Quantity
from noiseworthy.studies.typed_record import RunRecord
from noiseworthy.studies.typed_sweeps import ComparePart

_ROW, _AROUND = 0.44, 1.15
"""Inches of a row, and of everything around the rows."""


@styled
def usual_figure(record: RunRecord) -> Figure | None:
    """The plan and the usual settings from the best on; None where none was trained."""
    if (compare := record.compare) is None or not compare.usual:
        return None
    figure = new_figure(NARROW, _AROUND + _ROW * (1 + len(compare.usual)))
    usual_panel(figure.subplots(), record, compare, "The plan beside usual settings")
    return figure


def usual_panel(axes: Axes, record: RunRecord, compare: ComparePart, title: str) -> None:
    """A row for each: its name above, a dot at the mean over seeds, a bar from least to most."""
    what, rows = compared_by(compare), beside_usual(record, compare)
    unit = "loss" if what == "loss" else score_name(record)
    head(axes, title, f"test {unit} after training, {over_seeds(len(compare.seeds))}", "")
    axes.grid(visible=False)
    _limits(axes, record, what, [outcome for _, outcome, _ in rows])
    for row, (name, outcome, planned) in enumerate(rows):
        colour = PLAN if planned else TONES[2]
        _row(axes, row, name, colour)
        _mark(axes, row, outcome, colour, partial(written, record, what))
    prior = record.training.prior if record.training and what != "loss" else None
    if prior is not None:
        axes.axvline(prior, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    axes.set_yticks([])
    axes.set_ylim(len(rows) - 0.45, -0.75)


def usual_caption(record: RunRecord) -> str:
    """What the usual settings are, and what was found."""
    if (compare := record.compare) is None:
        return ""
    found, settings = usual_verdict(record), count(len(compare.usual), "usual setting")
    prior = record.training.prior if record.training and compared_by(compare) != "loss" else None
    line = "" if prior is None else " The dashed line is always answering the most frequent class."
    said = [f"{found}."] if found else []
    said += [
        f"Each of the {settings} spends the same privacy budget, with the exact noise that it needs, its own "
        f"clip and its own step; all clients reply in each round.{line}",
        "A clip that a paper reports belongs to records of that paper's scale.",
    ]
    return " ".join(said)


def _limits(axes: Axes, record: RunRecord, what: Quantity, outcomes: list[Outcome | None]) -> None:
    """All of accuracy; of losses and R² what was measured."""
    if what == "accuracy" and score_name(record) != "R²":
        axes.set_xlim(0, 1)
        percent_axis(axes.xaxis)
        return
    ends = [end for one in outcomes if one for end in (one.least, one.most) if np.isfinite(end)]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    if what == "accuracy":
        low = max(low, -1.0)
    free_limits(axes, low, high, free=0.06, ticks=5)


def _row(axes: Axes, row: int, name: str, colour: str) -> None:
    axes.axhline(row, color=RULE, linewidth=0.6, zorder=0)
    axes.annotate(
        name, (0, row), (0, 4), ("axes fraction", "data"), textcoords="offset points", va="bottom",
        color=PLAN if colour == PLAN else INK, fontweight="bold" if colour == PLAN else "normal",
        fontsize=style.small(), annotation_clip=False, bbox=style.ON_PAPER,
    )  # fmt: skip


def _mark(axes: Axes, row: int, outcome: Outcome | None, colour: str, write) -> None:
    said = "diverged" if outcome is None else write(outcome.mean)
    beside(axes, row, said, colour, fontweight="bold" if colour == PLAN else "normal")
    if outcome is None or not np.isfinite(outcome.mean):
        return
    mean = float(np.clip(outcome.mean, *axes.get_xlim()))
    axes.hlines(row, outcome.least, outcome.most, color=colour, linewidth=2.2, zorder=2)
    marker = "D" if colour == PLAN else "o"
    axes.plot(
        [mean], [row], marker, color=colour, markersize=7, markeredgecolor=PAPER, zorder=3,
        gid="plan" if colour == PLAN else "usual", clip_on=False,
    )  # fmt: skip
