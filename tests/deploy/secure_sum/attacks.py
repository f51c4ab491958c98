"""What a lying server and its colluders try, against owners as they are or broken on purpose."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from noiseworthy.deploy.secure_sum import letters
from noiseworthy.deploy.secure_sum.letters import Letter
from noiseworthy.deploy.secure_sum.messages import (
    OF_KEYS,
    OF_SHARES,
    OF_UPLOAD,
    context_of,
    list_of,
    read_upload,
)
from noiseworthy.deploy.secure_sum.terms import Terms
from noiseworthy.errors import VoidRound

from .conftest import Adversary, Party


class Attack:
    """A server that follows no rule, with colluders who sign whatever it wants.

    Attributes:
        owners: of the round.
        terms: of the round.
        colluders: the last `t` of the cohort.
        adversary: keeps what it gets.
    """

    def __init__(self, owners: Party, terms: Terms):
        self.owners, self.terms = owners, terms
        self.colluders = frozenset(owners.names[len(owners.names) - owners.t :])
        self.honest = [name for name in owners.names if name not in self.colluders]
        self.adversary = Adversary(terms, owners.rounds, self.colluders)
        self.refused: list[str] = []

    def ask(self, name: str, step, content) -> bytes | None:
        """What an owner replies; None where it ends the round."""
        try:
            reply = self.owners.ask(self.terms, [name], step, content)[name]
        except VoidRound as error:
            self.refused.append(str(error))
            return None
        self.adversary.hear(name, reply)
        return reply

    def collect_keys(self) -> list[bytes]:
        """Keys of all owners, as letters."""
        replies = [self.ask(name, "keys", self.terms.table) for name in self.owners.names]
        self.keys = {
            name: letters.read(reply, "keys", self.terms, self.owners.roster, OF_KEYS)
            for name, reply in zip(self.owners.names, replies, strict=True)
        }
        return [letter.packed for letter in self.keys.values()]

    def shares(self, name: str, roll: list[bytes]) -> dict[str, bytes]:
        """What an owner seals for others when it is shown keys."""
        reply = self.ask(name, "shares", roll)
        return letters.read(reply, "shares", self.terms, self.owners.roster, OF_SHARES).body["sealed"]

    def collect_uploads(self, senders: dict[str, Iterable[str]] | None = None) -> dict[str, Letter]:
        """Letters of all uploads, where each owner may be shown senders of its own."""
        roll = self.collect_keys()
        shares = {name: self.shares(name, roll) for name in self.owners.names}
        uploads = {}
        for name in self.owners.names:
            shown = set((senders or {}).get(name, self.owners.names)) - {name}
            sealed = {one: shares[one][name] for one in self.owners.names if one in shown}
            reply = self.ask(name, "upload", sealed)
            if name in self.colluders:
                self.adversary.corrupt(name)
            if reply is not None:
                packed, _ = read_upload(reply)
                uploads[name] = letters.read(packed, "upload", self.terms, self.owners.roster, OF_UPLOAD)
        return uploads

    def signatures(self, uploads: dict[str, Letter], survivors: Iterable[str], asked: Iterable[str]):
        """Letters under a list of survivors: of the honest owners who sign it, and of all colluders."""
        listed = {name: uploads[name] for name in self.owners.names if name in set(survivors)}
        content = [letter.packed for letter in listed.values()]
        digest = list_of(self.terms, context_of(self.terms, self.keys), listed)
        self.adversary.survivors[digest] = frozenset(listed)
        signed = [
            letters.written("survivors", name, self.terms, {"list": digest}, self.owners.keys[name]).packed
            for name in self.colluders
        ]
        replies = [self.ask(name, "survivors", content) for name in asked if name not in self.colluders]
        return signed + [reply for reply in replies if reply is not None]

    def open(self, signed: list[bytes], asked: Iterable[str]) -> None:
        """Show signatures to owners, who may open their shares for them."""
        for name in asked:
            if name not in self.colluders:
                self.ask(name, "opened", signed)

    def two_lists(self, first: Iterable[str], second: Iterable[str], victim: str) -> None:
        """Have one part of the owners sign a list with a victim, another one without it, and open both.

        Owners may be in both parts: they are asked to sign twice.
        """
        first, second = list(first), list(second)
        uploads = self.collect_uploads()
        others = [name for name in self.owners.names if name != victim]
        with_victim = self.signatures(uploads, self.owners.names, first)
        without = self.signatures(uploads, others, second)
        self.open(with_victim, first)
        self.open(without, second)

    def check(self) -> None:
        """Nothing is open that must not be."""
        self.adversary.check()


def splits(names: list[str]) -> Iterable[tuple[list[str], list[str]]]:
    """All ways to show one list to some owners and another list to the rest."""
    for size in range(len(names) + 1):
        for part in combinations(names, size):
            yield list(part), [name for name in names if name not in part]
