"""A lease holds a part of a budget for one run: others see the rest, and nothing becomes overspendable."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from noiseworthy.errors import InvalidInput, LedgerError
from noiseworthy.privacy.durable import Account, Charge, DurableLedger, Grant
from noiseworthy.privacy.durable.accounts import LAST_BITS, WHOLE
from noiseworthy.privacy.durable.fingerprints import Fingerprint
from noiseworthy.privacy.durable.leases import end_leases, lease, open_leases, open_rest
from noiseworthy.privacy.durable.reading import read_ledger

NORTH = Account("wards", "", "north", "epsilon", 1.0, 1.0, 0.0, "replace-one", "record")
HALF = WHOLE // 2


@pytest.fixture
def books(tmp_path):
    with DurableLedger.open(tmp_path / "l.sqlite") as ledger:
        (number,) = ledger.enrol([NORTH])
        assert number == 1
        yield ledger


def spends(books: DurableLedger, run: int, number: int, share: int) -> str:
    answer = books.reserve(run, [Charge(1, number, share)])
    return "granted" if isinstance(answer, Grant) else answer.why


def test_other_runs_see_the_budget_less_what_is_held(books):
    first, second = books.begin("first"), books.begin("second")
    assert lease(books, first, 1, WHOLE) is None
    assert lease(books, second, 1, 1 + LAST_BITS).why == "leased"
    assert spends(books, second, 1, 1 + LAST_BITS) == "leased"
    assert spends(books, first, 1, HALF) == "granted"
    assert open_rest(books, 1) == WHOLE - HALF
    assert lease(books, second, 1, HALF).why == "leased"
    end_leases(books, first)
    assert open_rest(books, 1) == 0
    assert lease(books, second, 1, HALF) is None
    assert spends(books, second, 1, HALF) == "granted"
    assert spends(books, first, 2, HALF) == "budget"


def test_a_lease_is_asked_for_again_without_holding_twice(books):
    """After a kill too: what the run has drawn is a part of it."""
    run = books.begin("first")
    for _ in range(2):
        assert lease(books, run, 1, HALF) is None
    assert spends(books, run, 1, HALF) == "granted"
    assert lease(books, run, 1, HALF) is None
    assert [one.rest for one in open_leases(books._db)] == [0]
    end_leases(books, run)
    assert end_leases(books, run) == []
    assert lease(books, run, 1, HALF) is None
    assert open_rest(books, 1) == 0
    other = lease(books, run, 1, HALF + 1)
    assert (other.why, other.client) == ("conflict", "north")
    assert "another part" in other.message
    assert open_rest(books, 1) == 0


def test_a_run_may_draw_more_than_its_lease_where_nobody_holds_the_rest(books):
    first, second = books.begin("first"), books.begin("second")
    lease(books, first, 1, WHOLE // 4)
    assert spends(books, first, 1, HALF) == "granted"
    assert lease(books, second, 1, WHOLE // 4) is None
    assert spends(books, first, 2, HALF) == "leased"
    assert spends(books, first, 3, WHOLE // 4) == "granted"
    assert spends(books, second, 1, WHOLE // 4) == "granted"
    assert spends(books, second, 2, 1 + LAST_BITS) == "budget"


def test_a_lease_adds_to_no_budget(books):
    run = books.begin("first")
    assert lease(books, run, 1, WHOLE + LAST_BITS + 1).why == "budget"
    lease(books, run, 1, WHOLE)
    assert spends(books, run, 1, WHOLE + LAST_BITS) == "granted"
    assert spends(books, run, 2, 1) == "budget"
    with pytest.raises(InvalidInput, match="at least 0"):
        lease(books, run, 1, -1)
    with pytest.raises(InvalidInput, match="not in"):
        lease(books, run, 2, 1)


def test_leases_stand_in_the_chain(books):
    run = books.begin("first")
    lease(books, run, 1, HALF)
    end_leases(books, run)
    lease(books, run, 1, HALF)
    books.verify()
    for fake in ("shares = 1", "ended = 1", "ended = 0", "run = 9"):
        with sqlite3.connect(books.path) as db:
            kept = list(db.execute("SELECT * FROM leases"))
            db.execute("PRAGMA foreign_keys = OFF")
            db.execute(f"UPDATE leases SET {fake}")
        with pytest.raises(LedgerError, match="changed past its chain"):
            books.verify()
        with sqlite3.connect(books.path) as db:
            db.execute("DELETE FROM leases")
            db.executemany("INSERT INTO leases VALUES (?, ?, ?, ?, ?)", kept)
        books.verify()


def of_before(path: Path) -> None:
    """A ledger that was made when there were no leases."""
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE leases")
        db.execute("DROP TABLE fingerprints")


def test_a_ledger_of_before_is_read_and_gone_on_with(tmp_path):
    path = tmp_path / "old.sqlite"
    with DurableLedger.open(path) as books:
        books.enrol([NORTH])
        assert spends(books, books.begin("first"), 1, HALF) == "granted"
    of_before(path)
    with read_ledger(path) as books:
        assert open_rest(books, 1) == 0
    with DurableLedger.open(path) as books:
        assert lease(books, books.begin("second"), 1, HALF) is None
        books.verify()


def test_a_fingerprint_knows_other_records_and_tells_nothing_of_them(books):
    records = [b"shape", b"numbers"]
    mine = Fingerprint(books, 1, records)
    assert mine.fits
    assert not mine.taken
    mine.take()
    assert mine.fits
    assert mine.taken
    for other in ([b"shape", b"Numbers"], [b"shapen", b"umbers"], [b"shape"], [b"numbers", b"shape"]):
        assert not Fingerprint(books, 1, other).fits
    Fingerprint(books, 1, [b"new"]).take()
    assert not mine.fits  # another process says that they were changed on purpose
    assert Fingerprint(books, 1, [b"new"]).fits
    mine.take()
    digests = [digest for (digest,) in books.query("SELECT digest FROM fingerprints ORDER BY id")]
    assert len(set(digests)) == 3  # the same records, under another key
    books.verify()
    with sqlite3.connect(books.path) as db:
        db.execute("UPDATE fingerprints SET digest = 'x' WHERE id = 1")
    with pytest.raises(LedgerError, match="changed past its chain"):
        books.verify()
