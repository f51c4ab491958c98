"""The command that times a machine: measure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from noiseworthy.cli.console import out, progress_bar, shows_progress
from noiseworthy.cli.options import AsJson, DataDir, Sets, StudyFile
from noiseworthy.cli.steps import prepare_study

if TYPE_CHECKING:
    from noiseworthy.plans.resources import ResourceUnit
    from noiseworthy.studies.measure import Costs, ResourcesKeys
    from noiseworthy.studies.tables import Study


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
