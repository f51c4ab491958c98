"""A training through four hospitals' gateways is the simulated training, and their ledgers hold its plan."""

from __future__ import annotations

import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.data import load_federation
from noiseworthy.deploy.gateway.gateway import Gateway
from noiseworthy.deploy.gateway.messages import Request
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.methods.algorithm import start_of
from noiseworthy.methods.dp_pasgd.wire import PasgdWork
from noiseworthy.methods.dpfl_bcs import loss_reports, two_stages
from noiseworthy.methods.dpfl_bcs.two_stages import FirstStage
from noiseworthy.methods.dpfl_bcs.wire import LossReportWork
from noiseworthy.methods.fedsgd_dpc.planner import stated
from noiseworthy.methods.fedsgd_dpc.wire import FedSGDWork
from noiseworthy.methods.registry import make
from noiseworthy.methods.rivals.wire import PrivateFLWork
from noiseworthy.methods.steered import Steered
from noiseworthy.plans.local_work import NoisySteps
from noiseworthy.plans.plan import Plan, Steering, StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.mechanisms import Gaussian
from noiseworthy.studies.prices import first_stage_price, new_accounts, upload_price
from noiseworthy.tasks import make_task

from .conftest import asked, owner_of

ROUNDS, ASKED, CLIP = 6, 2, 0.5
TASK = {"model": "logistic", "feature_norm": 1.0}


@pytest.fixture(scope="module")
def federation(data_dir):
    return load_federation("heart-disease", data_dir=data_dir, seed=0)


@pytest.fixture
def gateways(federation, data_dir, tmp_path):
    """One for each hospital, with a ledger of its own."""
    opened = []
    for name in federation.clients:
        tables = {
            "owner": {"client": name, "data_set": "hearts"},
            "federation": {"data": "heart-disease", "data_dir": str(data_dir), "clients": 4},
            "budget": {"epsilon": 2.0},
            "files": {"ledger": str(tmp_path / f"{name}.sqlite")},
        }
        opened.append(Gateway.open(owner_of(tmp_path, **tables)))
    yield opened
    for gateway in opened:
        gateway.close()


@pytest.mark.data
@pytest.mark.parametrize("steering", [None, Steering(0.3, 0.01, 0.2)], ids=["as planned", "steered"])
def test_a_training_through_gateways_is_the_simulated_one(federation, gateways, silent, steering):
    task = make_task("logistic", federation.record_shape, federation.classes, feature_norm=1.0)
    budget = PrivacyBudget.of(2.0, 1e-5, federation.n_clients)
    problem = Problem(federation.sizes, task.dimension, budget, "gaussian", CLIP)
    plan = replace(stated(problem, ROUNDS, ASKED, StepSize(2.0)), steering=steering)
    algorithm = make(plan, task, 0)

    state, heads = trained(algorithm, federation, gateways, lambda *_: FedSGDWork(), plan.noise)

    quiet = algorithm.with_noise(1e-30)
    if isinstance(
        algorithm, Steered
    ):  # the owners are silent, and the server steers by the noise of the plan
        quiet = replace(algorithm, algorithm=algorithm.algorithm.with_noise(1e-30))
    twin = simulate([quiet], plan.releases, Shards.load(federation, task), np.array([0, ROUNDS]), [0])
    assert np.abs(state.theta - twin.theta[0]).max() < 1e-5 * np.abs(twin.theta[0]).max()
    accounts = new_accounts(plan, "", "hearts", "", federation.clients)
    price = upload_price(plan, accounts)
    for place, gateway in enumerate(gateways):
        rows = gateway.ledger.query("SELECT number, share FROM releases ORDER BY number")
        assert rows == [(k + 1, price.of(place, k)) for k in range(int(twin.uploads[0, place]))]
        assert gateway.account == accounts[place]
        assert str(gateway.ledger.head) != heads.get(place)  # the last seal came after


def trained(algorithm, federation, gateways, work, noise):
    """The server's side: select, ask, aggregate. It knows the plan and uploads, and no record."""
    algorithm = jax.tree.map(jnp.asarray, algorithm)
    state = algorithm.init(start_of(algorithm.task, jax.random.key(0)))
    counts, heads = [0] * federation.n_clients, {}
    for t in range(len(algorithm.cohorts)):
        cohort = np.asarray(algorithm.select(state))
        uploads = []
        for client in map(int, cohort):
            wanted = Request(
                run="hearts", release=counts[client] + 1, algorithm=work(t, client), task=TASK,
                theta=np.asarray(state.theta), mechanism="gaussian", clip_norm=CLIP,
                noise=float(noise[client]), deadline=time.time() + 600, head=heads.get(client),
                received=counts[client],
            )  # fmt: skip
            reply = asked(gateways[client], wanted)
            counts[client], heads[client] = counts[client] + 1, reply.head
            uploads.append(reply.upload.values)
        total = algorithm.combine(state, jnp.asarray(cohort), jnp.asarray(np.stack(uploads), jnp.float32))
        state = algorithm.aggregate(state, total)
    return state, heads


def paid(gateway) -> list[int]:
    """Shares of an owner's releases, in their order."""
    return [share for (share,) in gateway.ledger.query("SELECT share FROM releases ORDER BY number")]


def problem_of(federation):
    budget = PrivacyBudget.of(2.0, 1e-5, federation.n_clients)
    return Problem(federation.sizes, 25, budget, "gaussian", CLIP)


