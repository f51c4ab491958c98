"""DPFL-BCS in one stage: exact counts, replies that weigh alike, nobody beyond what its noise pays for."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import numpy as np
import pytest

from noiseworthy.data.federation import Federation
from noiseworthy.engines.debug import debug
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.errors import BudgetExceeded, InvalidInput
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import LinearModel

COUNTS, FEATURES, ROUNDS, K = np.array([0, 6, 1, 4, 3, 6]), 4, 10, 2
STEP = StepSize(0.1, 20.0)


@pytest.fixture(scope="module")
def federation() -> Federation:
    """Unequal clients with unlike optima: regression with 6 to 14 records each."""
    generator = np.random.default_rng(3)
    sizes = np.array([6, 14, 9, 7, 12, 8])
    x = generator.normal(size=(6, 14, FEATURES)) * (np.arange(14) < sizes[:, None])[..., None]
    y = np.einsum("nif,nf->ni", x, generator.normal(size=(6, FEATURES)) * 2).astype(np.float32)
    return Federation(
        name="unlike", clients=tuple("abcdef"), sizes=sizes, x=x.astype(np.float32), y=y,
        test_x=x[:, 0].astype(np.float32), test_y=y[:, 0], classes=None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def task() -> LinearModel:
    return LinearModel(FEATURES, 1, "squared", ridge=0.05)


def plan_of(federation, family="gaussian", counts=COUNTS, rounds=ROUNDS, k=K) -> Plan:
    delta = 0.0 if family == "laplace" else 1e-5
    budget = PrivacyBudget.of(np.linspace(0.5, 4.0, 6), delta, 6)
    problem = Problem(federation.sizes, FEATURES, budget, family, 1.0)
    release = problem.release(np.maximum(counts, 1))
    return Plan("dpfl-bcs", "", problem, rounds, k, counts, release, None, {}, "", step=STEP)


def numpy_bcs(federation, plan, cohorts, ridge, noise=None):
    """Loops in float64: clipped means, replies that weigh 1/K, whatever their clients hold."""
    theta = np.zeros(FEATURES)
    for t, cohort in enumerate(cohorts):
        total = np.zeros(FEATURES)
        for client in cohort:
            n = federation.sizes[client]
            x, y = federation.x[client, :n].astype(float), federation.y[client, :n].astype(float)
            each = (x @ theta - y)[:, None] * x
            norms = np.linalg.norm(each, axis=1, keepdims=True)
            total += (each * np.minimum(1, 1 / np.maximum(norms, 1e-300))).sum(axis=0) / n
        theta = theta - 0.1 / (1 + t / 20) * (total / len(cohort) + ridge * theta)
    return theta


def test_without_noise_it_is_the_textbook_loop(federation, task):
    plan = plan_of(federation)
    algorithm = make(plan, task, 4)
    silent = eqx.tree_at(lambda a: a.noise, algorithm, np.zeros_like(algorithm.noise))
    run = simulate([silent], plan.uploads, Shards.load(federation, task), np.array([0, ROUNDS]), [1])
    np.testing.assert_allclose(
        run.theta[0], numpy_bcs(federation, plan, algorithm.cohorts, task.ridge), rtol=2e-4, atol=2e-6
    )


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_the_debug_engine_gives_what_the_simulation_gives(federation, task, family):
    plan = plan_of(federation, family)
    algorithm, shards, at = make(plan, task, 0), Shards.load(federation, task), np.array([0, 3, ROUNDS])
    plain = debug(algorithm, plan.uploads, shards, at, 7)
    fast = simulate([algorithm], plan.uploads, shards, at, [7], single_uploads=True)
    np.testing.assert_allclose(fast.theta, plain.theta, rtol=2e-4, atol=1e-5)
    np.testing.assert_array_equal(fast.uploads[0], COUNTS)


@pytest.mark.parametrize("seed", range(20))
def test_everybody_is_asked_exactly_as_planned_and_never_twice_in_a_round(federation, task, seed):
    cohorts = make(plan_of(federation), task, seed).cohorts
    assert cohorts.shape == (ROUNDS, K)
    np.testing.assert_array_equal(np.bincount(cohorts.ravel(), minlength=6), COUNTS)
    assert all(len(set(cohort)) == K for cohort in cohorts.tolist())


def test_a_client_past_its_count_refuses(federation, task):
    plan = plan_of(federation)
    fewer = plan.uploads - (np.arange(6) == 3)
    with pytest.raises(BudgetExceeded, match="client 3 has made all of its 3 planned uploads"):
        simulate([make(plan, task, 0)], fewer, Shards.load(federation, task), np.array([0, ROUNDS]), [0])


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_all_spend_their_budget_and_who_is_never_asked_spends_nothing(federation, family):
    spent = plan_of(federation, family).spent()
    np.testing.assert_allclose(spent[1:], np.linspace(0.5, 4.0, 6)[1:], rtol=1e-6)
    assert spent[0] == 0


def test_with_equal_clients_who_are_all_asked_it_is_fedsgd(task):
    """K = N and equal sizes: weights 1/K are d_n/d, and the schedules are everybody in every round."""
    generator = np.random.default_rng(0)
    clients = [(generator.normal(size=(9, FEATURES)), generator.normal(size=9)) for _ in range(3)]
    equal = Federation.from_clients(clients, test=clients[0], classes=None, name="equal")
    budget = PrivacyBudget.of(3.0, 1e-5, 3)
    problem = Problem(equal.sizes, FEATURES, budget, "gaussian", 1.0)
    counts = np.full(3, 5)
    made = Plan("dpfl-bcs", "", problem, 5, 3, counts, problem.release(counts), None, {}, "", step=STEP)
    shards, at = Shards.load(equal, task), np.array([0, 5])
    runs = [
        simulate([make(replace(made, algorithm=name), task, 0)], counts, shards, at, [2])
        for name in ("dpfl-bcs", "fedsgd-dpc")
    ]
    np.testing.assert_allclose(runs[0].theta, runs[1].theta, rtol=1e-5, atol=1e-7)


def test_it_needs_a_plan_that_trains(federation, task):
    with pytest.raises(InvalidInput, match="does not train"):
        make(replace(plan_of(federation), rounds=0), task, 0)
