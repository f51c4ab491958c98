"""What a gateway releases is what the simulation computes, clipped on a grid, with the noise asked."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.data import load_federation
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.gateway.messages import Uploaded
from noiseworthy.deploy.gateway.work import job_of
from noiseworthy.engines.shards import Shards
from noiseworthy.methods.dp_fedavg.wire import FedAvgWork
from noiseworthy.methods.dp_scaffnew.wire import ScaffNewWork
from noiseworthy.methods.fedsgd_dpc.planner import stated
from noiseworthy.methods.registry import make
from noiseworthy.methods.rows import gradient_rows
from noiseworthy.plans.local_work import Coins, LocalSteps
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.clipping import unit_of
from noiseworthy.privacy.quantised import clipped_sum
from noiseworthy.tasks import LinearModel

from .conftest import FEDERATION, P, asked, request

CLIENT = 1


@pytest.fixture(scope="module")
def federation():
    return load_federation(FEDERATION["data"], clients=FEDERATION["clients"], seed=0)


@pytest.fixture(scope="module")
def model():
    return LinearModel(P, 1, "logistic", feature_norm=1.0)


def problem(federation, mode, clip, family="gaussian"):
    delta = 1e-5 if family == "gaussian" else 0.0
    budget = PrivacyBudget.of(8.0, delta, 5, unit=unit_of(mode))
    return Problem(federation.sizes, P, budget, family, clip, clipping=mode)


def planned(name, problem, local, rounds, step):
    releases = np.full(5, rounds)
    release = problem.release(releases)
    return Plan(name, "", problem, rounds, 5, releases, release, None, {}, "", step=step, local=local)


def simulated(algorithm, shards, theta, memory=None):
    """The raw update of the simulation in the first round, and what the client remembers."""
    algorithm, key = jax.tree.map(jnp.asarray, algorithm), jax.random.key(0)
    state = algorithm.init(jnp.asarray(theta))
    memory = algorithm.init_client(state.theta) if memory is None else memory
    return algorithm.local_update(state, jnp.int32(CLIENT), memory, shards.of(CLIENT), key)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
@pytest.mark.parametrize("clip", [0.05, 10.0])
def test_a_gradient_is_that_of_the_simulation_to_quantisation(
    federation, model, gateway_of, silent, clip, family
):
    delta = 1e-5 if family == "gaussian" else 0.0
    gateway = gateway_of(budget={"mechanism": family, "delta": delta})
    wanted = request(clip_norm=clip, noise=8 * clip / 91, mechanism=family)
    plan = stated(problem(federation, "A", clip, family), 3, 5, StepSize(0.1))
    update, _ = simulated(make(plan, model, 0), Shards.load(federation, model), wanted.theta)
    got = asked(gateway, wanted).upload
    assert got.divisor == federation.sizes[CLIENT] == 91
    assert np.abs(got.values - np.asarray(update)).max() < 2e-6 * np.abs(update).max() + got.grid.spacing
    assert np.linalg.norm(got.values) > 1e-3


def test_parts_of_the_records_add_up_to_all(gateway, silent, monkeypatch):
    """To the rounding of float32, which may differ with the shape of a matrix product."""
    whole = asked(gateway, request(1)).upload
    monkeypatch.setattr("noiseworthy.methods.rows.AT_ONCE", 7 * P)
    parts = asked(gateway, request(2)).upload
    assert np.allclose(parts.values, whole.values, rtol=0, atol=1e-6 * np.abs(whole.values).max())


@pytest.mark.parametrize("place", [0, 45, 90])
def test_one_record_changes_its_own_row_alone_and_the_total_by_at_most_2c(gateway, place):
    """Rows of all others are the same bit by bit: else no clip would bound what a record changes."""
    job = gateway.accepted(request()).job
    grid = job.sums[0].mechanism.grid
    batch = gateway.holding.batch(job.task)
    before, after = (rows_of(job, one) for one in (batch, with_other_label(batch, place)))
    same = np.arange(len(before)) != place
    assert np.array_equal(before[same], after[same])
    totals = [clipped_sum(rows, 0.1, "l2", grid).astype(float) for rows in (before, after)]
    assert 0.1 < np.linalg.norm(totals[0] - totals[1]) * grid.spacing <= 0.2


def rows_of(job, batch):
    return np.concatenate(list(gradient_rows(job.task, job.theta, batch, job.sums[0])))


def with_other_label(batch, place):
    return batch._replace(y=batch.y.at[place].set(1 - batch.y[place]))


@pytest.mark.parametrize("mode", ["C", "D"])
@pytest.mark.parametrize("clip", [0.02, 10.0])
def test_local_steps_are_those_of_the_simulation(federation, model, gateway, silent, mode, clip):
    step = StepSize(0.5, 4.0)
    plan = planned("dp-fedavg", problem(federation, mode, clip), LocalSteps(3, None), 2, step)
    wanted = request(
        clip_norm=clip, noise=8 * clip, algorithm=FedAvgWork(clipping=mode, step_sizes=step.at(np.arange(3)))
    )
    update, _ = simulated(make(plan, model, 0), Shards.load(federation, model), wanted.theta)
    got = asked(gateway, wanted)
    assert got.upload.divisor == 1
    assert np.abs(got.upload.values - np.asarray(update)).max() < 2e-6 * np.abs(update).max()


def test_control_variates_go_on_from_release_to_release_and_over_a_restart(
    federation, model, gateway_of, silent
):
    coins, step = Coins(12, 0.4), StepSize(0.5, float("inf"))
    plan = planned("dp-scaffnew", problem(federation, "D", 0.4), coins, coins.rounds, step)
    algorithm, shards = make(plan, model, 0), Shards.load(federation, model)
    memory = algorithm.init_client(jnp.zeros(P))
    counts = coins.counts(coins.rounds)
    for place in range(3):
        theta = np.full(P, 0.1 * place, np.float32)
        state = algorithm.init(jnp.asarray(theta))._replace(round=jnp.int32(place))
        update, memory = algorithm.local_update(
            state, jnp.int32(CLIENT), memory, shards.of(CLIENT), jax.random.key(0)
        )
        work = ScaffNewWork(step_size=0.5, probability=coins.probability, local_steps=int(counts[place]))
        wanted = request(place + 1, clip_norm=0.4, noise=4.0, theta=theta, algorithm=work)
        got = asked(gateway_of(), wanted).upload.values
        assert np.abs(got - np.asarray(update)).max() < 2e-6 * np.abs(update).max()


def test_moments_of_a_regression_give_the_update_of_its_records(holding, silent):
    """Least squares on full batches needs moments only; the steps are those on the records."""
    numbers = Holding(holding.x, holding.x[:, 0] - 2, None)
    wanted = request(
        task={"model": "linear", "feature_norm": 1.0},
        algorithm=FedAvgWork(clipping="D", step_sizes=np.full(4, 0.3)),
        clip_norm=10.0,
    )
    job = job_of(wanted, numbers.task(wanted.task), 91)
    upload, _ = job.upload(numbers.batch(job.task), ())
    x = np.asarray(numbers.x, np.float64)
    x, theta = x / np.maximum(1, np.linalg.norm(x, axis=1))[:, None], wanted.theta.astype(np.float64)
    for _ in range(4):
        theta = theta - 0.3 * x.T @ (x @ theta - numbers.y) / 91
    assert np.allclose(upload.values, theta - wanted.theta, atol=1e-5)


def test_an_owner_accounts_for_its_own_sensitivity(holding):
    """2C/n of a mean of records, 2C of an update, 2CH of clipped steps: whatever the server believes."""
    task = holding.task(request().task)
    steps = np.array([0.5, 0.25])
    works = [request().algorithm, FedAvgWork(clipping="D", step_sizes=steps),
             FedAvgWork(clipping="C", step_sizes=steps),
             ScaffNewWork(step_size=0.5, probability=0.5, local_steps=3)]  # fmt: skip
    jobs = [job_of(request(algorithm=work), task, 91) for work in works]
    found = [one.release.sensitivity.value[0] for job in jobs for one in job.sums]
    assert np.allclose(found, [0.2 / 91, 0.2, 0.2 * 0.75, 0.2], rtol=1e-15)


def test_the_noise_is_that_asked_and_never_less(gateway):
    """Standardised noise of 600 coordinates; a factor of 0.8 or 1.25 passes with probability below 1e-6."""
    noise = np.concatenate([_noise(gateway, release) for release in range(1, 10, 2)])
    assert 0.8 < np.sqrt(np.mean(np.square(noise))) < 1.25


def _noise(gateway, release) -> np.ndarray:
    """The difference of two uploads from the same model, in units of its standard deviation."""
    size = 100.0
    first, second = (asked(gateway, request(k, run=f"{release}", noise=size)) for k in (1, 2))
    assert isinstance(first, Uploaded)
    assert first.upload.assurance == "grid-csprng"
    return (first.upload.values - second.upload.values) / (size * np.sqrt(2))
