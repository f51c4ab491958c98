"""A server that holds no record plans and trains over its owners' own tables as if it held them all."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w
from direct import Direct
from rich.console import Console

import noiseworthy as nw
from noiseworthy.calls.folder import load_run
from noiseworthy.cli import deploying
from noiseworthy.data import load_federation, load_records
from noiseworthy.data.owners import write_owners
from noiseworthy.deploy import correspondence
from noiseworthy.deploy.correspondence import all_introduced
from noiseworthy.deploy.demands import Demand
from noiseworthy.deploy.deployed import train, with_network
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.gateway.gateway import Gateway
from noiseworthy.deploy.gateway.messages import About
from noiseworthy.deploy.gateway.owner import load_owner
from noiseworthy.deploy.owners import write_owner_files
from noiseworthy.engines import simulation
from noiseworthy.engines.shards import Shards
from noiseworthy.errors import ConfigError, DataError, GatewayError
from noiseworthy.methods.registry import make
from noiseworthy.methods.space import Grid
from noiseworthy.reports.figures import training_figure
from noiseworthy.reports.html import write_report
from noiseworthy.reports.tables import training_panel
from noiseworthy.studies import by_trial
from noiseworthy.studies.centring import mean_release
from noiseworthy.studies.checking import check_study
from noiseworthy.studies.delivery import deliver
from noiseworthy.studies.label_mean import label_mean_of
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.plan_codec import encoded
from noiseworthy.studies.planner import plan_study
from noiseworthy.studies.prepare import Prepared, prepare
from noiseworthy.studies.record import new_record, save_record
from noiseworthy.studies.training import train as simulate
from noiseworthy.trials import spaces
from noiseworthy.trials.treatment import Treatment

SITES = {"north": 60, "south": 150, "west": 200}
"""Hospitals and their records, of the 569 of the breast-cancer data; the rest are test records."""
CLASSES = ["malignant", "benign"]
STUDY = """
[federation]
data = "owners:owners.json"
test = "test.csv"
label_column = "diagnosis"
classes = ["malignant", "benign"]
[task]
model = "softmax"
normalise = true
[privacy]
epsilon = { north = 1.0, south = 2.0, west = 4.0 }
delta = 1e-5
mechanism = "gaussian"
clip_norm = 0.5
[algorithm]
name = "fedsgd-dpc"
rounds = 5
clients_per_round = 2
step_size = 2.0
step_decay = "none"
momentum = 0.0
averaging = 0.0
weighting = 0.5
[constants]
source = "rule"
"""


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    """A table for each hospital, and one of test records."""
    records = load_records("breast-cancer")
    x, y = np.concatenate([records.x, records.test_x]), np.concatenate([records.y, records.test_y])
    whole = pd.DataFrame(x, columns=[f"f{i}" for i in range(x.shape[1])])
    whole["diagnosis"] = np.take(CLASSES, y.astype(int))
    ends = np.cumsum([0, *SITES.values()])
    cut = {name: whole.iloc[a:b] for name, a, b in zip(SITES, ends, ends[1:], strict=False)}
    return cut | {"test": whole.iloc[ends[-1] :]}


@dataclass
class World:
    """The machines of a server and three hospitals, as folders.

    Attributes:
        server: holds what the owners told, and test records.
        gateways: of the hospitals.
        union: of all tables, which nobody has.
    """

    server: Path
    gateways: dict[str, Gateway]
    union: Path

    def exchange(self) -> Direct:
        return Direct({name: gateway.answer for name, gateway in self.gateways.items()})

    def study(self, text: str) -> Prepared:
        """A study as the server opens it."""
        for name in ("owners.json", "test.csv"):
            text = text.replace(name, str(self.server / name))
        return prepare(parse_study(tomllib.loads(text)))

    def simulated(self, text: str) -> Prepared:
        """The same study by somebody who holds everything."""
        federation = f'data = "{self.union}"\nclient_column = "site"'
        text = text.replace('data = "owners:owners.json"\ntest = "test.csv"', federation)
        return prepare(parse_study(tomllib.loads(text)))


OF_CLASSES = {"label_column": "diagnosis", "classes": CLASSES}


def owner_file(
    folder: Path, name: str, epsilon: float, label: dict[str, Any] = OF_CLASSES, **allowed: Any
) -> Path:
    """What a hospital with a table of its own writes."""
    tables = {
        "owner": {"client": name, "data_set": "tumours 2026"},
        "federation": {"data": str(folder / "records.csv"), "clients": 1, **label},
        "budget": {"mechanism": "gaussian", "epsilon": epsilon, "delta": 1e-5, "noise_floor": 0.01},
        "allowed": {"algorithms": ["fedsgd-dpc"], "models": ["softmax"], "most_releases": 100} | allowed,
        "files": {"socket": "gateway.sock", "ledger": "ledger.sqlite"},
    }
    (folder / "owner.toml").write_text(tomli_w.dumps(tables))
    return folder / "owner.toml"


@contextmanager
def opened(
    folder: Path, tables: dict[str, pd.DataFrame], label: dict[str, Any] = OF_CLASSES, **allowed: Any
) -> Iterator[World]:
    gateways = {}
    for name, epsilon in zip(SITES, (1.0, 2.0, 4.0), strict=True):
        (folder / name).mkdir()
        tables[name].to_csv(folder / name / "records.csv", index=False)
        gateways[name] = Gateway.open(load_owner(owner_file(folder / name, name, epsilon, label, **allowed)))
    server = folder / "server"
    server.mkdir()
    tables["test"].to_csv(server / "test.csv", index=False)
    parts = [table.assign(site=name, split="train") for name, table in tables.items() if name != "test"]
    union = pd.concat([*parts, tables["test"].assign(site="north", split="test")])
    union.to_csv(folder / "union.csv", index=False)
    world = World(server, gateways, folder / "union.csv")
    write_owners(server / "owners.json", all_introduced(world.exchange(), 5.0, quiet=0.01))
    yield world
    for gateway in gateways.values():
        gateway.close()


@pytest.fixture
def world(tmp_path, tables) -> Any:
    """For tests that spend budgets."""
    with opened(tmp_path, tables) as world:
        yield world


@pytest.fixture(scope="module")
def known(tmp_path_factory, tables) -> Any:
    """For tests that look at what owners tell."""
    with opened(tmp_path_factory.mktemp("known"), tables) as world:
        yield world


@pytest.fixture(autouse=True)
def _patient_for_a_moment(monkeypatch):
    monkeypatch.setattr(correspondence, "_PAUSE", 0.0)


def planned(prepared: Prepared) -> Deployment:
    trained, decision = plan_study(prepared)
    return Deployment.of(trained, decision.plan)


def test_what_owners_tell_is_sorted_and_holds_nothing_that_changes(known):
    told = json.loads((known.server / "owners.json").read_text())
    assert [(one["client"], one["records"]) for one in told] == list(SITES.items())
    assert all(one["record_shape"] == [30] and one["classes"] == 2 for one in told)
    assert [one["labels"] for one in told] == 3 * [CLASSES]
    assert not any({"head", "spent"} & one.keys() for one in told)


@pytest.mark.full
@pytest.mark.usefixtures("silent")
def test_the_training_is_that_of_somebody_who_holds_all_records(world, tmp_path):
    """With noise zero: the same plan, theta to 1e-5, curves and uploads."""
    deployment, twin = planned(world.study(STUDY)), planned(world.simulated(STUDY))
    assert deployment.plan.as_dict() == twin.plan.as_dict()
    deployment.check_owners([gateway.about for gateway in world.gateways.values()])
    run = train(deployment, world.exchange(), tmp_path / "run").trained

    quiet = make(twin.plan, twin.task, twin.seed).with_noise(1e-30)
    shards = Shards.load(twin.federation, twin.task, condensed=quiet.condensed)
    wanted = simulation.simulate(
        [quiet], twin.plan.releases, shards, np.arange(twin.plan.rounds + 1), [twin.seed]
    )
    assert np.abs(run.theta - wanted.theta).max() < 1e-5 * np.abs(wanted.theta).max()
    assert np.allclose(run.loss, wanted.loss[:, run.rounds], atol=1e-5)
    assert np.allclose(run.accuracy, wanted.accuracy[:, run.rounds], atol=1e-5)
    assert np.array_equal(run.uploads, wanted.uploads)


@pytest.mark.full
def test_the_report_is_written_without_a_record(world, tmp_path):
    prepared, decision = plan_study(world.study(STUDY))
    deployment = Deployment.of(prepared, decision.plan)
    done = train(deployment, world.exchange(), tmp_path / "run")
    federation = deployment.federation
    record = new_record(prepared.study, decision, federation, prepared.dimension, name="wards")
    abouts = [gateway.about for gateway in world.gateways.values()]
    record = with_network(record, done, abouts, 1.0)
    assert record["federation"]["clients"] == list(SITES)
    assert write_report(record, tmp_path / "run").exists()


UNSCORED = STUDY.replace('test = "test.csv"\n', "")


def test_a_server_without_test_records_trains_and_says_that_nobody_scored_the_model(world, tmp_path):
    """The plan is that of a server with some; a run that breaks off goes on."""
    scored, prepared = plan_study(world.study(STUDY))[1], world.study(UNSCORED)
    prepared, decision = plan_study(prepared)
    assert encoded(decision.plan) == encoded(scored.plan)
    deployment, folder = Deployment.of(prepared, decision.plan), tmp_path / "run"

    def breaks_off(share: float, done: Any) -> None:
        if share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(deployment, world.exchange(), folder, on_round=breaks_off)
    done = train(deployment, world.exchange(), folder, resume=True)
    record = new_record(prepared.study, decision, deployment.federation, prepared.dimension, name="wards")
    record = with_network(record, done, [gateway.about for gateway in world.gateways.values()], 1.0)
    record = deliver(prepared, done.trained.theta[0], record, [deployment.seed], folder)
    save_record(record, folder)

    run = load_run(folder)
    assert (run.loss, run.accuracy, run.record.scored) == (None, None, None)
    assert run.curves["loss"].isna().all()
    assert "loss" not in repr(run)
    assert len(flags := record["training"]["flags"]) == 1
    assert flags[0].startswith("Not scored: the server has no test records")
    page = write_report(record, folder).read_text()
    assert "<h1>Trained at epsilon 1 to 4, not scored</h1>" in page
    assert flags[0] in unescape(page)
    assert "drawn without a\nseed" in page
    assert "the same losses" not in page
    assert not any(word in page for word in ("diverged", "test loss", "Test loss"))
    assert training_figure(run.record) is None
    panel = Console(width=300, file=StringIO())
    panel.print(training_panel(run.record))
    assert "Not scored" in panel.file.getvalue()
    assert "test loss" not in panel.file.getvalue()
    card = (folder / "model" / "README.md").read_text()
    assert "Not measured." in card
    assert "The scores are" not in card
    assert nw.load_model(folder).predict(np.zeros((1, 30)))[0] in CLASSES

    overflown = np.full_like(done.trained.theta[0], 3e38)
    record = deliver(prepared, overflown, record, [deployment.seed], tmp_path / "overflown")
    assert record["training"]["flags"][0].startswith("Diverged: the model answers by numbers that are not")
    assert record["training"]["flags"][1:] == flags
    card = (tmp_path / "overflown" / "model" / "README.md").read_text()
    assert "It diverged in training and predicts nothing. Not measured." in card


def test_there_is_nothing_to_check_at_a_server_without_records(known):
    with pytest.raises(ConfigError, match=r"names no test records, so there is nothing .* check owner\.toml"):
        check_study(known.study(UNSCORED).study)


def test_the_server_can_train_nothing_by_itself(deployment, tmp_path):
    with pytest.raises(DataError, match="lie at their owners; train with noiseworthy deploy run"):
        simulate(deployment.plan, deployment.federation, deployment.task, [0], evaluations=2, folder=tmp_path)
    with pytest.raises(ConfigError, match=r"who write their files themselves; start with .* deploy link"):
        write_owner_files(deployment, tmp_path / "owners")
    assert not (tmp_path / "owners").exists()


def test_who_would_train_here_is_refused_before_a_plan_is_made(known, tmp_path, monkeypatch):
    """Minutes of trials went first, and left a record that stood in the way of deploy run."""
    study = tmp_path / "wards.toml"
    study.write_text(UNSCORED.replace("owners.json", str(known.server / "owners.json")))
    with pytest.raises(ConfigError, match="lie at their owners; train with noiseworthy deploy run"):
        nw.run(study, out=tmp_path / "run")
    monkeypatch.setattr(deploying, "decide_plan", lambda *_: pytest.fail("a plan was made"))
    with pytest.raises(ConfigError, match=r"who write their files themselves; start with .* deploy link"):
        deploying.up(study, tmp_path / "ward")
    assert list(tmp_path.iterdir()) == [study]


def test_an_owners_own_table_is_taken_whole_under_any_name(known, tables):
    for name, size in SITES.items():
        holding = known.gateways[name].holding
        assert holding.size == size
        np.testing.assert_array_equal(holding.x, tables[name].drop(columns="diagnosis").to_numpy(np.float32))
        np.testing.assert_array_equal(holding.y, [CLASSES.index(one) for one in tables[name]["diagnosis"]])


def test_owners_that_disagree_on_classes_are_named_before_a_study_is_planned(known, tmp_path):
    north, *others = (gateway.about for gateway in known.gateways.values())
    write_owners(tmp_path / "owners.json", [north.model_copy(update={"classes": 3}), *others])
    with pytest.raises(DataError, match="south has classes 2, north has 3"):
        replace(known, server=tmp_path).study(STUDY.replace('"test.csv"', '"owners.json"'))


IMAGES = """
[federation]
data = "owners:FOLDER/owners.json"
test = "FOLDER/test.npz"
classes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
[privacy]
epsilon = 4.0
delta = 1e-5
mechanism = "gaussian"
[algorithm]
name = "fedsgd-dpc"
rounds = 5
clients_per_round = 3
steering = 0.0
[planning]
public = ["FOLDER/one.npz", "FOLDER/other.npz"]
seeds = 2
"""


@contextmanager
def of_images(folder: Path) -> Iterator[dict[str, Gateway]]:
    """Three owners of digits, a table of all of them that nobody has, and two of public images."""
    for seed, name in enumerate(("one", "other")):
        draws, label = np.random.default_rng(seed), np.arange(400) % 10
        images = draws.gamma(0.5, 8.0, (10, 8, 8))[label] + draws.gamma(2.0, 1.0, (400, 8, 8))
        np.savez(folder / f"{name}.npz", x=images, label=label)
    records = load_records("digits")
    np.savez(folder / "test.npz", x=records.test_x, label=records.test_y)
    sizes, held = list(SITES.values()), sum(SITES.values())
    x, label = records.x[:held], records.y[:held]
    site, split = np.append(np.repeat(list(SITES), sizes), "north"), np.repeat(["train", "test"], [held, 1])
    one_more = {"x": records.x[: held + 1], "label": records.y[: held + 1]}
    np.savez(folder / "union.npz", **one_more, client=site, split=split)
    ends = np.cumsum(sizes)[:-1]
    gateways = {}
    for name, *table in zip(SITES, np.split(x, ends), np.split(label, ends), strict=True):
        (folder / name).mkdir()
        np.savez(folder / name / "records.npz", x=table[0], label=table[1])
        text = owner_file(folder / name, name, 4.0).read_text().replace("records.csv", "records.npz")
        raw = tomllib.loads(text)
        raw["federation"] |= {"label_column": "label", "classes": list(range(10))}
        (folder / name / "owner.toml").write_text(tomli_w.dumps(raw))
        gateways[name] = Gateway.open(load_owner(folder / name / "owner.toml"))
    exchange = Direct({name: gateway.answer for name, gateway in gateways.items()})
    write_owners(folder / "owners.json", all_introduced(exchange, 5.0, quiet=0.01))
    yield gateways
    for gateway in gateways.values():
        gateway.close()


@pytest.mark.full
@pytest.mark.usefixtures("silent")
def test_images_of_owners_are_seen_against_public_ones_that_a_plan_chose(tmp_path, monkeypatch):
    """Of the treatments that are tried only those with a reference and directions are left to choose from."""
    tried = by_trial.treatments_of
    monkeypatch.setattr(spaces.Space, "grid", Grid(passes=(2,), work=(1,), clips=(1.0,), reaches=(3, 30)))
    monkeypatch.setattr(
        by_trial,
        "treatments_of",
        lambda *given: [one for one in tried(*given) if one.reference and one.projection],
    )
    with of_images(tmp_path) as gateways:
        deployment = planned(prepare(parse_study(tomllib.loads(IMAGES.replace("FOLDER", str(tmp_path))))))
        task, plan = deployment.prepared.study.task, deployment.plan
        assert task.reference == [str(tmp_path / "one.npz"), str(tmp_path / "other.npz")]
        assert plan.problem.dimension == 10 * task.projection < 640
        deployment.check_owners([gateway.about for gateway in gateways.values()])
        exchange = Direct({name: gateway.answer for name, gateway in gateways.items()})
        run = train(deployment, exchange, tmp_path / "run").trained

    federation = load_federation(str(tmp_path / "union.npz"), classes=list(range(10)), seed=0)
    assert federation.clients == deployment.federation.clients
    quiet = make(plan, deployment.task, deployment.seed).with_noise(1e-30)
    shards = Shards.load(federation, deployment.task, condensed=quiet.condensed)
    wanted = simulation.simulate(
        [quiet], plan.releases, shards, np.arange(plan.rounds + 1), [deployment.seed]
    )
    assert np.abs(run.theta - wanted.theta).max() < 1e-5 * np.abs(wanted.theta).max()


# Terms -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def deployment(known) -> Deployment:
    return planned(known.study(STUDY))


def abouts_with(known: World, **changed: Any) -> list[About]:
    north, *others = (gateway.about for gateway in known.gateways.values())
    return [north.model_copy(update=changed), *others]


MISFITS = {
    "mechanism": ({"mechanism": "laplace", "delta": 0.0}, "has mechanism laplace, the plan gaussian"),
    "unit": ({"unit": "client"}, "has a budget for everything it holds"),
    "algorithms": ({"algorithms": ["dp-fedavg"]}, "does not allow algorithms fedsgd-dpc"),
    "models": ({"models": ["logistic"]}, "does not allow models softmax"),
    "releases": ({"most_releases": 2}, "has most_releases 2, the plan asks for [345];"),
    "parameters": ({"most_parameters": 61}, "has most_parameters 61, the plan asks for 62"),
    "noise": ({"noise_floor": 1e3}, "has noise_floor 1000, the plan's least noise is"),
    "epsilon": (
        {"epsilon": 0.99},
        "has 100.0% left of epsilon 0.99 at delta 1e-05, the plan spends epsilon 1",
    ),
    "delta": (
        {"delta": 1e-6},
        "has 100.0% left of epsilon 1 at delta 1e-06, the plan spends epsilon 1 at 1e-05",
    ),
    "spent": ({"spent": 0.01}, "has 99.0% left of epsilon 1"),
    "shape": (
        {"record_shape": (29,)},
        r"holds records of shape \(29,\) and 2 classes, the study's are \(30,\)",
    ),
}


@pytest.mark.parametrize("what", MISFITS)
def test_terms_that_do_not_fit_are_named_with_their_owner(known, deployment, what):
    changed, words = MISFITS[what]
    with pytest.raises(GatewayError, match=f"^north {words}"):
        deployment.check_owners(abouts_with(known, **changed))


def test_an_owner_whose_classes_are_in_another_order_is_named(known, deployment):
    """It trained on inverted labels, and nobody said a word. One of before tells no order and trains on."""
    with pytest.raises(GatewayError, match=r"^north's file has classes benign, malignant in this order, the"):
        deployment.check_owners(abouts_with(known, labels=("benign", "malignant")))
    deployment.check_owners(abouts_with(known, labels=None))


@pytest.mark.parametrize("what", MISFITS)
def test_no_owner_is_to_change_what_it_cannot(known, deployment, what):
    """A lifetime budget is what its ledger holds: what is spent of it was to be changed in a file."""
    with pytest.raises(GatewayError) as raised:
        deployment.check_owners(abouts_with(known, **MISFITS[what][0]))
    budget = what in ("epsilon", "delta", "spent")
    assert ("a lifetime budget does not grow" in str(raised.value)) == budget
    assert ("have the owner change its file" in str(raised.value)) == (not budget and what != "shape")


def test_terms_that_just_fit_do(known, deployment):
    """The edge of every number: what the plan asks for, and not a bit more."""
    demand: Demand = deployment.demand_of("north")
    edge = {
        "most_releases": demand.releases,
        "most_parameters": 62,
        "most_local_steps": 1,
        "noise_floor": demand.noise,
        "epsilon": 1.0,
    }
    deployment.check_owners(abouts_with(known, **edge))
    assert replace(demand, local_steps=2).misfit(abouts_with(known, **edge)[0]).startswith("has most_local")


def test_what_this_training_has_spent_itself_does_not_stand_in_its_way(known, deployment):
    deployment.check_owners(abouts_with(known, spent=0.5), resume=True)
    with pytest.raises(GatewayError, match=r"50\.0% left"):
        deployment.check_owners(abouts_with(known, spent=0.5))


def test_a_larger_budget_pays_for_two_trainings(known, deployment):
    """mu adds up in squares: what is left of epsilon 8 after half of mu^2 is far above epsilon 1."""
    deployment.check_owners(abouts_with(known, epsilon=8.0, spent=0.5))


def test_terms_that_fit_are_not_refused_in_the_training(world, deployment, tmp_path):
    """The check against the gateways themselves: an owner at the edge answers every round."""
    north = world.gateways.pop("north")
    north.close()
    folder, demand = tmp_path / "north", deployment.demand_of("north")
    text = owner_file(folder, "north", 1.0, most_releases=demand.releases, most_parameters=62).read_text()
    text = text.replace("noise_floor = 0.01", f"noise_floor = {0.999999 * demand.noise}")
    (folder / "owner.toml").write_text(text)
    world.gateways["north"] = Gateway.open(load_owner(folder / "owner.toml"))
    deployment.check_owners([gateway.about for gateway in world.gateways.values()])
    done = train(deployment, world.exchange(), tmp_path / "run")
    assert not any(why for one in done.told.rounds for why in one.answers.values())


FREE = (
    STUDY[: STUDY.index("[task]")]
    + """
