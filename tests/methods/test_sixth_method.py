"""A sixth method is one file and one line, and is planned, trained, compared, advised, audited, deployed."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from direct import Direct

from noiseworthy.deploy import correspondence, deployed
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.gateway.gateway import Gateway
from noiseworthy.deploy.gateway.owner import Owner
from noiseworthy.deploy.owners import owner_tables
from noiseworthy.engines.debug import debug
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.errors import ConfigError
from noiseworthy.methods.algorithm import start_of
from noiseworthy.methods.base import Method
from noiseworthy.methods.dp_fedavg import planner as local_iterations
from noiseworthy.methods.registry import make, method
from noiseworthy.plans.local_work import LocalSteps
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.reports import schedules
from noiseworthy.studies.audit import audit_study
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.planner import plan_study
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.record import new_record
from noiseworthy.studies.training import train
from noiseworthy.sweeps import advisor
from noiseworthy.sweeps.compare import compare, untrained_score
from noiseworthy.tasks import LinearModel
from noiseworthy.testing import AlgorithmConformance
from noiseworthy.trials import landscape

STUDY = {
    "federation": {"data": "wine", "clients": 4, "partition": "iid"},
    "task": {"model": "softmax", "feature_norm": 1.0, "normalise": True},
    "privacy": {"mechanism": "gaussian", "epsilon": 20.0, "delta": 1e-4},
    "algorithm": {"name": "dp-fedadam"},
    "planning": {"public": ["iris"], "seeds": 1},
}
STATED = {
    "name": "dp-fedadam", "total_iterations": 12, "local_steps": 3, "clients_per_round": 2,
    "step_size": 0.3, "clipping_mode": "C",
}  # fmt: skip


def study_of(**tables):
    return parse_study(
        {**STUDY, **{name: {**STUDY.get(name, {}), **table} for name, table in tables.items()}}
    )


@pytest.fixture(scope="module")
def stated(sixth):
    """A study that leaves nothing free, and its plan."""
    study = study_of(algorithm=STATED, privacy={"clip_norm": 0.5})
    prepared, decision = plan_study(prepare(study))
    return prepared, decision


@pytest.fixture(scope="module")
def tried(sixth):
    """A study that leaves all to trials, and its plan."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landscape, "PASSES", (1.0,))
        patch.setattr(landscape, "WORK", (1.0,))
        return plan_study(prepare(study_of()))


# One file and one line ----------------------------------------------------------------------------------


def test_a_stated_study_is_taken_as_it_is(stated):
    _, decision = stated
    plan = decision.plan
    assert (plan.algorithm, plan.rounds, plan.problem.clipping) == ("dp-fedadam", 4, "C")
    assert np.all(plan.spent() <= plan.budget.epsilon)
    assert plan.spent().max() > 0.99 * plan.budget.epsilon.max()


def test_what_no_bound_can_plan_is_refused(sixth):
    with pytest.raises(ConfigError, match="dp-fedadam has no bound to plan by"):
        plan_study(prepare(study_of(constants={"smoothness": 1.0}, privacy={"clip_norm": 0.5})))


@pytest.mark.full
def test_it_is_planned_by_trial_and_every_decision_is_a_key_of_its_own(tried):
    _, decision = tried
    plan, study = decision.plan, decision.study
    assert plan.algorithm == "dp-fedadam"
    assert plan.train
    assert np.all(plan.spent() <= plan.budget.epsilon)
    assert isinstance(plan.local, LocalSteps)
    assert (study.algorithm.name, study.algorithm.local_steps) == ("dp-fedadam", plan.local.steps)
    assert study.algorithm.total_iterations == plan.rounds * plan.local.steps
    assert decision.what_if is not None
    assert decision.what_if.bound.shape is method("dp-fedadam").shape


@pytest.mark.full
def test_it_trains_and_learns(tried):
    prepared, decision = tried
    federation, task = prepared.trained()
    run = train(decision.plan, federation, task, [0, 1], evaluations=2)
    start = untrained_score(task, Shards.load(federation, task))
    assert run.final_loss.max() < 0.9 * float(start.loss)
    assert np.all(run.spent <= decision.plan.budget.epsilon * (1 + 1e-9))


@pytest.mark.full
def test_it_is_compared_along_its_axes(stated):
    prepared, decision = stated
    grid = {"iterations": [12], "local_steps": [1, 4], "seeds": [3]}
    study = prepared.study.model_copy(update={"compare": study_of(compare=grid).compare})
    comparison = compare(decision.plan, *prepared.trained(), study)
    assert comparison.planned.setting == {"local_steps": 3, "iterations": 12}
    assert [cell.setting for cell in comparison.grid] == [
        {"local_steps": 1, "iterations": 12}, {"local_steps": 4, "iterations": 12},
    ]  # fmt: skip


@pytest.mark.full
def test_it_is_advised_beside_others(sixth, monkeypatch):
    monkeypatch.setattr(landscape, "PASSES", (1.0,))
    monkeypatch.setattr(landscape, "WORK", (1.0,))
    monkeypatch.setattr(advisor, "NAMES", ("dp-fedavg", sixth))
    said = advisor.advise(prepare(study_of(algorithm={"name": "dp-fedavg"}))).as_dict()
    assert {row["name"] for row in said["algorithms"]} == {"dp-fedavg", sixth}
    assert said["left_out"] == []


