"""Commands on privacy ledgers: ledger show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from noiseworthy.cli.console import out
from noiseworthy.cli.options import AsJson

ledger = typer.Typer(no_args_is_help=True, help="What clients have spent of their lifetime budgets.")


@ledger.command()
def show(
    path: Annotated[Path, typer.Argument(help="run folder, or ledger file", metavar="RUN_OR_FILE")],
    as_json: AsJson = False,
) -> None:
    """Planned, paid, sealed and acknowledged releases of every client; verifies the chain first."""
    from noiseworthy.experiments.run_folder import opened_ledger
    from noiseworthy.reports.ledger import ledger_dict, ledger_tables

    with opened_ledger(path) as books:
        if as_json:
            print(json.dumps(ledger_dict(books), allow_nan=False))
            return
        for table in ledger_tables(books):
            out.print(table)
        out.print(f"Chain verified: {books.head.length:,} entries, head {books.head}", soft_wrap=True)
