"""How messages reach owners and come back: what the remote engine asks of whatever carries them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from noiseworthy.errors import GatewayError

Answer = tuple[str, bytes | None]
"""A client and its reply; None where the message is lost, and nobody knows what became of it."""


class Exchange(Protocol):
    """Carries one message at a time to each owner, in any order, and promises nothing about any of them."""

    @property
    def clients(self) -> tuple[str, ...]:
        """Owners who can be asked now, by name."""
        ...

    @property
    def waiting(self) -> frozenset[str]:
        """Owners with a message under way."""
        ...

    def send(self, client: str, message: bytes, deadline: float) -> None:
        """Start a message.

        Args:
            client: of `clients`, with nothing under way.
            message: as bytes.
            deadline: seconds since 1970, past which nobody waits for it.

        Raises:
            GatewayError: an owner who cannot be asked now.
        """
        ...

    def receive(self, seconds: float) -> list[Answer]:
        """What has come since, late replies too; waits so long for the first of them."""
        ...

    def absent(self, client: str) -> str:
        """Which part is missing between the server and an owner who cannot be asked, in words."""
        ...


@dataclass
class Direct:
    """Owners within reach of a call: gateways in this process, or behind sockets of this machine.

    Attributes:
        owners: what answers each of them.

    Example:
        >>> direct = Direct({"north": bytes.upper})
        >>> direct.send("north", b"aye", deadline=0.0)
        >>> direct.receive(1.0)
        [('north', b'AYE')]
    """

    owners: Mapping[str, Callable[[bytes], bytes]]
    _answers: dict[str, bytes | None] = field(default_factory=dict)

    @property
    def clients(self) -> tuple[str, ...]:
        """Everybody."""
        return tuple(self.owners)

    @property
    def waiting(self) -> frozenset[str]:
        """Owners whose answers were not taken yet."""
        return frozenset(self._answers)

    def send(self, client: str, message: bytes, deadline: float) -> None:
        """Ask at once."""
        check_free(self, client)
        try:
            self._answers[client] = self.owners[client](message)
        except GatewayError:
            self._answers[client] = None

    def receive(self, seconds: float) -> list[Answer]:
        """All answers that were not taken yet."""
        taken, self._answers = list(self._answers.items()), {}
        return taken

    def absent(self, client: str) -> str:
        """Its gateway is all that there could be."""
        return "no gateway answers; start it with noiseworthy gateway"


def check_free(exchange: Exchange, client: str) -> None:
    """Refuse a message to an owner who is not there, or has one under way.

    Raises:
        GatewayError: either of them.
    """
    if client not in exchange.clients:
        there = ", ".join(exchange.clients) or "nobody"
        raise GatewayError(f"{client} cannot be asked now, {there} can: {exchange.absent(client)}")
    if client in exchange.waiting:
        raise GatewayError(f"a message to {client} is under way; wait for its reply first")
