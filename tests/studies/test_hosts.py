"""Several processes that `jax.distributed` joins train as one: its numbers, on the devices of all."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from noiseworthy.errors import InvalidInput
from noiseworthy.plans.plan import Plan
from noiseworthy.studies.training import train

SUPPORT = Path(__file__).parents[1] / "support"
SCRIPT = """
import json
import sys
import jax
import numpy as np

jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
from divided import CASES, NETWORK, OF_NETWORK, TASK, federation, run
from noiseworthy.engines import resident
from noiseworthy.studies.training import train

advance, made = resident._advance, {}

def watched(*args):
    mesh = args[-1].mesh
    made["mesh"] = dict(mesh.shape) if mesh else {}
    made["of"] = [device.process_index for device in mesh.devices.flat] if mesh else []
    return advance(*args)

resident._advance = watched
def apart(alone, many):
    return float(max(np.abs(alone.theta - many.theta).max(), np.abs(alone.loss - many.loss).max()))

told = {}
for name, (plan, seeds) in CASES.items():
    alone = run(plan, seeds)
    kept = []
    many = run(plan, seeds, kept=kept, hosts=True)
    told[name] = {
        **made, "moved": float(np.linalg.norm(alone.theta)),
        "apart": apart(alone, many),
    }
    again = run(plan, seeds, resume=kept[1], hosts=True) if name == "memory" else many
    told[name]["resumed"] = float(np.abs(again.theta - many.theta).max())
for name, task, (plan, seeds) in (("seeds", TASK, CASES["seeds"]), ("network", NETWORK, OF_NETWORK)):
    many, mesh = train(plan, federation, task, seeds), dict(made)
    resident.mesh_of, kept = (lambda *_, **__: None), resident.mesh_of
    alone = train(plan, federation, task, seeds)
    resident.mesh_of = kept
    told[f"train {name}"] = {
        **mesh, "apart": apart(alone, many), "moved": float(np.linalg.norm(alone.theta)), "resumed": 0.0
    }
print(json.dumps(told))
"""


def told() -> list[dict]:
    """What each of two processes with two devices says of each case."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    forced = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": str(SUPPORT)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, address, str(process)],
            env=forced, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for process in range(2)
    ]  # fmt: skip
    ended = [process.communicate() for process in started]
    assert [process.returncode for process in started] == [0, 0], ended[0][1] + ended[1][1]
    return [json.loads(out.splitlines()[-1]) for out, _ in ended]


@pytest.mark.full
def test_two_processes_of_two_devices_give_the_numbers_of_one():
    """One test of all cases: they share two processes, which are started by whoever asks for one of them."""
    for seen in told():
        for case, trainings, clients in (
            ("everybody", 1, 4), ("seeds", 4, 1), ("shared seeds", 2, 2), ("memory", 1, 4), ("span", 1, 4),
            ("train seeds", 4, 1), ("train network", 2, 2),
        ):  # fmt: skip
            here = seen[case]
            assert here["mesh"] == {"trainings": trainings, "clients": clients}, case
            assert here["of"] == [0, 0, 1, 1], case
            assert here["moved"] > 0.01, case
            assert here["apart"] <= 1e-6 * max(1.0, here["moved"]), case
            assert here["resumed"] <= 1e-6, case
        alone = seen["indivisible"]
        assert (alone["mesh"], alone["apart"]) == ({}, 0), "what no two processes can share is done by each"


def test_a_run_folder_of_several_processes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(InvalidInput, match=r"2 processes.* leave out the folder"):
        train(object.__new__(Plan), None, None, folder=tmp_path)
    assert not list(tmp_path.iterdir())
