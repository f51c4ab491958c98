"""The owner's file: what is wrong is named in one line, and what a request says changes nothing of it."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import get_args

import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.data.table import FederationTable
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.gateway.memory import Memories
from noiseworthy.deploy.gateway.messages import Reason, read_reply
from noiseworthy.deploy.gateway.owner import load_owner
from noiseworthy.errors import ConfigError, InvalidInput, LedgerError, WireError
from noiseworthy.methods.dp_scaffnew.wire import Control
from noiseworthy.methods.wire import WIRES

from .conftest import FEDERATION

DOCUMENT = (Path(__file__).parents[3] / "docs" / "gateway.md").read_text()
FILE = DOCUMENT.split("```toml\n")[1].split("```")[0]


@pytest.fixture
def load(tmp_path):
    def loaded(text: str):
        path = tmp_path / "owner.toml"
        path.write_text(text)
        return load_owner(path)

    return loaded


def test_the_documented_file_is_one(load, tmp_path):
    owner = load(FILE)
    assert owner.files.ledger == tmp_path / "ledger.sqlite"
    assert (owner.account.client, owner.account.data, owner.account.unit) == (
        "cleveland",
        "heart 2026",
        "record",
    )


@pytest.mark.parametrize(
    "twice",
    ['witness = "ledger.sqlite"', 'tuned = "./gateway.sock"', 'witness = "FOLDER/x/../ledger.sqlite"'],
)
def test_one_place_is_not_for_two_things(load, tmp_path, twice):
    stated = f"[files]\n{twice.replace('FOLDER', str(tmp_path))}\n"
    with pytest.raises(ConfigError, match=r"owner\.toml: \[files\] names one place for two"):
        load(re.sub(r"\[files\].*\n", stated, FILE))


@pytest.mark.parametrize("kind", ["text", "database"])
def test_another_file_that_is_named_as_ledger_is_left_as_it_is(gateway_of, tmp_path, kind):
    """It was made its user's alone before anybody looked at it, and called damaged."""
    path = tmp_path / "ledger.sqlite"
    if kind == "text":
        path.write_text("age,ill\n30,yes\n" * 500)
    else:
        with closing(sqlite3.connect(path)) as db:
            db.executescript("CREATE TABLE somebody (s TEXT)")
    path.chmod(0o644)
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=r"is no (privacy )?ledger.*; name another file"):
        gateway_of()
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [file.name for file in tmp_path.glob("ledger*")] == ["ledger.sqlite"]


def test_a_ledger_that_an_older_version_left_open_is_made_private(gateway_of, tmp_path):
    gateway_of().close()
    (tmp_path / "ledger.sqlite").chmod(0o644)
    gateway_of()
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("ledger.sqlite*")} == {0o600}


def test_the_documented_reasons_are_those_there_are():
    table = DOCUMENT.split("| reason |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == set(get_args(Reason))


def test_the_documented_algorithms_are_those_that_are_computed():
    table = DOCUMENT.split("| asked |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `([a-z-]+)`", table, re.MULTILINE)) == set(WIRES)


