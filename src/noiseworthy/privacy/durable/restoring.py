"""Copies of a ledger: made while others write, put back so that everybody notices, and accepted by the owner.

Between a copy and the moment in which it is put back the ledger may have spent anything. So a ledger that was
put back pays for nothing until its owner says what was spent meanwhile, and that is charged like a release.
"""

import hashlib
import os
import secrets
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path

from noiseworthy.errors import InvalidInput, LedgerError
from noiseworthy.privacy.durable.accounts import COLUMNS, LAST_BITS, WHOLE
from noiseworthy.privacy.durable.answers import Charge
from noiseworthy.privacy.durable.chain import Head
from noiseworthy.privacy.durable.ledger import DurableLedger
from noiseworthy.privacy.durable.reading import read_ledger
from noiseworthy.privacy.durable.storage import (
    APPLICATION,
    BACKUP,
    connected,
    files_of,
    named_errors,
    sync_folder,
)
from noiseworthy.privacy.durable.witness import Seen, Witness, seen_now

_UNKNOWN = b"not known: spent since a backup"
"""Sealed in the place of what was released and is not in the ledger any more."""


def back_up(ledger: DurableLedger, destination: Path) -> None:
    """Copy a ledger as it is at this moment, while others write to it, and verify the copy.

    Args:
        ledger: to copy.
        destination: a new file, mode 0600, from which nothing is paid before `restore`.

    Raises:
        LedgerError: a file that is there already or cannot be written.
    """
    _check_free(destination, "name another file, a backup replaces none")
    _copy(ledger, destination, BACKUP)


def restore(backup: Path, path: Path) -> None:
    """Put a ledger back from a copy, marked: it pays for nothing until it is accepted.

    Args:
        backup: of `back_up`, or a copy of a ledger's file.
        path: where the ledger was; its files must have been moved away, not copied over.

    Raises:
        LedgerError: a copy that is none, or a place that is not free.
    """
    _check_free(path, "move it and its -wal and -shm away first, and keep them")
    draft = path.with_name(f"{path.name}.restoring")
    draft.unlink(missing_ok=True)
    with named_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with read_ledger(backup) as copy:
            _copy(copy, draft, APPLICATION)
        with DurableLedger(draft, connected(draft)) as ledger:
            with ledger._writing():
                _noted(ledger, "")
            ledger.verify()
        with named_errors(path):
            # root puts it back for whom its folder belongs to: a gateway, which could open none of root's
            if not os.geteuid():
                os.chown(draft, path.parent.stat().st_uid, -1)
            os.rename(draft, path)
            sync_folder(path.parent)
    finally:
        for file in files_of(draft):
            file.unlink()


def accept(
    path: Path, part: Fraction | None = None, *, lost: Sequence[Head] = (), witness: Witness | None = None
) -> None:
    """The owner's word on what a ledger lacks: it is charged, and the ledger pays again for what is left.

    Args:
        path: of the ledger.
        part: of every lifetime budget that was spent since the copy was made; None charges all of the rest.
        lost: heads that others know and this ledger lacks, after which they are not asked for any more.
        witness: of the ledger; tells the least that was spent, and accounts that the copy does not know.

    Raises:
        LedgerError: no ledger, one that nobody doubts, or a part below what the witness saw.
        InvalidInput: a part below 0.
    """
    if part is not None and part < 0:
        raise InvalidInput(f"the part spent must be at least 0, got {float(part):g}; leave it out for all")
    read_ledger(path).close()  # what is none, such as a file that was cut to nothing, becomes none
    with DurableLedger(path, connected(path)) as ledger:
        ledger.verify()
        seen = None if witness is None else witness.read(ledger._identity)
        with ledger._writing():
            told = [*lost] if seen is None else [*lost, seen.head]
            missing = [head for head in dict.fromkeys(told) if not ledger.holds(head)]
            if ledger.accepted and not missing:
                raise LedgerError(f"{path} was not put back and lacks nothing named; nothing is charged")
            for head in missing:
                _noted(ledger, str(head))
            _charge(ledger, part, {} if seen is None else _by_name(ledger, seen))
            for (number,) in ledger.query("SELECT id FROM restores WHERE NOT accepted"):
                ledger._db.execute("UPDATE restores SET accepted = 1 WHERE id = ?", [number])
                ledger._extend("accept", number, b"")
        if witness is not None:
            bear_witness(ledger, witness)


def bear_witness(ledger: DurableLedger, witness: Witness) -> None:
    """Write what a ledger has spent to its witness, whatever that held.

    Raises:
        LedgerError: a file that cannot be written.
    """
    witness.write(ledger._identity, seen_now(ledger._db, ledger.head), paid=False)


def _check_free(path: Path, remedy: str) -> None:
    if there := files_of(path):
        raise LedgerError(f"{there[0]} exists; {remedy}")


def _copy(ledger: DurableLedger, destination: Path, mark: int) -> None:
    """One whole and verified file beside which SQLite keeps nothing, durably; or none."""
    with named_errors(destination):
        os.close(os.open(destination, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            with closing(sqlite3.connect(destination, isolation_level=None)) as copy:
                ledger._db.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")
                copy.execute(f"PRAGMA application_id = {mark}")
            sync_folder(destination.parent)
            read_ledger(destination).close()  # verifies it
        except BaseException:
            destination.unlink()
            raise


def _noted(ledger: DurableLedger, lost: str) -> int:
    """Enter that the ledger was put back, and a head that it lacks."""
    return ledger._entered("restore", "restores", "lost", (lost,))


def _by_name(ledger: DurableLedger, seen: Seen) -> dict[int, int]:
    """Shares that the witness saw, by account; those that the copy does not know are opened again."""
    found = {}
    for account, shares in seen.spent.items():
        key = account.data, account.world, account.client
        known = ledger._account("data = ? AND world = ? AND client = ?", key)
        number = known[0] if known else ledger._entered("account", "accounts", COLUMNS, account.row)
        found[number] = shares
    return found


def _charge(ledger: DurableLedger, part: Fraction | None, seen: dict[int, int]) -> None:
    """Charge every account what was spent since, as one release that arrived."""
    charges = []
    for number, spent, client in ledger.query("SELECT id, spent, client FROM accounts ORDER BY id"):
        # all of the rest takes the last bits, too: an account charged in full refuses the smallest share
        left, least = WHOLE + LAST_BITS - spent, seen.get(number, spent) - spent
        share = left if part is None else min(left, -(-part.numerator * WHOLE // part.denominator))
        if share < least:
            raise LedgerError(
                f"the witness saw {_percent(least)} % more of the budget of {client} spent than this ledger, "
                f"got {_percent(share)} %; state at least that much, nothing is charged"
            )
        charges += [Charge(number, 1, share)] if share else []
    if charges:
        run = ledger._entered("run", "runs", "name, repeatable", (f"put back {secrets.token_hex(8)}", 0))
        _arrived(ledger, ledger._spend(run, charges).number)


def _arrived(ledger: DurableLedger, grant: int) -> None:
    ledger._db.execute("UPDATE grants SET sealed = ?, acknowledged = 1 WHERE id = ?", (_UNKNOWN, grant))
    ledger._extend("seal", grant, hashlib.sha256(_UNKNOWN).digest())
    ledger._extend("acknowledge", grant, b"")


def _percent(shares: int) -> str:
    """Rounded up to six digits behind the point, so that it is enough when it is typed."""
    return f"{-(-100_000_000 * shares // WHOLE) / 1_000_000:.6f}"
