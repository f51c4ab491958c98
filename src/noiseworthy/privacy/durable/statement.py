"""What a ledger says of every client, in lines for people and programs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from noiseworthy.privacy.durable.accounts import COLUMNS, SCHEDULE, WHOLE, Account
from noiseworthy.privacy.durable.ledger import DurableLedger
from noiseworthy.privacy.mechanisms.currencies import CURRENCIES

_COUNTS = """
SELECT r.account, count(*), sum(g.sealed IS NOT NULL), sum(g.acknowledged)
FROM releases r JOIN grants g ON g.id = r."grant" GROUP BY r.account
"""
_ACCOUNTS = f"SELECT id, spent, {COLUMNS} FROM accounts ORDER BY id"


@dataclass(frozen=True)
class Line:
    """The state of one account.

    Attributes:
        account: budget and whose it is.
        planned: releases that runs have planned so far.
        spent: releases that were paid for.
        sealed: of those, releases whose bytes are on disk.
        acknowledged: of those, releases that arrived.
        shares: spent of the lifetime budget, of 2^62.
    """

    account: Account
    planned: int
    spent: int
    sealed: int
    acknowledged: int
    shares: int

    @property
    def epsilon(self) -> float:
        """Exact epsilon spent at the account's delta."""
        return epsilon_of(self.account, self.shares)

    @property
    def part(self) -> float:
        """Spent part of the lifetime budget, of mu^2 for Gaussian and of epsilon for Laplace noise."""
        return min(self.shares / WHOLE, 1.0)

    @property
    def remaining(self) -> int:
        """Releases that are planned and not paid for."""
        return max(self.planned - self.spent, 0)


def statement(ledger: DurableLedger) -> list[Line]:
    """A line for every account, in the order in which they were opened."""
    counts = {account: (spent, sealed, there) for account, spent, sealed, there in ledger.query(_COUNTS)}
    planned = dict(ledger.query("SELECT account, sum(releases) FROM plans GROUP BY account"))
    return [
        Line(Account(*terms), planned.get(number, 0), *counts.get(number, (0, 0, 0)), shares)
        for number, shares, *terms in ledger.query(_ACCOUNTS)
    ]


def epsilon_of(account: Account, shares: int) -> float:
    """Exact epsilon at the account's delta of what is spent; of a schedule, that of the whole."""
    if shares == 0:
        return 0.0
    if shares >= WHOLE or account.currency.startswith(SCHEDULE):
        return account.epsilon
    part = np.asarray(float(Fraction(shares, WHOLE) * account.whole))
    return min(float(CURRENCIES[account.currency].analysis.epsilon(part, account.delta)), account.epsilon)
