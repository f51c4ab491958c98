"""Owners who sum over an exchange: the simulated training, void rounds under new numbers, rosters."""

from __future__ import annotations

import json
import resource
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from direct import Direct
from scipy import stats

from noiseworthy.deploy import correspondence
from noiseworthy.deploy.deployed import check_approved, train
from noiseworthy.deploy.deployment import Deployment, check_trust
from noiseworthy.deploy.gateway import wire
from noiseworthy.deploy.gateway.gateway import Gateway
from noiseworthy.deploy.gateway.messages import pack_reply, read_reply
from noiseworthy.deploy.gateway.owner import load_owner
from noiseworthy.deploy.gateway.sums import Summed
from noiseworthy.deploy.owners import write_owner_files
from noiseworthy.deploy.rosters import roster_of
from noiseworthy.deploy.run_state import RunState
from noiseworthy.deploy.secure_sum.record import RoundRecord
from noiseworthy.deploy.sum_rounds import MOST_VOID
from noiseworthy.errors import ConfigError, GatewayError, NoMoreReplies, TooFewReplies, UnsoundClaim
from noiseworthy.methods.moments.algorithm import Moments
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.privacy.durable import Charge
from noiseworthy.privacy.durable.accounts import LAST_BITS, WHOLE
from noiseworthy.privacy.trust import Trust
from noiseworthy.studies.typed_owners import OwnerPart

from .test_deployed import COINS, LOCAL, ONCE, STUDY, deployment_of, simulated, with_algorithm

SUMS = 'trust = "secure-sum"\ncolluders = 0\ndropouts = 1\n[algorithm]'


Altering = Callable[[str, bytes], bytes]


def summing(text: str) -> str:
    return text.replace("[algorithm]", SUMS)


FORMS = {
    "momentum, unlike budgets": summing(
        STUDY.replace("momentum = 0.0\naverag", "momentum = 0.5\naverag")
        .replace("weighting = 0.0", "weighting = 1.0")
        .replace("epsilon = 4.0", "epsilon = [4.0, 2.0, 3.0, 8.0]")
    ),
    "local steps": summing(with_algorithm(f'{LOCAL}4\nclipping_mode = "C"')),
    "control variates": summing(with_algorithm(COINS)),
    "second moments": summing(ONCE),
}


@pytest.fixture(autouse=True)
def patient_for_a_moment(monkeypatch):
    monkeypatch.setattr(correspondence, "_PAUSE", 0.0)


@dataclass
class Owners:
    """Everybody's gateway, by the files that a deployment offers on one machine; closes them."""

    deployment: Deployment
    folder: Path
    opened: dict[str, Gateway] = field(default_factory=dict)

    def __enter__(self) -> Owners:
        self.files = write_owner_files(self.deployment, self.folder / "owners")
        self.opened = {name: Gateway.open(load_owner(path)) for name, path in self.files.items()}
        return self

    def __exit__(self, *_: object) -> None:
        for gateway in self.opened.values():
            gateway.close()

    def train(self, altered: Altering = lambda name, reply: reply, **options: Any):
        """A training in which replies are altered on their way."""

        def answering(name: str) -> Callable[[bytes], bytes]:
            return lambda data: altered(name, self.opened[name].answer(data))

        exchange = Direct({name: answering(name) for name in self.opened})
        options = {"patience": 1.5, "roster": roster_of(self.folder)} | options
        return train(self.deployment, exchange, self.folder / "run", **options)

    def releases(self, name: str) -> list[int]:
        return [number for (number,) in self.opened[name].ledger.query("SELECT number FROM releases")]

    def spent(self, name: str) -> float:
        return self.opened[name].runs.spent / WHOLE


@pytest.fixture
def silent(monkeypatch) -> None:
    monkeypatch.setattr(DeployedNoise, "added_to", lambda self, total: total)


@pytest.fixture
def numbers(monkeypatch) -> list[int]:
    """Numbers of the rounds that owners began, in order."""
    begun, plain = [], RoundRecord.begin

    def noted(self, owner, terms):
        plain(self, owner, terms)
        begun.append(terms.round)

    monkeypatch.setattr(RoundRecord, "begin", noted)
    return begun


