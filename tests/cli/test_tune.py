"""An owner tunes a shared model at home: what it is told, what is written, and that nothing is sent."""

from __future__ import annotations

import json
import math
import os
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w

import noiseworthy as nw
from noiseworthy.calls.tune import _limits, _loaded, labelled
from noiseworthy.cli.predicting import Tuning
from noiseworthy.errors import ConfigError, DataError
from noiseworthy.home.base import folds_of
from noiseworthy.home.scores import limits_of, limits_of_gain
from noiseworthy.model.folder import Kept, save_folder
from noiseworthy.model.model import probed
from noiseworthy.reports.tuned import finding
from noiseworthy.tasks.own import digest_of, own_task

from ..model.conftest import described

STUDY = {
    "task": {"model": "logistic", "feature_norm": 1.0},
    "privacy": {"mechanism": "gaussian", "epsilon": 20.0, "delta": 1e-5, "clip_norm": 0.5},
    "algorithm": {"rounds": 3, "clients_per_round": 3, "step_size": 5.0},
    "training": {"seeds": [3], "evaluations": 1},
}
WATCHED: list[list[str]] = []


def watch(event: str, _: object) -> None:
    if WATCHED and event.startswith("socket."):
        WATCHED[-1].append(event)


sys.addaudithook(watch)


@pytest.fixture
def own(run, write, site_records, tmp_path) -> pd.DataFrame:
    """A run on three sites, whose folder is `here`, and an owner's `own.csv`, with a rule of its own."""
    table = {"data": str(site_records()), "classes": ["no", "yes"]}
    assert run("train", write({"federation": table, **STUDY}), "--out", "here").code == 0
    rng = np.random.default_rng(1)
    made = pd.DataFrame(rng.normal(size=(80, 3)), columns=["c", "a", "b"])
    made["label"] = np.where(made["b"] > 0, "yes", "no")
    made.to_csv(tmp_path / "own.csv", index=False)
    return made


@pytest.mark.full
def test_an_owner_is_told_all_three_scores_and_sends_nothing(run, own, tmp_path):
    WATCHED.append([])
    told = run("tune", "here", "own.csv", "-o", "mine")
    assert WATCHED.pop() == []
    assert told.code == 0, told.err
    scores = dict(line.split(": ", 1) for line in told.out.splitlines()[:3])
    assert list(scores) == ["alone", "shared", "tuned at home"]
    assert "64 records; 16 were held out" in told.out
    page = (tmp_path / "mine" / "tuned.html").read_text()
    for score in scores.values():
        assert score.split(" (")[0] in page
    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o700

    tuned, shared = nw.load_model(tmp_path / "mine"), nw.load_model(tmp_path / "here")
    later = pd.DataFrame(np.random.default_rng(2).normal(size=(200, 3)), columns=["c", "a", "b"])
    right = np.where(later["b"] > 0, "yes", "no")
    assert np.mean(tuned.predict(later) == right) > 0.9 > np.mean(shared.predict(later) == right)
    assert "carries no guarantee" in tuned.card
    assert "**Not for release.**" in tuned.card
    assert not tuned.description.privacy.private


@pytest.mark.full
def test_a_folder_that_was_there_keeps_its_mode_and_what_comes_into_it_is_the_owners_own(run, own, tmp_path):
    """As of `-o .`, after which nobody else could enter the folder that was worked in."""
    (tmp_path / "shared").mkdir(mode=0o755)
    assert run("tune", "here", "own.csv", "-o", "shared").code == 0
    modes = {"": 0o755, "model": 0o700, "tuned.html": 0o600}
    assert {name: stat.S_IMODE((tmp_path / "shared" / name).stat().st_mode) for name in modes} == modes


