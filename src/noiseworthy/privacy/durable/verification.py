"""Whether a ledger's tables are what its chain says, entry by entry."""

from __future__ import annotations

import hashlib
import sqlite3
from itertools import groupby
from operator import itemgetter

from noiseworthy.privacy.durable import chain
from noiseworthy.privacy.durable.accounts import COLUMNS

_COVERED = {
    "account": "SELECT count(*) FROM accounts",
    "run": "SELECT count(*) FROM runs",
    "plan": "SELECT count(DISTINCT entry) FROM plans",
    "spend": "SELECT count(*) FROM grants",
    "seal": "SELECT count(*) FROM grants WHERE sealed IS NOT NULL",
    "acknowledge": "SELECT count(*) FROM grants WHERE acknowledged",
    "restore": "SELECT count(*) FROM restores",
    "accept": "SELECT count(*) FROM restores WHERE accepted",
    "lease": "SELECT count(*) FROM leases",
    "lease-end": "SELECT count(*) FROM leases WHERE ended",
    "records": "SELECT count(*) FROM fingerprints",
}
"""How many entries of each kind the tables ask for."""
_WRITTEN = {
    "account": f"SELECT {COLUMNS} FROM accounts WHERE id = ?",
    "run": "SELECT name, repeatable FROM runs WHERE id = ?",
    "plan": "SELECT run, stage, account, releases FROM plans WHERE entry = ? ORDER BY account",
    "restore": "SELECT lost FROM restores WHERE id = ?",
    "lease": "SELECT run, account, shares FROM leases WHERE id = ?",
    "records": "SELECT account, key, digest FROM fingerprints WHERE id = ?",
}
"""Rows that an entry of each kind digests,"""
_NOTED = {
    "seal": "SELECT sealed FROM grants WHERE id = ?",
    "acknowledge": "SELECT 1 FROM grants WHERE id = ? AND acknowledged",
    "accept": "SELECT 1 FROM restores WHERE id = ? AND accepted",
    "lease-end": "SELECT 1 FROM leases WHERE id = ? AND ended",
}
"""and what a row that was there before says since."""


def verified(db: sqlite3.Connection) -> str | None:
    """What is wrong with a ledger, or None.

    Args:
        db: a connection inside a transaction, so that nobody writes meanwhile.
    """
    # clients are looked up in an index, which no entry covers: one that is missing there would seem new
    (damage,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    return _broken_link(db) or _uncovered(db) or _wrong_sum(db) or (None if damage == "ok" else damage)


def _broken_link(db: sqlite3.Connection) -> str | None:
    (identity,) = db.execute("SELECT value FROM identity").fetchone()
    last, bodies = chain.start(identity), _Bodies(db)
    entries = db.execute("SELECT id, kind, subject, body, hash FROM entries ORDER BY id")
    for place, (number, kind, subject, body, hash_) in enumerate(entries, 1):
        last = chain.extended(last, kind, subject, body)
        if number != place or last != hash_:
            return f"entry {place} does not follow from the one before"
        if bodies.of(kind, subject) != body:
            return f"entry {place}, {kind} {subject}, is not what the tables hold"
    return None


class _Bodies:
    """Digests of what the tables hold, to be compared with those in the chain."""

    def __init__(self, db: sqlite3.Connection):
        self._db = db
        self._spent = _digests_of_grants(db)

    def of(self, kind: str, subject: int) -> bytes | None:
        """The digest, or None where the tables hold no such thing."""
        if kind == "spend":
            return self._spent.get(subject)
        if kind in _WRITTEN:
            return chain.digest(self._db.execute(_WRITTEN[kind], [subject]))
        row = self._db.execute(_NOTED[kind], [subject]).fetchone() if kind in _NOTED else None
        if row is None or row[0] is None:
            return None
        return hashlib.sha256(row[0]).digest() if kind == "seal" else b""


def _digests_of_grants(db: sqlite3.Connection) -> dict[int, bytes]:
    """The digest of the releases of every grant, in one pass."""
    find = (
        'SELECT r.account, r.run, r.number, r.share, r."grant" FROM releases r '
        # by run, too, which no entry holds of a grant alone: one that is moved to another run loses its
        # releases
        'JOIN grants g ON g.id = r."grant" AND g.run = r.run ORDER BY r."grant", r.account, r.run, r.number'
    )
    return {grant: chain.digest(rows) for grant, rows in groupby(db.execute(find), key=itemgetter(-1))}


def _uncovered(db: sqlite3.Connection) -> str | None:
    for kind, count in _COVERED.items():
        (held,) = db.execute(count).fetchone()
        (entered,) = db.execute("SELECT count(*) FROM entries WHERE kind = ?", [kind]).fetchone()
        if held != entered:
            return f"{held} of kind {kind} for {entered} entries"
    return None


def _wrong_sum(db: sqlite3.Connection) -> str | None:
    wrong = db.execute(
        "SELECT a.client FROM accounts a LEFT JOIN releases r ON r.account = a.id GROUP BY a.id "
        "HAVING a.spent != coalesce(sum(r.share), 0) LIMIT 1"
    ).fetchone()
    return None if wrong is None else f"the sum of {wrong[0]} is not that of its releases"
