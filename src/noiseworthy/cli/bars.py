"""Progress bars of a run, a bar for what it does at the time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from noiseworthy.calls.callbacks import Callback
from noiseworthy.cli.console import err, noted, progress_bar

if TYPE_CHECKING:
    from noiseworthy.calls.folder import RunFolder
    from noiseworthy.studies.typed_record import RunRecord


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
