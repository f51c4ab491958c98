"""What each owner reaches at home: a row of dots for each, or gains by records where owners are many."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from noiseworthy._wording import finite, shortened_apart
from noiseworthy.reports.at_home import MOST_ROWS, NAMES
from noiseworthy.reports.clients import evenly_chosen
from noiseworthy.reports.findings import score_name
from noiseworthy.reports.marks import name_marks, name_rows
from noiseworthy.reports.scales import percent_axis, setting_axis
from noiseworthy.reports.style import INK, MUTED, PAPER, PLAN, RULE, TONES, WIDE, head, new_figure, styled
from noiseworthy.studies.typed_owners import HomePart
from noiseworthy.studies.typed_record import RunRecord

Whole = NDArray[np.int64]
LOOKS = {"alone": ("s", TONES[4], PAPER), "shared": ("o", TONES[0], PAPER), "tuned": ("o", PLAN, PLAN)}
"""Marker, edge and face of each candidate."""
SIZES = {"alone": 58, "shared": 32, "tuned": 16}
"""Of markers, in points squared: each is seen around the next where scores are alike."""
SIGNS = {"alone": "□", "shared": "○", "tuned": "●"}


@styled
def home_figure(record: RunRecord) -> Figure | None:
    """Scores of owners alone, with the shared model and tuned, sorted by records; None where nobody asked."""
    home, federation = record.home, record.federation
    if home is None or federation is None or not any(home.tests):
        return None
    tested = np.flatnonzero(np.array(home.tests) > 0)
    order = tested[np.argsort(np.array(federation.sizes)[tested], kind="stable")]
    sizes = np.array(federation.sizes)[order]
    many = len(order) > MOST_ROWS
    figure = new_figure(WIDE, 3.6 if many else 1.35 + 0.21 * max(len(order), 3))
    if many:
        _gains(figure.subplots(), record, home, order, sizes)
    else:
        _rows(figure.subplots(), record, home, order, sizes)
    return figure


def _rows(axes: Axes, record: RunRecord, home: HomePart, order: Whole, sizes: Whole) -> None:
    """A row for each owner."""
    rows = np.arange(len(order))
    head(axes, f"Test {score_name(record)} of each owner", "", "")
    name_marks(axes, [(f"{SIGNS[name]} {NAMES[name]}", LOOKS[name][1]) for name in LOOKS])
    scores = {name: finite(one.scores, math.nan)[order] for name, one in home.candidates.items()}
    low, high = _ends(record, scores)
    axes.grid(visible=False)
    axes.hlines(rows, low, high, color=RULE, linewidth=0.6, zorder=0)
    least, most = (finite(v, math.nan)[order] for v in (home.tuned.least, home.tuned.most))
    axes.hlines(rows, np.clip(least, low, high), np.clip(most, low, high), color=PLAN, alpha=0.3, linewidth=3)
    for name, values in scores.items():
        marker, edge, face = LOOKS[name]
        axes.scatter(
            np.clip(values, low, high), rows, SIZES[name], face, marker=marker, edgecolors=edge,
            linewidths=1.2, zorder=3 + (name == "tuned"), clip_on=False,
        )  # fmt: skip
    names = shortened_apart([record.client_names[i] for i in order])
    name_rows(axes, [f"{name} ({n:,})" for name, n in zip(names, sizes.tolist(), strict=True)])
    axes.tick_params("y", labelcolor=INK)
    axes.set_xlim(low - 0.02 * (high - low), high + 0.02 * (high - low))
    if score_name(record) != "R²":
        percent_axis(axes.xaxis)
    axes.set_xlabel("in brackets: records that an owner learns from")


def _gains(axes: Axes, record: RunRecord, home: HomePart, order: Whole, sizes: Whole) -> None:
    """Gains of tuned over alone, by records."""
    chosen = evenly_chosen(len(order))
    order, sizes = order[chosen], sizes[chosen]
    gains, least, most = (finite(v, math.nan)[order] for v in (home.gains, home.gains_least, home.gains_most))
    drawn = f" ({len(chosen):,} of them drawn)" if len(chosen) < np.sum(np.array(home.tests) > 0) else ""
    title = f"Gain in test {score_name(record)}, tuned at home over alone"
    head(axes, title, "", f"records of an owner{drawn}")
    beyond = np.where(least > 0, 1, np.where(most < 0, -1, 0))
    name_marks(axes, [("● gains beyond chance", PLAN), ("● pays", TONES[3]), ("● not told apart", MUTED)])
    reach = min(1.0, 1.05 * max(float(np.nanmax(np.abs(gains), initial=0.05)), 0.05))
    for sign, colour in ((0, MUTED), (-1, TONES[3]), (1, PLAN)):
        at, shown = beyond == sign, np.clip(gains[beyond == sign], -reach, reach)
        alpha = 0.18 if sign == 0 else 0.5
        axes.vlines(
            sizes[at], np.clip(least[at], -reach, reach), np.clip(most[at], -reach, reach), color=colour,
            alpha=alpha, linewidth=0.8, zorder=1,
        )  # fmt: skip
        axes.scatter(sizes[at], shown, 12, colour, linewidths=0, zorder=3 + abs(sign))
    axes.axhline(0, color=INK, linewidth=0.8, zorder=2)
    setting_axis(axes, float(sizes.min()), float(sizes.max()))
    axes.set_ylim(-reach, reach)
    if score_name(record) != "R²":
        percent_axis(axes.yaxis)


def _ends(record: RunRecord, scores: dict[str, NDArray[np.float64]]) -> tuple[float, float]:
    """Ends of the axis of scores: what is beyond them is drawn at the edge."""
    if score_name(record) != "R²":
        return 0.0, 1.0
    known = np.concatenate([one[np.isfinite(one)] for one in scores.values()])
    return max(float(known.min(initial=0.0)) - 0.05, -1.0), 1.0
