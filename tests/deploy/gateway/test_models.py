"""The final model reaches owners: kept privately by its run's name, checked like a request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from noiseworthy.deploy.correspondence import SILENT, delivered
from noiseworthy.deploy.exchange import Direct
from noiseworthy.deploy.gateway import wire
from noiseworthy.deploy.gateway.messages import ModelOffer, Received, Refused, Uploaded, read_reply
from noiseworthy.deploy.gateway.models import Models
from noiseworthy.deploy.gateway.packing import pack_model

from .conftest import KEPT, P, against, asked, numbers, request

RUN = request().run


def offer(**changed: Any) -> ModelOffer:
    fields = {"run": RUN, "task": request().task, "theta": np.linspace(-1, 1, P, dtype=np.float32)}
    return ModelOffer(**(fields | changed))


def sent(gateway, message: ModelOffer | bytes):
    data = message if isinstance(message, bytes) else pack_model(message)
    return read_reply(gateway.answer(data))


@pytest.fixture
def took_part(gateway):
    """A gateway of which one release of the run was asked."""
    assert isinstance(asked(gateway, request()), Uploaded)
    return gateway


def test_it_lies_beside_the_ledger_for_its_owner_alone(took_part, tmp_path):
    assert isinstance(sent(took_part, offer()), Received)
    (path,) = Models.beside(took_part.ledger.path).kept()
    assert path == tmp_path / "models" / f"{RUN}.npz"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    with np.load(path, allow_pickle=False) as kept:
        assert np.array_equal(kept["theta"], offer().theta[None])
        assert '"model":"logistic"' in str(kept["task"])


def test_a_later_model_of_the_run_replaces_it_whole(took_part):
    for scale in (1, 2):
        sent(took_part, offer(theta=scale * offer().theta))
    (path,) = Models.beside(took_part.ledger.path).kept()
    with np.load(path) as kept:
        assert np.array_equal(kept["theta"][0], 2 * offer().theta)


def test_numbers_of_a_reference_are_kept_with_it(took_part):
    seen = against()
    reply = sent(took_part, offer(**{name: seen[name] for name in ("task", "seen", "theta")}))
    assert isinstance(reply, Received)
    (path,) = Models.beside(took_part.ledger.path).kept()
    with np.load(path) as kept:
        assert np.array_equal(kept["directions"], numbers().directions)
        assert kept["theta"].shape == (1, KEPT)


BAD = {
    "of a run without this owner": (offer(run="another"), "took part in no such run"),
    "another model": (offer(task={"model": "softmax"}), "does not allow this model"),
    "too many parameters": (offer(theta=np.zeros(P + 1, np.float32)), "does not allow this model of 31"),
    "too few": (offer(theta=np.zeros(P - 1, np.float32)), "has 30 parameters, got 29"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_refused_and_nothing_is_written(took_part, case):
    message, says = BAD[case]
    reply = sent(took_part, message)
    assert isinstance(reply, Refused)
    assert reply.reason == "not-allowed"
    assert says in reply.message
    assert Models.beside(took_part.ledger.path).kept() == []


@pytest.mark.parametrize("run", ["../x", "a/b", ".x", "x\n", "北京", "-x"])
def test_a_runs_name_leads_to_no_other_place(gateway, tmp_path, run):
    assert isinstance(asked(gateway, request(run=run)), Uploaded)
    reply = sent(gateway, offer(run=run))
    assert isinstance(reply, Refused)
    assert "by its run's name" in reply.message
    assert not list(tmp_path.rglob("*.npz*"))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_malformed(took_part, bad):
    fields = offer().model_dump()
    fields["theta"] = np.full(P, bad, np.float32)
    reply = sent(took_part, wire.pack({"kind": "model", **fields}))
    assert isinstance(reply, Refused)
    assert reply.reason == "malformed"


def test_objects_have_no_place_in_it(took_part):
    reply = sent(took_part, pack_model(offer()).replace(b'"f4"', b'"O4"'))
    assert isinstance(reply, Refused)
    assert reply.reason == "malformed"


def test_who_did_not_take_it_is_named_with_the_reason(took_part):
    def silent(_: bytes) -> bytes:
        return b""

    exchange = Direct({"north": took_part.answer, "west": silent})
    assert delivered(exchange, ["north", "west"], offer(), 0.2) == {"west": SILENT}
    why = delivered(exchange, ["north"], offer(run="another"), 5.0)
    assert why == {"north": "the owner took part in no such run; its model was not kept"}
