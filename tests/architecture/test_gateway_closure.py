"""What a gateway loads to answer every request: no planner, no study, no reader that it does not use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from parsed import length

MOST_LINES = 7_983
"""A ceiling to lower, comments free."""
OURS = ("studies", "plans.", "engines", "trials", "audit", "tasks.networks", "tasks.models", "tasks.personal",
        "privacy.laplace", "privacy.loss_distribution", "privacy.calibration", "privacy.accountants",
        "privacy.noise", "privacy.mechanisms.analysis", "privacy.mechanisms.currency_analysis",
        "methods.algorithm", "methods.making", "exports",
        "data.datasets", "data.records", "data.table_records", "data.frames", "data.sql")  # fmt: skip
ABSENT = (
    *(f"noiseworthy.{part}" for part in OURS),
    *("pandas", "optax", "dp_accounting", "sklearn", "scipy.optimize", "scipy.linalg", "flwr", "polars"),
)
PARTS = {"method", "algorithm", "planner", "bound", "search", "words", "printed", "table", "two_stages"}
RUN = """
import sys
from importlib.util import find_spec
from pathlib import Path
import noiseworthy.deploy.gateway.server
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.gateway.owner import load_owner
from noiseworthy.deploy.gateway.gateway import Gateway
from noiseworthy.methods.wire import WIRES, wire
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.tasks.table import TaskTable
for name in WIRES:
    wire(name)
owner = load_owner(Path(sys.argv[1]))
holding = Holding.load(owner.federation, owner.owner.client, owner.columns)
holding.task(TaskTable(model="logistic", feature_norm=1.0))
if find_spec("opendp"):
    DeployedNoise("gaussian", 2.0**32)
for name, module in sys.modules.items():
    print(name, getattr(module, "__file__", None) or "-")
"""
OWNER = """
[owner]
client = "north"
data_set = "hearts"
[federation]
data = "DATA"
clients = 1
classes = [0, 1]
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


def loaded(folder: Path, data: Path) -> dict[str, str]:
    """Names and files of the modules of a process that has loaded what a gateway runs."""
    owner = folder / "owner.toml"
    owner.write_text(OWNER.replace("DATA", str(data)))
    done = subprocess.run([sys.executable, "-c", RUN, str(owner)], capture_output=True, text=True, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def modules(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("closure")
    np.savez(folder / "own.npz", x=np.zeros((4, 3), np.float32), label=np.array([0, 1, 0, 1]))
    return loaded(folder, folder / "own.npz")


def ours(modules: dict[str, str]) -> list[Path]:
    return [
        Path(file) for name, file in modules.items() if name.split(".")[0] == "noiseworthy" and file != "-"
    ]


def test_all_that_a_gateway_runs_is_no_longer_than_it_was(modules):
    files = ours(modules)
    assert 5_000 < sum(map(length, files)) <= MOST_LINES


def test_a_gateway_loads_no_planner_study_or_reader_that_it_does_not_use(modules):
    assert [name for name in modules if name.startswith(ABSENT)] == []
    of_methods = [name.split(".") for name in modules if name.startswith("noiseworthy.methods.")]
    assert [name for name in of_methods if name[-1] in PARTS] == []
    assert ["noiseworthy", "methods", "dp_fedavg", "wire"] in of_methods


def test_stated_columns_take_the_schema_and_nothing_else(tmp_path, modules, monkeypatch):
    np.savez(tmp_path / "own.npz", age=np.arange(4), label=np.array([0, 1, 0, 1]))
    stated = (
        '[columns]\nlabel = { role = "label", classes = [0, 1] }\nage = { kind = "number", range = [0, 9] }\n'
    )
    monkeypatch.setitem(globals(), "OWNER", OWNER.replace("classes = [0, 1]\n", "") + stated)
    with_columns = loaded(tmp_path, tmp_path / "own.npz")
    beside = {name for name in with_columns.keys() - modules.keys() if name.startswith("noiseworthy")}
    schema = {name for name in beside if name.startswith("noiseworthy.data.schema")}
    assert schema
    assert beside - schema <= {"noiseworthy._names", "noiseworthy.data.thousands"}
    assert [name for name in with_columns if name.startswith(ABSENT)] == []


def test_a_csv_alone_takes_pandas(tmp_path):
    (tmp_path / "own.csv").write_text("age,label\n1,0\n2,1\n")
    assert "pandas" in loaded(tmp_path, tmp_path / "own.csv")
