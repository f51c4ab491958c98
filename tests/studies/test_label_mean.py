"""The mean of labels: told where it is worth its price, charged, started at, told by owners as simulated."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from noiseworthy.deploy import correspondence
from noiseworthy.deploy.deployed import train, with_network
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.telling import asking_of
from noiseworthy.errors import PlanError, UnsoundClaim
from noiseworthy.privacy.durable.accounts import WHOLE
from noiseworthy.reports.claim_card import claim_card
from noiseworthy.reports.html import rests_on, write_report
from noiseworthy.reports.privacy_statement import privacy_statement
from noiseworthy.reports.tables import provenances
from noiseworthy.studies.delivery import deliver
from noiseworthy.studies.label_mean import label_mean_of, said_of_label_mean, with_label_mean
from noiseworthy.studies.label_size import sized
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.plan_file import Planned, load_plan, planned
from noiseworthy.studies.prepare import Prepared, prepare
from noiseworthy.studies.record import load_record
from noiseworthy.studies.studies import train_in
from noiseworthy.studies.typed_record import view
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.trials.proxies import Proxy

from .test_deployed import Owners, simulated, spoiled
from .test_recovery import killed_after

N, MEAN = 3000, 41.0
GAUSSIAN = {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-5}
LAPLACE = {"privacy.mechanism": "laplace", "privacy.delta": 0.0, "privacy.epsilon": 5.0}


@pytest.fixture(autouse=True)
def patient_for_a_moment(monkeypatch):
    monkeypatch.setattr(correspondence, "_PAUSE", 0.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Scores far from 0: nearly all that there is to learn is one number."""
    draw = np.random.default_rng(0)
    age = draw.uniform(20, 80, N)
    score = (MEAN + 0.05 * (age - 50) + draw.normal(size=N)).clip(20, 80).round(3)
    table = pd.DataFrame({"age": age, "score": score, "town": np.resize(["a", "b", "c"], N)})
    place = tmp_path_factory.mktemp("scores")
    table.to_csv(place / "scores.csv", index=False)
    table.assign(score=np.abs(score - 40.5)).to_csv(place / "small.csv", index=False)
    return place


def made(folder: Path, changes: dict[str, object] | None = None) -> Prepared:
    tables: dict[str, dict[str, object]] = {
        "federation": {"data": str(folder / "scores.csv")},
        "columns": {
            "age": {"kind": "number", "range": [20, 80]},
            "score": {"role": "label", "range": [20, 80]},
            "town": {"role": "client"},
        },
        "privacy": {**GAUSSIAN},
        "algorithm": {"rounds": 6, "clients_per_round": 3},
        "planning": {"public": ["prior:0"], "seeds": 1},
        "training": {"seeds": [0]},
    }
    for key, value in (changes or {}).items():
        table, name = key.split(".")
        tables.setdefault(table, {})[name] = value
    return prepare(parse_study(tables))


def for_owners(folder: Path, changes: dict[str, object] | None = None) -> Prepared:
    return replace(made(folder, changes), deploys=True)


def exact(prepared: Prepared) -> float:
    """What is read where no noise is drawn."""
    how, (federation, _) = label_mean_of(prepared), prepared.trained()
    assert how is not None
    return how.combined({i: how.told(federation.y[i, :n]) for i, n in enumerate(prepared.sizes)})


@pytest.fixture(scope="module")
def plan(folder) -> Planned:
    return planned(made(folder))


@pytest.fixture(scope="module")
def deployed(folder) -> Planned:
    return planned(for_owners(folder))


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("noise", [{}, LAPLACE], ids=["gaussian", "laplace"])
def test_it_is_told_for_its_price_and_training_starts_at_it(folder, noise, relation):
    prepared = with_label_mean(made(folder, noise | {"privacy.relation": relation}))
    told, how = prepared.ranges, label_mean_of(prepared)
    assert told is not None
    assert how is not None
    assert told.label_mean == pytest.approx(MEAN, abs=5 * told.label_noise)
    assert told.label_noise == how.deviation == prepared.public_facts().label_noise
    ((release, times),) = told.parts
    currency = release.mechanism.law.paid_in.analysis
    assert times * currency.amount(release.shift) == pytest.approx(how.share * currency.whole(told.budget))
    left = currency.whole(prepared.problem(1.0).budget)
    assert left == pytest.approx((1 - how.share) * currency.whole(told.budget), rel=1e-6)
    task = prepared.task
    assert isinstance(task, LinearModel)
    start = np.asarray(task.initial(None))
    assert start[-1] * task.bias == pytest.approx(told.label_mean, rel=1e-6)
    assert not start[:-1].any()


