"""Whatever networks, kills and missing owners do, a sum is exact or its round is void, and all is paid."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pytest

from noiseworthy.deploy.gateway import wire
from noiseworthy.deploy.secure_sum.collector import Collector
from noiseworthy.deploy.secure_sum.record import RoundRecord
from noiseworthy.deploy.secure_sum.terms import Terms
from noiseworthy.errors import UserError, VoidRound

from .conftest import Adversary, Party

FAULTS = (
    "lost request", "lost reply", "late request", "late reply", "repeated", "altered request", "left out",
    "altered reply", "swapped request", "swapped reply", "old request", "killed",
)  # fmt: skip
COHORTS = [(3, 0, 1), (4, 0, 1), (5, 1, 1), (5, 0, 2), (6, 1, 2), (7, 2, 1)]


class Killed(Exception):
    """The owner's process was killed."""


class Dying(RoundRecord):
    """A record whose process is killed at one of its writes, before or after it is on disk."""

    countdown = 0

    def _dying(self, write) -> None:
        self.countdown -= 1
        if self.countdown == 0:
            raise Killed
        write()
        self.countdown -= 1
        if self.countdown == 0:
            raise Killed

    def begin(self, owner: str, terms: Terms) -> None:
        self._dying(lambda: super(Dying, self).begin(owner, terms))

    def sign(self, owner: str, terms: Terms, survivors: bytes) -> None:
        self._dying(lambda: super(Dying, self).sign(owner, terms, survivors))


@dataclass
class Shaken(Party):
    """Owners whose processes are killed and start again, and who count what they pay."""

    paid: Counter = field(default_factory=Counter)
    sent: Counter = field(default_factory=Counter)
    deaths: dict[str, int] = field(default_factory=dict)

    def record(self, name: str) -> RoundRecord:
        plain = super().record(name)
        return Dying(plain.path, plain._db)

    def answer(self, name: str, data: bytes, terms: Terms) -> bytes:
        record = self.members[name].record
        record.countdown = self.deaths.get(name, 0)
        try:
            return self._watched(name, data, terms)
        except Killed:
            self.kill(name)
            raise

    def _watched(self, name: str, data: bytes, terms: Terms) -> bytes:
        reply = super().answer(name, data, terms)
        payment, key = self.payments[name], (name, terms.round)
        payment.on_charge = lambda: self._pay(name, key)
        if "words" in wire.unpack(reply):
            self.sent[key] += 1
            assert self.paid[key] == 1, f"{name} sent what was paid {self.paid[key]} times"
        return reply

    def _pay(self, name: str, key: tuple[str, int]) -> None:
        dying = self.members[name].record
        dying.countdown -= 1
        if dying.countdown == 0:
            raise Killed
        self.paid[key] += 1
        dying.countdown -= 1
        if dying.countdown == 0:
            raise Killed

    def kill(self, name: str) -> None:
        """What is in memory is lost; what is on disk is there for the next process."""
        self.deaths.pop(name, None)
        self.rounds.pop(name, None)
        self.members[name].record.close()
        self.members[name] = self.member(name)


@dataclass
class Network:
    """Carries messages by chance, and lets an adversary hear all of it.

    Attributes:
        owners: at its ends.
        rng: seeded.
        rate: of faults, for each message.
        seen: how often each fault was injected.
    """

    owners: Shaken
    rng: np.random.Generator
    rate: float
    seen: Counter = field(default_factory=Counter)
    old: list[tuple[str, bytes]] = field(default_factory=list)
    late: list[tuple[str, bytes]] = field(default_factory=list)
    late_replies: dict[str, bytes] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)

    def fault(self) -> str:
        if self.rng.random() >= self.rate:
            return ""
        found = str(self.rng.choice(FAULTS))
        self.seen[found] += 1
        return found

    def altered(self, data: bytes) -> bytes:
        place = int(self.rng.integers(len(data)))
        return data[:place] + bytes([data[place] ^ (1 << int(self.rng.integers(8)))]) + data[place + 1 :]

    def left_out(self, data: bytes) -> bytes:
        """The same message with one letter or sealed share less: another list for this owner."""
        value = wire.unpack(data)
        if isinstance(value["content"], list):
            del value["content"][int(self.rng.integers(len(value["content"])))]
        elif value["ask"] == "upload":
            value["content"].pop(str(self.rng.choice(list(value["content"]))))
        return wire.pack(value)

    def carry(self, terms: Terms, requests: dict[str, bytes], adversary: Adversary) -> dict[str, bytes]:
        """Replies to requests, of those that come through."""
        replies, self.late_replies = self.late_replies, {}
        for name, data in self.late:
            self.ask(terms, name, data, adversary)
        self.late = []
        for name, data in requests.items():
            kind = self.fault()
            data = self.meddled(kind, name, data, requests)
            if data is None:
                continue
            if kind == "killed":
                self.owners.deaths[name] = int(self.rng.integers(1, 5))
            reply = self.ask(terms, name, data, adversary)
            if kind == "repeated":
                assert self.ask(terms, name, data, adversary) == reply
            if reply is None or kind == "lost reply":
                continue
            if kind == "late reply":
                self.late_replies[name] = reply
                continue
            replies[name] = self.altered(reply) if kind == "altered reply" else reply
            if kind == "killed" and self.rng.random() < 0.5:
                self.owners.kill(name)
            self.old.append((name, data))
            if kind == "swapped reply":
                other = str(self.rng.choice(list(requests)))
                replies[name], replies[other] = replies.get(other, reply), reply
        return replies

    def meddled(self, kind: str, name: str, data: bytes, requests: dict[str, bytes]) -> bytes | None:
        """What comes of a request on its way; None if nothing does now."""
        if kind == "lost request":
            return None
        if kind == "late request":
            self.late.append((name, data))
            return None
        if kind == "altered request":
            return self.altered(data)
        if kind == "swapped request":
            return requests[str(self.rng.choice(list(requests)))]
        if kind == "old request" and self.old:
            return self.old[int(self.rng.integers(len(self.old)))][1]
        return self.left_out(data) if kind == "left out" else data

    def ask(self, terms: Terms, name: str, data: bytes, adversary: Adversary) -> bytes | None:
        try:
            reply = self.owners.answer(name, data, terms)
        except (UserError, Killed) as error:
            self.sentences.append(str(error))
            return None
        if name in adversary.colluders and name in self.owners.rounds:
            adversary.corrupt(name)
        adversary.hear(name, reply)
        return reply


