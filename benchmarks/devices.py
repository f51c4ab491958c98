"""What do two devices gain over one, on a CPU of two cores?

Two processes, with one and two host devices forced on XLA, take turns; the least of the repeats counts, of a
whole training that is compiled. Wall seconds say what a user waits, CPU seconds what it costs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import numpy as np

from noiseworthy.data.federation import Federation
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.methods.dp_fedavg import planner as local_steps
from noiseworthy.methods.fedsgd_dpc import planner as replies
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import LinearModel, Task, paper_cnn

DEVICES, TURNS, REPEATS, CLIENTS, RECORDS, STEP = (1, 2), 3, 3, 20, 100, StepSize(0.1, np.inf)
SOFTMAX = LinearModel(784, 10, "softmax", feature_norm=1.0)
CASES = {
    "softmax, everybody, one training": (SOFTMAX, 1, 20, 100),
    "softmax, cohorts of 10, eight trainings": (SOFTMAX, 8, 10, 50),
    "CNN, three local steps, cohorts of 10, one training": (paper_cnn(10), 1, 10, 1),
    "CNN, three local steps, cohorts of 10, two trainings": (paper_cnn(10), 2, 10, 1),
}
"""Task, trainings, clients a round, rounds."""


def federation(task: Task) -> Federation:
    rng, shape = np.random.default_rng(0), (784,) if isinstance(task, LinearModel) else (28, 28)
    x = rng.random((CLIENTS, RECORDS, *shape), dtype=np.float32)
    y = rng.integers(0, 10, (CLIENTS, RECORDS), np.int32)
    return Federation(
        name="noise", clients=tuple(map(str, range(CLIENTS))), sizes=np.full(CLIENTS, RECORDS), x=x, y=y,
        test_x=x[0], test_y=y[0], classes=10,
    )  # fmt: skip


def timed(name: str) -> tuple[float, float]:
    """Least wall and CPU seconds of a training, compiled before."""
    task, trainings, cohort, rounds = CASES[name]
    linear = isinstance(task, LinearModel)
    budget = PrivacyBudget.of(8.0, 1e-5, CLIENTS, unit="record" if linear else "client")
    mode = "A" if linear else "D"
    problem = Problem(np.full(CLIENTS, RECORDS), task.dimension, budget, "gaussian", 0.1, clipping=mode)
    plan = (
        replies.stated(problem, rounds, cohort, STEP)
        if linear
        else local_steps.stated(problem, 3 * rounds, 3, cohort, STEP, 16)
    )
    shards, seeds = Shards.load(federation(task), task), list(range(trainings))
    algorithms, took = [make(plan, task, seed) for seed in seeds], []
    for _ in range(1 + REPEATS):
        wall, busy = time.perf_counter(), time.process_time()
        simulate(algorithms, plan.uploads, shards, np.array([rounds]), seeds)
        took.append((time.perf_counter() - wall, time.process_time() - busy))
    walls, cpus = zip(*took[1:], strict=True)
    return min(walls), min(cpus)


def in_process(devices: int) -> dict[str, list[float]]:
    forced = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    done = subprocess.run([sys.executable, __file__, "--times"], env=forced, capture_output=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    if "--times" in sys.argv:
        print(json.dumps({name: timed(name) for name in CASES}))
        return
    turns = [{devices: in_process(devices) for devices in DEVICES} for _ in range(TURNS)]
    for name in CASES:
        wall, cpu = ([min(turn[d][name][i] for turn in turns) for d in DEVICES] for i in (0, 1))
        print(f"{name}: {wall[0]:.2f} s and {wall[1]:.2f} s by the wall, {wall[1] / wall[0]:.2f};", end=" ")
        print(f"CPU {cpu[0]:.2f} s and {cpu[1]:.2f} s, {cpu[1] / cpu[0]:.2f}", flush=True)


if __name__ == "__main__":
    main()
