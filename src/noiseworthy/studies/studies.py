"""Studies as one calls them, from Python and from the command line: plan, train into a run folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from noiseworthy.model.folder import NAME, check_replaceable
from noiseworthy.studies.at_home import with_home
from noiseworthy.studies.checkpoints import fingerprint
from noiseworthy.studies.decision import Progress
from noiseworthy.studies.delivery import deliver
from noiseworthy.studies.flags import class_prior
from noiseworthy.studies.occupied import check_ours, held
from noiseworthy.studies.plan_file import Planned, keep_stages, load_plan, planned
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.prices import buys
from noiseworthy.studies.record import Record, beside_kept, save_record, with_training
from noiseworthy.studies.run_folder import check_goes_on, kept_in, opened_ledger
from noiseworthy.studies.run_ledger import FILE as LEDGER
from noiseworthy.studies.run_ledger import Owners, SharedLedger, entered
from noiseworthy.studies.tables import Study
from noiseworthy.studies.training import check_begins, train
from noiseworthy.studies.two_stages import OnCurves, untold


def plan(
    study: Study | Path | str, file: Path | str | None = None, on_progress: Progress = lambda done: None
) -> Planned:
    """A study with its plan: as a file has it, or decided now.

    Args:
        study: a study, or the path of its file.
        file: a plan that was made for the study; by default the study is planned.
        on_progress: told the share of planning done.

    Raises:
        ConfigError, InvalidInput: a study that cannot be planned.
        PlanError: a plan that was changed, or that was made for another study.

    Example:
        >>> from noiseworthy.studies.loading import parse_study
        >>> privacy = {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5, "clip_norm": 1.0}
        >>> stated = {"rounds": 4, "clients_per_round": 2, "step_size": 0.1}
        >>> stated |= {"momentum": 0.0, "averaging": 0.0, "weighting": 0.0}
        >>> sizes = {"federation": {"sizes": [100, 200]}, "task": {"dimension": 3}}
        >>> made = plan(parse_study({**sizes, "privacy": privacy, "algorithm": stated}))
        >>> made.plan.releases, len(made.file.digest)
        (array([4, 4]), 64)
    """
    prepared = prepare(study)
    return planned(prepared, on_progress) if file is None else load_plan(Path(file)).applied(prepared)


def train_in(
    planned: Planned, folder: Path, *, name: str, resume: bool = False, ledger: SharedLedger | None = None,
    on_progress: Progress = lambda done: None, on_curves: OnCurves = untold,
    on_kept: Callable[[], None] = lambda: None,
) -> Record:  # fmt: skip
    """Train a study by its plan in a run folder, which holds plan, ledger, checkpoint, model and record.

    Args:
        planned: the study with its plan.
        folder: of the run.
        name: of the study, in the record.
        resume: go on from the folder's checkpoint.
        ledger: that several runs on these data share; by default one in the folder for this run alone.
        on_progress: told the share of rounds done.
        on_curves: told after every evaluation what was reached so far.
        on_kept: called once the plan lies in the folder, before anything is trained.

    Returns:
        The record; of a plan that does not train, without a training.

    Raises:
        ConfigError: a study without data.
        InvalidInput, DataError, ResumeError, LedgerError, BudgetExceeded: as `training.train`.
    """
    prepared, file, made = planned.prepared, planned.file, planned.plan
    federation, task = prepared.trained()
    table = prepared.study.training
    check_begins(made)
    record = beside_kept(planned.record(name), folder, trains=True)
    belongs_to = prepared.study.names_data
    mark = fingerprint(made, table.seeds, belongs_to)
    if resume:  # a folder of another study must stay as it is
        check_goes_on(folder, mark, made, federation.content, ledger)
    check_ours(folder, file.made_for)
    check_replaceable(folder / NAME)
    with held(folder):
        # before the first release: a run that is killed at any moment after it is known by plan and study
        file.save(folder)
        save_record(record, folder)
        on_kept()
        books = folder / LEDGER if ledger is None else ledger.path
        if not made.train:
            if buys(made):  # it was released while planning, whatever the plan made of it
                plans, owners = [made] * len(table.seeds), Owners(federation.name, federation.clients)
                with kept_in(folder, mark, plans, table.seeds, owners, ledger=ledger):
                    record |= _ledger_of(books, mark)
                save_record(record, folder)
            return record
        started = time.monotonic()
        run = train(
            made, federation, task, table.seeds, evaluations=table.evaluations, folder=folder, resume=resume,
            belongs_to=belongs_to, ledger=ledger, on_progress=on_progress, on_curves=on_curves,
            on_stage=lambda plans: keep_stages(folder, plans, table.seeds),
        )  # fmt: skip
        kept = record.get("training") if resume else None  # of a run that had ended, nothing was trained anew
        seconds = kept["seconds"] if kept else time.monotonic() - started
        record = with_training(record, run, table.seeds, seconds, class_prior(federation))
        record = deliver(prepared, run.theta[0], record, table.seeds, folder)
        record = with_home(prepared, run.theta[0], record, table.seeds[0])
        record |= _ledger_of(books, mark)
        save_record(record, folder)
        return record


def _ledger_of(path: Path, mark: str) -> Record:
    """What the record keeps of the run's ledger; a training without noise has none."""
    if not path.exists():
        return {}
    with opened_ledger(path) as books:
        return {"ledger": entered(books, mark)}
