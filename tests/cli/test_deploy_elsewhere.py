"""Several machines as their people type it, each a folder of its own: the server never has a record."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from noiseworthy.data import load_records
from noiseworthy.privacy.durable.reading import read_ledger
from noiseworthy.studies.record import load_record

pytest.importorskip("flwr")

OWNERS = {"north": 100, "south": 150}
OWNER = """
[owner]
client = "{name}"
data_set = "tumours 2026"
[federation]
data = "{folder}/records.csv"
clients = 1
classes = ["malignant", "benign"]
[budget]
mechanism = "gaussian"
epsilon = 4.0
delta = 1e-5
noise_floor = 0.1
[allowed]
algorithms = ["fedsgd-dpc"]
models = ["softmax"]
most_releases = 10
[files]
socket = "gateway.sock"
ledger = "ledger.sqlite"
same_user = true
"""
STUDY = """
[federation]
data = "owners:owners.json"
test = "test.csv"
classes = ["malignant", "benign"]
[task]
model = "softmax"
normalise = true
[privacy]
mechanism = "gaussian"
epsilon = 4.0
delta = 1e-5
[algorithm]
rounds = 2
clients_per_round = 2
step_size = 1.0
[constants]
source = "rule"
"""


def typed(*words: str | Path, folder: Path, code: int = 0) -> str:
    """What a command prints in a folder; stdout, or stderr where it fails as expected."""
    command = [sys.executable, "-m", "noiseworthy", *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=400)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


@contextmanager
def running(*words: str, folder: Path) -> Iterator[None]:
    """A command that stays until it is asked to end; its output goes into a log."""
    command = [sys.executable, "-m", "noiseworthy", *words]
    with (folder / f"{words[0]}.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture
def machines(tmp_path) -> dict[str, Path]:
    """A folder for everybody: owners have records and their files, the server has test records."""
    records = load_records("breast-cancer")
    table = pd.DataFrame(records.x, columns=[f"f{i}" for i in range(30)])
    table["label"] = np.take(["malignant", "benign"], records.y.astype(int))
    folders = {name: tmp_path / name for name in (*OWNERS, "server")}
    for folder in folders.values():
        folder.mkdir()
    start = 0
    for name, size in OWNERS.items():
        table.iloc[start : start + size].to_csv(folders[name] / "records.csv", index=False)
        (folders[name] / "owner.toml").write_text(OWNER.format(name=name, folder=folders[name]))
        start += size
    table.iloc[start:].to_csv(folders["server"] / "test.csv", index=False)
    (folders["server"] / "study.toml").write_text(STUDY)
    return folders


@pytest.mark.slow
def test_a_server_without_records_trains_over_two_machines(machines):
    from noiseworthy.deploy.flower.processes import free_ports

    server, (port,) = machines["server"], free_ports(1)
    link = f"localhost:{port}"
    (server / "ward" / "keys" / "nodes").mkdir(parents=True)
    for name in OWNERS:
        said = typed("deploy", "node", "owner.toml", "--link", link, folder=machines[name], code=2)
        public = machines[name] / "keys" / "nodes" / f"{name}.pub"
        assert str(public) in said
        shutil.copy(public, server / "ward" / "keys" / "nodes")
    said = typed("deploy", "link", "ward", "--host", "localhost", "--port", str(port), folder=server)
    try:
        assert "Registered: north, south" in said
        for name in OWNERS:
            shutil.copy(server / "ward" / "keys" / "ca.crt", machines[name] / "keys")
        north, south = machines["north"], machines["south"]
        with (
            running("gateway", "owner.toml", folder=north),
            running("gateway", "owner.toml", folder=south),
            running("deploy", "node", "owner.toml", "--link", link, folder=north),
            running("deploy", "node", "owner.toml", "--link", link, folder=south),
        ):
            words = ("--owner", "north", "--owner", "south")
            said = typed("deploy", "ask", "ward", "owners.json", *words, folder=server)
            assert 'data = "owners:owners.json"' in said
            typed("deploy", "run", "study.toml", "--folder", "ward", folder=server)
            refused = typed("deploy", "run", "study.toml", "--folder", "ward", folder=server, code=2)
            other = ("--folder", "ward", "--out", "runs/other")
            again = typed("deploy", "run", "study.toml", *other, folder=server, code=2)
    finally:
        typed("deploy", "down", "study.toml", "--folder", "ward", folder=server)
    assert "runs/study holds a run already" in refused
    assert "north has" in again
    assert "left of epsilon 4" in again
    told = json.loads((server / "owners.json").read_text())
    assert [(one["client"], one["records"]) for one in told] == list(OWNERS.items())
    record = load_record(server / "runs" / "study")
    assert record["training"]["uploads"] == [[2, 2]]
    assert record["federation"]["test_records"] == len(pd.read_csv(server / "test.csv"))
    for name in OWNERS:
        with read_ledger(machines[name] / "ledger.sqlite") as books:
            assert [number for (number,) in books.query("SELECT number FROM releases ORDER BY number")] == [
                1,
                2,
            ]


def test_who_is_alone_is_told_what_to_do(run, machines, monkeypatch):
    """No superlink, no such node, no test records: one line each."""
    monkeypatch.chdir(machines["server"])
    for words, said in (
        (("ask", "ward", "owners.json"), "no superlink of"),
        (("run", "study.toml", "--folder", "ward"), "no superlink of"),
        (("up", "study.toml"), "no data at owners.json"),
    ):
        answer = run("deploy", *words)
        assert answer.code == 2
        assert said in answer.err
        assert len(answer.err.strip().splitlines()) == 1
