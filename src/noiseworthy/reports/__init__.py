"""Reports of a run record: figures, privacy statement, HTML page and tables for the terminal.

Names are loaded on first use, so that a table in the terminal never waits for the drawing library.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "render": "noiseworthy.reports.html",
    "write_report": "noiseworthy.reports.html",
    "all_figures": "noiseworthy.reports.figures",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'noiseworthy.reports' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
