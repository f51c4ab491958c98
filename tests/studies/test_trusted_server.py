"""Trainings over an exchange whose server is trusted: it adds the noise of each sum to bare uploads, once."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from noiseworthy.deploy import deployed
from noiseworthy.deploy.asking import Asking
from noiseworthy.deploy.gateway.messages import Uploaded, read_reply
from noiseworthy.deploy.gateway.owner import load_owner
from noiseworthy.deploy.rosters import roster_of
from noiseworthy.errors import GatewayError, UnsoundClaim
from noiseworthy.methods.moments.algorithm import Moments
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.privacy.durable.accounts import LAST_BITS, WHOLE
from noiseworthy.studies.delivery import task_table
from noiseworthy.studies.typed_owners import OwnerPart

from .test_deployed import COINS, LOCAL, ONCE, STUDY, deployment_of, persons_of, simulated, with_algorithm
from .test_deployed_sums import Owners, patient_for_a_moment, silent

__all__ = ["patient_for_a_moment", "silent"]
UNLIKE = STUDY.replace("weighting = 0.0", "weighting = 1.0").replace(
    "epsilon = 4.0", "epsilon = [4.0, 2.0, 3.0, 8.0]"
)


def central(text: str) -> str:
    return text.replace("[algorithm]", 'trust = "central"\n[algorithm]')


def laplace(text: str) -> str:
    return text.replace("gaussian", "laplace").replace("delta = 1e-5", "delta = 0.0")


FORMS = {
    "momentum, unlike budgets": central(UNLIKE.replace("momentum = 0.0\naverag", "momentum = 0.5\naverag")),
    "one client in a round": central(STUDY.replace("clients_per_round = 4", "clients_per_round = 1")),
    "Laplace": central(laplace(UNLIKE)).replace("rounds = 5", "rounds = 2"),
    "local steps": central(with_algorithm(f'{LOCAL}4\nclipping_mode = "C"')),
    "control variates": central(with_algorithm(COINS)),
    "second moments": central(ONCE),
}


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
def test_a_training_with_a_trusted_server_is_the_simulated_one(form, tmp_path, silent, monkeypatch):
    """With noise zero, and the planned budgets spent; nobody needs a roster."""
    monkeypatch.setattr(Moments, "privatize", lambda self, state, update, client, key: update)
    deployment = deployment_of(FORMS[form])
    with Owners(deployment, tmp_path) as owners:
        run = owners.train(patience=60.0, roster=None).trained
        twin = simulated(deployment)
        within = 5e-5 if form == "second moments" else 1e-5
        np.testing.assert_allclose(run.theta, twin.theta, rtol=0, atol=within * np.abs(twin.theta).max())
        assert np.array_equal(run.uploads, twin.uploads)
        spent = [owners.spent(name) for name in deployment.federation.clients]
        assert 0.999 < max(spent) <= 1 + LAST_BITS / WHOLE


@pytest.mark.parametrize("trust", ["secure-sum", "central"])
def test_persons_hide_each_other_too(trust, tmp_path, silent):
    deployment = persons_of(tmp_path, trust)
    with Owners(deployment, tmp_path) as owners:
        roster = roster_of(tmp_path) if trust == "secure-sum" else None
        run, twin = owners.train(patience=60.0, roster=roster).trained, simulated(deployment)
        np.testing.assert_allclose(run.theta, twin.theta, rtol=0, atol=1e-5 * np.abs(twin.theta).max())
        assert 0.999 < max(owners.spent(name) for name in owners.opened) <= 1 + LAST_BITS / WHOLE


def test_the_noise_of_a_training_is_that_of_the_planned_sums(tmp_path):
    """640 numbers, two-sided: one run of a million fails by chance; owners' shares on top would be seen."""
    text = FORMS["momentum, unlike budgets"].replace("breast-cancer", "digits").replace("logistic", "softmax")
    one = text.replace("rounds = 5", "rounds = 1").replace("[4.0, 2.0, 3.0, 8.0]", "[0.1, 0.2, 0.1, 0.3]")
    deployment = deployment_of(one)
    with Owners(deployment, tmp_path) as owners:
        moved = owners.train(patience=60.0, roster=None).trained.theta - simulated(deployment).theta
    assert deployment.plan.sum_noise is not None
    scale = deployment.plan.step.initial * deployment.plan.sum_noise
    assert 5e-7 < stats.chi2.cdf(float(np.sum(np.square(moved / scale))), moved.size) < 1 - 5e-7
    assert moved.size == 640