def test_it_is_audited_and_spends_what_it_says(stated):
    prepared, decision = stated
    found = audit_study(prepared, decision, name="sixth", trials=2_000, seconds=20.0)
    assert found["passed"]


@pytest.mark.full
def test_it_is_deployed_and_trains_there_as_in_simulation(stated, tmp_path, silent, monkeypatch):
    """With noise zero, over gateways in this process, by what owners compute for DP-FedAvg."""
    prepared, decision = stated
    monkeypatch.setattr(correspondence, "_PAUSE", 0.0)
    deployment = Deployment.of(prepared, decision.plan)
    gateways = {}
    for name in deployment.federation.clients:
        files = {key: str(tmp_path / f"{name}.{key}") for key in ("socket", "ledger")}
        gateways[name] = Gateway.open(Owner.model_validate(owner_tables(deployment, name) | {"files": files}))
    answers = {name: gateway.answer for name, gateway in gateways.items()}
    run = deployed.train(deployment, Direct(answers), tmp_path / "run").trained
    for gateway in gateways.values():
        gateway.close()
    quiet = make(decision.plan, deployment.task, deployment.seed).with_noise(1e-30)
    shards = Shards.load(deployment.federation, deployment.task)
    twin = simulate([quiet], decision.plan.uploads, shards, run.rounds, [deployment.seed])
    assert len(silent) == decision.plan.rounds * decision.plan.clients_per_round
    assert np.abs(run.theta - twin.theta).max() < 1e-4 * np.abs(twin.theta).max()


def test_pages_say_what_it_does(stated):
    prepared, decision = stated
    record = new_record(prepared.study, decision, prepared.federation, prepared.dimension, name="sixth")
    assert schedules.headline(record) == (
        "Train 12 iterations: 4 rounds of 3 local steps, asking 2 of 4 clients in each."
    )


# What it is -----------------------------------------------------------------------------------------------


@pytest.mark.full
def test_without_noise_the_server_is_adam_on_the_updates_of_dp_fedavg(stated):
    """By hand, in NumPy, from updates that the algorithm's own clients make."""
    prepared, decision = stated
    federation, task = prepared.trained()
    plan, shards = decision.plan, Shards.load(federation, task)
    algorithm = jax.tree.map(jnp.asarray, make(plan, task, 0).noiseless())
    update = jax.jit(lambda state, i, shard: algorithm.local_update(state, i, (), shard, _key())[0])
    state, first, second = algorithm.init(start_of(algorithm.task, _key())), 0.0, 0.0
    theta = np.array(state.theta, np.float64)
    for t in range(plan.rounds):
        cohort = np.asarray(algorithm.select(state))
        updates = [update(state, i, _held(shards, i)) for i in cohort]
        total = sum(float(algorithm.weight(i)) * np.array(u) for i, u in zip(cohort, updates, strict=True))
        state = algorithm.aggregate(state, jnp.asarray(total, jnp.float32))
        first, second = 0.9 * first + 0.1 * total, 0.99 * second + 0.01 * total**2
        step = first / (1 - 0.9 ** (t + 1)) / (np.sqrt(second / (1 - 0.99 ** (t + 1))) + 1e-12)
        theta += 0.5 * 3 * 0.3 / np.sqrt(task.dimension) * step
        np.testing.assert_allclose(state.theta, theta, rtol=2e-3, atol=2e-4)
    twin = debug(algorithm, plan.uploads, shards, np.array([plan.rounds]), 0)
    np.testing.assert_allclose(twin.theta[0], state.theta, rtol=2e-3, atol=2e-4)


def _key():
    return jax.random.key(0)


def _held(shards, client):
    return jax.tree.map(lambda leaf: leaf[client], shards.train)


@pytest.mark.usefixtures("sixth")
class TestDPFedAdam(AlgorithmConformance):
    """The promises that the privacy claim rests on."""

    def task(self):
        return LinearModel(4, outputs=1, loss="squared", ridge=0.05, feature_norm=None)

    def records(self, count, generator):
        return generator.normal(size=(count, 4)).astype(np.float32), generator.normal(size=count)

    def plan(self):
        budget = PrivacyBudget.of(2.0, 1e-5, 3, unit="client")
        problem = Problem(np.array([6, 9, 7]), 4, budget, "gaussian", 0.7, clipping="C")
        return replace(local_iterations.stated(problem, 6, 2, 2, StepSize(0.1, 20.0)), algorithm="dp-fedadam")


# What is missing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [one.name for one in fields(Method)])
def test_a_method_without_one_of_its_parts_is_refused_at_import(page, part, tmp_path, monkeypatch):
    missing, found = re.subn(rf"^        {part}=.*,\n", "", page, flags=re.MULTILINE)
    assert found == 1
    (tmp_path / f"without_{part}.py").write_text(missing)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TypeError, match=f"missing 1 required keyword-only argument: '{part}'"):
        import_module(f"without_{part}")
