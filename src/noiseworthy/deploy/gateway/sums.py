"""Messages of secure sums to a gateway, and its answers; `deploy.secure_sum` says what is in them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pydantic import ConfigDict

from noiseworthy._tables import Table
from noiseworthy.deploy.gateway import wire
from noiseworthy.deploy.gateway.messages import HeadText, Request
from noiseworthy.deploy.gateway.terms import Declined
from noiseworthy.methods.wire import Size

if TYPE_CHECKING:
    from noiseworthy.deploy.gateway.gateway import Gateway


class SumRequest(Table):
    """A message of a secure sum.

    Attributes:
        message: of `deploy.secure_sum`.
        request: what is released into the sum; with the message that begins a round, None with others.
        weight: of the upload in the sum, public.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    message: bytes
    request: Request | None = None
    weight: Size = 1.0

    def answered(self, gateway: Gateway) -> bytes:
        """The reply of a gateway.

        Raises:
            Declined: its owner allows no secure sums, or none like this one.
        """
        if gateway.sums is None:
            raise Declined("not-allowed", "the owner's file has no [secure_sum]; nothing was spent")
        return gateway.sums.answer(gateway, self)


class Summed(Table):
    """An owner's answer to a message of a secure sum.

    Attributes:
        message: of `deploy.secure_sum`.
        head: of the owner's ledger.
    """

    message: bytes
    head: HeadText


def subject_of(request: Request) -> str:
    """Digest of what all owners of a secure sum are asked alike: run, work, model and reference.

    Owners who sign it know that nobody was shown another model.
    """
    fields = request.model_dump(include={"run", "task", "theta", "mechanism", "seen"})
    return hashlib.sha256(wire.pack(fields | {"algorithm": request.algorithm.name})).hexdigest()