def test_labels_that_are_known_to_be_small_are_kept_near_their_size(folder):
    """Of 100 in their range they are about 1, which their counts tell first: noise is that of the size."""
    wide = {
        "federation.data": str(folder / "small.csv"),
        "columns.score": {"role": "label", "range": [0, 100]},
    }
    before = sized(made(folder, wide))
    assert before.ranges is not None
    size = before.ranges.label_scale
    assert size is not None
    how = label_mean_of(before)
    assert how is not None
    assert (how.least, how.most) == (0, 4 * size)
    after = with_label_mean(before)
    assert after.ranges is not None
    assert len(after.ranges.parts) == 2
    assert after.ranges.label_mean == pytest.approx(exact(before), abs=5 * how.deviation)
    stated = label_mean_of(made(folder, {"planning.label_scale": 10.0}))
    assert stated is not None
    assert (stated.least, stated.most) == (20, 40)
    against = label_mean_of(
        made(folder, {"planning.label_scale": 2.0})
    )  # no label of the range is that small
    assert against is not None
    assert (against.least, against.most) == (20, 80)


def test_stand_ins_start_at_their_own_means_as_far_off_as_noise_puts_the_told_one(folder):
    facts, off = with_label_mean(made(folder)).public_facts(), []
    for source in ("prior:0", "prior:1", "diabetes-progression"):
        proxy = Proxy.of(facts, source)
        assert isinstance(proxy.task, LinearModel)
        off.append((proxy.task.start[0] - float(proxy.records.y.mean())) / facts.label_noise)
        variance = float(np.mean(np.square(proxy.records.test_y - proxy.task.start[0]))) / 2
        assert proxy.deal().untrained_loss == pytest.approx(variance, rel=0.3)
    assert np.abs(off) == pytest.approx([1, 1, 1], rel=1e-3)
    assert len(set(np.sign(off))) == 2
    plain = Proxy.of(made(folder).public_facts(), "prior:0").task
    assert isinstance(plain, LinearModel)
    assert plain.start == ()


STATED = {"privacy.clip_norm": 1.0, "algorithm.step_size": 1.0} | {
    f"algorithm.{one}": 0.0 for one in ("momentum", "averaging", "weighting", "steering")
}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"privacy.epsilon": 1e-2}, id="too much noise"),
        pytest.param({"privacy.trust": "secure-sum"}, id="sums alone are seen"),
        pytest.param({"privacy.relation": "add-remove", "privacy.sampling_rate": 0.5}, id="batches"),
        pytest.param({"task.bias": 0.0}, id="no intercept"),
        pytest.param({"columns.score": {"role": "label", "kind": "number"}}, id="no range"),
        pytest.param({"columns.score": {"role": "label", "classes": [20, 80]}}, id="classes"),
        pytest.param(STATED, id="no trials"),
    ],
)
def test_nothing_is_told_where_it_cannot_be_or_is_not_worth_it(folder, changes):
    if "classes" in str(changes):
        table = pd.read_csv(folder / "scores.csv").assign(score=np.resize([20, 80], N))
        table.to_csv(folder / "classes.csv", index=False)
        changes = {**changes, "federation.data": str(folder / "classes.csv")}
    prepared = made(folder, changes)
    assert with_label_mean(prepared) is prepared
    assert said_of_label_mean(prepared) == ()


