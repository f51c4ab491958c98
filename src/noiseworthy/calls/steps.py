"""Steps of a run: its plan, and its training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from noiseworthy.calls.callbacks import Callback
from noiseworthy.calls.folder import curves_of
from noiseworthy.engines.records import Curves
from noiseworthy.studies.decision import Progress
from noiseworthy.studies.plan_file import Planned, kept_plan, load_plan, planned
from noiseworthy.studies.prepare import Prepared
from noiseworthy.studies.typed_record import view

if TYPE_CHECKING:
    from noiseworthy.studies.run_ledger import SharedLedger


def decided(
    prepared: Prepared, plan: Path | str | None = None, kept: Path | None = None,
    on_progress: Progress = lambda done: None,
) -> Planned:  # fmt: skip
    """A study with its plan: from a file, from the folder of its run, or else decided now.

    Args:
        prepared: the study.
        plan: file of the plan.
        kept: folder of a run that goes on, whose plan was decided when it began.
        on_progress: told the share of planning done.
    """
    if plan is not None:
        return load_plan(Path(plan)).applied(prepared)
    if kept is not None and (found := kept_plan(kept, prepared)) is not None:
        return found
    if prepared.federation is not None:
        on_progress(0.0)
    return planned(prepared, on_progress)


def trained(
    made: Planned, folder: Path, name: str, told: Callback, *, resume: bool = False,
    ledger: SharedLedger | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The record of a training by a plan, whose checkpoints, model and record lie in `folder`."""
    from noiseworthy.studies.studies import train_in  # here, because deciding trains nothing

    seeds, rounds = made.prepared.study.training.seeds, made.plan.all_rounds

    def tell(curves: Curves) -> None:
        done = float(curves.rounds[-1] / rounds)
        told.on_rounds(done)
        if told.follows_curves:
            told.on_segment(done, curves_of(seeds, *curves))

    return train_in(
        made, folder, name=name, resume=resume, ledger=ledger, on_curves=tell,
        on_kept=lambda: told.on_plan(view(made.record(name)), folder),
    )  # fmt: skip
