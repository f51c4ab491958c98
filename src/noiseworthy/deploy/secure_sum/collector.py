"""The server's side of a secure sum: it passes letters on, and opens the sum of those who survived."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from noiseworthy.deploy.secure_sum import secret_shares
from noiseworthy.deploy.secure_sum.keys import Roster, commit, public_of
from noiseworthy.deploy.secure_sum.letters import Letter, read
from noiseworthy.deploy.secure_sum.masks import Words, add_pair, own_mask, steps_of
from noiseworthy.deploy.secure_sum.messages import (
    OF_KEYS,
    OF_OPENED,
    OF_SHARES,
    OF_SURVIVORS,
    OF_UPLOAD,
    STEPS,
    Step,
    check_enough,
    check_lengths,
    context_of,
    digest_of,
    list_of,
    pack_asked,
    read_upload,
    sentence,
)
from noiseworthy.deploy.secure_sum.secret_shares import SEALED
from noiseworthy.deploy.secure_sum.terms import Terms
from noiseworthy.errors import InvalidInput, UserError, VoidRound

Requests = dict[str, bytes]
"""Messages to owners, by name."""


@dataclass(repr=False)
class Collector:
    """One round at the server: `start`, then `step` with what came back, until there is nothing to send.

    Who carries messages, and how long replies are waited for, is the caller's.

    Attributes:
        terms: of the round.
        roster: with the owners' keys.
        faults: owners whose last reply could not be used, and why; they count as missing.
        total: the sum over the survivors once the round is over, in steps of the grid, int64, shape (p,).
        survivors: whose uploads are in it, in the order of the cohort.
    """

    terms: Terms
    roster: Roster
    faults: dict[str, str] = field(default_factory=dict)
    total: NDArray[np.int64] | None = None
    survivors: tuple[str, ...] = ()
    _due: int = 0
    _keys: dict[str, Letter] = field(default_factory=dict)
    _context: bytes = b""
    _senders: list[str] = field(default_factory=list)
    _sum: Words = field(default_factory=lambda: np.zeros(0, np.uint64))
    _list: bytes = b""

    def __post_init__(self):
        if self.terms.roster != self.roster.digest or not set(self.terms.cohort) <= self.roster.keys.keys():
            raise InvalidInput("the terms of a round must name owners of the roster, and its digest")

    def start(self) -> Requests:
        """What begins the round, for every owner of the cohort."""
        return self._to(self.terms.cohort, "keys", self.terms.table)

    def step(self, replies: Mapping[str, bytes]) -> Requests:
        """What to send next, once replies came or are not waited for any more.

        Args:
            replies: to the last requests, by owner; who is left out is missing from now on.

        Returns:
            Messages by owner; none when the round is over and `total` is there.

        Raises:
            VoidRound: too few owners are left, or their shares do not fit; nothing is opened.
            InvalidInput: the round is over.
        """
        if self._due == len(STEPS):
            raise InvalidInput("the round is over; begin the next one")
        step = STEPS[self._due]
        self._due += 1
        return {
            "keys": self._on_keys,
            "shares": self._on_shares,
            "upload": self._on_uploads,
            "survivors": self._on_signatures,
            "opened": self._on_opened,
        }[step](replies)

    @property
    def values(self) -> NDArray[np.float64]:
        """The sum as numbers, shape (p,).

        Raises:
            InvalidInput: a round that is not over.
        """
        if self.total is None:
            raise InvalidInput("the round is not over; go on with its steps")
        return np.ldexp(self.total.astype(np.float64), self.terms.exponent)

    # The steps ---------------------------------------------------------------------------------------------

    def _on_keys(self, replies: Mapping[str, bytes]) -> Requests:
        self._keys = self._read("keys", OF_KEYS, replies, self.terms.cohort, self._check_keys)
        check_enough(self._keys, self.terms, "sent keys")
        self._context = context_of(self.terms, self._keys)
        return self._to(self._keys, "shares", [letter.packed for letter in self._keys.values()])

    def _on_shares(self, replies: Mapping[str, bytes]) -> Requests:
        found = self._read("shares", OF_SHARES, replies, self._keys, self._check_shares)
        check_enough(found, self.terms, "shared their secrets")
        self._senders = list(found)
        sealed = {name: letter.body["sealed"] for name, letter in found.items()}
        shares = {name: {o: own[name] for o, own in sealed.items() if o != name} for name in found}
        return {name: pack_asked("upload", self.terms, shared) for name, shared in shares.items()}

    def _on_uploads(self, replies: Mapping[str, bytes]) -> Requests:
        uploads, words = {}, {}
        for name in self._senders:
            if name in replies:
                self._noted(name, lambda name=name: self._take_upload(name, replies[name], uploads, words))
        check_enough(uploads, self.terms, "uploaded")
        self._sum = np.zeros(self.terms.coordinates, np.uint64)
        for one in words.values():
            np.add(self._sum, one, out=self._sum)
        self.survivors = tuple(uploads)
        self._list = list_of(self.terms, self._context, uploads)
        return self._to(uploads, "survivors", [letter.packed for letter in uploads.values()])

    def _on_signatures(self, replies: Mapping[str, bytes]) -> Requests:
        signed = self._read("survivors", OF_SURVIVORS, replies, self.survivors, self._check_list)
        self._check_threshold(signed, "signed the list of survivors")
        return self._to(signed, "opened", [letter.packed for letter in signed.values()])

    def _on_opened(self, replies: Mapping[str, bytes]) -> Requests:
        opened = self._read("opened", OF_OPENED, replies, self.survivors, self._check_opened)
        self._check_threshold(opened, "opened their shares")
        chosen = list(opened)[: self.terms.threshold]
        masks = np.zeros(self.terms.coordinates, np.uint64)
        for name in self._senders:
            shares = {self.terms.place(other): opened[other].body["shares"][name] for other in chosen}
            self._add_masks(masks, name, secret_shares.joined(shares))
        self.total = steps_of(self._sum - masks)
        return {}

    # Parts of them -----------------------------------------------------------------------------------------

    def _add_masks(self, masks: Words, name: str, secret: bytes) -> None:
        """Add what an owner's secret accounts for in the sum: its own mask, or those with a missing owner."""
        if name in self.survivors:
            if commit(secret, self.terms.digest, name) != self._keys[name].body["commitment"]:
                raise VoidRound(f"the shares of the seed of {name} do not fit together; nothing is opened")
            np.add(masks, own_mask(secret, self._context, name, len(masks)), out=masks)
            return
        private = X25519PrivateKey.from_private_bytes(secret)
        if public_of(private) != self._keys[name].body["pair"]:
            raise VoidRound(f"the shares of the key of {name} do not fit together; nothing is opened")
        for other in self.survivors:
            add_pair(masks, private, self._keys[other].body["pair"], self._context, other, name)

    def _to(self, owners: Any, step: Step, content: Any) -> Requests:
        return dict.fromkeys(owners, pack_asked(step, self.terms, content))

    def _read(
        self, step: Step, body: dict[str, type], replies: Mapping[str, bytes], among: Any,
        check: Callable[[Letter], None],
    ) -> dict[str, Letter]:  # fmt: skip
        """Usable letters of owners in the order of the cohort; the others are noted as faults."""
        found: dict[str, Letter] = {}
        for name in among:
            if name in replies:
                self._noted(name, lambda name=name: self._take(found, name, replies[name], step, body, check))
        return found

    def _take(
        self, found: dict[str, Letter], name: str, data: bytes, step: Step, body: dict[str, type],
        check: Callable[[Letter], None],
    ) -> None:  # fmt: skip
        letter = read(data, step, self.terms, self.roster, body)
        if letter.sender != name:
            raise VoidRound(f"a letter of {letter.sender} came from {name}")
        check(letter)
        found[name] = letter

    def _take_upload(self, name: str, data: bytes, kept: dict[str, Letter], words: dict[str, Words]) -> None:
        packed, numbers = read_upload(data)

        def check(letter: Letter) -> None:
            if letter.body["context"] != self._context or letter.body["senders"] != self._senders:
                raise VoidRound(f"{name} was shown other keys or other senders")
            if len(numbers) != self.terms.coordinates or letter.body["digest"] != digest_of(numbers):
                raise VoidRound(f"the masked upload of {name} was altered")

        self._take(kept, name, packed, "upload", OF_UPLOAD, check)
        words[name] = numbers

    def _noted(self, name: str, take: Callable[[], None]) -> None:
        try:
            take()
        except UserError as error:
            self.faults[name] = sentence(error)

    def _check_keys(self, letter: Letter) -> None:
        check_lengths(letter.body, letter.sender)

    def _check_shares(self, letter: Letter) -> None:
        sealed = letter.body["sealed"]
        fit = sealed.keys() == self._keys.keys() - {letter.sender}
        if letter.body["context"] != self._context or not fit:
            raise VoidRound(f"{letter.sender} shared its secrets with other owners")
        if any(type(one) is not bytes or len(one) != SEALED for one in sealed.values()):
            raise VoidRound(f"{letter.sender} sealed something else than two shares for each owner")

    def _check_list(self, letter: Letter) -> None:
        if letter.body["list"] != self._list:
            raise VoidRound(f"{letter.sender} signed another list of survivors")

    def _check_opened(self, letter: Letter) -> None:
        self._check_list(letter)
        shares = letter.body["shares"]
        if shares.keys() != set(self._senders):
            raise VoidRound(f"{letter.sender} opened shares of other owners")
        check_lengths(shares, letter.sender)

    def _check_threshold(self, owners: Mapping[str, Letter], did: str) -> None:
        if len(owners) < self.terms.threshold:
            told = f"{len(owners)} of {len(self.survivors)} survivors {did}"
            raise VoidRound(f"{told}, at least {self.terms.threshold} must; nothing is opened")
