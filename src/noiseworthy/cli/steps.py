"""Steps that commands share: from a study file to its plan, its training and its report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noiseworthy.cli.bars import Bars, tell_whether_it_goes_on
from noiseworthy.cli.console import noted, out

if TYPE_CHECKING:
    from noiseworthy.studies.plan_file import Planned
    from noiseworthy.studies.prepare import Prepared
    from noiseworthy.studies.typed_record import RunRecord

Resume = Annotated[bool, typer.Option("--resume", help="go on from the run folder's checkpoint")]


def prepare_study(
    path: Path,
    data: Path | None,
    seconds: float | None = None,
    sets: Sequence[str] | None = None,
    *,
    plan: Path | None = None,
    folder: Path | None = None,
    trains: bool = True,
    deploys: bool = False,
) -> Prepared:
    """The study of a file, changed as `--set` says, with its data, model and public facts.

    Args:
        path: of the study.
        sets: other values for keys, each KEY=VALUE.
        data, seconds: as `calls.stated.stated`.
        plan, folder, trains, deploys: as `calls.stated.opened`.
    """
    from noiseworthy.calls.stated import opened, stated
    from noiseworthy.studies.changes import changes_of

    study = stated(path, data=data, seconds=seconds, changes=changes_of(sets or ()), note=noted)
    return opened(study, data=data, plan=plan, folder=folder, trains=trains, deploys=deploys)


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """A training in a run folder; who interrupts it is told whether it can go on."""
    try:
        yield
    except KeyboardInterrupt:
        tell_whether_it_goes_on(folder)
        raise


def decide_plan(prepared: Prepared, plan: Path | None = None, kept: Path | None = None) -> Planned:
    """A study with its plan, as `calls.steps.decided` finds it, behind a bar."""
    from noiseworthy.calls.steps import decided

    with Bars() as bars:
        return decided(prepared, plan, kept, bars.on_planning)


def train_plan(planned: Planned, folder: Path, *, name: str) -> dict[str, Any]:
    """The record of a training by the plan, whose checkpoints, model and record lie in `folder`."""
    from noiseworthy.calls.steps import trained

    with Bars() as bars:
        return trained(planned, folder, name, bars)


def finish(record: dict[str, Any], folder: Path, as_json: bool) -> None:
    """Write the report of a record and show it, as tables or as one JSON object."""
    from noiseworthy.reports.html import write_report
    from noiseworthy.studies.typed_record import view

    show(record, seen := view(record), write_report(seen, folder), as_json)


def show(record: dict[str, Any], seen: RunRecord, report: Path, as_json: bool) -> None:
    """A record that has its report, as tables or as one JSON object."""
    from noiseworthy.reports import coefficients, tables

    if as_json:
        print(json.dumps(record, allow_nan=False))
        return
    shows = tables.plan_panel, tables.training_panel, coefficients.coefficients_table, tables.home_table
    for panel in (*shows, tables.comparison_table, tables.tradeoff_table, tables.rivals_table):
        if (shown := panel(seen)) is not None:
            out.print(shown)
    out.print(f"Report: {report}", soft_wrap=True)
