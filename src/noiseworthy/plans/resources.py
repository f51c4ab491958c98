"""What training costs a client besides privacy: so much per communication and per step, C at most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput

ResourceUnit = Literal["units", "seconds", "bytes", "joules"]
UNITS: tuple[ResourceUnit, ...] = ("units", "seconds", "bytes", "joules")
_ROUNDING = 1e-12
"""Share of a budget that sums of floats may miss it by."""


@dataclass(frozen=True)
class Resources:
    """Costs and budgets of the clients in one unit: time, traffic or energy.

        cost_i = c1_i (communications of client i) + c2_i (local steps of client i) <= C_i

    A communication is the model sent and the upload received; a local step is one gradient, so that a reply
    with one gradient costs c1 + c2.

    Attributes:
        cost_per_round: c1, at least 0, shape (N,).
        cost_per_step: c2, at least 0, shape (N,).
        budget: C, above 0, shape (N,).
        unit: of all three.

    Raises:
        InvalidInput: a negative cost, a client whose training costs nothing, a budget that is not above 0.

    Example:
        >>> battery = Resources.of(100.0, 1.0, 1000.0, clients=2, unit="joules")
        >>> battery.cost([9, 9], [81, 81]), battery.affords(9, [90, 900])
        (array([981., 981.]), array([ True, False]))

    Source: Hu et al., section 5.1, with costs that may differ between devices.
    """

    cost_per_round: NDArray[np.float64]
    cost_per_step: NDArray[np.float64]
    budget: NDArray[np.float64]
    unit: ResourceUnit = "units"

    def __post_init__(self):
        check.non_negative("[resources] cost_per_round", self.cost_per_round)
        check.non_negative("[resources] cost_per_step", self.cost_per_step)
        check.positive("[resources] budget", self.budget)
        check.one_of("[resources] unit", self.unit, UNITS)
        free = np.flatnonzero(self.cost_per_round + self.cost_per_step == 0)
        if free.size:
            raise InvalidInput(
                "[resources] cost_per_round and cost_per_step must not both be 0, got 0 for client "
                f"{free[0]}; leave [resources] out where nothing is scarce"
            )

    @classmethod
    def of(
        cls,
        cost_per_round: ArrayLike,
        cost_per_step: ArrayLike,
        budget: ArrayLike,
        clients: int,
        unit: ResourceUnit = "units",
    ) -> Resources:
        """Costs of `clients` clients from one number for all, or one per client."""
        return cls(
            check.per_client("[resources] cost_per_round", cost_per_round, clients),
            check.per_client("[resources] cost_per_step", cost_per_step, clients),
            check.per_client("[resources] budget", budget, clients),
            unit,
        )

    def of_some(self, clients: NDArray[np.int64]) -> Resources:
        """Those of some clients, in the order that these have."""
        paid = (self.cost_per_round[clients], self.cost_per_step[clients], self.budget[clients])
        return Resources(*paid, self.unit)

    def cost(self, communications: ArrayLike, steps: ArrayLike) -> NDArray[np.float64]:
        """What each client spends, shape (N,), for its communications and its local steps."""
        return self.cost_per_round * np.asarray(communications) + self.cost_per_step * np.asarray(steps)

    def affords(self, communications: ArrayLike, steps: ArrayLike) -> NDArray[np.bool_]:
        """Whether every client can pay for so many communications and steps of its own.

        Args:
            communications: the same number for every client; any shape, a candidate each.
            steps: of every client over the whole training, broadcastable with it.

        Returns:
            Of the broadcast shape.
        """
        communications, steps = np.broadcast_arrays(communications, steps)
        paid = np.ones(communications.shape, bool)
        for c1, c2, budget in np.unique(self._rows, axis=0):
            paid &= c1 * communications + c2 * steps <= budget * (1 + _ROUNDING)
        return paid

    def rounds_of_each(self, steps_per_round: int) -> NDArray[np.float64]:
        """Communications that each client can pay for with so many steps before each, shape (N,)."""
        price = self.cost_per_round + self.cost_per_step * steps_per_round
        with np.errstate(divide="ignore"):
            return np.floor(self.budget * (1 + _ROUNDING) / price)

    def most_rounds(self, steps_per_round: int) -> float:
        """Communications that every client can pay for with so many steps before each; may be infinite."""
        return float(self.rounds_of_each(steps_per_round).min())

    def most_rounds_after(self, steps_per_round: ArrayLike) -> NDArray[np.float64]:
        """`most_rounds` for several numbers of steps before each communication, of the same shape.

        Example:
            >>> Resources.of(100.0, 1.0, 1000.0, clients=2).most_rounds_after([1, 400])
            array([9., 2.])
        """
        steps = np.asarray(steps_per_round)
        most = np.full(steps.shape, np.inf)
        for c1, c2, budget in np.unique(self._rows, axis=0):
            with np.errstate(divide="ignore"):
                most = np.minimum(most, np.floor(budget * (1 + _ROUNDING) / (c1 + c2 * steps)))
        return most

    def most_steps(self) -> float:
        """Local steps that every client can pay for before a single communication; may be infinite."""
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = (self.budget * (1 + _ROUNDING) - self.cost_per_round) / self.cost_per_step
        # steps that are free set no limit: over their price of 0 what is left is inf, or NaN if nothing is
        return float(np.floor(np.nanmin([*steps, np.inf])))

    def most_iterations(self, probability: float) -> float:
        """Largest T with T (p c1 + c2) <= C for every client: T steps, p T communications."""
        return float(np.floor(np.min(self.budget * (1 + _ROUNDING) / self.cost(probability, 1))))

    def most_probability(self, iterations: ArrayLike) -> NDArray[np.float64]:
        """Largest p in (0, 1] with T (p c1 + c2) <= C for every client; 0 where the steps alone cost more.

        Args:
            iterations: T, at least 0.

        Returns:
            Of the same shape.
        """
        t = np.asarray(iterations, float)
        most = np.ones_like(t)
        for c1, c2, budget in np.unique(self._rows, axis=0):
            left = budget * (1 + _ROUNDING) - c2 * t
            with np.errstate(divide="ignore", invalid="ignore"):
                p = np.where(c1 * t > 0, left / (c1 * t), 1.0)
            most = np.minimum(most, np.where(left >= 0, p, 0.0))
        return most

    def check_pays(self, steps_per_round: int = 1) -> None:
        """Refuse budgets that do not pay for a single round.

        Raises:
            InvalidInput: some client cannot pay for one communication after `steps_per_round` steps.
        """
        if self.most_rounds(steps_per_round) >= 1:
            return
        price = self.cost(1, steps_per_round)
        poor = int(np.argmin(self.budget / price))
        raise InvalidInput(
            f"[resources] budget must pay for one round of {steps_per_round} local steps, which costs "
            f"{price[poor]:g} {self.unit}, got {self.budget[poor]:g} for client {poor}; "
            "raise the budget, or leave such a client out"
        )

    def as_dict(self) -> dict[str, Any]:
        """As plain values, lists with one entry per client."""
        return {
            "unit": self.unit,
            "cost_per_round": self.cost_per_round.tolist(),
            "cost_per_step": self.cost_per_step.tolist(),
            "budget": self.budget.tolist(),
        }

    @property
    def _rows(self) -> NDArray[np.float64]:
        return np.column_stack([self.cost_per_round, self.cost_per_step, self.budget])
