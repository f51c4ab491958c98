"""The bytes of requests are a contract between installations of different ages: they do not change."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from noiseworthy.deploy.asking import Asking
from noiseworthy.deploy.gateway.client import packed
from noiseworthy.deploy.gateway.messages import Request, read_message
from noiseworthy.methods.dpfl_bcs.two_stages import FirstStage
from noiseworthy.plans.local_work import Coins, LocalSteps, LocalWork, NoisySteps
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.clipping import ClippingMode
from noiseworthy.privacy.mechanisms import Gaussian
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import of_mean_gradient
from noiseworthy.tasks import make_task
from noiseworthy.tasks.table import TaskTable

SIZES, P, ROUNDS = np.array([40, 60]), 3, 2
STEPS = np.array([0.5, 0.25])
WORKS = {
    "fedsgd-dpc": {},
    "dp-fedavg": {"clipping": "D", "step_sizes": STEPS},
    "dp-scaffnew": {"step_size": 0.5, "probability": 0.25, "local_steps": 3},
    "dp-pasgd": {"step_sizes": STEPS},
    "privatefl": {"personal_step": 0.125},
    "mr-mtl": {"step_size": 0.5, "share": 0.125},
    "dpfl-bcs": {"loss_cap": 2.0, "loss_noise": 0.5, "step_size": 0.25},
    "moments": {"label_weight": 0.75},
}
"""What every work that there is takes, as a message holds it."""
DIGESTS = {
    "fedsgd-dpc": ("dc3f300e6e7f0673", "e80757576eda621c", "1cfcc9c015ac7a12"),
    "dp-fedavg": ("acb6529cc1a61fb7", "2f3a75db47caa0b8", "fb1af8f9ea3fc7e4"),
    "dp-scaffnew": ("aa55cea52d9cc47e", "3ff173109eb22729", "ce2ff6c407359164"),
    "dp-pasgd": ("49261e268493e964", "f57c782d818172be", "f77291de266614b3"),
    "privatefl": ("9e9d38736a08f71f", "b87f90becd4cc269", "4729fc0baa68da24"),
    "mr-mtl": ("8980edc326671db2", "f800d0271b045f4a", "33f2afa8e5b66271"),
    "dpfl-bcs": ("275a4d61df1a39f0", "d5fbfe97fce33bcc", "9e7e272875380918"),
    "moments": ("69005b222a0827bb", "637b04ff6200a0cf", "b2586ce91341542c"),
}
"""Of the packed request, of what its upload depends on, and of what decides its programs."""
GRADIENT = "20dd4fd678f21c9a"
ASKED: dict[str, tuple[LocalWork | None, ClippingMode, str]] = {
    "fedsgd-dpc": (None, "A", GRADIENT),
    "dp-fedavg C": (LocalSteps(2), "C", "1acd7daaf741e6ea"),
    "dp-fedavg D": (LocalSteps(2), "D", "4b3f8f1a591f6903"),
    "dp-scaffnew": (Coins(9, 0.5, seed=1), "D", "a309ad3d2b2e69f9"),
    "dp-pasgd": (NoisySteps(2), "A", "e5a0b8dbd4a24f7d"),
    "dpfl-bcs": (None, "A", GRADIENT),
    "dpsgd": (None, "A", GRADIENT),
    "dmldp": (None, "A", GRADIENT),
    "weiavg": (None, "A", GRADIENT),
    "pfa": (None, "A", GRADIENT),
    "privatefl": (None, "A", "630382678b06864c"),
    "mr-mtl": (None, "A", "b00d2bcd9fe75551"),
}
"""Local work and clipping mode of a plan, and the digest of all its requests."""


def digest(request: Request) -> str:
    return hashlib.sha256(packed(request)).hexdigest()[:16]


def request(name: str, numbers: dict[str, Any]) -> Request:
    return Request.model_validate(
        {
            "run": "golden", "release": 2, "algorithm": {"name": name, **numbers},
            "task": {"model": "logistic", "feature_norm": 1.0}, "theta": np.arange(P, dtype=np.float32),
            "mechanism": "gaussian", "clip_norm": 0.5, "noise": 0.75, "deadline": 1e9, "received": 1,
        }
    )  # fmt: skip


@pytest.mark.parametrize("name", WORKS)
def test_the_bytes_of_every_work_are_those_of_before(name):
    wanted = request(name, WORKS[name])
    assert (digest(wanted), wanted.digest[:16], wanted.program[:16]) == DIGESTS[name]
    read = read_message(packed(wanted))
    assert isinstance(read, Request)
    assert read.algorithm.name == name


def plan_of(algorithm: str, local: LocalWork | None, clipping: ClippingMode) -> Plan:
    budget = PrivacyBudget.of(2.0, 1e-5, 2, unit="client" if clipping in ("C", "D") else "record")
    problem = Problem(SIZES, P, budget, "gaussian", 0.5, clipping=clipping)
    release = Release(Gaussian(np.array([0.5, 0.25])), of_mean_gradient(0.5, SIZES, "l2"))
    return Plan(
        algorithm, "", problem, ROUNDS, 2, np.full(2, ROUNDS), release, None, {}, "",
        step=StepSize(0.5, 4.0), local=local, personal_step=0.125 if algorithm == "privatefl" else 0.0,
        pull=0.5 if algorithm == "mr-mtl" else 0.0,
    )  # fmt: skip


def asking_of(plan: Plan, first: FirstStage | None = None) -> Asking:
    task, cohorts = TaskTable(model="logistic", feature_norm=1.0), np.array([[0, 1], [1, 0]], np.int32)
    model = make_task("logistic", (P,), 2, feature_norm=1.0)
    return Asking("golden", plan, task, model, cohorts, np.zeros(2, np.int64), first)


def sent(asking: Asking) -> str:
    """Digest of all requests of a training."""
    theta, whole = np.arange(P, dtype=np.float32), hashlib.sha256()
    for t in range(ROUNDS):
        for client in (0, 1):
            one = asking.request(client, t, theta, deadline=1e9, head=None, received=t)
            whole.update(packed(one))
    return whole.hexdigest()[:16]


@pytest.mark.parametrize("algorithm", ASKED)
def test_a_plan_is_asked_for_in_the_bytes_of_before(algorithm):
    local, clipping, expected = ASKED[algorithm]
    assert sent(asking_of(plan_of(algorithm.split()[0], local, clipping))) == expected


def test_a_first_stage_is_asked_for_in_the_bytes_of_before():
    plan = plan_of("dpfl-bcs", None, "A")
    assert plan.release is not None
    losses = replace(plan.release, mechanism=Gaussian(np.array([1.0, 2.0])))
    asked = np.full(2, ROUNDS)
    first = FirstStage(((plan.release, asked), (losses, 2 * asked)), plan.budget, plan, 2.0)
    assert sent(asking_of(plan, first)) == "d5a8be3359e81372"
