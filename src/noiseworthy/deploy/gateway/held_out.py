"""Records that an owner holds out: scored alone, by a gateway beside that of the records which train."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from noiseworthy.privacy.durable.fingerprints import Fingerprint

if TYPE_CHECKING:
    from noiseworthy.deploy.gateway.gateway import Gateway
    from noiseworthy.deploy.gateway.holding import Holding


def beside(gateway: Gateway, holding: Holding) -> Gateway:
    """The gateway of the records that are held out.

    Args:
        gateway: of those that train.
        holding: the others.

    Guarantee: it answers from its own records alone, on the same ledger and on an account of their own, which
    is as large: a neighbour exchanges a record of one part, and whatever is told of the other is as before
    (docs/theory/accounting.md#scores).
    """
    account = replace(gateway.account, data=f"{gateway.account.data} (held out)")
    (number,) = gateway.ledger.enrol([account])
    # of a score an owner remembers nothing, so that both have one place for what is remembered
    return replace(
        gateway, holding=holding, account=account, number=number, sums=None, _compiled={},
        fingerprint=Fingerprint(gateway.ledger, number, holding.parts),
    )  # fmt: skip
