"""What lies beside a ledger is its owner's alone under any umask; an idle ledger is one whole file."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from noiseworthy.privacy.durable.reading import read_ledger
from noiseworthy.privacy.durable.statement import statement
from noiseworthy.privacy.durable.storage import make_private

from .conftest import TENTH, opened


@pytest.fixture(autouse=True)
def _open_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(path: Path) -> dict[str, int]:
    """Of a ledger and the files beside it."""
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.glob(f"{path.name}*")}


def test_every_file_of_a_ledger_is_private_while_it_is_open(tmp_path):
    path = tmp_path / "owner" / "ledger.sqlite"
    books = opened(path)
    books.ask(1)
    with books.ledger:
        assert modes(path) == dict.fromkeys(
            ["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"], 0o600
        )
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_an_older_version_left_open_is_made_private(path):
    books = opened(path)
    for file in path.parent.glob("ledger*"):
        file.chmod(0o644)
    (path.parent / "link.sqlite").symlink_to(path)
    make_private(path.parent / "link.sqlite")
    assert set(modes(path).values()) == {0o600}
    books.ledger.close()


def test_a_copy_of_the_bare_file_of_a_settled_ledger_holds_everything(books, path, tmp_path):
    """Before, all of it lies in the write-ahead log."""
    books.ask(1)
    assert books.ledger.settle()
    shutil.copy(path, tmp_path / "copy.sqlite")
    with read_ledger(tmp_path / "copy.sqlite") as copy:
        assert statement(copy)[0].shares == TENTH
        assert copy.head == books.ledger.head


def test_a_ledger_that_others_read_settles_later_and_nobody_waits(books, path):
    books.ask(1)
    with read_ledger(path) as reader:
        reader._db.execute("BEGIN")
        reader.query("SELECT count(*) FROM entries")
        books.ask(2)
        assert not books.ledger.settle()
    assert books.ledger.settle()
    books.ask(3)
    assert statement(books.ledger)[0].spent == 3


def test_a_closed_ledger_is_one_whole_file(books, path):
    books.ask(1)
    books.ledger.close()
    assert list(modes(path)) == ["ledger.sqlite"]
    books.ledger.close()


def test_a_ledger_that_is_closed_under_a_reader_is_whole(books, path, tmp_path):
    """The reader, who is last, could not move the log."""
    with read_ledger(path) as reader:
        books.ask(1)
        reader.query("SELECT count(*) FROM entries")
        books.ledger.close()
        shutil.copy(path, tmp_path / "copy.sqlite")
    with read_ledger(tmp_path / "copy.sqlite") as copy:
        assert statement(copy)[0].shares == TENTH
