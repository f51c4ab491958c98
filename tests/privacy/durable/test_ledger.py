"""The durable ledger: what it grants, resends and refuses, what it notices, and how it fails."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from noiseworthy.errors import InvalidInput, LedgerError
from noiseworthy.privacy.durable import Account, Charge, DurableLedger, Grant, Refusal, Resend, storage
from noiseworthy.privacy.durable.accounts import LAST_BITS, WHOLE
from noiseworthy.privacy.durable.reading import account_of, check_holds, read_ledger
from noiseworthy.privacy.durable.schedules import note_plan
from noiseworthy.privacy.durable.statement import statement
from noiseworthy.privacy.durable.storage import files_of

from .conftest import CLIENTS, TENTH, opened

# The life of a release --------------------------------------------------------------------------------


def test_a_release_is_spent_then_sealed_then_acknowledged(books):
    seen = []

    def state() -> tuple[int, int, int]:
        line = statement(books.ledger)[0]
        return line.spent, line.sealed, line.acknowledged

    grant = books.ask(1)
    seen.append(state())
    books.ledger.seal(grant.number, b"upload")
    seen.append(state())
    books.ledger.acknowledge(grant.number)
    seen.append(state())
    assert seen == [(1, 0, 0), (1, 1, 0), (1, 1, 1)]


def test_spending_is_on_disk_when_the_grant_is_returned(books, path):
    """Seen by another connection while the first one holds on."""
    books.ask(1)
    with read_ledger(path) as other:
        assert statement(other)[0].shares == TENTH


def test_a_sealed_release_is_answered_by_the_same_bytes_and_costs_nothing_more(books):
    grant = books.ask(1)
    books.ledger.seal(grant.number, b"\x00noise\xff")
    assert books.ask(1) == Resend(grant.number, b"\x00noise\xff")
    assert statement(books.ledger)[0].shares == TENTH


def test_a_release_that_was_never_sealed_is_lost_with_deployed_noise(books):
    books.ask(1)
    answer = books.ask(1)
    assert isinstance(answer, Refusal)
    assert answer.why == "lost"
    assert "release 1 of north was paid for and never sealed" in answer.message
    assert isinstance(books.ask(2), Grant)
    assert statement(books.ledger)[0].shares == 2 * TENTH


def test_it_is_made_again_where_noise_is_a_function_of_the_release(path):
    books = opened(path, repeatable=True)
    first = books.ask(1)
    assert books.ask(1) == Grant(first.number, again=True)
    assert statement(books.ledger)[0].shares == TENTH
    books.ledger.close()


def test_other_bytes_for_a_sealed_release_are_refused(books):
    grant = books.ask(1)
    books.ledger.seal(grant.number, b"one draw")
    books.ledger.seal(grant.number, b"one draw")
    with pytest.raises(LedgerError, match="sealed with other bytes"):
        books.ledger.seal(grant.number, b"another draw")
    assert books.ask(1).sealed == b"one draw"


def test_nothing_is_acknowledged_before_it_is_sealed(books):
    grant = books.ask(1)
    with pytest.raises(LedgerError, match="seal it before it leaves"):
        books.ledger.acknowledge(grant.number)


# Budgets ----------------------------------------------------------------------------------------------


def test_a_budget_is_spent_to_its_end_and_no_further(books):
    granted = [isinstance(books.ask(number), Grant) for number in range(12)]
    assert granted == [True] * 10 + [False] * 2
    refused = books.ask(12)
    assert (refused.why, refused.client) == ("budget", "north")
    assert "nothing was charged" in refused.message
    assert isinstance(books.ask(1, client=1), Grant)


def test_a_reservation_of_several_releases_is_paid_whole_or_not_at_all(books):
    books.ask(1, share=WHOLE - TENTH, client=1)
    both = [books.charge(1), books.charge(2), books.charge(2, share=2 * TENTH, client=1)]
    refused = books.ledger.reserve(books.run, both)
    assert refused.client == "south"
    assert [line.spent for line in statement(books.ledger)] == [0, 1]
    assert isinstance(books.ledger.reserve(books.run, both[:2]), Grant)


def test_runs_on_the_same_data_add_up_and_worlds_do_not(books):
    other = books.ledger.begin("another study")
    books.ask(1, share=6 * TENTH)
    assert books.ledger.reserve(other, [books.charge(1, share=6 * TENTH)]).why == "budget"
    (elsewhere,) = books.ledger.enrol([Account("wards", "seed 1", *CLIENTS[0].row[2:])])
    assert isinstance(books.ledger.reserve(other, [Charge(elsewhere, 1, 6 * TENTH)]), Grant)


def test_a_lifetime_budget_does_not_change(books):
    richer = Account("wards", "", "north", "epsilon", 9.0, 9.0, 0.0, "replace-one", "record")
    with pytest.raises(LedgerError, match=r"another budget of north on wards \(epsilon 1.*now epsilon 9"):
        books.ledger.enrol([richer])
    assert books.ledger.enrol(CLIENTS) == books.accounts
    assert account_of(books.ledger, "wards", "", "north") == CLIENTS[0]
    assert account_of(books.ledger, "wards", "", "west") is None


def test_the_database_itself_refuses_what_would_overspend(books):
    """Were the check in Python wrong, the constraint would hold."""
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        books.ledger._db.execute("UPDATE accounts SET spent = ?", [WHOLE + LAST_BITS + 1])


def test_what_fails_in_the_middle_leaves_nothing_behind(books):
    """The first of two accounts is written before the second is refused."""
    west = Account("wards", "", "west", *CLIENTS[0].row[3:])
    richer = Account("wards", "", "north", "epsilon", 9.0, 9.0, 0.0, "replace-one", "record")
    head = books.ledger.head
    with pytest.raises(LedgerError, match="another budget of north"):
        books.ledger.enrol([west, richer])
    assert account_of(books.ledger, "wards", "", "west") is None
    assert books.ledger.head == head


@pytest.mark.parametrize(
    ("charges", "message"),
    [
        ([], "at least one release"),
        ([(0, 1, TENTH), (0, 1, TENTH)], "named twice"),
        ([(0, 1, -1)], "whole and at least 0"),
        ([(0, 1, 0.5)], "whole and at least 0"),
        ([(0, 1, float("nan"))], "whole and at least 0"),
        ([(7, 1, TENTH)], "enrol the client first"),
    ],
)
def test_what_cannot_be_asked_is_refused_and_nothing_is_spent(charges, message, books):
    known = [*books.accounts, *[999] * 9]
    with pytest.raises(InvalidInput, match=message):
        books.ledger.reserve(books.run, [Charge(known[i], number, share) for i, number, share in charges])
    assert all(line.shares == 0 for line in statement(books.ledger))


def test_releases_are_asked_again_as_they_were(books):
    pair = [books.charge(1), books.charge(1, client=1)]
    books.ledger.reserve(books.run, pair)
    for other in ([pair[0]], [*pair, books.charge(2)], [pair[0]._replace(share=TENTH + 1), pair[1]]):
        with pytest.raises(LedgerError, match="some of these releases with others or at another price"):
            books.ledger.reserve(books.run, other)
    assert [line.spent for line in statement(books.ledger)] == [1, 1]


def test_a_run_keeps_its_kind_of_noise_and_its_plan(books):
    with pytest.raises(LedgerError, match="with other noise"):
        books.ledger.begin("study", repeatable=True)
    note_plan(books.ledger, books.run, 1, [(account, 3) for account in books.accounts])
    note_plan(books.ledger, books.run, 1, [(account, 3) for account in books.accounts])
    with pytest.raises(LedgerError, match="another plan of stage 1"):
        note_plan(books.ledger, books.run, 1, [(account, 4) for account in books.accounts])
    note_plan(books.ledger, books.run, 2, [])  # of a stage that asks nobody
    books.ledger.verify()
    books.ask(1)
    assert [(line.planned, line.remaining) for line in statement(books.ledger)] == [(3, 2), (3, 3)]


# The chain --------------------------------------------------------------------------------------------

FORGERIES = {
    "a refund": "UPDATE accounts SET spent = 0 WHERE id = 1",
    "a richer client": "UPDATE accounts SET size = 9.0, epsilon = 9.0 WHERE id = 1",
    "a cheaper release": (
        "UPDATE releases SET share = share - 1 WHERE account = 1; "
        "UPDATE accounts SET spent = spent - 1 WHERE id = 1"
    ),
    "a removed release": ("DELETE FROM releases; UPDATE accounts SET spent = 0; DELETE FROM grants"),
    "other bytes": "UPDATE grants SET sealed = x'00' WHERE sealed IS NOT NULL",
    "a seal taken away": "UPDATE grants SET sealed = NULL",
    "an arrival": "UPDATE grants SET acknowledged = 1",
    "another kind of noise": "UPDATE runs SET repeatable = 1",
    "another plan": "UPDATE plans SET releases = 100",
    "an entry less in the middle": "DELETE FROM entries WHERE id = 2",
    "an account past the chain": (
        "INSERT INTO accounts SELECT 9, data, world, 'west', currency, size, epsilon, delta, relation, "
        "unit, 0 FROM accounts WHERE id = 1"
    ),
    "another identity": "UPDATE identity SET value = 'x'",
    "text for bytes": "UPDATE entries SET body = 'x' WHERE id = 1",
    "bytes for text": "UPDATE accounts SET client = x'00' WHERE id = 1",
    "no identity": "DELETE FROM identity",
}


@pytest.fixture
def used(books, path):
    note_plan(books.ledger, books.run, 1, [(account, 3) for account in books.accounts])
    grant = books.ask(1)
    books.ledger.seal(grant.number, b"upload")
    books.ledger.close()
    return path


@pytest.mark.parametrize("forgery", list(FORGERIES))
def test_what_is_changed_past_the_chain_is_noticed_on_opening(forgery, used):
    with closing(sqlite3.connect(used)) as db:
        db.executescript(FORGERIES[forgery])
    with pytest.raises(LedgerError, match="changed past its chain"):
        DurableLedger.open(used)


def test_a_client_that_damage_hides_from_its_index_does_not_seem_new(used):
    """By a bit of its name there, `enrol` would open a second account, with nothing spent."""
    content = bytearray(used.read_bytes())
    _, in_index = (at for at in range(len(content)) if content.startswith(b"north", at))
    content[in_index] ^= 2
    used.write_bytes(content)
    with pytest.raises(LedgerError, match=r"changed past its chain .*missing from index"):
        DurableLedger.open(used)


def test_an_honest_ledger_opens(used):
    with DurableLedger.open(used) as ledger:
        ledger.verify()


def test_a_ledger_that_was_set_back_is_noticed_by_the_head_that_is_kept_elsewhere(used, tmp_path):
    """An old copy is sound in itself; only the mirrored head tells."""
    old = shutil.copy(used, tmp_path / "old.sqlite")
    books = opened(used)
    books.ask(2)
    head = books.ledger.head
    check_holds(books.ledger, head)
    books.ask(3)
    check_holds(books.ledger, head)
    books.ledger.close()
    with DurableLedger.open(old) as ledger, pytest.raises(LedgerError, match="set back or replaced"):
        check_holds(ledger, head)


def test_another_ledger_with_as_many_entries_is_no_replacement(used, tmp_path):
    with DurableLedger.open(used) as ledger:
        head = ledger.head
    other = opened(tmp_path / "other.sqlite")
    while other.ledger.head.length < head.length:
        other.ask(other.ledger.head.length)
    with pytest.raises(LedgerError, match="set back or replaced"):
        check_holds(other.ledger, head)
    other.ledger.close()


# Files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 4096, 8192])
def test_a_damaged_file_is_named_with_the_remedy(at, used):
    content = bytearray(used.read_bytes())
    content[at : at + 300] = os.urandom(300)
    used.write_bytes(content)
    with pytest.raises(LedgerError, match=r"is damaged|is no (privacy )?ledger|changed past its chain"):
        DurableLedger.open(used)


def test_a_file_that_is_no_ledger_is_left_alone(path):
    with closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE somebody (s TEXT); INSERT INTO somebody VALUES ('else')")
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="is no privacy ledger"):
        read_ledger(path)
    assert path.read_bytes() == before
    with pytest.raises(LedgerError, match="is no privacy ledger"):
        DurableLedger.open(path)
    assert path.read_bytes() == before
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT * FROM somebody").fetchall() == [("else",)]
    path.write_bytes(b"just text, long enough to be looked at by a database" * 50)
    with pytest.raises(LedgerError, match="is no ledger; name another file"):
        DurableLedger.open(path)


@pytest.mark.parametrize("size", [None, 0, 4096])
def test_a_ledger_that_has_paid_and_is_gone_does_not_begin_anew(size, used):
    """It showed 0 % spent, without a word; a file of one page lost what its log held."""
    beside, content = used.with_name("ledger.sqlite.turn"), used.read_bytes()
    beside.touch()
    DurableLedger.open(used).close()
    used.unlink()
    if size:
        with closing(sqlite3.connect(used)) as db:
            db.execute("PRAGMA journal_mode = WAL")
    elif size is not None:
        used.write_bytes(b"")
    words = r"missing or empty, and by ledger\.sqlite\.turn .* put its latest backup .* or remove these"
    with pytest.raises(LedgerError, match=words):
        DurableLedger.open(used)
    assert [file.stat().st_size for file in files_of(used)] == [] if size is None else [size]
    used.write_bytes(content)
    DurableLedger.open(used).close()
    used.unlink()
    beside.unlink()
    with DurableLedger.open(used) as ledger:
        assert statement(ledger) == []


@pytest.mark.parametrize("step", ["made", "logged"])
def test_a_ledger_whose_first_start_was_killed_begins(step, path):
    """Nothing was paid for, and nothing lies beside it."""
    path.touch(0o600)
    if step == "logged":
        storage._log_ahead(path)
    with opened(path).ledger as ledger:
        assert [one.spent for one in statement(ledger)] == [0, 0]


def test_an_error_of_its_disk_is_no_damage(tmp_path):
    """Files may grow no further in this process: a backup is of no help."""
    code = [sys.executable, "-c", CANNOT_GROW, str(tmp_path / "ledger.sqlite")]
    said = subprocess.run(code, capture_output=True, text=True, check=True).stdout
    assert "cannot be written or read on its disk; look at the disk, its quota and limits" in said
    assert "damaged" not in said


CANNOT_GROW = """
import resource, signal, sys
from pathlib import Path
from noiseworthy.errors import LedgerError
from noiseworthy.privacy.durable import Account, Charge, DurableLedger
account = Account("wards", "", "north", "epsilon", 1.0, 1.0, 0.0, "replace-one", "record")
with DurableLedger.open(Path(sys.argv[1])) as ledger:
    (number,), run = ledger.enrol([account]), ledger.begin("run")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    size = Path(sys.argv[1] + "-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        ledger.reserve(run, [Charge(number, 1, 1)])
    except LedgerError as error:
        print(error)
"""


def test_a_missing_ledger_is_not_made_by_looking(path):
    with pytest.raises(LedgerError, match="does not exist"):
        read_ledger(path)
    assert not path.exists()


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(LedgerError, match=r"ledger\.sqlite has no folder to lie in"):
        DurableLedger.open(tmp_path / "file" / "ledger.sqlite")
    with pytest.raises(LedgerError, match="has no folder to lie in"):
        DurableLedger.open(tmp_path / "file" / "below" / "ledger.sqlite")


@pytest.mark.parametrize("word", ["full", "locked", "readonly"])
def test_the_remedy_is_for_what_went_wrong_and_not_for_what_a_folder_is_called(word, tmp_path):
    folder = tmp_path / word / "ledger.sqlite"
    folder.mkdir(parents=True)
    with pytest.raises(LedgerError, match="is a folder; name a file"):
        DurableLedger.open(folder)


def test_a_read_only_ledger_is_shown_and_refuses_to_spend(used):
    with read_ledger(used) as ledger:
        assert statement(ledger)[0].spent == 1
        with pytest.raises(LedgerError, match="cannot be written; make its folder writable"):
            ledger.reserve(1, [Charge(1, 5, TENTH)])
        assert statement(ledger)[0].spent == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(LedgerError, match="cannot be written"):
        DurableLedger.open(tmp_path / "ledger.sqlite")


def test_a_full_disk_is_named_and_nothing_is_spent(books):
    """The limit on pages makes SQLite report what a full disk makes it report."""
    (pages,) = books.ledger._db.execute("PRAGMA page_count").fetchone()
    books.ledger._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerError, match=r"free disk space.*nothing was spent"):
        books.ledger.reserve(books.run, [books.charge(n, share=1) for n in range(5000)])
    assert statement(books.ledger)[0].spent == 0
    books.ledger._db.execute("PRAGMA max_page_count = 1000000")
    assert isinstance(books.ask(1), Grant)


def test_a_ledger_that_another_process_holds_is_waited_for_and_named(books, path, monkeypatch):
    monkeypatch.setattr("noiseworthy.privacy.durable.storage.PATIENCE", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="held by another process"):
            DurableLedger.open(path)
        other.execute("ROLLBACK")
    DurableLedger.open(path).close()


# Processes --------------------------------------------------------------------------------------------

RACER = """
import sys
from pathlib import Path
from noiseworthy.privacy.durable import Account, Charge, DurableLedger, Grant
one = Account("wards", "", "north", "epsilon", 1.0, 1.0, 0.0, "replace-one", "record")
with DurableLedger.open(Path(sys.argv[1])) as ledger:
    run, (account,) = ledger.begin(sys.argv[2]), ledger.enrol([one])
    print("ready", flush=True)
    sys.stdin.readline()
    answers = [ledger.reserve(run, [Charge(account, n, one.share(0.01))]) for n in range(40)]
    print(sum(isinstance(answer, Grant) for answer in answers))
"""


def test_four_racing_processes_never_overspend(path):
    """160 releases are asked for, 100 are paid for: 99 or 100 fit, whoever is first."""
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(path), f"run {i}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for i in range(4)
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    granted = sum(int(racer.communicate()[0]) for racer in racers)
    assert all(racer.returncode == 0 for racer in racers)
    with DurableLedger.open(path) as ledger:
        (line,) = statement(ledger)
    assert granted == line.spent == 100
    assert line.shares <= WHOLE + LAST_BITS


OPENER = """
import sys, time
from pathlib import Path
from noiseworthy.privacy.durable.storage import connected
print("ready", flush=True)
start, kept = float(sys.stdin.readline()), []
for i in range(8):
    time.sleep(max(start + i / 4 - 0.05 - time.time(), 0))
    while time.time() < start + i / 4:
        pass
    kept.append(connected(Path(sys.argv[1]) / f"{i}.sqlite"))
print(len(kept))
"""


def test_a_ledger_that_four_processes_make_at_once_is_opened_by_all(tmp_path):
    """SQLite lets none of them change a file's mode while others have read it in the one before."""
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", OPENER, str(tmp_path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(4)
    ]  # fmt: skip
    for opener in openers:
        assert opener.stdout.readline() == "ready\n"
    told = f"{time.time() + 0.2}\n"
    for opener in openers:
        opener.stdin.write(told)
        opener.stdin.flush()
    assert [opener.communicate()[0] for opener in openers] == ["8\n"] * 4


CLOSER = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as db:
    db.execute("SELECT count(*) FROM entries").fetchone()
db.close()
"""


def test_what_is_paid_stays_where_a_process_opens_its_ledger_twice(books, path):
    """The second opening let go of the locks of the first, under which another process removed the log."""
    DurableLedger.open(path).close()
    subprocess.run([sys.executable, "-c", CLOSER, str(path)], check=True)
    assert isinstance(books.ask(1), Grant)
    with read_ledger(path) as ledger:
        assert statement(ledger)[0].spent == 1


def test_the_ledger_needs_no_jax():
    code = "import noiseworthy.privacy.durable, sys; print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
