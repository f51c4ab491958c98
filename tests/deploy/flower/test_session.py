"""A training at its superlink: one at a time, another run when the superlink was gone, and what lacks."""

from __future__ import annotations

import time
from contextlib import contextmanager

import pytest

from in_process_grid import InProcessGrid
from noiseworthy.deploy.correspondence import introduced
from noiseworthy.deploy.flower import session
from noiseworthy.deploy.flower.client_app import app
from noiseworthy.deploy.flower.session import LinkExchange
from noiseworthy.errors import GatewayError


class Superlink:
    """Begins runs, over a grid of this process, while it is there."""

    def __init__(self, nodes):
        self.nodes, self.there, self.begun, self.ended = nodes, True, 0, 0

    @contextmanager
    def run(self, _):
        if not self.there:
            raise GatewayError("no superlink is running")
        self.begun += 1
        try:
            yield Grid(self)
        finally:
            self.ended += 1


class Grid(InProcessGrid):
    def __init__(self, link):
        super().__init__(app, link.nodes)
        self.link = link

    def get_nodes(self):
        self.check()
        return super().get_nodes()

    def pull_messages(self, message_ids):
        self.check()
        return super().pull_messages(message_ids)

    def check(self):
        if not self.link.there:
            raise GatewayError("the superlink does not answer")


@pytest.fixture
def link(echo):
    return Superlink(
        {place: {"socket": str(echo(name).path)} for place, name in enumerate(["north", "south"])}
    )


@pytest.fixture
def exchange(link, tmp_path, monkeypatch):
    monkeypatch.setattr(session, "_AGAIN", 0.0)
    with LinkExchange(tmp_path, None, link.run) as opened:
        yield opened


def test_messages_pass_both_ways_in_one_run(exchange, link):
    assert set(exchange.clients) == {"north", "south"}
    exchange.send("north", b"aye", time.time() + 60)
    assert exchange.waiting == {"north"}
    with pytest.raises(GatewayError, match="under way"):
        exchange.send("north", b"again", time.time() + 60)
    with pytest.raises(GatewayError, match="west cannot be asked now"):
        exchange.send("west", b"aye", time.time() + 60)
    assert exchange.receive(20.0) == [("north", b"eya")]
    assert exchange.waiting == frozenset()
    assert (link.begun, link.ended) == (1, 0)


def test_what_was_under_way_when_the_superlink_went_is_lost_and_another_run_goes_on(exchange, link):
    assert set(exchange.clients) == {"north", "south"}
    exchange.send("south", b"aye", time.time() + 60)
    link.there = False
    assert exchange.receive(1.0) == [("south", None)]
    assert exchange.clients == ()
    assert exchange.absent("south") == "no superlink is running"
    link.there = True
    assert set(exchange.clients) == {"north", "south"}
    exchange.send("south", b"aye", time.time() + 60)
    assert exchange.receive(20.0) == [("south", b"eya")]
    assert (link.begun, link.ended) == (2, 1)


def test_a_run_ends_with_its_training(exchange, link):
    assert exchange.clients
    exchange.__exit__(None, None, None)
    assert link.ended == 1


def test_another_run_is_not_begun_at_once_again(link, tmp_path):
    """A superlink that has just failed is left alone for some seconds, and the trouble is said once."""
    link.there = False
    with LinkExchange(tmp_path, None, link.run) as exchange:
        assert exchange.clients == ()
        link.there = True
        assert exchange.clients == ()
    assert link.begun == 0


def test_without_a_superlink_nobody_can_be_asked_and_nothing_hangs(tmp_path):
    with LinkExchange(tmp_path, None) as exchange:
        assert exchange.clients == ()
        assert exchange.receive(0.1) == []
        with pytest.raises(GatewayError, match=r"no superlink of .* is running"):
            exchange.send("north", b"aye", time.time() + 60)


class SlowToFail(LinkExchange):
    """A superlink that is gone, which takes longer to notice than anybody waits."""

    @property
    def clients(self):
        time.sleep(0.3)
        return super().clients


def test_a_superlink_that_is_slow_to_be_missed_ends_no_training(tmp_path):
    """The look at who is there may outlast the wait; what is left of it then is below 0."""
    with SlowToFail(tmp_path, None) as exchange:
        assert introduced(exchange, ["north"], 0.1) == []


def test_one_training_at_a_time(exchange, link, tmp_path):
    with pytest.raises(GatewayError, match="another training runs"), LinkExchange(tmp_path, None, link.run):
        pass
    assert set(exchange.clients) == {"north", "south"}