def test_the_plan_spends_the_budget_says_so_and_its_file_holds_it(folder, plan):
    spent = plan.plan.spent() / plan.plan.budget.epsilon
    assert np.all((spent > 0.999) & (spent <= 1))
    assert np.all(replace(plan.plan, ranges=None).spent() < 0.999 * plan.plan.budget.epsilon)
    kept = load_plan(plan.file.save(folder))
    assert kept.digest == plan.file.digest
    again = kept.applied(made(folder))
    assert again.prepared.task == plan.prepared.task
    assert again.plan.ranges.label_mean == plan.plan.ranges.label_mean
    assert "the intercept starts at 4" in " ".join(plan.plan.notes)
    assert plan.plan.as_dict()["bought_label_mean"] == plan.plan.ranges.label_mean
    forged = replace(kept, plan=replace(kept.plan, ranges=replace(kept.plan.ranges, label_mean=30.0)))
    with pytest.raises(PlanError):
        forged.applied(made(folder))


@pytest.mark.full
def test_it_starts_there_where_a_study_states_how_records_are_treated(folder):
    """Nothing of `[task]` is decided then: the model is the study's own, but for its start."""
    task = {"model": "linear", "normalise": True, "feature_norm": 1.0, "bias": 1.0}
    stated = {f"task.{key}": value for key, value in task.items()}
    one = planned(made(folder, stated))
    assert one.prepared.study.task == made(folder, stated).study.task
    for plan in (one, one.file.applied(made(folder, stated))):
        assert isinstance(plan.prepared.task, LinearModel)
        assert plan.prepared.task.start == (one.plan.ranges.label_mean,)


@pytest.mark.full
def test_training_starts_there_and_books_and_papers_tell_it(folder, plan):
    run = folder / "run"
    train_in(plan, run, name="scores")
    record = load_record(run)
    (losses,) = record["training"]["loss"]
    assert losses[0] < 5.0  # of 1,681 at zero; the variance of the scores is 1.7
    with sqlite3.connect(run / "ledger.sqlite") as books:
        due = dict(
            books.execute("SELECT account, sum(share) FROM releases WHERE number = 0 GROUP BY account")
        )
        total = dict(books.execute("SELECT account, sum(share) FROM releases GROUP BY account"))
    how = label_mean_of(made(folder))
    size = plan.plan.ranges.label_scale is not None
    assert [share / WHOLE for share in due.values()] == pytest.approx([how.share + 0.05 * size] * 3, rel=1e-9)
    assert [share / WHOLE for share in total.values()] == pytest.approx([1.0] * 3, rel=1e-6)
    assert claim_card(record)["bought_label_mean"] == plan.plan.ranges.label_mean
    assert "Intercepts start at the mean of labels" in rests_on(view(record))
    assert any("mean of labels" in one for one in provenances(view(record)))
    told = json.dumps([vars(one) for one in privacy_statement(record)])
    assert "told the mean of the numbers to predict" in told
    assert "told the mean of the numbers to predict" in write_report(record, run).read_text()


@pytest.mark.full
def test_a_simulated_mean_is_not_deployed_and_owners_are_not_simulated(folder, plan, deployed):
    with pytest.raises(UnsoundClaim, match="was told in simulation"):
        Deployment.of(plan.prepared, plan.plan)
    with pytest.raises(PlanError, match="this is a simulation"):
        deployed.file.applied(made(folder))
    assert deployed.file.applied(for_owners(folder)).plan.ranges.pending


