"""What the uploads of a plan cost clients, as shares of their lifetime budgets.

Clients are all of the plan, or those at some `places` among them; what is told of them has their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy.methods.dpfl_bcs.losses import LOSSES_PER_REPLY
from noiseworthy.methods.dpfl_bcs.two_stages import FirstStage
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.durable import Account, accounts_of
from noiseworthy.privacy.durable.accounts import SCHEDULE, costs_of
from noiseworthy.privacy.durable.schedules import schedule_accounts
from noiseworthy.privacy.releases import Release

Places = Sequence[int] | None
"""Of some clients among all of a plan; None of all."""


class UploadPrice(NamedTuple):
    """What the uploads of a stage cost each client.

    Attributes:
        shares: of the lifetime budget, for one use of a record, a whole number for each.
        uses: of a record by each upload, shape (uploads, clients); ones but for noise at every local step.
    """

    shares: list[int]
    uses: NDArray[np.int64]

    def of(self, client: int, upload: int) -> int:
        """Shares of a client's upload, counted from 0 within the stage."""
        return self.shares[client] * int(self.uses[upload, client])

    def total(self, client: int, uploads: int) -> int:
        """Shares of a client's first uploads."""
        return self.shares[client] * int(self.uses[:uploads, client].sum())


def new_accounts(
    plan: Plan, run: str, data: str, world: str, clients: Sequence[str], lifetime: float | None = None,
    places: Places = None,
) -> list[Account]:  # fmt: skip
    """Accounts of a plan's whole budget, for one world.

    Args:
        plan: with noise.
        run: the only one that may spend them, where releases do not add up.
        data: the data set, by name.
        world: empty for real data.
        clients: names.
        lifetime: epsilon of every client; None takes the plan's, and so does what does not add up.
        places: of the clients in the plan; None where they are all.
    """
    some = slice(None) if places is None else list(places)
    budget = replace(plan.budget, epsilon=plan.budget.epsilon[some], delta=plan.budget.delta[some])
    if adds_up(plan):
        epsilon = budget.epsilon if lifetime is None else np.full(len(clients), lifetime)
        return accounts_of(replace(budget, epsilon=epsilon), plan.problem.family, data, world, clients)
    return schedule_accounts(budget, run, data, world, clients)


def adds_up(plan: Plan) -> bool:
    """Whether every release of a plan has a price of its own, whatever else is released."""
    return plan.problem.law.analysis.closed_form(plan.sampling_rate, plan.budget.delta)


def buys(plan: Plan) -> bool:
    """Whether something was bought before the rounds: ranges, or constants."""
    return plan.ranges is not None or (plan.pilot is not None and not plan.pilot.trains)


def bought_price(plan: Plan, accounts: Sequence[Account]) -> list[int]:
    """Shares of all that was bought: ranges, and the upload that bought constants; N whole numbers."""
    parts = [] if plan.ranges is None else [*plan.ranges.parts]
    if plan.pilot is not None and not plan.pilot.trains:
        parts += plan.pilot.parts
    due = np.zeros(len(accounts), object)
    for release, times in parts:
        due = due + np.array(_shares(plan, release, accounts), object) * times
    return [int(share) for share in due]


def first_stage_price(
    plan: Plan, first: FirstStage, accounts: Sequence[Account], places: Places = None
) -> UploadPrice:
    """What a reply of stage 1 costs: a gradient, and the losses that come with it."""
    gradients, losses = (_shares(plan, release, accounts, places) for release, _ in first.parts)
    both = [g + LOSSES_PER_REPLY * told for g, told in zip(gradients, losses, strict=True)]
    return UploadPrice(both, _uses(first.plan, places))


def upload_price(plan: Plan, accounts: Sequence[Account], places: Places = None) -> UploadPrice:
    """What an upload of a plan costs, a pilot or stage before it left out."""
    shares = [] if plan.release is None else _shares(plan, plan.release, accounts, places)
    return UploadPrice(shares, _uses(plan, places))


def _shares(plan: Plan, release: Release, accounts: Sequence[Account], places: Places = None) -> list[int]:
    if not accounts:
        return []
    if accounts[0].currency.startswith(SCHEDULE):
        planned = plan.releases + (0 if plan.pilot is None else plan.pilot.uploads)
        planned = planned + (0 if plan.ranges is None else sum(times for _, times in plan.ranges.parts))
        some = planned if places is None else planned[list(places)]
        costs = [Fraction(1, max(int(k), 1)) for k in some]
    else:
        costs = costs_of(release, places)
    return [account.share(cost) for account, cost in zip(accounts, costs, strict=True)]


def _uses(plan: Plan, places: Places) -> NDArray[np.int64]:
    """Uses of a record by each upload of each client, shape (uploads, clients)."""
    most, clients = int(plan.uploads.max()), plan.problem.n_clients
    some = slice(None) if places is None else list(places)
    used = [plan.released_by(np.full(clients, k))[some] for k in range(most + 1)]
    return np.diff(np.array(used), axis=0)
