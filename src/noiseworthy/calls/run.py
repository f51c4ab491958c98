"""A study in one call: plan, train, run folder, report; the code of `noiseworthy train`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noiseworthy.calls.callbacks import Callback, Several
from noiseworthy.calls.folder import RunFolder, curves_of
from noiseworthy.calls.stated import stated
from noiseworthy.engines.compilation import use_persistent_cache
from noiseworthy.engines.records import Curves
from noiseworthy.errors import ConfigError
from noiseworthy.reports.html import write_report
from noiseworthy.studies.changes import Changes
from noiseworthy.studies.decision import Progress
from noiseworthy.studies.plan_file import Planned, kept_plan, load_plan, planned
from noiseworthy.studies.prepare import Prepared, prepare
from noiseworthy.studies.run_ledger import SharedLedger
from noiseworthy.studies.studies import train_in
from noiseworthy.studies.typed_record import view


def run(
    study: Path | str,
    out: Path | str | None = None,
    *,
    seeds: int | Sequence[int] | None = None,
    set: Changes | None = None,
    resume: bool = False,
    plan: Path | str | None = None,
    data: Path | str | None = None,
    budget_seconds: float | None = None,
    ledger: Path | str | None = None,
    lifetime_epsilon: float | None = None,
    callbacks: Sequence[Callback] = (),
) -> RunFolder:
    """Plan a study, train it in simulation and write a run folder with model, record and report.

    Args:
        study: path of the study's file.
        out: run folder; by default `runs/NAME-OF-STUDY`.
        seeds: how many trainings, or their seeds, instead of `[training] seeds`.
        set: other values for keys of the study, such as `{"privacy.epsilon": 2.0}`.
        resume: go on from the folder's checkpoint.
        plan: file of a plan to go on with; by default the study is planned first.
        data: folder of data files, instead of NOISEWORTHY_DATA.
        budget_seconds: time for planning.
        ledger: file of a ledger that several runs on these data share.
        lifetime_epsilon: lifetime epsilon of clients that are new to the ledger.
        callbacks: told how it goes.

    Returns:
        The run, as its folder keeps it; of a plan that does not train, without a training.

    Raises:
        ConfigError, InvalidInput, DataError: a study that cannot be planned or trained.
        PlanError: a plan that was changed, or made for another study.
        ResumeError, LedgerError, BudgetExceeded: as `train_in`.
    """
    if plan is not None and budget_seconds is not None:
        raise ConfigError(
            "--budget-seconds is time for planning, and --plan has decided; leave one of them out"
        )
    shared = _shared(ledger, lifetime_epsilon)
    folder = Path("runs") / Path(study).stem if out is None else Path(out)
    told = Several(tuple(callbacks))
    try:
        asked = stated(study, data=data, seconds=budget_seconds, changes=set, seeds=seeds)
        made = decided(prepare(asked), plan, folder if resume else None, told.on_planning)
        record = trained(made, folder, Path(study).stem, told, resume=resume, ledger=shared)
        done = RunFolder(folder, view(record))
        write_report(done.record, folder)
        told.on_end(done)
    except BaseException as error:
        told.on_failure(error)
        raise
    return done


def decided(
    prepared: Prepared,
    plan: Path | str | None = None,
    kept: Path | None = None,
    on_progress: Progress = lambda done: None,
) -> Planned:
    """A study with its plan: from a file, from the folder of its run, or else decided now.

    Args:
        prepared: the study.
        plan: file of the plan.
        kept: folder of a run that goes on, whose plan was decided when it began.
        on_progress: told the share of planning done.
    """
    if prepared.federation is not None:
        use_persistent_cache()
    if plan is not None:
        return load_plan(Path(plan)).applied(prepared)
    if kept is not None and (found := kept_plan(kept, prepared)) is not None:
        return found
    if prepared.federation is not None:
        on_progress(0.0)
    return planned(prepared, on_progress)


def trained(
    made: Planned,
    folder: Path,
    name: str,
    told: Callback,
    *,
    resume: bool = False,
    ledger: SharedLedger | None = None,
) -> dict[str, Any]:
    """The record of a training by a plan, whose checkpoints, model and record lie in `folder`."""
    told.on_plan(view(made.record(name)), folder)
    seeds, rounds = made.prepared.study.training.seeds, made.plan.all_rounds

    def tell(curves: Curves) -> None:
        told.on_segment(float(curves.rounds[-1] / rounds), curves_of(seeds, *curves))

    return train_in(made, folder, name=name, resume=resume, ledger=ledger, on_curves=tell)


def _shared(ledger: Path | str | None, lifetime_epsilon: float | None) -> SharedLedger | None:
    if ledger is not None:
        return SharedLedger.of(Path(ledger), lifetime_epsilon)
    if lifetime_epsilon is not None:
        raise ConfigError("--lifetime-epsilon is of a ledger that runs share; name it with --ledger")
    return None