def shaken(owners: Shaken, seed: int) -> tuple[Counter, Counter]:
    """Two rounds under faults by a seed: how they ended, and which faults there were."""
    rng = np.random.default_rng(seed)
    colluders = frozenset(owners.names[owners.b - owners.t :])
    ended, network = Counter(), Network(owners, rng, float(rng.choice([0.05, 0.1, 0.25])))
    for number in (1, 2):
        terms = owners.terms(number)
        adversary = Adversary(terms, owners.rounds, colluders)
        order = rng.permutation(owners.names)[: int(rng.integers(0, owners.d + 3))]
        missing = {str(name): int(rng.integers(0, 6)) for name in order}
        collector = Collector(terms, owners.roster)
        requests, step = collector.start(), 0
        with suppress(VoidRound):
            while requests:
                there = {name: data for name, data in requests.items() if missing.get(name, 9) > step}
                requests, step = collector.step(network.carry(terms, there, adversary)), step + 1
        adversary.check()
        if collector.total is not None:
            assert len(collector.survivors) >= owners.b - owners.d
            expected = owners.sum_of(collector.survivors)
            np.testing.assert_array_equal(collector.total, expected)
        ended["exact" if collector.total is not None else "void"] += 1
        owners.rounds = dict(owners.rounds)
    assert max(owners.paid.values(), default=0) <= 1
    assert not any("\n" in one for one in network.sentences)
    return ended, network.seen


def all_shaken(folder, seeds: range) -> int:
    """How many faults many runs have stood."""
    ended, seen = Counter(), Counter()
    for seed in seeds:
        b, t, d = COHORTS[seed % len(COHORTS)]
        place = folder / str(seed)
        place.mkdir()
        of_seed = shaken(Shaken(place, b, t, d), seed)
        ended, seen = ended + of_seed[0], seen + of_seed[1]
    least = len(seeds) // 20
    assert ended["exact"] > least
    assert ended["void"] > least
    assert set(seen) == set(FAULTS)
    return seen.total()


def test_under_500_faults_every_round_is_exact_or_void(tmp_path):
    assert all_shaken(tmp_path, range(150)) >= 500


@pytest.mark.slow
def test_under_5000_faults_every_round_is_exact_or_void(tmp_path):
    assert all_shaken(tmp_path, range(1000, 2400)) >= 5_000


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("step", "what"), [(0, "the round"), (2, "the charge"), (3, "the list")])
def test_an_owner_killed_before_or_after_it_writes_is_out_of_its_round_and_in_the_next(
    tmp_path, step, what, when
):
    owners = Shaken(tmp_path, 4, 0, 1)
    terms = owners.terms()
    collector = Collector(terms, owners.roster)
    first = requests = collector.start()
    for number in range(5):
        owners.deaths = {"owner 1": 1 if when == "before" else 2} if number == step else {}
        replies = {}
        for name, data in requests.items():
            with suppress(Killed):
                replies[name] = owners.answer(name, data, terms)
        assert ("owner 1" in replies) == (number < step), what
        requests = collector.step(replies)
    np.testing.assert_array_equal(collector.total, owners.sum_of(collector.survivors))
    assert ("owner 1" in collector.survivors) == (what == "the list")
    if (what, when) != ("the round", "before"):
        with pytest.raises(VoidRound, match="was begun here before; ask for the next number"):
            owners.answer("owner 1", first["owner 1"], terms)
    again = owners.run(owners.terms(2))
    np.testing.assert_array_equal(again.total, owners.sum_of(owners.names))


def test_messages_after_a_restart_are_void_and_those_of_an_earlier_round_too(tmp_path):
    owners = Shaken(tmp_path, 4, 0, 1)
    _, requests = owners.upload_all(owners.terms())
    owners.kill("owner 1")
    with pytest.raises(VoidRound, match="asks for 'survivors' of a round that was not begun here"):
        owners.answer("owner 1", requests["owner 1"], owners.terms())
    owners.answer("owner 2", Collector(owners.terms(2), owners.roster).start()["owner 2"], owners.terms(2))
    with pytest.raises(VoidRound, match="belongs to other terms or to another round"):
        owners.answer("owner 2", requests["owner 2"], owners.terms(2))
