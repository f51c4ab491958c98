"""Leases: parts of lifetime budgets that are held for one run, so that two runs never strand each other.

A lease binds other runs alone. Releases of its run draw from it, and others see the budget less what is left
of open leases. It adds to no budget: what is spent is counted, and checked, as if there were none.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.durable.accounts import LAST_BITS, WHOLE
from noiseworthy.privacy.durable.answers import Refusal
from noiseworthy.privacy.durable.storage import named_errors

if TYPE_CHECKING:
    from noiseworthy.privacy.durable.ledger import DurableLedger

_OPEN = """
SELECT l.id, l.run, l.account, l.shares, coalesce(sum(r.share), 0)
FROM leases l LEFT JOIN releases r ON r.account = l.account AND r.run = l.run
WHERE NOT l.ended GROUP BY l.id
"""

_OTHERWISE = (
    "another part of the budget is held for this run; ask for that, give the new run another name, or have "
    "the owner end it with noiseworthy ledger end-lease"
)


class Lease(NamedTuple):
    """A part of a budget that is held for a run.

    Attributes:
        number: of the lease.
        run: its number.
        account: of the client.
        shares: that were asked for.
        drawn: of those, shares that the run has spent.
    """

    number: int
    run: int
    account: int
    shares: int
    drawn: int

    @property
    def rest(self) -> int:
        """Shares that are held still."""
        return max(self.shares - self.drawn, 0)


def open_leases(db: sqlite3.Connection, account: int | None = None) -> list[Lease]:
    """Leases that have not ended, of one account or of all."""
    return [one for one in map(Lease._make, db.execute(_OPEN)) if account in (None, one.account)]


def held_for_others(db: sqlite3.Connection, account: int, run: int | None) -> int:
    """Shares of an account that are held for other runs than this one."""
    return sum(lease.rest for lease in open_leases(db, account) if lease.run != run)


def open_rest(ledger: DurableLedger, account: int) -> int:
    """Shares of an account that are held for runs and not spent yet."""
    with named_errors(ledger.path):
        return held_for_others(ledger._db, account, None)


def lease(ledger: DurableLedger, run: int, account: int, shares: int) -> Refusal | None:
    """Hold a part of a budget for a run; when None is returned, it is on disk. Asked again, it holds once.

    Args:
        ledger: of the account.
        run: of `begin`.
        account: of the client.
        shares: of the budget, those that the run has drawn already among them.

    Returns:
        None, or the refusal; nothing was held then.

    Raises:
        InvalidInput: shares below 0, or an account that is not in the ledger.
    """
    if shares < 0:
        raise InvalidInput(f"a lease holds at least 0 shares, got {shares}")
    with ledger._writing():
        mine = [one for one in open_leases(ledger._db, account) if one.run == run]
        if mine and mine[0].shares != shares:
            return Refusal("conflict", ledger._known(account).client, _OTHERWISE)
        if not mine:
            if (short := _short(ledger, run, account, shares)) is not None:
                return short
            ledger._entered("lease", "leases", "run, account, shares", (run, account, shares))
    return None


def lease_refusal(ledger: DurableLedger, run: int | None, account: int, shares: int) -> Refusal | None:
    """The refusal that a lease would get now, or None; arguments as of `lease`, a new run being None."""
    with named_errors(ledger.path):
        return _short(ledger, run, account, shares)


def _short(ledger: DurableLedger, run: int | None, account: int, shares: int) -> Refusal | None:
    spent_by = "SELECT coalesce(sum(share), 0) FROM releases WHERE account = ? AND run = ?"
    (drawn,) = ledger._db.execute(spent_by, (account, run)).fetchone()
    return refused(ledger, account, run, max(shares - drawn, 0))


def refused(ledger: DurableLedger, account: int, run: int | None, asked: int) -> Refusal | None:
    """The refusal of further shares that the budget, or what other runs leave of it, has no room for.

    The run is None where it is not known yet.
    """
    terms, held = ledger._known(account), held_for_others(ledger._db, account, run)
    (spent,) = ledger._db.execute("SELECT spent FROM accounts WHERE id = ?", [account]).fetchone()
    if spent + asked + held <= WHOLE + LAST_BITS:
        return None
    part = (
        f"{terms.client} has spent {_percent(spent)} of its lifetime budget (epsilon {terms.epsilon:g}) on "
        f"{terms.data}"
    )
    if spent + asked > WHOLE + LAST_BITS:
        message = (
            f"{part} and another {_percent(asked)} is asked; nothing was charged, plan with what is left or "
            "ask others"
        )
        return Refusal("budget", terms.client, message)
    message = (
        f"{part}, {_percent(held)} is held for other runs, and {_percent(asked)} is asked; nothing was "
        "charged, wait for their end, or have the owner end one that was given up with noiseworthy ledger "
        "end-lease"
    )
    return Refusal("leased", terms.client, message)


def end_leases(ledger: DurableLedger, run: int, account: int | None = None) -> list[Lease]:
    """Return what is left of a run's leases, at one account or all, to their budgets, durably.

    Returns:
        The leases that ended; none where the run held nothing.
    """
    with ledger._writing():
        mine = [one for one in open_leases(ledger._db, account) if one.run == run]
        for one in mine:
            ledger._db.execute("UPDATE leases SET ended = 1 WHERE id = ?", [one.number])
            ledger._extend("lease-end", one.number, b"")
    return mine


def _percent(shares: int) -> str:
    return f"{100 * shares / WHOLE:.4g} %"
