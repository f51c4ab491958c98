"""Calibrating and planning for many clients with different budgets."""

from __future__ import annotations

import time

import numpy as np

from noiseworthy.methods.fedsgd_dpc.bound import theory_bound
from noiseworthy.methods.fedsgd_dpc.planner import plan
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.calibration import calibrate

VALUES = {"smoothness": 1.0, "strong_convexity": 0.1, "gradient_bound": 1.0,
          "initial_distance_sq": 2500.0, "heterogeneity": 0.5}  # fmt: skip


def problem(clients: int, family: str) -> Problem:
    rng = np.random.default_rng(0)
    delta = 0.0 if family == "laplace" else np.exp(rng.uniform(-14, -9, clients))
    budget = PrivacyBudget.of(rng.uniform(0.1, 3.0, clients), delta, clients)
    return Problem(rng.integers(50, 500, clients), 1000, budget, family, 1.0)


def main() -> None:
    constants = {name: Constant(value, "assumed") for name, value in VALUES.items()}
    small = problem(5000, "gaussian")
    start = time.perf_counter()
    calibrate("gaussian", small.sensitivity, small.budget, 50)
    print(f"calibrate 5,000 Gaussian clients      {time.perf_counter() - start:.3f} s")
    for family in ("laplace", "gaussian"):
        large = problem(100_000, family)
        start = time.perf_counter()
        decided = plan(large, theory_bound(large, constants), constants)
        print(
            f"plan 100,000 clients, {family:<9}       {time.perf_counter() - start:.3f} s: {decided.outcome}"
        )


if __name__ == "__main__":
    main()
