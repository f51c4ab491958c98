"""What the model itself gives away where the engine draws a cohort's noise as one sum, beside the claim.

The audit reads single uploads, for which noise is drawn one by one. Simulations draw one sum of them, all
that the model is made of: here the attacker reads it off the parameters after every round.
"""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.audit.attack import Trials, bound
from noiseworthy.audit.families import GaussianFamily
from noiseworthy.data import Federation
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.methods.fedsgd_dpc.algorithm import make
from noiseworthy.methods.fedsgd_dpc.planner import stated
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.tasks import LinearModel

RECORDS, CLIENTS, CLIP, EPSILON, DELTA, ROUNDS, RUNS = 4, 3, 1.0, 4.0, 1e-5, 5, 10_000
TASK = LinearModel(1, 1, "squared")


def shards_with(target: float) -> Shards:
    """Records are zero but that of client 0, (1, target), whose |target| is so large that it is clipped."""
    silent = np.zeros((RECORDS, 1)), np.zeros(RECORDS)
    x, y = np.zeros((RECORDS, 1)), np.zeros(RECORDS)
    x[0], y[0] = 1.0, target
    clients = [(x, y), *[silent] * (CLIENTS - 1)]
    return Shards.load(Federation.from_clients(clients, test=silent, classes=None, name="canary"), TASK)


def steps_of(plan, target: float, single_uploads: bool) -> np.ndarray:
    """The aggregate of every round and run, shape (ROUNDS, RUNS), read off the engine's parameters."""
    algorithm, path = make(plan, TASK, 0), []
    seeds, shards = np.arange(RUNS) + (RUNS if target > 0 else 0), shards_with(target)
    simulate(
        [algorithm] * RUNS, plan.releases, shards, np.arange(ROUNDS + 1), seeds,
        single_uploads=single_uploads, on_segment=lambda done: path.append(done.theta[:, 0].astype(float)),
    )  # fmt: skip
    return (np.array(path[:-1]) - np.array(path[1:])) / plan.step.initial


@pytest.mark.slow
@pytest.mark.parametrize("single_uploads", [False, True], ids=["summed noise", "noise per upload"])
def test_the_sum_of_a_cohort_gives_away_what_its_summed_noise_says(single_uploads):
    """All clients weigh 1/3 and have the noise of one, so that the sum hides sqrt(3) times better."""
    problem = Problem(
        np.full(CLIENTS, RECORDS), 1, PrivacyBudget.of(EPSILON, DELTA, CLIENTS), "gaussian", CLIP
    )
    plan = stated(problem, ROUNDS, CLIENTS, StepSize(0.01, float("inf")))
    mean, std = CLIP / RECORDS / CLIENTS, plan.noise[0] / np.sqrt(CLIENTS)
    present, absent = (
        (-2 * mean * steps_of(plan, target, single_uploads) / std**2).sum(axis=0) for target in (1e6, -1e6)
    )
    mu = gaussian_mu(np.array([EPSILON]), DELTA) / np.sqrt(CLIENTS)
    found = bound(Trials(present, absent, np.array([0]), GaussianFamily(mu), 0.0), np.array([DELTA]), 0.999)
    assert 0.85 < found.scale <= 1.0
