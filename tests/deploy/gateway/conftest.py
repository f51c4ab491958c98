"""An owner of real records (a fifth of the breast-cancer data), its gateway, and requests to it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noiseworthy.data.table import FederationTable
from noiseworthy.deploy.gateway.client import packed
from noiseworthy.deploy.gateway.gateway import Gateway
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.gateway.messages import Request, Seen, read_reply
from noiseworthy.deploy.gateway.owner import Owner
from noiseworthy.methods.fedsgd_dpc.wire import FedSGDWork
from noiseworthy.methods.wire import WIRES

FEDERATION = {"data": "breast-cancer", "clients": 5}
CLIENT = "client 1"
P = 30


@pytest.fixture(scope="session")
def holding() -> Holding:
    return Holding.load(FederationTable(**FEDERATION), CLIENT)


def owner_of(folder: Path, **tables: dict[str, Any]) -> Owner:
    """An owner's file as a value, with keys of its tables exchanged."""
    raw: dict[str, Any] = {
        "owner": {"client": CLIENT, "data_set": "tumours"},
        "federation": FEDERATION,
        "budget": {"mechanism": "gaussian", "epsilon": 8.0, "delta": 1e-5, "noise_floor": 0.5},
        "allowed": {
            "algorithms": [name for name in WIRES if name != "score"],
            "models": ["logistic"],
            "most_releases": 9,
            "most_parameters": P,
        },
        "files": {"socket": str(folder / "g.sock"), "ledger": str(folder / "ledger.sqlite")},
    }
    return Owner.model_validate({name: table | tables.get(name, {}) for name, table in raw.items()})


@pytest.fixture
def gateway_of(tmp_path, holding, monkeypatch) -> Any:
    """A gateway of an owner, without loading the data again; closed in the end."""
    opened: list[Gateway] = []
    monkeypatch.setattr(Holding, "load", lambda *_: holding)

    def build(**tables: dict[str, Any]) -> Gateway:
        opened.append(Gateway.open(owner_of(tmp_path, **tables)))
        return opened[-1]

    yield build
    for gateway in opened:
        gateway.close()


@pytest.fixture
def gateway(gateway_of) -> Gateway:
    return gateway_of()


def request(release: int = 1, **changed: Any) -> Request:
    """A request for a gradient with noise of four times what a record changes."""
    theta = np.linspace(-1, 1, P, dtype=np.float32)
    fields: dict[str, Any] = {
        "run": "first study",
        "release": release,
        "algorithm": FedSGDWork(),
        "task": {"model": "logistic", "feature_norm": 1.0},
        "theta": theta,
        "mechanism": "gaussian",
        "clip_norm": 0.1,
        "noise": 4 * 2 * 0.1 / 91,
        "deadline": time.time() + 600,
    }
    return Request(**(fields | changed))


KEPT = 6
"""Directions that the reference of a request keeps."""


def numbers(seed: int = 0, **changed: Any) -> Seen:
    """Of a reference for these records, as a server may choose them."""
    draws = np.random.default_rng(seed)
    fields = {"mean": draws.normal(size=P) / 10, "directions": draws.normal(size=(KEPT, P)) / 5}
    return Seen(**{name: value.astype(np.float32) for name, value in fields.items()} | changed)


def against(**changed: Any) -> dict[str, Any]:
    """What a request holds whose records are seen against a reference."""
    fields: dict[str, Any] = {
        "task": {"model": "logistic", "normalise": True, "projection": KEPT, "reference": ["public.npz"]},
        "seen": numbers(),
        "theta": np.linspace(-1, 1, KEPT, dtype=np.float32),
    }
    return fields | changed


def asked(gateway: Gateway, wanted: Request) -> Any:
    """The reply to a request, over its bytes."""
    return read_reply(gateway.answer(packed(wanted)))


def spent(gateway: Gateway) -> tuple[int, int]:
    """Releases that the ledger holds, and their shares."""
    (row,) = gateway.ledger.query("SELECT count(*), coalesce(sum(share), 0) FROM releases")
    return row
