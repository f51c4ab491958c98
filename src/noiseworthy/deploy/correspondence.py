"""Asking owners over an exchange: replies are waited for so long, asked for again, and held against requests.

An owner who does not answer is silent. It is not asked for releases then, since a reply that comes too late
is paid for and of no use, but told to say a word; once it does, it is asked again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from noiseworthy.deploy.exchange import Exchange
from noiseworthy.deploy.gateway.client import pack_about, packed
from noiseworthy.deploy.gateway.messages import (
    About,
    LeaseRequest,
    Receipt,
    Received,
    Refused,
    Reply,
    Request,
    Uploaded,
    read_reply,
)
from noiseworthy.deploy.gateway.models import ModelOffer
from noiseworthy.errors import GatewayError, WireError

Kind = TypeVar("Kind", bound=Reply)

SILENT = "no answer"
UNREADABLE = "an answer that cannot be used"
_TICK = 1.0
"""Seconds between looks at who is to be asked again."""
_PAUSE = 2.0
"""Seconds before a message that was lost is sent again."""


class Sent(NamedTuple):
    """A request under way."""

    request: Request
    digest: str


Found = dict[str, Uploaded | Refused | str]
"""What came of requests: an upload, a refusal, or in words why there is neither."""


@dataclass
class Correspondence:
    """What the server knows of the owners of a run.

    Attributes:
        exchange: carries messages.
        heads: of each owner's ledger, with the last upload that arrived; requests carry it, so that a ledger
            that was set back is noticed. What an owner tells beside uploads moves no head that is known.
        received: last release of each owner that arrived.
        late: releases that arrived when nobody waited for them any more: paid for, and of no use.
        silent: owners who did not answer the last time.
        ahead: by how much the numbers of an owner's releases are ahead of the schedule, because a lost one
            was asked for again under a later number.
        sums: the number of the last secure sum that was begun in the run; none is used twice.
    """

    exchange: Exchange
    heads: dict[str, str] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)
    late: int = 0
    silent: set[str] = field(default_factory=set)
    ahead: dict[str, int] = field(default_factory=dict)
    sums: int = 0
    _under_way: dict[str, Sent] = field(default_factory=dict)
    _not_before: dict[str, float] = field(default_factory=dict)

    def ask(self, wanted: Mapping[str, Request], seconds: float, least: int = 1) -> Found:
        """The uploads of owners, their refusals, or in words why there is neither.

        Args:
            wanted: a request to each owner; what is asked twice is one release.
            seconds: to wait at most.
            least: uploads, with which owners who were silent before are not waited for.
        """
        until = time.monotonic() + seconds
        found: Found = {}
        while open := wanted.keys() - found.keys():
            self._send_to(open, wanted, until)
            enough = sum(isinstance(one, Uploaded) for one in found.values()) >= least
            if time.monotonic() >= until or (enough and open <= self.silent):
                break
            for owner, data in self.exchange.receive(min(_TICK, until - time.monotonic())):
                self._take(owner, data, wanted, found)
        # a last look: who answered while the time ran out has paid for it
        for owner, data in self.exchange.receive(0.0):
            self._take(owner, data, wanted, found)
        self.silent |= wanted.keys() - found.keys()
        return {owner: found.get(owner, SILENT) for owner in wanted}

    def _send_to(self, owners: set[str], wanted: Mapping[str, Request], until: float) -> None:
        free = owners & set(self.exchange.clients) - self.exchange.waiting
        for owner in sorted(free):
            if time.monotonic() < self._not_before.get(owner, 0.0):
                continue
            request = wanted[owner]
            message = pack_about() if owner in self.silent else packed(request)
            self._not_before[owner] = time.monotonic() + _PAUSE
            try:
                self.exchange.send(owner, message, time.time() + until - time.monotonic())
            except GatewayError:
                continue
            if owner not in self.silent:
                self._under_way[owner] = Sent(request, request.digest)

    def _take(self, owner: str, data: bytes | None, wanted: Mapping[str, Request], found: Found) -> None:
        """One answer: to what is wanted now, or to something older."""
        sent = self._under_way.pop(owner, None)
        if data is None:
            return
        self.silent.discard(owner)
        reply = _read(data)
        if isinstance(reply, About) and reply.client == owner:
            self.heads.setdefault(owner, reply.head)
        if sent is None:
            return
        fault = _fault(owner, sent, reply)
        if sent.request is wanted.get(owner):
            found[owner] = (
                reply if isinstance(reply, Uploaded | Refused) and not fault else f"{UNREADABLE}: {fault}"
            )
        elif not fault and isinstance(reply, Uploaded) and reply.release > self.received.get(owner, 0):
            self.late += 1
        if not fault and isinstance(reply, Uploaded) and reply.release > self.received.get(owner, 0):
            # bytes that are sent again hold the head of then
            self.heads[owner], self.received[owner] = reply.head, reply.release


def _fault(owner: str, sent: Sent, reply: Reply | None) -> str:
    """What makes a reply none to a request, by name; empty if it is one."""
    if reply is None:
        return "no message of a gateway"
    if isinstance(reply, Refused):
        return ""
    if not isinstance(reply, Uploaded):
        return "no upload"
    told = {"client": reply.client, "run": reply.run, "release": reply.release, "contents": reply.request}
    request = sent.request
    asked = {"client": owner, "run": request.run, "release": request.release, "contents": sent.digest}
    return ", ".join(f"another {name}" for name, value in asked.items() if told[name] != value)


def confirmed(letters: Correspondence, run: str, seconds: float) -> None:
    """Tell owners which of their uploads arrived, those who can be told within some seconds."""
    told = {owner: packed(Receipt(run=run, received=last)) for owner, last in letters.received.items()}
    answers(letters.exchange, told, seconds, Received)


def released(exchange: Exchange, receipts: Mapping[str, Receipt], seconds: float) -> set[str]:
    """Tell owners that a run is over, and give back what they hold for it.

    Args:
        exchange: with the owners.
        receipts: for each owner that which ends the run.
        seconds: to wait for them, as everywhere here.

    Returns:
        Owners who could not be told: their leases stay until they end them.
    """
    told = {owner: packed(receipt) for owner, receipt in receipts.items()}
    return told.keys() - answers(exchange, told, seconds, Received).keys()


def leased(exchange: Exchange, wanted: Mapping[str, LeaseRequest], seconds: float) -> dict[str, str]:
    """Why owners do not hold the price of a run for it, of those who do not, in words."""
    return _unwilling(exchange, {owner: packed(lease) for owner, lease in wanted.items()}, seconds)


def delivered(
    exchange: Exchange, owners: Collection[str], offer: ModelOffer, seconds: float
) -> dict[str, str]:
    """Send owners the model of a run; why those do not keep it who do not, in words."""
    return _unwilling(exchange, dict.fromkeys(owners, packed(offer)), seconds)


def _unwilling(exchange: Exchange, messages: Mapping[str, bytes], seconds: float) -> dict[str, str]:
    found = answers(exchange, messages, seconds, (Received, Refused))
    why = {owner: one.message for owner, one in found.items() if isinstance(one, Refused)}
    return why | dict.fromkeys(messages.keys() - found.keys(), SILENT)


def introduced(exchange: Exchange, owners: Collection[str], seconds: float) -> list[About]:
    """What owners tell of themselves, of those who do within some seconds; asking costs nobody anything."""
    found = answers(exchange, dict.fromkeys(owners, pack_about()), seconds, About)
    return [found[owner] for owner in owners if owner in found and found[owner].client == owner]


def answers(
    exchange: Exchange,
    messages: Mapping[str, bytes],
    seconds: float,
    kind: type[Kind] | tuple[type[Kind], ...],
) -> dict[str, Kind]:
    """Answers of a kind to one message for each owner, of those who give them within some seconds.

    What was under way before is answered first, and that is no answer to these messages. A message that is
    lost is sent again.
    """
    until = time.monotonic() + seconds
    found: dict[str, Kind] = {}
    earlier = set(exchange.waiting)
    while (open := messages.keys() - found.keys()) and time.monotonic() < until:
        for owner in open & set(exchange.clients) - exchange.waiting:
            with suppress(GatewayError):  # of who has just gone: asked again if it comes back in time
                exchange.send(owner, messages[owner], time.time() + until - time.monotonic())
        for owner, data in exchange.receive(min(_TICK, until - time.monotonic())):
            if owner in earlier:
                earlier.remove(owner)
            elif data is not None and isinstance(reply := _read(data), kind):
                found[owner] = reply
    return found


def all_introduced(exchange: Exchange, seconds: float, quiet: float = 15.0) -> list[About]:
    """What all owners tell who are there, until for some time no other one came.

    Args:
        exchange: with owners who come one after the other.
        seconds: to wait at most.
        quiet: seconds without another owner that end it, once there is one.

    Returns:
        Sorted by name.
    """
    until = last = time.monotonic() + seconds
    found: dict[str, About] = {}
    while time.monotonic() < min(until, last):
        others = set(exchange.clients) - found.keys()
        told = introduced(exchange, others, min(quiet, until - time.monotonic()))
        found |= {about.client: about for about in told}
        if told:
            last = time.monotonic() + quiet
        else:
            time.sleep(min(_TICK, quiet))
    return [found[name] for name in sorted(found)]


def _read(data: bytes) -> Reply | None:
    try:
        return read_reply(data)
    except WireError:
        return None
