"""Commands that train in simulation and leave a run folder: train, compare, quickstart and their kin."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from noiseworthy.cli.console import err, foretell, out, progress_bar, shows_progress
from noiseworthy.cli.options import AsJson, DataDir, OutFolder, PlanJson, Seconds, Seeds, Sets, StudyFile
from noiseworthy.cli.steps import Resume, decide_plan, finish, prepare_study, show, train_plan
from noiseworthy.errors import DataError

if TYPE_CHECKING:
    from noiseworthy.studies.plan_file import Planned
    from noiseworthy.studies.planner import Decision
    from noiseworthy.studies.prepare import Prepared
    from noiseworthy.sweeps.contest import Contest
    from noiseworthy.sweeps.tradeoff import Surface


@shows_progress
def train(
    study: StudyFile, out_folder: OutFolder = None, plan: PlanJson = None, resume: Resume = False,
    data: DataDir = None, as_json: AsJson = False, budget_seconds: Seconds = None,
    ledger: Annotated[
        Path | None, typer.Option(help="ledger that several runs on these data share, beside run folders")
    ] = None,
    lifetime_epsilon: Annotated[
        float | None, typer.Option(help="lifetime epsilon of clients that are new to --ledger")
    ] = None,
    sets: Sets = None, seeds: Seeds = None,
) -> None:  # fmt: skip
    """Plan a study, train it in simulation and write a run folder with model, record and report."""
    from noiseworthy.calls.run import run
    from noiseworthy.cli.steps import Bars
    from noiseworthy.studies.changes import changes_of, seeds_of

    with Bars() as bars:
        done = run(
            study, out_folder, seeds=None if seeds is None else seeds_of(seeds), set=changes_of(sets or ()),
            resume=resume, plan=plan, data=data, budget_seconds=budget_seconds, ledger=ledger,
            lifetime_epsilon=lifetime_epsilon, callbacks=[bars],
        )  # fmt: skip
    from noiseworthy.studies.record import load_record

    show(load_record(done.folder), done.record, done.report, as_json)


@shows_progress
def compare(
    study: StudyFile, out_folder: OutFolder = None, plan: PlanJson = None, data: DataDir = None,
    as_json: AsJson = False, sets: Sets = None,
) -> None:  # fmt: skip
    """Train the plan beside a grid of fixed settings and report the gain that the plan loses."""
    folder = out_folder or Path("runs") / study.stem
    planned = decide_plan(prepare_study(study, data, sets=sets, plan=plan, folder=folder), plan)
    if planned.plan.train:
        from noiseworthy.sweeps.compare import fixed_settings

        fixed_settings(planned.plan, planned.prepared.trained()[1], planned.prepared.study)
    record = train_plan(planned, folder, name=study.stem) if planned.plan.train else None
    _show(folder, as_json, lambda: _compare(planned, folder, record, name=study.stem))


@shows_progress
def tradeoff(
    study: StudyFile, out_folder: OutFolder = None, data: DataDir = None, as_json: AsJson = False,
    sets: Sets = None,
) -> None:  # fmt: skip
    """Plan and train for other privacy and resource budgets, and draw what each pair of them reaches."""
    folder = out_folder or Path("runs") / study.stem
    prepared = prepare_study(study, data, sets=sets, folder=folder)
    from noiseworthy.sweeps.tradeoff import Surface

    surface = Surface.of(prepared)
    prepared, decision, _ = decide_plan(prepared)
    _show(folder, as_json, lambda: _tradeoff(surface, prepared, decision, folder, name=study.stem))


@shows_progress
def rivals(
    study: StudyFile, out_folder: OutFolder = None, data: DataDir = None, as_json: AsJson = False,
    sets: Sets = None,
) -> None:  # fmt: skip
    """Train DPFL-BCS and the algorithms it is held against side by side, on the study's own federation."""
    folder = out_folder or Path("runs") / study.stem
    prepared = prepare_study(study, data, sets=sets, folder=folder)
    from noiseworthy.sweeps.contest import Contest

    contest = Contest.of(prepared)
    _show(folder, as_json, lambda: _rivals(contest, prepared, folder, name=study.stem))


@shows_progress
def quickstart(out_folder: OutFolder = None) -> None:
    """Plan, train and compare on the digits that ship with scikit-learn, and write a report."""
    from importlib.resources import as_file, files

    folder = out_folder or Path("runs") / "quickstart"
    with as_file(files("noiseworthy") / "quickstart.toml") as path:
        prepared = prepare_study(path, None, folder=folder)
    said = "ten clients, two kinds of digits each, epsilon = 4 for every record"
    err.print(Text("noiseworthy quickstart", "bold"), said, sep=": ")
    planned = decide_plan(prepared)
    record = train_plan(planned, folder, name="quickstart")
    _show(folder, False, lambda: _compare(planned, folder, record, name="quickstart"))


