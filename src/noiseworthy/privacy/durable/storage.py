"""The ledger's file: an SQLite database in which a committed transaction survives a kill at any point."""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from noiseworthy.errors import LedgerError
from noiseworthy.privacy.durable.accounts import LAST_BITS, WHOLE

APPLICATION = 0x6E774C31
"""Marks the file as a ledger of this format."""
BACKUP = 0x6E774C42
"""Marks the file as a copy of such a ledger, from which nothing is paid."""
PATIENCE = 60.0
"""Seconds to wait for other processes, each of which writes for milliseconds."""

_TABLES = f"""
CREATE TABLE identity (value TEXT NOT NULL);
CREATE TABLE accounts (
    id INTEGER PRIMARY KEY, data TEXT NOT NULL, world TEXT NOT NULL, client TEXT NOT NULL,
    currency TEXT NOT NULL, size REAL NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL,
    relation TEXT NOT NULL, unit TEXT NOT NULL,
    spent INTEGER NOT NULL DEFAULT 0 CHECK (spent BETWEEN 0 AND {WHOLE + LAST_BITS}),
    UNIQUE (data, world, client)
);
CREATE TABLE runs (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, repeatable INTEGER NOT NULL);
CREATE TABLE plans (
    run INTEGER NOT NULL REFERENCES runs, stage INTEGER NOT NULL,
    account INTEGER NOT NULL REFERENCES accounts, releases INTEGER NOT NULL CHECK (releases >= 0),
    entry INTEGER NOT NULL, PRIMARY KEY (run, stage, account)
) WITHOUT ROWID;
CREATE TABLE grants (
    id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs, releases INTEGER NOT NULL,
    sealed BLOB, acknowledged INTEGER NOT NULL DEFAULT 0 CHECK (acknowledged = 0 OR sealed IS NOT NULL)
);
CREATE TABLE releases (
    account INTEGER NOT NULL REFERENCES accounts, run INTEGER NOT NULL REFERENCES runs,
    number INTEGER NOT NULL, share INTEGER NOT NULL CHECK (share >= 0),
    "grant" INTEGER NOT NULL REFERENCES grants, PRIMARY KEY (account, run, number)
) WITHOUT ROWID;
CREATE TABLE entries (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, subject INTEGER NOT NULL, body BLOB NOT NULL,
    hash BLOB NOT NULL
);
PRAGMA application_id = {APPLICATION};
"""
LATER = {
    "leases": """(
        id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs,
        account INTEGER NOT NULL REFERENCES accounts, shares INTEGER NOT NULL CHECK (shares >= 0),
        ended INTEGER NOT NULL DEFAULT 0
    )""",
    "fingerprints": """(
        id INTEGER PRIMARY KEY, account INTEGER NOT NULL REFERENCES accounts,
        key TEXT NOT NULL, digest TEXT NOT NULL
    )""",
    "restores": "(id INTEGER PRIMARY KEY, lost TEXT NOT NULL, accepted INTEGER NOT NULL DEFAULT 0)",
}
"""Tables that ledgers of before do not know, and need not. A row of `restores` is a time that the ledger was
put back: a head that is missing since, where one is known, and whether the owner has said what was spent
meanwhile."""
_BESIDE = ("", "-wal", "-shm")
"""A ledger's own file, and those that SQLite keeps beside it."""


def files_of(path: Path) -> list[Path]:
    """The files of a ledger that are there."""
    return [file for end in _BESIDE if (file := Path(f"{path}{end}")).exists()]


def make_private(path: Path) -> None:
    """Leave the files of a ledger to its owner's user alone.

    Raises:
        LedgerError: another user's files.
    """
    with named_errors(path):
        for file in files_of(path.resolve()):
            file.chmod(0o600)


def connected(path: Path) -> sqlite3.Connection:
    """A connection to a ledger, which is made where there is none, for its user alone.

    Raises:
        LedgerError: a folder that cannot be written to, a damaged file, one that is no ledger, or none where
            one has paid before.
    """
    with named_errors(path):
        new = not path.is_file() or not path.stat().st_size
        if new:
            _check_never_paid(path)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # what SQLite puts beside has the same mode; no ledger that is there is opened so, because closing
            # it lets go of the locks of all connections that this process has to it
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        _log_ahead(path)
        db = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
        try:
            _prepared(db, path)
        except BaseException:
            db.close()
            raise
        if new:
            sync_folder(path.parent)
    return db


def _check_never_paid(path: Path) -> None:
    from noiseworthy.privacy.durable.refusals import check_never_paid  # here, because few ledgers are new

    check_never_paid(path)


def _log_ahead(path: Path) -> None:
    """Have a ledger written by a log ahead of it, or what is empty yet: the file itself says so."""
    until = time.monotonic() + PATIENCE
    while True:
        # a new connection each time: one that has read goes on in the mode of then, and those that have
        # changed it since do not let go of the file for as long as they are open
        with closing(sqlite3.connect(path, timeout=0.05, isolation_level=None)) as db:
            try:
                db.execute("BEGIN")  # mark and tables are of one moment
                _is_new(db, path)
                db.execute("COMMIT")
                if db.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                    db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
        time.sleep(0.01)


def _prepared(db: sqlite3.Connection, path: Path) -> None:
    db.execute("PRAGMA foreign_keys = ON")
    # NORMAL syncs the log at checkpoints only: a loss of power would undo grants that were answered
    db.execute("PRAGMA synchronous = FULL")
    with transaction(db):
        # asked again, because another process may have made it since
        if _is_new(db, path):
            _check_never_paid(path)  # of a file that lost what lay beside it
            for statement in filter(str.strip, _TABLES.split(";")):
                db.execute(statement)
            db.execute("INSERT INTO identity VALUES (?)", [secrets.token_hex(16)])
        for table, columns in LATER.items():
            db.execute(f"CREATE TABLE IF NOT EXISTS {table} {columns}")


def _is_new(db: sqlite3.Connection, path: Path) -> bool:
    (mark,) = db.execute("PRAGMA application_id").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if mark == BACKUP:
        raise LedgerError(f"{path} is a backup and pays nothing: put it back by noiseworthy ledger restore")
    if mark != APPLICATION and (mark or tables):
        told = "is no privacy ledger of this version; name another file, nothing was spent"
        raise LedgerError(f"{path} {told}")
    return not mark


def settled(db: sqlite3.Connection) -> bool:
    """Whether all that was committed lies in the ledger's own file now, and nothing beside it.

    It does not while others read or write; then nothing is waited for.
    """
    db.execute("PRAGMA busy_timeout = 0")
    try:
        (busy, _, _) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        db.execute(f"PRAGMA busy_timeout = {1000 * PATIENCE:.0f}")
    return not busy


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All of it is written, durably, before this returns; or nothing."""
    # locks before the first read: two processes that both read first would both spend the last share
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # SQLite ends a transaction by itself where the disk is full
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """What SQLite and the file system refuse, by file and remedy."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        from noiseworthy.privacy.durable.refusals import reason  # here, because little goes wrong

        said = getattr(error, "strerror", None) or str(error)  # without the path, which may hold any word
        raise LedgerError(f"ledger {path} {reason(said.lower())} ({error})") from None


def write_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a file whole or not at all, durably; a kill leaves the one before."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a file's new name survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Wait until no other process is inside; the kernel lets go of what a killed one held.

    So a release of a shared ledger that is paid for and not sealed belongs to nobody at work: it is lost.

    Args:
        path: of an empty file that is made, and stays.

    Raises:
        LedgerError: the file cannot be made.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise LedgerError(f"{path} cannot be made ({error}); open its folder, or free disk space") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