@pytest.mark.parametrize("form", FORMS)
def test_a_training_on_sums_is_the_simulated_one_and_spends_the_planned_budget(
    form, tmp_path, silent, monkeypatch
):
    """Second moments to a few steps of float32: a ridge is solved with them."""
    monkeypatch.setattr(Moments, "privatize", lambda self, state, update, client, key: update)
    within = 5e-5 if form == "second moments" else 1e-5
    deployment = deployment_of(FORMS[form])
    with Owners(deployment, tmp_path) as owners:
        run = owners.train(patience=60.0).trained
        twin = simulated(deployment)
        np.testing.assert_allclose(run.theta, twin.theta, rtol=0, atol=within * np.abs(twin.theta).max())
        assert np.array_equal(run.uploads, twin.uploads)
        for place, name in enumerate(deployment.federation.clients):
            assert len(owners.releases(name)) == twin.uploads[0, place]
        spent = [owners.spent(name) for name in deployment.federation.clients]
        assert 0.999 < max(spent) <= 1 + LAST_BITS / WHOLE


def kind_of(reply: bytes) -> str:
    """The step of a secure sum that a reply belongs to; empty for other replies."""
    one = read_reply(reply)
    if not isinstance(one, Summed):
        return ""
    told = wire.unpack(one.message)
    return "upload" if "words" in told else wire.unpack(told["content"])["kind"]


def losing(names: set[str], kind: str, numbers: list[int], lost: set[int]) -> Altering:
    """Replies of a kind are lost, of some owners in the sums of some numbers."""

    def altered(name: str, reply: bytes) -> bytes:
        if name in names and kind_of(reply) == kind and numbers[-1] in lost:
            raise GatewayError("lost on its way")
        return reply

    return altered


def never_again(numbers: list[int]) -> bool:
    """Whether no number was begun by an owner twice; owners begin in turns, a sum at a time."""
    counts = Counter(numbers)
    return sorted(numbers) == numbers and max(counts.values()) <= 4


SHORT = summing(STUDY).replace("rounds = 5", "rounds = 3")
FIRST_TWO = {"client 0", "client 1"}


def test_a_void_round_is_charged_and_asked_again_under_a_new_number_with_new_releases(
    tmp_path, silent, numbers
):
    """Two of four uploads are lost in the first sum; what was planned ends one round earlier for it."""
    deployment = deployment_of(SHORT)
    with Owners(deployment, tmp_path) as owners:
        done = owners.train(losing(FIRST_TWO, "upload", numbers, {1}), patience=1.5)
        twin = simulated(deployment)
        assert [one.number for one in done.told.rounds] == [0, 1]
        for place, scored in enumerate(done.trained.rounds):
            assert done.trained.loss[0, place] == pytest.approx(twin.loss[0, scored], abs=1e-5)
        assert "round 3, sum" in done.told.ended
        assert "this round can never be made" in done.told.ended
        for name in owners.opened:
            assert owners.releases(name) == [1, 2, 3]
            assert owners.spent(name) <= 1 + LAST_BITS / WHOLE
        assert done.trained.uploads.tolist() == [[3, 3, 3, 3]]
    assert never_again(numbers)
    assert done.told.sums >= max(numbers)


def test_an_owner_without_secure_sums_is_named_before_any_round(tmp_path):
    """By what it tells when it is greeted: no table, more colluders, no shared noise, another roster."""
    deployment = deployment_of(SHORT)
    with Owners(deployment, tmp_path) as owners:
        abouts = [read_reply(pack_reply(gateway.about)) for gateway in owners.opened.values()]
        roster = roster_of(tmp_path)
        deployment.check_owners(abouts)
        check_approved(roster, abouts)
        digest = abouts[3].sums[0]
        kept = [OwnerPart.model_validate(json.loads(about.model_dump_json())) for about in abouts]
        assert [one.sums for one in kept] == 4 * [(digest, 0, True)]
        assert digest == roster.digest
        for sums, why in (
            (None, r"client 3 has no \[secure_sum\], and by the plan owners sum"),
            ((digest, 1, True), r"client 3 has \[secure_sum\] colluders 1, the plan withstands 0"),
            ((digest, 0, False), r"client 3 has \[secure_sum\] without share_noise"),
        ):
            told = [*abouts[:3], abouts[3].model_copy(update={"sums": sums})]
            with pytest.raises(GatewayError, match=why):
                deployment.check_owners(told)
        told = [*abouts[:3], abouts[3].model_copy(update={"sums": ("0" * 64, 0, True)})]
        with pytest.raises(GatewayError, match="client 3 approved a roster with the digest 0000"):
            check_approved(roster, told)
    plain = deployment_of(STUDY.replace("rounds = 5", "rounds = 3"))
    plain.check_owners([about.model_copy(update={"sums": None}) for about in abouts])