def report(folder: Annotated[Path, typer.Argument(help="run folder")]) -> None:
    """Write the HTML report of a run folder again."""
    # said here as well as by load_record, which takes a second to load
    if not (path := folder / "record.json").exists():
        raise DataError(f"{path} does not exist; give a folder that train, compare or quickstart made")
    from noiseworthy.reports.html import write_report
    from noiseworthy.studies.record import load_record

    out.print(f"Report: {write_report(load_record(folder), folder)}", soft_wrap=True)


def _show(folder: Path, as_json: bool, work: Callable[[], dict[str, Any]]) -> None:
    """What comes of some work in a run folder that nobody else writes to."""
    from noiseworthy.studies.occupied import held
    from noiseworthy.studies.record import save_record

    with held(folder):
        save_record(record := work(), folder)
        finish(record, folder, as_json)


def _compare(planned: Planned, folder: Path, record: dict[str, Any] | None, *, name: str) -> dict[str, Any]:
    from noiseworthy.studies.at_home import delivers_to_owners
    from noiseworthy.studies.record import beside_kept
    from noiseworthy.sweeps.at_home import with_home
    from noiseworthy.sweeps.compare import compare as run
    from noiseworthy.sweeps.recorded import with_comparison

    prepared = planned.prepared
    federation, task = prepared.trained()
    if record is None:
        record = beside_kept(planned.record(name), folder)
        planned.file.save(folder)
    with progress_bar("Comparing", 100, "%") as bar:
        comparison = run(planned.plan, federation, task, prepared.study, bar)
    if delivers_to_owners(prepared):
        with progress_bar("At home", 100, "%") as bar:
            comparison = with_home(comparison, prepared, bar)
    return with_comparison(record, comparison, prepared.study.compare.seeds)


def _tradeoff(
    surface: Surface, prepared: Prepared, decision: Decision, folder: Path, *, name: str
) -> dict[str, Any]:
    from noiseworthy.studies.record import beside_kept, new_record
    from noiseworthy.sweeps.recorded import with_tradeoff
    from noiseworthy.sweeps.tradeoff import plan_surface, train_surface

    cells = len(surface.points) + len(surface.trusts)
    with progress_bar("Budgets", cells, "cells") as bar:
        surface = plan_surface(surface, prepared, decision, bar)
    record = new_record(prepared.study, decision, prepared.federation, prepared.dimension, name=name)
    record = beside_kept(record, folder)
    with progress_bar("Training", cells, "cells") as bar:
        surface = train_surface(surface, prepared, bar)
    return with_tradeoff(record, surface)


def _rivals(contest: Contest, prepared: Prepared, folder: Path, *, name: str) -> dict[str, Any]:
    from noiseworthy.studies.record import beside_kept, new_record
    from noiseworthy.sweeps.at_home import with_homes
    from noiseworthy.sweeps.contest import plan_contest, train_contest
    from noiseworthy.sweeps.recorded import with_rivals

    with progress_bar("Planning", len(contest.points), "points") as bar:
        contest = plan_contest(contest, prepared, bar)
    record = new_record(prepared.study, contest.decision, prepared.federation, prepared.dimension, name=name)
    record = beside_kept(record, folder)
    started = time.monotonic()
    with progress_bar("Training", contest.replies, "replies") as bar:
        contest = train_contest(contest, prepared, bar, foretell)
    seconds = time.monotonic() - started
    if prepared.study.deliver.to == "owners":
        with progress_bar("At home", 100, "%") as bar:
            contest = with_homes(contest, prepared, bar)
    return with_rivals(record, contest, seconds)


Overs = Annotated[
    list[str] | None,
    typer.Option("--over", metavar="KEY=VALUE,VALUE", help="values of a key to train for; repeatable"),
]


@shows_progress
def sweep(
    study: StudyFile, over: Overs = None, seeds: Seeds = None, out_folder: OutFolder = None,
    data: DataDir = None, as_json: AsJson = False, budget_seconds: Seconds = None, sets: Sets = None,
) -> None:  # fmt: skip
    """Train a study for every choice of values, with one table and one figure; after a kill it goes on."""
    from noiseworthy._json import strict_json
    from noiseworthy.calls.stated import stated
    from noiseworthy.studies.changes import changes_of, seeds_of
    from noiseworthy.sweeps.variants import over_of, variants

    values, changes = over_of(over or ()), changes_of(sets or ())
    several = None if seeds is None else seeds_of(seeds)
    count = len(variants(values))
    stated(study, data=data, changes=changes, seeds=several)  # a mistake is told before jax is loaded
    from noiseworthy.calls.sweep import sweep as run
    from noiseworthy.reports.sweep import sweep_table

    with progress_bar("Sweeping", count, "variants") as bar:
        made = run(
            study, values, out_folder, seeds=several, set=changes, data=data, budget_seconds=budget_seconds,
            on_progress=bar,
        )  # fmt: skip
    if as_json:
        print(json.dumps(strict_json(made.table.to_dict("records")), allow_nan=False))
        return
    out.print(sweep_table(made.table, made.keys))
    out.print(f"Table: {made.csv}", soft_wrap=True)
    if made.figure.exists():
        out.print(f"Figure: {made.figure}", soft_wrap=True)
