"""The command line: every command is one call of the library, with a progress bar and clear errors.

Exit codes: 0 done, 2 the user's input (one line on stderr), 1 a fault of ours.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from noiseworthy.errors import ConfigError, UserError

if TYPE_CHECKING:
    from noiseworthy.config import Study
    from noiseworthy.experiments.measure import Costs, ResourcesKeys
    from noiseworthy.experiments.planner import Decision
    from noiseworthy.experiments.prepare import Prepared
    from noiseworthy.experiments.rivals import Contest
    from noiseworthy.experiments.tradeoff import Surface
    from noiseworthy.planning.resources import ResourceUnit

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Plan and train differentially private federated learning: is the next reply worth its noise?",
)
_UsageError: type[Any] = typer.BadParameter.__bases__[0]  # of click, which some releases of typer contain
_INTERRUPTED = 130
err = Console(stderr=True)
out = Console()

StudyFile = Annotated[Path, typer.Argument(help="study file (TOML)", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object and nothing else")]
OutFolder = Annotated[Path | None, typer.Option("--out", help="run folder; by default runs/NAME-OF-STUDY")]
DataDir = Annotated[Path | None, typer.Option("--data", help="folder of data files, else NOISEWORTHY_DATA")]
Seconds = Annotated[
    float | None, typer.Option("--budget-seconds", help="time for planning, which takes the best found in it")
]


@app.command()
def plan(
    study: StudyFile,
    as_json: AsJson = False,
    out_folder: OutFolder = None,
    data: DataDir = None,
    budget_seconds: Seconds = None,
) -> None:
    """Decide rounds, clients, noise, clip and step size for a study, without training."""
    from noiseworthy._validate import strict_json
    from noiseworthy.experiments.record import new_record, save_record

    prepared, decision = _decide(_prepare(study, data, budget_seconds))
    if out_folder is not None:
        record = new_record(
            prepared.study, decision, prepared.federation, prepared.dimension, name=study.stem
        )
        save_record(record, out_folder)
    if as_json:
        print(json.dumps(strict_json(decision.plan.as_dict()), allow_nan=False))
        return
    from noiseworthy.reports.tables import plan_panel

    record = new_record(prepared.study, decision, prepared.federation, prepared.dimension, name=study.stem)
    out.print(plan_panel(record))


@app.command()
def train(
    study: StudyFile,
    out_folder: OutFolder = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on from the run folder's checkpoint")] = False,
    data: DataDir = None,
    as_json: AsJson = False,
    budget_seconds: Seconds = None,
) -> None:
    """Plan a study, train it in simulation and write a run folder with model, record and report."""
    prepared, decision = _decide(_prepare(study, data, budget_seconds))
    folder = out_folder or Path("runs") / study.stem
    record = _train(prepared, decision, folder, name=study.stem, resume=resume)
    _finish(record, folder, as_json)


@app.command()
def advise(
    study: StudyFile,
    out_folder: OutFolder = None,
    data: DataDir = None,
    as_json: AsJson = False,
    budget_seconds: Seconds = None,
) -> None:
    """Plan a study with every algorithm by trial on public data, side by side, and recommend one."""
    from noiseworthy.engines.compilation import use_persistent_cache
    from noiseworthy.experiments.advisor import advice_record
    from noiseworthy.experiments.advisor import advise as run
    from noiseworthy.reports.advice import advice_panel, write_advice

    prepared = _prepare(study, data, budget_seconds)
    use_persistent_cache()
    with _progress("Trying", 100, "%") as bar:
        advice = advice_record(run(prepared, lambda name, done: bar(done, name)), study.stem)
    page = write_advice(advice, out_folder or Path("runs") / study.stem)
    if as_json:
        print(json.dumps(advice, allow_nan=False))
        return
    out.print(advice_panel(advice))
    out.print(f"Report: {page}", soft_wrap=True)


@app.command()
def compare(
    study: StudyFile, out_folder: OutFolder = None, data: DataDir = None, as_json: AsJson = False
) -> None:
    """Train the plan beside a grid of fixed settings and report the gain that the plan loses."""
    prepared, decision = _decide(_prepare(study, data))
    folder = out_folder or Path("runs") / study.stem
    record = _train(prepared, decision, folder, name=study.stem) if decision.plan.train else None
    _finish(_compare(prepared, decision, folder, record, name=study.stem), folder, as_json)


@app.command()
def tradeoff(
    study: StudyFile, out_folder: OutFolder = None, data: DataDir = None, as_json: AsJson = False
) -> None:
    """Plan and train for other privacy and resource budgets, and draw what each pair of them reaches."""
    from noiseworthy.experiments.tradeoff import Surface

    prepared = _prepare(study, data)
    surface = Surface.of(prepared)
    folder = out_folder or Path("runs") / study.stem
    prepared, decision = _decide(prepared)
    _finish(_tradeoff(surface, prepared, decision, folder, name=study.stem), folder, as_json)


@app.command()
def rivals(
    study: StudyFile, out_folder: OutFolder = None, data: DataDir = None, as_json: AsJson = False
) -> None:
    """Train DPFL-BCS and the algorithms it is held against side by side, on the study's own federation."""
    from noiseworthy.experiments.rivals import Contest

    prepared = _prepare(study, data)
    contest = Contest.of(prepared)
    folder = out_folder or Path("runs") / study.stem
    _finish(_rivals(contest, prepared, folder, name=study.stem), folder, as_json)


