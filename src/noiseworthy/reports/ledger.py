"""The privacy ledger as tables for people, as one object for programs, and as a paragraph of the report."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from noiseworthy._names import shown
from noiseworthy._wording import count, percent, percent_up, rounded_up
from noiseworthy.privacy.durable import DurableLedger
from noiseworthy.privacy.durable.accounts import SCHEDULE, WHOLE
from noiseworthy.privacy.durable.reading import leases_of
from noiseworthy.privacy.durable.statement import Line, statement
from noiseworthy.reports.clauses import Clause
from noiseworthy.studies.typed_record import LedgerPart

Record = dict[str, Any]
_LISTED = 50
"""Clients of one table; more are in the JSON."""
_COUNTS = {"planned": "planned", "spent": "spent", "arrived": "acknowledged", "left": "remaining"}


def ledger_tables(books: DurableLedger) -> list[Table]:
    """A table for each data set and world, one row per client."""
    lines = sorted(statement(books), key=_whose)
    return [_table(*whose, list(clients)) for whose, clients in groupby(lines, _whose)]


def _whose(line: Line) -> tuple[str, str]:
    return line.account.data, line.account.world


def _table(data: str, world: str, lines: list[Line]) -> Table:
    title = Text(shown(f"{data}, {'simulated: ' + world if world else 'real data'}"), "table.title")
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=0, header_style="dim"
    )
    # gateways keep no schedule: of releases that nobody planned none is left, and most of a budget may be
    counts = [*_COUNTS] if any(line.planned for line in lines) else ["spent", "arrived"]
    table.add_column("client")
    for column in (*counts, "epsilon", "delta", "of lifetime", ""):
        table.add_column(column, justify="right", no_wrap=True)
    for line in lines[:_LISTED]:
        table.add_row(*_row(line, counts))
    if len(lines) > _LISTED:
        table.caption = f"{len(lines) - _LISTED:,} more clients: --json lists all"
    return table


def _row(line: Line, counts: list[str]) -> tuple[str | Text, ...]:
    account = line.account
    most = "at most " if account.currency.startswith(SCHEDULE) and line.spent else ""
    return (
        Text(shown(account.client), no_wrap=True, overflow="ellipsis"),
        *(f"{getattr(line, _COUNTS[name]):,}" for name in counts),
        most + rounded_up(line.epsilon),
        rounded_up(account.delta),
        rounded_up(account.epsilon, 6),
        percent_up(line.part),
    )


def ledger_dict(books: DurableLedger) -> Record:
    """Everything that the tables say, for `ledger show --json`."""
    head = books.head
    return {
        "ledger": str(books.path),
        "verified": True,
        "entries": head.length,
        "head": str(head),
        "accounts": [_account(line) for line in statement(books)],
        "put_back": [{"lost": lost or None, "accepted": bool(taken)} for lost, taken in _put_back(books)],
        "leases": [{"run": run, "client": client, "part": part} for run, client, part in _leases(books)],
    }


def put_back_line(books: DurableLedger) -> str:
    """How often a ledger was put back, and what follows; empty where it never was."""
    if not (times := _put_back(books)):
        return ""
    said = f"Put back {count(len(times), 'time')}; accounts hold what the owner said was spent in between."
    if books.accepted:
        return said
    return "Put back, and nothing is paid: say what was spent since with noiseworthy ledger accept."


def _put_back(books: DurableLedger) -> list[tuple[str, int]]:
    return books.query("SELECT lost, accepted FROM restores ORDER BY id")


def lease_lines(books: DurableLedger) -> list[str]:
    """What is held for runs that have not ended, a line for each."""
    return [
        f"Held for '{shown(run)}': {percent(part)} of the budget of {shown(client)}"
        for run, client, part in _leases(books)
    ]


def _leases(books: DurableLedger) -> list[tuple[str, str, float]]:
    """Run, client, and the part of the budget that is held."""
    runs = dict(books.query("SELECT id, name FROM runs"))
    clients = dict(books.query("SELECT id, client FROM accounts"))
    return [(runs[one.run], clients[one.account], one.rest / WHOLE) for one in leases_of(books)]


def _account(line: Line) -> Record:
    account = line.account
    return {
        "data": account.data, "world": account.world, "client": account.client, "unit": account.unit,
        "relation": account.relation, "counted_in": account.currency, "lifetime_epsilon": account.epsilon,
        "delta": account.delta, "planned": line.planned, "spent": line.spent, "sealed": line.sealed,
        "acknowledged": line.acknowledged, "remaining": line.remaining, "spent_epsilon": line.epsilon,
        "spent_part": line.part,
    }  # fmt: skip


def ledger_clauses(kept: LedgerPart | None) -> list[Clause]:
    """The paragraph on the ledger, where a run kept one.

    Example:
        >>> kept = LedgerPart(head="7:0a1b2c3d4e5f", releases=12, acknowledged=12)
        >>> ledger_clauses(kept)[0].text.split(".")[0]
        '12 releases were entered in a ledger on disk before their noise was drawn, and 12 are acknowledged'
    """
    if kept is None:
        return []
    length, digest = kept.head.split(":")
    text = (
        f"{count(kept.releases, 'release')} were entered in a ledger on disk before their noise was "
        f"drawn, and {kept.acknowledged:,} are acknowledged. Entry {int(length):,} of its chain ends in "
        f"{digest[:12]}; noiseworthy ledger show verifies it. Every seed is a simulated world with budgets "
        "of its own."
    )
    return [Clause("What was entered", text)]
