"""Schedules of runs that are simulated: what they plan, and what they sealed before they were cut off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from noiseworthy.errors import LedgerError
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.durable import chain
from noiseworthy.privacy.durable.accounts import SCHEDULE, each_of
from noiseworthy.privacy.durable.chain import Head

if TYPE_CHECKING:
    from noiseworthy.privacy.durable.ledger import DurableLedger


def schedule_accounts(budget: PrivacyBudget, run: str, data: str, world: str, clients: Sequence[str]):
    """An account for each client that serves one run, whose schedule was priced as a whole.

    For Poisson batches, and for Laplace noise with a delta: their privacy loss distributions do not add up,
    so that no other release may be charged to the same budget.
    """
    return each_of(SCHEDULE + run, [1.0] * budget.clients, budget, data, world, clients)


def note_plan(ledger: DurableLedger, run: int, stage: int, releases: Sequence[tuple[int, int]]) -> None:
    """Note how many releases a stage of a run plans, as pairs of account and count.

    Args:
        ledger: of the run.
        run: of `begin`.
        stage: its number in the run.
        releases: of each account.

    Raises:
        LedgerError: a stage that was planned otherwise.
    """
    rows = sorted((run, stage, account, count) for account, count in releases)
    find = "SELECT run, stage, account, releases FROM plans WHERE run = ? AND stage = ? ORDER BY account"
    with ledger._writing():
        known = ledger._db.execute(find, (run, stage)).fetchall()
        entry = ledger._last()[0] + 1
        if rows and not known:
            ledger._db.executemany(f"INSERT INTO plans VALUES (?, ?, ?, ?, {entry})", rows)
            ledger._extend("plan", entry, chain.digest(rows))
        elif known != rows:
            raise LedgerError(
                f"{ledger.path} holds another plan of stage {stage} of this run: data, software or study "
                "have changed; choose another run folder"
            )


def spent_by_others(ledger: DurableLedger, run: int) -> dict[int, int]:
    """Shares that other runs have spent of each account, left out where there are none."""
    find = "SELECT account, sum(share) FROM releases WHERE run != ? GROUP BY account"
    return dict(ledger.query(find, [run]))


def unacknowledged(ledger: DurableLedger, run: int, head: Head) -> list[int]:
    """Grants of a run that were sealed when the chain ended at `head`, and not acknowledged since."""
    find = (
        "SELECT e.subject FROM entries e JOIN grants g ON g.id = e.subject "
        "WHERE e.kind = 'seal' AND e.id <= ? AND g.run = ? AND NOT g.acknowledged"
    )
    return [grant for (grant,) in ledger.query(find, [head.length, run])]
