"""The durable ledger of a simulated training: releases are paid for before the rounds that make them.

Every seed is a world of its own, in which the study runs once: worlds never meet, so their costs do not add
up. In its own folder a run is alone in its worlds. In a ledger that several runs share, the worlds are those
of the seeds, and every run through a world adds to what its clients have spent there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy.engines.simulation import Checkpoint
from noiseworthy.errors import BudgetExceeded
from noiseworthy.methods.algorithm import Algorithm
from noiseworthy.methods.dpfl_bcs.two_stages import stage_before
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.durable import Account, Charge, DurableLedger, Head, Refusal
from noiseworthy.privacy.durable.accounts import LAST_BITS, WHOLE
from noiseworthy.privacy.durable.reading import account_of, check_holds
from noiseworthy.privacy.durable.schedules import note_plan, spent_by_others, unacknowledged
from noiseworthy.studies.prices import (
    UploadPrice,
    bought_price,
    buys,
    first_stage_price,
    new_accounts,
    upload_price,
)

FILE = "ledger.sqlite"
Hook = Callable[[int, int], None]
AT_ONCE = 10_000
"""Accounts of so many clients are opened with a run; of more, each with the first stage that asks it."""
_BOUGHT, _FIRST, _LAST = 0, 1, 2
"""Stages: what was bought, ranges and constants; rounds that estimate, and the rounds of the plan."""


class SharedLedger(NamedTuple):
    """A ledger whose budgets several runs on the same data spend.

    Attributes:
        path: of the file.
        lifetime_epsilon: of accounts that a run opens, at its delta; None takes the run's own budget, so that
            the first run may spend the whole. Accounts that are open keep theirs.
    """

    path: Path
    lifetime_epsilon: float | None = None

    @classmethod
    def of(cls, path: Path, lifetime_epsilon: float | None = None) -> SharedLedger:
        """A ledger, with a lifetime epsilon that was checked."""
        if lifetime_epsilon is not None:
            check.positive("lifetime_epsilon", lifetime_epsilon)
        return cls(path, lifetime_epsilon)


class Owners(NamedTuple):
    """Whose budgets a training spends: the data set by name, and its clients in their order."""

    data: str
    clients: tuple[str, ...]


@dataclass
class World:
    """One simulated training with the accounts that it spends.

    Attributes:
        plan: that it follows.
        place: of the training among those that run side by side.
        new: accounts of the clients at some places, as a run opens them.
        made: uploads of each client in stages before, what was bought left out, shape (N,).
        accounts: that are open.
        numbers: of these in the ledger.
        places: of their clients.
        due: shares of each for all stages so far.
        of_client: which of these is a client's.
    """

    plan: Plan
    place: int
    new: Callable[[Sequence[int]], list[Account]]
    made: NDArray[np.int64]
    accounts: list[Account] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    due: list[int] = field(default_factory=list)
    of_client: dict[int, int] = field(default_factory=dict)

    def open(self, ledger: DurableLedger, clients: Sequence[int]) -> None:
        """Open the accounts of clients, where they are not; those in the ledger keep their budgets."""
        fresh = [client for client in clients if client not in self.of_client]
        accounts = [
            known if known is not None and _alike(known, new) else new
            for new in (self.new(fresh) if fresh else [])
            for known in [account_of(ledger, new.data, new.world, new.client)]
        ]
        self.of_client |= {client: len(self.places) + i for i, client in enumerate(fresh)}
        self.numbers += ledger.enrol(accounts)
        self.accounts, self.places = self.accounts + accounts, self.places + fresh
        self.due += [0] * len(fresh)

    def charges(
        self, price: UploadPrice, cohorts: NDArray[np.int32], start: int, stop: int
    ) -> Iterator[Charge]:
        """One charge for each upload in rounds `start` to `stop` of a stage."""
        done = np.bincount(cohorts[:start].ravel(), minlength=len(self.made))
        for client in cohorts[start:stop].ravel().tolist():
            number, own = int(self.made[client] + done[client] + 1), self.of_client[client]
            yield Charge(self.numbers[own], number, price.of(own, int(done[client])))
            done[client] += 1


@dataclass
class RunLedger:
    """A training's side of a ledger.

    Attributes:
        ledger: on disk.
        run: its number there.
        worlds: one for each seed.
        spent: grants whose rounds run now.
        sealed: grants that are not acknowledged yet.
    """

    ledger: DurableLedger
    run: int
    worlds: list[World]
    spent: list[int] = field(default_factory=list)
    sealed: list[int] = field(default_factory=list)

    @classmethod
    def open(
        cls, path: Path, mark: str, plans: Sequence[Plan], seeds: Sequence[int], owners: Owners,
        shared: SharedLedger | None,
    ) -> RunLedger:  # fmt: skip
        """Open the accounts of a training.

        Args:
            path: of the ledger.
            mark: `fingerprint` of the run.
            plans: one per seed.
            seeds: a seed that repeats is charged once, because it repeats its noise.
            owners: data set and clients.
            shared: the ledger, if other runs on these data spend the same budgets.

        Raises:
            LedgerError: a ledger that cannot be written, or that holds other budgets.
        """
        name = run_name(mark)
        within, lifetime = (f" of run {name}", None) if shared is None else ("", shared.lifetime_epsilon)
        ledger = DurableLedger.open(path)
        try:
            run = ledger.begin(name, repeatable=True)
            worlds = [
                _world(ledger, name, plans[place], place, owners, f"seed {seed}{within}", lifetime)
                for seed in dict.fromkeys(seeds)
                for place in [list(seeds).index(seed)]
            ]
        except BaseException:
            ledger.close()
            raise
        return cls(ledger, run, worlds)

    def bought(self) -> None:
        """Pay for what was bought, ranges and constants; it was drawn while planning, and is a number now.

        Raises:
            BudgetExceeded: clients that cannot pay.
        """
        for world in self.worlds:
            if buys(world.plan):
                world.open(self.ledger, range(len(world.made)))
                world.due = bought_price(world.plan, world.accounts)
        charges = [
            Charge(number, 0, share)
            for world in self.worlds
            for number, share in zip(world.numbers, world.due, strict=True)
            if share
        ]
        if charges:
            self._check_paid()
            note_plan(self.ledger, self.run, _BOUGHT, [(charge.account, 1) for charge in charges])
            grant = self._paid(charges)
            self.ledger.seal(grant, b"uploads that bought constants")
            self.ledger.acknowledge(grant)

    def first_stage(self, algorithms: Sequence[Algorithm]) -> Hook:
        """What to call before rounds that estimate, so that they are paid for."""
        firsts = [stage_before(world.plan) for world in self.worlds]
        self._open(algorithms)
        prices = [
            first_stage_price(world.plan, first, world.accounts, world.places)
            for world, first in zip(self.worlds, firsts, strict=True)
        ]
        return self._stage(_FIRST, prices, [first.uploads for first in firsts], algorithms)

    def last_stage(self, plans: Sequence[Plan], algorithms: Sequence[Algorithm]) -> Hook:
        """What to call before rounds by these plans, one per training, so that they are paid for."""
        own = [plans[world.place] for world in self.worlds]
        for world in self.worlds:
            if world.plan.pilot is not None and world.plan.pilot.trains:
                world.made = world.plan.pilot.uploads
        self._open(algorithms)
        pairs = zip(own, self.worlds, strict=True)
        prices = [upload_price(plan, world.accounts, world.places) for plan, world in pairs]
        return self._stage(_LAST, prices, [plan.uploads for plan in own], algorithms)

    def _open(self, algorithms: Sequence[Algorithm]) -> None:
        """Open the accounts of all that a stage asks."""
        for world in self.worlds:
            world.open(self.ledger, np.unique(np.asarray(algorithms[world.place].cohorts)).tolist())

    def _stage(
        self,
        stage: int,
        prices: list[UploadPrice],
        planned: list[NDArray[np.int64]],
        algorithms: Sequence[Algorithm],
    ) -> Hook:
        for world, price, counts in zip(self.worlds, prices, planned, strict=True):
            planned_of = counts[world.places].tolist()
            world.due = [due + price.total(i, planned_of[i]) for i, due in enumerate(world.due)]
        self._check_paid()
        uploads = [
            (number, int(count))
            for world, counts in zip(self.worlds, planned, strict=True)
            for number, count in zip(world.numbers, counts[world.places], strict=True)
        ]
        note_plan(self.ledger, self.run, stage, uploads)
        cohorts = [np.asarray(algorithms[world.place].cohorts) for world in self.worlds]

        def pay(start: int, stop: int) -> None:
            charges = [
                charge
                for world, price, asked in zip(self.worlds, prices, cohorts, strict=True)
                for charge in world.charges(price, asked, start, stop)
            ]
            self.spent += [self._paid(charges)] if charges else []

        return pay

    def _check_paid(self) -> None:
        """Refuse a stage that would end in the middle, before anything of it is spent."""
        others = spent_by_others(self.ledger, self.run)
        for world in self.worlds:
            for account, number, due in zip(world.accounts, world.numbers, world.due, strict=True):
                if (spent := others.get(number, 0)) + due > WHOLE + LAST_BITS:
                    raise BudgetExceeded(_too_poor(account, spent, due))

    def _paid(self, charges: list[Charge]) -> int:
        answer = self.ledger.reserve(self.run, charges)
        if isinstance(answer, Refusal):
            raise BudgetExceeded(answer.message)
        return answer.number

    def seal(self, reached: Checkpoint) -> Head:
        """Seal what was spent by a digest of what came out; tells where the chain ends then."""
        for grant in self.spent:
            self.ledger.seal(grant, digest_of(reached))
        self.sealed, self.spent = self.sealed + self.spent, []
        return self.ledger.head

    def acknowledge(self) -> None:
        """Note that what was sealed is kept."""
        for grant in self.sealed:
            self.ledger.acknowledge(grant)
        self.sealed = []

    def resume(self, head: Head) -> None:
        """Go on from a checkpoint that was kept when the chain ended at `head`.

        Raises:
            LedgerError: a ledger that lacks what it held then.
        """
        check_holds(self.ledger, head)
        self.sealed = unacknowledged(self.ledger, self.run, head)
        self.acknowledge()


def run_name(mark: str) -> str:
    """What the ledger calls the run of a `fingerprint`."""
    return hashlib.sha256(mark.encode()).hexdigest()[:12]


def entered(books: DurableLedger, mark: str) -> dict[str, Any]:
    """What a run's record keeps of a ledger: how many releases it entered, and the chain's end.

    Args:
        books: the ledger.
        mark: `fingerprint` of the run.
    """
    find = (
        'SELECT count(*), coalesce(sum(g.acknowledged), 0) FROM releases r JOIN grants g ON g.id = r."grant" '
        "JOIN runs ON runs.id = r.run WHERE runs.name = ?"
    )
    ((releases, acknowledged),) = books.query(find, [run_name(mark)])
    return {"head": str(books.head), "releases": releases, "acknowledged": acknowledged}


def digest_of(reached: Checkpoint) -> bytes:
    """SHA-256 over everything that releases have moved."""
    running = hashlib.sha256(str(reached.round).encode())
    places = () if reached.where is None else (reached.where,)
    for leaf in (reached.theta, reached.used, *reached.memory, *reached.server, *places):
        running.update(np.ascontiguousarray(leaf).tobytes())
    return running.digest()


def _world(
    ledger: DurableLedger, run: str, plan: Plan, place: int, owners: Owners, name: str, lifetime: float | None
) -> World:
    """A world whose accounts are open, unless there are many."""

    def new(places: Sequence[int]) -> list[Account]:
        clients = [owners.clients[i] for i in places]
        return new_accounts(plan, run, owners.data, name, clients, lifetime, places)

    world = World(plan, place, new, np.zeros(len(owners.clients), np.int64))
    if len(owners.clients) <= AT_ONCE:
        world.open(ledger, range(len(owners.clients)))
    return world


def _alike(known: Account, new: Account) -> bool:
    """Whether releases planned for one account may be charged to another."""
    return (known.currency, known.relation, known.unit) == (new.currency, new.relation, new.unit)


def _too_poor(account: Account, spent: int, asked: int) -> str:
    return (
        f"{account.client} has spent {100 * spent / WHOLE:.4g} % of its lifetime budget (epsilon "
        f"{account.epsilon:g}) on {account.data} in other runs, and this one needs "
        f"{100 * asked / WHOLE:.4g} %; nothing was spent, plan with a smaller epsilon or without this client"
    )
