"""Owners who come one after the other are all met, and nobody waits for those who never come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
from direct import Direct

from noiseworthy.deploy import correspondence
from noiseworthy.deploy.correspondence import Correspondence, all_introduced, introduced, released
from noiseworthy.deploy.gateway.client import packed
from noiseworthy.deploy.gateway.messages import (
    About,
    Receipt,
    Received,
    Request,
    Uploaded,
    pack_reply,
    read_message,
)
from noiseworthy.errors import GatewayError
from noiseworthy.methods.fedsgd_dpc.wire import FedSGDWork
from noiseworthy.privacy.uploads import Grid, Upload


def about(client: str) -> About:
    return About(
        client=client, data_set="wards", records=9, record_shape=(3,), classes=2, mechanism="gaussian",
        epsilon=1.0, delta=1e-5, unit="record", noise_floor=1.0, algorithms=[], models=[], most_releases=1,
        most_parameters=1, most_local_steps=1, head="0:" + 64 * "0", spent=0.0,
    )  # fmt: skip


def says(client: str) -> Callable[[bytes], bytes]:
    return lambda message: pack_reply(about(client))


@dataclass
class Clock:
    """Time that passes by sleeping, and a little by every look at it."""

    now: float = 0.0

    def monotonic(self) -> float:
        self.now += 0.001
        return self.now

    time = monotonic

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(correspondence, "time", made)
    return made


@dataclass
class Arriving(Direct):
    """Owners who are there from some second on."""

    clock: Clock = field(default_factory=Clock)
    since: dict[str, float] = field(default_factory=dict)

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(name for name in self.owners if self.clock.now >= self.since.get(name, 0.0))


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(correspondence, "_TICK", 0.02)


def names(exchange: Direct, seconds: float, quiet: float) -> list[str]:
    return [one.client for one in all_introduced(exchange, seconds, quiet)]


def test_all_who_come_before_it_gets_quiet_are_met_in_the_order_of_names(clock):
    owners = {name: says(name) for name in ("west", "north", "south")}
    exchange = Arriving(owners, clock=clock, since={"north": 0.2, "south": 0.5})
    assert names(exchange, 20.0, quiet=1.0) == ["north", "south", "west"]


def test_it_ends_when_it_is_quiet_and_not_before_somebody_came(clock):
    owners = {"north": says("north"), "late": says("late")}
    exchange = Arriving(owners, clock=clock, since={"north": 0.4, "late": 1e9})
    assert names(exchange, 30.0, quiet=0.2) == ["north"]
    assert 0.4 <= clock.now < 1.0


def test_it_ends_when_the_time_is_over_though_nobody_came(clock):
    assert names(Arriving({"late": says("late")}, clock=clock, since={"late": 1e9}), 0.3, quiet=5.0) == []
    assert 0.3 <= clock.now < 0.5


def test_who_answers_in_anothers_name_is_not_met():
    assert names(Direct({"north": says("south")}), 0.3, quiet=0.1) == []


FIRST, SECOND, NEVER_TOLD = (f"{length}:{digit * 64}" for length, digit in ((3, "a"), (5, "b"), (9, "c")))


def letter(release: int, head: str) -> tuple[Request, Uploaded]:
    """A request, and the upload that answers it."""
    work = FedSGDWork()
    wanted = Request(
        run="a study", release=release, algorithm=work, task={"model": "logistic"},
        theta=np.zeros(3, np.float32), mechanism="gaussian", clip_norm=1.0, noise=1.0, deadline=1e12,
    )  # fmt: skip
    upload = Upload(np.zeros(3, np.int64), Grid(-20), 9, "grid-csprng")
    return wanted, Uploaded(
        run="a study", release=release, client="north", request=wanted.digest, upload=upload, head=head
    )


def test_a_known_head_is_moved_by_new_uploads_alone():
    """Not by what an owner tells of itself, whose ledger may have been set back, nor by an old upload."""
    first, second = letter(1, FIRST), letter(2, SECOND)
    replies = [first[1], second[1], about("north"), first[1]]
    letters = Correspondence(Direct({"north": lambda message: pack_reply(replies.pop(0))}))
    heads = []
    for wanted, _ in (first, second, letter(3, NEVER_TOLD), first):
        letters.ask({"north": wanted}, 0.05)
        heads.append(letters.heads["north"])
        letters._not_before.clear()
    assert replies == []
    assert heads == [FIRST, SECOND, SECOND, SECOND]
    assert letters.received == {"north": 2}


def test_a_late_reply_to_an_earlier_receipt_is_none_to_the_end_of_a_run():
    """Else an owner would count as told that a run is over, and hold a part of its budget for ever."""
    ended = []

    def north(message: bytes) -> bytes:
        ended.append(read_message(message).ended)
        return pack_reply(Received(head=FIRST))

    exchange = Direct({"north": north})
    exchange.send("north", packed(Receipt(run="a study")), 1e12)
    assert released(exchange, {"north": Receipt(run="a study", ended=True)}, 0.5) == set()
    assert ended == [False, True]


class Leaving(Direct):
    """An exchange whose owners are gone once when they are to be asked."""

    def send(self, client: str, message: bytes, deadline: float) -> None:
        if client not in self.gone:
            self.gone.add(client)
            raise GatewayError(f"the node of {client} has just gone")
        super().send(client, message, deadline)

    gone: ClassVar[set[str]] = set()


def test_who_has_just_gone_is_asked_again_and_ends_no_round():
    exchange = Leaving({"north": says("north"), "south": says("south")})
    assert [one.client for one in introduced(exchange, ["north", "south"], 5.0)] == ["north", "south"]
    assert exchange.gone == {"north", "south"}


def test_who_was_never_heard_of_is_known_by_what_it_tells_first():
    letters = Correspondence(Direct({"north": says("north")}), silent={"north"})
    letters.ask({"north": letter(1, NEVER_TOLD)[0]}, 0.05)
    assert letters.heads == {"north": f"0:{64 * '0'}"}
