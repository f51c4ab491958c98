"""Trainings and clients over several devices: the numbers of one, by one all-reduce a round and no gather."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from noiseworthy.engines import devices

DEVICES = 4
SCRIPT = """
import json
import numpy as np
from noiseworthy.data import Federation
from noiseworthy.engines import resident, simulation
from noiseworthy.engines.shards import Shards
from noiseworthy.methods.dp_fedavg import planner as local_steps
from noiseworthy.methods.dp_scaffnew import planner as coins
from noiseworthy.methods.fedsgd_dpc import planner as replies
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import LinearModel

N, TASK, STEP = 8, LinearModel(20, 3, "softmax", ridge=0.05, feature_norm=2.0), StepSize(0.3, np.inf)
rng = np.random.default_rng(0)
clients = [(rng.normal(size=(5, 20)), rng.integers(0, 3, 5)) for _ in range(N)]
shards = Shards.load(Federation.from_clients(clients, test=clients[0], classes=3, name="even"), TASK)

def problem(mode):
    budget = PrivacyBudget.of(4.0, 1e-3, N, unit="record" if mode == "A" else "client")
    return Problem(np.full(N, 5), TASK.dimension, budget, "gaussian", 0.5, clipping=mode)

CASES = {
    "everybody": (replies.stated(problem("A"), 4, N, STEP), [0]),
    "seeds": (replies.stated(problem("A"), 4, 4, STEP), [0, 1, 2, 3]),
    "shared seeds": (replies.stated(problem("A"), 4, 4, STEP), [0, 1, 0, 1]),
    "memory": (coins.stated(problem("D"), 12, 0.3, STEP, 3), [0]),
    "span": (local_steps.stated(problem("D"), 40, 10, 4, STEP), [0]),
    "indivisible": (replies.stated(problem("A"), 4, 5, STEP), [0]),
}
one, advance, made = resident.mesh_of, resident._advance, {}

def run(plan, seeds, resume=None, kept=None):
    algorithms = [make(plan, TASK, seed) for seed in seeds]
    scored = np.array([0, 2, plan.rounds])
    return simulation.simulate(
        algorithms, plan.uploads, shards, scored, seeds, resume=resume,
        on_segment=(lambda reached: None) if kept is None else kept.append,
    )

def watched(*args):
    text = advance.lower(*args).compile().compiled.as_text()
    made["program"] = [text.count(" all-reduce("), text.count("all-gather"), text.count("all-to-all")]
    made["mesh"] = dict(args[-1].mesh.shape) if args[-1].mesh else {}
    return advance(*args)

told = {}
for name, (plan, seeds) in CASES.items():
    resident.mesh_of, resident._advance = (lambda *_: None), advance
    alone = run(plan, seeds)
    resident.mesh_of, resident._advance = one, watched
    kept = []
    many = run(plan, seeds, kept=kept)
    again = run(plan, seeds, resume=kept[1]) if name == "memory" else many
    told[name] = {
        **made, "moved": float(np.linalg.norm(alone.theta)),
        "apart": float(max(np.abs(alone.theta - many.theta).max(), np.abs(alone.loss - many.loss).max())),
        "resumed": float(np.abs(again.theta - many.theta).max()),
    }
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told() -> dict:
    """What a process with four devices says of each case."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
    forced = {**os.environ, "XLA_FLAGS": flags}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=forced, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("case", "trainings", "clients"),
    [
        ("everybody", 1, 4), ("seeds", 4, 1), ("shared seeds", 2, 2), ("memory", 1, 4), ("span", 1, 4),
    ],
)  # fmt: skip
def test_four_devices_give_the_numbers_of_one_by_one_sum_a_round(told, case, trainings, clients):
    seen = told[case]
    assert seen["mesh"] == {"trainings": trainings, "clients": clients}
    assert seen["program"] == [int(clients > 1), 0, 0], "all-reduce, all-gather, all-to-all"
    assert seen["moved"] > 0.01
    assert seen["apart"] <= 1e-6 * max(1.0, seen["moved"])


def test_what_clients_remember_goes_on_from_a_checkpoint(told):
    assert told["memory"]["resumed"] <= 1e-6


def test_a_cohort_that_no_two_devices_divide_stays_on_one(told):
    assert told["indivisible"]["mesh"] == {}
    assert told["indivisible"]["apart"] == 0


@pytest.mark.parametrize(
    ("there", "trainings", "cohort", "shape"),
    [(1, 20, 10, None), (4, 20, 1, (4, 1)), (8, 2, 6, (2, 3)), (8, 5, 7, (1, 7)), (4, 3, 1, (3, 1))],
)
def test_as_many_devices_as_divide_the_work_are_taken(there, trainings, cohort, shape, monkeypatch):
    monkeypatch.setattr(devices.jax, "local_devices", lambda: [SimpleNamespace(id=i) for i in range(there)])
    monkeypatch.setattr(devices, "Mesh", lambda used, names: used.shape)
    assert devices.mesh_of(trainings, cohort) == shape
