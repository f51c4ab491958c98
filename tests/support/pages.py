"""Pages of runs as tests read them: as `write_report` writes them, in no folder."""

from __future__ import annotations

from itertools import pairwise

from matplotlib.figure import Figure

from noiseworthy.methods.words import Record
from noiseworthy.reports.figures import PLOTS, all_figures
from noiseworthy.reports.html import page_of
from noiseworthy.reports.style import styled
from noiseworthy.studies.typed_record import RunRecord, view


def render(record: Record | RunRecord) -> str:
    """The page of a record."""
    record = view(record)
    return page_of(record, all_figures(record, PLOTS))


def ticks_apart(figure: Figure) -> float:
    """The least room between numbers below any axes of a figure, in pixels; each has two or more."""
    styled(figure.draw_without_rendering)()
    rows = [[one for one in axes.get_xticklabels() if one.get_text()] for axes in figure.axes]
    boxes = [[label.get_window_extent() for label in row] for row in rows]
    return min(min(right.x0 - left.x1 for left, right in pairwise(row)) for row in boxes)
