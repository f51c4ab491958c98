"""What do local steps of linear models cost in the span of the records, and on the parameters?

Softmax 784x10, 1,000 clients of 60 records, rounds of 10 clients, ten local steps of all records, 100 rounds;
then more clients a round, and minibatches. One process, ways in turn, the least CPU seconds of the repeats.
"""

from __future__ import annotations

import time

import numpy as np

from noiseworthy.data.federation import Federation
from noiseworthy.engines import resident, simulation
from noiseworthy.engines.resident import span_of
from noiseworthy.engines.shards import Shards
from noiseworthy.methods.dp_fedavg import planner
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.clipping import ClippingMode
from noiseworthy.tasks import LinearModel

CLIENTS, RECORDS, FEATURES, CLASSES, ROUNDS, REPEATS = 1_000, 60, 784, 10, 100, 5
TASK = LinearModel(FEATURES, CLASSES, "softmax", feature_norm=1.0)
CASES: tuple[tuple[ClippingMode, int, int, int | None], ...] = (
    ("D", 10, 10, None), ("C", 10, 10, None), ("D", 100, 10, None), ("C", 100, 10, None),
    ("D", 10, 3, None), ("D", 10, 2, None), ("D", 10, 10, 16),
)  # fmt: skip
"""Clipping, clients a round, local steps, and records in each."""
WAYS = ("none", "asked", "kept")


def federation() -> Federation:
    rng = np.random.default_rng(0)
    x = rng.random((CLIENTS, RECORDS, FEATURES), dtype=np.float32)
    y = rng.integers(0, CLASSES, (CLIENTS, RECORDS), np.int32)
    return Federation(
        name="noise", clients=tuple(map(str, range(CLIENTS))), sizes=np.full(CLIENTS, RECORDS), x=x, y=y,
        test_x=x[0], test_y=y[0], classes=CLASSES,
    )  # fmt: skip


def plan(mode: ClippingMode, cohort: int, steps: int, batch_size: int | None) -> Plan:
    budget = PrivacyBudget.of(8.0, 1e-5, CLIENTS, unit="client")
    problem = Problem(np.full(CLIENTS, RECORDS), TASK.dimension, budget, "gaussian", 0.1, clipping=mode)
    return planner.stated(problem, ROUNDS * steps, steps, cohort, StepSize(0.1, np.inf), batch_size)


def seconds(made: Plan, shards: Shards, way: str) -> float:
    """CPU seconds of a whole training that is compiled, inner products included."""
    algorithm, chosen = make(made, TASK, 0), resident.span_of
    resident.span_of = lambda *_: way
    took = []
    for _ in range(REPEATS + 1):
        start = time.process_time()
        simulation.simulate([algorithm], made.uploads, shards, np.array([ROUNDS]), [0])
        took.append(time.process_time() - start)
    resident.span_of = chosen
    return min(took[1:])


def main() -> None:
    shards = Shards.load(federation(), TASK)
    print("CPU seconds on parameters, then ratios to them; * is what the engine takes")
    for mode, cohort, steps, batch_size in CASES:
        made = plan(mode, cohort, steps, batch_size)
        took = {way: seconds(made, shards, way) for way in WAYS}
        best = span_of([make(made, TASK, 0)], shards)
        ratios = (f"{way}{'*' * (way == best)} {took[way] / took['none']:.2f}" for way in WAYS)
        case = f"mode {mode}, {cohort} clients, {steps} steps, batch {batch_size}"
        print(f"{case}: {took['none']:.2f} s ", *ratios, flush=True)


if __name__ == "__main__":
    main()