def linear(federation, ridge=0.05):
    return make_task("logistic", federation.record_shape, federation.classes, feature_norm=1.0, ridge=ridge)


@pytest.fixture
def with_ridge(monkeypatch):
    monkeypatch.setitem(TASK, "ridge", 0.05)


@pytest.mark.data
def test_noised_local_steps_are_those_of_the_simulation_and_each_is_paid_for(
    federation, gateways, silent, with_ridge
):
    """DP-PASGD: three steps before every averaging, with step sizes that fall."""
    task = linear(federation)
    problem, work = problem_of(federation), NoisySteps(3)
    uses = work.uses(2 * work.steps, problem.sizes)
    plan = Plan(
        "dp-pasgd", "", problem, 2, 4, uses, problem.release(uses), None, {}, "", step=StepSize(1.5, 4.0),
        local=work,
    )  # fmt: skip
    algorithm = make(plan, task, 0)

    def steps(t, _):
        return PasgdWork(step_sizes=plan.local_step_sizes[3 * t :][:3])

    state, _ = trained(algorithm, federation, gateways, steps, plan.noise)
    shards = Shards.load(federation, task)
    twin = simulate([algorithm.with_noise(1e-30)], plan.uploads, shards, np.array([0, 2]), [0])
    assert np.abs(state.theta - twin.theta[0]).max() < 1e-5 * np.abs(twin.theta[0]).max()
    accounts = new_accounts(plan, "", "hearts", "", federation.clients)
    price = upload_price(plan, accounts)
    for place, gateway in enumerate(gateways):
        assert paid(gateway) == [price.of(place, k) for k in range(2)]
        assert paid(gateway)[0] == 3 * price.shares[place]
    assert len(silent) == 2 * 4 * 3


@pytest.mark.data
def test_transforms_stay_at_their_owners_and_move_as_in_the_simulation(
    federation, gateways, silent, with_ridge
):
    """PrivateFL: noise on q + p coordinates, of which p leave."""
    task, problem = linear(federation), problem_of(federation)
    releases = np.full(4, 3)
    plan = Plan(
        "privatefl", "", problem, 6, 2, releases, problem.release(releases), None, {}, "",
        step=StepSize(1.0, 10.0), momentum=0.5, personal_step=2.0,
    )  # fmt: skip
    algorithm = make(plan, task, 0)

    def work(*_):
        return PrivateFLWork(personal_step=plan.personal_step)

    state, _ = trained(algorithm, federation, gateways, work, plan.noise)
    shards = Shards.load(federation, task)
    twin = simulate([algorithm.with_noise(1e-30)], releases, shards, np.array([0, 6]), [0])
    resting = make(replace(plan, personal_step=0.0), task, 0).with_noise(1e-30)
    still = simulate([resting], releases, shards, np.array([0, 6]), [0])
    assert np.abs(state.theta - twin.theta[0]).max() < 1e-5 * np.abs(twin.theta[0]).max()
    assert np.abs(still.theta[0] - twin.theta[0]).max() > 1e-2 * np.abs(twin.theta[0]).max()
    accounts = new_accounts(plan, "", "hearts", "", federation.clients)
    price = upload_price(plan, accounts)
    assert [paid(gateway) for gateway in gateways] == [[share] * 3 for share in price.shares]
    assert silent == [26 + 25] * 12


@pytest.mark.data
def test_reported_losses_are_those_of_the_simulation_and_each_is_paid_for(
    federation, gateways, silent, with_ridge
):
    """Stage 1 of DPFL-BCS: a gradient and two losses for every reply."""
    task, known = (
        linear(federation),
        dict.fromkeys(["smoothness", "strong_convexity"], Constant(1.0, "assumed")),
    )
    whole = two_stages.plan(
        problem_of(federation), known, rounds=12, clients_per_round=2, estimation_rounds=4, loss_cap=0.7,
        step=StepSize(1.5, 10.0), momentum=0.5,
    )  # fmt: skip
    first = whole.pilot
    assert isinstance(first, FirstStage)
    noise, step = first.losses.mechanism.size, first.plan.step

    def work(t, client):
        return LossReportWork(
            loss_cap=first.loss_cap, loss_noise=float(noise[client]), step_size=float(step.at(t))
        )

    tiny = [(replace(release, mechanism=Gaussian(np.full(4, 1e-30))), k) for release, k in first.parts]
    quiet = replace(first, parts=tuple(tiny), plan=replace(first.plan, release=tiny[0][0]))
    algorithm = loss_reports.make(quiet, task, 0)
    state, _ = trained(algorithm, federation, gateways, work, first.plan.noise)

    reached, rounds = [], np.array([0, first.rounds])
    simulate(
        [algorithm], first.uploads, Shards.load(federation, task), rounds, [0], on_segment=reached.append
    )
    losses = reached[-1].server[-1][0]
    assert np.abs(state.theta - reached[-1].theta[0]).max() < 1e-5 * np.abs(state.theta).max()
    assert np.allclose(state.memory.losses, losses, rtol=1e-5)
    assert np.abs(np.diff(losses)).min() > 1e-3
    price = first_stage_price(whole, first, new_accounts(whole, "", "hearts", "", federation.clients))
    for place, gateway in enumerate(gateways):
        assert paid(gateway) == [price.shares[place]] * int(first.uploads[place])
    assert silent == [25, 1, 1] * 2 * first.rounds
