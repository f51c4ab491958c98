"""Real processes on loopback: TLS, registered keys, and what becomes of messages when one is killed."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from flwr.proto.control_pb2 import ListRunsRequest
from flwr.superlink.grid import http_grid

from noiseworthy.deploy.flower.commands import Link, Node, environment
from noiseworthy.deploy.flower.keys import key_in, make_node_key
from noiseworthy.deploy.flower.orders import orders_to, write_app
from noiseworthy.deploy.flower.processes import (
    Local,
    Process,
    _family,
    _launch,
    free_ports,
    link_of,
    look,
    stop,
)
from noiseworthy.deploy.flower.session import LinkExchange, run_of
from noiseworthy.deploy.flower.tasks import pull_soon

OWNERS = ("north", "south")


@contextmanager
def up(folder: Path, sockets: dict[str, Path], **options) -> Iterator[dict[str, Process]]:
    """A deployment, stopped in the end with everything that was started in its folder."""
    try:
        yield {process.name: process for process in Local(folder, sockets, **options).start()}
    finally:
        stop(folder)


def logs(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted((folder / "logs").glob("*.log")))


def until(true, seconds):
    end = time.monotonic() + seconds
    while not (came := true()) and time.monotonic() < end:
        time.sleep(0.2)
    return came


def said_in_plain(port: int) -> bytes:
    """What a superlink answers to a request without TLS."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as stream:
        stream.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            return stream.recv(100)
        except ConnectionError:
            return b""


def greeted(port: int, context: ssl.SSLContext) -> str | None:
    stream = socket.create_connection(("127.0.0.1", port), timeout=5)
    with stream, context.wrap_socket(stream, server_hostname="localhost") as wrapped:
        return wrapped.version()


@pytest.fixture(scope="module")
def link(tmp_path_factory) -> Iterator[Link]:
    """A superlink without nodes."""
    folder = tmp_path_factory.mktemp("link")
    with up(folder, {}):
        yield link_of(folder)


def test_a_link_speaks_tls_alone_under_the_authority_of_its_folder(link):
    assert not said_in_plain(link.port).startswith(b"HTTP")
    ours = ssl.create_default_context(cafile=str(link.keys.authority))
    assert greeted(link.port, ours) == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError):
        greeted(link.port, ssl.create_default_context())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", link.port), timeout=5)


def test_orders_without_the_password_are_refused(link, tmp_path):
    """Flower's own command, with every certificate, neither registers a node nor hands in an app."""
    make_node_key(link.keys.folder, "stranger")
    public = link.keys.node_public_key("stranger")
    for words in (("supernode", "register", public, "link"), ("run", write_app(tmp_path), "link")):
        assert "403 Forbidden" in said(link, ["flwr", *map(str, words)])


def status_of_runs(link: Link) -> dict[int, str]:
    with orders_to(link) as orders:
        runs = orders._client.ListRuns(ListRunsRequest()).run_dict.items()
        return {number: f"{run.status.status} {run.status.sub_status}".strip() for number, run in runs}


def test_a_run_whose_training_was_killed_ends_before_the_next_one(link):
    """It stayed pending for ever, and every next run with it."""
    with orders_to(link) as orders:
        left = orders.begin_run()
    with run_of(link) as grid:
        assert http_grid.pull_objects is pull_soon
        ours = grid.run.run_id
        assert status_of_runs(link) == {left: "finished failed", ours: "running"}
        assert list(grid.get_nodes()) == []
    assert status_of_runs(link) == {left: "finished failed", ours: "finished completed"}


