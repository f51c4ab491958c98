"""Rounds and clipped gradients beside torch, Opacus and pfl-research: the same work on one core, in one run.

    python benchmarks/peers.py install     the peers, into build/peers (5 GB where torch brings its CUDA)
    python benchmarks/peers.py run         CPU seconds of everybody and their ratios to ours; 3 minutes

- local steps: softmax on MNIST, 1,000 clients of 60 records, 100 rounds of 10 clients, ten steps on all of a
  client's records, each client's move clipped to an L2 norm, Gaussian noise. Whole trainings once compiled;
  `train` is the whole public call, which loads and prepares the records.
- clipped: the sum of 200 records' gradients, each clipped; a dense network of 10^6 parameters, a CNN of
  28,938 in layers of equinox.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {0})

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from noiseworthy.data import load_records
from noiseworthy.data.federation import Federation
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.methods.dp_fedavg import planner
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.studies.training import train
from noiseworthy.tasks import Batch, LinearModel, ModelTask, equinox_task
from own_models import Equinox, clipped, dense, plain, steps

PEERS, PACKAGES = Path("build/peers"), ("torch", "opacus", "pfl")
CLIENTS, RECORDS, ROUNDS, COHORT, STEPS = 1_000, 60, 100, 10, 10
TRAININGS, CALLS, SUMMED = 5, 9, 200


def install() -> None:
    """The peers, in an environment of their own."""
    venv.create(PEERS, with_pip=True)
    subprocess.run([PEERS / "bin/python", "-m", "pip", "install", "--quiet", *PACKAGES], check=True)


def theirs(x: NDArray, y: NDArray) -> dict[str, dict[str, float]]:
    """CPU seconds of the peers, workload by workload."""
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "records.npz"
        np.savez(records, x=x, y=y)
        command = [PEERS / "bin/python", "-W", "ignore", Path(__file__).with_name("peers_torch.py"), records]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def least(call: Callable[[], object], repeats: int) -> float:
    """CPU seconds of the quickest of some calls, the first of which does not count."""
    took = []
    for _ in range(repeats + 1):
        start = time.process_time()
        jax.block_until_ready(call())
        took.append(time.process_time() - start)
    return min(took[1:])


def local_steps(x: NDArray, y: NDArray) -> dict[str, float]:
    """Whole trainings, and the whole call."""
    task = LinearModel(784, 10, "softmax")
    names = tuple(map(str, range(CLIENTS)))
    sizes = np.full(CLIENTS, RECORDS)
    federation = Federation(
        name="mnist", clients=names, sizes=sizes, x=x, y=y, test_x=x[0], test_y=y[0], classes=10
    )
    budget = PrivacyBudget.of(8.0, 1e-5, CLIENTS, unit="client")
    problem = Problem(sizes, task.dimension, budget, "gaussian", 0.1, clipping="D")
    made = planner.stated(problem, ROUNDS * STEPS, STEPS, COHORT, StepSize(0.1, np.inf))
    shards, algorithm = Shards.load(federation, task), make(made, task, 0)

    def rounds() -> object:
        return simulate([algorithm], made.uploads, shards, np.array([ROUNDS]), [0]).theta

    return {
        "ours": least(rounds, TRAININGS),
        "ours, train": least(lambda: train(made, federation, task, evaluations=1).theta, TRAININGS),
    }


def of_records(task: ModelTask, way: Callable, x: NDArray, y: NDArray) -> float:
    """A call on some records, compiled."""
    batch = Batch(jnp.asarray(x, jnp.float32), jnp.asarray(y), jnp.ones(len(y)))
    call, theta = jax.jit(way(task)), task.initial(jax.random.key(0))
    return least(lambda: call(theta, batch), CALLS)


def main() -> None:
    digits = load_records("mnist", data_dir=os.environ.get("NOISEWORTHY_DATA"))
    x = np.asarray(digits.x, np.float32).reshape(CLIENTS, RECORDS, 784)
    y = np.asarray(digits.y, np.int32).reshape(CLIENTS, RECORDS)
    images, labels = x.reshape(-1, 28, 28)[:SUMMED], y.ravel()[:SUMMED]
    rows = np.random.default_rng(0).normal(size=(SUMMED, 500))
    cnn = equinox_task(Equinox.drawn())
    ours = {
        "local steps, 1,000 clients": local_steps(x, y),
        "dense, plain, 200": {"ours": of_records(dense(), plain, rows, labels)},
        "dense, clipped, 200": {"ours": of_records(dense(), clipped, rows, labels)},
        "cnn, clipped, 200": {"ours": of_records(cnn, clipped, images, labels)},
        "cnn, two local steps, 200": {"ours": of_records(cnn, steps, images, labels)},
    }
    for workload, peers in theirs(x, y).items():
        own = ours[workload]["ours"]
        said = (
            f"{name} {1e3 * took:.1f} ms ({took / own:.2f})"
            for name, took in (ours[workload] | peers).items()
        )
        print(f"{workload}: {', '.join(said)}", flush=True)


if __name__ == "__main__":
    {"install": install, "run": main}[sys.argv[1]]()
