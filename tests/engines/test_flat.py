"""Records end to end: the numbers of stacked clients for every method, whatever windows cut, kill or remember."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.data import Federation
from noiseworthy.data.ragged import Ragged
from noiseworthy.engines import flat
from noiseworthy.engines.debug import debug
from noiseworthy.engines.memories import ClientMemories
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.errors import ResumeError
from noiseworthy.methods.dp_fedavg import planner as fedavg
from noiseworthy.methods.dp_pasgd import planner as pasgd
from noiseworthy.methods.dp_scaffnew import planner as scaffnew
from noiseworthy.methods.dpfl_bcs import loss_reports, two_stages
from noiseworthy.methods.dpfl_bcs import planner as bcs
from noiseworthy.methods.fedsgd_dpc import planner as fedsgd
from noiseworthy.methods.registry import make
from noiseworthy.methods.rivals import planner as rivals
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import LinearModel
from noiseworthy.trials.dealing import weighted

SIZES = np.array([70, 9, 1, 8, 3, 17])
N, FEATURES, STEP = len(SIZES), 4, StepSize(0.3, np.inf)
LOGISTIC = LinearModel(FEATURES, 1, "logistic", ridge=0.05, feature_norm=1.0, normalise=True)
SQUARED = LinearModel(FEATURES, 1, "squared", ridge=0.05)
SEEDS, SAME = [3, 4], {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture(scope="module")
def stacked() -> Federation:
    rng = np.random.default_rng(8)
    clients = [(rng.normal(size=(n, FEATURES)), rng.integers(0, 2, n)) for n in SIZES]
    return Federation.from_clients(clients, test=clients[0], classes=2, name="unlike")


@pytest.fixture(scope="module")
def laid(stacked) -> Federation:
    """The same records end to end."""
    x, y = (
        Ragged.laid([one[:n] for one, n in zip(part, SIZES, strict=True)]) for part in (stacked.x, stacked.y)
    )
    return replace(stacked, x=x, y=y)


def problem(mode="A", relation="replace-one", rate=1.0) -> Problem:
    unit = "client" if mode == "D" else "record"
    budget = PrivacyBudget.of(np.linspace(1, 3, N), 1e-3, N, relation, unit)
    return Problem(SIZES, FEATURES, budget, "gaussian", 1.0, rate, mode)


def fedavg_plan(mode, b=3, batch=None):
    return fedavg.stated(problem(mode), 8, 2, b, STEP, batch)


def dpfl_bcs():
    return bcs.stated(problem(), [4, 3, 1, 2, 2, 0], 3, 4, STEP)


def rival(name):
    return rivals.plan(name, problem(), rounds=4, clients_per_round=3, step=STEP, momentum=0.6)


PLANS = {
    "fedsgd-dpc, three of six": (LOGISTIC, lambda: fedsgd.stated(problem(), 4, 3, STEP)),
    "fedsgd-dpc, everybody": (LOGISTIC, lambda: fedsgd.stated(problem(), 4, N, STEP)),
    "fedsgd-dpc, Poisson batches": (
        LOGISTIC, lambda: fedsgd.stated(problem(relation="add-remove", rate=0.5), 4, 3, STEP)
    ),
    "dp-fedavg A": (LOGISTIC, lambda: fedavg_plan("A")),
    "dp-fedavg C, condensed": (SQUARED, lambda: fedavg_plan("C")),
    "dp-fedavg D, minibatches": (LOGISTIC, lambda: fedavg_plan("D", batch=4)),
    "dp-scaffnew": (LOGISTIC, lambda: scaffnew.stated(problem("D"), 6, 0.5, STEP)),
    "dp-scaffnew, minibatches": (SQUARED, lambda: scaffnew.stated(problem("D"), 6, 0.5, STEP, 0, 4)),
    "dp-pasgd, minibatches": (LOGISTIC, lambda: pasgd.stated(problem(), 4, 2, STEP, 4)),
    "dpfl-bcs": (LOGISTIC, dpfl_bcs),
    "pfa": (SQUARED, lambda: rival("pfa")),
    "privatefl": (SQUARED, lambda: rival("privatefl")),
}  # fmt: skip


def trained(algorithms, plan, federation, task, seeds=SEEDS, **how):
    shards = Shards.load(federation, task, condensed=algorithms[0].condensed)
    at = np.array([0, 1, plan.rounds])
    return simulate(algorithms, plan.uploads, shards, at, seeds, **how)


def assert_same(ours, theirs, **tolerance):
    np.testing.assert_array_equal(ours.uploads, theirs.uploads)
    for name in ("theta", "loss", "accuracy"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), err_msg=name, **tolerance)


@pytest.fixture(params=[False, True], ids=["one window", "many windows"])
def cut(request, monkeypatch):
    """Windows of a few records, which end within rounds."""
    if request.param:
        monkeypatch.setattr(flat, "_WINDOW", 20 * FEATURES)
        monkeypatch.setattr(flat, "_LEAST", 64 * FEATURES)
        monkeypatch.setattr(flat, "_CLIENTS", 2)


@pytest.mark.parametrize("kind", PLANS)
def test_every_method_trains_as_with_stacked_clients(kind, stacked, laid, monkeypatch):
    monkeypatch.setattr(flat, "_WINDOW", 20 * FEATURES)  # windows end within rounds
    monkeypatch.setattr(flat, "_CLIENTS", 2)
    task, plan = PLANS[kind][0], PLANS[kind][1]()
    algorithms = [make(plan, task, seed) for seed in SEEDS]
    ours, theirs = (trained(algorithms, plan, held, task) for held in (laid, stacked))
    assert np.abs(ours.theta[0] - ours.theta[1]).max() > 1e-3
    assert_same(ours, theirs, **SAME)
