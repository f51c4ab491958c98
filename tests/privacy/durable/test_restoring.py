"""A ledger that is put back is noticed: by its mark, by its witness, by heads that others know."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest

from noiseworthy.errors import InvalidInput, LedgerError, Unwitnessed
from noiseworthy.privacy.durable import Account, Charge, DurableLedger, Grant, Refusal
from noiseworthy.privacy.durable.accounts import LAST_BITS, WHOLE
from noiseworthy.privacy.durable.reading import read_ledger
from noiseworthy.privacy.durable.restoring import accept, back_up, bear_witness, restore
from noiseworthy.privacy.durable.statement import statement
from noiseworthy.privacy.durable.storage import APPLICATION, files_of
from noiseworthy.privacy.durable.witness import Witness

from .conftest import CLIENTS, TENTH, Opened, opened


@pytest.fixture
def copy(tmp_path):
    return tmp_path / "copy.sqlite"


def shares(path) -> list[int]:
    with read_ledger(path) as ledger:
        return [line.shares for line in statement(ledger)]


def gone(path) -> None:
    """Lose a ledger with all its files."""
    for file in files_of(path):
        file.unlink()


# Backup -----------------------------------------------------------------------------------------------


def test_a_backup_holds_what_lies_in_the_log_while_somebody_writes(books, path, copy):
    books.ask(1)
    writer = DurableLedger.open(path)
    writer._db.execute("BEGIN IMMEDIATE")
    with read_ledger(path) as ledger:
        back_up(ledger, copy)
    writer._db.execute("ROLLBACK")
    writer.close()
    assert shares(copy) == [TENTH, 0]
    assert [file.name for file in files_of(copy)] == ["copy.sqlite"]
    assert copy.stat().st_mode & 0o777 == 0o600
    with read_ledger(copy) as ledger:
        assert ledger.head == books.ledger.head


def test_a_backup_by_a_link_to_the_ledger_holds_what_lies_in_its_log(books, path, copy):
    """It held nothing that was paid since the gateway last rested, and was called verified."""
    link = path.with_name("link.sqlite")
    link.symlink_to(path)
    books.ledger.settle()
    books.ask(1)
    with read_ledger(link) as ledger:
        back_up(ledger, copy)
    with read_ledger(copy) as found:
        assert (statement(found)[0].spent, found.head) == (1, books.ledger.head)


def test_a_backup_replaces_no_file(books, copy):
    copy.write_text("of last year")
    with pytest.raises(LedgerError, match=r"copy\.sqlite exists; name another file"):
        back_up(books.ledger, copy)
    assert copy.read_text() == "of last year"


def test_a_backup_that_does_not_verify_is_not_left_behind(books, path, copy):
    books.ask(1)
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE accounts SET spent = 0")
        other.commit()
    with pytest.raises(LedgerError, match="changed past its chain"):
        back_up(books.ledger, copy)
    assert not copy.exists()


def test_nothing_is_paid_from_a_backup_that_was_put_in_the_ledgers_place(books, path, copy):
    """The hand that copies it back forgets the command."""
    back_up(books.ledger, copy)
    books.ledger.close()
    gone(path)
    shutil.copy(copy, path)
    with pytest.raises(LedgerError, match=r"is a backup.*noiseworthy ledger restore"):
        DurableLedger.open(path)
    assert shares(path) == [0, 0]


# Restore and accept -----------------------------------------------------------------------------------


@pytest.fixture
def put_back(path, copy) -> Opened:
    """One tenth was spent, a backup made, six more were spent, the ledger lost and restored."""
    books = opened(path)
    books.ask(1)
    back_up(books.ledger, copy)
    for number in range(2, 8):
        books.ask(number)
    books.ledger.close()
    gone(path)
    restore(copy, path)
    books = opened(path)
    yield books
    books.ledger.close()


def test_a_restored_ledger_pays_for_nothing_until_it_is_accepted(put_back, path):
    with pytest.raises(LedgerError, match=r"put back from a backup.*noiseworthy ledger accept"):
        put_back.ask(2)
    assert not put_back.ledger.accepted
    assert shares(path) == [TENTH, 0]


def test_what_root_puts_back_belongs_to_whom_its_folder_belongs_to(books, path, copy, monkeypatch):
    """A gateway could not open its ledger, and was advised to name another, of which nothing is spent."""
    back_up(books.ledger, copy)
    books.ledger.close()
    gone(path)
    given = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda file, user, group: given.append((file.parent, user, group)))
    restore(copy, path)
    assert given == [(path.parent, path.parent.stat().st_uid, -1)]


def test_a_file_that_was_cut_to_nothing_becomes_no_ledger_by_being_accepted(tmp_path):
    """It became one that has spent nothing, and would have paid for everything again."""
    for content in ("", "x"):
        (tmp_path / "cut.sqlite").write_text(content)
        with pytest.raises(LedgerError, match="is no privacy ledger of this version"):
            accept(tmp_path / "cut.sqlite")
        assert (tmp_path / "cut.sqlite").read_text() == content
    with pytest.raises(LedgerError, match="does not exist"):
        accept(tmp_path / "none.sqlite")


def test_by_default_all_that_is_left_counts_as_spent(put_back, path):
    accept(path)
    assert put_back.ledger.accepted
    assert shares(path) == [WHOLE + LAST_BITS] * 2
    refused = put_back.ask(8, share=1)
    assert isinstance(refused, Refusal)
    assert refused.why == "budget"


def test_what_the_owner_states_is_charged_to_every_client(put_back, path):
    accept(path, Fraction(6, 10))
    assert shares(path) == [TENTH + -(-6 * WHOLE // 10), -(-6 * WHOLE // 10)]
    assert isinstance(put_back.ask(8), Grant)
    assert isinstance(put_back.ask(9, share=WHOLE // 4), Refusal)
    put_back.ledger.verify()


def test_more_than_is_left_is_all_that_is_left(put_back, path):
    accept(path, Fraction(95, 100))
    assert shares(path) == [WHOLE + LAST_BITS, -(-95 * WHOLE // 100)]


def test_a_restored_ledger_opens_no_account_as_if_it_were_new(put_back, path):
    """It may have been opened, and spent whole, after the backup."""
    accept(path, Fraction(0))
    late = Account("wards", "", "west", "epsilon", 1.0, 1.0, 0.0, "replace-one", "record")
    with pytest.raises(LedgerError, match="does not know west on wards"):
        put_back.ledger.enrol([late])


def test_a_restore_asks_for_a_free_place_and_a_whole_copy(put_back, path, copy, tmp_path):
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=r"ledger\.sqlite exists; move it"):
        restore(copy, path)
    assert path.read_bytes() == before
    stale = tmp_path / "other.sqlite-wal"
    stale.write_bytes(b"of a ledger that was killed")
    with pytest.raises(LedgerError, match=r"other\.sqlite-wal exists; move it"):
        restore(copy, tmp_path / "other.sqlite")
    copy.write_bytes(copy.read_bytes()[:5000])
    with pytest.raises(LedgerError, match="damaged"):
        restore(copy, tmp_path / "third.sqlite")
    assert not list(tmp_path.glob("third*"))


def test_what_nobody_doubts_is_not_charged(books, path):
    with pytest.raises(LedgerError, match=r"was not put back.*nothing is charged"):
        accept(path)
    with pytest.raises(LedgerError, match="does not exist"):
        accept(path.with_name("none.sqlite"))
    assert not path.with_name("none.sqlite").exists()
    with pytest.raises(InvalidInput, match="at least 0"):
        accept(path, Fraction(-1, 2))
    assert shares(path) == [0, 0]


def test_a_restore_cannot_be_edited_away(put_back, path):
    put_back.ledger.close()
    for change in (
        "UPDATE restores SET accepted = 1",
        "DELETE FROM restores",
        "UPDATE restores SET lost = '3:ab'",
    ):
        kept = path.read_bytes()
        with closing(sqlite3.connect(path)) as db:
            db.execute(change)
            db.commit()
        with pytest.raises(LedgerError, match="changed past its chain"):
            DurableLedger.open(path)
        path.write_bytes(kept)


def test_a_head_that_others_know_is_let_go_by_the_owners_word_alone(path, copy):
    """A copy by hand, which nothing marks, and a server that remembers."""
    books = opened(path)
    books.ledger.settle()
    shutil.copy(path, copy)
    books.ask(1)
    known = books.ledger.head
    books.ledger.close()
    gone(path)
    shutil.copy(copy, path)
    with opened(path).ledger as ledger:
        assert ledger.accepted
        assert not ledger.holds(known)
        accept(path, Fraction(1, 10), lost=[known])
        assert ledger.holds(known)
        assert [line.shares for line in statement(ledger)] == [TENTH] * 2
        ledger.verify()


def test_ledgers_of_before_are_read_and_written(path):
    """They lack the table of restores."""
    books = opened(path)
    books.ask(1)
    books.ledger._db.execute("DROP TABLE restores")
    books.ledger.close()
    assert shares(path) == [TENTH, 0]
    again = opened(path)
    assert isinstance(again.ask(2), Grant)
    assert again.ledger.accepted
    again.ledger.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION,)


# Witness ----------------------------------------------------------------------------------------------


@pytest.fixture
def witness(tmp_path):
    (tmp_path / "other disk").mkdir()
    return tmp_path / "other disk" / "witness.json"


def watched(path, witness) -> Opened:
    ledger = DurableLedger.open(path, witness)
    return Opened(ledger, ledger.begin("study"), ledger.enrol(CLIENTS))


def test_the_witness_knows_of_a_release_before_it_is_made(path, witness):
    with (books := watched(path, witness)).ledger:
        books.ask(1)
        told = json.loads(witness.read_text())
        assert told["head"] == str(books.ledger.head)
        assert [account["shares"] for account in told["accounts"]] == [TENTH, 0]
        assert witness.stat().st_mode & 0o777 == 0o600
        assert [file.name for file in witness.parent.iterdir()] == ["witness.json"]


def test_a_link_to_a_witness_goes_on_to_lead_to_the_other_disk(path, witness):
    """It was replaced by a file on the ledger's own disk, and the other one was told nothing."""
    link = path.with_name("witness.json")
    link.symlink_to(witness)
    with (books := watched(path, link)).ledger:
        books.ask(1)
        assert link.is_symlink()
        assert json.loads(witness.read_text())["head"] == str(books.ledger.head)
        assert [file.name for file in witness.parent.iterdir()] == ["witness.json"]


