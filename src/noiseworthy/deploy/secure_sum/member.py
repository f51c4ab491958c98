"""An owner's side of a secure sum: it answers each step once, or ends the round in one sentence."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from noiseworthy.deploy.secure_sum import letters, secret_shares
from noiseworthy.deploy.secure_sum.keys import KEY, Roster, RoundSecrets, agreed, commit, derived, public_of
from noiseworthy.deploy.secure_sum.letters import Letter
from noiseworthy.deploy.secure_sum.masks import Words, add_pair, own_mask, words_of
from noiseworthy.deploy.secure_sum.messages import (
    STEPS,
    Step,
    associated,
    check_enough,
    context_of,
    digest_of,
    list_of,
    pack_upload,
    read_asked,
    read_keys,
    read_signatures,
    read_terms,
    read_uploads,
    sentence,
)
from noiseworthy.deploy.secure_sum.record import RoundRecord
from noiseworthy.deploy.secure_sum.terms import Terms
from noiseworthy.errors import InvalidInput, UserError, VoidRound, WireError


class Release(Protocol):
    """What an owner adds to the sum, and what pays for it."""

    def charge(self) -> None:
        """Pay, durably. Called once, before `steps`; whatever it raises ends the round unsent."""
        ...

    def steps(self) -> NDArray[np.int64]:
        """The clipped total with the owner's share of the noise, in steps of the grid, shape (p,)."""
        ...


@dataclass(frozen=True)
class Member:
    """An owner who may take part in secure sums.

    Attributes:
        name: on the roster.
        key: that the owner signs with, for ever.
        roster: that the owner approved.
        record: of the rounds that it began.
        colluders: the least that a round must withstand.
    """

    name: str
    key: Ed25519PrivateKey
    roster: Roster
    record: RoundRecord
    colluders: int = 0

    def __post_init__(self):
        if self.roster.keys.get(self.name) != public_of(self.key):
            raise InvalidInput(
                f"the roster does not hold the key of {self.name!r}; have its public key entered, and "
                "approve the new roster"
            )

    def begin(self, data: bytes, release: Release) -> OwnerRound:
        """The owner's side of a round that a message asks for, entered in the record.

        Args:
            data: of the message.
            release: what it will upload.

        Raises:
            VoidRound: terms that are not sound or not of the approved roster, a round that was begun before.
            LedgerError: the record cannot be written.
        """
        try:
            terms = read_terms(data)
        except UserError as error:
            raise VoidRound(sentence(error)) from None
        if terms.roster != self.roster.digest:
            raise VoidRound("the roster of the round is not the one that this owner approved")
        if self.name not in terms.cohort or not set(terms.cohort) <= self.roster.keys.keys():
            raise VoidRound("the cohort leaves out this owner, or has somebody who is not on the roster")
        if terms.colluders < self.colluders:
            told = f"the round withstands {terms.colluders} colluders, this owner demands {self.colluders}"
            raise VoidRound(told)
        self.record.begin(self.name, terms)
        begun = OwnerRound(self, terms, release, RoundSecrets.drawn())
        begun._answers[hashlib.sha256(data).digest()] = begun.keys()
        return begun


class _Kept(dict[str, tuple[bytes, bytes]]):
    """Secret shares that an owner keeps for others: of the pair key and of the own seed, by owner."""

    def __repr__(self) -> str:
        return f"<secret shares of {len(self)} owners>"


