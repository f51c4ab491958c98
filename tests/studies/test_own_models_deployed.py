"""A model of the study's own at its owners: each runs its own copy, approved by the digest of its source."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from direct import Direct

import noiseworthy as nw
from noiseworthy.deploy import correspondence
from noiseworthy.deploy.asking import Asking
from noiseworthy.deploy.deployed import train
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.gateway.client import packed
from noiseworthy.deploy.gateway.gateway import Gateway
from noiseworthy.deploy.gateway.messages import Refused, Uploaded, read_reply
from noiseworthy.deploy.gateway.owner import AllowedTable, load_owner
from noiseworthy.deploy.owners import write_owner_files
from noiseworthy.deploy.rehearsal import questions
from noiseworthy.deploy.self_audit import self_audit
from noiseworthy.errors import InvalidInput
from noiseworthy.studies.delivery import task_table
from noiseworthy.studies.loading import load_study
from noiseworthy.tasks.networks import ModelTask
from noiseworthy.tasks.own import digest_of

from .test_deployed import simulated

EXAMPLES = Path(__file__).parents[2] / "examples"
FEW = {
    "federation.records_per_client": 30, "federation.clients": 2, "algorithm.rounds": 2,
    "algorithm.clients_per_round": 2, "training.evaluations": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Deployment, Path]:
    """The example for two owners, and the folder of the study with its module."""
    folder = tmp_path_factory.mktemp("study")
    for name in ("own_model.toml", "own_model.py"):
        shutil.copy(EXAMPLES / name, folder)
    planned = nw.plan(load_study(folder / "own_model.toml", FEW))
    return Deployment.of(planned.prepared, planned.plan), folder


@pytest.fixture
def files(made, tmp_path) -> dict[str, Path]:
    return write_owner_files(made[0], tmp_path / "owners")


@pytest.fixture
def gateways(files) -> Iterator[dict[str, Gateway]]:
    opened = {name: Gateway.open(load_owner(path)) for name, path in files.items()}
    yield opened
    for gateway in opened.values():
        gateway.close()


def request(made: tuple[Deployment, Path], **task: Any) -> bytes:
    """A request for the first owner's gradient."""
    deployment, _ = made
    table = task_table(deployment.prepared).model_copy(update=task)
    zeros = np.zeros(2, np.int64)
    asking = Asking("run", deployment.plan, table, deployment.task, np.array([[0, 1]], np.int32), zeros)
    theta = np.zeros(deployment.task.dimension, np.float32)
    return packed(asking.request(0, 0, theta, deadline=2e9, head=None, received=0))


@pytest.mark.full
def test_owners_run_their_own_copy_and_the_training_is_the_simulated_one(
    made, gateways, tmp_path, silent, monkeypatch
):
    monkeypatch.setattr(correspondence, "_PAUSE", 0.0)
    deployment, _ = made
    exchange = Direct({name: gateway.answer for name, gateway in gateways.items()})
    done = train(deployment, exchange, tmp_path / "run")
    twin = simulated(deployment)
    assert np.abs(done.trained.theta - twin.theta).max() < 1e-5 * np.abs(twin.theta).max()
    assert np.array_equal(done.trained.uploads, twin.uploads)


def test_the_files_approve_the_source_by_its_digest_and_the_server_sends_none_of_it(made, files):
    deployment, folder = made
    digest = digest_of("own_model:make", folder)
    for path in files.values():
        owner = load_owner(path)
        assert (owner.allowed.models, owner.allowed.own_models) == (
            [],
            {"own_model:make": f"sha256:{digest}"},
        )
        assert digest_of("own_model:make", path.parent) == digest
    sent = request(made)
    assert digest.encode() in sent
    assert b"Network" not in sent
    assert b"tanh" not in sent
    assert deployment.demand_of("client 0").model == f"own_model:make@sha256:{digest}"


def test_records_are_worked_on_one_after_the_other(made, gateways):
    gateway = gateways["client 0"]
    task = gateway.task(task_table(made[0].prepared))
    assert isinstance(task, ModelTask)
    assert (task.one_by_one, task.chunk) == (True, 1)
    assert gateway.task(task_table(made[0].prepared)) is task, "what was compiled serves again"


@pytest.mark.parametrize("wrong", ["changed", "gone", "other digest", "not approved"])
def test_any_other_source_is_refused_and_costs_nothing(made, files, wrong):
    """Whichever side has it; what is wrong with the owner's own copy is told to the owner alone."""
    path, digest = files["client 0"], digest_of("own_model:make", made[1])
    module, asked = path.parent / "own_model.py", {}
    if wrong == "changed":
        module.write_text(module.read_text() + "\n# seen to\n")
    elif wrong == "gone":
        module.unlink()
    elif wrong == "other digest":
        asked = {"model_digest": "0" * 64}
    else:
        path.write_text(path.read_text().replace("own_model:make", "others:make"))
    with Gateway.open(load_owner(path)) as gateway:
        reply = read_reply(gateway.answer(request(made, **asked)))
        assert isinstance(reply, Refused)
        assert reply.reason == "not-allowed"
        assert gateway.about.spent == 0
    mine = "the owner's copy of own_model:make is not the one that it approved, or makes"
    theirs = f"the owner does not allow model own_model:make@sha256:{asked.get('model_digest', digest)}"
    assert reply.message.startswith(mine if wrong in ("changed", "gone") else theirs)
    assert str(path.parent) not in reply.message


def test_a_source_that_changes_while_the_gateway_runs_is_not_run(made, files, gateways):
    gateway = gateways["client 0"]
    assert isinstance(read_reply(gateway.answer(request(made))), Uploaded)
    module = files["client 0"].parent / "own_model.py"
    module.write_text(module.read_text().replace("tanh", "sin"))
    assert isinstance(read_reply(gateway.answer(request(made))), Refused)


def test_a_plan_beyond_an_owners_terms_is_named_before_anything_is_asked(made, gateways):
    deployment, _ = made
    about = gateways["client 0"].about
    assert deployment.demand_of("client 0").misfit(about) == ""
    other = about.model_copy(update={"models": ["softmax"]})
    assert "does not allow models own_model:make@sha256:" in deployment.demand_of("client 0").misfit(other)


def test_an_installation_with_own_models_alone_has_no_worst_case_to_audit(files):
    owner = load_owner(files["client 0"])
    assert questions(owner)
    with pytest.raises(InvalidInput, match="allows own_models alone, of which nobody knows the worst case"):
        self_audit(owner, trials=20)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({}, "models must name at least one; or approve one under own_models"),
        ({"my_module:make": "9f2a"}, "sha256"),
        ({"../x:make": "sha256:" + "0" * 64}, "should match pattern"),
    ],
)
def test_what_approves_nothing_is_refused(own, message):
    with pytest.raises(ValueError, match=message):
        AllowedTable(algorithms=["fedsgd-dpc"], models=[], own_models=own, most_releases=9)
