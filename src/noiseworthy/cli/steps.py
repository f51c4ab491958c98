"""Steps that commands share: from a study file to its plan, its training and its report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noiseworthy.calls.callbacks import Callback
from noiseworthy.cli.console import err, noted, out, progress_bar

if TYPE_CHECKING:
    from noiseworthy.calls.folder import RunFolder
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


class Bars(Callback):
    """A bar for planning, then one for training; use it as a context, so that none is left open."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._bar: Callable[..., None] | None = None
        self._trained_in: Path | None = None

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._close()
        if kind is not None and issubclass(kind, KeyboardInterrupt) and self._trained_in is not None:
            tell_whether_it_goes_on(self._trained_in)

    def on_note(self, said: str) -> None:
        """Says it above the bars."""
        noted(said)

    def on_planning(self, done: float) -> None:
        """Moves the bar of planning."""
        bar = self._bar or self._begin("Planning", 100, "%")
        bar(done)

    def on_plan(self, record: RunRecord, folder: Path) -> None:
        """Begins the bar of training."""
        self._close()
        plan = record.plan
        if plan.train:
            self._trained_in = folder
            before = plan.estimation.rounds if plan.estimation else 0
            self._begin("Training", before + plan.rounds, "rounds")

    def on_rounds(self, done: float) -> None:
        """Moves the bar of training."""
        if self._bar is not None:
            self._bar(done)
        if done >= 1:
            self._close()

    def on_end(self, run: RunFolder) -> None:
        """Ends the last bar."""
        self._close()

    def _begin(self, label: str, total: int, unit: str) -> Callable[..., None]:
        self._bar = self._open.enter_context(progress_bar(label, total, unit))
        return self._bar

    def _close(self) -> None:
        self._open.close()
        self._bar = None


def tell_whether_it_goes_on(folder: Path) -> None:
    """Who interrupts a training is told whether it can go on."""
    from noiseworthy.studies.occupied import CHECKPOINT

    kept = (folder / CHECKPOINT).exists()
    goes_on = "The same command with --resume goes on from the last checkpoint."
    err.print(goes_on if kept else "No checkpoint was kept yet; there is nothing to go on from.")
