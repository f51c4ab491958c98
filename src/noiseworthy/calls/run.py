"""A study in one call: plan, train, run folder, report; the code of `noiseworthy train`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from noiseworthy.calls.callbacks import Callback, Several
from noiseworthy.calls.stated import opened, stated
from noiseworthy.errors import ConfigError

if TYPE_CHECKING:
    from noiseworthy.calls.folder import RunFolder
    from noiseworthy.studies.changes import Changes
    from noiseworthy.studies.run_ledger import SharedLedger


def run(
    study: Path | str, out: Path | str | None = None, *, seeds: int | Sequence[int] | None = None,
    set: Changes | None = None, resume: bool = False, plan: Path | str | None = None,
    data: Path | str | None = None, budget_seconds: float | None = None, ledger: Path | str | None = None,
    lifetime_epsilon: float | None = None, callbacks: Callback | Sequence[Callback] = (),
) -> RunFolder:  # fmt: skip
    """Plan a study, train it in simulation and write a run folder with model, record and report.

    Args:
        study: path of the study's file.
        out: run folder; by default `runs/NAME-OF-STUDY`.
        seeds: how many trainings, or their seeds, instead of `[training] seeds`.
        set: other values for keys of the study, such as `{"privacy.epsilon": 2.0}`.
        resume: go on from the folder's checkpoint.
        plan: file of a plan to go on with; by default the study is planned first.
        data: folder of data files, instead of NOISEWORTHY_DATA.
        budget_seconds: time for the trials of planning; training and report come on top.
        ledger: file of a ledger that several runs on these data share.
        lifetime_epsilon: lifetime epsilon of clients that are new to the ledger.
        callbacks: told how it goes; several, or one.

    Returns:
        The run, as its folder keeps it; of a plan that does not train, without a training.

    Raises:
        ConfigError, InvalidInput, DataError: a study that cannot be planned or trained.
        PlanError: a plan that was changed, or made for another study.
        ResumeError, LedgerError, BudgetExceeded: as `train_in`.
    """
    if plan is not None and budget_seconds is not None:
        raise ConfigError("--budget-seconds is for planning, and --plan has decided; leave one of them out")
    shared = _shared(ledger, lifetime_epsilon)
    folder = Path("runs") / Path(study).stem if out is None else Path(out)
    told = Several.of(callbacks)
    try:
        asked = stated(study, data=data, seconds=budget_seconds, changes=set, seeds=seeds, note=told.on_note)
        prepared = opened(asked, data=data, plan=plan, folder=folder, resume=resume)
        from noiseworthy.calls.folder import RunFolder
        from noiseworthy.calls.steps import decided, trained
        from noiseworthy.reports.html import write_report
        from noiseworthy.studies.typed_record import view

        made = decided(prepared, plan, folder if resume else None, told.on_planning)
        record = trained(made, folder, Path(study).stem, told, resume=resume, ledger=shared)
        done = RunFolder(folder, view(record))
        write_report(done.record, folder)
    except BaseException as error:
        told.on_failure(error)
        raise
    told.on_end(done)
    return done


def _shared(ledger: Path | str | None, lifetime_epsilon: float | None) -> SharedLedger | None:
    if ledger is not None:
        from noiseworthy.studies.run_ledger import SharedLedger

        return SharedLedger.of(Path(ledger), lifetime_epsilon)
    if lifetime_epsilon is not None:
        raise ConfigError("--lifetime-epsilon is of a ledger that runs share; name it with --ledger")
    return None