@app.command()
def quickstart(out_folder: OutFolder = None) -> None:
    """Plan, train and compare on the digits that ship with scikit-learn, and write a report."""
    from importlib.resources import as_file, files

    with as_file(files("noiseworthy") / "quickstart.toml") as path:
        prepared = _prepare(path, None)
    folder = out_folder or Path("runs") / "quickstart"
    err.print(
        "[bold]noiseworthy quickstart[/]: ten clients, two kinds of digits each, epsilon = 4 for every record"
    )
    prepared, decision = _decide(prepared)
    record = _train(prepared, decision, folder, name="quickstart")
    _finish(_compare(prepared, decision, folder, record, name="quickstart"), folder, False)


@app.command()
def account(
    study: Annotated[
        Path | None, typer.Argument(help="study file, or state a schedule by the options")
    ] = None,
    mechanism: Annotated[str | None, typer.Option(help="laplace or gaussian")] = None,
    noise: Annotated[str | None, typer.Option(help="scale or std per coordinate; one or per client")] = None,
    clip_norm: Annotated[float | None, typer.Option(help="clip of records, or of uploads")] = None,
    sizes: Annotated[str | None, typer.Option(help="records per client, separated by commas")] = None,
    delta: Annotated[str, typer.Option(help="0 for pure epsilon; one number or one per client")] = "0",
    releases: Annotated[str | None, typer.Option(help="uploads; one number or one per client")] = None,
    rounds: Annotated[int | None, typer.Option(help="rounds, instead of releases")] = None,
    clients_per_round: Annotated[int | None, typer.Option(help="clients per round, with rounds")] = None,
    relation: Annotated[str, typer.Option(help="replace-one or add-remove")] = "replace-one",
    sampling_rate: Annotated[float, typer.Option(help="Poisson sampling rate of records")] = 1.0,
    unit: Annotated[str, typer.Option(help="record or client: whose change is hidden")] = "record",
    data: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Exact epsilon per client of a stated schedule, or of a study's plan."""
    from noiseworthy._validate import strict_json
    from noiseworthy.experiments.account import account as price
    from noiseworthy.experiments.account import account_plan
    from noiseworthy.reports.schedules import noises_steps

    counted = "uploads"
    options = (mechanism, noise, clip_norm, sizes, releases, rounds, clients_per_round)
    if study is not None:
        if any(option is not None for option in options):
            raise ConfigError("account takes a study file or the options of a schedule, and not both")
        made = _decide(_prepare(study, data))[1].plan
        answer, counted = account_plan(made), "noised steps" if noises_steps(made.as_dict()) else counted
    elif mechanism is None or noise is None or clip_norm is None or sizes is None:
        raise ConfigError("account needs a study file, or --mechanism, --noise, --clip-norm and --sizes")
    else:
        answer = price(
            mechanism=mechanism, noise=_numbers("noise", noise), clip_norm=clip_norm,
            sizes=_numbers("sizes", sizes), delta=_numbers("delta", delta),
            releases=None if releases is None else _numbers("releases", releases), rounds=rounds,
            clients_per_round=clients_per_round, relation=relation,  # pyright: ignore[reportArgumentType]
            sampling_rate=sampling_rate, unit=unit,  # pyright: ignore[reportArgumentType]
        )  # fmt: skip
    if as_json:
        print(json.dumps(strict_json(answer), allow_nan=False))
        return
    for client, row in enumerate(answer["privacy"]["clients"]):
        spent = float("inf") if row["spent_epsilon"] is None else row["spent_epsilon"]
        out.print(
            f"client {client}: epsilon {spent:.6g} at delta {row['delta']:g} "
            f"after {answer['releases'][client]} {counted}"
        )


@app.command()
def measure(
    study: StudyFile,
    bandwidth: Annotated[float | None, typer.Option(help="bytes per second of a client's connection")] = None,
    watts: Annotated[float | None, typer.Option(help="power of a client that computes or sends")] = None,
    data: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """What a communication and a local step cost, as [resources] tables for the study file."""
    from noiseworthy._validate import strict_json
    from noiseworthy.experiments.measure import as_dict, check_rates, resource_tables
    from noiseworthy.experiments.measure import measure as run

    check_rates(bandwidth, watts)
    prepared = _prepare(study, data)
    with _progress("Measuring", 100, "%") as bar:
        costs = run(prepared, bar)
    tables = resource_tables(costs, prepared.study, bandwidth, watts)
    if as_json:
        print(json.dumps(strict_json(as_dict(costs, tables)), allow_nan=False))
        return
    _show_costs(costs, tables, prepared.study)


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="paper: zhou, fu, hou, hu, ma")],
    item: Annotated[
        str | None, typer.Argument(help="table-1, figure-1 and so on, or all; by default its first")
    ] = None,
    data: DataDir = None,
    out_folder: Annotated[Path, typer.Option("--out")] = Path("runs/reproductions"),
    scale: Annotated[float, typer.Option(help="share of repeats, and of what a network trains on")] = 1.0,
) -> None:
    """A table or figure of a paper: its claim beside our numbers, with a verdict."""
    from noiseworthy.engines.compilation import use_persistent_cache
    from noiseworthy.experiments.papers import PAPERS
    from noiseworthy.experiments.papers import reproduce as run
    from noiseworthy.experiments.papers.keeping import load
    from noiseworthy.reports.reproductions import verdict_table, write_reproductions

    use_persistent_cache()
    with _progress("Reproducing", 100, "%") as bar:
        results = run(
            paper, item, data_dir=data, scale=scale, folder=out_folder, on_progress=bar, on_estimate=_foretell
        )
    page = write_reproductions(PAPERS[paper], load(out_folder, PAPERS[paper]), out_folder)
    out.print(verdict_table(PAPERS[paper], results))
    out.print(f"Page: {page}", soft_wrap=True)


