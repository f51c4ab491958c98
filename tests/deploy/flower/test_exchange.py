"""Owners are found by what their gateways say; replies belong to messages by id, late ones too."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterable

import httpx
import pytest
from flwr.app import Error, Message
from flwr.proto.node_pb2 import NodeInfo

from in_process_grid import InProcessGrid, over_the_wire
from noiseworthy.deploy.exchange import Exchange
from noiseworthy.deploy.flower import exchange as module
from noiseworthy.deploy.flower.client_app import app
from noiseworthy.deploy.flower.envelope import enclosed, opened
from noiseworthy.deploy.flower.exchange import GRACE, GridExchange
from noiseworthy.deploy.gateway.client import pack_about
from noiseworthy.errors import GatewayError

from .conftest import about


class Slow(InProcessGrid):
    """A grid whose nodes answer when the test says so."""

    def __init__(self, nodes: dict[int, str | None]):
        super().__init__(app, {})
        self.names, self.asked = nodes, {}
        self.sent: list[Message] = []

    def get_node_ids(self) -> list[int]:
        return list(self.names)

    def get_nodes(self) -> list[NodeInfo]:
        """As the superlink knows them: each by its key, and by the name that the key was registered by."""
        return [NodeInfo(node_id=i, public_key=b"%d" % i, name=f"key {i}") for i in self.names]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        received = [over_the_wire(message) for message in messages]
        for message in received:
            name = self.names.get(message.metadata.dst_node_id)
            if opened(message) != pack_about():
                self.sent.append(message)
            elif name is not None:
                self.answer(message, about(name))
        return [message.metadata.message_id for message in received]

    def answer(self, message: Message, data: bytes) -> None:
        self._replies[message.metadata.message_id] = over_the_wire(Message(enclosed(data), reply_to=message))

    def lose(self, message: Message, code: int, reason: str = "") -> None:
        self._replies[message.metadata.message_id] = Message(Error(code, reason), reply_to=message)


@pytest.fixture
def clock(monkeypatch):
    """Monotonic time that passes at the test's word, and by sleeping."""

    class Clock:
        now = 1000.0

        def sleep(self, seconds: float) -> None:
            self.now += seconds

    clock = Clock()
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(module.time, "sleep", clock.sleep)
    return clock


def exchange_of(nodes, keys=None):
    """Owners by node, each with the key `b"<its node>"`; `keys` are those that the server has, by owner."""
    grid = Slow(nodes)
    made: Exchange = GridExchange(grid, None if keys is None else keys.get)
    assert isinstance(made, GridExchange)
    assert made.clients == tuple(dict.fromkeys(name for name in nodes.values() if name))
    return grid, made


def soon():
    return time.time() + 30


def test_bytes_reach_the_owner_who_is_asked(echo):
    owners = [echo("north"), echo("south")]
    grid = InProcessGrid(app, {i: {"socket": str(owner.path)} for i, owner in enumerate(owners)})
    exchange = GridExchange(grid)
    assert exchange.clients == ("north", "south")
    exchange.send("south", b"abc", soon())
    assert exchange.waiting == {"south"}
    assert exchange.receive(5) == [("south", b"cba")]
    assert [owner.seen for owner in owners] == [[], [b"abc"]]
    assert exchange.waiting == frozenset()


def test_nobody_is_asked_twice_at_a_time():
    _, exchange = exchange_of({1: "north"})
    exchange.send("north", b"a", soon())
    with pytest.raises(GatewayError, match="under way"):
        exchange.send("north", b"b", soon())


def test_one_who_is_not_there_cannot_be_asked():
    _, exchange = exchange_of({1: "north"})
    with pytest.raises(GatewayError, match="south cannot be asked now, north can"):
        exchange.send("south", b"a", soon())


def test_an_answer_that_comes_late_is_the_answer_to_its_own_message(clock):
    grid, exchange = exchange_of({1: "north", 2: "south"})
    exchange.send("north", b"a", soon())
    exchange.send("south", b"b", soon())
    grid.answer(grid.sent[1], b"second")
    assert exchange.receive(5) == [("south", b"second")]
    assert exchange.receive(5) == []
    assert exchange.waiting == {"north"}
    exchange.send("south", b"c", soon())
    grid.answer(grid.sent[0], b"first, late")
    assert exchange.receive(5) == [("north", b"first, late")]
    assert exchange.waiting == {"south"}


