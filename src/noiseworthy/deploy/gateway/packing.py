"""Messages to a gateway as bytes, which a server makes and no gateway does."""

from noiseworthy.deploy.gateway import wire
from noiseworthy.deploy.gateway.framing import LARGEST
from noiseworthy.deploy.gateway.messages import LeaseRequest, Receipt, Request
from noiseworthy.deploy.gateway.models import ModelOffer


def pack_about() -> bytes:
    """The question for an owner's terms."""
    return wire.pack({"kind": "about"})


def pack_receipt(receipt: Receipt) -> bytes:
    """A receipt as bytes."""
    return wire.pack({"kind": "receipt", **receipt.model_dump()})


def pack_lease(lease: LeaseRequest) -> bytes:
    """A request for a lease as bytes."""
    return wire.pack({"kind": "lease", **lease.model_dump()})


def pack_model(offer: ModelOffer) -> bytes:
    """A model as bytes."""
    return wire.pack({"kind": "model", **offer.model_dump()}, most=LARGEST)


def pack_request(request: Request) -> bytes:
    """A request as bytes.

    Raises:
        WireError: parameters that no message can carry.
    """
    return wire.pack({"kind": "release", **request.model_dump()}, most=LARGEST)