@app.command()
def report(folder: Annotated[Path, typer.Argument(help="run folder")]) -> None:
    """Write the HTML report of a run folder again."""
    from noiseworthy.experiments.record import load_record
    from noiseworthy.reports import write_report

    out.print(f"Report: {write_report(load_record(folder), folder)}", soft_wrap=True)


def main() -> None:
    """Entry point: the user's mistakes end in one line and exit code 2."""
    try:
        code = app(prog_name="noiseworthy", standalone_mode=False) or 0
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except Exception as error:
        if (complaint := _complaint(error)) is None:
            raise
        if complaint:
            print(f"error: {' '.join(complaint.split())}", file=sys.stderr)
        raise SystemExit(2) from None
    if code == _INTERRUPTED:
        print("interrupted; train --resume goes on from the last checkpoint", file=sys.stderr)
    raise SystemExit(code)


def _complaint(error: Any) -> str | None:
    """What the user got wrong, empty if help was shown instead; None if the fault is ours."""
    if isinstance(error, UserError):
        return str(error)
    if not isinstance(error, _UsageError):
        return None
    command = error.ctx.command_path if error.ctx is not None else "noiseworthy"
    message = error.format_message().rstrip(".")
    return f"{message}; see {command} --help" if message else ""


# Steps that commands share ----------------------------------------------------------------------------


