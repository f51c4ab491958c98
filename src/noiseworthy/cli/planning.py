"""Commands that decide and count, and train nothing on private records: plan, advise, account."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from noiseworthy.cli.console import out, progress_bar, shows_progress
from noiseworthy.cli.options import AsJson, DataDir, OutFolder, PlanJson, Seconds, Sets, StudyFile, numbers
from noiseworthy.cli.steps import decide_plan, prepare_study
from noiseworthy.errors import ConfigError


@shows_progress
def plan(
    study: StudyFile, as_json: AsJson = False, out_folder: OutFolder = None, data: DataDir = None,
    budget_seconds: Seconds = None, sets: Sets = None,
) -> None:  # fmt: skip
    """Decide rounds, clients, noise, clip and step size for a study, and write plan.json; trains nothing."""
    from noiseworthy.studies.occupied import check_can_be_made, held, holds_results

    check_can_be_made(folder := out_folder or Path("runs") / study.stem)
    planned = decide_plan(prepare_study(study, data, budget_seconds, sets))
    from noiseworthy._json import strict_json
    from noiseworthy.studies.record import save_record

    record = planned.record(study.stem)
    with held(folder):
        path = planned.keep(folder)
        if out_folder is not None and not holds_results(folder):
            save_record(record, folder)
    if as_json:
        said = {**planned.plan.as_dict(), "clients": list(planned.prepared.names)}
        if columns := planned.file.made_for["facts"].get("columns"):
            said["columns"] = columns
        if foretold := record.get("foretold"):
            said |= {"foretold": foretold, "task": record["study"]["task"]}
        print(json.dumps(strict_json(said), allow_nan=False))
        return
    from noiseworthy.reports.tables import plan_panel

    out.print(plan_panel(record))
    out.print(f"Plan: {path}, digest {planned.file.digest[:12]}", soft_wrap=True, highlight=False)


@shows_progress
def advise(
    study: StudyFile, out_folder: OutFolder = None, data: DataDir = None, as_json: AsJson = False,
    budget_seconds: Seconds = None, sets: Sets = None,
) -> None:  # fmt: skip
    """Plan a study with every algorithm by trial on public data, side by side, and recommend one."""
    folder = out_folder or Path("runs") / study.stem
    prepared = prepare_study(study, data, budget_seconds, sets, folder=folder, trains=False)
    from noiseworthy.reports.advice import advice_panel, write_advice
    from noiseworthy.studies.occupied import held, made_for
    from noiseworthy.sweeps.advisor import advice_record
    from noiseworthy.sweeps.advisor import advise as run

    with progress_bar("Trying", 100, "%") as bar:
        advice = advice_record(run(prepared, lambda name, done: bar(done, name)), study.stem)
    advice["made_for"] = made_for(prepared.study, prepared.federation)
    with held(folder):
        page = write_advice(advice, folder)
    if as_json:
        print(json.dumps(advice, allow_nan=False))
        return
    out.print(advice_panel(advice))
    out.print(f"Report: {page}", soft_wrap=True)


@shows_progress
def account(
    study: Annotated[Path | None, typer.Argument(help="study file, or state a schedule by options")] = None,
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
    unit: Annotated[str, typer.Option(help="record, person or client: whose change is hidden")] = "record",
    plan: PlanJson = None,
    data: DataDir = None,
    as_json: AsJson = False,
    sets: Sets = None,
) -> None:
    """Exact epsilon per client of a stated schedule, or of a study's plan."""
    counted, names = "upload", None
    options = (mechanism, noise, clip_norm, sizes, releases, rounds, clients_per_round)
    usual = (delta, relation, sampling_rate, unit) == ("0", "replace-one", 1.0, "record")
    if study is not None and not (usual and all(option is None for option in options)):
        raise ConfigError("account takes a study file or the options of a schedule, and not both")
    prepared = None if study is None else prepare_study(study, data, sets=sets, plan=plan)
    from noiseworthy._json import strict_json
    from noiseworthy._wording import count, rounded_up
    from noiseworthy.data.federation import numbered
    from noiseworthy.methods.registry import method
    from noiseworthy.studies.account import account as price
    from noiseworthy.studies.account import account_plan

    if prepared is not None:
        planned = decide_plan(prepared, plan)
        made, names = planned.plan, planned.prepared.names
        answer, counted = account_plan(made), method(made.algorithm).words.noised.release
    elif sets:
        raise ConfigError("--set changes a key of a study; give the study file, too")
    elif plan is not None:
        raise ConfigError("--plan goes with the study that it was made for; give the study file, too")
    elif mechanism is None or noise is None or clip_norm is None or sizes is None:
        raise ConfigError("account needs a study file, or --mechanism, --noise, --clip-norm and --sizes")
    else:
        answer = price(
            mechanism=mechanism, noise=numbers("noise", noise), clip_norm=clip_norm,
            sizes=numbers("sizes", sizes), delta=numbers("delta", delta),
            releases=None if releases is None else numbers("releases", releases), rounds=rounds,
            clients_per_round=clients_per_round, relation=relation,  # pyright: ignore[reportArgumentType]
            sampling_rate=sampling_rate, unit=unit,  # pyright: ignore[reportArgumentType]
        )  # fmt: skip
    if as_json:
        print(json.dumps(strict_json(answer), allow_nan=False))
        return
    rows = answer["privacy"]["clients"]
    for name, row, uploads in zip(names or numbered(len(rows)), rows, answer["releases"], strict=True):
        spent = float("inf") if row["spent_epsilon"] is None else row["spent_epsilon"]
        said, delta = rounded_up(spent, 6), rounded_up(row["delta"], 6)
        out.print(f"{name}: epsilon {said} at delta {delta} after {count(uploads, counted)}", markup=False)
