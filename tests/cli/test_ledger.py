"""`ledger show` and the ledger that runs share, as a program sees them."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest

from noiseworthy.deploy.run_state import RunState
from noiseworthy.privacy.durable import Account, Charge, DurableLedger

STUDY = {
    "federation": {"data": "digits", "clients": 4, "partition": "iid", "records_per_client": 30},
    "task": {"model": "softmax", "feature_norm": 1.0, "normalise": True},
    "privacy": {"mechanism": "gaussian", "epsilon": 8.0, "delta": 1e-5, "clip_norm": 0.5},
    "algorithm": {"rounds": 6, "clients_per_round": 2, "step_size": 5.0},
    "constants": {
        "smoothness": 1.0, "strong_convexity": 0.1, "gradient_bound": 10.0, "initial_distance_sq": 9000.0,
        "heterogeneity": 0.5,
    },
    "training": {"seeds": [0, 1], "evaluations": 3},
}  # fmt: skip


@pytest.fixture
def trained(run, write):
    answer = run("train", write(STUDY), "--out", "here", "--json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def test_a_run_folder_shows_every_client_of_every_seed(run, trained):
    answer = run("ledger", "show", "here", "--json")
    assert answer.code == 0
    shown = json.loads(answer.out)
    assert len(shown["accounts"]) == 8
    assert {row["client"] for row in shown["accounts"]} == {f"client {i}" for i in range(4)}
    for row in shown["accounts"]:
        assert row["planned"] == row["spent"] == row["sealed"] == row["acknowledged"] == 3
        assert (row["remaining"], row["lifetime_epsilon"], row["delta"]) == (0, 8.0, 1e-5)
        assert row["spent_epsilon"] == pytest.approx(8.0, rel=1e-9)
        assert row["spent_epsilon"] <= 8.0
    assert trained["ledger"] == {"head": shown["head"], "releases": 24, "acknowledged": 24}
    assert shown["head"].split(":")[0] == str(shown["entries"])


def test_a_long_name_leaves_room_for_what_its_client_has_spent(run, tmp_path):
    branch = Account("bank", "", "branch " * 40, "epsilon", 1.0, 1.0, 0.0, "replace-one", "record")
    with DurableLedger.open(tmp_path / "ledger.sqlite") as ledger:
        (number,) = ledger.enrol([branch])
        ledger.reserve(ledger.begin("first"), [Charge(number, 1, branch.share(0.25))])
    row = run("ledger", "show", "ledger.sqlite").out.splitlines()[4]
    assert row.startswith(" branch branch")
    assert row.split("…")[1].split() == ["1", "0", "0.25", "0", "1", "25", "%"]


def test_releases_that_nobody_planned_are_not_said_to_be_none_left(run, trained, tmp_path):
    """A gateway keeps no schedule: most of its budget may be left."""
    north = Account("wards", "", "north", "epsilon", 1.0, 1.0, 0.0, "replace-one", "record")
    with DurableLedger.open(tmp_path / "ledger.sqlite") as ledger:
        (number,) = ledger.enrol([north])
        ledger.reserve(ledger.begin("first"), [Charge(number, 1, north.share(0.25))])
    heads = [run("ledger", "show", path).out.splitlines()[2].split() for path in ("ledger.sqlite", "here")]
    assert heads[0] == ["client", "spent", "arrived", "epsilon", "delta", "of", "lifetime"]
    assert heads[1] == ["client", "planned", "spent", "arrived", "left", *heads[0][3:]]


def test_a_page_says_what_is_left_and_a_file_that_cannot_be_written_is_named(run, trained, tmp_path):
    assert run("ledger", "page", "here").code == 0
    page = (tmp_path / "here" / "ledger.html").read_text()
    assert page.count("Nothing is left of the lifetime budget of 4 of 4 clients.") == 4  # twice a seed
    assert page.count("A simulated world") == 2
    refused = run("ledger", "page", "here", "--out", tmp_path)
    assert (refused.code, "cannot be written" in refused.err) == (2, True)
    before = (tmp_path / "here" / "ledger.sqlite").read_bytes()
    refused = run("ledger", "page", "here", "--out", "here/ledger.sqlite")
    assert (refused.code, "is the ledger itself" in refused.err) == (2, True)
    assert (tmp_path / "here" / "ledger.sqlite").read_bytes() == before


def test_the_ledger_is_private_while_training_writes_it(run, write, monkeypatch, tmp_path):
    """Under the usual umask, with the files that SQLite keeps beside it."""
    seen, reserve = {}, DurableLedger.reserve

    def watched(self, *charges):
        files = (tmp_path / "here").glob("ledger.sqlite*")
        seen.update({file.name: file.stat().st_mode & 0o777 for file in files})
        return reserve(self, *charges)

    monkeypatch.setattr(DurableLedger, "reserve", watched)
    before = os.umask(0o022)
    try:
        assert run("train", write(STUDY), "--out", "here", "--json").code == 0
    finally:
        os.umask(before)
    assert seen == dict.fromkeys(["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"], 0o600)


def test_people_see_a_table_for_each_world_and_that_the_chain_holds(run, trained):
    answer = run("ledger", "show", "here/ledger.sqlite")
    assert answer.code == 0
    assert "simulated: seed 0 of run" in answer.out
    assert "simulated: seed 1 of run" in answer.out
    assert "client 3" in answer.out
    assert f"Chain verified: {trained['ledger']['head'].split(':')[0]} entries" in answer.out


def test_the_report_says_what_was_entered(run, trained, tmp_path):
    page = (tmp_path / "here" / "report.html").read_text()
    assert "24 releases were entered in a ledger on disk before their noise was drawn, and 24 are" in page


@pytest.mark.parametrize("argument", ["nowhere", "empty"])
def test_where_there_is_no_ledger_the_command_says_so(argument, run, tmp_path):
    (tmp_path / "empty").mkdir()
    answer = run("ledger", "show", argument)
    assert answer.code == 2
    assert "does not exist; give a ledger, or a run folder that train made" in answer.err
    assert answer.err.count("\n") == 1


def test_a_ledger_of_another_time_is_refused_beside_its_checkpoint(run, write, trained, tmp_path):
    """Set back to an empty one; resume and show name it, and the record stays as it is."""
    folder = tmp_path / "here"
    assert run("train", write(STUDY), "--out", "other", "--json").code == 0
    shutil.copy(tmp_path / "other" / "ledger.sqlite", folder / "ledger.sqlite")
    before = (folder / "record.json").read_bytes()
    for command in (["ledger", "show", "here"], ["train", write(STUDY), "--out", "here", "--resume"]):
        answer = run(*command)
        assert answer.code == 2
        assert "lacks what it held before" in answer.err
    assert (folder / "record.json").read_bytes() == before
    (folder / "ledger.sqlite").unlink()
    answer = run("train", write(STUDY), "--out", "here", "--resume")
    assert answer.code == 2
    assert "is missing, which holds what this run has spent" in answer.err
    assert (folder / "record.json").read_bytes() == before


def test_runs_that_share_a_ledger_are_refused_past_the_lifetime_epsilon(run, write):
    """Two studies of epsilon 8 spend about 12; a third one does not fit into 14."""
    shared = ["--ledger", "owner.sqlite", "--lifetime-epsilon", "14"]
    for i, step in enumerate((5.0, 4.0, 3.0)):
        study = write(STUDY, algorithm={"step_size": step})
        answer = run("train", study, "--out", f"run{i}", *shared, "--json")
        assert answer.code == (2 if i == 2 else 0), answer.err
    assert "client 0 has spent" in answer.err
    assert "nothing was spent" in answer.err
    rows = json.loads(run("ledger", "show", "owner.sqlite", "--json").out)["accounts"]
    assert [row["spent"] for row in rows] == [6] * 8
    assert all(8.0 < row["spent_epsilon"] <= 14.0 for row in rows)


def test_a_lifetime_epsilon_needs_a_ledger_and_a_number(run, write):
    answer = run("train", write(STUDY), "--lifetime-epsilon", "14")
    assert answer.code == 2
    assert "name it with --ledger" in answer.err
    answer = run("train", write(STUDY), "--ledger", "owner.sqlite", "--lifetime-epsilon", "-1")
    assert answer.code == 2
    assert "lifetime_epsilon must be finite and above 0" in answer.err


# Copies, and ledgers that were put back -----------------------------------------------------------------


@pytest.fixture
def kept(trained, tmp_path):
    """The run's ledger, and what it holds."""
    return tmp_path / "here" / "ledger.sqlite"


