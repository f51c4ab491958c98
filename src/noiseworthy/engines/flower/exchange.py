"""Messages to owners through a Flower grid, and their replies, whenever they come."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import httpx
from flwr.app import Message
from flwr.serverapp import Grid
from flwr.supercore.run import RunNotRunningException

from noiseworthy.engines.exchange import Answer, check_free
from noiseworthy.engines.flower.envelope import enclosed, opened
from noiseworthy.errors import GatewayError, WireError
from noiseworthy.gateway.messages import About, pack_about, read_reply

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


class GridExchange:
    """The owners behind the nodes of a grid; an `engines.exchange.Exchange`.

    A node says whose it is when it is first seen. Of several that claim one owner, the first that is there
    is asked. A node that comes back under another id is asked for its name like any other.

    Args:
        grid: of a run.

    Guarantee: a reply is taken for a message's only by the id of that message, so that what an owner
        answers late is never taken for the answer to another message.
    """

    def __init__(self, grid: Grid):
        self._grid = grid
        self._claims: dict[NodeId, str] = {}
        self._silent_until: dict[NodeId, float] = {}
        self._there: frozenset[NodeId] = frozenset()
        self._seen = -_LOOK
        self._sent: dict[MessageId, str] = {}
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

    def wait_for(self, clients: Iterable[str], seconds: float) -> tuple[str, ...]:
        """The clients that can be asked once all of these can, or when the time is over.

        Args:
            clients: by name.
            seconds: to wait at most.
        """
        wanted, until = set(clients), time.monotonic() + seconds
        while not wanted <= set(there := self.clients) and time.monotonic() < until:
            time.sleep(_PAUSE)
        return there

    def _nodes(self) -> dict[str, NodeId]:
        found: dict[str, NodeId] = {}
        for node, client in self._claims.items():
            if node in self._there:
                found.setdefault(client, node)
        return found

    def _push(self, node: NodeId, message: bytes, ttl: float) -> MessageId | None:
        """The id of a message on its way; None if the grid does not take it."""
        with _reached():
            ids = list(self._grid.push_messages([Message(enclosed(message), node, "query", ttl=ttl)]))
        return ids[0] if ids else None

    def _look(self) -> None:
        """See who is there, ask newcomers for their names, and keep what came."""
        now = time.monotonic()
        if now - self._seen >= _LOOK:
            self._seen = now
            with _reached():
                self._there = frozenset(self._grid.get_node_ids())
            for node in sorted(self._there - self._known(now)):
                self._inquire(node)
        self._collect()

    def _known(self, now: float) -> set[NodeId]:
        silent = {node for node, until in self._silent_until.items() if now < until}
        return silent | set(self._claims) | set(self._inquiries.values())

    def _inquire(self, node: NodeId) -> None:
        pushed = self._push(node, pack_about(), GRACE)
        if pushed is not None:
            self._inquiries[pushed] = node

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
            self._note_claim(self._inquiries.pop(asked), _data(reply))
        elif asked in self._sent:
            self._early.append((self._sent.pop(asked), _data(reply)))

    def _note_claim(self, node: NodeId, data: bytes | None) -> None:
        about = _about(data)
        if about is None:
            self._silent_until[node] = time.monotonic() + _AGAIN
            return
        if about.client in self._nodes():
            _log.warning("a second node claims %s; the first is asked while it is there", about.client)
        self._claims[node] = about.client


@contextmanager
def _reached() -> Iterator[None]:
    try:
        yield
    except (httpx.HTTPError, RunNotRunningException):
        raise GatewayError(
            "the superlink does not answer or has ended this run; start it and run again: the next run goes "
            "on where this one was"
        ) from None


def _data(reply: Message) -> bytes | None:
    """A reply's bytes; of an error its code alone is looked at, because its text may tell of data."""
    if reply.has_error():
        _log.warning("Flower lost a message to a node (code %d)", reply.error.code)
        return None
    try:
        return opened(reply)
    except LookupError as error:
        _log.warning("a node answered without a reply: %s", error.args[0])
        return None


def _about(data: bytes | None) -> About | None:
    try:
        reply = None if data is None else read_reply(data)
    except WireError:
        return None
    return reply if isinstance(reply, About) else None
