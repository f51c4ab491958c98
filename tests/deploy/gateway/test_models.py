"""The final model reaches owners: kept privately by its run's name, checked like a request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from direct import Direct

from noiseworthy.deploy.correspondence import SILENT, delivered
from noiseworthy.deploy.gateway import wire
from noiseworthy.deploy.gateway.client import pack_about, packed
from noiseworthy.deploy.gateway.gateway import BROKEN
from noiseworthy.deploy.gateway.messages import Received, Refused, Uploaded, read_reply
from noiseworthy.deploy.gateway.models import ModelOffer, Models
from noiseworthy.model.description import Description
from noiseworthy.model.folder import load_folder

from .conftest import KEPT, P, against, asked, numbers, request

RUN = request().run


def offer(**changed: Any) -> ModelOffer:
    described = description(task=changed.pop("task", {"model": "logistic", "feature_norm": 1.0, "bias": 0.0}))
    fields = {"run": RUN, "description": described, "theta": np.linspace(-1, 1, P, dtype=np.float32)}
    return ModelOffer(**(fields | changed))


COLUMNS = {"columns": [{"name": "age", "kind": "number", "range": [0, 1]},
                       {"name": "ill", "role": "label", "classes": ["0", "1"]}]}  # fmt: skip


def description(**changed: Any) -> dict[str, Any]:
    """Of a model of these records, as the server of a run states it."""
    claims: dict[str, Any] = {
        "private": True, "claim": "Epsilon 8.", "assurance": "grid-csprng", "warning": "", "unit": "record",
        "relation": "replace-one", "epsilon": [8, 8], "delta": [1e-5, 1e-5], "mechanism": "gaussian",
        "adversary": "everybody",
    }  # fmt: skip
    return {
        "format": 1, "version": "0.1.0", "name": "first", "record_shape": [P], "label_shape": [],
        "trained_on": {"data": "tumours", "clients": ["north"], "records": [91]}, "classes": ["0", "1"],
        "task": {}, "schema": None, "seed": 0, "seeds": [0], "plan_digest": None, "privacy": claims,
        "metrics": None, "probe": [0.0], **changed,
    }  # fmt: skip


def sent(gateway, message: ModelOffer | bytes):
    data = message if isinstance(message, bytes) else packed(message)
    return read_reply(gateway.answer(data))


@pytest.fixture
def took_part(gateway):
    """A gateway of which one release of the run was asked."""
    assert isinstance(asked(gateway, request()), Uploaded)
    return gateway


def test_it_lies_beside_the_ledger_for_its_owner_alone(took_part, tmp_path):
    assert isinstance(sent(took_part, offer()), Received)
    (path,) = Models.beside(took_part.ledger.path).kept()
    assert path == tmp_path / "models" / RUN
    assert [one.stat().st_mode & 0o777 for one in (path, path.parent)] == [0o700, 0o700]
    kept = load_folder(path)
    assert np.array_equal(kept.theta, offer().theta)
    assert kept.description.plain == Description.read(offer().description).plain
    assert [one.name for one in path.parent.iterdir()] == [RUN]


def test_a_later_model_of_the_run_replaces_it_whole(took_part):
    for scale in (1, 2):
        sent(took_part, offer(theta=scale * offer().theta))
    (path,) = Models.beside(took_part.ledger.path).kept()
    assert np.array_equal(load_folder(path).theta, 2 * offer().theta)
    assert [one.name for one in path.parent.iterdir()] == [RUN]


def test_numbers_of_a_reference_are_kept_with_it(took_part):
    seen = against()
    reply = sent(took_part, offer(**{name: seen[name] for name in ("task", "seen", "theta")}))
    assert isinstance(reply, Received)
    (path,) = Models.beside(took_part.ledger.path).kept()
    kept = load_folder(path)
    assert np.array_equal(kept.reference.directions, numbers().directions)
    assert kept.theta.shape == (KEPT,)


def test_what_the_owner_does_with_it_is_told_nobody(took_part):
    """No byte of a reply depends on a model that is tuned at home: the gateway only says that one came."""
    told = []
    silent = [took_part.answer(packed(offer())), took_part.answer(pack_about())]
    took_part.on_model = told.append
    assert [took_part.answer(packed(offer())), took_part.answer(pack_about())] == silent
    assert told == Models.beside(took_part.ledger.path).kept()
    assert isinstance(sent(took_part, offer(run="another")), Refused)
    assert len(told) == 1


BAD = {
    "of a run without this owner": (offer(run="another"), "took part in no such run"),
    "another model": (offer(task={"model": "softmax"}), "does not allow this model"),
    "too many parameters": (offer(theta=np.zeros(P + 1, np.float32)), "does not allow this model of 31"),
    "no model": (offer(description={"format": 1}), "this describes no model: version"),
    "of another format": (offer(description={"format": 3}), "is of format 3, this program reads 1 and 2"),
    "more than plain values": (
        offer(description=description(task={"model": "logistic", "bias": 0.0}, name=np.zeros(2))),
        "this describes no model: it holds more than plain values",
    ),
    "of other records": (
        offer(description=description(task={"model": "logistic", "bias": 0.0}, record_shape=[5, 6])),
        r"is for records of shape [5, 6] and 2 classes, the owner's are [30] and 2",
    ),
    "of other classes": (
        offer(description=description(task={"model": "logistic", "bias": 0.0}, classes=["a", "b", "c"])),
        "is for records of shape [30] and 3 classes",
    ),
    "of other columns": (
        offer(description=description(task={"model": "logistic", "bias": 0.0}, schema=COLUMNS)),
        "its columns make 1 numbers of a record, its shape is [30]",
    ),
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


@pytest.mark.parametrize(("labels", "kept"), [(["0", "1"], True), (["1", "0"], False)])
def test_a_model_whose_classes_are_in_another_order_is_not_kept(gateway_of, labels, kept):
    gateway = gateway_of(federation={"classes": labels})
    assert gateway.about.labels == tuple(labels)
    assert isinstance(asked(gateway, request()), Uploaded)
    reply = sent(gateway, offer())
    assert isinstance(reply, Received if kept else Refused)
    assert bool(Models.beside(gateway.ledger.path).kept()) == kept
    if not kept:
        assert "file has classes 1, 0 in this order" in reply.message


def test_what_its_disk_refuses_is_told_to_the_owner_alone(took_part, monkeypatch, caplog, tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("noiseworthy.model.folder.os.rename", full)
        assert sent(took_part, offer()) == Refused(reason="fault", message=BROKEN)
    assert f"cannot be written to {tmp_path}" in caplog.text


@pytest.mark.parametrize("run", ["../x", "a/b", ".x", "x\n", "北京", "-x"])
def test_a_runs_name_leads_to_no_other_place(gateway, tmp_path, run):
    assert isinstance(asked(gateway, request(run=run)), Uploaded)
    reply = sent(gateway, offer(run=run))
    assert isinstance(reply, Refused)
    assert "by its run's name" in reply.message
    assert not list(tmp_path.rglob("*.safetensors"))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_malformed(took_part, bad):
    fields = offer().model_dump()
    fields["theta"] = np.full(P, bad, np.float32)
    reply = sent(took_part, wire.pack({"kind": "model", **fields}))
    assert isinstance(reply, Refused)
    assert reply.reason == "malformed"


def test_objects_have_no_place_in_it(took_part):
    reply = sent(took_part, packed(offer()).replace(b'"f4"', b'"O4"'))
    assert isinstance(reply, Refused)
    assert reply.reason == "malformed"


def test_who_did_not_take_it_is_named_with_the_reason(took_part):
    def silent(_: bytes) -> bytes:
        return b""

    exchange = Direct({"north": took_part.answer, "west": silent})
    assert delivered(exchange, ["north", "west"], offer(), 0.2) == {"west": SILENT}
    why = delivered(exchange, ["north"], offer(run="another"), 5.0)
    assert why == {"north": "the owner took part in no such run; its model was not kept"}
