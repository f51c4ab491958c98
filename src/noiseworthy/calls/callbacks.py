"""Who is told how a run goes: progress bars, trackers of experiments, code of the user's own.

A callback is handed what the run publishes and nothing else: its record, test scores, its folder. Records of
clients, gradients and noise never reach one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noiseworthy.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd

    from noiseworthy.calls.folder import RunFolder
    from noiseworthy.studies.typed_record import RunRecord


class Callback:
    """What a run tells; override what is of interest. An error that a callback raises ends the run."""

    def on_note(self, said: str) -> None:
        """What a user should know of the study before it is opened."""

    def on_planning(self, done: float) -> None:
        """The share of planning that is done; a plan that is given is not planned again."""

    def on_plan(self, record: RunRecord, folder: Path) -> None:
        """The record of the plan, before anything is trained, and the folder of the run, which holds it."""

    def on_rounds(self, done: float) -> None:
        """The share of rounds that is done, after every evaluation."""

    def on_segment(self, done: float, curves: pd.DataFrame) -> None:
        """The same with the scores so far; no frame is made where nobody looks at it.

        Args:
            done: between 0 and 1.
            curves: all test scores so far, as `RunFolder.curves`; those before a resume are among them.
        """

    def on_end(self, run: RunFolder) -> None:
        """The run, with its record and its report."""

    def on_failure(self, error: BaseException) -> None:
        """What ended the run before its end: an error, or the user."""

    @property
    def follows_curves(self) -> bool:
        """Whether `on_segment` does anything."""
        return type(self).on_segment is not Callback.on_segment


def _each(name: str) -> Any:
    """A method of `Several` by which each hears what it is told."""

    def tell(several: Several, *news: object) -> None:
        for one in several.told:
            getattr(one, name)(*news)

    return tell


@dataclass(frozen=True)
class Several(Callback):
    """Callbacks that are told one after the other."""

    told: Sequence[Callback]

    @classmethod
    def of(cls, stated: Callback | Iterable[Callback]) -> Several:
        """Those of a list, or one alone; InvalidInput for what is none."""
        told = tuple(stated) if isinstance(stated, Iterable) else (stated,)
        if odd := [one for one in told if not isinstance(one, Callback)]:
            raise InvalidInput(f"callbacks must be objects like noiseworthy.Callback(), got {odd[0]!r:.75}")
        return cls(told)

    on_note = _each("on_note")
    on_planning = _each("on_planning")
    on_plan = _each("on_plan")
    on_rounds = _each("on_rounds")
    on_segment = _each("on_segment")

    def on_end(self, run: RunFolder) -> None:
        """Tells all of them, whatever one raises: the run has ended well."""
        with ExitStack() as all_of_them:
            for one in reversed(self.told):
                all_of_them.callback(one.on_end, run)

    def on_failure(self, error: BaseException) -> None:
        """Tells all of them; what one raises is a note on the error, which stays what ended the run."""
        for one in self.told:
            try:
                one.on_failure(error)
            except Exception as also:
                error.add_note(f"{type(one).__name__} could not be told of it: {also!r:.200}")

    @property
    def follows_curves(self) -> bool:
        """Whether any does."""
        return any(one.follows_curves for one in self.told)