def test_persons_are_held_out_and_left_out_whole(tmp_path):
    """Of records like those of the same person every model is right, and of new persons none need be."""
    columns = {"who": {"role": "person", "at_most": 4}, "ill": {"role": "label", "classes": ["no", "yes"]}}
    columns["age"] = {"kind": "number", "range": [0, 1]}
    table = pd.DataFrame({"who": np.arange(80) % 20, "ill": np.tile(["no", "yes"], 40), "age": 0.5})
    table.to_csv(tmp_path / "own.csv", index=False)
    said = described({"model": "logistic"}, (1,), 2, schema=columns, classes=["no", "yes"])
    held, is_test = labelled(tmp_path / "own.csv", said)
    assert is_test.sum() == 16
    assert not {*table["who"][is_test]} & {*table["who"][~is_test]}
    assert held.whose is not None
    folds = folds_of(held.y, 0, held.whose)
    assert [len({*folds[table["who"] == one]}) for one in range(20)] == [1] * 20
    assert np.bincount(folds).tolist() == [16] * 5
    table.drop(columns="who").to_csv(tmp_path / "own.csv", index=False)
    assert labelled(tmp_path / "own.csv", said)[0].whose is None
    promised = said.privacy.model_copy(update={"unit": "person"})
    with pytest.raises(DataError, match=r"the model hides persons.* bring the column 'who'"):
        labelled(tmp_path / "own.csv", said.model_copy(update={"privacy": promised}))


def test_an_owner_of_a_part_of_a_table_holds_out_persons_too(tmp_path):
    columns: dict[str, dict[str, Any]] = {
        "ill": {"role": "label", "classes": ["no", "yes"]}, "age": {"kind": "number", "range": [0, 1]},
        "ward": {"role": "client"}, "who": {"role": "person", "at_most": 5},
    }  # fmt: skip
    table = pd.DataFrame({"who": np.arange(300) % 60, "ill": np.tile(["no", "yes"], 150), "age": 0.5})
    table.assign(ward=np.where(table["who"] % 3, "north", "south")).to_csv(tmp_path / "own.csv", index=False)
    owner = OWNER.replace('clients = 1\nclasses = ["no", "yes"]', "").replace("1e-5", '1e-5\nunit = "person"')
    stated = "".join(f"[columns.{name}]\n{tomli_w.dumps(said)}" for name, said in columns.items())
    (tmp_path / "owner.toml").write_text(f"{owner}{stated}".replace("own.csv", str(tmp_path / "own.csv")))
    said = described({"model": "logistic"}, (1,), 2, schema=columns, classes=["no", "yes"])
    held, is_test = labelled(tmp_path / "owner.toml", said)
    assert held.whose is not None
    assert np.bincount(held.whose).tolist() == [5] * 32  # of 40 persons a fifth tested the training
    assert is_test.sum() == 6 * 5
    assert not {*held.whose[is_test]} & {*held.whose[~is_test]}


def test_limits_are_those_of_so_many_persons():
    right, whose = np.repeat([1.0, 0.0], [24, 8]), np.arange(32) // 8
    assert _limits(right, whose, classes=True) == limits_of(np.array([1.0, 1.0, 1.0, 0.0]))
    assert _limits(right, np.arange(32) // 7, classes=True)[1] == 1.0


def test_a_tuned_model_is_told_apart_by_the_records_of_which_another_one_is_right():
    """Four points on 200 records are beyond chance where nothing else differs, and not by limits of each."""
    said, right = described({"model": "logistic"}, (1,), 2), np.repeat([1.0, 0.0], [150, 50])
    better = np.repeat([1.0, 0.0], [158, 42])
    assert limits_of(better)[0] < right.mean()
    told = {"alone": _limits(better - right, None, limits_of_gain), "shared": (math.nan, math.nan)}
    scores = {"alone": right.mean(), "shared": 0.1, "tuned": better.mean()}
    assert finding(said, scores, told).endswith(": beyond chance of alone")
    assert _limits(better - right, np.repeat(range(4), 50), limits_of_gain)[0] < 0  # one person's records


def test_the_watch_on_sockets_is_awake():
    import socket

    WATCHED.append([])
    with socket.socket():
        pass
    assert WATCHED.pop()


@pytest.mark.full
def test_rows_that_are_marked_test_are_held_out(run, own, tmp_path):
    own["split"] = np.where(np.arange(80) < 30, "test", "train")
    own.to_csv(tmp_path / "own.csv", index=False)
    (tmp_path / "owner.toml").write_text(OWNER)
    before = sorted(tmp_path.iterdir())
    told = run("tune", "here", "owner.toml", "-o", "mine")
    assert "50 records; 30 were held out" in told.out, told.err
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "mine"]), "a ledger was opened"