def test_a_copy_that_was_put_back_by_hand_lacks_what_the_witness_saw(path, witness, copy):
    with (books := watched(path, witness)).ledger:
        books.ledger.settle()
        shutil.copy(path, copy)
        books.ask(1)
    gone(path)
    shutil.copy(copy, path)
    with pytest.raises(LedgerError, match=r"lacks what its witness .* saw.*put the latest ledger back, or"):
        DurableLedger.open(path, witness)


def test_a_ledger_that_was_lost_and_begun_anew_is_not_its_witness_one(path, witness):
    with (books := watched(path, witness)).ledger:
        books.ask(1)
    gone(path)
    with pytest.raises(LedgerError, match="not this ledger's witness"):
        DurableLedger.open(path, witness)


def test_a_witness_that_was_changed_is_not_believed(path, witness):
    with (books := watched(path, witness)).ledger:
        books.ask(1)
    for old, new in ((str(TENTH), "0"), ("north", "south"), ('"version": 1', '"version": 1.0'), ("{", "[")):
        kept = witness.read_text()
        witness.write_text(kept.replace(old, new, 1))
        with pytest.raises(LedgerError, match="or was changed"):
            DurableLedger.open(path, witness)
        witness.write_text(kept)
    DurableLedger.open(path, witness).close()


