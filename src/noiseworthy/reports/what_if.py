"""What other budgets, more clients or other costs would give, as a figure and in a sentence."""

from __future__ import annotations

from itertools import pairwise

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from noiseworthy.reports.findings import metric_name, metric_score
from noiseworthy.reports.marks import Ink, points
from noiseworthy.reports.scales import score_limits, setting_axis
from noiseworthy.reports.style import MUTED, NARROW, PLAN, head, new_figure, styled
from noiseworthy.studies.typed_evidence import WhatIfCurvePart
from noiseworthy.studies.typed_record import RunRecord

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
