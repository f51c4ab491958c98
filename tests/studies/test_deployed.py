"""A study over an exchange of gateways is the simulated one, and keeps to its plan when things go wrong."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from direct import CLOCK, Direct

from noiseworthy._jax import jnp
from noiseworthy.deploy import correspondence
from noiseworthy.deploy.correspondence import UNREADABLE
from noiseworthy.deploy.demands import Demand
from noiseworthy.deploy.deployed import train
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.gateway.client import pack_about
from noiseworthy.deploy.gateway.gateway import Gateway
from noiseworthy.deploy.gateway.messages import Received, Uploaded, pack_reply, read_reply
from noiseworthy.deploy.gateway.owner import Owner
from noiseworthy.deploy.gateway.terms import MOST_NUMBERS
from noiseworthy.deploy.owners import owner_tables
from noiseworthy.engines.records import evaluation_rounds
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.errors import (
    ConfigError,
    GatewayError,
    InvalidInput,
    ResumeError,
    TooFewReplies,
    UnsoundClaim,
)
from noiseworthy.methods.dpfl_bcs.heterogeneity import Heterogeneity
from noiseworthy.methods.dpfl_bcs.two_stages import replanned, stage_before
from noiseworthy.methods.moments.algorithm import Moments
from noiseworthy.methods.registry import make
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.privacy.durable.statement import statement
from noiseworthy.studies import two_stages
from noiseworthy.studies.delivery import task_table
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.planner import plan_study
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.prices import first_stage_price, new_accounts, upload_price
from noiseworthy.tasks import model_task

STUDY = """
[federation]
data = "breast-cancer"
clients = 4
[task]
model = "logistic"
feature_norm = 1.0
[privacy]
epsilon = 4.0
delta = 1e-5
mechanism = "gaussian"
clip_norm = 0.5
[algorithm]
name = "fedsgd-dpc"
rounds = 5
clients_per_round = 4
step_size = 2.0
step_decay = "none"
momentum = 0.0
averaging = 0.0
weighting = 0.0
"""


@cache
def deployment_of(text: str = STUDY) -> Deployment:
    prepared, decision = plan_study(prepare(parse_study(tomllib.loads(text))))
    return Deployment.of(prepared, decision.plan)


@pytest.fixture(autouse=True)
def patient_for_a_moment(monkeypatch):
    monkeypatch.setattr(correspondence, "_PAUSE", 0.0)


@dataclass
class Owners:
    """Everybody's gateway, by the files that a deployment offers; a context that closes them."""

    deployment: Deployment
    folder: Path
    opened: dict[str, Gateway] = field(default_factory=dict)

    def __enter__(self) -> Owners:
        for name in self.deployment.federation.clients:
            files = {key: str(self.folder / f"{name}.{key}") for key in ("socket", "ledger")}
            tables = owner_tables(self.deployment, name) | {"files": files}
            self.opened[name] = Gateway.open(Owner.model_validate(tables))
        return self

    def __exit__(self, *_: object) -> None:
        for gateway in self.opened.values():
            gateway.close()

    def exchange(self) -> Direct:
        return Direct({name: gateway.answer for name, gateway in self.opened.items()})

    def rows(self, name: str) -> list[tuple[int, int]]:
        return self.opened[name].ledger.query("SELECT number, share FROM releases ORDER BY number")


@pytest.fixture
def deployment() -> Deployment:
    return deployment_of()


def test_owners_are_asked_for_the_intercept_of_the_plan_as_a_number(deployment, owners):
    """What "auto" means is the study's to say; the model of every owner is that of the simulation."""
    table = task_table(deployment.prepared)
    assert table.bias == pytest.approx(0.3)
    for gateway in owners.opened.values():
        assert gateway.holding.task(table) == deployment.task
        assert gateway.holding.task(table.model_copy(update={"bias": "auto"})).dimension == 30


@pytest.fixture
def owners(deployment, tmp_path) -> Any:
    with Owners(deployment, tmp_path) as owners:
        yield owners


