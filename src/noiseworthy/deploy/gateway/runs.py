"""An owner's ledger among its gateways: what it holds of runs and their releases, and whose turn it is."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from noiseworthy.errors import LedgerError
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


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Wait until no other process is inside: gateways that share a ledger make one release at a time.

    The kernel lets go of what a killed one held. So a release that is paid for and not sealed belongs to
    nobody who is still at it: it is lost.

    Args:
        path: of an empty file that is made, and stays.

    Raises:
        LedgerError: the file cannot be made.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise LedgerError(
            f"{path} cannot be made ({error}); make its folder writable, or free disk space"
        ) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