def said(link: Link, command: list[str]) -> str:
    done = subprocess.run(command, env=environment(link.home), capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


@pytest.mark.slow
def test_two_owners_are_asked_over_tls_and_others_are_refused(echo, tmp_path):
    """Six messages to each of two owners come back as they were; two nodes that are not registered end."""
    owners = {name: echo(name) for name in OWNERS}
    with up(tmp_path, {name: owner.path for name, owner in owners.items()}) as processes:
        link = f"127.0.0.1:{processes['link'].port}"
        refused = [_stranger(tmp_path, link), _without_tls(tmp_path, link)]
        with asking(tmp_path) as exchange:
            assert until(lambda: set(exchange.clients) == set(OWNERS), 60), logs(tmp_path)
            alone = [process.pid for process in processes.values()]
            for turn in range(6):
                for name in OWNERS:
                    exchange.send(name, f"{name} {turn}".encode() * 1000, time.time() + 60)
                got = {}
                assert until(lambda got=got: got.update(exchange.receive(5)) or len(got) == 2, 60)
                assert got == {name: (f"{name} {turn}".encode() * 1000)[::-1] for name in OWNERS}
                assert _family(alone) == set(alone)  # no process is started for a message
        assert until(lambda: not refused[0].alive, 30)
        assert not refused[1].alive or "Activated" not in refused[1].log.read_text()
    for name, owner in owners.items():
        assert owner.seen == [f"{name} {turn}".encode() * 1000 for turn in range(6)]


@pytest.mark.slow
def test_a_registered_node_that_calls_itself_north_is_not_asked_as_north(echo, tmp_path, caplog):
    """South's node was listed with north's name and south's records."""
    sockets = {"south": echo("north", tmp_path / "s.sock").path, "north": tmp_path / "n.sock"}
    with up(tmp_path, sockets), asking(tmp_path) as exchange:
        assert until(lambda: exchange.clients or "calls itself" in caplog.text, 60), logs(tmp_path)
        assert exchange.clients == ()
        assert "node south: its gateway calls itself 'north'" in caplog.text
        found = "no gateway answers"  # when the server looked around again
        assert until(lambda: not exchange.clients and found in exchange.absent("north"), 60), logs(tmp_path)
        true = echo("north", tmp_path / "n.sock")
        assert until(lambda: exchange.clients == ("north",), 60)
        exchange.send("north", b"abc", time.time() + 60)
        assert replies(exchange, 1, 60) == {"north": b"cba"}
    assert true.seen == [b"abc"]


@pytest.mark.slow
def test_a_key_that_was_rotated_is_turned_away_and_told_so(echo, tmp_path):
    owner = echo("north")
    with up(tmp_path, {"north": owner.path}) as processes:
        log = processes["north"].log
        assert until(lambda: "SuperNode ID" in log.read_text(), 60)
        for path in (tmp_path / "keys" / "nodes").glob("north*"):
            path.unlink()
        make_node_key(tmp_path / "keys", "north")
        Local(tmp_path, {"north": owner.path}).start()
        assert until(lambda: not processes["north"].alive, 90), log.read_text()
        assert "does not know this node's key" in log.read_text()
        Local(tmp_path, {"north": owner.path}).start()
        with asking(tmp_path) as exchange:
            assert until(lambda: exchange.clients == ("north",), 60), logs(tmp_path)


def _stranger(folder: Path, link: str) -> Process:
    """A node with a key that nobody registered."""
    make_node_key(folder / "keys", "stranger")
    node = Node(folder, "stranger", folder / "x.sock", link, free_ports(1)[0])
    return _launch(folder, "stranger", node.command(), node.home, node.port)


def _without_tls(folder: Path, link: str) -> Process:
    node = Node(folder, "plain", folder / "x.sock", link, free_ports(1)[0], insecure=True)
    return _launch(folder, "plain", node.command(), node.home, node.port)


class Owners:
    """Two owners behind a deployment that is repaired when a test wants it whole."""

    def __init__(self, folder: Path, echo):
        self.folder = folder
        self.echoes = {name: echo(name, folder / f"{name}.sock") for name in OWNERS}
        self.local = Local(folder, {name: made.path for name, made in self.echoes.items()})

    def process(self, name: str) -> Process:
        (found,) = [process for process in look(self.folder) if process.name == name]
        return found


@pytest.fixture
def owners(tmp_path, echo) -> Iterator[Owners]:
    made = Owners(tmp_path, echo)
    try:
        made.local.start()
        yield made
    finally:
        stop(tmp_path)


def asking(folder: Path) -> LinkExchange:
    """An exchange with the owners of a deployment, each known by its key."""
    return LinkExchange(folder, lambda client: key_in(folder, client))


@contextmanager
def both(owners: Owners) -> Iterator[LinkExchange]:
    """An exchange with both owners."""
    with asking(owners.folder) as exchange:
        assert until(lambda: set(exchange.clients) == set(OWNERS), 90), logs(owners.folder)
        yield exchange


def replies(exchange: LinkExchange, count: int, seconds: float) -> dict[str, bytes | None]:
    got: dict[str, bytes | None] = {}
    until(lambda: got.update(exchange.receive(2)) or len(got) >= count, seconds)
    return got


def asked_again(exchange: LinkExchange, name: str) -> bytes | None:
    assert until(lambda: name in exchange.clients, 120)
    exchange.send(name, b"again", time.time() + 60)
    return replies(exchange, 1, 90)[name]


def once(work):
    """Do something at the first message only, while the gateway has it."""
    left = [work]

    def before(_):
        if left:
            left.pop()()

    return before


@pytest.mark.slow
def test_a_node_killed_during_a_message_loses_it_and_comes_back_under_its_id(owners):
    """The other owner's reply is not held up by it."""
    node = owners.process("north").pid
    owners.echoes["north"].before = once(lambda: os.kill(node, signal.SIGKILL))
    with both(owners) as exchange:
        for name in OWNERS:
            exchange.send(name, b"abc", time.time() + 60)
        assert replies(exchange, 1, 60) == {"south": b"cba"}
        started = time.monotonic()
        assert replies(exchange, 1, 120) == {"north": None}
        print(f"a killed node is told lost after {time.monotonic() - started:.0f} s")
        owners.local.start()
        assert asked_again(exchange, "north") == b"niaga"
    assert owners.echoes["north"].seen == [b"abc", b"again"]


@pytest.mark.slow
def test_a_link_killed_during_a_message_loses_it_and_another_run_goes_on(owners):
    link = owners.process("link").pid
    owners.echoes["north"].before = once(lambda: os.kill(link, signal.SIGKILL))
    with both(owners) as exchange:
        for name in OWNERS:
            exchange.send(name, b"abc", time.time() + 60)
        got = {}
        until(lambda: got.update(exchange.receive(2)) or "north" in got, 120)
        assert got["north"] is None
        owners.local.start()
        started = time.monotonic()
        assert asked_again(exchange, "north") == b"niaga"
        print(f"goes on {time.monotonic() - started:.0f} s after the link is back")
    assert owners.echoes["north"].seen == [b"abc", b"again"]


@pytest.mark.slow
def test_a_reply_after_the_deadline_is_collected_and_belongs_to_its_message(owners):
    owners.echoes["north"].before = once(lambda: time.sleep(20))
    with both(owners) as exchange:
        exchange.send("north", b"late", time.time() + 1)
        exchange.send("south", b"abc", time.time() + 60)
        assert replies(exchange, 1, 60) == {"south": b"cba"}
        assert exchange.waiting == {"north"}
        exchange.send("south", b"def", time.time() + 60)
        assert replies(exchange, 2, 90) == {"north": b"etal", "south": b"fed"}