def test_a_ledger_that_has_spent_asks_for_its_witness(path, witness):
    with (books := opened(path)).ledger:
        books.ask(1)
    with pytest.raises(LedgerError, match=r"is missing; mount its disk, or make a new one"):
        DurableLedger.open(path, witness)
    with DurableLedger.open(path) as ledger:
        bear_witness(ledger, Witness(witness))
    with (books := watched(path, witness)).ledger:
        assert isinstance(books.ask(2), Grant)


def test_without_its_disk_nothing_is_spent(path, witness):
    with (books := watched(path, witness)).ledger:
        witness.rename(witness.with_name("unmounted"))
        with pytest.raises(LedgerError, match="mount its disk, nothing was spent"):
            books.ask(1)
    assert shares(path) == [0, 0]


def test_a_release_that_the_witness_was_not_told_of_is_lost(path, witness, monkeypatch):
    """Its disk is full between the charge and the word: nothing may be made of the charge."""
    books = watched(path, witness)

    def full(*_):
        raise OSError(28, "No space left on device")

    with books.ledger:
        with monkeypatch.context() as broken:
            broken.setattr("noiseworthy.privacy.durable.witness.os.fsync", full)
            with pytest.raises(Unwitnessed, match="what was paid for last is not made"):
                books.ask(1)
        again = books.ask(1)
    assert isinstance(again, Refusal)
    assert again.why == "lost"
    assert shares(path) == [TENTH, 0]


