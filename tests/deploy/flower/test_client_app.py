"""The node's app passes bytes on unchanged, tells nothing of an error, and loads neither jax nor pydantic."""

from __future__ import annotations

import subprocess
import sys

import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from in_process_grid import InProcessGrid
from noiseworthy.deploy.flower.client_app import app
from noiseworthy.deploy.flower.envelope import APP_FAILED, NO_GATEWAY, enclosed, opened
from noiseworthy.deploy.gateway.framing import receive


def asked(config, content):
    grid = InProcessGrid(app, {7: config})
    (reply,) = grid.send_and_receive([Message(content, 7, "query", ttl=5.0)])
    return reply


@pytest.mark.parametrize("data", [b"", b"\x00\xff\r\n", bytes(range(256)) * 4096])
def test_bytes_come_and_go_as_they_are(echo, data):
    gateway = echo("north")
    reply = asked({"socket": str(gateway.path)}, enclosed(data))
    assert gateway.seen == [data]
    assert opened(reply) == data[::-1]


def test_a_reply_holds_the_gateways_bytes_and_nothing_else(echo):
    reply = asked({"socket": str(echo("north").path)}, enclosed(b"abc"))
    assert {name: dict(record) for name, record in reply.content.items()} == {"gateway": {"data": b"cba"}}


def sentence(reply):
    assert not reply.has_error()
    (record,) = reply.content.values()
    return dict(record)


def test_no_gateway_is_told_by_one_fixed_sentence(tmp_path):
    """The socket's path is the owner's, and the sentence of the error names it."""
    reply = asked({"socket": str(tmp_path / "secret" / "g.sock")}, enclosed(b"abc"))
    assert sentence(reply) == {"fault": NO_GATEWAY}


@pytest.mark.parametrize(
    ("config", "content"),
    [
        ({}, enclosed(b"abc")),
        ({"socket": "/tmp/" + "x" * 200}, RecordDict({})),
        ({"socket": 3}, RecordDict({"gateway": ConfigRecord({"data": "text"})})),
        ({"socket": 3}, RecordDict({"other": ConfigRecord({"data": b"abc"})})),
    ],
    ids=["no socket", "empty", "text", "another record"],
)
def test_whatever_goes_wrong_is_told_by_one_fixed_sentence(config, content):
    assert sentence(asked(config, content)) == {"fault": APP_FAILED}


def test_an_error_that_speaks_of_records_is_not_passed_on(monkeypatch):
    def broken(*_):
        raise ArithmeticError("record 17 is a man of ninety")

    monkeypatch.setattr("noiseworthy.deploy.flower.client_app.forward", broken)
    reply = asked({"socket": "/g.sock"}, enclosed(b"abc"))
    assert sentence(reply) == {"fault": APP_FAILED}
    assert "ninety" not in repr(reply)


def test_a_gateway_that_ends_in_the_middle_counts_as_none(echo):
    gateway = echo("north")

    def die(_):
        raise KeyError("the connection is closed without a word")

    gateway.before = die
    assert sentence(asked({"socket": str(gateway.path)}, enclosed(b"abc"))) == {"fault": NO_GATEWAY}


def test_it_waits_for_a_gateway_as_long_as_the_message_lives(monkeypatch):
    waited = []
    monkeypatch.setattr(
        "noiseworthy.deploy.flower.client_app.forward",
        lambda path, data, seconds: waited.append(seconds) or b"",
    )
    asked({"socket": "/g.sock"}, enclosed(b"abc"))
    assert waited == [5.0]


def test_what_an_app_cannot_state_is_no_fault():
    message = Message(RecordDict({"gateway": ConfigRecord({"fault": "a man of ninety"})}), 7, "query")
    with pytest.raises(LookupError, match="it holds no message"):
        opened(message)


def test_a_fresh_process_loads_nothing_heavy_besides_flower():
    """Where Flower starts one for every message, pydantic and SciPy would cost seconds, and its task."""
    code = (
        "import flwr.clientapp, sys; before = set(sys.modules); "
        "import noiseworthy.deploy.flower.client_app; print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name.split(".")[0] for name in done.stdout.split()} == {"noiseworthy"}
    assert receive.__module__ in done.stdout.split()