@pytest.fixture
def small(tmp_path):
    """A ledger that has spent a half."""
    one = Account("wards", "", "north", "epsilon", 1.0, 1.0, 0.0, "replace-one", "record")
    with DurableLedger.open(tmp_path / "small.sqlite") as ledger:
        ledger.reserve(ledger.begin("study"), [Charge(ledger.enrol([one])[0], 1, one.share(0.5))])
    return tmp_path / "small.sqlite"


def test_a_backup_is_verified_shown_and_replaces_nothing(run, trained, tmp_path):
    answer = run("ledger", "backup", "here", "copy.sqlite")
    assert answer.code == 0, answer.err
    assert answer.out.count("client 3") == 2
    assert f"head {trained['ledger']['head']}" in answer.out
    assert (tmp_path / "copy.sqlite").stat().st_mode & 0o777 == 0o600
    again = run("ledger", "backup", "here", "copy.sqlite")
    assert again.code == 2
    assert "copy.sqlite exists; name another file" in again.err
    assert json.loads(run("ledger", "show", "copy.sqlite", "--json").out)["head"] == trained["ledger"]["head"]
    nowhere = run("ledger", "backup", "here", "none/copy.sqlite")
    assert nowhere.code == 2
    assert "has no folder to lie in" in nowhere.err


