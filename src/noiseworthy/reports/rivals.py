"""DPFL-BCS beside its rivals as figures: all at the study's own point, and each along what is varied."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from noiseworthy._wording import finite, number
from noiseworthy.reports import rivals_words as words
from noiseworthy.reports.marks import Ink, Label, beside, inks, label_right, name_rows
from noiseworthy.reports.scales import free_limits, percent_axis
from noiseworthy.reports.style import MUTED, PAPER, PLAN, RULE, WIDE, head, new_figure, small, styled
from noiseworthy.studies.typed_record import RunRecord
from noiseworthy.studies.typed_sweeps import EntryPart, PointPart, RivalsPart

_ROW, _AROUND = 0.3, 1.25
"""Inches of a row of dots, and of everything around the rows."""
_PANEL = 3.1
"""Inches of a row of panels."""
_WIDE = 20.0
"""Losses that are further apart are on a logarithmic axis."""


@styled
def rivals_figure(record: RunRecord) -> Figure | None:
    """A row for each algorithm, the best on top: a dot per training, a mark at the mean."""
    if (rivals := record.rivals) is None:
        return None
    points = words.own_points(rivals)
    figure = new_figure(WIDE, _AROUND + _ROW * max(len(point.algorithms) for point in points))
    for axes, point in zip(figure.subplots(1, len(points), squeeze=False)[0], points, strict=True):
        standing(axes, record, rivals, point)
    return figure


@styled
def sweeps_figure(record: RunRecord) -> Figure | None:
    """A panel for each mechanism and each thing varied, a line per algorithm; None where nothing is."""
    if (rivals := record.rivals) is None:
        return None
    mechanisms = rivals.mechanisms
    varied: list[words.Varied] = [name for name in words.SWEEPS if words.sweep(rivals, mechanisms[0], name)]
    if not varied:
        return None
    figure = new_figure(WIDE if len(varied) == 1 else 1.5 * WIDE, _PANEL * len(mechanisms) + 0.3)
    grid = figure.subplots(len(mechanisms), len(varied), squeeze=False, sharey="row")
    for row, mechanism in zip(grid, mechanisms, strict=True):
        for axes, name in zip(row, varied, strict=True):
            _lines(axes, record, rivals, mechanism, name)
    return figure


# All at one point -------------------------------------------------------------------------------------


def standing(axes: Axes, record: RunRecord, rivals: RivalsPart, point: PointPart) -> None:
    """Everybody at a point, a row for each algorithm, its mean and deviation written at the edge."""
    entries, looks = words.ranked(rivals, point.algorithms), _looks(point)
    head(axes, _noise(point), _budgets(rivals, point), words.quantity_name(record, rivals))
    axes.grid(visible=False)
    _across(axes, rivals, point)
    for row, entry in enumerate(entries):
        _row(axes, rivals, entry, row, looks[entry.name])
    name_rows(axes, [entry.name for entry in entries], above=1.3)
    for label, entry in zip(axes.get_yticklabels(), entries, strict=True):
        label.set(color=looks[entry.name].colour, fontweight=_weight(entry.name))
    _mark_reference(axes, rivals, point)


def _row(axes: Axes, rivals: RivalsPart, entry: EntryPart, row: int, look: Ink) -> None:
    axes.axhline(row, color=RULE, linewidth=0.6, zorder=0)
    beside(axes, row, words.with_deviation(rivals, entry), look.colour, fontweight=_weight(entry.name))
    values, mean = finite(getattr(entry, rivals.quantity), np.nan), words.mean_of(rivals, entry)
    rows = np.full(len(values), row)
    axes.scatter(values, rows, 15, look.colour, alpha=0.45, linewidths=0, zorder=2, gid="training")
    if mean is not None:
        axes.plot(
            [mean], [row], look.marker, color=look.colour, markersize=6.5, markeredgecolor=PAPER, zorder=3,
            gid="mean",
        )  # fmt: skip


def _mark_reference(axes: Axes, rivals: RivalsPart, point: PointPart) -> None:
    """What training without noise reaches, as a line across all rows."""
    if (mean := words.mean_of(rivals, words.reference_of(rivals, point.alpha))) is None:
        return
    axes.axvline(mean, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    left = mean > np.mean(axes.get_xlim())
    axes.annotate(
        f"{words.REFERENCE}, no noise: {words.written(rivals, mean)}", (mean, -0.8), (-5 if left else 5, 0),
        textcoords="offset points", ha="right" if left else "left", va="center", color=MUTED,
        fontsize=small(),
    )  # fmt: skip


def _across(axes: Axes, rivals: RivalsPart, point: PointPart) -> None:
    """Limits that show everybody and the reference."""
    entries = [*point.algorithms, words.reference_of(rivals, point.alpha)]
    values = np.concatenate([finite(getattr(entry, rivals.quantity), np.nan) for entry in entries])
    known = values[np.isfinite(values)]
    low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
    if rivals.quantity == "loss" and low > 0 and high / low > _WIDE:
        axes.set_xscale("log")
        axes.set_xlim(low / 1.2, high * 1.2)
        return
    free_limits(axes, low, high, free=0.05, ticks=3)
    if rivals.quantity == "accuracy":
        percent_axis(axes.xaxis)


# Along what is varied ---------------------------------------------------------------------------------


def _lines(axes: Axes, record: RunRecord, rivals: RivalsPart, mechanism: str, name: words.Varied) -> None:
    """A line per algorithm with a bar of a standard deviation, named at its end."""
    points = words.sweep(rivals, mechanism, name)
    looks, along = _looks(points[0]), [getattr(point, name) for point in points]
    head(axes, _noise(points[0]), words.quantity_name(record, rivals), words.axis(record, name))
    _places(axes, along, logarithmic=name == "alpha")
    axes.axvline(getattr(rivals, name), color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
    references = [words.reference_of(rivals, point.alpha) for point in points]
    ends = [_line(axes, rivals, along, references, Ink(MUTED, ""))]
    for rival in points[0].algorithms:
        entries = [words.entry_of(point, rival.name) for point in points]
        ends.append(_line(axes, rivals, along, entries, looks[rival.name]))
    _upward(axes, rivals)
    label_right(axes, [end for end in ends if np.isfinite(end[0])], small())


def _line(axes: Axes, rivals: RivalsPart, along: list[float], entries: list[EntryPart], look: Ink) -> Label:
    """One algorithm's line; returns the label that it needs."""
    name = entries[0].name
    mean, std = (finite([of(rivals, e) for e in entries], np.nan) for of in (words.mean_of, words.std_of))
    ours = name == words.OURS
    axes.errorbar(
        along, mean, std, color=look.colour, marker=look.marker, markersize=7 if ours else 4.5,
        markeredgecolor=PAPER, linewidth=2.4 if ours else 1.2, elinewidth=0.9, zorder=4 if ours else 3,
        linestyle=(0, (4, 3)) if name == words.REFERENCE else "-", label=name,
    )  # fmt: skip
    known = mean[np.isfinite(mean)]
    return float(known[-1]) if known.size else np.nan, name, look.colour


