"""Trainings and clients over several devices: the numbers of one, by one all-reduce a round and no gather."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from noiseworthy.engines import devices

DEVICES = 4
SUPPORT = Path(__file__).parents[1] / "support"
SCRIPT = """
import json
import numpy as np
from divided import CASES, OF_NETWORK, run
from noiseworthy.engines import resident

one, advance, made = resident.mesh_of, resident._advance, {}

def watched(*args):
    if "run" not in made:  # all segments of a case share it
        made["run"] = advance.lower(*args).compile()
        text = made["run"].compiled.as_text()
        made["program"] = [text.count(" all-reduce("), text.count("all-gather"), text.count("all-to-all")]
        made["mesh"] = dict(args[-1].mesh.shape) if args[-1].mesh else {}
    return made["run"](*args)

told = {}
for name, (plan, seeds) in {**CASES, "network": OF_NETWORK}.items():
    resident.mesh_of, resident._advance = (lambda *_, **__: None), advance
    alone = run(plan, seeds)
    resident.mesh_of, resident._advance = one, watched
    kept = []
    many = run(plan, seeds, kept=kept)
    again = run(plan, seeds, resume=kept[1]) if name == "memory" else many
    del made["run"]
    told[name] = {
        **made, "moved": float(np.linalg.norm(alone.theta)),
        "apart": float(max(np.abs(alone.theta - many.theta).max(), np.abs(alone.loss - many.loss).max())),
        "resumed": float(np.abs(again.theta - many.theta).max()),
    }
print(json.dumps(told))
"""


def told() -> dict:
    """What a process with four devices says of each case."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
    forced = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": str(SUPPORT)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=forced, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_four_devices_give_the_numbers_of_one_by_one_sum_a_round_and_go_on_from_a_checkpoint():
    """One test of all cases: they share a process, which is started by whoever asks for one of them."""
    seen = told()
    for case, trainings, clients in (
        ("everybody", 1, 4), ("seeds", 4, 1), ("shared seeds", 2, 2), ("memory", 1, 4), ("span", 1, 4),
        ("network", 2, 2),
    ):  # fmt: skip
        here = seen[case]
        assert here["mesh"] == {"trainings": trainings, "clients": clients}, case
        assert here["program"] == [int(clients > 1), 0, 0], f"{case}: all-reduce, all-gather, all-to-all"
        assert here["moved"] > 0.01, case
        assert here["apart"] <= 1e-6 * max(1.0, here["moved"]), case
    assert seen["memory"]["resumed"] <= 1e-6
    assert seen["indivisible"]["mesh"] == {}, "a cohort that no two devices divide stays on one"
    assert seen["indivisible"]["apart"] == 0


@pytest.mark.parametrize(
    ("there", "trainings", "cohort", "shape"),
    [(1, 20, 10, None), (4, 20, 1, (4, 1)), (8, 2, 6, (2, 3)), (8, 5, 7, (1, 7)), (4, 3, 1, (3, 1))],
)
def test_as_many_devices_as_divide_the_work_are_taken(there, trainings, cohort, shape, monkeypatch):
    monkeypatch.setattr(devices.jax, "local_devices", lambda: [SimpleNamespace(id=i) for i in range(there)])
    monkeypatch.setattr(devices, "Mesh", lambda used, names: used.shape)
    assert devices.mesh_of(trainings, cohort) == shape


@pytest.mark.parametrize(
    ("processes", "trainings", "cohort", "shape"),
    [
        (2, 3, 8, (1, 8)), (2, 2, 3, (2, 3)), (3, 3, 1, (3, 1)), (2, 3, 1, (3, 1)), (4, 1, 8, (1, 8)),
        (4, 1, 9, (1, 3)), (4, 1, 20, (1, 4)),
    ],
)  # fmt: skip
def test_as_many_devices_of_each_process_are_taken(processes, trainings, cohort, shape, monkeypatch):
    here = lambda process=0: [SimpleNamespace(process=process, id=i) for i in range(4)]  # noqa: E731
    monkeypatch.setattr(devices.jax, "process_count", lambda: processes)
    monkeypatch.setattr(devices.jax, "local_devices", here)
    monkeypatch.setattr(devices, "Mesh", lambda used, names: used)
    used = devices.mesh_of(trainings, cohort, hosts=True)
    assert used.shape == shape
    of = [device.process for device in used.flat]
    shared = shape[0] * shape[1] % processes == 0
    assert of == sorted(of)
    assert {of.count(process) for process in range(processes)} == (
        {len(of) // processes} if shared else {0, len(of)}
    )