def test_a_restored_ledger_says_what_it_waits_for_and_is_accepted(run, kept, write):
    assert run("ledger", "backup", "here", "copy.sqlite").code == 0
    there = run("ledger", "restore", "copy.sqlite", kept)
    assert there.code == 2
    assert "ledger.sqlite exists; move it" in there.err
    kept.unlink()
    answer = run("ledger", "restore", "copy.sqlite", kept)
    assert answer.code == 0, answer.err
    assert "Put back, and nothing is paid" in answer.out
    assert answer.out.endswith(f"Next: noiseworthy ledger accept {kept}\n")
    shown = json.loads(run("ledger", "show", kept, "--json").out)
    assert shown["put_back"] == [{"lost": None, "accepted": False}]
    (kept.parent / "checkpoint.npz").unlink()
    refused = run("train", write(STUDY, algorithm={"step_size": 4.0}), "--ledger", kept, "--out", "other")
    assert refused.code == 2
    assert "put back from a" in refused.err
    assert run("ledger", "accept", kept, "--spent-since", "0 %").code == 0
    shown = json.loads(run("ledger", "show", kept, "--json").out)
    assert shown["put_back"] == [{"lost": None, "accepted": True}]
    assert "Put back 1 time;" in run("ledger", "show", kept).out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--spent-since", "101"], "a percentage from 0 to 100, got '101'"),
        (["--spent-since", "half"], "a percentage from 0 to 100, got 'half'"),
        (["--spent-since=-1"], "a percentage from 0 to 100, got '-1'"),
        (["--spent-since", "nan"], "a percentage from 0 to 100, got 'nan'"),
        (["--lost", "7:0a1b"], "a head as the gateway's log names it, whole, got '7:0a1b'"),
        ([], "was not put back"),
    ],
)
def test_what_cannot_be_accepted_is_said_in_one_line(words, said, run, small):
    answer = run("ledger", "accept", small, *words)
    assert answer.code == 2
    assert said in answer.err
    assert answer.err.count("\n") == 1


def test_a_witness_is_begun_once(run, small, tmp_path):
    answer = run("ledger", "witness", small, "witness.json")
    assert answer.code == 0, answer.err
    with DurableLedger.open(small, tmp_path / "witness.json") as ledger:
        assert json.loads((tmp_path / "witness.json").read_text())["head"] == str(ledger.head)
    again = run("ledger", "witness", small, "witness.json")
    assert again.code == 2
    assert "replaced by ledger accept alone" in again.err


def test_the_folder_of_a_simulated_run_in_which_a_deployed_one_ran_is_shown(run, trained, tmp_path):
    """The checkpoint is the deployed run's, whose owners hold the ledgers; the one here is whole."""
    checkpoint = dict(np.load(tmp_path / "here" / "checkpoint.npz"))
    told = RunState("run 0a1b", heads={"north": "7:0a"}).as_json()
    np.savez(tmp_path / "here" / "checkpoint.npz", **checkpoint | {"ledger": told})
    answer = run("ledger", "show", "here")
    assert answer.code == 0, answer.err
    assert f"head {trained['ledger']['head']}" in answer.out
