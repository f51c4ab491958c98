"""Commands on privacy ledgers: ledger show, page, backup, restore, accept, witness, end-lease."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from noiseworthy.cli.console import out
from noiseworthy.cli.options import AsJson
from noiseworthy.errors import ConfigError

if TYPE_CHECKING:
    from noiseworthy.privacy.durable import DurableLedger, Head

ledger = typer.Typer(no_args_is_help=True, help="What clients have spent of their lifetime budgets.")

RunOrFile = Annotated[Path, typer.Argument(help="run folder, or ledger file", metavar="RUN_OR_FILE")]
LedgerFile = Annotated[Path, typer.Argument(help="ledger file", metavar="LEDGER", show_default=False)]


@ledger.command()
def show(path: RunOrFile, as_json: AsJson = False) -> None:
    """Planned, paid, sealed and acknowledged releases of every client; verifies the chain first."""
    from noiseworthy.reports.ledger import ledger_dict
    from noiseworthy.studies.run_folder import opened_ledger

    with opened_ledger(path) as books:
        if as_json:
            print(json.dumps(ledger_dict(books), allow_nan=False))
        else:
            _print(books)


@ledger.command()
def page(
    path: RunOrFile,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="HTML file; by default ledger.html beside the ledger")
    ] = None,
) -> None:
    """What is left of every data set's lifetime budget over all runs, as one HTML page to print."""
    from noiseworthy._places import write_whole, writing
    from noiseworthy.reports.ledger_page import ledger_page
    from noiseworthy.studies.run_folder import opened_ledger

    with opened_ledger(path) as books:
        text, place = ledger_page(books), out_file or books.path.parent / "ledger.html"
        if place.exists() and place.samefile(books.path):
            raise ConfigError(f"--out {place} is the ledger itself; name another file")
    with writing(place):
        write_whole(place, text)
    out.print(f"Page: {place}", soft_wrap=True)


@ledger.command()
def backup(
    path: RunOrFile, destination: Annotated[Path, typer.Argument(help="new file", show_default=False)]
) -> None:
    """Copy a ledger, while others may write to it, verify the copy and show it; replaces no file."""
    from noiseworthy.privacy.durable.reading import read_ledger
    from noiseworthy.privacy.durable.restoring import back_up
    from noiseworthy.studies.run_folder import opened_ledger

    with opened_ledger(path) as books:
        back_up(books, destination)
    with read_ledger(destination) as copy:
        _print(copy)
    out.print(f"Backup: {destination}", soft_wrap=True)


@ledger.command()
def restore(
    copy: Annotated[Path, typer.Argument(help="of ledger backup", metavar="BACKUP", show_default=False)],
    path: LedgerFile,
) -> None:
    """Put a ledger back from a copy; it pays for nothing until ledger accept says what was spent since."""
    from noiseworthy.privacy.durable.reading import read_ledger
    from noiseworthy.privacy.durable.restoring import restore

    restore(copy, path)
    with read_ledger(path) as books:
        _print(books)
    out.print(f"Next: noiseworthy ledger accept {quote(str(path))}", soft_wrap=True)


@ledger.command()
def accept(
    path: LedgerFile,
    spent_since: Annotated[
        str | None,
        typer.Option(help="percent of lifetime budgets that was spent since the copy, else all of the rest"),
    ] = None,
    lost: Annotated[
        list[str] | None, typer.Option(help="head that a server knows and the ledger lacks (see the log)")
    ] = None,
    witness: Annotated[Path | None, typer.Option(help="of the ledger; is written anew")] = None,
) -> None:
    """Say what was spent since the copy from which a ledger was put back; it is charged at once."""
    from noiseworthy.privacy.durable.reading import read_ledger
    from noiseworthy.privacy.durable.restoring import accept
    from noiseworthy.privacy.durable.witness import Witness

    heads = [_head(text) for text in lost or []]
    accept(path, _part(spent_since), lost=heads, witness=witness and Witness(witness))
    with read_ledger(path) as books:
        _print(books)


@ledger.command()
def witness(
    path: LedgerFile, file: Annotated[Path, typer.Argument(help="new, on another disk", show_default=False)]
) -> None:
    """Begin a witness of a ledger that has spent before, which the owner's file names under files."""
    from noiseworthy.privacy.durable.reading import read_ledger
    from noiseworthy.privacy.durable.restoring import bear_witness
    from noiseworthy.privacy.durable.witness import Witness

    if file.exists():
        raise ConfigError(f"{file} exists; a witness is replaced by ledger accept alone")
    with read_ledger(path) as books:
        bear_witness(books, Witness(file))
    out.print(f"Witness: {file}", soft_wrap=True)


@ledger.command("end-lease")
def end_lease(
    path: LedgerFile,
    run: Annotated[str, typer.Argument(help="name of the run, as ledger show tells it", show_default=False)],
) -> None:
    """Give back to the budget what is held for a run that was given up; what it has spent stays spent."""
    from noiseworthy.errors import LedgerError
    from noiseworthy.privacy.durable import DurableLedger
    from noiseworthy.privacy.durable.accounts import WHOLE
    from noiseworthy.privacy.durable.leases import end_leases
    from noiseworthy.privacy.durable.reading import read_ledger

    read_ledger(path).close()  # a name with a slip of the pen makes no new ledger
    with DurableLedger.open(path) as books:
        found = books.query("SELECT id FROM runs WHERE name = ?", [run])
        ended = end_leases(books, found[0][0]) if found else []
    if not ended:
        raise LedgerError(f"{path} holds nothing for run {run!r}; noiseworthy ledger show lists open leases")
    part = sum(one.rest for one in ended) / WHOLE
    text = f"Ended the lease of {run}: {100 * part:.4g} % of the budget is free again."
    out.print(text, soft_wrap=True, markup=False)


def _print(books: DurableLedger) -> None:
    from noiseworthy.reports.ledger import lease_lines, ledger_tables, put_back_line

    for table in ledger_tables(books):
        out.print(table)
    for line in lease_lines(books):
        out.print(line, soft_wrap=True, markup=False, highlight=False)
    if line := put_back_line(books):
        out.print(line, soft_wrap=True)
    out.print(f"Chain verified: {books.head.length:,} entries, head {books.head}", soft_wrap=True)


def _part(percent: str | None) -> Fraction | None:
    """Percent as they were typed, to the last digit."""
    if percent is None:
        return None
    try:
        part = Fraction(percent.removesuffix("%").strip()) / 100
    except (ValueError, ZeroDivisionError):
        part = Fraction(-1)
    if not 0 <= part <= 1:
        raise ConfigError(f"--spent-since must be a percentage from 0 to 100, got {percent!r}")
    return part


def _head(text: str) -> Head:
    from noiseworthy.privacy.durable.chain import HEAD, Head

    if not re.fullmatch(HEAD, text):
        raise ConfigError(f"--lost must be a head as the gateway's log names it, whole, got {text!r}")
    return Head.read(text)