def _prepare(path: Path, data: Path | None, seconds: float | None = None) -> Prepared:
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


def _decide(prepared: Prepared) -> tuple[Prepared, Decision]:
    """The plan, and the study with the model that the plan trains."""
    from noiseworthy.engines.compilation import use_persistent_cache
    from noiseworthy.experiments.planner import plan_study

    if prepared.federation is None:
        return plan_study(prepared)
    use_persistent_cache()
    with _progress("Planning", 100, "%") as bar:
        return plan_study(prepared, bar)


def _train(
    prepared: Prepared, decision: Decision, folder: Path, *, name: str, resume: bool = False
) -> dict[str, Any]:
    import numpy as np

    from noiseworthy.experiments.checkpoints import fingerprint, load_checkpoint
    from noiseworthy.experiments.record import new_record, save_record, with_training
    from noiseworthy.experiments.training import train as run

    federation, task = prepared.trained()
    plan, seeds = decision.plan, prepared.study.training.seeds
    record = new_record(prepared.study, decision, federation, prepared.dimension, name=name)
    belongs_to = prepared.study.model_dump_json(include={"federation": True, "task": True})
    if resume:  # a folder of another study must stay as it is
        load_checkpoint(folder, fingerprint(plan, seeds, belongs_to))
    save_record(record, folder)
    if not plan.train:
        return record
    started = time.monotonic()
    evaluations = prepared.study.training.evaluations
    with _progress("Training", plan.all_rounds, "rounds") as bar:
        result = run(plan, federation, task, seeds, evaluations=evaluations,
                     folder=folder, resume=resume, belongs_to=belongs_to, on_progress=bar)  # fmt: skip
    np.savez(folder / "model.npz", theta=result.run.theta, seeds=seeds)
    record = with_training(record, result, seeds, time.monotonic() - started)
    save_record(record, folder)
    return record


def _compare(
    prepared: Prepared, decision: Decision, folder: Path, record: dict[str, Any] | None, *, name: str
) -> dict[str, Any]:
    from noiseworthy.experiments.record import new_record, save_record, with_comparison
    from noiseworthy.experiments.runner import compare as run

    federation, task = prepared.trained()
    with _progress("Comparing", 100, "%") as bar:
        comparison = run(decision.plan, federation, task, prepared.study, bar)
    record = record or new_record(prepared.study, decision, federation, prepared.dimension, name=name)
    record = with_comparison(record, comparison, prepared.study.compare.seeds)
    save_record(record, folder)
    return record


def _tradeoff(
    surface: Surface, prepared: Prepared, decision: Decision, folder: Path, *, name: str
) -> dict[str, Any]:
    from noiseworthy.experiments.record import new_record, save_record, with_tradeoff
    from noiseworthy.experiments.tradeoff import plan_surface, train_surface

    cells = len(surface.points)
    with _progress("Budgets", cells, "cells") as bar:
        surface = plan_surface(surface, prepared, decision, bar)
    with _progress("Training", cells, "cells") as bar:
        surface = train_surface(surface, prepared, bar)
    record = new_record(prepared.study, decision, prepared.federation, prepared.dimension, name=name)
    record = with_tradeoff(record, surface)
    save_record(record, folder)
    return record