@dataclass(repr=False)
class OwnerRound:
    """One round at one owner: keys, secret shares, masked upload, list of survivors, opened shares.

    Attributes:
        member: the owner.
        terms: of the round.
        release: what is uploaded.
        secrets: of the round; None once it is over.

    Guarantee: nothing is uploaded before `release.charge` returned, and at most once; one list of survivors
    is signed; for each owner of the list a share of its own seed is opened and for each other one of its pair
    key, never both, and not before `threshold` owners signed this very list. Whatever else comes ends the
    round here and forgets its secrets. A message that comes again is answered by the same bytes.
    """

    member: Member
    terms: Terms
    release: Release
    secrets: RoundSecrets | None
    _void: str = ""
    _due: int = 1
    _answers: dict[bytes, bytes] = field(default_factory=dict)
    _kept: _Kept = field(default_factory=_Kept)
    _keys: dict[str, Letter] = field(default_factory=dict)
    _context: bytes = b""
    _senders: list[str] = field(default_factory=list)
    _upload: bytes = b""
    _survivors: frozenset[str] = frozenset()
    _list: bytes = b""

    def keys(self) -> bytes:
        """The owner's keys for this round, signed; the answer to what began it."""
        secrets, name = self._held, self.member.name
        return self._written(
            "keys",
            {
                "channel": public_of(secrets.channel),
                "pair": public_of(secrets.pair),
                # by the terms alone: the digest that later keys are derived by covers this letter
                "commitment": commit(secrets.own, self.terms.digest, name),
            },
        ).packed

    def answer(self, data: bytes) -> bytes:
        """The reply to the next message of the server.

        Raises:
            VoidRound: the round is over for this owner, and why.
        """
        if self._void:
            raise VoidRound(self._void)
        digest = hashlib.sha256(data).digest()
        if digest not in self._answers:
            self._answers[digest] = self._answered(data)
        return self._answers[digest]

    def forget(self, why: str) -> None:
        """End the round here, and forget its secrets and all that was answered."""
        does = "opens" if self._upload else "uploads"
        self._void = (
            f"round {self.terms.round} of run {self.terms.run!r} is void for {self.member.name}, which "
            f"{does} nothing: {why}"
        )
        self.secrets = None
        self._kept.clear()
        self._answers.clear()

    def _answered(self, data: bytes) -> bytes:
        try:
            step, content = self._due_of(data)
            return {
                "shares": self._shared,
                "upload": self._uploaded,
                "survivors": self._signed,
                "opened": self._opened,
            }[step](content)
        except (VoidRound, WireError, InvalidInput) as error:
            self.forget(sentence(error))
            raise VoidRound(self._void) from None
        except BaseException:
            self.forget("it could not be gone on with")
            raise

    def _due_of(self, data: bytes) -> tuple[Step, Any]:
        """The step that is due and its content; it is never due again."""
        asked = read_asked(data)
        if asked.terms != self.terms.digest:
            raise VoidRound("a message belongs to other terms or to another round")
        if self._due == len(STEPS) or asked.step != STEPS[self._due]:
            raise VoidRound(f"the server asks for {asked.step!r} out of turn")
        self._due += 1
        return STEPS[self._due - 1], asked.content

    # The steps ---------------------------------------------------------------------------------------------

    def _shared(self, content: Any) -> bytes:
        """Everybody's keys came: share the secrets."""
        terms, name, secrets = self.terms, self.member.name, self._held
        self._keys = read_keys(content, terms, self.member.roster)
        if name not in self._keys or self._keys[name].packed != self.keys():
            raise VoidRound(f"the keys of {name} were left out or altered")
        self._context = context_of(terms, self._keys)
        whole, owners = (secrets.pair.private_bytes_raw(), secrets.own), len(terms.cohort)
        split = (secret_shares.split(secret, terms.threshold, owners) for secret in whole)
        pieces = list(zip(*split, strict=True))
        # its own share is one of the threshold's: an owner that signs opens one for itself as for all others
        self._kept[name] = pieces[terms.place(name) - 1]
        sealed = {
            other: secret_shares.sealed(
                self._channel(other, name, other),
                b"".join(pieces[terms.place(other) - 1]),
                associated(terms, self._context, name, other),
            )
            for other in self._keys
            if other != name
        }
        return self._written("shares", {"context": self._context, "sealed": sealed}).packed

    def _uploaded(self, content: Any) -> bytes:
        """Secret shares of the others came: pay, and upload what they all can only open together."""
        self._keep(content)
        # masks before the charge: a key that is none, or a kill in the time that they take, costs nothing yet
        masks = self._masks()
        self.release.charge()
        words = self._masked(masks, self.release.steps())
        letter = self._written(
            "upload", {"context": self._context, "senders": self._senders, "digest": digest_of(words)}
        )
        self._upload = letter.packed
        return pack_upload(letter, words)

    def _signed(self, content: Any) -> bytes:
        """Uploads of survivors came: sign their list, the only one of this round."""
        terms, name = self.terms, self.member.name
        uploads = read_uploads(content, terms, self.member.roster)
        for letter in uploads.values():
            self._check_same(letter)
        if name not in uploads or uploads[name].packed != self._upload:
            raise VoidRound(f"the list of survivors leaves out {name} or alters what it sent")
        self._survivors = frozenset(uploads)
        self._list = list_of(terms, self._context, uploads)
        self.member.record.sign(name, terms, self._list)
        return self._written("survivors", {"list": self._list}).packed

    def _opened(self, content: Any) -> bytes:
        """Enough owners signed the same list: open one share for each owner, and forget the round."""
        read_signatures(content, self.terms, self.member.roster, self._list)
        shares = {name: own if name in self._survivors else pair for name, (pair, own) in self._kept.items()}
        reply = self._written("opened", {"list": self._list, "shares": shares}).packed
        self.secrets = None
        self._kept.clear()
        return reply

    # Parts of them -----------------------------------------------------------------------------------------

    @property
    def _held(self) -> RoundSecrets:
        if self.secrets is None:
            raise VoidRound("its secrets are forgotten")
        return self.secrets

    def _written(self, kind: letters.Kind, body: dict[str, Any]) -> Letter:
        return letters.written(kind, self.member.name, self.terms, body, self.member.key)

    def _channel(self, other: str, sender: str, receiver: str) -> bytes:
        """The key under which secret shares go from one owner to another."""
        secret = agreed(self._held.channel, self._keys[other].body["channel"])
        return derived(secret, self._context, "secret shares", sender, receiver)

    def _keep(self, sealed: Any) -> None:
        if not isinstance(sealed, Mapping) or not sealed.keys() <= self._keys.keys() - {self.member.name}:
            raise VoidRound("secret shares are of somebody who sent no keys, or of the owner itself")
        name = self.member.name
        for other, data in sealed.items():
            if type(data) is not bytes:
                raise VoidRound(f"the secret shares of {other} are no bytes")
            key = self._channel(other, other, name)
            both = secret_shares.unsealed(key, data, associated(self.terms, self._context, other, name))
            if len(both) != 2 * KEY:
                raise VoidRound(f"the secret shares of {other} have another length than {2 * KEY} bytes")
            self._kept[other] = both[:KEY], both[KEY:]
        self._senders = [other for other in self.terms.cohort if other in self._kept]
        check_enough(self._senders, self.terms, "shared their secrets")

    def _masks(self) -> Words:
        """All that is added to the owner's steps."""
        secrets, name = self._held, self.member.name
        total = own_mask(secrets.own, self._context, name, self.terms.coordinates).copy()
        for other in self._senders:
            if other != name:
                public = self._keys[other].body["pair"]
                add_pair(total, secrets.pair, public, self._context, name, other)
        return total

    def _masked(self, masks: Words, steps: NDArray[np.int64]) -> Words:
        if steps.dtype != np.int64 or steps.shape != (self.terms.coordinates,):
            raise InvalidInput(
                f"an upload must be {self.terms.coordinates} steps of int64, got {steps.dtype} of shape "
                f"{steps.shape}"
            )
        return masks + words_of(steps)

    def _check_same(self, letter: Letter) -> None:
        if letter.body["context"] != self._context or letter.body["senders"] != self._senders:
            raise VoidRound(f"{letter.sender} was shown other keys or other senders")
        if letter.sender not in self._senders:
            raise VoidRound(f"{letter.sender} uploaded and shared no secrets")
