"""Asking owners over an exchange: replies are waited for so long, asked for again, and held against requests.

An owner who does not answer is silent. It is not asked for releases then, since a reply that comes too late
is paid for and of no use, but told to say a word; once it does, it is asked again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from noiseworthy.engines.exchange import Exchange
from noiseworthy.errors import GatewayError, WireError
from noiseworthy.gateway.messages import (
    About,
    Receipt,
    Received,
    Refused,
    Reply,
    Request,
    Uploaded,
    pack_about,
    pack_receipt,
    pack_request,
    read_reply,
)

Kind = TypeVar("Kind", About, Received)

SILENT = "no answer"
UNREADABLE = "an answer that cannot be used"
_TICK = 1.0
"""Seconds between looks at who is to be asked again."""
_PAUSE = 2.0
"""Seconds before a message that was lost is sent again."""


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
    """

    exchange: Exchange
    heads: dict[str, str] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)
    late: int = 0
    silent: set[str] = field(default_factory=set)
    _under_way: dict[str, str] = field(default_factory=dict)
    _not_before: dict[str, float] = field(default_factory=dict)

    def ask(self, wanted: Mapping[str, Request], seconds: float, least: int = 1) -> dict[str, Uploaded | str]:
        """The uploads of owners, or in words why there is none.

        Args:
            wanted: a request to each owner; what is asked twice is one release.
            seconds: to wait at most.
            least: uploads, with which owners who were silent before are not waited for.
        """
        until = time.monotonic() + seconds
        found: dict[str, Uploaded | str] = {}
        while open := wanted.keys() - found.keys():
            self._send_to(open, wanted, until)
            enough = sum(isinstance(one, Uploaded) for one in found.values()) >= least
            if time.monotonic() >= until or (enough and open <= self.silent):
                break
            for owner, data in self.exchange.receive(min(_TICK, until - time.monotonic())):
                self._take(owner, data, wanted, found)
        for owner, data in self.exchange.receive(0.0):
            self._take(owner, data, wanted, found)
        self.silent |= wanted.keys() - found.keys()
        return {owner: found.get(owner, SILENT) for owner in wanted}

    def _send_to(self, owners: set[str], wanted: Mapping[str, Request], until: float) -> None:
        free = owners & set(self.exchange.clients) - self.exchange.waiting
        for owner in sorted(free):
            if time.monotonic() < self._not_before.get(owner, 0.0):
                continue
            message, mark = pack_request(wanted[owner]), wanted[owner].digest
            if owner in self.silent:
                message, mark = pack_about(), ""
            self._not_before[owner] = time.monotonic() + _PAUSE
            try:
                self.exchange.send(owner, message, time.time() + until - time.monotonic())
            except GatewayError:
                continue
            self._under_way[owner] = mark

    def _take(
        self, owner: str, data: bytes | None, wanted: Mapping[str, Request], found: dict[str, Uploaded | str]
    ) -> None:
        """One answer: to what is wanted now, or to something older."""
        mark = self._under_way.pop(owner, "")
        if data is None:
            return
        self.silent.discard(owner)
        asked = owner in wanted and mark == wanted[owner].digest
        reply = _read(data)
        if isinstance(reply, About):
            self.heads.setdefault(owner, reply.head)
        elif isinstance(reply, Uploaded) and reply.client == owner:
            if owner in wanted and reply.request == wanted[owner].digest:
                found[owner] = reply
            elif reply.release > self.received.get(owner, 0):
                self.late += 1
            self._note(owner, reply)
        elif asked:
            found[owner] = f"{reply.reason}: {reply.message}" if isinstance(reply, Refused) else UNREADABLE

    def _note(self, owner: str, reply: Uploaded) -> None:
        if reply.release > self.received.get(owner, 0):  # bytes that are sent again hold the head of then
            self.heads[owner], self.received[owner] = reply.head, reply.release


def confirmed(letters: Correspondence, run: str, seconds: float) -> None:
    """Tell owners which of their uploads arrived, those who can be told within some seconds."""
    told = {owner: pack_receipt(Receipt(run=run, received=last)) for owner, last in letters.received.items()}
    _answers(letters.exchange, told, seconds, Received)


def introduced(exchange: Exchange, owners: Collection[str], seconds: float) -> list[About]:
    """What owners tell of themselves, of those who do within some seconds; asking costs nobody anything."""
    found = _answers(exchange, dict.fromkeys(owners, pack_about()), seconds, About)
    return [found[owner] for owner in owners if owner in found and found[owner].client == owner]


def _answers(
    exchange: Exchange, messages: Mapping[str, bytes], seconds: float, kind: type[Kind]
) -> dict[str, Kind]:
    """Answers of a kind to one message for each owner, of those who give them within some seconds."""
    until = time.monotonic() + seconds
    found: dict[str, Kind] = {}
    while (open := messages.keys() - found.keys()) and time.monotonic() < until:
        for owner in open & set(exchange.clients) - exchange.waiting:
            exchange.send(owner, messages[owner], time.time() + until - time.monotonic())
        for owner, data in exchange.receive(min(_TICK, until - time.monotonic())):
            if data is not None and isinstance(reply := _read(data), kind):
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
