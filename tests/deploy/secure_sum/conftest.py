"""Owners, servers and an adversary for secure sums: all in one process, with nothing between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from noiseworthy.deploy.gateway import wire
from noiseworthy.deploy.secure_sum.collector import Collector
from noiseworthy.deploy.secure_sum.keys import Roster, public_of
from noiseworthy.deploy.secure_sum.member import Member, OwnerRound
from noiseworthy.deploy.secure_sum.messages import pack_asked
from noiseworthy.deploy.secure_sum.record import RoundRecord
from noiseworthy.deploy.secure_sum.terms import Terms

P = 3
KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in range(1, 41)]


@dataclass
class Payment:
    """A release that notes what happens to it."""

    x: NDArray[np.int64]
    events: list[str] = field(default_factory=list)
    on_charge: Callable[[], None] = lambda: None

    def charge(self) -> None:
        self.on_charge()
        self.events.append("charged")

    def steps(self) -> NDArray[np.int64]:
        self.events.append("drawn")
        return self.x


@dataclass
class Party:
    """All owners of a roster, and the rounds that they have open.

    Attributes:
        folder: of their records.
        b, t, d: owners, colluders and dropouts.
        kind: of the owners' rounds: a mutant in tests that break them.
    """

    folder: Path
    b: int
    t: int = 0
    d: int = 0
    p: int = P
    kind: type[OwnerRound] = OwnerRound
    rounds: dict[str, OwnerRound] = field(default_factory=dict)
    payments: dict[str, Payment] = field(default_factory=dict)

    def __post_init__(self):
        self.names = [f"owner {i}" for i in range(1, self.b + 1)]
        self.keys = dict(zip(self.names, KEYS, strict=False))
        self.roster = Roster({name: public_of(key) for name, key in self.keys.items()})
        self.members = {name: self.member(name) for name in self.names}

    def record(self, name: str) -> RoundRecord:
        record = RoundRecord.open(self.folder / f"{name}.rounds")
        record._db.execute("PRAGMA synchronous = OFF")  # what is killed here are processes, not machines
        return record

    def member(self, name: str) -> Member:
        return Member(name, self.keys[name], self.roster, self.record(name))

    def terms(self, number: int = 1, **other) -> Terms:
        fields = {
            "run": "run", "round": number, "roster": self.roster.digest, "cohort": tuple(sorted(self.names)),
            "colluders": self.t, "dropouts": self.d, "coordinates": self.p, "exponent": -30,
            "clipped": 2**40, "deviation": 2.0**40, "subject": "gradients",
        }  # fmt: skip
        return Terms(**fields | other)

    def answer(self, name: str, data: bytes, terms: Terms) -> bytes:
        """What an owner replies: it begins a round that it is not in yet."""
        known = self.rounds.get(name)
        if known is not None and known.terms.digest == terms.digest:
            return known.answer(data)
        rng = np.random.default_rng([terms.round, self.names.index(name)])
        payment = Payment(rng.integers(-(2**41), 2**41, self.p))
        began = self.members[name].begin(data, payment)
        self.rounds[name] = self.kind(**vars(began))
        self.payments[name] = payment
        return self.rounds[name].keys()

    def ask(self, terms: Terms, owners: Iterable[str], step, content) -> dict[str, bytes]:
        data = pack_asked(step, terms, content)
        return {name: self.answer(name, data, terms) for name in owners}

    def sum_of(self, names: Iterable[str]) -> NDArray[np.int64]:
        return np.sum([self.payments[name].x for name in names], axis=0, dtype=np.int64)

    def upload_all(self, terms: Terms) -> tuple[Collector, dict[str, bytes]]:
        """A round until all have uploaded; the server and what it would send next."""
        collector = Collector(terms, self.roster)
        requests = collector.start()
        for _ in range(3):
            replies = {name: self.answer(name, data, terms) for name, data in requests.items()}
            requests = collector.step(replies)
        return collector, requests

    def run(self, terms: Terms, missing: dict[int, set[str]] | None = None) -> Collector:
        """A whole round, in which owners are missing from some step on, by the number of the step."""
        collector, gone = Collector(terms, self.roster), set()
        requests, number = collector.start(), 0
        while requests:
            gone |= (missing or {}).get(number, set())
            there = {name: data for name, data in requests.items() if name not in gone}
            replies = {name: self.answer(name, data, terms) for name, data in there.items()}
            requests, number = collector.step(replies), number + 1
        return collector


@pytest.fixture
def party(tmp_path) -> Callable[..., Party]:
    return lambda b, t=0, d=0, **other: Party(tmp_path, b, t, d, **other)


@dataclass
class Adversary:
    """A server that keeps all it ever got in a round, and knows what its colluders know.

    Attributes:
        terms: of the round.
        rounds: of all owners, from which the colluders' secrets are taken and, to know what is in an honest
            upload, who it was masked with.
        colluders: who hand over their shares.
        uploaded: honest owners whose masked upload left.
        own: places of shares of an owner's own seed that it holds.
        pair: places of shares of an owner's pair key that it holds.
    """

    terms: Terms
    rounds: dict[str, OwnerRound]
    colluders: frozenset[str]
    uploaded: dict[str, frozenset[str]] = field(default_factory=dict)
    own: dict[str, set[int]] = field(default_factory=dict)
    pair: dict[str, set[int]] = field(default_factory=dict)
    survivors: dict[bytes, frozenset[str]] = field(default_factory=dict)

    def hear(self, name: str, reply: bytes) -> None:
        """Keep what an owner sent."""
        value = wire.unpack(reply)
        content = wire.unpack(
            wire.unpack(value["letter"])["content"] if "letter" in value else value["content"]
        )
        if content["terms"] != self.terms.digest:
            return
        kind, body = content["kind"], content["body"]
        if kind == "upload":
            self.uploaded[name] = frozenset(body["senders"])
        if kind == "survivors":
            self.survivors[body["list"]] = self.rounds[name]._survivors
        if kind == "opened":
            for other, share in body["shares"].items():
                listed = other in self.survivors[body["list"]]
                if listed or len(share) > 32:
                    self.own.setdefault(other, set()).add(self.terms.place(name))
                if not listed or len(share) > 32:
                    self.pair.setdefault(other, set()).add(self.terms.place(name))

    def corrupt(self, name: str) -> None:
        """Take what a colluder keeps for others, before it forgets."""
        for other in self.rounds[name]._kept:
            self.own.setdefault(other, set()).add(self.terms.place(name))
            self.pair.setdefault(other, set()).add(self.terms.place(name))

    def knows_own(self, name: str) -> bool:
        return name in self.colluders or len(self.own.get(name, ())) >= self.terms.threshold

    def knows_pair(self, name: str) -> bool:
        return name in self.colluders or len(self.pair.get(name, ())) >= self.terms.threshold

    def exposed(self) -> list[set[str]]:
        """Sets of honest owners the sum of whose uploads it can compute, none a union of smaller ones.

        A mask between two owners is known if the key of either is. Uploads whose own mask is open and that
        hide behind each other's unknown masks are one set; a set is open if no unknown mask leads out of it.
        """
        open_ones = {u for u in self.uploaded if u not in self.colluders and self.knows_own(u)}
        hidden = {
            u: {v for v in self.uploaded[u] - {u} if not self.knows_pair(u) and not self.knows_pair(v)}
            for u in open_ones
        }
        found, left = [], set(open_ones)
        while left:
            together, edge = set(), {left.pop()}
            while edge:
                u = edge.pop()
                together.add(u)
                edge |= {v for v in open_ones if v in hidden[u] or u in hidden[v]} - together
            left -= together
            if all(v in together and u in self.uploaded[v] for u in together for v in hidden[u]):
                found.append(together)
        return found

    def check(self) -> None:
        """No sum of fewer honest owners than the noise is sized for, and no owner twice."""
        fewest = len(self.terms.cohort) - self.terms.colluders - self.terms.dropouts
        for owners in self.exposed():
            assert len(owners) >= fewest, f"the uploads of {owners} are open"
        for name in self.uploaded:
            both = self.knows_own(name) and self.knows_pair(name)
            assert name in self.colluders or not both, f"the upload of {name} is open"
