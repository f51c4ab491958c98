"""The durable ledger: releases are spent on disk, then made, then sealed, then acknowledged."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from noiseworthy.errors import InvalidInput, LedgerError
from noiseworthy.privacy.durable import chain
from noiseworthy.privacy.durable.accounts import COLUMNS, Account
from noiseworthy.privacy.durable.answers import Answer, Charge, Grant, Refusal, Resend
from noiseworthy.privacy.durable.leases import refused
from noiseworthy.privacy.durable.rows import Rows, number_of
from noiseworthy.privacy.durable.storage import connected, named_errors, settled
from noiseworthy.privacy.durable.verification import verified

if TYPE_CHECKING:
    from noiseworthy.privacy.durable.witness import Witness


class DurableLedger(Rows):
    """What clients have spent of their lifetime budgets, in one SQLite file that processes may share.

    A release goes through three states: spent (on disk, before its noise is drawn), sealed (its bytes, or
    their digest, on disk before they leave) and acknowledged (they arrived). Spending is never taken back.
    Asked for again, a sealed release is answered by the same bytes. One that was spent and never sealed is
    lost, because its noise may have been drawn; in a run whose noise is a function of (run, release), as in
    simulation, it is made again, bit by bit the same.

    Guarantee: the shares on disk of every account sum to the whole at most, and to no less than what was ever
    granted, under any number of processes and a kill at any point; what is spent may be more than what was
    released, and never less.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> north = Account("wards", "", "north", "epsilon", 1.0, 1.0, 0.0, "replace-one", "record")
        >>> with TemporaryDirectory() as folder, DurableLedger.open(Path(folder) / "l.sqlite") as ledger:
        ...     (account,) = ledger.enrol([north])
        ...     run = ledger.begin("first study")
        ...     grant = ledger.reserve(run, [Charge(account, 1, north.share(0.6))])
        ...     ledger.seal(grant.number, b"noised upload")
        ...     again = ledger.reserve(run, [Charge(account, 1, north.share(0.6))])
        ...     ledger.acknowledge(grant.number)
        ...     more = ledger.reserve(run, [Charge(account, 2, north.share(0.6))])
        >>> again.sealed, more.why
        (b'noised upload', 'budget')
    """

    def __init__(self, path: Path, db: sqlite3.Connection, witness: Witness | None = None):
        super().__init__(path, db)
        self._witness = witness

    @classmethod
    def open(cls, path: Path, witness: Path | None = None) -> Self:
        """The ledger of a file, which is made where there is none; its chain is verified.

        Args:
            path: of the file.
            witness: a file elsewhere that is told what was spent, before anything is made of it.

        Raises:
            LedgerError: a folder that cannot be written to, a damaged file, a chain that is broken, or one
                that lacks what the witness saw.
        """
        if witness is None:
            return cls(path, connected(path))._verified()
        from noiseworthy.privacy.durable.witness import Witness  # here, because few ledgers have one

        return cls(path, connected(path), Witness(witness))._verified()

    def _verified(self) -> Self:
        try:
            self.verify()
            if self._witness is not None:
                self._witness.heard_by(self)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Let go of the file, which then holds everything; the last process leaves nothing beside it."""
        with suppress(sqlite3.Error):  # of one that is only read, or closed already
            settled(self._db)
        self._db.close()

    def settle(self) -> bool:
        """Move all that was written into the ledger's own file, so that a copy of it holds everything.

        Returns:
            Whether it is there now; while others read or write it is not, and nobody is waited for.
        """
        with named_errors(self.path):
            return settled(self._db)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What is asked before any release -----------------------------------------------------------------

    def enrol(self, accounts: Sequence[Account]) -> list[int]:
        """Numbers of the accounts, which are opened where they are new.

        Raises:
            LedgerError: a client that is known with another budget, currency, relation or unit.
        """
        with self._writing():
            return [self._enrolled(account) for account in accounts]

    def _enrolled(self, account: Account) -> int:
        key = account.data, account.world, account.client
        found = self._account("data = ? AND world = ? AND client = ?", key)
        if found is None:
            self._check_new(account)
            return self._entered("account", "accounts", COLUMNS, account.row)
        number, known = found
        if known != account:
            raise LedgerError(
                f"{self.path} holds another budget of {account.client} on {account.data} "
                f"({_terms(known)}; now {_terms(account)}); a lifetime budget does not change, state the one "
                "that it holds, or another data set for records that are new"
            )
        return number

    def begin(self, run: str, *, repeatable: bool = False) -> int:
        """The number of a run, which is entered where it is new.

        Args:
            run: a name that no other run has.
            repeatable: whether its noise is a function of (run, release), as in simulation: what was spent
                and never sealed may then be made again. Deployed noise has no seed and is never repeatable.

        Raises:
            LedgerError: a run that is known as the other kind.
        """
        with self._writing():
            found = self._db.execute("SELECT id, repeatable FROM runs WHERE name = ?", [run]).fetchone()
            if found is None:
                return self._entered("run", "runs", "name, repeatable", (run, int(repeatable)))
        if bool(found[1]) != repeatable:
            raise LedgerError(f"{self.path} knows run {run} with other noise; give the new run another name")
        return found[0]

    # The life of a release ----------------------------------------------------------------------------

    def reserve(self, run: int, charges: Sequence[Charge]) -> Answer:
        """Pay for releases that are made, sealed and acknowledged together: all of them or none.

        When a `Grant` is returned, the spending is on disk.

        Args:
            run: of `begin`.
            charges: at least one; asked again, exactly those that were asked together before.

        Returns:
            `Grant`, `Resend` with the sealed bytes, or `Refusal`.

        Raises:
            InvalidInput: no charge, the same release twice, a negative share, an unknown account.
            LedgerError: releases of which some were asked before, or at another price; a ledger that was put
                back and not accepted; a witness that cannot be told, before anything was spent.
            Unwitnessed: a witness that cannot be told any more; what was spent must not be made.
        """
        _check(charges)
        if self._witness is not None:
            self._witness.check_there()
        answer = self._reserved(run, charges)
        # after the commit and before the caller may draw: a witness ahead of its ledger would refuse it
        if isinstance(answer, Grant):
            self._tell()
        return answer

    def _reserved(self, run: int, charges: Sequence[Charge]) -> Answer:
        with self._writing():
            if not self.accepted:
                raise LedgerError(
                    f"{self.path} was put back from a backup, and nobody has said what was spent since that "
                    "was made; say it with noiseworthy ledger accept, nothing was spent"
                )
            before = self._granted(run, charges)
            if before is not None:
                return self._answered_again(before, charges)
            return self._spend(run, charges) if (short := self._short(charges, run)) is None else short

    def _spend(self, run: int, charges: Sequence[Charge]) -> Grant:
        """A grant for new releases; the charges were checked."""
        row = self._db.execute("INSERT INTO grants (run, releases) VALUES (?, ?)", (run, len(charges)))
        grant = number_of(row)
        # in the order in which `verification` reads them back, because their digest depends on it
        rows = sorted((account, run, number, share, grant) for account, number, share in charges)
        self._db.executemany("INSERT INTO releases VALUES (?, ?, ?, ?, ?)", rows)
        sums = [(share, account) for account, share in _sums(charges).items()]
        self._db.executemany("UPDATE accounts SET spent = spent + ? WHERE id = ?", sums)
        self._extend("spend", grant, chain.digest(rows))
        return Grant(grant)

    def _granted(self, run: int, charges: Sequence[Charge]) -> int | None:
        """The grant of these very charges, or None where all are new."""
        find = 'SELECT share, "grant" FROM releases WHERE account = ? AND run = ? AND number = ?'
        found = [self._db.execute(find, (c.account, run, c.number)).fetchone() for c in charges]
        if not any(found):
            return None
        grants = {row and row[1] for row in found}
        same = len(grants) == 1 and [row[0] for row in found] == [c.share for c in charges]
        grant = grants.pop()
        if not same or self._grant(grant)[1] != len(charges):
            raise LedgerError(
                f"{self.path} holds some of these releases with others or at another price; ask for what was "
                "asked before, as it was (a training: with the same [training] evaluations)"
            )
        return grant

    def _answered_again(self, grant: int, charges: Sequence[Charge]) -> Answer:
        run, _, sealed, _ = self._grant(grant)
        if sealed is not None:
            return Resend(grant, sealed)
        (repeatable,) = self._db.execute("SELECT repeatable FROM runs WHERE id = ?", [run]).fetchone()
        if repeatable:
            return Grant(grant, again=True)
        client = self._known(charges[0].account).client
        message = (
            f"release {charges[0].number} of {client} was paid for and never sealed: its noise may have been "
            "drawn; it is lost, ask for the next one"
        )
        return Refusal("lost", client, message)

    def shortage(self, charges: Sequence[Charge], run: int | None = None) -> Refusal | None:
        """The refusal that new releases would get now, of the first client that cannot pay, or None.

        Args:
            charges: of the releases.
            run: that would make them; None for one that is not known yet.
        """
        with named_errors(self.path):
            return self._short(charges, run)

    def _short(self, charges: Sequence[Charge], run: int | None) -> Refusal | None:
        shorts = (refused(self, account, run, asked) for account, asked in _sums(charges).items())
        return next((short for short in shorts if short is not None), None)

    def seal(self, grant: int, sealed: bytes) -> None:
        """Keep the bytes of the granted releases, or a digest of them, before they leave.

        Raises:
            LedgerError: bytes that differ from those sealed before: one release would be noised twice.
        """
        with self._writing():
            before = self._grant(grant)[2]
            if before is None:
                self._db.execute("UPDATE grants SET sealed = ? WHERE id = ?", (sealed, grant))
                self._extend("seal", grant, hashlib.sha256(sealed).digest())
            elif before != sealed:
                raise LedgerError(
                    f"grant {grant} of {self.path} was sealed with other bytes: data, software or machine "
                    "have changed, and the same noise must not be drawn on them; choose another run folder"
                )

    def acknowledge(self, grant: int) -> None:
        """Note that the sealed bytes arrived.

        Raises:
            LedgerError: releases that were never sealed.
        """
        with self._writing():
            _, _, sealed, acknowledged = self._grant(grant)
            if sealed is None:
                raise LedgerError(f"grant {grant} of {self.path} is not sealed; seal it before it leaves")
            if not acknowledged:
                self._db.execute("UPDATE grants SET acknowledged = 1 WHERE id = ?", [grant])
                self._extend("acknowledge", grant, b"")

    # The chain ----------------------------------------------------------------------------------------

    def verify(self) -> None:
        """Check every entry of the chain against what the ledger holds.

        Raises:
            LedgerError: something was changed, removed or added past the chain, or a sum is wrong.
        """
        with named_errors(self.path):
            self._db.execute("BEGIN")  # one snapshot, while others write
            try:
                fault = verified(self._db)
            except TypeError:  # a damaged page may hold what its column cannot
                fault = "a value of another kind"
            finally:
                self._db.execute("ROLLBACK")
        if fault is not None:
            raise LedgerError(
                f"{self.path} was changed past its chain ({fault}); trust no budget that it shows, put its "
                "latest backup back with noiseworthy ledger restore"
            )

    def _check_new(self, account: Account) -> None:
        """A ledger that was put back may have lost accounts: none is opened as if it were new."""
        if self.query("SELECT 1 FROM restores LIMIT 1"):
            raise LedgerError(
                f"{self.path} was put back from a copy that does not know {account.client} on {account.data} "
                "and may have lost what was spent there; name another ledger for data that are new"
            )

    def _tell(self) -> None:
        """Tell the witness, one process at a time, so that it never goes back."""
        if self._witness is not None:
            from noiseworthy.privacy.durable.witness import seen_now

            with self._writing():
                self._witness.write(self._identity, seen_now(self._db, self.head))


def _check(charges: Sequence[Charge]) -> None:
    if not charges:
        raise InvalidInput("a reservation needs at least one release; ask for nothing instead")
    if len({(c.account, c.number) for c in charges}) < len(charges):
        raise InvalidInput("a release is named twice in one reservation; nothing was charged")
    if any(not isinstance(c.share, int) or c.share < 0 for c in charges):
        raise InvalidInput("shares must be whole and at least 0, as Account.share makes them")


def _sums(charges: Sequence[Charge]) -> Counter[int]:
    sums: Counter[int] = Counter()
    for charge in charges:
        sums[charge.account] += charge.share
    return sums


def _terms(account: Account) -> str:
    return (
        f"epsilon {account.epsilon:g}, delta {account.delta:g} in {account.currency} for one {account.unit} "
        f"under {account.relation}"
    )
