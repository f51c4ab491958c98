"""Records that an owner holds out: scored alone, by a gateway beside that of the records which train.

Two budgets bound what is told of a record by one of them alone as long as no record was ever in both parts.
So both parts are bound to their accounts together, with the first release of either; while one of them is
other than it was nothing is released; and records that changed are never taken for those of before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from noiseworthy.errors import LedgerError
from noiseworthy.privacy.durable.fingerprints import Fingerprint
from noiseworthy.privacy.durable.reading import account_of

if TYPE_CHECKING:
    from noiseworthy.deploy.gateway.gateway import Gateway
    from noiseworthy.deploy.gateway.holding import Holding
    from noiseworthy.privacy.durable import Account, DurableLedger


@dataclass
class BothParts:
    """What binds the accounts of both parts to their records, `each` those of one."""

    each: tuple[Fingerprint, Fingerprint]

    @property
    def taken(self) -> bool:
        """Whether both are bound."""
        return all(one.taken for one in self.each)

    @property
    def fits(self) -> bool:
        """Whether neither part is other than it was."""
        return all(one.fits for one in self.each)

    def take(self) -> None:
        """Bind those that are not."""
        for one in self.each:
            if not one.taken:
                one.take()


def beside(gateway: Gateway, holding: Holding, trained: Fingerprint) -> Gateway:
    """The gateway of the records that are held out; both are bound together from here on.

    Args:
        gateway: of those that train.
        holding: the others.
        trained: of those that train.

    Raises:
        LedgerError: what the budget was spent on was changed since, or is not known: they may have trained.

    Guarantee: it answers from its own records alone, on the same ledger and on an account of their own, which
    is as large (docs/theory/accounting.md#scores).
    """
    account, ledger = _held_out(gateway.account), gateway.ledger
    ((bound,),) = ledger.query("SELECT count(*) FROM fingerprints WHERE account = ?", [gateway.number])
    if not _known(ledger, account) and (bound > 1 or (not bound and gateway.runs.spent)):
        raise LedgerError(
            f"the budget of {gateway.account.data} was spent on records that changed since, and those held "
            "out now may be among them; name another data_set, or take score out of [allowed] algorithms"
        )
    (number,) = ledger.enrol([account])
    gateway.fingerprint = BothParts((trained, Fingerprint(ledger, number, holding.parts)))
    # of a score an owner remembers nothing, so that both have one place for what is remembered
    return replace(gateway, holding=holding, account=account, number=number, sums=None, _compiled={})


def take_changed(fingerprint: Fingerprint, account: Account) -> None:
    """Take changed records for those of before; refused, by LedgerError, where some were ever held out."""
    if _known(fingerprint.ledger, _held_out(account)):
        raise LedgerError(
            f"the ledger has a budget for records held out of {account.data}, and a record that moved to the "
            "others would be told of by both; put them back, or name another data_set for new ones"
        )
    fingerprint.take()


def _known(ledger: DurableLedger, account: Account) -> bool:
    return account_of(ledger, account.data, account.world, account.client) is not None


def _held_out(account: Account) -> Account:
    return replace(account, data=f"{account.data} (held out)")
