"""What an owner's ledger holds of runs and their releases."""

from dataclasses import dataclass

from noiseworthy.privacy.durable import DurableLedger


@dataclass(frozen=True)
class Runs:
    """The releases of one account, by run.

    Attributes:
        ledger: that holds them.
        account: number of the owner's account.
    """

    ledger: DurableLedger
    account: int

    @property
    def spent(self) -> int:
        """Shares of the lifetime budget that are spent."""
        ((spent,),) = self.ledger.query("SELECT spent FROM accounts WHERE id = ?", [self.account])
        return spent

    def number_of(self, name: str) -> int | None:
        """The number of a run that the ledger knows."""
        found = self.ledger.query("SELECT id FROM runs WHERE name = ?", [name])
        return found[0][0] if found else None

    def next_release(self, name: str) -> int:
        """The number after the last that was paid for in a run."""
        find = "SELECT coalesce(max(number), 0) FROM releases WHERE account = ? AND run = ?"
        ((last,),) = self.ledger.query(find, [self.account, self.number_of(name)])
        return last + 1

    def price_before(self, run: int, release: int) -> int | None:
        """The price of a release that was asked before."""
        find = "SELECT share FROM releases WHERE account = ? AND run = ? AND number = ?"
        found = self.ledger.query(find, [self.account, run, release])
        return found[0][0] if found else None

    def acknowledge(self, run: int, received: int) -> None:
        """Note that the uploads of a run arrived, up to a release."""
        find = (
            'SELECT g.id FROM grants g JOIN releases r ON r."grant" = g.id WHERE r.account = ? AND r.run = ? '
            "AND r.number <= ? AND g.sealed IS NOT NULL AND NOT g.acknowledged"
        )
        for (grant,) in self.ledger.query(find, [self.account, run, received]):
            self.ledger.acknowledge(grant)
