"""The rows of a ledger's file, each of which is written together with its entry in the chain."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.durable import chain
from noiseworthy.privacy.durable.accounts import COLUMNS, Account
from noiseworthy.privacy.durable.chain import Head
from noiseworthy.privacy.durable.storage import named_errors, transaction


class Rows:
    """Reads and writes what a ledger holds; it knows no rule of spending.

    Attributes:
        path: of the file.
    """

    def __init__(self, path: Path, db: sqlite3.Connection):
        self.path = path
        self._db = db

    @property
    def head(self) -> Head:
        """The end of the chain; keep it elsewhere to notice a ledger that was set back."""
        with named_errors(self.path):
            length, last = self._last()
        return Head(length, last.hex())

    def holds(self, head: Head) -> bool:
        """Whether the chain contains a head, or its owner has said what was spent with it."""
        with named_errors(self.path):
            row = self._db.execute("SELECT hash FROM entries WHERE id = ?", [head.length]).fetchone()
        if not head.length or (row is not None and row[0].hex() == head.digest):
            return True
        return bool(self.query("SELECT 1 FROM restores WHERE lost = ? AND accepted", [str(head)]))

    @property
    def accepted(self) -> bool:
        """Whether the owner has said what was spent before, each time that the ledger was put back."""
        return not self.query("SELECT 1 FROM restores WHERE NOT accepted LIMIT 1")

    def query(self, sql: str, values: Sequence[object] = ()) -> list[tuple]:
        """Rows of a question to the tables, for reports and tests."""
        with named_errors(self.path):
            return self._db.execute(sql, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with named_errors(self.path), transaction(self._db):
            yield

    def _entered(self, kind: str, table: str, columns: str, row: tuple) -> int:
        places = ", ".join("?" * len(row))
        number = number_of(self._db.execute(f"INSERT INTO {table} ({columns}) VALUES ({places})", row))
        self._extend(kind, number, chain.digest([row]))
        return number

    def _extend(self, kind: str, subject: int, body: bytes) -> None:
        length, last = self._last()
        row = length + 1, kind, subject, body, chain.extended(last, kind, subject, body)
        self._db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)

    def _last(self) -> tuple[int, bytes]:
        found = self._db.execute("SELECT id, hash FROM entries ORDER BY id DESC LIMIT 1").fetchone()
        if found is not None:
            return found
        return 0, chain.start(self._identity)

    def _account(self, where: str, values: tuple) -> tuple[int, Account] | None:
        row = self._db.execute(f"SELECT id, {COLUMNS} FROM accounts WHERE {where}", values).fetchone()
        return None if row is None else (row[0], Account(*row[1:]))

    def _known(self, account: int) -> Account:
        found = self._account("id = ?", (account,))
        if found is None:
            raise InvalidInput(f"account {account} is not in {self.path}; enrol the client first")
        return found[1]

    def _grant(self, grant: int) -> tuple[int, int, bytes | None, int]:
        find = "SELECT run, releases, sealed, acknowledged FROM grants WHERE id = ?"
        row = self._db.execute(find, [grant]).fetchone()
        if row is None:
            raise InvalidInput(f"grant {grant} is not in {self.path}; reserve releases first")
        return row

    @property
    def _identity(self) -> str:
        ((identity,),) = self.query("SELECT value FROM identity")
        return identity


def number_of(done: sqlite3.Cursor) -> int:
    """The number of the row that was inserted."""
    if done.lastrowid is None:
        raise sqlite3.DatabaseError("a row was not inserted")
    return done.lastrowid
