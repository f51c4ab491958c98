"""A tiny federation of unequal clients, and plans for it, shared by all tests of engines."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from noiseworthy.data import Federation
from noiseworthy.engines.shards import Shards
from noiseworthy.methods.fedsgd_dpc.algorithm import make
from noiseworthy.methods.fedsgd_dpc.planner import stated
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import LinearModel

SIZES, FEATURES, CLASSES = (7, 3, 5, 2, 6), 4, 3


def records(rng, n):
    return rng.normal(size=(n, FEATURES)), rng.integers(0, CLASSES, n)


@pytest.fixture(scope="session")
def federation() -> Federation:
    rng = np.random.default_rng(3)
    clients = [records(rng, n) for n in SIZES]
    return Federation.from_clients(clients, test=records(rng, 20), classes=CLASSES, name="tiny")


@pytest.fixture(scope="session")
def task() -> LinearModel:
    return LinearModel(FEATURES, CLASSES, "softmax", ridge=0.1)


@pytest.fixture(scope="session")
def shards(federation, task) -> Shards:
    return Shards.load(federation, task)


@pytest.fixture(scope="session")
def plan_of(task):
    """A stated plan: family, b, T, and what else differs."""

    def build(family, b, rounds, *, epsilon=2.0, clip=0.7, sampling_rate=1.0, step=0.3, decay=10.0):
        relation = "replace-one" if sampling_rate == 1 else "add-remove"
        delta = 1e-3 if family == "gaussian" else 0.0
        budget = PrivacyBudget.of(epsilon, delta, len(SIZES), relation)
        problem = Problem(np.array(SIZES), task.dimension, budget, family, clip, sampling_rate)
        return stated(problem, rounds, b, StepSize(step, decay))

    return build


@pytest.fixture(scope="session")
def algorithms_of(task):
    """One algorithm per seed of a plan, with those seeds."""

    def build(plan, seeds, **options):
        return SimpleNamespace(seeds=list(seeds), all=[make(plan, task, seed, **options) for seed in seeds])

    return build