def with_algorithm(keys: str) -> str:
    """The study with another algorithm."""
    head = STUDY[: STUDY.index("[algorithm]")]
    return f"{head}[algorithm]\naveraging = 0.0\nstep_size = 1.0\n{keys}"


def with_replies(name: str, keys: str = "") -> str:
    """The study with an algorithm of one gradient per reply, and clients of unlike budgets."""
    own = f'name = "{name}"\nrounds = 4\nclients_per_round = 2\nmomentum = 0.0\n{keys}'
    return with_algorithm(own).replace("epsilon = 4.0", "epsilon = [4.0, 1.0, 2.0, 8.0]")


LOCAL = 'name = "dp-fedavg"\ntotal_iterations = 6\nlocal_steps = 2\nclients_per_round = '
COINS = 'name = "dp-scaffnew"\niterations = 12\ncommunication_probability = 0.4'
FORMS = {
    "one gradient": STUDY,
    "momentum, averaging": STUDY.replace("momentum = 0.0\naverag", "momentum = 0.5\naverag").replace(
        "averaging = 0.0", "averaging = 0.5"
    ),
    "some clients, Laplace": STUDY.replace("clients_per_round = 4", "clients_per_round = 2")
    .replace("gaussian", "laplace")
    .replace("delta = 1e-5", "delta = 0.0"),
    "weighted by precision": STUDY.replace("weighting = 0.0", "weighting = 0.5").replace(
        "epsilon = 4.0", "epsilon = [4.0, 1.0, 2.0, 8.0]"
    ),
    "local steps, gradients clipped": with_algorithm(f'{LOCAL}2\nclipping_mode = "C"'),
    "local steps, update clipped": with_algorithm(f'{LOCAL}4\nclipping_mode = "D"'),
    "control variates": with_algorithm(COINS),
    "noise at every step": with_algorithm('name = "dp-pasgd"\ntotal_iterations = 6\nlocal_steps = 2'),
    "dpsgd": with_replies("dpsgd"),
    "weiavg": with_replies("weiavg"),
    "pfa": with_replies("pfa"),
    "privatefl": with_replies("privatefl", "personal_step_size = 0.1"),
    "mr-mtl": with_algorithm('name = "mr-mtl"\nrounds = 4\npull = 0.3').replace(
        "epsilon = 4.0", "epsilon = [4.0, 1.0, 2.0, 8.0]"
    ),
    "dpfl-bcs": with_replies("dpfl-bcs", "estimation_rounds = 0"),
}
ONCE = STUDY[: STUDY.index("[algorithm]")] + (
    '[algorithm]\nname = "moments"\nshrinkage = 0.3\nstep_size = 1.5\nweighting = 0.7\n'
)
ONE_UPLOAD = {
    "Gaussian, unlike budgets": ONCE.replace("epsilon = 4.0", "epsilon = [4.0, 1.0, 2.0, 8.0]"),
    "Laplace": ONCE.replace("gaussian", "laplace").replace("delta = 1e-5", "delta = 0.0"),
    "a regression": ONCE.replace("breast-cancer", "diabetes-progression")
    .replace("logistic", "linear")
    .replace("step_size = 1.5", "step_size = 1.0\nlabel_weight = 2.0"),
}


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
def test_a_training_over_an_exchange_is_the_simulated_one(form, tmp_path, silent):
    """With noise zero: theta to 1e-5, curves, uploads; and ledgers hold the plan's prices and no more."""
    check_it_is_simulated(deployment_of(FORMS[form]), tmp_path, silent)


@pytest.mark.full
@pytest.mark.parametrize("form", ONE_UPLOAD)
def test_one_upload_over_an_exchange_is_the_simulated_one(form, tmp_path, silent, monkeypatch):
    """Noise is planned on both sides, ridges are made of it, none is drawn; a grid ends below the clip."""
    monkeypatch.setattr(Moments, "privatize", lambda self, state, update, client, key: update)
    deployment = deployment_of(ONE_UPLOAD[form])
    assert deployment.plan.numbers > deployment.plan.problem.dimension
    check_it_is_simulated(deployment, tmp_path, silent, within=5e-5)


