"""What owners told of the model, drawn and in words."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from noiseworthy._wording import count, shortened_apart
from noiseworthy.reports.marks import name_rows
from noiseworthy.reports.style import PLAN, TONES, WIDE, head, new_figure, styled
from noiseworthy.studies.told_scores import sentences
from noiseworthy.studies.typed_record import RunRecord

_SHOWN = 20
"""Owners that are drawn, those with the most records."""


@styled
def score_figure(record: RunRecord) -> Figure | None:
    """The told score of all, of both classes and of each owner, two deviations to either side."""
    if record.network is None or (told := record.network.score) is None:
        return None
    shown = sorted(told.owners, key=lambda one: -one.records)[:_SHOWN]
    names = shortened_apart([one.client for one in shown])
    rows = [("all records", told.score, told.deviation, PLAN)]
    rows += [(f"of {one.label}", one.found, one.deviation, TONES[3]) for one in told.classes]
    rows += [(name, one.score, one.deviation, TONES[1]) for name, one in zip(names, shown, strict=True)]
    unit = told.reach or 1.0
    figure = new_figure(WIDE, 1.3 + 0.28 * len(rows))
    axes = figure.subplots()
    for row, (_, score, deviation, colour) in enumerate(rows):
        least, most = max(0.0, score - 2 * deviation), min(unit, score + 2 * deviation)
        axes.plot([least, most], [row, row], color=colour, linewidth=2, alpha=0.5, clip_on=False)
        axes.plot([score], [row], "o", color=colour, markersize=5, clip_on=False)
    said = "mean error of predictions" if told.reach else "records that the model is right on"
    head(axes, "What owners told of the model", f"{said}; two standard deviations to either side", "")
    name_rows(axes, [name for name, *_ in rows], 0.5, 0.5)
    if not told.reach:
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter(PercentFormatter(1))
    return figure


def score_caption(record: RunRecord) -> str:
    """What the figure shows; empty where owners told nothing."""
    if record.network is None or (told := record.network.score) is None:
        return ""
    hidden = len(told.owners) - _SHOWN
    others = f" {count(hidden, 'owner')} with fewer records not drawn." if hidden > 0 else ""
    return f"{sentences(told)[0]} Of single owners noise leaves less to be known.{others}"
