"""What a round of one gradient a client costs in one product for all clients, over client by client."""

from __future__ import annotations

import time
from unittest import mock

import jax
import numpy as np

from noiseworthy.data import Federation
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.methods.fedsgd_dpc import planner
from noiseworthy.methods.fedsgd_dpc.algorithm import FedSGDDPC
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import LinearModel

CASES = (
    ("1,000 clients of 20 images, all asked", 1000, 20, 784, 10, 1000, 20, 1),
    ("1,000 clients of 20 images, 100 asked", 1000, 20, 784, 10, 100, 100, 1),
    ("ten clients of 100 images, a lot of trials", 10, 100, 784, 10, 10, 50, 32),
    ("ten clients of 150 digits", 10, 150, 64, 10, 10, 200, 1),
    ("100 clients of 10 rows", 100, 10, 20, 2, 100, 200, 4),
)
REPEATS = 5


def milliseconds(
    clients: int, records: int, features: int, classes: int, asked: int, rounds: int, seeds: int
):
    """Of a round, the least of some runs, compilation left out."""
    rng = np.random.default_rng(0)
    test = rng.normal(size=(100, features)), rng.integers(0, classes, 100)
    parts = [
        (rng.normal(size=(records, features)), rng.integers(0, classes, records)) for _ in range(clients)
    ]
    federation = Federation.from_clients(parts, test=test, classes=classes, name="drawn")
    task = LinearModel(features, classes, "softmax", feature_norm=1.0, normalise=True)
    budget = PrivacyBudget.of(2.0, 1e-5, clients)
    problem = Problem(np.full(clients, records), task.dimension, budget, "gaussian", 0.3)
    plan = planner.stated(problem, rounds, asked, StepSize(1.0, np.inf))
    shards, algorithms = Shards.load(federation, task), [make(plan, task, seed) for seed in range(seeds)]
    took = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        simulate(algorithms, plan.uploads, shards, np.array([rounds]), range(seeds))
        took.append(time.perf_counter() - start)
    return 1e3 * min(took[1:]) / rounds


def main() -> None:
    for name, *sizes in CASES:
        at_once = milliseconds(*sizes)
        jax.clear_caches()
        with mock.patch.object(FedSGDDPC, "sums_records", False):
            one_by_one = milliseconds(*sizes)
        jax.clear_caches()
        ratio = one_by_one / at_once
        print(f"{name}: {at_once:.3f} ms a round, client by client {one_by_one:.3f} ms ({ratio:.1f} times)")


if __name__ == "__main__":
    main()
