"""What do DPFL-BCS, its rivals and their networks cost? Replies of each algorithm, records of each network.

Replies: softmax regression 784 x 10, 100 clients of 600 records, K = 20, five seeds side by side, Gaussian
noise, as `noiseworthy rivals` trains them; milliseconds of wall time for each client asked, and as a ratio to
DPSGD. Networks: clipped per-record gradients a second in chunks of 10, 25 and 100 records.

Answer: see README.md. All take what DPSGD takes but PrivateFL, whose transform needs another pass over the
records; PFA's look at every single upload costs nothing to speak of, thanks to the Gram matrix.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from noiseworthy.data.federation import Federation
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.methods.registry import make
from noiseworthy.methods.rivals import planner as rivals
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import LinearModel, make_task
from noiseworthy.tasks.batch import Batch

CLIENTS, RECORDS, COHORT, ROUNDS, SEEDS, REPEATS = 100, 600, 20, 6, (0, 1, 2, 3, 4), 3
NETWORKS = {"ma-cnn": (28, 28), "lenet5": (28, 28), "group-cnn": (28, 28), "resnet20": (32, 32, 3)}


def federation() -> Federation:
    """Noise in the shape of MNIST: only its size matters here."""
    rng = np.random.default_rng(0)
    x = rng.random((CLIENTS, RECORDS, 784), dtype=np.float32)
    y = rng.integers(0, 10, (CLIENTS, RECORDS)).astype(np.int32)
    names = tuple(str(client) for client in range(CLIENTS))
    return Federation(
        name="shape of mnist", clients=names, sizes=np.full(CLIENTS, RECORDS), x=x, y=y,
        test_x=x[0], test_y=y[0], classes=10,
    )  # fmt: skip


def seconds(work: Callable[..., Any], *arguments: Any) -> float:
    """The best of some repeats, after one that compiles."""
    found = []
    for _ in range(REPEATS + 1):
        started = time.perf_counter()
        jax.block_until_ready(work(*arguments))
        found.append(time.perf_counter() - started)
    return min(found[1:])


def replies() -> None:
    """Milliseconds per reply of each algorithm."""
    held, task = federation(), LinearModel(784, 10, "softmax")
    shards = Shards.load(held, task)
    budget = PrivacyBudget.of(np.linspace(0.1, 3.0, CLIENTS), 1e-5, CLIENTS)
    problem = Problem(held.sizes, task.dimension, budget, "gaussian", 20.0)
    base = 0.0
    for name in ("dpsgd", "weiavg", "pfa", "privatefl"):
        made = rivals.plan(name, problem, rounds=ROUNDS, clients_per_round=COHORT, step=StepSize(0.05))
        algorithms = [make(made, task, seed) for seed in SEEDS]

        def run(algorithms=algorithms, made=made) -> None:
            simulate(algorithms, made.uploads, shards, np.array([ROUNDS]), SEEDS)

        each = seconds(run) / (ROUNDS * COHORT * len(SEEDS))
        base = base or each
        print(f"{name:10} {1000 * each:.2f} ms a reply, {each / base:.2f} times dpsgd")


def networks() -> None:
    """Clipped per-record gradients a second."""
    for name, shape in NETWORKS.items():
        task = make_task(name, shape, 62 if name == "group-cnn" else 10)
        theta, records = task.initial(jax.random.key(0)), 40 if name == "resnet20" else 400
        x = task.prepare(jax.random.uniform(jax.random.key(1), (records, *shape)))
        batch = Batch(x, jnp.zeros(records, jnp.int32), jnp.ones(records))
        speeds = []
        for chunk in (10, 25, 100):
            one = replace(task, chunk=chunk)  # pyright: ignore[reportArgumentType]
            total = jax.jit(lambda theta, batch, one=one: one.clipped_gradient_sum(theta, batch, 1.0, "l2"))
            speeds.append(f"{records / seconds(total, theta, batch):,.0f}")
        print(f"{name:10} {task.dimension:7,} parameters: {' / '.join(speeds)} records a second")


if __name__ == "__main__":
    replies()
    networks()
