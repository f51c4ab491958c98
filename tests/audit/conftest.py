"""Plans of every algorithm, small enough that an audit of one takes seconds."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.methods.dp_fedavg import planner as local_iterations
from noiseworthy.methods.dp_pasgd import planner as averaging_period
from noiseworthy.methods.dp_scaffnew import planner as communication_probability
from noiseworthy.methods.dpfl_bcs import planner as participation
from noiseworthy.methods.dpfl_bcs import two_stages
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.methods.moments import scale as one_upload
from noiseworthy.methods.moments.scale import RecordScale
from noiseworthy.methods.mr_mtl import method as mr_mtl
from noiseworthy.methods.rivals import planner as rivals
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.clipping import unit_of
from noiseworthy.tasks import LinearModel

SIZES = np.array([40, 60, 80, 100, 50, 70])
CONSTANT, FALLING = StepSize(0.1, float("inf")), StepSize(0.2, 20.0)


def problem(
    family="gaussian", epsilon=4.0, delta=None, relation="replace-one", clipping="A", rate=1.0, sizes=SIZES
):
    delta = (1e-5 if family == "gaussian" else 0.0) if delta is None else delta
    budget = PrivacyBudget.of(epsilon, delta, len(sizes), relation, unit_of(clipping))
    return Problem(sizes, 20, budget, family, 1.5, rate, clipping)


def fedsgd(**how) -> Plan:
    return queries_replies.stated(problem(**how), 12, 3, FALLING)


def fedavg(mode, family="gaussian", *, steps=4, batch=None, **how) -> Plan:
    return local_iterations.stated(problem(family, clipping=mode, **how), 6 * steps, steps, 4, FALLING, batch)


def scaffnew(family="gaussian", *, batch=None, **how) -> Plan:
    return communication_probability.stated(problem(family, clipping="D", **how), 40, 0.3, CONSTANT, 1, batch)


def pasgd(*, batch=None, step=CONSTANT, **how) -> Plan:
    return averaging_period.stated(problem(**how), 24, 3, step, batch)


def bcs(**how) -> Plan:
    return participation.stated(problem(**how), [3, 8, 1, 6, 4, 2], 3, 8, FALLING)


def bcs_in_two_stages(family="gaussian", **how) -> Plan:
    known = {name: Constant(1.0, "assumed") for name in ("smoothness", "strong_convexity")}
    return two_stages.plan(problem(family, **how), known, rounds=12, clients_per_round=3, estimation_rounds=4,
                           loss_cap=2.3, step=CONSTANT)  # fmt: skip


def moments(family="gaussian", **how) -> Plan:
    task = LinearModel(10, 2, "softmax", feature_norm=1.0)
    given = problem(family, clipping="M", **how)
    return one_upload.stated(given, task, RecordScale.of(task, given.norm, None), CONSTANT, 1.0, 0.8)


def rival(name, family="gaussian", **how) -> Plan:
    chosen = {"personal_step": 0.01} if name == "privatefl" else {}
    how = {
        "rounds": 9,
        "clients_per_round": 3,
        "step": FALLING,
        "momentum": 0.5,
        **chosen,
        "problem": problem(family, **how),
    }
    return rivals.plan(name, **how)


UNLIKE = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 3.0])
PLANS = {
    "fedsgd-dpc gaussian": lambda: fedsgd(),
    "fedsgd-dpc asks everybody": lambda: queries_replies.stated(problem(), 3, 6, FALLING),
    "fedsgd-dpc gaussian add-remove": lambda: fedsgd(relation="add-remove"),
    "fedsgd-dpc gaussian, unlike budgets": lambda: fedsgd(epsilon=UNLIKE),
    "fedsgd-dpc laplace": lambda: fedsgd(family="laplace"),
    "fedsgd-dpc laplace, delta": lambda: fedsgd(family="laplace", delta=1e-5),
    "fedsgd-dpc laplace, unlike budgets": lambda: fedsgd(family="laplace", epsilon=UNLIKE),
    "fedsgd-dpc poisson": lambda: fedsgd(relation="add-remove", rate=0.3),
    "dp-fedavg A gaussian": lambda: fedavg("A", steps=1),
    "dp-fedavg A laplace": lambda: fedavg("A", "laplace", steps=1),
    "dp-fedavg B gaussian": lambda: fedavg("B"),
    "dp-fedavg C gaussian": lambda: fedavg("C"),
    "dp-fedavg C laplace": lambda: fedavg("C", "laplace"),
    "dp-fedavg C gaussian, minibatches": lambda: fedavg("C", batch=8),
    "dp-fedavg C add-remove": lambda: fedavg("C", relation="add-remove"),
    "dp-fedavg D gaussian": lambda: fedavg("D"),
    "dp-fedavg D laplace": lambda: fedavg("D", "laplace"),
    "dp-fedavg E laplace": lambda: fedavg("E", "laplace"),
    "dp-scaffnew gaussian": lambda: scaffnew(),
    "dp-scaffnew laplace": lambda: scaffnew("laplace"),
    "dp-scaffnew gaussian, minibatches": lambda: scaffnew(batch=8),
    "dp-pasgd gaussian": lambda: pasgd(),
    "dp-pasgd gaussian, minibatches": lambda: pasgd(batch=20),
    "dp-pasgd add-remove": lambda: pasgd(relation="add-remove"),
    "dpfl-bcs gaussian": lambda: bcs(epsilon=UNLIKE),
    "dpfl-bcs laplace": lambda: bcs(family="laplace"),
    "dpfl-bcs two stages gaussian": lambda: bcs_in_two_stages(),
    "dpfl-bcs two stages laplace": lambda: bcs_in_two_stages("laplace"),
    "moments gaussian": lambda: moments(epsilon=UNLIKE),
    "moments laplace": lambda: moments("laplace"),
    "moments add-remove": lambda: moments(relation="add-remove"),
    "mr-mtl gaussian": lambda: mr_mtl.stated(problem(epsilon=UNLIKE), 6, FALLING, pull=1.0),
    "mr-mtl laplace": lambda: mr_mtl.stated(problem("laplace"), 6, FALLING, pull=1.0),
    "dpsgd": lambda: rival("dpsgd"),
    "dmldp": lambda: rival("dmldp", "laplace"),
    "weiavg": lambda: rival("weiavg", epsilon=UNLIKE),
    "pfa": lambda: rival("pfa", epsilon=UNLIKE),
    "privatefl": lambda: rival("privatefl"),
}


@pytest.fixture
def plans() -> dict[str, object]:
    return PLANS


@pytest.fixture(params=PLANS, ids=lambda name: name.replace(" ", "-").replace(",", ""))
def named_plan(request) -> tuple[str, Plan]:
    return request.param, PLANS[request.param]()
