"""Steps that commands share: from a study file to its plan, its training and its report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noiseworthy.cli.console import err, out, progress_bar

if TYPE_CHECKING:
    from noiseworthy.studies.plan_file import Planned
    from noiseworthy.studies.prepare import Prepared
    from noiseworthy.studies.run_ledger import SharedLedger
    from noiseworthy.studies.tables import Study


def prepare_study(
    path: Path,
    data: Path | None,
    seconds: float | None = None,
    *,
    plan: Path | None = None,
    folder: Path | None = None,
    resume: bool = False,
) -> Prepared:
    """The study of a file, with its data, model and public facts.

    All that can be refused without a model or a planner is refused before these are loaded.

    Args:
        path: of the study.
        data: folder of data files, instead of the study's.
        seconds: for planning, instead of the study's.
        plan: file that the study will be trained, compared or audited by.
        folder: of a run that the study will be trained in; None for commands that train nothing.
        resume: whether a run is to go on in that folder.
    """
    from noiseworthy.studies.loading import load_study

    study = load_study(path)
    for found in study.found_elsewhere():
        err.print(
            f"note: {found} is read from the working directory; a study's paths start from its own folder, "
            f"where {path.parent / found} is not",
            soft_wrap=True,
        )
    study = _with_seconds(study if data is None else study.with_data_dir(data), seconds)
    from noiseworthy.studies.occupied import check_data, check_ours, check_plan, made_for

    if folder is not None:
        check_data(study)
    check_plan(plan)
    federation = None
    if study.federation.data is not None:
        from noiseworthy.data.files import data_folder
        from noiseworthy.studies.opening import check_clients, open_federation

        data_folder(data)
        federation = open_federation(study)
        check_clients(study, federation)
    if folder is not None:
        check_ours(folder, made_for(study, federation), resume=resume)
    from noiseworthy.studies.prepare import prepare  # last, so that mistakes do not wait for jax

    return prepare(study, federation)


def check_record(folder: Path) -> None:
    """Refuse a folder without a record, before anything is loaded that could read one.

    Raises:
        DataError: as `load_record`.
    """
    from noiseworthy.errors import DataError

    if not (path := folder / "record.json").exists():
        raise DataError(f"{path} does not exist; give a folder that train, compare or quickstart made")


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """A training in a run folder; who interrupts it is told whether it can go on."""
    try:
        yield
    except KeyboardInterrupt:
        from noiseworthy.studies.occupied import CHECKPOINT

        kept = (folder / CHECKPOINT).exists()
        goes_on = "The same command with --resume goes on from the last checkpoint."
        err.print(goes_on if kept else "No checkpoint was kept yet; there is nothing to go on from.")
        raise


def _with_seconds(study: Study, seconds: float | None) -> Study:
    from noiseworthy import _validate as check

    if seconds is None:
        return study
    check.positive("--budget-seconds", seconds)
    return study.model_copy(
        update={"planning": study.planning.model_copy(update={"budget_seconds": seconds})}
    )


def decide_plan(prepared: Prepared, plan: Path | None = None, kept: Path | None = None) -> Planned:
    """A study with its plan: from a file, from the folder of its run, or else decided now.

    Args:
        prepared: the study.
        plan: file of the plan.
        kept: folder of a run that goes on, whose plan was decided when it began.
    """
    from noiseworthy.engines.compilation import use_persistent_cache
    from noiseworthy.studies.plan_file import kept_plan, load_plan, planned

    if prepared.federation is not None:
        use_persistent_cache()
    if plan is not None:
        return load_plan(plan).applied(prepared)
    if kept is not None and (found := kept_plan(kept, prepared)) is not None:
        return found
    if prepared.federation is None:
        return planned(prepared)
    with progress_bar("Planning", 100, "%") as bar:
        return planned(prepared, bar)


def train_plan(
    planned: Planned,
    folder: Path,
    *,
    name: str,
    resume: bool = False,
    ledger: SharedLedger | None = None,
) -> dict[str, Any]:
    """The record of a training by the plan, whose checkpoints, model and record lie in `folder`."""
    from noiseworthy.studies.studies import train_in

    if not planned.plan.train:
        return train_in(planned, folder, name=name, resume=resume, ledger=ledger)
    bar_of_rounds = progress_bar("Training", planned.plan.all_rounds, "rounds")
    with resumable(folder), bar_of_rounds as bar:
        return train_in(planned, folder, name=name, resume=resume, ledger=ledger, on_progress=bar)


def finish(record: dict[str, Any], folder: Path, as_json: bool) -> None:
    """Write the report of a record and show it, as tables or as one JSON object."""
    from noiseworthy.reports import tables, write_report
    from noiseworthy.studies.typed_record import view

    path = write_report(seen := view(record), folder)
    if as_json:
        print(json.dumps(record, allow_nan=False))
        return
    shows = tables.plan_panel, tables.training_panel, tables.comparison_table, tables.tradeoff_table
    for show in (*shows, tables.rivals_table):
        if (shown := show(seen)) is not None:
            out.print(shown)
    out.print(f"Report: {path}", soft_wrap=True)
