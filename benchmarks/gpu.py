"""Rounds, clipped gradients and planning on a GPU, beside torch on it and beside the CPU of the same machine.

    python benchmarks/gpu.py          rounds and gradients; needs JAX and torch with CUDA, and Opacus
    python benchmarks/gpu.py ours     seconds of them on the device that JAX sees, as JSON
    python benchmarks/gpu.py plans    seconds of planning there

Seconds by the wall, the least of several calls of which the first, that compiles, does not count; TF32 is
allowed to everybody. Each column is a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
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
from noiseworthy.tasks import Batch, LinearModel, ModelTask, Task, equinox_task
from noiseworthy.tasks.models.cnn import paper_cnn
from own_models import Equinox, clipped, dense, plain, steps

SUMMED = (200, 2000)
CALLS = 5
STUDY = """
[federation]
data = "mnist"
clients = 10
[privacy]
mechanism = "{mechanism}"
epsilon = 1.0
delta = {delta}
"""


def least(call: Callable[[], object], repeats: int = CALLS) -> float:
    """Seconds of the quickest of some calls, the first of which does not count."""
    took = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        jax.block_until_ready(call())
        took.append(time.perf_counter() - start)
    return min(took[1:])


def of_records(task: ModelTask, way: Callable, x: NDArray, y: NDArray) -> float:
    """A call on some records."""
    batch = Batch(jnp.asarray(x, jnp.float32), jnp.asarray(y), jnp.ones(len(y)))
    call, theta = jax.jit(way(task)), task.initial(jax.random.key(0))
    return least(lambda: call(theta, batch), 20)


def scores(task: ModelTask) -> Callable[[Array, Batch], object]:
    """Loss and accuracy of a model."""
    return lambda theta, batch: task.score(theta, batch.x, batch.y)


def rounds(task: Task, x: NDArray, y: NDArray, rounds: int, cohort: int, steps: int) -> float:
    """Trainings of local steps, each client's move clipped; x of shape (clients, records, ...)."""
    clients, records = y.shape
    federation = Federation(
        name="mnist", clients=tuple(map(str, range(clients))), sizes=np.full(clients, records),
        x=x, y=y, test_x=x[0], test_y=y[0], classes=10,
    )  # fmt: skip
    budget = PrivacyBudget.of(8.0, 1e-5, clients, unit="client")
    problem = Problem(federation.sizes, task.dimension, budget, "gaussian", 0.1, clipping="D")
    made = planner.stated(problem, rounds * steps, steps, cohort, StepSize(0.1, np.inf))
    shards, algorithm = Shards.load(federation, task), make(made, task, 0)
    return least(lambda: simulate([algorithm], made.uploads, shards, np.array([rounds]), [0]).theta, 2)


def ours() -> dict[str, float]:
    """Seconds by workload on the device that JAX sees."""
    digits = load_records("mnist", data_dir=os.environ.get("NOISEWORTHY_DATA"))
    x, y = np.asarray(digits.x, np.float32).reshape(-1, 28, 28), np.asarray(digits.y, np.int32)
    many, labels = x.reshape(1000, 60, 784), y.reshape(1000, 60)
    few, images = y.reshape(100, 600), x.reshape(100, 600, 28, 28)
    linear, cnn, networks = LinearModel(784, 10, "softmax"), equinox_task(Equinox.drawn()), dense()
    workloads = {"local steps, 1,000 clients": lambda: rounds(linear, many, labels, 100, 10, 10)}
    for summed in SUMMED:
        rows = np.random.default_rng(0).normal(size=(summed, 500))
        workloads |= {
            f"dense, plain, {summed}": partial(of_records, networks, plain, rows, y[:summed]),
            f"dense, clipped, {summed}": partial(of_records, networks, clipped, rows, y[:summed]),
            f"cnn, clipped, {summed}": partial(of_records, cnn, clipped, x[:summed], y[:summed]),
            f"cnn, two local steps, {summed}": partial(of_records, cnn, steps, x[:summed], y[:summed]),
        }
    workloads["scores of a CNN, 10,000"] = partial(of_records, cnn, scores, x[:10_000], y[:10_000])
    workloads["local steps of a CNN, 100 clients"] = lambda: rounds(paper_cnn(10), images, few, 2, 10, 10)
    return taken(workloads)


def plans() -> dict[str, float]:
    """Seconds of planning MNIST on the device that JAX sees."""
    kinds = {"laplace": 0.0, "gaussian": 1e-5}
    return taken({f"plan MNIST, {name}": partial(planned, name, delta) for name, delta in kinds.items()})


def taken(workloads: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Seconds by workload, told as they are found."""
    found = {}
    for name, measure in workloads.items():
        start = time.perf_counter()
        found[name] = measure()
        took = time.perf_counter() - start
        print(f"{name}: {1e3 * found[name]:.2f} ms; {took:.0f} s in all", file=sys.stderr, flush=True)
    return found


def planned(mechanism: str, delta: float) -> float:
    """Seconds of `noiseworthy plan` for MNIST where programs are kept, but not what was found."""
    took = []
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "mnist.toml"
        study.write_text(STUDY.format(mechanism=mechanism, delta=delta))
        known = {**os.environ, "NOISEWORTHY_CACHE": folder}
        for epsilon in (1.0, 1.1):
            command = [sys.executable, "-m", "noiseworthy", "plan", study, "--out", f"{folder}/{epsilon}"]
            command += ["--quiet", "--set", f"privacy.epsilon={epsilon}"]
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=known)
            took.append(time.perf_counter() - start)
    print(f"plan MNIST, {mechanism}: {took[0]:.1f} s at first", file=sys.stderr, flush=True)
    return took[1]


def on(platform: str) -> dict[str, float]:
    """What `ours` finds on the devices of a platform, in a process of their own."""
    known = {**os.environ, "JAX_PLATFORMS": platform, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, __file__, "ours"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=known)
    return json.loads(done.stdout.splitlines()[-1])


def in_torch() -> dict[str, dict[str, float]]:
    """Seconds of torch, torch.func and Opacus on the GPU, by workload."""
    digits = load_records("mnist", data_dir=os.environ.get("NOISEWORTHY_DATA"))
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "records.npz"
        x, y = np.asarray(digits.x, np.float32), np.asarray(digits.y, np.int32)
        np.savez(records, x=x.reshape(1000, 60, 784), y=y.reshape(1000, 60))
        peers = Path(__file__).with_name("peers_torch.py")
        done = subprocess.run(
            [sys.executable, "-W", "ignore", peers, records, "cuda"],
            check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    print(jax.devices(), flush=True)
    columns = {platform: on(platform) for platform in ("cuda", "cpu")}
    peers = in_torch()
    for workload, seconds in columns["cuda"].items():
        beside = {"CPU": columns["cpu"][workload], **peers.get(workload, {})}
        said = (f"{name} {1e3 * took:.2f} ms ({took / seconds:.2f})" for name, took in beside.items())
        print(f"{workload}: GPU {1e3 * seconds:.2f} ms, {', '.join(said)}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps({"ours": ours, "plans": plans}[sys.argv[1]]()))
    else:
        main()
