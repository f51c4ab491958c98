"""Pages of runs as tests read them: as `write_report` writes them, in no folder."""

from __future__ import annotations

from noiseworthy.methods.words import Record
from noiseworthy.reports.figures import PLOTS, all_figures
from noiseworthy.reports.html import page_of
from noiseworthy.studies.typed_record import RunRecord, view


def render(record: Record | RunRecord) -> str:
    """The page of a record."""
    record = view(record)
    return page_of(record, all_figures(record, PLOTS))