[privacy]
epsilon = { north = 1.0, south = 2.0, west = 4.0 }
delta = 1e-5
mechanism = "gaussian"
[task]
model = "softmax"
[algorithm]
rounds = 4
[planning]
public = ["wine"]
seeds = 1
"""
)


@pytest.mark.full
@pytest.mark.usefixtures("silent")
def test_a_server_without_records_asks_for_the_mean_of_all_that_nobody_holds(tmp_path, tables, monkeypatch):
    """Unlike budgets and sizes; with no noise drawn it is what the whole table tells."""
    monkeypatch.setattr(by_trial, "treatments_of", lambda prepared, bench: [Treatment(centred=True)])
    with opened(tmp_path, tables, algorithms=["fedsgd-dpc", "mean"]) as world:
        prepared, decision = plan_study(world.study(FREE))
        assert decision.plan.ranges is not None
        assert decision.plan.ranges.pending
        deployment = Deployment.of(prepared, decision.plan)
        deployment.check_owners([gateway.about for gateway in world.gateways.values()])
        done = train(deployment, world.exchange(), tmp_path / "run")
    whole, how = world.simulated(FREE).trained()[0], mean_release(prepared)
    held = [slice(0, n) for n in whole.sizes]
    told = how.combined({i: how.told(whole.x[i, n], whole.y[i, n]) for i, n in enumerate(held)})
    assert done.told.found
    assert done.told.found["mean"] == pytest.approx(told.mean, abs=1e-5)
    assert done.told.found["class_shares"] == pytest.approx(told.shares, abs=1e-5)
    assert done.trained.loss[0, -1] < done.trained.loss[0, 0]


OF_NUMBERS = """
[federation]
data = "owners:owners.json"
test = "test.csv"
label_column = "f0"
regression = true
[privacy]
epsilon = { north = 1.0, south = 2.0, west = 4.0 }
delta = 1e-5
mechanism = "gaussian"
[algorithm]
rounds = 4
[planning]
public = ["prior:0"]
label_scale = 15.0
seeds = 1
"""


@pytest.mark.full
@pytest.mark.usefixtures("silent")
def test_a_server_without_records_asks_for_the_mean_of_numbers_that_nobody_holds(tmp_path, tables):
    """The radius of a nucleus, 14 in the mean: training starts there, and not at 0."""
    numbers = {
        name: table.drop(columns="diagnosis").assign(f0=14.1 + 3.5 * table["f0"])
        for name, table in tables.items()
    }
    label = {"label_column": "f0", "regression": True}
    works = {"algorithms": ["fedsgd-dpc", "label-mean"], "models": ["linear"]}
    with opened(tmp_path, numbers, label, **works) as world:
        prepared, decision = plan_study(world.study(OF_NUMBERS))
        assert decision.plan.ranges is not None
        assert decision.plan.ranges.pending
        deployment = Deployment.of(prepared, decision.plan)
        deployment.check_owners([gateway.about for gateway in world.gateways.values()])
        done = train(deployment, world.exchange(), tmp_path / "run")
    how, parts = label_mean_of(deployment.prepared), [numbers[name]["f0"].to_numpy() for name in SITES]
    assert how is not None
    told = how.combined({i: how.told(part) for i, part in enumerate(parts)})
    assert done.told.found["label_mean"] == pytest.approx(told, abs=1e-4)
    assert 11 < told < 16
    test = numbers["test"]["f0"].to_numpy()
    assert done.trained.loss[0, 0] == pytest.approx(np.mean(np.square(test - told)) / 2, rel=1e-3)
