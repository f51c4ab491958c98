"""Commands on privacy ledgers: ledger show, end-lease."""

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
    from noiseworthy.reports.ledger import lease_lines, ledger_dict, ledger_tables

    with opened_ledger(path) as books:
        if as_json:
            print(json.dumps(ledger_dict(books), allow_nan=False))
            return
        for table in ledger_tables(books):
            out.print(table)
        for line in lease_lines(books):
            out.print(line, soft_wrap=True, markup=False, highlight=False)
        out.print(f"Chain verified: {books.head.length:,} entries, head {books.head}", soft_wrap=True)


@ledger.command("end-lease")
def end_lease(
    path: Annotated[Path, typer.Argument(help="ledger file of an owner", metavar="LEDGER")],
    run: Annotated[str, typer.Argument(help="name of the run, as ledger show tells it", show_default=False)],
) -> None:
    """Give back to the budget what is held for a run that was given up; what it has spent stays spent."""
    from noiseworthy.errors import LedgerError
    from noiseworthy.privacy.durable import DurableLedger
    from noiseworthy.privacy.durable.accounts import WHOLE
    from noiseworthy.privacy.durable.leases import end_leases

    DurableLedger.read(path).close()  # a name with a slip of the pen makes no new ledger
    with DurableLedger.open(path) as books:
        found = books.query("SELECT id FROM runs WHERE name = ?", [run])
        ended = end_leases(books, found[0][0]) if found else []
    if not ended:
        raise LedgerError(f"{path} holds nothing for run {run!r}; noiseworthy ledger show lists open leases")
    part = sum(one.rest for one in ended) / WHOLE
    text = f"Ended the lease of {run}: {100 * part:.4g} % of the budget is free again."
    out.print(text, soft_wrap=True, markup=False)
