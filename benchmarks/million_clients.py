"""A million clients on one machine: rounds of 100 clients whose records lie in files, and their memory.

Clients hold from 10 records on by a power law (47 on average, 20,000 at most), of 20 features. `make` writes
federations of 10^4, 10^5 and 10^6 clients with `Federation.from_function`; `run` trains 100 rounds of each
method at each size in a process of its own, with checkpoints: of five local steps of DP-FedAvg, two of
DP-ScaffNew. The product's DP-ScaffNew asks everybody in every round; here its cohorts are of 100, to see what
memories of a million clients cost. DPFL-BCS runs with the counts of a round robin, and as it plans: then it
asks the largest clients, so that a round reads more records the more clients there are.

Memory is what the kernel counts for the process at its peak: all of it, `VmHWM`, in which pages of mapped
files count while they are there; and what it could not drop, sampled: `RssAnon`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from noiseworthy.data import Federation
from noiseworthy.engines.shards import Shards
from noiseworthy.methods.algorithm import Algorithm
from noiseworthy.methods.dp_fedavg import planner as fedavg
from noiseworthy.methods.dp_scaffnew import planner as scaffnew
from noiseworthy.methods.dpfl_bcs import planner as bcs
from noiseworthy.methods.registry import make as made
from noiseworthy.methods.selection import reshuffled_round_robin
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.studies.run_folder import FolderKeeper
from noiseworthy.studies.training import carried_out
from noiseworthy.tasks import LinearModel

COUNTS = (10_000, 100_000, 1_000_000)
MODES = {"dp-fedavg": "B", "dp-scaffnew": "D", "dpfl-bcs": "A", "dpfl-bcs, as planned": "A"}
FEATURES, ROUNDS, COHORT, STEP = 20, 100, 100, StepSize(0.1, np.inf)
LEAST, MOST, POWER = 10, 20_000, 1.258
"""Of sizes: the share of clients with more than LEAST times z records is z^-POWER."""
TASK = LinearModel(FEATURES, 1, "logistic", feature_norm=1.0)


def sizes_of(clients: int) -> np.ndarray:
    """The same quantiles for any number of clients, in random order."""
    ranks = (np.random.default_rng(0).permutation(clients) + 0.5) / clients
    return np.minimum(MOST, LEAST * ranks ** (-1 / POWER)).astype(np.int64)


def write(folder: Path, clients: int) -> None:
    sizes, rng = sizes_of(clients), np.random.default_rng(1)
    truth = rng.normal(size=FEATURES).astype(np.float32)

    def records(count: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.standard_normal((count, FEATURES), np.float32)
        return x, (x @ truth + rng.standard_normal(count, np.float32) > 0).astype(np.int32)

    Federation.from_function(
        lambda i: records(int(sizes[i])),
        clients,
        folder=folder,
        test=records(1000),
        classes=2,
        name="power law",
    )


def problem(sizes: np.ndarray, method: str) -> Problem:
    mode = MODES[method]
    unit = "client" if mode == "D" else "record"
    budget = PrivacyBudget.of(4.0, 1e-6, len(sizes), "replace-one", unit)
    return Problem(sizes, TASK.dimension, budget, "gaussian", 1.0, clipping=mode)


def planned(method: str, sizes: np.ndarray) -> tuple[Plan, Algorithm]:
    facts = problem(sizes, method)
    if method == "dp-fedavg":
        plan = fedavg.stated(facts, 5 * ROUNDS, 5, COHORT, STEP)
        return plan, made(plan, TASK, 0)
    cohorts = reshuffled_round_robin(len(sizes), COHORT, ROUNDS, np.random.default_rng(0))
    counts = np.bincount(cohorts.ravel(), minlength=len(sizes))
    if method == "dpfl-bcs":
        plan = bcs.stated(facts, counts, COHORT, ROUNDS, STEP)
        return plan, made(plan, TASK, 0)
    if method == "dpfl-bcs, as planned":
        known = {name: Constant(1.0, "assumed") for name in ("smoothness", "strong_convexity")}
        plan = bcs.plan(facts, known, rounds=ROUNDS, clients_per_round=COHORT, step=STEP)
        return plan, made(plan, TASK, 0)
    one = scaffnew.stated(facts, 2, 0.5, STEP)
    plan = replace(one, rounds=ROUNDS, releases=counts)
    return plan, replace(made(one, TASK, 0), counts=np.full(ROUNDS, 2, np.int32), cohorts=cohorts)


def memory() -> dict[str, float]:
    """Figures of this process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    parts = dict(line.split(":", 1) for line in lines)
    return {name: int(parts[name].split()[0]) / 1024 for name in ("VmHWM", "RssAnon", "RssFile")}


def run(folder: Path, method: str) -> dict[str, float]:
    """Seconds to open and plan, and of a round with its share of three checkpoints; memory in MB."""
    anonymous, done = [0.0], threading.Event()

    def sample() -> None:
        while not done.wait(0.02):
            anonymous[0] = max(anonymous[0], memory()["RssAnon"])

    threading.Thread(target=sample, daemon=True).start()
    start = time.perf_counter()
    federation = Federation.opened(folder)
    plan, algorithm = planned(method, federation.sizes)
    opened = time.perf_counter() - start
    shards, seconds, busy = Shards.load(federation, TASK, condensed=algorithm.condensed), 0.0, 0.0
    for _ in range(2):  # the first compiles
        with tempfile.TemporaryDirectory(dir=folder.parent) as kept:
            start, busy = time.perf_counter(), time.process_time()
            carried_out(
                plan, TASK, lambda condensed: shards, [0], np.array([0, ROUNDS // 2, ROUNDS]),
                algorithms=[algorithm], keeper=FolderKeeper(folder=Path(kept), mark="benchmark", records=""),
            )  # fmt: skip
            seconds, busy = time.perf_counter() - start, time.process_time() - busy
    done.set()
    asked = federation.sizes[algorithm.cohorts].sum() / ROUNDS
    times = {"opened": opened, "round": seconds / ROUNDS, "busy": busy / ROUNDS, "records": float(asked)}
    return {**times, "peak": memory()["VmHWM"], "anonymous": anonymous[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("make", "run", "one"))
    parser.add_argument("folder", type=Path, help="4 GB are written below it by make")
    parser.add_argument("method", nargs="?")
    given = parser.parse_args()
    if given.command == "one":
        print(json.dumps(run(given.folder, given.method)))
        return
    if given.command == "make":
        for clients in COUNTS:
            write(given.folder / str(clients), clients)
        return
    for method in MODES if given.method is None else [given.method]:
        found = {}
        for clients in COUNTS:
            command = [sys.executable, __file__, "one", str(given.folder / str(clients)), method]
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found[clients] = json.loads(told.splitlines()[-1])
            one, first = found[clients], found[COUNTS[0]]
            print(
                f"{method:<20} {clients:>9,} clients, {one['records']:9,.0f} records a round: "
                f"{1000 * one['round']:6.2f} ms a round, "
                f"{one['round'] / first['round']:4.2f} of 10^4's, {1000 * one['busy']:6.2f} ms of CPU, "
                f"{one['busy'] / first['busy']:4.2f} of 10^4's; peak {one['peak']:5.0f} MB, of it anonymous "
                f"{one['anonymous']:5.0f} MB; opened and planned in {one['opened']:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
