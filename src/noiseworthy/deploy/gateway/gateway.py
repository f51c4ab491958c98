"""One owner's gateway: from the bytes of a request to the bytes of a reply, paid for in between."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.gateway.memory import Memories, Runs
from noiseworthy.deploy.gateway.messages import (
    About,
    LeaseRequest,
    Receipt,
    Received,
    Refused,
    Request,
    Seen,
    Uploaded,
    pack_reply,
    read_message,
    read_reply,
)
from noiseworthy.deploy.gateway.owner import SCORE, Owner
from noiseworthy.deploy.gateway.price import price_of
from noiseworthy.deploy.gateway.terms import Declined, check_allowed, check_floor, check_room
from noiseworthy.deploy.gateway.work import job_of
from noiseworthy.errors import LedgerError, Unwitnessed, UserError, WireError
from noiseworthy.methods.local import Memory
from noiseworthy.methods.wire import Job
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.privacy.durable import Account, Charge, DurableLedger, Grant, Head, Refusal, Resend
from noiseworthy.privacy.durable.accounts import WHOLE
from noiseworthy.privacy.durable.fingerprints import Fingerprint
from noiseworthy.privacy.durable.leases import end_leases, lease, lease_refusal, open_rest
from noiseworthy.privacy.durable.storage import make_private, turn
from noiseworthy.tasks.names import is_encoder
from noiseworthy.tasks.table import TaskTable

if TYPE_CHECKING:
    from noiseworthy.deploy.gateway.held_out import BothParts
    from noiseworthy.deploy.gateway.summing import Sums
    from noiseworthy.tasks.base import Task

_log = logging.getLogger("noiseworthy.deploy.gateway")

FAILED = "the release was paid for and could not be made; it is lost, ask for the next one"
BROKEN = "the gateway could not look at this request; nothing more was spent, ask the owner"
LEDGER = "the ledger of the owner cannot be used for this; nothing was spent, ask the owner"
PUT_BACK = "the ledger of the owner was put back from a backup; the owner must say what was spent since"
SET_BACK = "the ledger of the owner lacks what it held when this head was told; the owner must put it back"
CHANGED = (
    "the records are not those that the budget was spent on; nothing was spent, the owner must put them back "
    "or say that they were changed on purpose"
)
LEFT_ONCE = Refused(
    reason="conflict", message="this release left without noise, and leaves once alone; ask for the next one"
)
LATE = "the deadline has passed; nothing more was spent, ask again with a later one"
OTHERWISE = "this release was asked before with other contents; ask as before, or for the next one"


@dataclass(frozen=True)
class Accepted:
    """A request that is within the owner's terms, before anything is spent.

    Attributes:
        request: as it came.
        job: what to compute.
        share: price of the release.
    """

    request: Request
    job: Job
    share: int


@dataclass
class Gateway:
    """Alone reads an owner's data, and releases what the owner's file and ledger allow.

    Attributes:
        owner: the owner's file.
        holding: the records.
        ledger: of the lifetime budget.
        account: of the owner.
        number: of the account in the ledger.
        memories: what the owner remembers of runs.
        fingerprint: what binds the account to the records.
        sums: the owner's side of secure sums, where its file allows any.
        scoring: the same for records that are held out, on a budget of their own; None without any.
        on_model: what the owner does with a model that was kept.

    Guarantee: no record is read for a release, and none of its noise drawn, before the ledger holds its price
    on disk; nothing leaves that is not sealed there; one (run, release) never leaves in two forms.
    """

    owner: Owner
    holding: Holding
    ledger: DurableLedger
    account: Account
    number: int
    memories: Memories
    fingerprint: Fingerprint | BothParts
    sums: Sums | None = None
    scoring: Gateway | None = None
    on_model: Callable[[Path], None] = lambda path: None
    _compiled: dict[Task, set[str]] = field(default_factory=dict)

    @classmethod
    def open(cls, owner: Owner, *, records_changed: bool = False) -> Self:
        """The gateway of an owner's file: data loaded, ledger verified.

        Args:
            owner: the owner's file.
            records_changed: the owner's word that records which the budget was spent on have been changed
                on purpose; the budget goes on with those of now.

        Raises:
            UserError: data, ledger or budget that cannot be used, or OpenDP not installed.
        """
        DeployedNoise(owner.budget.mechanism, 1.0)
        account, path = owner.account, owner.files.ledger
        holding = Holding.load(owner.federation, owner.owner.client, owner.rows, owner.holds_out)
        ledger = DurableLedger.open(path, owner.files.witness)
        try:
            make_private(path)  # not before: it may have been another file
            (number,) = ledger.enrol([account])
            sums = None if owner.secure_sum is None else owner.secure_sum.opened(owner)
            fingerprint = Fingerprint(ledger, number, holding.parts)
            # no two owners of a ledger are called alike, also where their names hold a slash
            place = f"{account.data.replace('/', chr(0))}/{account.client}"
            memories = Memories(Path(f"{path}.memory"), place)
            made = cls(owner, holding, ledger, account, number, memories, fingerprint, sums=sums)
            if holding.held_out is not None:
                from noiseworthy.deploy.gateway.held_out import beside  # here: few owners hold records out

                made.scoring = beside(made, holding.held_out, fingerprint)
            if records_changed and not made.fingerprint.fits:
                from noiseworthy.deploy.gateway.held_out import take_changed  # here: few records change

                take_changed(fingerprint, account)
        except BaseException:
            ledger.close()
            raise
        return made

    def close(self) -> None:
        """Let go of the ledger."""
        self.ledger.close()
        if self.sums is not None:
            self.sums.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rest(self) -> None:
        """What to do while nobody asks: leave the ledger in one whole file, if its disk lets us."""
        try:
            self.ledger.settle()
        except LedgerError as error:
            _log.warning("%s", error)

    def answer(self, data: bytes) -> bytes:
        """The reply to a message: always one, and no error leaves in any other form.

        What went wrong in full is in the owner's own log, which may tell of records.
        """
        try:
            return self._answered(data)
        except Declined as declined:
            _log.info("%s: %s", declined.reply.reason, declined.reply.message)
            return pack_reply(declined.reply)
        except Exception:
            _log.exception("a request could not be looked at")
            return pack_reply(Refused(reason="fault", message=BROKEN))

    def _answered(self, data: bytes) -> bytes:
        try:
            message = read_message(data)
        except WireError as error:
            raise Declined("malformed", str(error)) from None
        try:
            if isinstance(message, Request):
                scored = message.algorithm.name == SCORE and self.scoring
                return (scored or self)._released(message)
            if isinstance(message, LeaseRequest):
                return pack_reply(self._leased(message))
            if isinstance(message, Receipt):
                return pack_reply(self._received(message))
            if message == "about":
                return pack_reply(self.about)
            return message.answered(self)
        except Unwitnessed:
            _log.exception("a release was paid for and is lost")
            raise Declined("failed", FAILED) from None
        except LedgerError as error:
            _log.warning("%s", error)
            raise Declined("ledger", LEDGER) from None

    @property
    def runs(self) -> Runs:
        """What the ledger holds of the owner's releases."""
        return Runs(self.ledger, self.number)

    @property
    def about(self) -> About:
        """The owner's terms and how much is spent; public, and free."""
        owner, allowed, holding = self.owner, self.owner.allowed, self.holding
        return About(
            **owner.owner.model_dump(), **owner.budget.model_dump(), records=holding.size,
            **allowed.model_dump(exclude={"models", "own_models", "encoders", "reply_seconds"}),
            models=allowed.names, encoders=[f"{name}@{digest}" for name, digest in allowed.encoders.items()],
            columns=owner.columns and owner.columns.digest, sums=owner.secure_sum and owner.secure_sum.told,
            head=str(self.ledger.head), spent=min(1.0, self.runs.spent / WHOLE), classes=holding.classes,
            labels=tuple(map(str, listed)) if (listed := owner.federation.classes) else None,
            leased=min(1.0, open_rest(self.ledger, self.number) / WHOLE), record_shape=holding.record_shape,
            held_out=holding.held_out and holding.held_out.size,
            scored=(self.scoring and min(1.0, self.scoring.runs.spent / WHOLE)) or 0.0,
        )  # fmt: skip

    def _received(self, receipt: Receipt) -> Received:
        run = self.runs.number_of(receipt.run)
        self.runs.acknowledge(run, receipt.received)
        (self.scoring or self).runs.acknowledge(run, receipt.scored)
        if run is not None and receipt.ended:
            end_leases(self.ledger, run, self.number)
            _log.info("run %r is over", receipt.run)
        return Received(head=str(self.ledger.head))

    def _leased(self, asked: LeaseRequest) -> Received:
        """Hold a run's whole price, by the owner's arithmetic, if other runs leave room for it."""
        self._check_head(asked.head)
        self._check_records()
        try:
            shares = self.account.share(self.owner.account_of(asked.epsilon, asked.delta).whole)
        except UserError as error:
            raise Declined("not-allowed", str(error)) from None
        short = lease_refusal(self.ledger, self.runs.number_of(asked.run), self.number, shares)
        short = short or lease(self.ledger, self.ledger.begin(asked.run), self.number, shares)
        if short is not None:
            raise Declined(short.why, short.message)
        _log.info("run %r holds its price", asked.run)
        return Received(head=str(self.ledger.head))

    def _released(self, request: Request) -> bytes:
        accepted = self.accepted(request)
        with turn(Path(f"{self.ledger.path}.turn")):
            answer, memory = self.reserved(accepted)
            if isinstance(answer, Resend):
                return self._same(answer.sealed, accepted.request)
            return self._made(answer.number, accepted, memory)

    def reserved(self, accepted: Accepted) -> tuple[Grant | Resend, Memory]:
        """What the ledger answers to a release, and what the owner remembers before it."""
        request = accepted.request
        charge = Charge(self.number, request.release, accepted.share)
        memory = self.checked(accepted, charge)
        # bound before it is charged: a kill in between leaves an account that is bound and spent nothing; the
        # other way round one that has spent would take any records
        if not self.fingerprint.taken:
            self.fingerprint.take()
        answer = self.ledger.reserve(self.ledger.begin(request.run), [charge])
        if isinstance(answer, Refusal):
            later = self.runs.next_release(request.run) if answer.why == "lost" else None
            raise Declined(answer.why, answer.message, later)
        return answer, memory

    def task(self, table: TaskTable, seen: Seen | None = None) -> Task:
        """The model of a request that is allowed, for the owner's rows; reads no record.

        Raises:
            InvalidInput: as `Holding.task`; a copy of the owner's that is not the one it approved.
        """
        if str(table.model) not in self.owner.allowed.own_models and not is_encoder(table.features):
            return self.holding.task(table, seen)
        from noiseworthy.deploy.gateway.own_copies import task_of  # here, because few owners have any

        return task_of(self.owner, self.holding, table, seen)

    def accepted(self, request: Request) -> Accepted:
        """The request within the owner's terms; looks at public things only."""
        check_allowed(self.owner.allowed, self.owner.budget, request)
        try:
            task = self.task(request.task, request.seen)
            if task.dimension != len(request.theta):
                said = f"the model has {task.dimension} parameters, got {len(request.theta)}"
                raise Declined("not-allowed", said)
            job = job_of(request, task, self.holding.size)
            check_floor(self.owner.budget, job)
            check_room(job)
            if request.into is not None:
                from noiseworthy.deploy.gateway.unnoised import allowed  # here: few owners trust a server

                job = allowed(self.owner.allowed, job, request, request.into)
            return Accepted(request, job, price_of(job.sums, self.account, self.holding.row))
        except UserError as error:
            raise Declined("not-allowed", str(error)) from None

    def checked(self, accepted: Accepted, charge: Charge) -> Memory:
        """The memory for a release that may be paid for now; a run is entered for no other."""
        request = accepted.request
        self._check_records()
        self._check_head(request.head)
        _check_time(request)
        run = self.runs.number_of(request.run)
        before = self.runs.price_before(run, charge.number)
        self.runs.acknowledge(run, request.received)
        if before is not None:
            if before != charge.share:
                raise Declined("conflict", OTHERWISE, self.runs.next_release(request.run))
            return ()  # nothing is computed from it: its bytes are sealed, or it is lost
        # `reserve` looks again; here a run that it would refuse stays out of the ledger and compiles nothing
        if (short := self.ledger.shortage([charge], run)) is not None:
            raise Declined(short.why, short.message)
        memory = self._recalled(accepted)
        self.rehearse(accepted)
        return memory

    def rehearse(self, accepted: Accepted) -> None:
        """Compile before paying: a kill in those seconds would lose the release."""
        program, job = accepted.request.program, accepted.job
        if job.task not in self._compiled:
            self._compiled.clear()  # in place: gateways of other accounts on the same records look here, too
            self._compiled[job.task] = set()
        if program not in self._compiled[job.task]:
            job.rehearse(self.holding.rehearsal(job.task))
            self._compiled[job.task].add(program)
            _check_time(accepted.request)

    def _same(self, sealed: bytes, request: Request) -> bytes:
        """The sealed bytes, if they answer this very request."""
        before = read_reply(sealed)
        if isinstance(before, Uploaded) and before.request == request.digest:
            return sealed
        refused = isinstance(before, Refused)
        why, said = (before.reason, before.message) if refused else ("conflict", OTHERWISE)
        raise Declined(why, said, self.runs.next_release(request.run))

    def _check_records(self) -> None:
        """A budget is for the records that it was spent on: changed ones would be another data set."""
        if not self.fingerprint.fits:
            raise Declined("records", CHANGED)

    def _check_head(self, told: str | None) -> None:
        """Refuse on a ledger that lacks what the server was told, or that was put back and not accepted."""
        holds = told is None or self.ledger.holds(Head.read(told))
        if holds and self.ledger.accepted:
            return
        _log.warning("the ledger lacks, or was put back behind, what the server knows: head %s", told)
        raise Declined("ledger", PUT_BACK if holds else SET_BACK)

    def _recalled(self, accepted: Accepted) -> Memory:
        request = accepted.request
        try:
            kept = self.memories.recall(request.run, accepted.job.fresh_memory)
        except ValueError:
            raise Declined("conflict", "the owner remembers this run otherwise; rename the new run") from None
        if kept.release >= request.release:
            message = f"release {kept.release} of this run was made already; ask for a later one"
            raise Declined("conflict", message, kept.release + 1)
        return kept.memory

    def _made(self, grant: int, accepted: Accepted, memory: Memory) -> bytes:
        """The reply of a release that was paid for, sealed; from here on whatever fails loses it.

        One without noise leaves once, and what is sealed says so: noise that a server draws anew over the
        same numbers would be another release of them.
        """
        try:
            # of the charge: the seal's entry digests this reply, so that no reply can carry the head after it
            head = str(self.ledger.head)
            reply = pack_reply(self.uploaded(accepted, memory, head))
            self.ledger.seal(grant, reply if accepted.request.into is None else pack_reply(LEFT_ONCE))
        except Exception:
            _log.exception("grant %d was paid for and is lost", grant)
            raise Declined("failed", FAILED, self.runs.next_release(accepted.request.run)) from None
        _log.info("release %d of run %r left", accepted.request.release, accepted.request.run)
        return reply

    def uploaded(self, accepted: Accepted, memory: Memory, head: str) -> Uploaded:
        """The upload of a release that was paid for; what the owner remembers of it is kept."""
        request, job = accepted.request, accepted.job
        upload, memory = job.upload(self.holding.batch(job.task), memory)
        self.memories.keep(request.run, request.release, memory)
        return Uploaded(
            run=request.run, release=request.release, client=self.account.client, request=request.digest,
            upload=upload, head=head,
        )  # fmt: skip


def _check_time(request: Request) -> None:
    if time.time() >= request.deadline:
        raise Declined("deadline", LATE)
