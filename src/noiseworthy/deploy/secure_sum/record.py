"""What an owner must never forget of its rounds: which it began, and the one list that it signed in each."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from noiseworthy.deploy.secure_sum.terms import Terms
from noiseworthy.errors import LedgerError, VoidRound

_TABLE = """
CREATE TABLE IF NOT EXISTS rounds (
    owner TEXT NOT NULL, run TEXT NOT NULL, round INTEGER NOT NULL, terms BLOB NOT NULL, survivors BLOB,
    PRIMARY KEY (owner, run)
) WITHOUT ROWID
"""


class RoundRecord:
    """The last round that an owner began in each run, in a file of its own, on disk before it answers.

    It holds no secret. Round numbers of a run only grow, so that none is ever begun twice.
    """

    def __init__(self, path: Path, db: sqlite3.Connection):
        self.path = path
        self._db = db

    @classmethod
    def open(cls, path: Path) -> Self:
        """The record of a file, which is made where there is none, for its user alone.

        Raises:
            LedgerError: a file that cannot be read or written.
        """
        with _named(path):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            db = sqlite3.connect(path, timeout=60.0, isolation_level=None)
            # beyond FULL the folder is synced once the journal is gone: one that came back after a loss of
            # power would undo an entry after which something had left
            db.execute("PRAGMA synchronous = EXTRA")
            db.execute(_TABLE)
        return cls(path, db)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, owner: str, terms: Terms) -> None:
        """Enter a round, before its keys leave.

        Raises:
            VoidRound: it, or a later one of its run, was begun before.
        """
        put = (
            "INSERT INTO rounds VALUES (?1, ?2, ?3, ?4, NULL) ON CONFLICT DO UPDATE SET round = ?3, "
            "terms = ?4, survivors = NULL WHERE round < ?3"
        )
        with _named(self.path):
            changed = self._db.execute(put, (owner, terms.run, terms.round, terms.digest)).rowcount
        if not changed:
            raise VoidRound(
                f"round {terms.round} of run {terms.run!r}, or a later one, was begun here before; ask for "
                "the next number"
            )

    def sign(self, owner: str, terms: Terms, survivors: bytes) -> None:
        """Enter the list that is signed in a round, before the signature leaves.

        Args:
            owner: who signs.
            terms: of the round.
            survivors: digest of the list.

        Raises:
            VoidRound: another list was signed, or a later round begun.
        """
        put = (
            "UPDATE rounds SET survivors = ?5 WHERE owner = ?1 AND run = ?2 AND round = ?3 AND terms = ?4 "
            "AND (survivors IS NULL OR survivors = ?5)"
        )
        with _named(self.path):
            row = owner, terms.run, terms.round, terms.digest, survivors
            changed = self._db.execute(put, row).rowcount
        if not changed:
            told = f"another list of survivors was signed in round {terms.round}, or a later round was begun"
            raise VoidRound(told)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise LedgerError(
            f"the record of rounds {path} cannot be used ({error}); make its folder writable, or free disk "
            "space, nothing was sent"
        ) from None
