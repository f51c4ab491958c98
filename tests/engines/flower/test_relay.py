"""Calls of an exchange through the process of a run: passed on, and taken up again when that process ends."""

from __future__ import annotations

import time

import pytest

from noiseworthy.engines.flower import relay
from noiseworthy.engines.flower.client_app import app
from noiseworthy.engines.flower.inprocess import InProcessGrid
from noiseworthy.engines.flower.relay import SOCKET, RelayExchange, serve
from noiseworthy.errors import GatewayError


@pytest.fixture
def exchange(echo, tmp_path, monkeypatch):
    """Two owners behind a grid of this process; the app runs in a thread."""
    monkeypatch.setattr(relay, "_AGAIN", 0.1)
    nodes = {place: {"socket": str(echo(name).path)} for place, name in enumerate(["north", "south"])}
    with RelayExchange(tmp_path, lambda: serve(InProcessGrid(app, nodes), tmp_path)) as opened:
        yield opened


def there(exchange: RelayExchange) -> set[str]:
    until = time.monotonic() + 20
    while len(exchange.clients) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    return set(exchange.clients)


def test_messages_pass_both_ways(exchange):
    assert there(exchange) == {"north", "south"}
    exchange.send("north", b"aye", time.time() + 60)
    assert exchange.waiting == {"north"}
    with pytest.raises(GatewayError, match="under way"):
        exchange.send("north", b"again", time.time() + 60)
    with pytest.raises(GatewayError, match="west cannot be asked now"):
        exchange.send("west", b"aye", time.time() + 60)
    assert exchange.receive(20.0) == [("north", b"eya")]
    assert exchange.waiting == frozenset()


def test_what_was_under_way_when_the_app_ended_is_lost_and_another_run_goes_on(exchange):
    there(exchange)
    exchange.send("south", b"aye", time.time() + 60)
    exchange._stream.shutdown(2)  # as when the process of the run is killed
    assert exchange.receive(1.0) == [("south", None)]
    assert there(exchange) == {"north", "south"}
    exchange.send("south", b"aye", time.time() + 60)
    assert exchange.receive(20.0) == [("south", b"eya")]


def test_without_a_superlink_nobody_can_be_asked_and_nothing_hangs(tmp_path, caplog):
    def run() -> None:
        raise GatewayError("no superlink is running")

    with RelayExchange(tmp_path, run) as exchange:
        started = time.monotonic()
        assert exchange.clients == ()
        assert exchange.receive(0.1) == []
        with pytest.raises(GatewayError, match="cannot be asked now"):
            exchange.send("north", b"aye", time.time() + 60)
        assert time.monotonic() - started < 5
    assert not (tmp_path / SOCKET).exists()


def test_the_app_says_when_no_training_waits(tmp_path):
    with pytest.raises(GatewayError, match="deploy run"):
        serve(InProcessGrid(app, {}), tmp_path)


def test_one_training_at_a_time(exchange, tmp_path):
    """A second one would take the first one's socket, and its uploads."""
    with pytest.raises(GatewayError, match="another training runs"), RelayExchange(tmp_path, lambda: None):
        pass
    assert there(exchange) == {"north", "south"}


def test_the_socket_is_for_its_user_alone(exchange, tmp_path):
    assert (tmp_path / SOCKET).stat().st_mode & 0o777 == 0o600
