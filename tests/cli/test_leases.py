"""`ledger end-lease`, folders that hold a run, and progress in logs, as a program sees them."""

from __future__ import annotations

import json

import pytest

from noiseworthy.cli import console
from noiseworthy.privacy.durable import Account, DurableLedger
from noiseworthy.privacy.durable.accounts import WHOLE
from noiseworthy.privacy.durable.leases import lease
from noiseworthy.privacy.durable.reading import leases_of, read_ledger

NORTH = Account("wards", "", "north", "epsilon", 1.0, 1.0, 0.0, "replace-one", "record")


@pytest.fixture
def held(tmp_path):
    """A ledger with a quarter of its budget held for a run that was given up."""
    path = tmp_path / "ledger.sqlite"
    with DurableLedger.open(path) as books:
        (account,) = books.enrol([NORTH])
        lease(books, books.begin("run [/red]\x1b[2J"), account, WHOLE // 4)
    return path


def test_an_open_lease_is_shown_and_ended(run, held):
    shown = run("ledger", "show", held)
    told = r"Held for 'run [/red]\x1b[2J': 25 % of the budget of north"
    assert told in shown.out.replace("\N{NO-BREAK SPACE}", " ")
    (told,) = json.loads(run("ledger", "show", held, "--json").out)["leases"]
    assert (told["client"], told["part"]) == ("north", 0.25)
    ended = run("ledger", "end-lease", held, told["run"])
    assert ended.code == 0, ended.err
    assert "25 % of the budget is free again" in ended.out
    with read_ledger(held) as books:
        assert leases_of(books) == []


def test_what_is_not_held_is_not_ended(run, held):
    again = run("ledger", "end-lease", held, "run x")
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert "holds nothing for run 'run x'" in again.err
    missing = run("ledger", "end-lease", held.with_name("none.sqlite"), "run x")
    assert missing.code == 2
    assert not held.with_name("none.sqlite").exists()


def test_a_folder_that_holds_a_run_is_refused_before_anybody_is_asked(run, tmp_path, monkeypatch):
    """The deployment is not even looked for."""
    (tmp_path / "runs" / "two").mkdir(parents=True)
    (tmp_path / "runs" / "two" / "model.npz").write_bytes(b"kept")
    (tmp_path / "two.toml").write_text("")
    answer = run("deploy", "run", "two.toml")
    assert answer.code == 2
    assert "runs/two holds a run already (model.npz)" in answer.err
    assert (tmp_path / "runs" / "two" / "model.npz").read_bytes() == b"kept"


@pytest.fixture
def clock(monkeypatch):
    """Seconds that tests let pass."""
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    return now


def test_progress_without_a_terminal_is_a_line_every_half_minute(clock, capsys):
    with console.progress_bar("Training", 20, "rounds") as bar:
        bar(0.0)
        for done in range(1, 9):
            clock[0] += 10.0
            bar(done / 20, "4 of 5 owners")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "Training 4 of 5 owners: 3 of 20 rounds, 0.1 rounds/s, about 3 minutes left",
        "Training 4 of 5 owners: 6 of 20 rounds, 0.1 rounds/s, about 2 minutes left",
    ]


def test_a_run_that_goes_on_tells_the_rate_of_its_own_rounds(clock, capsys):
    with console.progress_bar("Planning", 100, "%") as bar:
        bar(0.5)
        clock[0] += 30.0
        bar(0.6)
    assert capsys.readouterr().err == "Planning: 60 %, about 2 minutes left\n"


def test_what_is_quickly_done_says_nothing(clock, capsys):
    with console.progress_bar("Training", 5, "rounds") as bar:
        for done in range(6):
            clock[0] += 4.0
            bar(done / 5)
    assert capsys.readouterr().err == ""
