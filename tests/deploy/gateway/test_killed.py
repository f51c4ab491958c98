"""Gateways that are killed, raced, on a full disk, or with another clock: one price, one draw, one reply."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from noiseworthy.deploy.gateway import memory
from noiseworthy.deploy.gateway.client import GatewayClient, packed
from noiseworthy.deploy.gateway.gateway import FAILED, LATE, LEDGER, Gateway
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.gateway.messages import Refused, Uploaded
from noiseworthy.errors import GatewayError
from noiseworthy.methods.dp_scaffnew.wire import ScaffNewWork
from noiseworthy.privacy.deployed_noise import DeployedNoise

from .conftest import asked, owner_of, request, spent
from .dying import before, note_draw
from .test_server import OWNER

WORK = {"algorithm": ScaffNewWork(step_size=0.5, probability=0.5, local_steps=2), "noise": 4.0}
ALL = OWNER.replace('["fedsgd-dpc"]', '["dp-scaffnew"]')
SLOW = pytest.mark.slow
DEATHS = [
    pytest.param("pay", "before", "unpaid", marks=SLOW),
    pytest.param("pay", "after", "lost", marks=SLOW),
    pytest.param("read", "before", "lost", marks=SLOW),
    pytest.param("draw", "before", "lost", marks=SLOW),
    pytest.param("draw", "after", "lost"),
    pytest.param("remember", "before", "lost", marks=SLOW),
    pytest.param("remember", "after", "lost", marks=SLOW),
    pytest.param("seal", "before", "lost", marks=SLOW),
    pytest.param("seal", "after", "sealed"),
    pytest.param("send", "before", "sealed", marks=SLOW),
    pytest.param("send", "after", "sealed", marks=SLOW),
]


def killed_at(folder: Path, step: str, when: str) -> None:
    """Ask a gateway in a process of its own, which is killed there."""
    (folder / "owner.toml").write_text(ALL.replace("SOCKET", "owner.sock"))
    command = [sys.executable, str(Path(__file__).with_name("dying.py")), str(folder / "owner.toml")]
    with subprocess.Popen([*command, step, when], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "listening" in process.stderr.readline()
        client = GatewayClient(folder / "owner.sock", 60)
        if (step, when) == ("send", "after"):
            assert isinstance(client.ask(request(**WORK)), Uploaded)
        else:
            with pytest.raises(GatewayError, match="ask again"):
                client.ask(request(**WORK))
        assert process.wait(30) == -signal.SIGKILL


@pytest.mark.parametrize(("step", "when", "then"), DEATHS)
def test_after_sigkill_at_any_step_a_release_has_one_price_one_draw_and_one_reply(
    tmp_path, gateway_of, step, when, then
):
    """The other process shares nothing with this one but the disk."""
    killed_at(tmp_path, step, when)
    draws = tmp_path / "owner.draws"
    before(DeployedNoise, "added_to", lambda: note_draw(draws))
    gateway = gateway_of()
    was_paid = spent(gateway)[0]
    again = gateway.answer(packed(request(**WORK)))
    assert gateway.answer(packed(request(**WORK))) == again
    reply = asked(gateway, request(**WORK))
    assert isinstance(reply, Uploaded) if then != "lost" else reply.reason == "lost"
    assert was_paid == (then != "unpaid")
    assert spent(gateway)[0] == 1
    assert len(draws.read_bytes() if draws.exists() else b"") <= 1
    assert isinstance(asked(gateway, request(2, **WORK)), Uploaded)


@pytest.fixture(autouse=True)
def _noise_as_it_was(monkeypatch):
    """What a test puts before the draw is taken away after it."""
    monkeypatch.setattr(DeployedNoise, "added_to", DeployedNoise.added_to)


def test_a_gateway_waits_for_another_that_is_at_the_same_release(gateway_of, tmp_path, monkeypatch, silent):
    """It is not lost while somebody is about to seal it: both give the same bytes, for one price and draw."""
    batch, replies = Holding.batch, []

    def second() -> None:
        with Gateway.open(owner_of(tmp_path)) as gateway:
            replies.append(gateway.answer(packed(request())))

    other = threading.Thread(target=second)

    def reads(*args):
        other.start()
        other.join(0.5)
        assert not replies
        return batch(*args)

    gateway = gateway_of()
    monkeypatch.setattr(Holding, "batch", reads)
    first = gateway.answer(packed(request()))
    other.join(30)
    assert replies == [first]
    assert (len(silent), spent(gateway)[0]) == (1, 1)


def test_where_the_memory_does_not_fit_on_the_disk_the_release_is_paid_and_lost(gateway, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(memory, "write_whole", full)
        assert asked(gateway, request(**WORK)) == Refused(reason="failed", message=FAILED, next=2)
    assert asked(gateway, request(**WORK)).reason == "lost"
    assert spent(gateway)[0] == 1
    assert isinstance(asked(gateway, request(2, **WORK)), Uploaded)


def test_where_no_turn_can_be_taken_nothing_is_spent(gateway, silent, tmp_path):
    (tmp_path / "ledger.sqlite.turn").mkdir()
    assert asked(gateway, request()) == Refused(reason="ledger", message=LEDGER)
    assert (silent, spent(gateway)) == ([], (0, 0))


YEAR = 365 * 86400.0


def test_a_clock_set_forward_refuses_and_one_set_back_admits_no_release_twice(gateway, monkeypatch, silent):
    now = time.time()
    wanted = request(deadline=now + 60)
    monkeypatch.setattr(time, "time", lambda: now + YEAR)
    assert asked(gateway, wanted) == Refused(reason="deadline", message=LATE)
    assert spent(gateway) == (0, 0)
    monkeypatch.setattr(time, "time", lambda: now - YEAR)
    first = gateway.answer(packed(wanted))
    monkeypatch.setattr(time, "time", lambda: now)
    assert gateway.answer(packed(wanted)) == first
    assert (len(silent), spent(gateway)[0]) == (1, 1)