@pytest.mark.full
@pytest.mark.parametrize("noise", [{}, LAPLACE], ids=["gaussian", "laplace"])
def test_owners_tell_it_first_and_the_training_is_the_simulated_one(noise, folder, tmp_path, silent):
    """With no noise drawn: mean, theta, curves and uploads; books hold the mean, then the rounds."""
    one = planned(for_owners(folder, noise))
    assert one.plan.ranges.pending
    assert "the intercept starts at it, give or take" in " ".join(one.plan.notes)
    deployment = Deployment.of(one.prepared, one.plan)
    with Owners(deployment, tmp_path) as owners:
        deployment.check_owners([gateway.about for gateway in owners.opened.values()])
        done = train(deployment, owners.exchange(), tmp_path / "run")
        assert done.told.found["label_mean"] == pytest.approx(exact(one.prepared), abs=1e-4)
        twin = simulated(deployment.having_told(done.told.found))
        assert np.abs(done.trained.theta - twin.theta).max() < 1e-5 * np.abs(twin.theta).max()
        assert np.allclose(done.trained.loss, twin.loss[:, done.trained.rounds], rtol=1e-5)
        assert np.array_equal(done.trained.uploads, twin.uploads)
        share = label_mean_of(one.prepared).share
        for place, name in enumerate(deployment.federation.clients):
            numbers, paid = zip(*owners.rows(name), strict=True)
            assert numbers == tuple(range(1, 2 + twin.uploads[0, place]))
            assert paid[0] / WHOLE == pytest.approx(share, rel=1e-9)
            assert 1 - 1e-6 < sum(paid) / WHOLE <= 1
        abouts = [gateway.about for gateway in owners.opened.values()]
        now = one.having_told(done.deployment.prepared, done.deployment.plan)
        record = with_network(now.record("scores"), done, abouts, 1.0)
        record = deliver(now.prepared, done.trained.theta[0], record, [0], tmp_path / "run")
        assert record["plan"]["bought_label_mean"] == done.told.found["label_mean"]
        assert record["plan_digest"] == one.file.digest


def _asked(deployment: Deployment) -> Any:
    asking = asking_of(deployment, "one")
    theta = np.zeros(asking.model.dimension, np.float32)
    return asking.request(0, 0, theta, deadline=2e9, head=None, received=0)


def test_no_record_moves_an_answer_further_than_is_paid_for(deployed, tmp_path, silent):
    """Through the owner's own job: exchanges of a label for others, far and near, and for junk."""
    deployment = Deployment.of(deployed.prepared, deployed.plan)
    with Owners(deployment, tmp_path) as owners:
        gateway = owners.opened["a"]
        job = gateway.accepted(_asked(deployment)).job
        batch, (one,) = gateway.holding.batch(job.task), job.sums
        claimed, moved = one.release.sensitivity.value.item(), []
        before = job.upload(batch._replace(y=batch.y.at[0].set(-1e30)), ())[0].values
        for label in (1e30, np.inf, 80.0, 20.0, np.nan, 50.0):
            other = job.upload(batch._replace(y=batch.y.at[0].set(label)), ())[0].values
            moved.append(abs(other.item() - before.item()) / claimed)
    assert max(moved) <= 1
    assert moved == pytest.approx([1, 1, 1, 0, 0.5, 0.5], abs=1e-5)


def test_noise_of_an_answer_is_what_is_paid_for(deployed, tmp_path):
    """Of 4,000 draws the deviation is known to 1.2 %, of which four are allowed."""
    deployment = Deployment.of(deployed.prepared, deployed.plan)
    how = label_mean_of(deployment.prepared)
    with Owners(deployment, tmp_path) as owners:
        gateway = owners.opened["a"]
        job = gateway.accepted(_asked(deployment)).job
        batch = gateway.holding.batch(job.task)
        drawn = [job.upload(batch, ())[0].values.item() for _ in range(4000)]
    assert np.std(drawn) / how.release.mechanism.size[0] == pytest.approx(1, rel=0.048)


@pytest.mark.parametrize("answers", [1, 4], ids=["while it was told", "in round 1"])
def test_a_run_that_is_killed_goes_on_with_the_same_mean_and_pays_it_once(deployed, answers, tmp_path):
    deployment = Deployment.of(deployed.prepared, deployed.plan)
    with Owners(deployment, tmp_path) as owners:
        folder = tmp_path / "run"
        with pytest.raises(KeyboardInterrupt):
            train(deployment, spoiled(owners, killed_after(answers)), folder)
        done = train(deployment, owners.exchange(), folder, resume=True)
        assert done.told.found["label_mean"] == pytest.approx(MEAN, abs=5 * deployed.plan.ranges.label_noise)
        for place, name in enumerate(deployment.federation.clients):
            numbers = [number for number, _ in owners.rows(name)]
            assert numbers == [*range(1, 2 + done.trained.uploads[0, place])]
