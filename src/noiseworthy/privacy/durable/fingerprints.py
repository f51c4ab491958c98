"""Fingerprints of records: whether those that a budget is spent on are those that it was spent on before.

    HMAC-SHA-256(key, records)

The key is drawn at random for every fingerprint and stays in the owner's ledger. Without it the digest tells
nothing of the records, not even to somebody who can guess them; so it may enter the chain, whose head leaves.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noiseworthy.privacy.durable.ledger import DurableLedger

_LATEST = "SELECT id, key, digest FROM fingerprints WHERE account = ? ORDER BY id DESC LIMIT 1"


@dataclass
class Fingerprint:
    """What binds an account to the records that it is spent on.

    Attributes:
        ledger: of the account.
        account: of the client.
        records: all that is to stay as it is, in parts.
    """

    ledger: DurableLedger
    account: int
    records: Sequence[bytes | memoryview]
    _fits: int | None = None

    @property
    def taken(self) -> bool:
        """Whether the account is bound to any records."""
        return bool(self.ledger.query(_LATEST, [self.account]))

    @property
    def fits(self) -> bool:
        """Whether these are the account's records; one that is bound to none knows no others."""
        found = self.ledger.query(_LATEST, [self.account])
        if not found or found[0][0] == self._fits:
            return True
        ((number, key, digest),) = found
        if not hmac.compare_digest(digest, _digest(key, self.records)):
            return False
        self._fits = number
        return True

    def take(self) -> None:
        """Bind the account to these records from here on, durably; its budget goes on."""
        key = secrets.token_hex(32)
        row = self.account, key, _digest(key, self.records)
        with self.ledger._writing():
            self.ledger._entered("records", "fingerprints", "account, key, digest", row)


def _digest(key: str, records: Sequence[bytes | memoryview]) -> str:
    running = hmac.new(bytes.fromhex(key), digestmod=hashlib.sha256)
    for part in records:
        # the length first: the same bytes cut elsewhere are other records
        running.update(memoryview(part).nbytes.to_bytes(8, "little"))
        running.update(part)
    return running.hexdigest()