@pytest.mark.parametrize("first", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_run_ends_after_three_void_sums_of_a_round_and_spends_no_more(first, tmp_path, silent, numbers):
    """With the model of the rounds before, or by saying that there is none; the plan has releases left."""
    deployment = deployment_of(summing(STUDY))
    every = set(range(first, 99))
    with Owners(deployment, tmp_path) as owners:
        if first == 1:
            with pytest.raises(NoMoreReplies, match=r"3 sums of it were void .* no model can come of it"):
                owners.train(losing(FIRST_TWO, "upload", numbers, every), patience=1.5)
        else:
            done = owners.train(losing(FIRST_TWO, "upload", numbers, every), patience=1.5)
            assert [one.number for one in done.told.rounds] == [0]
            assert done.told.ended.startswith("round 2: 3 sums of it were void after owners had paid")
            assert done.told.ended.endswith("its model is that of the 1 round before")
            assert done.trained.loss[0, -1] == pytest.approx(simulated(deployment).loss[0, 1], abs=1e-5)
        paid = [*range(1, first + MOST_VOID)]
        assert {name: owners.releases(name) for name in owners.opened} == dict.fromkeys(owners.opened, paid)
        assert all(gateway.about.leased == 0 for gateway in owners.opened.values())


def test_a_round_with_too_few_owners_costs_nothing_and_a_resumed_run_counts_on(tmp_path, silent, numbers):
    deployment = deployment_of(SHORT)
    with Owners(deployment, tmp_path) as owners:
        with pytest.raises(
            TooFewReplies, match=r"round 2, sum 2: 2 of 4 owners .*go on with --resume"
        ) as told:
            owners.train(losing(FIRST_TWO, "keys", numbers, {2}))
        assert not isinstance(told.value, NoMoreReplies)
        assert all(owners.releases(name) == [1] for name in owners.opened)
        assert RunState.kept_in(tmp_path / "run").sums == 2
        run = owners.train(resume=True).trained
        twin = simulated(deployment)
        np.testing.assert_allclose(run.theta, twin.theta, rtol=0, atol=1e-5 * np.abs(twin.theta).max())
        assert all(owners.releases(name) == [1, 2, 3] for name in owners.opened)
    assert sorted(set(numbers)) == [1, 2, 3, 4]
    assert never_again(numbers)


class Killed(BaseException):
    """The server's process."""


def test_a_server_that_died_in_a_sum_uses_neither_its_number_nor_its_releases_again(
    tmp_path, silent, numbers
):
    """All four had paid for round 2, and two had signed its list."""

    def dies(name: str, reply: bytes) -> bytes:
        if kind_of(reply) == "survivors" and numbers[-1] == 2 and name == "client 2":
            raise Killed
        return reply

    deployment = deployment_of(SHORT)
    with Owners(deployment, tmp_path) as owners:
        with pytest.raises(Killed):
            owners.train(dies)
        before = list(numbers)
        done = owners.train(resume=True)
        assert [one.number for one in done.told.rounds] == [0, 1]
        assert "can never be made" in done.told.ended
        assert all(owners.releases(name) == [1, 2, 3] for name in owners.opened)
    assert min(numbers[len(before) :]) > max(before)


@pytest.mark.full
def test_a_sum_goes_on_without_the_owner_that_it_provides_for(tmp_path, silent, numbers):
    """The others stand for it; waited for once, it is only asked whether it is there again."""
    deployment = deployment_of(SHORT)
    with Owners(deployment, tmp_path) as owners:
        done = owners.train(lambda name, reply: b"" if name == "client 3" and numbers else reply)
        assert done.told.ended == ""
        for one in done.told.rounds:
            assert {name for name, why in one.answers.items() if why} == {"client 3"}
        assert done.told.received == dict.fromkeys(["client 0", "client 1", "client 2"], 3)


def test_an_owner_who_is_behind_by_several_releases_catches_up(tmp_path, silent, numbers):
    """It paid for three others in this run that nobody knows of, and has one of five left."""
    deployment = deployment_of(summing(STUDY))
    with Owners(deployment, tmp_path) as owners:
        told = RunState.nothing()
        ahead = owners.opened["client 3"]
        number = ahead.ledger.begin(told.run)
        ahead.ledger.reserve(number, [Charge(ahead.number, k, 1) for k in (1, 2, 3)])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RunState, "nothing", lambda: told)
            done = owners.train(patience=60.0)
    answers = [one.answers["client 3"] for one in done.told.rounds]
    assert answers[0].startswith("conflict: ")
    assert answers[1:3] == ["", ""]
    assert done.told.ahead == {"client 3": 2}


