"""Steps that commands share: from a study file to its plan, its training and its report."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noiseworthy.cli.console import out, progress_bar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from noiseworthy.config import Study
    from noiseworthy.experiments.plan_file import Planned
    from noiseworthy.experiments.prepare import Prepared
    from noiseworthy.experiments.run_ledger import SharedLedger
    from noiseworthy.tasks import Task


def prepare_study(path: Path, data: Path | None, seconds: float | None = None) -> Prepared:
    """The study of a file, with its data, model and public facts."""
    from noiseworthy.config import load_study
    from noiseworthy.experiments.prepare import prepare

    return prepare(_with_seconds(_with_data_dir(load_study(path), data), seconds))


def _with_seconds(study: Study, seconds: float | None) -> Study:
    from noiseworthy import _validate as check

    if seconds is None:
        return study
    check.positive("--budget-seconds", seconds)
    return study.model_copy(
        update={"planning": study.planning.model_copy(update={"budget_seconds": seconds})}
    )


def _with_data_dir(study: Study, data: Path | None) -> Study:
    if data is None:
        return study
    return study.model_copy(update={"federation": study.federation.model_copy(update={"data_dir": data})})


def decide_plan(prepared: Prepared, plan: Path | None = None, kept: Path | None = None) -> Planned:
    """A study with its plan: from a file, from the folder of its run, or else decided now.

    Args:
        prepared: the study.
        plan: file of the plan.
        kept: folder of a run that goes on, whose plan was decided when it began.
    """
    from noiseworthy.engines.compilation import use_persistent_cache
    from noiseworthy.experiments.plan_file import kept_plan, load_plan, planned

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
    from noiseworthy.experiments.checkpoints import fingerprint
    from noiseworthy.experiments.flags import class_prior
    from noiseworthy.experiments.record import new_record, save_record, with_training
    from noiseworthy.experiments.run_folder import check_goes_on
    from noiseworthy.experiments.run_ledger import FILE as LEDGER
    from noiseworthy.experiments.training import train as run

    prepared, decision, file = planned
    federation, task = prepared.trained()
    plan, seeds = decision.plan, prepared.study.training.seeds
    record = new_record(prepared.study, decision, federation, prepared.dimension, name=name)
    belongs_to = prepared.study.model_dump_json(include={"federation": True, "task": True})
    mark = fingerprint(plan, seeds, belongs_to)
    if resume:  # a folder of another study must stay as it is
        check_goes_on(folder, mark, plan, ledger)
    file.save(folder)
    save_record(record, folder)
    if not plan.train:
        return record
    started = time.monotonic()
    evaluations = prepared.study.training.evaluations
    with progress_bar("Training", plan.all_rounds, "rounds") as bar:
        result = run(plan, federation, task, seeds, evaluations=evaluations, folder=folder,
                     resume=resume, belongs_to=belongs_to, ledger=ledger, on_progress=bar)  # fmt: skip
    save_model(folder, result.run.theta, seeds, task)
    record = with_training(record, result, seeds, time.monotonic() - started, class_prior(federation))
    record |= _entered(folder / LEDGER if ledger is None else ledger.path, mark)
    save_record(record, folder)
    return record


def save_model(folder: Path, theta: NDArray[np.float32], seeds: Sequence[int], task: Task) -> None:
    """Write `model.npz`: theta of every seed, a linear model's bias, what records are seen against."""
    import numpy as np

    from noiseworthy.tasks import LinearModel

    arrays: dict[str, Any] = {"theta": theta, "seeds": seeds}
    if isinstance(task, LinearModel):
        arrays["bias"] = task.bias
        if reference := task.preparation.reference:
            kept = task.preparation.projection or 0
            arrays |= {"mean": reference.mean, "directions": reference.directions[:kept]}
    np.savez(folder / "model.npz", **arrays)


def _entered(path: Path, mark: str) -> dict[str, Any]:
    """What the record keeps of the run's ledger; a training without noise has none."""
    from noiseworthy.experiments.run_folder import opened_ledger
    from noiseworthy.experiments.run_ledger import run_name
    from noiseworthy.reports.ledger import summary

    if not path.exists():
        return {}
    with opened_ledger(path) as books:
        return {"ledger": summary(books, run_name(mark))}


def finish(record: dict[str, Any], folder: Path, as_json: bool) -> None:
    """Write the report of a record and show it, as tables or as one JSON object."""
    from noiseworthy.reports import tables, write_report

    path = write_report(record, folder)
    if as_json:
        print(json.dumps(record, allow_nan=False))
        return
    shows = tables.plan_panel, tables.training_panel, tables.comparison_table, tables.tradeoff_table
    for show in (*shows, tables.rivals_table):
        if (shown := show(record)) is not None:
            out.print(shown)
    out.print(f"Report: {path}", soft_wrap=True)