def test_answers_that_come_while_the_server_looks_around_are_kept(clock):
    grid, exchange = exchange_of({1: "north"})
    exchange.send("north", b"a", soon())
    grid.answer(grid.sent[0], b"aye")
    clock.now += 60
    assert exchange.clients == ("north",)
    assert exchange.waiting == {"north"}
    assert exchange.receive(0) == [("north", b"aye")]


@pytest.mark.parametrize("code", [2, 3, 4, 5, 7, 8])
def test_what_flower_lost_is_lost_and_its_words_are_not_read(clock, caplog, code):
    grid, exchange = exchange_of({1: "north"})
    exchange.send("north", b"a", soon())
    grid.lose(grid.sent[0], code, "record 17 is a man of ninety")
    with caplog.at_level(logging.DEBUG):
        assert exchange.receive(5) == [("north", None)]
    assert f"code {code}" in caplog.text
    assert "ninety" not in caplog.text


def test_an_owner_without_a_gateway_is_lost_at_once(echo):
    gateway = echo("north")
    grid = InProcessGrid(app, {1: {"socket": str(gateway.path)}})
    exchange = GridExchange(grid)
    assert exchange.clients == ("north",)
    gateway.path.unlink()
    exchange.send("north", b"a", soon())
    assert exchange.receive(5) == [("north", None)]


def test_the_same_trouble_is_told_once_until_an_answer_comes(clock, caplog):
    grid, exchange = exchange_of({1: "north"})
    for ends in ("lost", "lost", "answered", "lost"):
        exchange.send("north", b"a", soon())
        if ends == "lost":
            grid.lose(grid.sent[-1], 2, "")
        else:
            grid.answer(grid.sent[-1], b"b")
        assert exchange.receive(5) == [("north", None if ends == "lost" else b"b")]
    assert caplog.text.count("no reply of north") == 2


def test_of_two_nodes_that_claim_one_owner_the_first_is_asked(clock, caplog):
    grid, exchange = exchange_of({5: "north"})
    grid.names[3] = "north"
    clock.now += 10
    with caplog.at_level(logging.WARNING):
        assert exchange.clients == ("north",)
    assert "a second node claims north" in caplog.text
    exchange.send("north", b"a", soon())
    assert grid.sent[0].metadata.dst_node_id == 5


def test_a_node_that_claims_anothers_name_is_refused_and_named(caplog):
    """A registered node that called itself north was asked as north, with south's records."""
    grid = Slow({3: "north", 5: "north"})
    exchange = GridExchange(grid, {"south": b"3", "north": b"5"}.get)
    with caplog.at_level(logging.WARNING):
        assert exchange.clients == ("north",)
    assert "node key 3: its gateway calls itself 'north', and its key is not that owner's" in caplog.text
    exchange.send("north", b"a", soon())
    assert grid.sent[0].metadata.dst_node_id == 5


def test_alone_it_is_refused_too_and_asked_again_in_case_it_was_mended(clock, caplog):
    grid = Slow({3: "north"})
    exchange = GridExchange(grid, {"south": b"3", "north": b"5"}.get)
    assert exchange.clients == ()
    with pytest.raises(
        GatewayError, match="north cannot be asked now, nobody can: its node is not connected"
    ):
        exchange.send("north", b"a", soon())
    assert "calls itself 'north'" in exchange.absent("south")
    grid.names[3] = "south"
    clock.now += 11
    assert exchange.clients == ("south",)


def test_an_owner_without_a_registered_key_is_nobody(caplog):
    exchange = GridExchange(Slow({3: "west"}), {"south": b"3"}.get)
    assert exchange.clients == ()
    assert "its key is not that owner's" in caplog.text
    assert "no key of its node" in exchange.absent("west")


def test_what_lacks_between_server_and_owner_is_named(clock, echo, tmp_path):
    """Connected without a gateway, connected and starting, not connected."""
    keys = {"north": b"n", "south": b"s", "west": b"w"}
    grid = InProcessGrid(app, {1: {"socket": str(tmp_path / "none")}}, keys={1: b"n"})
    exchange = GridExchange(grid, keys.get)
    assert exchange.clients == ()
    assert "no gateway answers at its socket" in exchange.absent("north")
    assert "not connected" in exchange.absent("south")
    slow = GridExchange(Slow({1: None}), {"north": b"1"}.get)
    assert slow.clients == ()
    assert "has not answered yet" in slow.absent("north")


