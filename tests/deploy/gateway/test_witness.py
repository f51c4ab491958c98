"""With a witness, nothing is made that it does not know; put back, nothing before the owner's word."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from noiseworthy.deploy.gateway.gateway import FAILED, LEDGER, PUT_BACK
from noiseworthy.deploy.gateway.messages import Refused, Uploaded
from noiseworthy.deploy.gateway.owner import load_owner
from noiseworthy.errors import LedgerError
from noiseworthy.privacy.durable.restoring import accept, back_up, restore
from noiseworthy.privacy.durable.storage import files_of

from .conftest import asked, request, spent


@pytest.fixture
def witness(tmp_path):
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk" / "witness.json"


@pytest.fixture
def witnessed(gateway_of, witness):
    return gateway_of(files={"witness": str(witness)})


def test_the_witness_holds_the_head_that_the_reply_tells(witnessed, witness):
    """That of the charge, told before the noise is drawn."""
    reply = asked(witnessed, request())
    assert isinstance(reply, Uploaded)
    assert json.loads(witness.read_text())["head"] == reply.head


def test_nothing_is_drawn_that_the_witness_cannot_be_told_of(witnessed, silent, monkeypatch):
    """The charge is on disk by then: the release is lost, and asked again it is not made."""

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("noiseworthy.privacy.durable.witness.os.fsync", full)
        assert asked(witnessed, request()) == Refused(reason="failed", message=FAILED)
    assert asked(witnessed, request()).reason == "lost"
    assert silent == []
    assert spent(witnessed)[0] == 1


def test_without_the_disk_of_the_witness_nothing_is_spent(witnessed, witness):
    shutil.move(witness.parent, witness.parent.with_name("unmounted"))
    assert asked(witnessed, request()) == Refused(reason="ledger", message=LEDGER)
    assert spent(witnessed)[0] == 0
    shutil.move(witness.parent.with_name("unmounted"), witness.parent)
    assert isinstance(asked(witnessed, request()), Uploaded)


def test_a_gateway_does_not_start_on_a_ledger_begun_anew(witnessed, gateway_of, witness):
    asked(witnessed, request())
    witnessed.close()
    for file in files_of(witnessed.ledger.path):
        file.unlink()
    with pytest.raises(LedgerError, match=r"by ledger\.sqlite\.turn beside it one has paid here"):
        gateway_of(files={"witness": str(witness)})
    Path(f"{witnessed.ledger.path}.turn").unlink()
    with pytest.raises(LedgerError, match="not this ledger's witness"):
        gateway_of(files={"witness": str(witness)})


def test_a_ledger_that_was_put_back_answers_no_request_before_its_owner_does(gateway_of, tmp_path):
    """Neither a new one, nor one with a head that the copy holds: the server may not lift this."""
    gateway = gateway_of()
    path = gateway.ledger.path
    head = asked(gateway, request()).head
    back_up(gateway.ledger, tmp_path / "copy")
    gateway.close()
    for file in files_of(path):
        file.unlink()
    restore(tmp_path / "copy", path)
    again = gateway_of()
    for wanted in (request(2), request(2, head=head), request(1, head=head)):
        assert asked(again, wanted) == Refused(reason="ledger", message=PUT_BACK)
    assert spent(again)[0] == 1
    accept(path)
    assert asked(again, request(2, head=head)).reason == "budget"


def test_a_relative_witness_lies_beside_the_owners_file(tmp_path):
    text = """
[owner]
client = "north"
data_set = "wards"
[federation]
data = "heart-disease"
[budget]
mechanism = "laplace"
epsilon = 1.0
noise_floor = 1.0
[allowed]
algorithms = ["fedsgd-dpc"]
models = ["logistic"]
most_releases = 1
[files]
socket = "g.sock"
ledger = "ledger.sqlite"
"""
    (tmp_path / "owner.toml").write_text(text)
    assert load_owner(tmp_path / "owner.toml").files.witness is None
    (tmp_path / "owner.toml").write_text(text + 'witness = "other/witness.json"')
    assert load_owner(tmp_path / "owner.toml").files.witness == tmp_path / "other" / "witness.json"