def test_a_witness_that_cannot_be_told_at_the_start_says_that_nothing_was_spent(path, witness, monkeypatch):
    """It said that what was paid for last is not made, and nothing was paid for."""
    opened(path).ledger.close()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("noiseworthy.privacy.durable.witness.os.fsync", full)
        with pytest.raises(LedgerError, match="free space, nothing was spent") as raised:
            watched(path, witness)
    assert not isinstance(raised.value, Unwitnessed)
    watched(path, witness).ledger.close()


def test_a_ledger_that_is_ahead_of_its_witness_goes_on(path, witness):
    """Killed between the charge and the word."""
    with (books := watched(path, witness)).ledger:
        books.ask(1)
        early = witness.read_text()
        books.ask(2)
    witness.write_text(early)
    with (books := watched(path, witness)).ledger:
        assert isinstance(books.ask(3), Grant)


def test_two_who_share_a_ledger_never_set_its_witness_back(path, witness):
    """The slower one tells last, and tells of both."""
    with (one := watched(path, witness)).ledger, (two := watched(path, witness)).ledger:
        one.ledger._reserved(one.run, [one.charge(1)])
        two.ask(2)
        one.ledger._tell()
        assert json.loads(witness.read_text())["head"] == str(two.ledger.head)


def test_the_owner_must_state_what_the_witness_saw(path, witness, copy):
    """And accounts that were opened after the copy come back with what they had spent."""
    ledger = DurableLedger.open(path, witness)
    north, run = ledger.enrol(CLIENTS[:1])[0], ledger.begin("study")
    back_up(ledger, copy)
    (south,) = ledger.enrol(CLIENTS[1:])
    ledger.reserve(run, [Charge(north, 1, 2 * TENTH), Charge(south, 1, 3 * TENTH)])
    ledger.close()
    gone(path)
    restore(copy, path)
    with pytest.raises(LedgerError, match="lacks what its witness"):
        DurableLedger.open(path, witness)
    with pytest.raises(LedgerError, match=r"saw 20\.000001 % more of the budget of north spent .* got 10"):
        accept(path, Fraction(1, 10), witness=Witness(witness))
    accept(path, Fraction("0.30000001"), witness=Witness(witness))
    with (books := watched(path, witness)).ledger:
        assert [line.account.client for line in statement(books.ledger)] == ["north", "south"]
        assert all(3 * TENTH <= line.shares < 0.31 * WHOLE for line in statement(books.ledger))
        assert isinstance(books.ask(2), Grant)
