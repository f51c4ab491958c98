"""Commands that look closely: at records (check), at a machine (measure), at the privacy (audit)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noiseworthy.cli.console import out, progress_bar, shows_progress
from noiseworthy.cli.options import AsJson, DataDir, OutFolder, PlanJson, Sets, StudyFile, limit
from noiseworthy.cli.steps import decide_plan, prepare_study

if TYPE_CHECKING:
    from noiseworthy.plans.resources import ResourceUnit
    from noiseworthy.studies.checking import Checked
    from noiseworthy.studies.measure import Costs, ResourcesKeys
    from noiseworthy.studies.tables import Study


_HEADINGS = {"refused": "Refused, training would stop here", "warning": "Warnings", "note": "Notes"}


def check(
    file: Annotated[Path, typer.Argument(help="study file, or an owner's file", show_default=False)],
    as_json: AsJson = False, data: DataDir = None,
) -> None:  # fmt: skip
    """Say everything that is wrong with the records, in one pass; exit code 1 where training is refused."""
    found = _found(file, data)
    if as_json:
        print(json.dumps(found.told(), allow_nan=False))
    else:
        out.print(_page(found), soft_wrap=True, highlight=False)
    if found.refused:
        raise typer.Exit(1)


def _found(file: Path, data: Path | None) -> Checked:
    from noiseworthy._tables import read_toml
    from noiseworthy.studies.checking import Terms, check_own, check_study

    if "owner" not in read_toml(file, "file"):
        from noiseworthy.studies.loading import load_study

        study = load_study(file)
        return check_study(study if data is None else study.with_data_dir(data))
    from noiseworthy.deploy.gateway.owner import load_owner

    owner = load_owner(file)
    table = owner.federation if data is None else owner.federation.model_copy(update={"data_dir": data})
    mechanism, epsilon, delta = owner.budget.mechanism, owner.budget.epsilon, owner.budget.delta
    return check_own(table, owner.rows, Terms(mechanism, epsilon, delta, holds_out=owner.holds_out))


def _page(found: Checked) -> str:
    columns = f", {found.columns} columns" if found.columns else ""
    lines = [f"{found.source}: {found.records} records{columns}"]
    for level, heading in _HEADINGS.items():
        if those := [one for one in found.findings if one.level == level]:
            lines += ["", f"{heading} ({len(those)})"]
        for one in those:
            lines += [f"  {one.where + ': ' if one.where else ''}{one.says}"]
            lines += [f"      {example}" for example in one.examples]
    end = "Training would be refused." if found.refused else "Nothing stands against training."
    lines += ["", f"{end} Nothing was written or sent; what this page tells of records is for their owner."]
    return "\n".join(lines)


Trials = Annotated[int | None, typer.Option(help="coins that the attacker names; by default 40,000", min=1)]
AuditSeconds = Annotated[
    float | None, typer.Option("--budget-seconds", help="for trials; by default 40", min=0, callback=limit)
]


@shows_progress
def audit(
    study: StudyFile, out_folder: OutFolder = None, plan: PlanJson = None, data: DataDir = None,
    as_json: AsJson = False, trials: Trials = None, seconds: AuditSeconds = None, sets: Sets = None,
) -> None:  # fmt: skip
    """What an attacker can prove about epsilon, beside what the study's plan claims; exit code 1 if more."""
    folder = out_folder or Path("runs") / study.stem
    prepared = prepare_study(study, data, sets=sets, plan=plan, folder=folder, trains=False)
    from noiseworthy.audit.audits import TRIALS
    from noiseworthy.engines.compilation import use_persistent_cache
    from noiseworthy.reports.audit import audit_panel, write_audit
    from noiseworthy.reports.html import write_report
    from noiseworthy.studies.audit import SECONDS, audit_study, kept_run, with_audit
    from noiseworthy.studies.occupied import held
    from noiseworthy.studies.record import save_record

    planned = decide_plan(prepared, plan)
    use_persistent_cache()
    with held(folder):
        planned.keep(folder)
        with progress_bar("Attacking", 100, "%") as bar:
            made = audit_study(
                planned.prepared, planned.decision, name=study.stem, folder=folder, trials=trials or TRIALS,
                seconds=SECONDS if seconds is None else seconds, on_progress=bar,
            )  # fmt: skip
        page = write_audit(made, folder)
        if (record := kept_run(planned.plan, folder)) is not None:
            record = with_audit(record, made)
            save_record(record, folder)
            write_report(record, folder)
    if as_json:
        print(json.dumps(made, allow_nan=False))
    else:
        out.print(audit_panel(made))
        out.print(f"Report: {page}", soft_wrap=True)
    if not made["passed"]:
        raise typer.Exit(1)


@shows_progress
def measure(
    study: StudyFile,
    bandwidth: Annotated[float | None, typer.Option(help="bytes per second of a client's connection")] = None,
    watts: Annotated[float | None, typer.Option(help="power of a client that computes or sends")] = None,
    data: DataDir = None, as_json: AsJson = False, sets: Sets = None,
) -> None:  # fmt: skip
    """What a communication and a local step cost, as resources tables for the study file."""
    from noiseworthy._json import strict_json
    from noiseworthy.studies.measure import as_dict, check_rates, resource_tables
    from noiseworthy.studies.measure import measure as run

    check_rates(bandwidth, watts)
    prepared = prepare_study(study, data, sets=sets)
    with progress_bar("Measuring", 100, "%") as bar:
        costs = run(prepared, bar)
    tables = resource_tables(costs, prepared.study, bandwidth, watts)
    if as_json:
        print(json.dumps(strict_json(as_dict(costs, tables)), allow_nan=False))
        return
    _show_costs(costs, tables, prepared.study)


def _show_costs(costs: Costs, tables: dict[ResourceUnit, ResourcesKeys], study: Study) -> None:
    from rich.table import Table

    from noiseworthy.studies.measure import as_toml

    up = costs.bytes_up
    down = costs.bytes_per_round - up
    out.print(f"A communication: {down:,} bytes down, {up:,} up ({costs.dimension:,} parameters, float32).")
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
