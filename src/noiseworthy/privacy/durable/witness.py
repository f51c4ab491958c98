"""A witness: how far a ledger had come and what it had spent, told to a file elsewhere before noise is drawn.

    signature = HMAC-SHA256(SHA-256("noiseworthy witness 1 " + identity of the ledger), content)

A ledger that is set back lacks the head that its witness holds. The key is made of the ledger's own secret:
so there is no other file to guard or to lose, a backup can read the witness, and a file that was damaged or
belongs to another ledger is not believed. Who may read the ledger can sign a witness, and an old witness that
is put back beside an old ledger is believed. Against both helps a disk that nobody there can set back.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noiseworthy.errors import InvalidInput, LedgerError, Unwitnessed
from noiseworthy.privacy.durable.accounts import COLUMNS, Account
from noiseworthy.privacy.durable.chain import Head
from noiseworthy.privacy.durable.storage import write_whole

if TYPE_CHECKING:
    from noiseworthy.privacy.durable.ledger import DurableLedger

_VERSION = 1


@dataclass(frozen=True)
class Seen:
    """What a witness saw.

    Attributes:
        head: of the ledger.
        spent: shares of every account.
    """

    head: Head
    spent: Mapping[Account, int] = field(hash=False)

    def fields(self) -> dict[str, Any]:
        """As plain values."""
        accounts = [{**vars(account), "shares": shares} for account, shares in self.spent.items()]
        return {"version": _VERSION, "head": str(self.head), "accounts": accounts}

    @classmethod
    def of_fields(cls, fields: dict[str, Any]) -> Seen:
        """What `fields` said."""
        spent = {Account(**rest): shares for rest in fields["accounts"] for shares in [rest.pop("shares")]}
        return cls(Head.read(fields["head"]), spent)


@dataclass(frozen=True)
class Witness:
    """The file of a witness.

    Attributes:
        path: on another disk than the ledger, best of all on another machine's.
    """

    path: Path

    def read(self, identity: str) -> Seen | None:
        """What was told last; None where there is no such file.

        Args:
            identity: of the ledger.

        Raises:
            LedgerError: a file that was changed, is damaged, cannot be read, or belongs to another ledger.
        """
        try:
            fields = json.loads(self.path.read_bytes())
            if not hmac.compare_digest(str(fields.pop("signature")), _signature(identity, fields)):
                raise ValueError("its signature is wrong")
            return Seen.of_fields(fields)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, InvalidInput) as error:
            raise LedgerError(
                f"{self.path} is not this ledger's witness, or was changed ({error}); put back the ledger "
                "that it belongs to, or the witness as that wrote it"
            ) from None

    def heard_by(self, ledger: DurableLedger) -> None:
        """Refuse to begin with a ledger that lacks what was told last, and tell how far it has come.

        Raises:
            LedgerError: a ledger that was set back, or has spent without this file; one that cannot be
                written.
        """
        seen = self.read(ledger._identity)
        if seen is None and ledger.query("SELECT 1 FROM grants LIMIT 1"):
            raise LedgerError(
                f"{ledger.path} has spent and its witness {self.path} is missing; mount its disk, or make a "
                "new one with noiseworthy ledger witness"
            )
        if seen is not None and not ledger.holds(seen.head):
            raise LedgerError(
                f"{ledger.path} lacks what its witness {self.path} saw (entry {seen.head.length}): it was "
                "set back; put the latest ledger back, or say what was spent with noiseworthy ledger accept"
            )
        with ledger._writing():
            self.write(ledger._identity, seen_now(ledger._db, ledger.head), paid=False)

    def check_there(self) -> None:
        """Refuse to spend what the witness could not be told.

        Raises:
            LedgerError: a file that is gone, or a folder that cannot be written to.
        """
        if not (self.path.exists() and os.access(self.path.resolve().parent, os.W_OK)):
            told = "is gone or cannot be written; mount its disk, nothing was spent"
            raise LedgerError(f"witness {self.path} {told}")

    def write(self, identity: str, seen: Seen, *, paid: bool = True) -> None:
        """Replace the file whole, durably, before this returns.

        Args:
            identity: of the ledger.
            seen: of it.
            paid: whether something was paid for since it was told last.

        Raises:
            Unwitnessed: a file that cannot be replaced; where nothing was paid for, a `LedgerError`.
        """
        fields, place = seen.fields(), self.path.resolve()  # a link stays one, to the other disk
        told = json.dumps({**fields, "signature": _signature(identity, fields)}, indent=1)
        try:
            write_whole(place, told.encode())
        except OSError as error:
            remedy = f"witness {self.path} cannot be written ({error}); mount its disk or free space"
            if not paid:
                raise LedgerError(f"{remedy}, nothing was spent") from None
            raise Unwitnessed(f"{remedy}, what was paid for last is not made") from None


def seen_now(db: sqlite3.Connection, head: Head) -> Seen:
    """What a witness is told of a ledger whose chain ends at `head`."""
    rows = db.execute(f"SELECT spent, {COLUMNS} FROM accounts ORDER BY id")
    return Seen(head, {Account(*terms): shares for shares, *terms in rows})


def _signature(identity: str, fields: dict[str, Any]) -> str:
    key = hashlib.sha256(f"noiseworthy witness {_VERSION} {identity}".encode()).digest()
    content = json.dumps(fields, sort_keys=True).encode()
    return hmac.new(key, content, hashlib.sha256).hexdigest()