def _rivals(contest: Contest, prepared: Prepared, folder: Path, *, name: str) -> dict[str, Any]:
    from noiseworthy.engines.compilation import use_persistent_cache
    from noiseworthy.experiments.record import new_record, save_record, with_rivals
    from noiseworthy.experiments.rivals import plan_contest, train_contest

    use_persistent_cache()
    with _progress("Planning", len(contest.points), "points") as bar:
        contest = plan_contest(contest, prepared, bar)
    started = time.monotonic()
    with _progress("Training", contest.replies, "replies") as bar:
        contest = train_contest(contest, prepared, bar, _foretell)
    seconds = time.monotonic() - started
    record = new_record(prepared.study, contest.decision, prepared.federation, prepared.dimension, name=name)
    record = with_rivals(record, contest, seconds)
    save_record(record, folder)
    return record


def _finish(record: dict[str, Any], folder: Path, as_json: bool) -> None:
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


def _show_costs(costs: Costs, tables: dict[ResourceUnit, ResourcesKeys], study: Study) -> None:
    from rich.table import Table

    from noiseworthy.experiments.measure import as_toml

    half = costs.bytes_per_round // 2
    out.print(f"A communication: {half:,} bytes down, {half:,} up ({costs.dimension:,} parameters, float32).")
    if costs.records is None:
        out.print("Steps are not timed: that takes data and a model, for the shape of a record.")
    else:
        shown = Table("records in a step", "clients", "milliseconds", title=f"A local step ({costs.machine})")
        for step in costs.timed:
            clients = int((costs.records == step.records).sum())
            shown.add_row(str(step.records), str(clients), f"{1000 * step.seconds:.4g}")
        out.print(shown, "Timed on records of zeros; no private record was read for it.")
    for unit, table in tables.items():
        out.print(f"\nIn {unit}:", style="bold")
        print(as_toml(table, study))
    if "seconds" not in tables and costs.records is not None:
        out.print("\nState --bandwidth for seconds, and --watts as well for joules.")


def _foretell(seconds: float) -> None:
    """How long networks will train, before they start."""
    err.print(f"Networks to train: {_about(seconds)} on this machine.")


def _about(seconds: float) -> str:
    """A time that nobody should take to the second.

    Example:
        >>> _about(14.2), _about(700), _about(20_000)
        ('about 14 seconds', 'about 12 minutes', 'about 5.6 hours')
    """
    if seconds < 90:
        return f"about {max(seconds, 1):.0f} seconds"
    minutes = seconds / 60
    return f"about {minutes:.0f} minutes" if minutes < 90 else f"about {minutes / 60:.1f} hours"


def _numbers(name: str, text: str) -> Any:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--{name} must be numbers separated by commas, got {text!r}") from None
    return values if len(values) > 1 else values[0]


class _Rate(ProgressColumn):
    """Units per second."""

    def render(self, task: Task) -> Text:
        """The speed so far."""
        speed = task.finished_speed or task.speed
        unit = task.fields["unit"]
        return Text("" if not speed or unit == "%" else f"{speed:.0f} {unit}/s", style="cyan")


@contextmanager
def _progress(label: str, total: int, unit: str) -> Iterator[Callable[..., None]]:
    """A bar on stderr with rate and time left; yields a callback that takes the share done, and on what."""
    columns = [TextColumn("{task.description:<10}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
               _Rate(), TimeRemainingColumn(elapsed_when_finished=True)]  # fmt: skip
    with Progress(*columns, console=err, disable=not err.is_terminal) as progress:
        task = progress.add_task(label, total=total, unit=unit)

        def update(done: float, what: str = "") -> None:
            progress.update(task, completed=done * total, description=f"{label} {what}".strip())

        yield update
