"""Owners at the end of an exchange tell their mean before round 1: as simulated, paid for once, resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noiseworthy.deploy import correspondence
from noiseworthy.deploy.deployed import final_model, train, with_network
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.gateway.messages import Uploaded, read_reply
from noiseworthy.deploy.telling import asking_of
from noiseworthy.errors import GatewayError, NoMoreReplies, PlanError, TooFewReplies, UnsoundClaim
from noiseworthy.model.folder import load_folder
from noiseworthy.privacy.durable.accounts import WHOLE
from noiseworthy.privacy.means import SHARE, MeanRelease
from noiseworthy.reports.claim_card import claim_card
from noiseworthy.reports.html import write_report
from noiseworthy.studies.centring import mean_release
from noiseworthy.studies.delivery import deliver
from noiseworthy.studies.plan_file import Planned, load_plan, planned
from noiseworthy.studies.prepare import Prepared
from noiseworthy.tasks.names import MEAN

from .test_centring import LAPLACE, folder, made  # noqa: F401
from .test_deployed import Owners, simulated, spoiled
from .test_recovery import killed_after


@pytest.fixture(autouse=True)
def patient_for_a_moment(monkeypatch):
    monkeypatch.setattr(correspondence, "_PAUSE", 0.0)


def for_owners(folder: Path, changes: dict[str, object] | None = None) -> Prepared:  # noqa: F811
    return replace(made(folder, changes), deploys=True)


@pytest.fixture(scope="module")
def plan(folder) -> Planned:  # noqa: F811
    return planned(for_owners(folder))


@pytest.fixture(scope="module")
def deployment(plan) -> Deployment:
    return Deployment.of(plan.prepared, plan.plan)


@pytest.fixture
def owners(deployment, tmp_path) -> Any:
    with Owners(deployment, tmp_path) as owners:
        yield owners


def told_exactly(deployment: Deployment, how: MeanRelease, there: list[int]) -> tuple[Any, Any]:
    """What is read where noise is planned and none is drawn, from some owners."""
    federation = deployment.federation
    answers = {
        i: how.told(federation.x[i, : federation.sizes[i]], federation.y[i, : federation.sizes[i]])
        for i in there
    }
    return how.combined(answers)


def test_a_plan_for_owners_leaves_the_mean_open_and_charges_it(plan):
    assert plan.prepared.study.task.reference == [MEAN]
    assert plan.plan.ranges.pending
    spent = plan.plan.spent() / plan.plan.budget.epsilon
    assert np.all((spent > 0.999) & (spent <= 1))
    assert "bought_mean" not in plan.plan.as_dict()
    assert any("Every client tells the mean of its records" in one for one in plan.plan.notes)


@pytest.mark.full
@pytest.mark.parametrize("noise", [{}, LAPLACE], ids=["gaussian", "laplace"])
def test_the_training_is_the_simulated_one_from_what_owners_told(noise, folder, tmp_path, silent):  # noqa: F811
    """With no noise drawn: mean, shares, theta, curves and uploads; books hold the mean, then the rounds."""
    one = planned(for_owners(folder, noise))
    deployment = Deployment.of(one.prepared, one.plan)
    with Owners(deployment, tmp_path) as owners:
        deployment.check_owners([gateway.about for gateway in owners.opened.values()])
        done = train(deployment, owners.exchange(), tmp_path / "run")
        mean, shares = told_exactly(deployment, mean_release(deployment.prepared), [0, 1, 2])
        assert done.told.found
        assert done.told.found["mean"] == pytest.approx(mean, abs=1e-5)
        assert done.told.found["class_shares"] == pytest.approx(shares, abs=1e-5)
        twin = simulated(deployment.having_told(done.told.found))
        assert np.abs(done.trained.theta - twin.theta).max() < 1e-5 * np.abs(twin.theta).max()
        assert np.allclose(done.trained.loss, twin.loss[:, done.trained.rounds], atol=1e-5)
        assert np.array_equal(done.trained.uploads, twin.uploads)
        for place, name in enumerate(deployment.federation.clients):
            numbers, paid = zip(*owners.rows(name), strict=True)
            assert numbers == tuple(range(1, 2 + twin.uploads[0, place]))
            assert paid[0] / WHOLE == pytest.approx(SHARE, rel=1e-9)
            assert 1 - 1e-6 < sum(paid) / WHOLE <= 1


def test_noise_of_the_answers_is_what_is_paid_for(deployment, owners, tmp_path):
    """Of three owners 40 times 8 numbers each: the deviation is known to 2.3 %, of which four are allowed."""
    how, drawn = mean_release(deployment.prepared), []
    federation = deployment.federation
    for i, gateway in enumerate(owners.opened.values()):
        job = asking_of(deployment, "one").job(i, request := _asked(deployment, i))
        batch = gateway.holding.batch(gateway.task(request.task))
        true = how.told(federation.x[i, : federation.sizes[i]], federation.y[i, : federation.sizes[i]])
        noised = [job.upload(batch, ())[0].values for _ in range(40)]
        drawn.append((np.array(noised) - true) / how.release.mechanism.size[i])
    assert np.std(drawn) == pytest.approx(1, rel=0.092)


def _asked(deployment: Deployment, client: int) -> Any:
    asking = asking_of(deployment, "one")
    theta = np.zeros(asking.model.dimension, np.float32)
    return asking.request(client, 0, theta, deadline=2e9, head=None, received=0)


def test_no_record_moves_an_answer_further_than_is_paid_for(deployment, owners, silent):
    """Of one owner, through its own job: exchanges of a record for others, of either class, and for junk."""
    gateway, request = owners.opened["a"], _asked(deployment, 0)
    job = gateway.accepted(request).job
    batch, (one,) = gateway.holding.batch(job.task), job.sums
    claimed, furthest = one.release.sensitivity.value.item(), 0.0
    before = job.upload(batch._replace(x=batch.x.at[0].set(1.0), y=batch.y.at[0].set(0)), ())[0].values
    for record, label in [(-1.0, 1), (-1e30, 1), (np.nan, 1), (np.inf, 0), (0.0, 1), (1e-30, 0)]:
        other = batch._replace(x=batch.x.at[0].set(record), y=batch.y.at[0].set(label))
        furthest = max(furthest, np.linalg.norm(job.upload(other, ())[0].values - before))
    assert furthest <= claimed
    assert furthest == pytest.approx(claimed, rel=1e-4)


def release_1(data: bytes) -> bool:
    """Whether an answer is that of the mean."""
    reply = read_reply(data)
    return isinstance(reply, Uploaded) and reply.release == 1


@pytest.mark.parametrize("answers", [1, 2, 4], ids=["while it was told", "after two told", "in round 1"])
def test_a_run_that_is_killed_goes_on_with_the_same_mean_and_pays_it_once(deployment, answers, tmp_path):
    seen: list[tuple[str, bytes]] = []

    def noted(owner: str, before: int, data: bytes) -> list[bytes | None]:
        seen.extend([(owner, data)] if release_1(data) else [])
        return [data]

    with Owners(deployment, tmp_path) as owners:
        with pytest.raises(KeyboardInterrupt):
            train(deployment, spoiled(owners, killed_after(answers, noted)), tmp_path / "run")
        done = train(deployment, spoiled(owners, noted), tmp_path / "run", resume=True)
        assert len(seen) >= 3
        assert len({data for _, data in seen}) == len(dict(seen)) == 3
        for place, name in enumerate(deployment.federation.clients):
            numbers, paid = zip(*owners.rows(name), strict=True)
            assert numbers == tuple(range(1, 2 + done.trained.uploads[0, place]))
            assert sum(paid) <= WHOLE


def test_an_owner_that_is_missing_is_left_out_and_the_noise_is_larger(deployment, tmp_path, silent):
    with Owners(deployment, tmp_path) as owners:
        lost = spoiled(owners, lambda owner, _, data: [None if owner == "b" and release_1(data) else data])
        done = train(deployment, lost, tmp_path / "run", patience=3.0)
        how = mean_release(deployment.prepared)
        (mean, _), (everybody, _) = (told_exactly(deployment, how, there) for there in ([0, 2], [0, 1, 2]))
        assert done.told.found
        assert done.told.found["mean"] == pytest.approx(mean, abs=1e-5)
        assert np.linalg.norm(mean) < np.linalg.norm(everybody)  # of more noise less is left


@pytest.mark.full
def test_too_few_answers_begin_no_training_and_it_goes_on_once_they_come(deployment, tmp_path):
    with Owners(deployment, tmp_path) as owners:
        silent_two = spoiled(owners, lambda owner, before, data: [data] if owner == "a" else [None])
        with pytest.raises((TooFewReplies, NoMoreReplies), match="round 0: 1 of 3 owners answered, 2 must"):
            train(deployment, silent_two, tmp_path / "run", patience=2.0)
        done = train(deployment, owners.exchange(), tmp_path / "run", resume=True)
        assert len(done.told.rounds) == done.deployment.plan.rounds


@pytest.mark.full
def test_record_and_report_hold_what_was_told_and_owners_keep_the_model(plan, deployment, tmp_path):
    with Owners(deployment, tmp_path) as owners:
        plan.file.save(tmp_path / "run")
        done = train(deployment, owners.exchange(), tmp_path / "run")
        now = plan.having_told(done.deployment.prepared, done.deployment.plan)
        abouts = [gateway.about for gateway in owners.opened.values()]
        record = with_network(now.record("far"), done, abouts, 1.0)
        record = deliver(now.prepared, done.trained.theta[0], record, [0], tmp_path / "run")
        assert record["plan_digest"] == plan.file.digest
        assert record["plan"]["bought_mean"] == done.told.found["mean"]
        assert claim_card(record)["bought_class_shares"] == done.told.found["class_shares"]
        assert "told the mean of its records" in write_report(record, tmp_path / "run").read_text()
        kept = load_plan(tmp_path / "run" / "plan-seed-0.json")
        assert kept.plan.ranges.mean == tuple(done.told.found["mean"])
        offer = final_model(done.told.run, load_folder(tmp_path / "run"))
        assert correspondence.delivered(owners.exchange(), list(owners.opened), offer, 5.0) == {}
        assert done.trained.accuracy[0, -1] > 0.8


def test_what_is_offered_to_owners_allows_the_mean_and_nothing_beyond(deployment):
    demand = deployment.demand_of("a")
    assert demand.algorithms == ("fedsgd-dpc", "mean")
    assert demand.releases == int(deployment.plan.uploads[0]) + 1


def test_the_floor_of_many_rounds_is_the_noise_of_the_mean(folder):  # noqa: F811
    """A tenth of the budget for one release, where forty have the rest: owners' floors must let it pass."""
    one = planned(for_owners(folder, {"algorithm.rounds": 40}))
    many, release = Deployment.of(one.prepared, one.plan), mean_release(one.prepared).release
    assert many.demand_of("a").noise == pytest.approx(1 / release.shift[0])
    assert many.plan.release is not None
    assert many.plan.release.shift[0] < release.shift[0]


def test_an_owner_that_allows_no_mean_is_named_before_anything_is_asked(deployment, owners):
    abouts = [gateway.about for gateway in owners.opened.values()]
    abouts[1] = abouts[1].model_copy(update={"algorithms": ["fedsgd-dpc"]})
    with pytest.raises(GatewayError, match="b does not allow algorithms mean"):
        deployment.check_owners(abouts)


@pytest.mark.full
def test_a_plan_for_owners_trains_in_no_simulation_and_a_simulated_mean_is_not_deployed(plan, folder):  # noqa: F811
    with pytest.raises(PlanError, match="has owners tell their mean once a deployment begins"):
        plan.file.applied(made(folder))
    assert plan.file.applied(for_owners(folder)).plan.ranges.pending
    simulated = planned(made(folder))
    with pytest.raises(UnsoundClaim, match="was told in simulation; leave --plan out"):
        Deployment.of(simulated.prepared, simulated.plan)
