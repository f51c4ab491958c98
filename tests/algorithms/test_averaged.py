"""Averaging of iterates: the delivered model is the plain mean of what the same training goes through."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy.data import Federation
from noiseworthy.engines.debug import debug
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.algorithm import Algorithm
from noiseworthy.methods.around import Averaged, averaged
from noiseworthy.methods.dp_fedavg import planner as local_iterations
from noiseworthy.methods.dp_pasgd import planner as averaging_period
from noiseworthy.methods.dp_scaffnew import planner as communication_probability
from noiseworthy.methods.dpfl_bcs import planner as participation
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.methods.mr_mtl import method as mr_mtl
from noiseworthy.methods.registry import METHODS, make
from noiseworthy.methods.rivals import planner as rivals
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import LinearModel

CLIENTS, FEATURES, SEED = 4, 3, 11
SIZES = np.array([5, 8, 6, 7])
TASK = LinearModel(FEATURES, 1, "squared", ridge=0.05, feature_norm=2.0)
STEP = StepSize(0.2, np.inf)


@pytest.fixture(scope="module")
def shards() -> Shards:
    rng = np.random.default_rng(2)
    clients = [(rng.normal(size=(n, FEATURES)), rng.normal(size=n)) for n in SIZES]
    return Shards.load(Federation.from_clients(clients, test=clients[0], classes=None, name="tiny"), TASK)


def plan_of(name):
    """Six rounds or so of any algorithm, with noise."""
    clipping = "D" if name == "dp-scaffnew" else "A"
    unit, family = ("client" if clipping == "D" else "record"), "laplace" if name == "dmldp" else "gaussian"
    budget = PrivacyBudget.of(4.0, 0.0 if family == "laplace" else 1e-3, CLIENTS, unit=unit)
    problem = Problem(SIZES, FEATURES, budget, "none" if name == "fedsgd" else family, 1.0, clipping=clipping)
    if name == "fedsgd-dpc":
        return replace(queries_replies.stated(problem, 6, 2, STEP), momentum=0.5)
    if name == "dp-fedavg":
        return local_iterations.stated(problem, 6, 1, 2, STEP)
    if name == "dp-scaffnew":
        return communication_probability.stated(problem, 12, 0.5, STEP)
    if name == "dp-pasgd":
        return averaging_period.stated(problem, 12, 2, STEP)
    if name == "dpfl-bcs":
        return replace(participation.stated(problem, np.full(CLIENTS, 3), 2, 6, STEP), algorithm=name)
    if name == "mr-mtl":
        return mr_mtl.stated(problem, 6, STEP)
    return rivals.plan(name, problem, rounds=6, clients_per_round=2, step=STEP, momentum=0.5)


KINDS = ("fedsgd-dpc", "dp-fedavg", "dp-scaffnew", "dp-pasgd", "pfa", "privatefl")
"""One name of each class; the others differ by noise, counts or weights."""
ROUNDS = [name for name in METHODS if name != "moments"]
"""Those with more than one."""
EVERY = pytest.mark.parametrize("name", ROUNDS)
EVERY_KIND = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in KINDS else pytest.mark.slow) for name in ROUNDS]
)


@EVERY_KIND
def test_what_is_delivered_is_the_mean_of_the_iterates_of_the_same_training(name, shards):
    plan = plan_of(name)
    rounds, at = plan.rounds, np.arange(plan.rounds + 1)
    iterates = []
    plain = simulate(
        [make(plan, TASK, 0)],
        plan.uploads,
        shards,
        at,
        [SEED],
        on_segment=lambda done: iterates.append(done.theta[0]),
    )
    half = replace(plan, averaging=0.5)
    run = simulate([make(half, TASK, 0)], plan.uploads, shards, at, [SEED])
    kept = rounds // 2
    expected = np.mean(np.float64(iterates[-kept:]), axis=0)
    np.testing.assert_allclose(run.theta[0], expected, rtol=1e-5, atol=1e-6)
    assert not np.allclose(expected, plain.theta[0], rtol=1e-3), "the last iterate must be another"
    scores = [float(TASK.score(expected.astype(np.float32), shards.test_x, shards.test_y).loss)]
    np.testing.assert_allclose(run.loss[0, -1:], scores, rtol=1e-4)
    np.testing.assert_allclose(run.loss[0, : rounds - kept + 2], plain.loss[0, : rounds - kept + 2])
    np.testing.assert_array_equal(run.uploads, plain.uploads)


@pytest.mark.parametrize(
    "name", ["fedsgd-dpc", "pfa", *(pytest.param(n, marks=pytest.mark.slow) for n in KINDS[1:4])]
)
def test_the_debug_engine_delivers_the_same(name, shards):
    plan = replace(plan_of(name), averaging=0.6)
    algorithm, at = make(plan, TASK, 0), np.array([0, plan.rounds])
    fast = simulate([algorithm], plan.uploads, shards, at, [SEED], single_uploads=True)
    slow = debug(algorithm, plan.uploads, shards, at, SEED)
    np.testing.assert_allclose(fast.theta, slow.theta, rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(fast.loss, slow.loss, rtol=2e-4)


@pytest.mark.parametrize("name", ["fedsgd-dpc", "dp-scaffnew"])
@pytest.mark.parametrize("broken_at", [1, 2])
def test_a_resumed_training_delivers_the_same(name, broken_at, shards):
    """Broken before the mean begins, and within it; with a momentum, memories of clients, or both."""
    plan = replace(plan_of(name), averaging=0.5)
    algorithm, at = make(plan, TASK, 0), np.array([0, 2, plan.rounds - 1, plan.rounds])
    kept = []
    whole = simulate([algorithm], plan.uploads, shards, at, [SEED], on_segment=kept.append)
    again = simulate([algorithm], plan.uploads, shards, at, [SEED], resume=kept[broken_at])
    np.testing.assert_array_equal(again.theta, whole.theta)
    np.testing.assert_array_equal(again.loss, whole.loss)


def test_a_finished_training_that_is_resumed_delivers_the_mean_again(shards):
    plan = replace(plan_of("fedsgd-dpc"), averaging=0.5)
    algorithm, at, kept = make(plan, TASK, 0), np.array([0, 6]), []
    whole = simulate([algorithm], plan.uploads, shards, at, [SEED], on_segment=kept.append)
    again = simulate([algorithm], plan.uploads, shards, at, [SEED], resume=kept[-1])
    np.testing.assert_array_equal(again.theta, whole.theta)
    assert not np.array_equal(kept[-1].theta, whole.theta), "the checkpoint keeps the iterate"


def test_plans_of_unlike_shares_train_side_by_side(shards):
    plan, shares = plan_of("fedsgd-dpc"), (0.2, 0.5, 0.9)
    algorithms = [make(replace(plan, averaging=share), TASK, 0) for share in shares]
    together = simulate(algorithms, plan.uploads, shards, np.array([0, 6]), [SEED] * 3)
    for algorithm, theta in zip(algorithms, together.theta, strict=True):
        alone = simulate([algorithm], plan.uploads, shards, np.array([0, 6]), [SEED])
        np.testing.assert_allclose(alone.theta[0], theta, rtol=1e-5, atol=1e-6)


def test_averaging_does_not_reach_the_training(shards):
    """Uploads and noise are those of the plain training: the mean is post-processing."""
    plan = plan_of("fedsgd-dpc")
    ends = []
    for share in (0.0, 0.5):
        algorithm = make(replace(plan, averaging=share), TASK, 0)
        simulate([algorithm], plan.uploads, shards, np.array([6]), [SEED], on_segment=ends.append)
    np.testing.assert_array_equal(ends[0].theta, ends[1].theta)
    assert np.array_equal(plan.spent(), replace(plan, averaging=0.5).spent())


def test_averaging_quiets_the_noise_of_the_last_rounds(shards):
    """With a constant step the iterates wander about the optimum, and their mean much less."""
    still = LinearModel(FEATURES, 1, "squared", ridge=0.0, feature_norm=2.0)
    budget = PrivacyBudget.of(20.0, 1e-3, CLIENTS)
    problem = Problem(SIZES, FEATURES, budget, "gaussian", 1.0)
    plan = queries_replies.stated(problem, 200, CLIENTS, STEP)
    seeds = list(range(40))
    spread = {}
    for share in (0.0, 0.5):
        algorithms = [make(replace(plan, averaging=share), still, seed) for seed in seeds]
        run = simulate(algorithms, plan.uploads, shards, np.array([200]), seeds)
        spread[share] = run.theta.var(axis=0).sum()
    assert spread[0.5] < 0.5 * spread[0.0]


# The wrapper ------------------------------------------------------------------------------------------


@EVERY
def test_every_algorithm_is_one_with_its_wrapper_or_without(name):
    plan = plan_of(name)
    plain, wrapped = make(plan, TASK, 3), make(replace(plan, averaging=0.25), TASK, 3)
    assert isinstance(plain, Algorithm)
    assert not isinstance(plain, Averaged)
    assert isinstance(wrapped, Algorithm)
    assert eqx.tree_equal(wrapped.algorithm, plain)
    for fact in ("task", "condensed", "moves_locally", "reads_uploads"):
        assert getattr(wrapped, fact) == getattr(plain, fact)
    np.testing.assert_array_equal(wrapped.cohorts, plain.cohorts)


@given(rounds=st.integers(1, 10_000), percent=st.integers(0, 99))
def test_the_mean_is_over_the_stated_share_of_rounds_rounded_down(rounds, percent):
    wrapped = averaged(make(plan_of("fedsgd-dpc"), TASK, 0), rounds, percent / 100)
    assert rounds - wrapped.start == rounds * percent // 100


def test_a_share_below_a_round_delivers_the_last_model(shards):
    plan = plan_of("fedsgd-dpc")
    ends = [
        simulate([make(p, TASK, 0)], plan.uploads, shards, np.array([6]), [SEED]).theta
        for p in (plan, replace(plan, averaging=0.1))
    ]
    np.testing.assert_array_equal(*ends)


@pytest.mark.parametrize("share", [-0.1, 1.0, np.nan])
def test_shares_out_of_range_are_refused(share):
    with pytest.raises(InvalidInput, match="averaging must"):
        make(replace(plan_of("fedsgd-dpc"), averaging=share), TASK, 0)


def test_a_plan_says_its_averaging_where_it_has_one():
    plan = plan_of("fedsgd-dpc")
    assert "averaging" not in plan.as_dict()
    assert replace(plan, averaging=0.5).as_dict()["averaging"] == 0.5