def test_the_noise_of_a_training_on_sums_is_that_of_all_survivors(tmp_path):
    """640 numbers, two-sided: one run of a million fails by chance; three shares or five would be seen."""
    text = SHORT.replace("breast-cancer", "digits").replace("logistic", "softmax")
    deployment = deployment_of(
        text.replace("rounds = 3", "rounds = 1").replace("epsilon = 4.0", "epsilon = 0.1")
    )
    with Owners(deployment, tmp_path) as owners:
        moved = owners.train(patience=60.0).trained.theta - simulated(deployment).theta
    plan = deployment.plan
    parts = plan.weights * plan.noise
    scale = 2.0 * np.sqrt(np.sum(np.square(parts)))
    assert 5e-7 < stats.chi2.cdf(float(np.sum(np.square(moved / scale))), moved.size) < 1 - 5e-7
    assert moved.size == 640


def test_laplace_shares_and_secret_cohorts_are_not_deployed():
    plan = deployment_of(SHORT).plan
    for changed, why in (
        (replace(plan.problem, trust=Trust("central", cohorts="secret")), 'cohorts = "secret" is simulated'),
        (
            replace(plan.problem, family="laplace", budget=replace(plan.budget, delta=np.zeros(4))),
            "laplace noise in sums is simulated and not deployed",
        ),
    ):
        with pytest.raises(UnsoundClaim, match=why):
            check_trust(replace(plan, problem=changed))


def digest_in(place: Path) -> str:
    roster = roster_of(place)
    return "" if roster is None else roster.digest


def test_owners_get_keys_and_one_roster_that_stays_theirs(tmp_path):
    deployment = deployment_of(SHORT)
    files = write_owner_files(deployment, tmp_path / "owners")
    text = {name: path.read_text() for name, path in files.items()}
    digest = digest_in(tmp_path)
    for path in files.values():
        table = load_owner(path).secure_sum
        assert (table.digest, table.colluders, table.share_noise) == (digest, 0, True)
        assert (path.parent / "signing").stat().st_mode & 0o777 == 0o600
    assert write_owner_files(deployment, tmp_path / "owners") == files
    assert (digest_in(tmp_path), {one: path.read_text() for one, path in files.items()}) == (digest, text)
    (tmp_path / "roster.toml").unlink()
    with pytest.raises(ConfigError, match=r"roster of the deployment lacks client 0, .*deploy roster"):
        train(deployment, Direct({}), tmp_path / "run", roster=roster_of(tmp_path))
    old = files["client 2"]
    old.write_text(old.read_text().split("[secure_sum]")[0])
    with pytest.raises(ConfigError, match=r"owner.toml has no \[secure_sum\]"):
        write_owner_files(deployment, tmp_path / "owners")


def test_an_owner_whose_signing_key_a_full_disk_cut_short_gets_one_afterwards(tmp_path):
    deployment, most = deployment_of(SHORT), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (120, most[1]))  # room for what is public of a key
    try:
        with pytest.raises(OSError, match="File too large"):
            write_owner_files(deployment, tmp_path / "owners")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    files = write_owner_files(deployment, tmp_path / "owners")
    assert digest_in(tmp_path) == load_owner(files["client 0"]).secure_sum.digest
