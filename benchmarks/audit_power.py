"""How much of a claimed epsilon does an audit prove, with how many trials and in what time?

    python benchmarks/audit_power.py

Plans FedSGD-DPC with 10 clients of 100 records and 100 rounds that ask everybody, for several epsilons, and
attacks each by the product's engine. Prints a table in Markdown. About four minutes on two cores.
"""

from __future__ import annotations

import time

import jax
import numpy as np

from noiseworthy.audit.attack import Trials, attack, bound
from noiseworthy.audit.audits import CONFIDENCE
from noiseworthy.audit.canaries import twin_of
from noiseworthy.audit.targets import targets_of
from noiseworthy.methods.fedsgd_dpc.planner import stated
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget

CLIENTS, RECORDS, ROUNDS = 10, 100, 100
EPSILON = (1.0, 3.0, 10.0)
TRIALS = (1_000, 10_000, 40_000, 100_000)
FAMILIES = (("gaussian", 1e-5, "spread", 2), ("laplace", 0.0, "one", 1), ("laplace", 1e-5, "one", 1))


def plan_of(family, epsilon: float, delta: float) -> Plan:
    """Everybody is asked in every round."""
    budget = PrivacyBudget.of(epsilon, delta, CLIENTS)
    problem = Problem(np.full(CLIENTS, RECORDS), 100, budget, family, 1.0)
    return stated(problem, ROUNDS, CLIENTS, StepSize(0.1, 50.0))


def proven(trials: Trials, count: int, delta: float) -> tuple[float, float]:
    """Bounds from the first trials: within the family, and for any mechanism."""
    half = count // 2
    some = Trials(trials.present[:half], trials.absent[:half], trials.subjects, trials.family, 0.0)
    found = bound(some, np.full(len(trials.subjects), delta), CONFIDENCE)
    return float(found.epsilon[0]), found.family_free


def main() -> None:
    """A row for each kind of noise and number of trials."""
    print(f"On {jax.devices()[0].device_kind}, {CONFIDENCE:.0%} confidence.\n")
    print("| noise | trials | " + " | ".join(f"epsilon {one:g}" for one in EPSILON) + " | seconds |")
    print("|---|---:|" + "---:|" * (len(EPSILON) + 1))
    for family, delta, direction, dimension in FAMILIES:
        runs, seconds = [], []
        for epsilon in EPSILON:
            (target,) = targets_of(plan_of(family, epsilon, delta))
            twin = twin_of(target, dimension, direction, model="linear", ridge=0.01, seed=0)
            started = time.monotonic()
            runs.append(attack(twin, trials=int(1.05 * max(TRIALS)), seed=0))
            seconds.append(time.monotonic() - started)
        for count in TRIALS:
            bounds = [proven(run, count, delta) for run in runs]
            cells = " | ".join(f"{within:.2f} ({free:.2f})" for within, free in bounds)
            spent = min(seconds) * count / max(TRIALS)
            print(f"| {family}, delta {delta:g} | {count:,} | {cells} | {spent:.1f} |", flush=True)


if __name__ == "__main__":
    main()
