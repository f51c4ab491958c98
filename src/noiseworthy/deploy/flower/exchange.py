"""Messages to owners through a Flower grid, and their replies, whenever they come."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeAlias

import httpx
from flwr.app import Message
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.run import RunNotRunningException

from noiseworthy.deploy.exchange import Answer, check_free
from noiseworthy.deploy.flower.envelope import NO_GATEWAY, enclosed, opened
from noiseworthy.deploy.gateway.client import pack_about
from noiseworthy.deploy.gateway.messages import About, Refused, read_reply
from noiseworthy.errors import GatewayError, WireError

NodeId: TypeAlias = int
MessageId: TypeAlias = str

GRACE = 60.0
"""Seconds after its deadline in which a message still reaches a node and its reply comes back."""
_PAUSE = 0.2
"""Seconds between two looks for replies."""
_LOOK = 2.0
"""Seconds between two looks at the nodes that are there."""
_AGAIN = 10.0
"""Seconds until a node that told no name is asked again."""

_log = logging.getLogger(__name__)


class Grid(Protocol):
    """What is used of a run's grid of Flower's."""

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Nodes that are there, with the keys by which the superlink knows them."""
        ...

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages; their ids."""
        ...

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies to messages, each once."""
        ...


class GridExchange:
    """The owners behind the nodes of a grid; a `deploy.exchange.Exchange`.

    A node says whose it is when it is first seen, and its key proves it. Of several that claim one owner,
    the first that is there is asked. A node that comes back under another id is asked its name like any.

    Args:
        grid: of a run.
        key_of: the public key of an owner's node, as PEM; None for an owner who has registered none. Without
            it names are taken as they are told, as on loopback without TLS.

    Guarantee: nobody but the node that holds an owner's key is asked as that owner, or answers for it. A
        reply is taken for a message's only by the id of that message, which nobody can guess, so that what an
        owner answers late is never taken for the answer to another message.
    """

    def __init__(self, grid: Grid, key_of: Callable[[str], bytes | None] | None = None):
        self._grid = grid
        self._key_of = key_of
        self._claims: dict[NodeId, str] = {}
        self._troubles: dict[NodeId, str] = {}
        self._silent_until: dict[NodeId, float] = {}
        self._there: dict[NodeId, NodeInfo] = {}
        self._seen = -_LOOK
        self._sent: dict[MessageId, str] = {}
        self._faults: dict[str, str] = {}
        self._inquiries: dict[MessageId, NodeId] = {}
        self._early: list[Answer] = []

    @property
    def clients(self) -> tuple[str, ...]:
        """Owners whose nodes are there and have told their names, in the order in which they did."""
        self._look()
        return tuple(self._nodes())

    @property
    def waiting(self) -> frozenset[str]:
        """Owners with a message under way, or with a reply that was not taken yet."""
        return frozenset(self._sent.values()) | {client for client, _ in self._early}

    def send(self, client: str, message: bytes, deadline: float) -> None:
        """Start a message; it and its reply may be under way until `GRACE` after the deadline.

        Args:
            client: of `clients`, with nothing under way.
            message: as bytes.
            deadline: seconds since 1970.

        Raises:
            GatewayError: an owner who cannot be asked now.
        """
        check_free(self, client)
        ttl = max(deadline - time.time(), 0.0) + GRACE
        pushed = self._push(self._nodes()[client], message, ttl)
        if pushed is None:
            raise GatewayError(f"the node of {client} has just gone; wait until it is back, then ask again")
        self._sent[pushed] = client

    def receive(self, seconds: float) -> list[Answer]:
        """What has come since, late replies too.

        Args:
            seconds: to wait for the first of them; 0 looks once.

        Returns:
            Clients and replies; None where Flower or the node's app says that there will be none.

        Raises:
            GatewayError: the superlink does not answer.
        """
        until = time.monotonic() + seconds
        while not (self._collect() or self._early) and time.monotonic() < until:
            time.sleep(min(_PAUSE, max(until - time.monotonic(), 0.0)))
        taken, self._early = self._early, []
        return taken

    def absent(self, client: str) -> str:
        """Which part is missing between the server and an owner, in words.

        Args:
            client: by name, not of `clients`.
        """
        if self._key_of is None:
            nodes = sorted(self._there.keys() - set(self._nodes().values()))
        else:
            key = self._key_of(client)
            if key is None:
                return "the superlink knows no key of its node; put the .pub into keys/nodes and register it"
            nodes = [node for node, info in self._there.items() if info.public_key == key]
        if not nodes:
            return "its node is not connected; start it with noiseworthy deploy node, or deploy up again"
        return "; ".join(dict.fromkeys(self._troubles.get(node, _STARTING) for node in nodes))

    def _nodes(self) -> dict[str, NodeId]:
        found: dict[str, NodeId] = {}
        for node, client in self._claims.items():
            if node in self._there:
                found.setdefault(client, node)
        return found

    def _push(self, node: NodeId, message: bytes, ttl: float) -> MessageId | None:
        """The id of a message on its way; None if the grid does not take it."""
        sent = Message(enclosed(message, unguessable=True), node, "query", ttl=ttl)
        with _reached():
            ids = list(self._grid.push_messages([sent]))
        return ids[0] if ids else None

    def _look(self) -> None:
        """See who is there, ask newcomers for their names, and keep what came."""
        now = time.monotonic()
        if now - self._seen >= _LOOK:
            self._seen = now
            with _reached():
                self._there = {one.node_id: one for one in self._grid.get_nodes()}
            silent = {node for node, until in self._silent_until.items() if now < until}
            known = silent | set(self._claims) | set(self._inquiries.values())
            for node in sorted(self._there.keys() - known):
                if (pushed := self._push(node, pack_about(), GRACE)) is not None:
                    self._inquiries[pushed] = node
        self._collect()

    def _collect(self) -> bool:
        """Take what the grid holds; whether an answer was among it."""
        ids = [*self._sent, *self._inquiries]
        with _reached():
            replies = list(self._grid.pull_messages(ids)) if ids else []
        for reply in replies:
            self._take(reply)
        return bool(self._early)

    def _take(self, reply: Message) -> None:
        asked = reply.metadata.reply_to_message_id
        if asked in self._inquiries:
            self._note_claim(self._inquiries.pop(asked), reply)
        elif asked in self._sent:
            (data, fault), client = _read(reply), self._sent.pop(asked)
            if data is None and fault != self._faults.get(client):
                _log.warning("no reply of %s: %s", client, fault)
            self._faults[client] = fault
            self._early.append((client, data))

    def _note_claim(self, node: NodeId, reply: Message) -> None:
        about, trouble = _introduction(*_read(reply))
        if about is None or (trouble := self._disproof(node, about.client)):
            self._silent_until[node] = time.monotonic() + _AGAIN
            if trouble != self._troubles.get(node):
                _log.warning("node %s: %s", self._called(node), trouble)
            self._troubles[node] = trouble
            return
        if about.client in self._nodes():
            _log.warning("a second node claims %s; the first is asked while it is there", about.client)
        self._claims[node] = about.client

    def _called(self, node: NodeId) -> str:
        """The name that a node's key was registered by."""
        info = self._there.get(node)
        return (info.name if info else "") or str(node)

    def _disproof(self, node: NodeId, client: str) -> str:
        """Why a node is not who it says; empty if its key is that owner's."""
        if self._key_of is None:
            return ""
        info = self._there.get(node)
        if info is not None and info.public_key == self._key_of(client):
            return ""
        return f"its gateway calls itself {client!r}, and its key is not that owner's; it is not asked"


_STARTING = "its node is connected and has not answered yet; wait, or look at the node's log"


@contextmanager
def _reached() -> Iterator[None]:
    try:
        yield
    except (httpx.HTTPError, RunNotRunningException):
        raise GatewayError(
            "the superlink does not answer or has ended this run; start it and run again: the next run goes "
            "on where this one was"
        ) from None


def _read(reply: Message) -> tuple[bytes | None, str]:
    """A reply's bytes, or why there are none; of an error its code alone, whose text may tell of data."""
    if reply.has_error():
        return None, f"Flower lost a message to its node (code {reply.error.code})"
    try:
        return opened(reply), ""
    except LookupError as error:
        fault = error.args[0]
    if fault == NO_GATEWAY:
        fault = "its node is connected, no gateway answers at its socket; start it with noiseworthy gateway"
    return None, fault


def _introduction(data: bytes | None, fault: str) -> tuple[About | None, str]:
    try:
        reply = None if data is None else read_reply(data)
    except WireError as error:
        return None, str(error)
    if isinstance(reply, About):
        return reply, ""
    return None, f"its gateway refuses: {reply.message}" if isinstance(reply, Refused) else fault