WRONG = {
    "epsilon = 4.0": ("epsilon = -1.0", r"\[budget\] epsilon must be above 0, got -1.0; see docs"),
    "delta = 1e-5": ("delta = 0.0", r"\[budget\] delta must be above 0 for gaussian noise"),
    'mechanism = "gaussian"': ('mechanism = "laplace"', r"\[budget\] delta must be .* 0 for laplace"),
    "noise_floor = 1.0": ("", r"\[budget\] noise_floor is missing; add it to the owner\'s file"),
    'algorithms = ["fedsgd-dpc"]': ('algorithms = ["pfa"]', r"\[allowed\] algorithms must be"),
    'models = ["logistic"]': ('models = ["resnet20"]', r"\[allowed\] models must be"),
    "most_releases = 100": ("most_releases = 0", r"\[allowed\] most_releases"),
    'data = "heart-disease"': ("sizes = [3]", r"\[federation\] needs data"),
    'ledger = "ledger.sqlite"': ('ledger = "l"\nseed = 3', r"\[files\] seed is not a key of this table"),
    'socket = "gateway.sock"': ('socket = "s"\ngroup = 1.5', r"\[files\] group"),
    "[allowed]": ("[allowed]\nreply_seconds = -1.0", r"\[allowed\] reply_seconds"),
    "[budget]": ('classes = ["a", "a"]\n[budget]', "classes must be different labels"),
    'data = "heart-disease"\n': ('data = "own.csv"\n', r"\[federation\] needs classes; list all labels"),
    "[owner]": ("[owner", "cannot be read as TOML"),
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_named(load, line):
    wrong, message = WRONG[line]
    with pytest.raises(ConfigError, match=message):
        load(FILE.replace(line, wrong, 1))


def test_records_beside_the_owners_file_are_found_from_anywhere(load, tmp_path, monkeypatch):
    """They were looked for in the working directory of the gateway alone."""
    (tmp_path / "own.csv").write_text("a,label\n1,0\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    text = FILE.replace('data = "heart-disease"', 'data = "own.csv"\nclasses = [0, 1]')
    assert load(text).federation.data == str(tmp_path / "own.csv")
    (tmp_path / "own.csv").unlink()
    assert load(text).federation.data == "own.csv"


def test_a_node_reads_the_file_though_it_may_not_look_where_the_records_are(load, monkeypatch):
    """As the units have it, which take homes and records from the node's sight: no node began."""
    look = os.stat

    def out_of_sight(path, *options, **named):
        if str(path).startswith("/home/ward"):
            raise PermissionError(13, "Permission denied", str(path))
        return look(path, *options, **named)

    monkeypatch.setattr(os, "stat", out_of_sight)
    table = '[federation]\ndata = "/home/ward/records.csv"\nclients = 1\nclasses = ["no", "yes"]\n'
    owner = load(re.sub(r"(?m)^\[federation\].*\ndata.*\n", table, FILE))
    assert owner.federation.data == "/home/ward/records.csv"


def test_all_mistakes_of_an_owner_are_told_at_once(load):
    with pytest.raises(ConfigError) as caught:
        load(FILE.replace("epsilon = 4.0", "epsilon = -1.0").replace("[files]", "[filse]"))
    assert [one.split(" must")[0].split(" is")[0] for one in caught.value.mistakes] == [
        "[budget] epsilon", "[filse]",
    ]  # fmt: skip
    assert all(one.endswith("; see docs/gateway.md") for one in caught.value.mistakes)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="does not exist"):
        load_owner(tmp_path / "none.toml")


@pytest.mark.parametrize("more", ['classes = ["no", "yes"]', "classes = [0, 1]", "regression = true"])
def test_an_own_table_states_its_classes_or_is_a_regression(load, more):
    owner = load(FILE.replace('data = "heart-disease"', f'data = "own.csv"\n{more}'))
    assert owner.federation.data == "own.csv"


def test_a_group_and_times_of_replies_are_kept(load, tmp_path):
    owner = load(FILE.replace("[files]", 'reply_seconds = 0.5\n[files]\ngroup = "asking"'))
    assert (owner.allowed.reply_seconds, owner.files.group) == (0.5, "asking")
    assert owner.files.socket == tmp_path / "gateway.sock"


def test_an_owner_holds_its_part_alone():
    first, second = (Holding.load(FederationTable(**FEDERATION), f"client {i}") for i in (0, 1))
    assert (first.size, second.size, first.classes) == (92, 91, 2)
    assert not np.any(np.all(first.x[:, None] == second.x[None], axis=2))


def test_a_client_that_is_not_there_is_named():
    with pytest.raises(InvalidInput, match="client must be one of 'client 0'"):
        Holding.load(FederationTable(**FEDERATION), "client 9")


# Memory ----------------------------------------------------------------------------------------------

FRESH = Control(jnp.zeros(3), jnp.ones(3))


def test_memory_comes_back_bit_by_bit_and_for_its_run_and_owner_alone(tmp_path):
    kept = Control(jnp.array([0.1, -0.0, jnp.inf]), jnp.array([1.0, 2.0, jnp.nan]))
    memories = Memories(tmp_path / "m", "a")
    memories.keep("run", 3, kept)
    release, back = Memories(tmp_path / "m", "a").recall("run", FRESH)
    assert release == 3
    assert [np.asarray(leaf).tobytes() for leaf in back] == [np.asarray(leaf).tobytes() for leaf in kept]
    for other, run in (("b", "run"), ("a", "other")):
        assert Memories(tmp_path / "m", other).recall(run, FRESH).release == 0


def test_owners_of_one_ledger_share_no_memory_whatever_they_are_called(gateway_of):
    """One's control variate, which carries no noise, went into the update that another one paid for."""
    called = [{"data_set": "wards/1", "client": "north"}, {"data_set": "wards", "client": "1/north"}]
    one, other = (gateway_of(owner=names).memories for names in called)
    one.keep("run", 1, jnp.ones(3))
    assert other.recall("run", jnp.zeros(3)).release == 0
    assert one.recall("run", jnp.zeros(3)).release == 1


def test_memory_is_private(tmp_path):
    Memories(tmp_path / "m", "a").keep("run", 1, FRESH)
    (file,) = (tmp_path / "m").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_no_memory_is_no_file(tmp_path):
    Memories(tmp_path / "m", "a").keep("run", 1, ())
    assert not (tmp_path / "m").exists()
    assert Memories(tmp_path / "m", "a").recall("run", ()) == (0, ())


def test_memory_of_another_model_and_damaged_memory_are_refused(tmp_path):
    memories = Memories(tmp_path / "m", "a")
    memories.keep("run", 1, FRESH)
    with pytest.raises(ValueError, match="other shapes"):
        memories.recall("run", Control(jnp.zeros(4), jnp.zeros(4)))
    (file,) = (tmp_path / "m").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(WireError):
        memories.recall("run", FRESH)


@pytest.mark.parametrize("data", [b"", b"NWMS"])
def test_bytes_that_are_no_reply_are_refused(data):
    with pytest.raises(WireError):
        read_reply(data)
