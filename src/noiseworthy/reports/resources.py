"""What training costs the clients besides privacy: time, traffic or energy, beside what they may spend."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noiseworthy._wording import number, shortened_apart, span
from noiseworthy.reports.schedules import uploads_of, words_of
from noiseworthy.studies.typed_record import PlanPart, ResourcesPart, RunRecord


@dataclass(frozen=True)
class Bill:
    """Costs of the clients beside their budgets.

    Attributes:
        unit: of both.
        cost: what each client spends, shape (N,).
        budget: what it may spend, shape (N,).
    """

    unit: str
    cost: NDArray[np.float64]
    budget: NDArray[np.float64]

    @property
    def dearest(self) -> int:
        """The client with the least left of its budget, as a share of it."""
        return int(np.argmax(self.cost / self.budget))

    @property
    def alike(self) -> bool:
        """Whether costs and budgets are the same for every client."""
        return bool(np.ptp(self.cost) == 0 and np.ptp(self.budget) == 0)


def planned_bill(record: RunRecord) -> Bill | None:
    """What the plan costs; None where nothing but privacy is scarce, and for records that do not say."""
    if (resources := record.plan.resources) is None:
        return None
    return Bill(resources.unit, np.array(resources.cost), np.array(resources.budget))


def bill_of(record: RunRecord) -> Bill | None:
    """What training cost, the greatest over seeds; what is planned before it."""
    planned, training, resources = planned_bill(record), record.training, record.plan.resources
    if planned is None or training is None or resources is None:
        return planned
    unmade = np.array(uploads_of(record.plan)) - np.max(training.uploads, axis=0)
    return Bill(planned.unit, planned.cost - unmade * _prices(record.plan, resources), planned.budget)


def _prices(plan: PlanPart, resources: ResourcesPart) -> NDArray[np.float64]:
    """What one upload costs each client, with the local steps before it."""
    steps = 1 if plan.local_steps is None else plan.local_steps
    return np.array(resources.cost_per_round) + np.array(resources.cost_per_step) * steps


# Words ------------------------------------------------------------------------------------------------


def amount(value: float) -> str:
    """A cost or a budget to four digits, whole numbers in full.

    Example:
        >>> amount(981.0), amount(12345.6), amount(0.123456), amount(3.2e9)
        ('981', '12,346', '0.1235', '3,200,000,000')
    """
    return f"{value:,.0f}" if 1000 <= value < 1e15 else number(value, 4)


def of_budget(bill: Bill) -> str:
    """What the dearest client spends.

    Example:
        >>> of_budget(Bill("joules", np.array([981.0]), np.array([1000.0])))
        '981 of 1,000 joules'
    """
    i = bill.dearest
    return f"{amount(bill.cost[i])} of {amount(bill.budget[i])} {bill.unit}"


def whose(record: RunRecord, bill: Bill) -> str:
    """Whose cost is stated: every client's, or that of those with the least left."""
    share = bill.cost / bill.budget
    if bill.alike:
        return "each client"
    if np.sum(share == share.max()) > 1:
        return "the dearest clients"
    return f"{shortened_apart(record.client_names, 40)[bill.dearest]}, which has the least left"


def prices(plan: PlanPart, resources: ResourcesPart) -> str:
    """What a communication and a local step cost."""
    c1, c2 = (span(costs, amount) for costs in (resources.cost_per_round, resources.cost_per_step))
    return f"{c1} per {words_of(plan).noised.exchange}, {c2} per local step"


def price_of_round(record: RunRecord) -> str:
    """What a round costs, to write behind the word; empty where rounds or clients differ in cost."""
    bill, plan = planned_bill(record), record.plan
    if bill is None or plan.resources is None or not bill.alike or not plan.train:
        return ""
    price = _prices(plan, plan.resources)[0]
    if not np.isclose(price * plan.rounds, bill.cost[0], rtol=1e-9):
        return ""
    return f", {amount(price)} {bill.unit} each"
