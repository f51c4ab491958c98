"""A gateway tells its terms to everybody for nothing, and notes what arrived."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from noiseworthy.deploy.gateway import wire
from noiseworthy.deploy.gateway.client import pack_about, packed
from noiseworthy.deploy.gateway.messages import About, Receipt, Received, Refused, pack_reply, read_reply
from noiseworthy.errors import WireError
from noiseworthy.privacy.durable import Head

from .conftest import P, asked, request, spent


def about(gateway) -> About:
    reply = read_reply(gateway.answer(pack_about()))
    assert isinstance(reply, About)
    return reply


def received(gateway, run: str, release: int):
    return read_reply(gateway.answer(packed(Receipt(run=run, received=release))))


def acknowledged(gateway) -> list[int]:
    return [row[0] for row in gateway.ledger.query("SELECT acknowledged FROM grants ORDER BY id")]


def test_the_terms_are_those_of_the_owners_file(gateway):
    told, owner = about(gateway), gateway.owner
    assert (told.client, told.data_set) == ("client 1", "tumours")
    assert (told.records, told.record_shape, told.classes) == (91, (P,), 2)
    assert (told.mechanism, told.epsilon, told.delta, told.unit) == ("gaussian", 8.0, 1e-5, "record")
    assert (told.noise_floor, told.models) == (0.5, ["logistic"])
    assert (told.algorithms, told.most_releases) == (owner.allowed.algorithms, 9)
    assert (told.most_parameters, told.most_local_steps) == (P, 1000)


def test_telling_is_free_and_says_what_is_spent(gateway, silent):
    """Two thirds of mu(8, 1e-5)^2 = 2.9 are two releases of mu 1."""
    assert about(gateway).spent == 0.0
    for release in (1, 2, 3):
        asked(gateway, request(release, noise=2 * 0.1 / 91))
    before = spent(gateway)
    told = about(gateway)
    assert told.spent == pytest.approx(before[1] / 2**62, abs=1e-15)
    assert 0.6 < told.spent < 0.75
    assert spent(gateway) == before
    assert len(silent) == 2


def test_the_head_that_is_told_may_be_asked_with(gateway):
    asked(gateway, request(1))
    told = about(gateway).head
    assert Head.read(told) == gateway.ledger.head
    assert asked(gateway, request(2, head=told)).release == 2


def test_the_last_upload_of_a_run_is_acknowledged_by_a_receipt(gateway):
    for release in (1, 2, 3):
        asked(gateway, request(release))
    reply = received(gateway, "first study", 2)
    assert isinstance(reply, Received)
    assert reply.head == str(gateway.ledger.head)
    assert acknowledged(gateway) == [1, 1, 0]
    assert received(gateway, "first study", 3) == received(gateway, "first study", 3)
    assert acknowledged(gateway) == [1, 1, 1]


def test_a_receipt_of_an_unknown_run_changes_nothing(gateway):
    before = gateway.ledger.head
    assert received(gateway, "another study", 7).head == str(before)
    assert gateway.ledger.head == before


def test_what_was_lost_is_not_acknowledged(gateway, monkeypatch):
    def fails(*_):
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(type(gateway.holding), "batch", fails)
        asked(gateway, request(1))
    received(gateway, "first study", 1)
    assert acknowledged(gateway) == [0]


@pytest.mark.parametrize(
    "message",
    [
        {"kind": "about", "seed": 3},
        {"kind": "receipt", "run": "first study"} | {"received": -1},
        {"kind": "receipt", "received": 1},
        {"kind": "receipt", "run": "", "received": 1},
        {"kind": ["l"]},
        {"run": "first study"},
    ],
    ids=str,
)
def test_malformed_questions_are_refused(gateway, message):
    reply = read_reply(gateway.answer(wire.pack(message)))
    assert isinstance(reply, Refused)
    assert reply.reason == "malformed"


def test_replies_pass_the_wire_as_they_are(gateway):
    for reply in (about(gateway), Received(head="0:" + 64 * "0"), Refused(reason="fault", message="x")):
        assert read_reply(pack_reply(reply)) == reply


def test_a_ledger_that_cannot_be_read_is_said_so(gateway):
    gateway.ledger.close()
    assert read_reply(gateway.answer(pack_about())).reason == "ledger"
    assert received(gateway, "first study", 1).reason == "ledger"


def test_replies_with_any_value_exchanged_are_read_or_refused(gateway):
    """A server that reads owners' answers ends in no other error, whatever one of them sends."""
    sent = wire.unpack(gateway.answer(packed(request())))
    odd = [None, True, -1, 2**62, 1.5, "", "x" * 200, b"b", [], {}, [1], np.zeros(3), np.array([1])]
    places = [(key,) for key in sent] + [("upload", key) for key in sent["upload"]]
    read = 0
    for place, value in itertools.product(places, odd):
        whole = {**sent, "upload": dict(sent["upload"])}
        inside = whole if len(place) == 1 else whole["upload"]
        inside[place[-1]] = value
        try:
            read_reply(wire.pack(whole))
            read += 1
        except WireError:
            continue
    assert read < 20
