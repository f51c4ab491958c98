"""How messages reach owners and come back: what the remote engine asks of whatever carries them."""

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
