"""Asking a gateway over its socket, by messages that no gateway makes; needs no jax and sees no record."""

from dataclasses import dataclass
from pathlib import Path

from noiseworthy.deploy.gateway import forwarding, wire
from noiseworthy.deploy.gateway.framing import LARGEST
from noiseworthy.deploy.gateway.messages import KINDS, LeaseRequest, Receipt, Reply, Request, read_reply
from noiseworthy.deploy.gateway.models import ModelOffer
from noiseworthy.deploy.gateway.sums import SumRequest


@dataclass(frozen=True)
class GatewayClient:
    """The way to one gateway.

    Attributes:
        path: of its socket.
        seconds: to wait for an answer; one that comes too late is kept by the gateway, and asking again
            brings the same bytes.
    """

    path: Path
    seconds: float = 600.0

    def ask(self, request: Request) -> Reply:
        """The upload, or why there is none.

        Raises:
            GatewayError: nobody listens, or no answer in time.
            WireError: a request that no message can carry, or an answer that is none.
        """
        return read_reply(self.forward(packed(request)))

    def about(self) -> Reply:
        """The owner's terms and how much is spent (`About`), or why it cannot tell.

        Raises:
            GatewayError: nobody listens, or no answer in time.
            WireError: an answer that is none.
        """
        return read_reply(self.forward(pack_about()))

    def forward(self, data: bytes) -> bytes:
        """The reply to a message, both as they are: what an app that connects server and owner does.

        Raises:
            GatewayError: nobody listens, or no answer in time.
        """
        return forwarding.forward(self.path, data, self.seconds)


# Messages as bytes ------------------------------------------------------------------------------------


def pack_about() -> bytes:
    """The question for an owner's terms."""
    return wire.pack({"kind": "about"})


def packed(message: Request | SumRequest | Receipt | LeaseRequest | ModelOffer) -> bytes:
    """What may be asked of a gateway beside its terms, as bytes.

    Raises:
        WireError: parameters that no message can carry.
    """
    kind = next(kind for kind, (_, name) in KINDS.items() if name == type(message).__name__)
    return wire.pack({"kind": kind, **message.model_dump()}, most=LARGEST)
