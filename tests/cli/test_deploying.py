"""Commands of a deployment's server, with owners within reach of a call."""

from __future__ import annotations

import logging
from contextlib import contextmanager

import pytest
from direct import Direct

from noiseworthy.cli import deploying
from noiseworthy.deploy import correspondence
from noiseworthy.deploy.gateway.messages import About, pack_reply
from noiseworthy.errors import GatewayError


def about(client: str, **changed) -> About:
    fields = {
        "client": client, "data_set": "wards", "records": 90, "record_shape": (3,), "classes": 2,
        "mechanism": "gaussian", "epsilon": 4.0, "delta": 1e-5, "unit": "record", "noise_floor": 1.0,
        "algorithms": ["fedsgd-dpc"], "models": ["logistic"], "most_releases": 20, "most_parameters": 3,
        "most_local_steps": 1, "head": "0:" + 64 * "0", "spent": 0.0, "leased": 0.0,
    }  # fmt: skip
    return About(**fields | changed)


@pytest.fixture
def telling(monkeypatch):
    """Owners who tell of themselves behind a superlink."""
    monkeypatch.setattr(correspondence, "_PAUSE", 0.0)

    def behind(*abouts: About) -> None:
        answers = {one.client: lambda _, one=one: pack_reply(one) for one in abouts}

        @contextmanager
        def exchange(_):
            yield Direct(answers)

        monkeypatch.setattr(deploying, "_exchange", exchange)

    return behind


def test_owners_who_list_their_classes_in_another_order_are_named_when_they_are_asked(run, telling, tmp_path):
    """Trained together, they lost half of what they could gain, and whole budgets."""
    file = tmp_path / "owners.json"
    words = ("deploy", "ask", tmp_path, file, "--owner", "north", "--owner", "south")
    telling(about("north", labels=("no", "yes")), about("south", labels=("yes", "no")))
    asked = run(*words)
    assert asked.code == 2
    assert "south has labels ('yes', 'no'), north has ('no', 'yes'); owners of one training must" in asked.err
    assert "was not written" in asked.err
    assert not file.exists()
    telling(about("north", labels=("no", "yes")), about("south", labels=("no", "yes")))
    assert run(*words).code == 0
    assert file.exists()


class Noticed(Direct):
    """An exchange that logs what it sees at its nodes, as the one of Flower's does."""

    @property
    def clients(self):
        for words in ("no gateway answers; start it with noiseworthy gateway", "its key is not that owner's"):
            logging.getLogger("noiseworthy.deploy.flower.exchange").warning("node %s: %s", "north-1", words)
        return super().clients


def test_what_is_told_of_an_owner_is_not_logged_too(caplog):
    """The same fault was told twice, by the node's name and by the owner's."""
    with pytest.raises(GatewayError, match="north does not answer: no gateway answers; start it"):
        deploying._waited_for(Noticed({}), ["north"], 0.5)
    assert {record.getMessage() for record in caplog.records} == {"node north-1: its key is not that owner's"}
    assert not logging.getLogger("noiseworthy.deploy.flower.exchange").filters


@pytest.mark.parametrize("port", ["65536", "99999", "-1"])
def test_a_port_that_is_none_is_refused_before_anything_is_started(run, tmp_path, port):
    """It ended in a traceback, and a superlink stayed registered."""
    said = run("deploy", "link", tmp_path / "ward", "--port", port)
    assert said.code == 2
    assert "port" in said.err
    assert not (tmp_path / "ward").exists()