def _places(axes: Axes, along: list[float], *, logarithmic: bool) -> None:
    """Ticks where points were measured."""
    if logarithmic:
        axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(along))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))


def _upward(axes: Axes, rivals: RivalsPart) -> None:
    """Accuracy from 0 to 100 %; losses as they are, on a logarithmic axis where they are far apart."""
    if rivals.quantity == "accuracy":
        axes.set_ylim(0, 1)
        percent_axis(axes.yaxis)
        return
    means = [words.mean_of(rivals, e) for point in rivals.points for e in point.algorithms]
    known = [mean for mean in means if mean is not None]
    if known and min(known) > 0 and max(known) / min(known) > _WIDE:
        axes.set_yscale("log")


# Looks ------------------------------------------------------------------------------------------------


def _looks(point: PointPart) -> dict[str, Ink]:
    """The same for an algorithm in every panel; that of DPFL-BCS is the plan's."""
    others = [entry.name for entry in point.algorithms if entry.name != words.OURS]
    return {**inks(others), words.OURS: Ink(PLAN, "D")}


def _weight(name: str) -> str:
    return "bold" if name == words.OURS else "normal"


def _noise(point: PointPart) -> str:
    return f"{point.mechanism.capitalize()} noise"


def _budgets(rivals: RivalsPart, point: PointPart) -> str:
    """Under which budgets, and on which partition."""
    parts = [] if point.epsilon_max is None else [f"ε up to {number(point.epsilon_max)}"]
    parts += [] if point.alpha is None else [f"Dirichlet {number(point.alpha)}"]
    return ", ".join(parts) or words.seeds_of(rivals)