def test_one_test_record_was_held_out(run, own, tmp_path):
    own["split"] = np.where(np.arange(80) < 1, "test", "train")
    own[:8].to_csv(tmp_path / "own.csv", index=False)
    (tmp_path / "owner.toml").write_text(OWNER)
    assert "7 records; 1 was held out. For you" in run("tune", "here", "owner.toml", "-o", "mine").out
    assert "1 record was held out from both" in (tmp_path / "mine" / "tuned.html").read_text()


OWNER = """
[owner]
client = "north"
data_set = "hearts"
[federation]
data = "own.csv"
clients = 1
classes = ["no", "yes"]
[budget]
mechanism = "gaussian"
epsilon = 1.0
delta = 1e-5
noise_floor = 1.0
[allowed]
algorithms = ["fedsgd-dpc"]
models = ["logistic"]
most_releases = 1
[files]
socket = "gateway.sock"
ledger = "ledger.sqlite"
"""


@pytest.mark.full
def test_a_gateway_has_a_model_tuned_in_a_process_of_its_own_one_at_a_time(own, tmp_path, caplog):
    (tmp_path / "owner.toml").write_text(OWNER)
    tuning = Tuning(tmp_path / "owner.toml", tmp_path / "tuned")
    with caplog.at_level("INFO", "noiseworthy.deploy.gateway"):
        tuning(tmp_path / "here" / "model")
        tuning(tmp_path / "here" / "model")
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    assert "by hand" in caplog.messages[1]
    assert tuning.latest is not None
    time.sleep(1)
    os.kill(tuning.latest.pid, signal.SIGTERM)
    assert tuning.latest.wait(120) == 0, "who ends a gateway and its children lets it finish"
    assert "tuned at home" in (tmp_path / "tuned" / "model" / "tuned.html").read_text()
    assert stat.S_IMODE((tmp_path / "tuned").stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_made_is_told_in_the_owners_log_alone(tmp_path, caplog):
    """An error here would change what the gateway answers to the server."""
    (tmp_path / "tuned").write_text("a file")
    Tuning(tmp_path / "owner.toml", tmp_path / "tuned")(tmp_path / "here" / "model")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "is not tuned" in caplog.messages[0]


@pytest.mark.full
def test_two_records_of_one_class_make_a_model_without_scores(run, own, tmp_path):
    own[own["label"] == "yes"][:2].to_csv(tmp_path / "own.csv", index=False)
    told = run("tune", "here", "own.csv", "-o", "mine")
    assert told.code == 0, told.err
    assert "2 records; 0 were held out" in told.out
    assert "nothing is scored" in (tmp_path / "mine" / "tuned.html").read_text()
    assert json.loads((tmp_path / "mine" / "model" / "model.json").read_text())["metrics"] is None
    assert set(nw.load_model(tmp_path / "mine").predict(own.drop(columns="label"))) <= {"no", "yes"}


def test_one_record_is_one_and_what_was_tuned_before_is_left_unless_it_is_to_be_replaced(run, own, tmp_path):
    own[:1].to_csv(tmp_path / "one.csv", index=False)
    assert "Learnt from 1 record; 0 were held out." in run("tune", "here", "one.csv", "-o", "mine").out
    before = (tmp_path / "mine" / "model" / "parameters.safetensors").read_bytes()
    again = run("tune", "here", "own.csv", "-o", "mine")
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert "mine/tuned.html is there already and is left as it is" in again.err
    assert (tmp_path / "mine" / "model" / "parameters.safetensors").read_bytes() == before
    assert run("tune", "here", "own.csv", "-o", "mine", "--replace").code == 0
    assert (tmp_path / "mine" / "model" / "parameters.safetensors").read_bytes() != before


def test_scores_of_numbers_say_that_they_are_r_squared(run, write, site_records, tmp_path):
    data = pd.read_csv(site_records())
    data["label"] = 0.5 * data["a"]
    data.to_csv(tmp_path / "numbers.csv", index=False)
    table = {"data": str(tmp_path / "numbers.csv"), "regression": True}
    study = {"federation": table, **STUDY, "task": {"model": "linear"}}
    assert run("train", write(study), "--out", "here").code == 0
    data.drop(columns="client").to_csv(tmp_path / "own.csv", index=False)
    told = run("tune", "here", "own.csv", "-o", "mine")
    assert told.code == 0, told.err
    assert [line.split(": ")[1][:3] for line in told.out.splitlines()[:3]] == ["R² "] * 3
    page = (tmp_path / "mine" / "tuned.html").read_text()
    assert "Alone R² " in page
    assert "shared R² " in page


NETWORK = """
import numpy as np
from noiseworthy import model_task
def make(shape, classes):
    return model_task(lambda w, x: x @ w, np.ones((*shape, classes), np.float32), "softmax")
"""


def test_a_network_of_ones_own_is_made_by_the_owners_copy_of_what_it_was_trained_with(tmp_path):
    for place in ("server", "owner", "changed"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "network.py").write_text(NETWORK + "# other\n" * (place == "changed"))
    name, own = "network:make", tmp_path / "own.csv"
    digest = digest_of(name, tmp_path / "server")
    task = own_task(name, tmp_path / "server", digest, (3,), 2, 0.0)
    theta = np.asarray(task.initial(None))
    said = described({"model": name, "model_digest": digest}, (3,), 2, probe=probed(task, theta, [3]))
    model = save_folder(Kept(said, theta), tmp_path / "model")
    with pytest.raises(ConfigError, match=r"network:make, whose module is run: read it, .* by --modules"):
        _loaded(model, own, None)
    assert _loaded(model, own, tmp_path / "owner").description == said
    with pytest.raises(ConfigError, match="was changed"):
        _loaded(model, own, tmp_path / "changed")
    approved = f'models = []\nown_models = {{ "{name}" = "sha256:{digest}" }}'
    (tmp_path / "owner" / "owner.toml").write_text(OWNER.replace('models = ["logistic"]', approved))
    assert _loaded(model, tmp_path / "owner" / "owner.toml", None).description == said
    (tmp_path / "owner" / "owner.toml").write_text(OWNER)
    with pytest.raises(ConfigError, match="by --modules"):
        _loaded(model, tmp_path / "owner" / "owner.toml", None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("here", "own.csv", "-o", "here"), "is the folder of the shared model"),
        (("here/model", "own.csv", "-o", "here"), "is the folder of the shared model"),
        (("here", "none.csv", "-o", "mine"), "none.csv"),
        (("here", "empty.csv", "-o", "mine"), "empty.csv has no records to learn from"),
        (("here", "other.csv", "-o", "mine"), "'b'"),
        (("here", "digits.toml", "-o", "mine"), "[8, 8] and 10 classes, the model is for [3] and 2"),
        (("here", "turned.toml", "-o", "mine"), "north's file has classes yes, no in this order"),
        (("nowhere", "own.csv", "-o", "mine"), "holds no model"),
    ],
)
def test_what_does_not_fit_is_told_in_a_sentence(run, own, tmp_path, arguments, said):
    own.drop(columns="b").to_csv(tmp_path / "other.csv", index=False)
    own.head(0).to_csv(tmp_path / "empty.csv", index=False)
    digits = OWNER.replace(
        '"own.csv"\nclients = 1\nclasses = ["no", "yes"]', '"digits"\nclients = 5'
    ).replace("north", "client 1")
    (tmp_path / "digits.toml").write_text(digits)
    (tmp_path / "turned.toml").write_text(OWNER.replace('["no", "yes"]', '["yes", "no"]'))
    told = run("tune", *arguments)
    assert (told.code, told.err.count("\n")) == (2, 1), told.err
    assert said in told.err
    assert not Path("mine").exists()
