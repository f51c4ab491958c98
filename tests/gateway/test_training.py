"""A training through four hospitals' gateways is the simulated training, and their ledgers hold its plan."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.algorithms.making import with_noise
from noiseworthy.algorithms.registry import make
from noiseworthy.data import load_federation
from noiseworthy.engines.debug import debug
from noiseworthy.engines.simulation import Shards
from noiseworthy.experiments.tariffs import new_accounts, tariff_of
from noiseworthy.gateway.gateway import Gateway
from noiseworthy.gateway.messages import FedSGDWork, Request
from noiseworthy.planning.plan import StepSize
from noiseworthy.planning.problem import Problem
from noiseworthy.planning.queries_replies import stated
from noiseworthy.privacy.budget import PrivacyBudget
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
def test_a_training_through_gateways_is_the_simulated_one(federation, gateways, silent):
    task = make_task("logistic", federation.record_shape, federation.classes, feature_norm=1.0)
    budget = PrivacyBudget.of(2.0, 1e-5, federation.n_clients)
    problem = Problem(federation.sizes, task.dimension, budget, "gaussian", CLIP)
    plan = stated(problem, ROUNDS, ASKED, StepSize(2.0))
    algorithm = make(plan, task, 0)

    reached, heads = trained(algorithm, plan, federation, gateways)

    quiet = with_noise(algorithm, 1e-30)
    twin = debug(quiet, plan.releases, Shards.load(federation, task), np.array([0, ROUNDS]), 0)
    assert np.abs(reached - twin.theta[0]).max() < 1e-5 * np.abs(twin.theta[0]).max()
    accounts = new_accounts(plan, "", "hearts", "", federation.clients)
    tariff = tariff_of(plan, accounts)
    for place, gateway in enumerate(gateways):
        rows = gateway.ledger.query("SELECT number, share FROM releases ORDER BY number")
        assert rows == [(k + 1, tariff.of(place, k)) for k in range(int(twin.uploads[0, place]))]
        assert gateway.account == accounts[place]
        assert str(gateway.ledger.head) != heads.get(place)  # the last seal came after


def trained(algorithm, plan, federation, gateways):
    """The server's side: select, ask, aggregate. It knows the plan and uploads, and no record."""
    algorithm = jax.tree.map(jnp.asarray, algorithm)
    state = algorithm.init(jax.random.key(0))
    counts, heads = [0] * federation.n_clients, {}
    for _ in range(ROUNDS):
        cohort = np.asarray(algorithm.select(state))
        uploads = []
        for client in map(int, cohort):
            wanted = Request(
                run="hearts", release=counts[client] + 1, algorithm=FedSGDWork(), task=TASK,
                theta=np.asarray(state.theta), mechanism="gaussian", clip_norm=CLIP,
                noise=float(plan.noise[client]), deadline=time.time() + 600, head=heads.get(client),
                received=counts[client],
            )  # fmt: skip
            reply = asked(gateways[client], wanted)
            counts[client], heads[client] = counts[client] + 1, reply.head
            uploads.append(reply.upload.values)
        total = algorithm.combine(state, jnp.asarray(cohort), jnp.asarray(np.stack(uploads), jnp.float32))
        state = algorithm.aggregate(state, total)
    return np.asarray(state.theta), heads
