"""Owners who sum over an exchange: the simulated training, void rounds under new numbers, rosters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noiseworthy.deploy import correspondence
from noiseworthy.deploy.deployed import train
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.exchange import Direct
from noiseworthy.deploy.gateway.gateway import Gateway
from noiseworthy.deploy.gateway.messages import Uploaded, read_reply
from noiseworthy.deploy.gateway.owner import load_owner
from noiseworthy.deploy.gateway.sums import Summed
from noiseworthy.deploy.owners import write_owner_files
from noiseworthy.deploy.rosters import collected, roster_of, write_roster
from noiseworthy.deploy.run_state import RunState
from noiseworthy.deploy.secure_sum.record import RoundRecord
from noiseworthy.errors import ConfigError, NoMoreReplies, TooFewReplies, UnsoundClaim
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.privacy.durable.accounts import WHOLE
from noiseworthy.privacy.trust import Trust

from .test_deployed import COINS, LOCAL, STUDY, deployment_of, simulated, with_algorithm

SUMS = 'trust = "secure-sum"\ncolluders = 0\ndropouts = 1\n[algorithm]'


def summing(text: str) -> str:
    return text.replace("[algorithm]", SUMS)


FORMS = {
    "gradients": summing(STUDY),
    "momentum, unlike budgets": summing(
        STUDY.replace("momentum = 0.0\naverag", "momentum = 0.5\naverag")
        .replace("weighting = 0.0", "weighting = 1.0")
        .replace("epsilon = 4.0", "epsilon = [4.0, 2.0, 3.0, 8.0]")
    ),
    "local steps": summing(with_algorithm(f'{LOCAL}4\nclipping_mode = "C"')),
    "updates": summing(with_algorithm(f'{LOCAL}4\nclipping_mode = "D"')),
    "control variates": summing(with_algorithm(COINS)),
}


@pytest.fixture(autouse=True)
def patient_for_a_moment(monkeypatch):
    monkeypatch.setattr(correspondence, "_PAUSE", 0.0)


@dataclass
class Owners:
    """Everybody's gateway, by the files that a deployment on one machine offers; a context that closes them."""

    deployment: Deployment
    folder: Path
    opened: dict[str, Gateway] = field(default_factory=dict)
    begun: list[int] = field(default_factory=list)

    def __enter__(self) -> Owners:
        self.files = write_owner_files(self.deployment, self.folder / "owners")
        self.opened = {name: Gateway.open(load_owner(path)) for name, path in self.files.items()}
        return self

    def __exit__(self, *_: object) -> None:
        for gateway in self.opened.values():
            gateway.close()

    def train(self, altered: Callable[[str, bytes], bytes] = lambda name, reply: reply, **options: Any):
        """A training in which replies are altered on their way."""

        def answering(name: str) -> Callable[[bytes], bytes]:
            return lambda data: altered(name, self.opened[name].answer(data))

        exchange = Direct({name: answering(name) for name in self.opened})
        options = {"patience": 0.3, "roster": roster_of(self.folder)} | options
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
def test_a_training_on_sums_is_the_simulated_one_and_spends_the_planned_budget(form, tmp_path, silent):
    deployment = deployment_of(FORMS[form])
    with Owners(deployment, tmp_path) as owners:
        run = owners.train(patience=60.0).trained
        twin = simulated(deployment)
        np.testing.assert_allclose(run.theta, twin.theta, rtol=0, atol=1e-5 * np.abs(twin.theta).max())
        assert np.array_equal(run.uploads, twin.uploads)
        for place, name in enumerate(deployment.federation.clients):
            assert len(owners.releases(name)) == twin.uploads[0, place]
            planned = deployment.plan.spent_part[place] if hasattr(deployment.plan, "spent_part") else None
            assert planned is None or owners.spent(name) == pytest.approx(planned, rel=1e-6)


def mute(names: list[str], where: Callable[[Summed, int], bool]) -> Callable[[str, bytes], bytes]:
    """Replies of some owners of which those are lost that `where` says, by their number at the owner."""
    count = dict.fromkeys(names, 0)

    def altered(name: str, reply: bytes) -> bytes:
        if name not in names or not isinstance(one := read_reply(reply), Summed):
            return reply
        count[name] += 1
        return b"" if where(one, count[name]) else reply

    return altered