def check_it_is_simulated(
    deployment: Deployment, folder: Path, silent: list[int], within: float = 1e-5
) -> None:
    with Owners(deployment, folder) as owners:
        done = train(deployment, owners.exchange(), folder / "run")
        run, plan = done.trained, deployment.plan
        twin = simulated(deployment)
        assert np.abs(run.theta - twin.theta).max() < within * np.abs(twin.theta).max()
        assert np.allclose(run.loss, twin.loss, atol=1e-5)
        assert np.array_equal(run.uploads, twin.uploads)
        assert np.array_equal(run.rounds, twin.rounds)
        names = deployment.federation.clients
        price = upload_price(plan, new_accounts(plan, "", deployment.federation.name, "", names))
        for place, name in enumerate(names):
            due = [(k + 1, price.of(place, k)) for k in range(int(twin.uploads[0, place]))]
            assert owners.rows(name) == due
        assert len(silent) == plan.released_by(twin.uploads[0]).sum()


@pytest.mark.full
def test_persons_over_an_exchange_are_the_simulated_ones(tmp_path, silent):
    check_it_is_simulated(persons_of(tmp_path), tmp_path, silent)


def persons_of(folder: Path, trust: str = "local") -> Deployment:
    """Two owners of one table, whose rows are persons with up to three records each."""
    draws, n = np.random.default_rng(4), 90
    ages, ill, places = draws.random(n).round(4), draws.integers(0, 2, n), np.arange(n)
    rows = zip(ages, ill, places // 45, places // 3, strict=True)
    table = folder / "wards.csv"
    table.write_text("\n".join(["age,ill,ward,patient", *(",".join(map(str, row)) for row in rows)]))
    columns = """
[columns]
age = { kind = "number", range = [0, 1] }
ill = { role = "label", classes = ["0", "1"] }
ward = { role = "client" }
patient = { role = "person", at_most = 3 }
"""
    text = STUDY.replace('data = "breast-cancer"\nclients = 4', f'data = "{table}"')
    text = text.replace("clients_per_round = 4", "clients_per_round = 2") + columns
    stated = f'[privacy]\nunit = "person"\ntrust = "{trust}"'
    deployment = deployment_of(text.replace("[privacy]", stated))
    assert deployment.federation.sizes.tolist() == [12, 12]
    return deployment


def seen_against(treated: str, form: str = "one gradient") -> str:
    """A study of images that are seen against public ones, at a place that PUBLIC stands for."""
    task = f'model = "softmax"\nnormalise = true\nreference = ["PUBLIC"]\n{treated}'
    text = FORMS[form].replace('model = "logistic"\nfeature_norm = 1.0', task)
    return text.replace("breast-cancer", "digits") + '\n[planning]\npublic = ["PUBLIC"]\n'


SEEN = {
    "less the mean": seen_against(""),
    "along directions": seen_against("projection = 16"),
    "pooled before": seen_against("pooling = 2\nprojection = 5"),
    "local steps": seen_against("projection = 16", "local steps, update clipped"),
    "a transform behind": seen_against("projection = 16", "privatefl"),
}


@pytest.mark.full
@pytest.mark.parametrize("form", SEEN)
def test_records_seen_against_public_ones_are_the_simulated_ones(form, tmp_path, silent):
    """Owners are sent the numbers; the public images are at the server's alone."""
    draws, label = np.random.default_rng(4), np.arange(400) % 10
    images = draws.gamma(0.5, 8.0, (10, 8, 8))[label] + draws.gamma(2.0, 1.0, (400, 8, 8))
    np.savez(tmp_path / "public.npz", x=images, label=label)
    deployment = deployment_of(SEEN[form].replace("PUBLIC", str(tmp_path / "public.npz")))
    (tmp_path / "public.npz").unlink()
    check_it_is_simulated(deployment, tmp_path, silent)


def simulated(deployment: Deployment):
    plan, task = deployment.plan, deployment.task
    quiet = make(plan, task, deployment.seed)
    quiet = quiet if plan.moments is not None else quiet.with_noise(1e-30)
    shards = Shards.load(deployment.federation, task, condensed=quiet.condensed)
    rounds, seeds = np.arange(plan.rounds + 1), [deployment.seed]
    return simulate([quiet], plan.releases, shards, rounds, seeds, single_uploads=True)


TWO_STAGES = with_replies("dpfl-bcs", "estimation_rounds = 2\nloss_cap = 2.0").replace(
    "rounds = 4", "rounds = 6"
)
TWO_STAGES += "\n[constants]\nsmoothness = 1.0\nstrong_convexity = 0.1\n"


def simulated_in_two_stages(deployment: Deployment):
    """Both stages without noise, in the simulation engine."""
    plan, task = deployment.plan, deployment.task

    shards = Shards.load(deployment.federation, task)
    return two_stages.run(
        [plan],
        shards,
        task,
        [deployment.seed],
        evaluation_rounds(plan.all_rounds),
        adapted=lambda one: one.with_noise(1e-30),
    )


@pytest.mark.full
def test_two_stages_over_an_exchange_are_the_simulated_ones(tmp_path, silent):
    """What stage 1 told, the plan that follows, the end of it, and ledgers that hold both stages' prices."""
    deployment = deployment_of(TWO_STAGES)
    with Owners(deployment, tmp_path) as owners:
        done = train(deployment, owners.exchange(), tmp_path / "run").trained
        run, (stage,) = simulated_in_two_stages(deployment)
        assert np.allclose(done.stages[0].reports.before, stage.reports.before, atol=1e-5)
        assert np.array_equal(done.plans[0].releases, stage.plan.releases)
        assert np.abs(done.theta - run.theta).max() < 1e-5 * np.abs(run.theta).max()
        assert np.array_equal(done.rounds, run.rounds)
        assert np.allclose(done.loss, run.loss, atol=1e-5)
        names = deployment.federation.clients
        accounts = new_accounts(deployment.plan, "", "breast-cancer", "", names)
        first = stage_before(deployment.plan)
        opening, closing = (
            first_stage_price(deployment.plan, first, accounts),
            upload_price(stage.plan, accounts),
        )
        for i, name in enumerate(names):
            due = [opening.of(i, k) for k in range(first.uploads[i])]
            due += [closing.of(i, k) for k in range(stage.plan.uploads[i])]
            assert owners.rows(name) == list(enumerate(due, 1))


@pytest.mark.parametrize("unlike", [0, 2, 3])
def test_owners_are_asked_to_allow_whatever_a_first_stage_may_lead_to(unlike):
    """Files were made for clients that prove alike: owners refused what stage 2 asked, and the run ended."""
    deployment = deployment_of(TWO_STAGES)
    plan, first = deployment.plan, stage_before(deployment.plan)
    apart, known = np.full(4, 0.1), np.ones(4)
    apart[unlike] = 1.0
    later = replanned(plan, Heterogeneity(apart, apart, known, 0.1))
    assert not np.array_equal(later.releases, plan.releases)
    assert later.release is not None
    for i, name in enumerate(deployment.federation.clients):
        demand: Demand = deployment.demand_of(name)
        assert first.uploads[i] + later.releases[i] <= demand.releases
        assert 1 / later.release.shift[i] >= demand.noise


@pytest.mark.full
@pytest.mark.parametrize("answers", [2, 8], ids=["in the first stage", "in the second"])
def test_two_stages_that_broke_off_go_on(answers, tmp_path, silent):
    deployment = deployment_of(TWO_STAGES)
    with Owners(deployment, tmp_path) as owners:
        cut = spoiled(owners, lambda owner, before, data: [data] if before < answers else [None])
        with pytest.raises(TooFewReplies):
            train(deployment, cut, tmp_path / "run", patience=4.0)
        done = train(deployment, owners.exchange(), tmp_path / "run", resume=True)
        run, _ = simulated_in_two_stages(deployment)
        assert np.abs(done.trained.theta - run.theta).max() < 1e-5 * np.abs(run.theta).max()
        assert np.allclose(done.trained.loss, run.loss, atol=1e-5)
        assert [one.number for one in done.told.rounds] == list(range(6))


@pytest.mark.full
def test_a_report_that_is_missing_is_left_out_of_what_was_estimated(tmp_path, silent):
    deployment = deployment_of(TWO_STAGES)
    with Owners(deployment, tmp_path) as owners:
        lost = spoiled(owners, lambda owner, before, data: [None] if owner == "client 3" else [data])
        done = train(deployment, lost, tmp_path / "run", patience=4.0)
    (stage,) = done.trained.stages
    assert 3 not in stage.reports.clients
    assert np.all(np.isfinite(stage.found.value))
    assert stage.found.shrinkage[3] == 0


@pytest.mark.full
def test_five_owners_over_flower_and_twenty_rounds_are_the_simulated_ones(tmp_path, silent, monkeypatch):
    """Flower's own apps and messages, in this process; only the network and the processes are missing."""
    pytest.importorskip("flwr")
    from in_process_grid import InProcessGrid
    from noiseworthy.deploy.flower import client_app
    from noiseworthy.deploy.flower.exchange import GridExchange

    five = STUDY.replace("clients = 4", "clients = 5").replace("rounds = 5", "rounds = 20")
    deployment = deployment_of(five)
    with Owners(deployment, tmp_path) as owners:
        monkeypatch.setattr(
            client_app, "forward", lambda socket, data, _: owners.opened[socket.name].answer(data)
        )
        nodes = {place: {"socket": name} for place, name in enumerate(owners.opened, 1)}
        exchange = GridExchange(InProcessGrid(client_app.app, nodes))
        done = train(deployment, exchange, tmp_path / "run")
        twin = simulated(deployment)
        assert np.abs(done.trained.theta - twin.theta).max() < 1e-5 * np.abs(twin.theta).max()
        assert np.allclose(done.trained.loss, twin.loss, atol=1e-5)
        price = upload_price(
            deployment.plan, new_accounts(deployment.plan, "", "x", "", tuple(owners.opened))
        )
        for place, name in enumerate(owners.opened):
            due = [(k + 1, price.of(place, k)) for k in range(int(twin.uploads[0, place]))]
            assert owners.rows(name) == due


@dataclass
class Spoiled(Direct):
    """An exchange on which things happen to answers.

    `spoil` gets owner, how many messages were answered before, and the answer; it gives what arrives: a list
    of answers, in which None is a loss. An empty list is silence, and holds the way until `free` is called.
    Answers to leases and receipts arrive as they are.
    """

    spoil: Callable[[str, int, bytes], list[bytes | None]] = lambda owner, before, data: [data]
    answered: int = 0
    held: dict[str, bytes] = field(default_factory=dict)

    @property
    def waiting(self) -> frozenset[str]:
        return super().waiting | self.held.keys()

    def receive(self, seconds: float) -> list[tuple[str, bytes | None]]:
        arrived: list[tuple[str, bytes | None]] = []
        for owner, data in super().receive(seconds):
            if data is not None and isinstance(read_reply(data), Received):
                arrived.append((owner, data))
                continue
            came = [None] if data is None else self.spoil(owner, self.answered, data)
            self.answered += 1
            arrived += [(owner, one) for one in came]
            if not came:
                self.held[owner] = data
        if all(data is None for _, data in arrived):
            CLOCK.sleep(max(seconds, 0.0))  # else it is asked again as fast as a core can
        return arrived

    def free(self) -> None:
        self._answers |= self.held
        self.held.clear()


def spoiled(owners: Owners, spoil: Callable[[str, int, bytes], list[bytes | None]]) -> Spoiled:
    return Spoiled({name: gateway.answer for name, gateway in owners.opened.items()}, spoil=spoil)


def test_a_lost_reply_is_asked_for_again_and_paid_once(deployment, owners, tmp_path, silent):
    exchange = spoiled(owners, lambda owner, before, data: [None if before % 3 == 0 else data])
    done = train(deployment, exchange, tmp_path / "run")
    assert np.abs(done.trained.theta - simulated(deployment).theta).max() < 1e-5
    assert exchange.answered > 5 * 4
    assert all(len(owners.rows(name)) == 5 for name in owners.opened)
    assert len(silent) == 5 * 4  # no noise was drawn twice
    assert not any(any(one.answers.values()) for one in done.told.rounds)


def test_every_upload_that_arrived_is_acknowledged(deployment, owners, tmp_path, silent):
    """The last of a run too, for which no request comes that could say so."""
    train(deployment, owners.exchange(), tmp_path / "run")
    for gateway in owners.opened.values():
        (line,) = statement(gateway.ledger)
        assert (line.spent, line.acknowledged) == (5, 5)


def test_a_reply_that_comes_twice_counts_once(deployment, owners, tmp_path, silent):
    done = train(deployment, spoiled(owners, lambda owner, before, data: [data, data]), tmp_path / "run")
    assert np.abs(done.trained.theta - simulated(deployment).theta).max() < 1e-5
    assert done.told.late == 0


def test_an_owner_without_an_answer_is_left_out_and_not_asked_to_pay(deployment, owners, tmp_path, silent):
    """It is waited for once; then it must say a word before it is asked for a release again."""
    gone = "client 2"
    exchange = spoiled(owners, lambda owner, before, data: [] if owner == gone else [data])
    started = CLOCK.skipped
    done = train(deployment, exchange, tmp_path / "run", patience=5.0)
    assert 4.0 < CLOCK.skipped - started < 2 * 5.0  # one round's patience, not five
    assert [one.answers[gone] for one in done.told.rounds] == ["no answer"] * 5
    assert len(owners.rows(gone)) == 1
    assert np.abs(done.trained.theta - left_out(deployment, [gone])).max() < 1e-5


def left_out(deployment: Deployment, names: list[str]) -> np.ndarray:
    """The training in plain NumPy without some clients, the others' weights in proportion."""
    federation, plan = deployment.federation, deployment.plan
    theta = np.zeros(plan.problem.dimension)
    there = [i for i, name in enumerate(federation.clients) if name not in names]
    weights = plan.weights[there] / plan.weights[there].sum()
    for t in range(plan.rounds):
        means = []
        for i in there:
            x = federation.x[i, : federation.sizes[i]].reshape(federation.sizes[i], -1).astype(np.float64)
            x = x / np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
            x = np.column_stack([x, np.full(len(x), 0.3)])  # the intercept of tables
            y = 2.0 * federation.y[i, : federation.sizes[i]] - 1
            slopes = (-y / (1 + np.exp(y * (x @ theta))))[:, None] * x
            norms = np.linalg.norm(slopes, axis=1, keepdims=True)
            means.append((slopes * np.minimum(1.0, plan.problem.clip_norm / norms)).mean(axis=0))
        theta = theta - plan.step.at(np.array([t])) * (weights @ np.array(means))
    return theta


def test_a_late_reply_is_taken_note_of_and_its_owner_asked_again(deployment, owners, tmp_path, silent):
    slow, exchange = "client 1", spoiled(owners, lambda owner, before, data: [data])
    first: list[bytes] = []

    def spoil(owner: str, before: int, data: bytes) -> list[bytes | None]:
        if owner == slow and not first:
            first.append(data)
            return []
        return [data]

    exchange.spoil = spoil

    def on_round(share: float, done: Any) -> None:
        if done is not None and done.number == 1:
            exchange.free()  # what was asked for in round 0 arrives before round 2

    done = train(deployment, exchange, tmp_path / "run", patience=5.0, on_round=on_round)
    missed = [one.number for one in done.told.rounds if one.answers[slow]]
    assert missed == [0, 1]
    assert done.told.late == 1
    assert len(owners.rows(slow)) == 4  # rounds 0, 2, 3 and 4: round 1 was not asked for


@pytest.mark.parametrize("noise", ["silent", pytest.param("drawn", marks=pytest.mark.full)])
def test_a_run_that_broke_off_goes_on_and_pays_for_nothing_twice(
    noise, deployment, owners, tmp_path, request
):
    """Two owners answer round 2 and two do not: on resume the first two send the same bytes."""
    if noise == "silent":
        request.getfixturevalue("silent")
    draws: list[int] = []
    added = DeployedNoise.added_to
    request.getfixturevalue("monkeypatch").setattr(
        DeployedNoise, "added_to", lambda self, total: (draws.append(1), added(self, total))[1]
    )
    cut = spoiled(owners, lambda o, before, data: [data] if before < 9 or o == "client 0" else [None])
    with pytest.raises(TooFewReplies, match=r"round 3: 1 of 4 owners answered, 2 must .*--resume"):
        train(deployment, cut, tmp_path / "run", patience=5.0)
    done = train(deployment, owners.exchange(), tmp_path / "run", resume=True)
    assert len(draws) == 5 * 4
    assert all([number for number, _ in owners.rows(name)] == [1, 2, 3, 4, 5] for name in owners.opened)
    assert np.array_equal(done.trained.rounds, np.arange(6))
    if noise == "silent":
        assert np.abs(done.trained.theta - simulated(deployment).theta).max() < 1e-5


def test_a_run_without_resume_is_another_run_that_the_budget_does_not_pay_for(deployment, owners, tmp_path):
    train(deployment, owners.exchange(), tmp_path / "run")
    with pytest.raises(GatewayError, match="client 3 has spent 100 % of its lifetime budget"):
        train(deployment, owners.exchange(), tmp_path / "other", patience=5.0)
    assert all(len(owners.rows(name)) == 5 for name in owners.opened)


def test_an_owner_that_refuses_is_left_out_by_name_and_in_words(deployment, owners, tmp_path, silent):
    poor = "client 3"
    tables = owner_tables(deployment, poor)
    tables["allowed"]["most_releases"] -= 2
    tables["files"] = {key: str(tmp_path / f"poor.{key}") for key in ("socket", "ledger")}
    owners.opened[poor].close()
    owners.opened[poor] = Gateway.open(Owner.model_validate(tables))
    done = train(deployment, owners.exchange(), tmp_path / "run")
    why = [one.answers[poor].partition(":")[0] for one in done.told.rounds]
    assert why == ["", "", "", "not-allowed", "not-allowed"]


def test_a_ledger_that_was_set_back_is_noticed(deployment, owners, tmp_path, silent):
    """Its owner is left out from then on; no release of it is paid for from the older file."""
    name = "client 0"
    owners.opened[name].rest()  # without its log the file would be none that has begun
    before = (tmp_path / f"{name}.ledger").read_bytes()

    def on_round(share: float, done: Any) -> None:
        if done is not None and done.number == 2:
            owners.opened[name].close()
            for extra in ("-wal", "-shm"):
                (tmp_path / f"{name}.ledger{extra}").unlink(missing_ok=True)
            (tmp_path / f"{name}.ledger").write_bytes(before)
            files = {key: str(tmp_path / f"{name}.{key}") for key in ("socket", "ledger")}
            again = Owner.model_validate(owner_tables(deployment, name) | {"files": files})
            owners.opened[name] = Gateway.open(again)

    exchange = Direct({n: lambda data, n=n: owners.opened[n].answer(data) for n in owners.opened})
    done = train(deployment, exchange, tmp_path / "run", on_round=on_round)
    why = [one.answers[name].partition(":")[0] for one in done.told.rounds]
    assert why == ["", "", "", "ledger", "ledger"]
    assert owners.rows(name) == []


def test_answers_that_are_not_the_owners_are_not_used(deployment, owners, tmp_path, silent):
    """One owner's upload in another's name, and bytes that are none."""
    kept: dict[str, bytes] = {}

    def spoil(owner: str, before: int, data: bytes) -> list[bytes | None]:
        kept[owner] = data
        return [kept["client 0"]] if owner == "client 1" else [b"what?"] if owner == "client 2" else [data]

    done = train(deployment, spoiled(owners, spoil), tmp_path / "run")
    for one in done.told.rounds:
        assert {name for name, why in one.answers.items() if why} == {"client 1", "client 2"}
    assert np.abs(done.trained.theta - left_out(deployment, ["client 1", "client 2"])).max() < 1e-5


@pytest.mark.full
@pytest.mark.parametrize(
    "wrong",
    [{"steps": np.zeros(30, np.int64)}, {"steps": np.zeros(32, np.int64)}, {"assurance": "simulation"}],
    ids=["too few numbers", "too many", "simulated noise"],
)
def test_an_upload_that_was_not_asked_for_is_left_out(wrong, deployment, owners, tmp_path, silent):
    """An owner's gateway may be broken, or a liar; the others go on without it."""

    def spoil(owner: str, before: int, data: bytes) -> list[bytes | None]:
        reply = read_reply(data)
        if owner != "client 1" or not isinstance(reply, Uploaded):
            return [data]
        other = reply.model_copy(update={"upload": replace(reply.upload, **wrong)})
        return [pack_reply(other)]

    done = train(deployment, spoiled(owners, spoil), tmp_path / "run")
    assert all(one.answers["client 1"].startswith(UNREADABLE) for one in done.told.rounds)
    assert np.abs(done.trained.theta - left_out(deployment, ["client 1"])).max() < 1e-5


def test_a_folder_of_another_training_is_not_gone_on_with(deployment, owners, tmp_path):
    train(deployment, owners.exchange(), tmp_path / "run")
    other = deployment_of(STUDY.replace("step_size = 2.0", "step_size = 1.0"))
    with pytest.raises(ResumeError, match="another study"):
        train(other, owners.exchange(), tmp_path / "run", resume=True)
    with pytest.raises(ResumeError, match="without --resume"):
        train(deployment, owners.exchange(), tmp_path / "none", resume=True)


def test_a_loss_that_is_nan_from_the_start_is_refused_before_owners_hold_anything(
    deployment, owners, tmp_path
):
    """Gradients that are nan count as zero: all budgets were spent, and the model was the start."""
    broken = model_task(lambda theta, x: jnp.sqrt(x @ theta["w"] - 1.0), {"w": np.zeros((30, 2), np.float32)})
    wrong = replace(deployment, prepared=replace(deployment.prepared, task=broken))
    with pytest.raises(InvalidInput, match=r"loss on test records is nan before training.*nothing was spent"):
        train(wrong, owners.exchange(), tmp_path / "run")
    assert all(gateway.about.leased == gateway.about.spent == 0 for gateway in owners.opened.values())


def test_what_owners_cannot_follow_is_refused_before_anything_is_asked():
    plan = deployment_of().plan
    batches = replace(plan, problem=replace(plan.problem, sampling_rate=0.5))
    with pytest.raises(UnsoundClaim, match="sampling_rate"):
        Deployment.of(deployment_of().prepared, batches)
    long = replace(plan, problem=replace(plan.problem, dimension=MOST_NUMBERS + 1))
    with pytest.raises(ConfigError, match=r"has 33,423,361 numbers, and owners send 33,423,360 at most"):
        Deployment.of(deployment_of().prepared, long)
    with pytest.raises(ConfigError, match="without noise"):
        deployment_of(STUDY.replace('"gaussian"', '"none"'))


def test_owners_who_are_missing_or_hold_other_records_are_named(deployment, owners):
    abouts = [read_reply(gateway.answer(pack_about())) for gateway in owners.opened.values()]
    deployment.check_owners(abouts)
    with pytest.raises(GatewayError, match="no gateway answers for client 1, client 3"):
        deployment.check_owners(abouts[::2])
    with pytest.raises(GatewayError, match="client 2 holds 90 records, the plan was made for 114"):
        deployment.check_owners([*abouts[:2], abouts[2].model_copy(update={"records": 90}), abouts[3]])
