"""A run's whole price is held before its first release; changed records stop their owner."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.deploy.gateway.client import packed
from noiseworthy.deploy.gateway.gateway import CHANGED, Gateway
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.gateway.messages import LeaseRequest, Receipt, Received, Refused, Uploaded, read_reply

from .conftest import asked, owner_of, request, spent
from .test_about import about


def leased(gateway: Gateway, run: str, epsilon: float = 8.0, delta: float = 1e-5):
    return read_reply(gateway.answer(packed(LeaseRequest(run=run, epsilon=epsilon, delta=delta))))


def ended(gateway: Gateway, run: str):
    return read_reply(gateway.answer(packed(Receipt(run=run, ended=True))))


def test_a_second_run_is_refused_while_the_first_holds_the_budget(gateway, silent):
    assert isinstance(leased(gateway, "first study"), Received)
    assert about(gateway).leased == 1.0
    refused = leased(gateway, "second study", 1.0)
    assert refused.reason == "leased"
    assert "client 1 has spent 0 %" in refused.message
    assert "100 % is held for other runs" in refused.message
    assert asked(gateway, request(run="second study")).reason == "leased"
    assert gateway.ledger.query("SELECT name FROM runs") == [("first study",)]
    assert isinstance(asked(gateway, request()), Uploaded)
    assert about(gateway).leased + about(gateway).spent == pytest.approx(1.0)
    assert isinstance(ended(gateway, "first study"), Received)
    assert about(gateway).leased == 0.0
    assert isinstance(leased(gateway, "second study", 1.0), Received)
    assert isinstance(asked(gateway, request(run="second study")), Uploaded)


def test_a_lease_is_priced_by_the_owner_and_outlives_its_process(gateway_of):
    gateway = gateway_of()
    assert isinstance(leased(gateway, "first study", 4.0), Received)
    part = about(gateway).leased
    gateway.close()
    again = gateway_of()
    assert about(again).leased == part
    assert isinstance(leased(again, "first study", 4.0), Received)
    assert about(again).leased == part
    other = leased(again, "first study", 5.0)
    assert other.reason == "conflict"  # and not that its ledger cannot be used
    assert "another part of the budget is held for this run; ask for that" in other.message
    assert about(again).leased == part
    assert leased(again, "second study", 8.0).reason == "leased"
    assert leased(again, "third study", 9.0).reason == "budget"
    assert leased(again, "fourth study", 1.0, 0.0) == Refused(
        reason="not-allowed", message="the owner's noise is gaussian, got delta 0"
    )


def test_a_lease_that_no_noise_pays_for_is_refused_by_name(gateway):
    """It is the server's fault, and not the gateway's."""
    refused = leased(gateway, "first study", 1e-12, 1e-300)
    assert refused.reason == "not-allowed"
    assert "epsilon 1e-12 is too small" in refused.message
    assert gateway.ledger.query("SELECT name FROM runs") == []


def test_the_end_of_a_run_that_nobody_knows_ends_nothing(gateway):
    leased(gateway, "first study")
    assert isinstance(ended(gateway, "second study"), Received)
    assert about(gateway).leased == 1.0


def changed(holding: Holding, kind: str) -> Holding:
    x, y = np.array(holding.x), np.array(holding.y)
    return {
        "features overwritten": lambda: Holding(x + 1, y, holding.classes),
        "columns reversed": lambda: Holding(x[:, ::-1], y, holding.classes),
        "a label flipped": lambda: Holding(x, np.where(np.arange(len(y)) == 5, 1 - y, y), holding.classes),
        "more records": lambda: Holding(np.vstack([x, x[:1]]), np.append(y, y[:1]), holding.classes),
        "another shape": lambda: Holding(x.reshape(len(x), 5, 6), y, holding.classes),
    }[kind]()


KINDS = ["features overwritten", "columns reversed", "a label flipped", "more records", "another shape"]


@pytest.mark.parametrize("kind", KINDS)
def test_records_that_changed_after_they_were_paid_for_stop_their_owner(
    kind, gateway_of, holding, tmp_path, monkeypatch, silent
):
    """By name, for nothing, until they are put back or the owner says that it was meant."""
    gateway = gateway_of()
    assert isinstance(asked(gateway, request()), Uploaded)
    gateway.close()
    monkeypatch.setattr(Holding, "load", lambda *_: changed(holding, kind))
    with Gateway.open(owner_of(tmp_path)) as other:
        for wanted in (request(), request(2), request(run="second study")):
            assert asked(other, wanted) == Refused(reason="records", message=CHANGED)
        assert leased(other, "second study").reason == "records"
        assert about(other).client == "client 1"
        assert spent(other)[0] == 1
    monkeypatch.setattr(Holding, "load", lambda *_: holding)
    assert isinstance(asked(gateway_of(), request(2)), Uploaded)


def test_the_owner_may_say_that_its_records_were_changed_on_purpose(
    gateway_of, holding, tmp_path, monkeypatch, silent
):
    """What was spent stays spent, and the old records are the changed ones from then on."""
    first = gateway_of()
    assert isinstance(asked(first, request()), Uploaded)
    monkeypatch.setattr(Holding, "load", lambda *_: changed(holding, "a label flipped"))
    with Gateway.open(owner_of(tmp_path), records_changed=True) as other:
        assert isinstance(asked(other, request(2)), Uploaded)
        assert spent(other)[0] == 2
    assert asked(first, request(3)) == Refused(reason="records", message=CHANGED)


def test_records_may_change_until_the_first_release_is_paid_for(
    gateway_of, holding, tmp_path, monkeypatch, silent
):
    gateway_of().close()
    monkeypatch.setattr(Holding, "load", lambda *_: changed(holding, "columns reversed"))
    with Gateway.open(owner_of(tmp_path)) as gateway:
        assert isinstance(asked(gateway, request()), Uploaded)