def test_who_is_missing_takes_no_noise_along(tmp_path):
    """The noise of the sum is added whole: what is left of it after the mean of fewer owners is larger."""
    text = FORMS["momentum, unlike budgets"].replace("breast-cancer", "digits").replace("logistic", "softmax")
    one = text.replace("rounds = 5", "rounds = 1").replace("[4.0, 2.0, 3.0, 8.0]", "[0.1, 0.2, 0.1, 0.3]")
    deployment = deployment_of(one)
    plan = deployment.plan
    runs: list[Any] = []
    for quiet in (False, True):
        with Owners(deployment, tmp_path / str(quiet)) as owners, pytest.MonkeyPatch.context() as patch:
            if quiet:
                patch.setattr(DeployedNoise, "added_to", lambda self, total: total)
            told = owners.train(without_client_3, roster=None)
            runs.append(told.trained.theta)
    there = 1 - plan.weights[3]
    scale = plan.step.initial * plan.sum_noise / there
    squares = float(np.sum(np.square((runs[0] - runs[1]) / scale)))
    assert 5e-7 < stats.chi2.cdf(squares, runs[0].size) < 1 - 5e-7


def without_client_3(name: str, reply: bytes) -> bytes:
    return b"" if name == "client 3" and isinstance(read_reply(reply), Uploaded) else reply


def test_owners_files_on_one_machine_say_that_the_server_is_trusted_and_one_that_does_not_is_named(tmp_path):
    deployment = deployment_of(FORMS["momentum, unlike budgets"])
    with Owners(deployment, tmp_path) as owners:
        assert all(load_owner(path).allowed.server_adds_noise for path in owners.files.values())
        abouts = [gateway.about for gateway in owners.opened.values()]
        deployment.check_owners(abouts)
        kept = [OwnerPart.model_validate(json.loads(about.model_dump_json())) for about in abouts]
        assert all(one.server_adds_noise for one in kept)
        shy = abouts[2].model_copy(update={"server_adds_noise": False})
        with pytest.raises(GatewayError, match=r"client 2 has no \[allowed\] server_adds_noise"):
            deployment.check_owners([*abouts[:2], shy, abouts[3]])


class Killed(BaseException):
    """The server dies."""


def test_a_server_that_died_in_a_round_gets_none_of_its_uploads_a_second_time(tmp_path, monkeypatch):
    """It draws noise anew, so the same upload would be released twice for one price."""
    deployment, left = deployment_of(FORMS["momentum, unlike budgets"]), []
    with Owners(deployment, tmp_path) as owners:

        def noted(name: str, reply: bytes) -> bytes:
            one = read_reply(reply)
            if isinstance(one, Uploaded):
                left.append((name, one.release))
            return reply

        sound = deployed.train_remotely

        def dying(algorithm, asking, letters, terms, **how):
            plain = how["on_round"]

            def killed(reached, done):
                if reached.round == 2:
                    raise Killed
                plain(reached, done)

            return sound(algorithm, asking, letters, terms, **how | {"on_round": killed})

        with monkeypatch.context() as patch:
            patch.setattr(deployed, "train_remotely", dying)
            with pytest.raises(Killed):
                owners.train(noted, roster=None)
        done = owners.train(noted, roster=None, resume=True)
        assert len(left) == len(set(left))
        assert max(release for _, release in left) == 5
        assert done.trained.rounds[-1] == 5
        assert done.told.ahead
        assert all(owners.spent(name) <= 1 + LAST_BITS / WHOLE for name in owners.opened)


def test_a_server_adds_no_noise_to_what_was_not_planned_for_sums():
    deployment = deployment_of(FORMS["momentum, unlike budgets"])
    plan = replace(deployment.plan, release=replace(deployment.plan.release, sharing=None))
    nobody = np.zeros(4, np.int64)
    asking = Asking(
        "run", plan, task_table(deployment.prepared), deployment.task, np.zeros((1, 4), int), nobody
    )
    with pytest.raises(UnsoundClaim, match="planned for sums alone"):
        asking.noise_of_sum(0)
