"""Steps that commands share: from a study file to its plan, its training and its report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noiseworthy.cli.console import err, out, progress_bar

if TYPE_CHECKING:
    from noiseworthy.studies.plan_file import Planned
    from noiseworthy.studies.prepare import Prepared
    from noiseworthy.studies.run_ledger import SharedLedger
    from noiseworthy.studies.tables import Study


def prepare_study(path: Path, data: Path | None, seconds: float | None = None) -> Prepared:
    """The study of a file, with its data, model and public facts."""
    from noiseworthy.studies.loading import load_study

    study = load_study(path)
    for found in study.found_elsewhere():
        err.print(
            f"note: {found} is read from the working directory; a study's paths start from its own folder, "
            f"where {path.parent / found} is not",
            soft_wrap=True,
        )
    study = _with_seconds(study if data is None else study.with_data_dir(data), seconds)
    federation = None
    if study.federation.data is not None:
        from noiseworthy.studies.opening import open_federation

        federation = open_federation(study)
    from noiseworthy.studies.prepare import prepare  # last, so that mistakes do not wait for jax

    return prepare(study, federation)


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
    with progress_bar("Training", planned.plan.all_rounds, "rounds") as bar:
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
