"""An owner's side of secure sums in its gateway: what is asked, paid for as any release, and sealed."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray
from pydantic import Field

from noiseworthy._tables import Table, checked, read_toml
from noiseworthy.deploy.gateway.gateway import FAILED, LEDGER, Accepted, Gateway
from noiseworthy.deploy.gateway.messages import Request, pack_reply
from noiseworthy.deploy.gateway.owner import SCORE, Owner
from noiseworthy.deploy.gateway.shares_of_noise import as_drawn, hidden_by, shared
from noiseworthy.deploy.gateway.summands import leaves_as_drawn
from noiseworthy.deploy.gateway.sums import Summed, SumRequest, subject_of
from noiseworthy.deploy.gateway.terms import Declined
from noiseworthy.deploy.secure_sum.keys import Roster
from noiseworthy.deploy.secure_sum.member import Member, OwnerRound
from noiseworthy.deploy.secure_sum.messages import read_asked, read_terms, sentence
from noiseworthy.deploy.secure_sum.record import RoundRecord
from noiseworthy.deploy.secure_sum.terms import Terms
from noiseworthy.errors import ConfigError, LedgerError, Unwitnessed, UserError, VoidRound
from noiseworthy.privacy.durable import Charge, Resend
from noiseworthy.privacy.durable.storage import turn

_log = logging.getLogger("noiseworthy.deploy.gateway")

MOST_RUNS = 8
"""In which an owner has a round open; the oldest is forgotten, and its owner counts as missing there."""
NO_SHARES = "the owner lets no noise of others count ([secure_sum] share_noise); nothing was spent"
UNNOISED = "an upload into a secure sum carries its owner's noise, and none that a server adds"
ALONE = "a score is told of records that are held out, and enters no sum; nothing was spent, ask for it alone"
INTO_A_SUM = "this release was asked before; a round that is tried again needs the next one"


class SecureSumTable(Table):
    """`[secure_sum]`: the key that the owner signs with, and the roster that it approves by its digest.

    Rounds that withstand fewer than `colluders` are refused, and those whose owners share their noise, unless
    the owner says `share_noise`.
    """

    key: Annotated[Path, Field(strict=False)]
    roster: Annotated[Path, Field(strict=False)]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    colluders: Annotated[int, Field(ge=0)] = 0
    share_noise: bool = False

    def beside(self, folder: Path) -> SecureSumTable:
        """The same with paths that start at a folder."""
        return self.model_copy(update={"key": folder / self.key, "roster": folder / self.roster})

    @property
    def told(self) -> tuple[str, int, bool]:
        """What the server is told before any round."""
        return self.digest, self.colluders, self.share_noise

    def opened(self, owner: Owner) -> Sums:
        """The owner's side of secure sums.

        Args:
            owner: the owner's file, of which this is a table.

        Raises:
            ConfigError: a file that cannot be read, or a roster that was not approved.
            InvalidInput: a roster without the owner's own key.
        """
        roster = read_roster(self.roster)
        if roster.digest != self.digest:
            raise ConfigError(
                f"{self.roster} has the digest {roster.digest}, and the owner approved {self.digest}; "
                "compare it with the other owners, then state it as [secure_sum] digest"
            )
        key = read_key(self.key)
        record = RoundRecord.open(Path(f"{owner.files.ledger}.rounds"))
        try:
            return Sums(Member(owner.owner.client, key, roster, record, self.colluders), self.share_noise)
        except BaseException:
            record.close()
            raise


class RosterTable(Table):
    """The file of a roster: for each owner its public key, as `ssh-keygen -t ed25519` writes it."""

    owners: dict[str, str]


def read_roster(path: Path) -> Roster:
    """The roster of a file.

    Raises:
        ConfigError: no such file, or keys of another kind.
        InvalidInput: too few owners, or two with one key.
    """
    table = checked(RosterTable, read_toml(path, "roster"), "the roster", "; see docs/secure_sum.md")
    return Roster({name: read_public(path, name, key) for name, key in table.owners.items()})


def read_public(path: Path, name: str, key: str) -> bytes:
    """The bytes of an owner's public key, which a file holds as `ssh-keygen` writes it.

    Raises:
        ConfigError: a key of another kind.
    """
    try:
        found = serialization.load_ssh_public_key(key.encode())
    except (ValueError, UnsupportedAlgorithm):
        found = None
    if not isinstance(found, Ed25519PublicKey):
        raise ConfigError(f"{path} holds no Ed25519 key of {name}; ssh-keygen -t ed25519 makes one")
    return found.public_bytes_raw()


def read_key(path: Path) -> Ed25519PrivateKey:
    """The key of a file that an owner signs with.

    Raises:
        ConfigError: no such file, one that others may read, a password, or a key of another kind.
    """
    try:
        shared = path.stat().st_mode & 0o077
        found = serialization.load_ssh_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"key {path} cannot be used ({error}); ssh-keygen -t ed25519 -N '' -f {path} makes one"
        ) from None
    if not isinstance(found, Ed25519PrivateKey):
        raise ConfigError(f"{path} is no Ed25519 key; ssh-keygen -t ed25519 -N '' -f {path} makes one")
    if shared:
        raise ConfigError(f"others may sign with {path} in its owner's name; chmod 600 {path} helps")
    return found


@dataclass
class Releasing:
    """A release of the gateway that goes into a secure sum.

    Attributes:
        gateway: of the owner.
        accepted: the request, within the owner's terms, with its price.
        made: the same, as it is made.
        weight: of the upload in the sum.
        terms: of the round.
        grant: of the ledger, once it is paid for.
    """

    gateway: Gateway
    accepted: Accepted
    made: Accepted
    weight: float
    terms: Terms
    grant: int | None = None

    def charge(self) -> None:
        """Pay by the ledger, as for any release; one that was asked before is refused.

        Raises:
            Declined: it is not paid for, and nothing must leave.
        """
        try:
            answer, self._memory = self.gateway.reserved(self.accepted)
        except Unwitnessed:
            _log.exception("a release was paid for and is lost")
            raise Declined("failed", FAILED) from None
        except LedgerError as error:
            _log.warning("%s", error)
            raise Declined("ledger", LEDGER) from None
        # sealed meanwhile, alone or in a round: to go on would draw a second noise that nothing pays for
        if isinstance(answer, Resend):
            later = self.gateway.runs.next_release(self.accepted.request.run)
            raise Declined("conflict", INTO_A_SUM, later)
        self.grant = answer.number

    def steps(self) -> NDArray[np.int64]:
        """The noised upload times its weight, on the grid of the round.

        Noise that is shared was drawn on this grid. An upload that its own noise hides is rounded to it,
        which reads no record and costs nothing.
        """
        upload = self.gateway.uploaded(self.made, self._memory, str(self.gateway.ledger.head)).upload
        if self.terms.share:
            return as_drawn(upload)
        # what overflows here is infinite and ends at the clip, which keeps the sum of all from wrapping
        scaled = np.rint(self.weight * np.ldexp(upload.values, -self.terms.exponent))
        return np.clip(scaled, -self.terms.clipped, self.terms.clipped).astype(np.int64)


@dataclass
class Sums:
    """The rounds of secure sums that an owner takes part in, one at a time in each run.

    Attributes:
        member: the owner, with its key and the roster that it approved.
        share_noise: whether the owner lets the noise of others count.
        rounds: the last round of each run, of so many runs at most.
    """

    member: Member
    share_noise: bool = False
    rounds: dict[str, tuple[OwnerRound, Releasing]] = field(default_factory=dict)

    def close(self) -> None:
        """Forget all rounds, and let go of the record."""
        self.rounds.clear()
        self.member.record.close()

    def answer(self, gateway: Gateway, asked: SumRequest) -> bytes:
        """The reply to a message of a secure sum.

        Args:
            gateway: of the owner.
            asked: the message.

        Raises:
            Declined: the round is over for this owner, or was never begun.

        Guarantee: a masked upload leaves only after its release was paid for and its bytes were sealed.
        """
        try:
            held = self._held(asked.message)
            if held is None:
                return self._reply(gateway, self._begun(gateway, asked).keys())
            with turn(Path(f"{gateway.ledger.path}.turn")):
                return self._went_on(gateway, *held, asked.message)
        except VoidRound as error:
            raise Declined("void", str(error)) from None

    def _held(self, message: bytes) -> tuple[OwnerRound, Releasing] | None:
        """The round that a message goes on with; None where it begins one."""
        try:
            terms = read_asked(message).terms
        except UserError as error:
            raise VoidRound(sentence(error)) from None
        return next((held for held in self.rounds.values() if held[0].terms.digest == terms), None)

    def _begun(self, gateway: Gateway, asked: SumRequest) -> OwnerRound:
        """A new round; an earlier one of its run is over."""
        try:
            terms = read_terms(asked.message)
        except UserError as error:
            raise VoidRound(sentence(error)) from None
        if asked.request is None:
            raise Declined("malformed", "a round of a secure sum begins with the request of a release")
        if asked.request.into is not None:
            raise Declined("not-allowed", UNNOISED)
        if asked.request.algorithm.name == SCORE:
            raise Declined("not-allowed", ALONE)
        if terms.share and not self.share_noise:
            raise Declined("not-allowed", NO_SHARES)
        request = hidden_by(asked.request, asked.weight, terms) if terms.share else asked.request
        made = accepted = gateway.accepted(request)
        _check_same(terms, asked.request, accepted)
        if terms.share:
            made = shared(gateway, accepted, asked.request.noise, asked.weight, terms)
            accepted = replace(accepted, share=made.share)
        # before the others pay, too: a round that it leaves as it should pay may be void for all of them
        gateway.checked(accepted, Charge(gateway.number, request.release, accepted.share))
        releasing = Releasing(gateway, accepted, made, asked.weight, terms)
        begun = self.member.begin(asked.message, releasing)
        _check_new(gateway, accepted.request)
        self.rounds.pop(terms.run, None)
        self.rounds[terms.run] = begun, releasing
        while len(self.rounds) > MOST_RUNS:
            del self.rounds[next(iter(self.rounds))]
        return begun

    def _went_on(self, gateway: Gateway, begun: OwnerRound, releasing: Releasing, message: bytes) -> bytes:
        before = releasing.grant
        try:
            reply = self._reply(gateway, begun.answer(message))
            # by the step that paid alone: asked again, the same letter goes into a reply with a later head
            if releasing.grant is not None and before is None:
                gateway.ledger.seal(releasing.grant, reply)
        except (Declined, VoidRound):
            raise
        except Exception:
            begun.forget("it could not be gone on with")
            if releasing.grant is None or before is not None:
                raise
            _log.exception("grant %d was paid for and is lost", releasing.grant)
            later = gateway.runs.next_release(releasing.accepted.request.run)
            raise Declined("failed", FAILED, later) from None
        return reply

    def _reply(self, gateway: Gateway, message: bytes) -> bytes:
        return pack_reply(Summed(message=message, head=str(gateway.ledger.head)))


def _coordinates(accepted: Accepted) -> int:
    """Numbers in an upload that may enter a sum: of its one noised sum, or one for each parameter."""
    job, (one, *more) = accepted.job, accepted.job.sums
    if not more and leaves_as_drawn(job, one):
        return one.dimension
    if {one.dimension for one in job.sums} != {len(job.theta)}:
        raise Declined(
            "not-allowed",
            f"{accepted.request.algorithm.name} releases something else than one sum as it was drawn, or a "
            "number for each parameter, which is all that a secure sum takes",
        )
    return len(job.theta)


def _check_new(gateway: Gateway, request: Request) -> None:
    """Refuse a release that was paid for before anybody else pays for a round that it cannot be in."""
    if gateway.runs.price_before(gateway.runs.number_of(request.run), request.release) is not None:
        raise Declined("conflict", INTO_A_SUM, gateway.runs.next_release(request.run))


def _check_same(terms: Terms, request: Request, accepted: Accepted) -> None:
    """Hold the terms of a round against the release that goes into it."""
    asked = {"run": request.run, "coordinates": _coordinates(accepted), "subject": subject_of(request)}
    for name, value in asked.items():
        if getattr(terms, name) != value:
            raise Declined("not-allowed", f"the round has another {name} than the release that goes into it")
