"""W1: softmax 784x10, 10 clients x 6,000 records, b = 1, T = 100, L1 clip 300, Laplace noise, 10 seeds.

The whole training beside (a) its matrix products alone and (b) the same training with per-record gradients.
Ratios within one run; (b) runs fewer rounds and is scaled up. Records are uniform noise of MNIST's shape:
time does not depend on their values.
"""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from noiseworthy.data import Federation
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.methods.fedsgd_dpc.algorithm import make
from noiseworthy.methods.fedsgd_dpc.planner import stated
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import LinearModel, make_task, model_task

CLIENTS, RECORDS, ROUNDS, SEEDS = 10, 6000, 100, 10


def federation() -> Federation:
    rng = np.random.default_rng(0)
    x = rng.random((CLIENTS, RECORDS, 28, 28), dtype=np.float32)
    y = rng.integers(0, 10, (CLIENTS, RECORDS)).astype(np.int32)
    names = tuple(f"client {i}" for i in range(CLIENTS))
    return Federation(x, y, np.full(CLIENTS, RECORDS), x[0, :100], y[0, :100], 10, "MNIST's shape", names)


def training(task, shards: Shards, rounds: int, seeds: int, family="laplace"):
    budget = PrivacyBudget.of(5.0, 0.0, CLIENTS)
    problem = Problem(np.full(CLIENTS, RECORDS), task.dimension, budget, family, 300.0)
    plan = stated(problem, rounds, 1, StepSize(0.05))
    algorithms = [make(plan, task, seed) for seed in range(seeds)]
    return lambda: simulate(algorithms, plan.releases, shards, np.array([rounds]), range(seeds))


@dataclass(frozen=True)
class ProductsAlone(LinearModel):
    """The two matrix products of a gradient and nothing else: no loss, no norms, no clip."""

    def clipped_gradient_sum(self, theta, batch, clip_norm, norm):
        outputs = batch.x @ theta.reshape(self.features, self.outputs)
        return 1e-9 * jnp.matmul(batch.x.T, outputs, precision="highest").ravel()


def seconds(work, repeats: int = 2) -> tuple[float, float]:
    """First call (compilation included) and the best of the others."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times[0], min(times[1:])


def main() -> None:
    data = federation()
    linear = make_task("softmax", (28, 28), 10)
    shards = Shards.load(data, linear)
    first, closed = seconds(training(linear, shards, ROUNDS, SEEDS))
    alone = ProductsAlone(784, 10, "softmax")
    _, products = seconds(training(alone, shards, ROUNDS, SEEDS, family="none"))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    generic = model_task(lambda w, x: x.ravel() @ w, jnp.zeros((784, 10)), chunk=100)
    _, few = seconds(training(generic, Shards.load(data, generic), 4, 1), repeats=1)
    per_record = few / 4 * ROUNDS * SEEDS
    print(f"closed-form clipping       {closed:7.2f} s for {SEEDS} seeds x {ROUNDS} rounds")
    print(f"matrix products alone      {products:7.2f} s   ratio {closed / products:.2f}")
    print(f"per-record gradients       {per_record:7.2f} s   ratio {per_record / closed:.1f}")
    print(f"compilation                {max(first - closed, 0):7.2f} s, peak memory {memory:.2f} GB")


if __name__ == "__main__":
    main()
