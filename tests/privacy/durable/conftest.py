"""A ledger in an empty folder, with two clients."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from noiseworthy.privacy.durable import Account, Charge, DurableLedger
from noiseworthy.privacy.durable.accounts import WHOLE

CLIENTS = tuple(
    Account("wards", "", client, "epsilon", 1.0, 1.0, 0.0, "replace-one", "record")
    for client in ("north", "south")
)
TENTH = -(-WHOLE // 10)


class Opened(NamedTuple):
    ledger: DurableLedger
    run: int
    accounts: list[int]

    def charge(self, number: int, share: int = TENTH, client: int = 0) -> Charge:
        return Charge(self.accounts[client], number, share)

    def ask(self, number: int, share: int = TENTH, client: int = 0):
        return self.ledger.reserve(self.run, [self.charge(number, share, client)])


def opened(path: Path, *, repeatable: bool = False) -> Opened:
    ledger = DurableLedger.open(path)
    return Opened(ledger, ledger.begin("study", repeatable=repeatable), ledger.enrol(CLIENTS))


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def books(path):
    found = opened(path)
    yield found
    found.ledger.close()