def test_a_messages_name_cannot_be_guessed():
    """Flower takes a reply by the name of its message, which is made of what is in it."""
    grid, exchange = exchange_of({1: "north", 2: "south"})
    marks = set()
    for client in ("north", "south"):
        exchange.send(client, b"a", soon())
        marks.add(grid.sent[-1].content["gateway"]["mark"])
    assert [len(mark) for mark in marks] == [16, 16]


def test_an_owner_that_comes_back_under_another_id_is_found(clock):
    grid, exchange = exchange_of({5: "north"})
    del grid.names[5]
    clock.now += 10
    assert exchange.clients == ()
    grid.names[9] = "north"
    clock.now += 10
    assert exchange.clients == ("north",)
    exchange.send("north", b"a", soon())
    assert grid.sent[0].metadata.dst_node_id == 9


def test_the_first_claim_counts_again_when_its_node_is_back(clock):
    grid, exchange = exchange_of({5: "north"})
    grid.names = {9: "north"}
    clock.now += 10
    assert exchange.clients == ("north",)
    grid.names = {9: "north", 5: "north"}
    clock.now += 10
    assert exchange.clients == ("north",)
    exchange.send("north", b"a", soon())
    assert grid.sent[0].metadata.dst_node_id == 5


def test_a_node_that_told_no_name_is_asked_again_later(echo, tmp_path, clock):
    grid = InProcessGrid(app, {1: {"socket": str(tmp_path / "north.sock")}})
    exchange = GridExchange(grid)
    assert exchange.clients == ()
    echo("north")
    clock.now += 5
    assert exchange.clients == ()
    clock.now += 6
    assert exchange.clients == ("north",)


@pytest.mark.parametrize("data", [b"", b"NWMS", b"\x80pickle", about("x")[:-1]])
def test_what_is_no_name_makes_nobody(data):
    grid = Slow({1: None})
    exchange = GridExchange(grid)
    assert exchange.clients == ()
    grid.answer = None  # nothing more comes
    (inquiry,) = exchange._inquiries
    grid._replies[inquiry] = over_the_wire(Message(enclosed(data), 1, "query"))
    grid._replies[inquiry].metadata.__dict__["_reply_to_message_id"] = inquiry
    assert exchange.clients == ()
    assert exchange._inquiries == {}


def test_a_message_lives_until_some_time_after_its_deadline():
    grid, exchange = exchange_of({1: "north", 2: "south"})
    exchange.send("north", b"a", time.time() + 30)
    exchange.send("south", b"a", time.time() - 30)
    lives = [message.metadata.ttl for message in grid.sent]
    assert lives == pytest.approx([30 + GRACE, GRACE], abs=1.0)


def test_receive_waits_so_long_and_no_longer(clock):
    _, exchange = exchange_of({1: "north"})
    exchange.send("north", b"a", soon())
    started = clock.now
    assert exchange.receive(7.0) == []
    assert clock.now - started == pytest.approx(7.0, abs=0.01)
    assert exchange.receive(0.0) == []
    assert clock.now - started == pytest.approx(7.0, abs=0.01)


def test_a_superlink_that_is_gone_ends_the_run_with_a_clear_sentence(monkeypatch):
    grid, exchange = exchange_of({1: "north"})
    exchange.send("north", b"a", soon())

    def gone(*_):
        raise httpx.ConnectError("[Errno 111]")

    monkeypatch.setattr(grid, "pull_messages", gone)
    with pytest.raises(GatewayError, match="superlink does not answer"):
        exchange.receive(5)


def test_a_grid_that_does_not_take_a_message_is_told_of(monkeypatch):
    grid, exchange = exchange_of({1: "north"})
    for refusal in ([], [None]):
        monkeypatch.setattr(grid, "push_messages", lambda _, refusal=refusal: refusal)
        with pytest.raises(GatewayError, match="has just gone"):
            exchange.send("north", b"a", soon())
        assert exchange.waiting == frozenset()


def test_any_order_of_answers_and_losses_gives_each_owner_its_own(clock):
    """All 24 orders of four owners, two of whom are lost: nobody's answer is taken for another's."""
    for order in itertools.permutations(range(4)):
        grid, exchange = exchange_of({i: f"owner {i}" for i in range(4)})
        for i in range(4):
            exchange.send(f"owner {i}", b"", soon())
        got = []
        for i in order:
            grid.answer(grid.sent[i], bytes([i])) if i % 2 else grid.lose(grid.sent[i], 5)
            got += exchange.receive(1)
        assert got == [(f"owner {i}", bytes([i]) if i % 2 else None) for i in order]
