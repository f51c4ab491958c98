"""The command that trains a study many times, with other values: sweep."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from noiseworthy.cli.console import out, progress_bar, shows_progress
from noiseworthy.cli.options import AsJson, DataDir, OutFolder, Seconds, Seeds, Sets, StudyFile

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
