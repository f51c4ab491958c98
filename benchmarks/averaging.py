"""DP-PASGD: how long planning takes for many devices; what padding, noise and minibatches cost a training."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from noiseworthy.data import Federation
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.methods.dp_pasgd.planner import plan, stated
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import LinearModel

FEATURES, STEP = 102, StepSize(1.0, float("inf"))
BY_EDUCATION = np.array([746, 940, 346, 134, 266, 516, 411, 853, 1105, 4284, 330, 8400, 1378, 40, 460, 5832])
"""Training records of the 16 devices of Adult-1."""
VALUES = {"smoothness": 1.0, "strong_convexity": 0.01, "gradient_variance": 0.01, "initial_gap": 0.7}


def problem(sizes: np.ndarray, epsilon: np.ndarray | float = 4.0, family: str = "gaussian") -> Problem:
    resources = Resources.of(100.0, 1.0, 200_000.0, len(sizes))
    budget = PrivacyBudget.of(epsilon, 1e-4, len(sizes))
    return Problem(sizes, FEATURES, budget, family, 1.0, resources=resources)


def planning() -> None:
    constants = {name: Constant(value, "assumed") for name, value in VALUES.items()}
    many = problem(np.full(1000, 500), np.linspace(0.5, 8, 1000))
    for label, step in (("a stated step", StepSize(0.05, float("inf"))), ("25 steps", None)):
        start = time.perf_counter()
        made = plan(many, constants, step=step)
        print(f"plan 1,000 devices, {label:<14}      {time.perf_counter() - start:.3f} s: {made.outcome}")


def federation(sizes: np.ndarray) -> Federation:
    rng = np.random.default_rng(0)
    clients = [(rng.normal(size=(n, FEATURES)), rng.integers(0, 2, n)) for n in sizes]
    return Federation.from_clients(clients, test=clients[0], classes=2, name="random")


def trainings(
    sizes: np.ndarray, seeds: int, batch: int | None = None, family: str = "gaussian"
) -> Callable[[], None]:
    """A warm function that trains 9 rounds of 10 steps under some seeds."""
    task = LinearModel(FEATURES, 1, "logistic", feature_norm=1.0, normalise=True)
    made = stated(problem(sizes, family=family), 90, 10, STEP, batch)
    shards, at = Shards.load(federation(sizes), task), np.array([made.rounds])
    algorithms = [make(made, task, seed) for seed in range(seeds)]

    def run() -> None:
        simulate(algorithms, made.uploads, shards, at, range(seeds))

    run()
    return run


def side_by_side(what: str, slow: Callable[[], None], fast: Callable[[], None], turns: int = 5) -> None:
    """Median times of two trainings that take turns, and their ratio."""
    times = np.empty((turns, 2))
    for turn in range(turns):
        for column, run in enumerate((slow, fast)):
            start = time.perf_counter()
            run()
            times[turn, column] = time.perf_counter() - start
    a, b = np.median(times, axis=0)
    print(f"{what:<66} {a:6.3f} s against {b:6.3f} s: {a / b:5.2f}")


def main() -> None:
    planning()
    equal = np.full(16, 1628)
    alone, twenty = trainings(equal, 1), trainings(equal, 20)
    side_by_side("20 seeds against one", twenty, alone)
    side_by_side("devices by education against equal ones, 20 seeds", trainings(BY_EDUCATION, 20), twenty)
    side_by_side("with noise against without, 20 seeds", twenty, trainings(equal, 20, family="none"))
    side_by_side("minibatches of 100 against all records, 20 seeds", trainings(equal, 20, 100), twenty)


if __name__ == "__main__":
    main()
