"""Ledgers to look at: what they hold and lack. Nothing is written to them, nor beside them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from noiseworthy.errors import LedgerError
from noiseworthy.privacy.durable.accounts import Account
from noiseworthy.privacy.durable.chain import Head
from noiseworthy.privacy.durable.leases import Lease, open_leases
from noiseworthy.privacy.durable.ledger import DurableLedger
from noiseworthy.privacy.durable.storage import APPLICATION, BACKUP, LATER, PATIENCE, named_errors


def read_ledger(path: Path) -> DurableLedger:
    """The ledger of a file that must exist, to look at; its chain is verified.

    Raises:
        LedgerError: no file, a damaged one, or a chain that is broken.
    """
    return DurableLedger(path, _opened(path))._verified()


def _opened(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, for a folder that cannot be written to as well.

    Raises:
        LedgerError: no file, a damaged one, or one that is no ledger.
    """
    if not path.is_file():
        raise LedgerError(f"{path} does not exist; give a ledger, or a run folder that train made")
    file = path.resolve()  # of a link: the log lies beside what it leads to
    alone = not Path(f"{file}-wal").exists()  # else another process writes, or one was killed
    with named_errors(path):
        uri = f"{file.as_uri()}?mode=ro{'&immutable=1' if alone else ''}"
        db = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)
        if db.execute("PRAGMA application_id").fetchone() not in ((APPLICATION,), (BACKUP,)):
            db.close()
            raise LedgerError(f"{path} is no privacy ledger of this version; name another file")
        known = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        for table in LATER.keys() - known:
            db.execute(f"CREATE TEMP TABLE {table} {LATER[table]}")
    return db


def check_holds(ledger: DurableLedger, head: Head) -> None:
    """Refuse a ledger that lacks what it once held.

    Raises:
        LedgerError: a chain that does not contain `head`.
    """
    if not ledger.holds(head):
        raise LedgerError(
            f"{ledger.path} lacks what it held before (entry {head.length}): it was set back or replaced; "
            "put the latest ledger back, or start anew elsewhere"
        )


def account_of(ledger: DurableLedger, data: str, world: str, client: str) -> Account | None:
    """The account of a client, or None."""
    found = ledger._account("data = ? AND world = ? AND client = ?", (data, world, client))
    return None if found is None else found[1]


def leases_of(ledger: DurableLedger) -> list[Lease]:
    """Leases of a ledger that hold something still."""
    with named_errors(ledger.path):
        return [lease for lease in open_leases(ledger._db) if lease.rest]
