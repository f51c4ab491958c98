"""What the clients allow to be learnt about them: (epsilon, delta), per whom, against which neighbour."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.gaussian import gaussian_mu

Unit = Literal["record", "person", "client"]
"""Whose change is hidden, the smallest first: a claim for one unit is a claim for those before it."""
Row = Literal["record", "person"]
"""What an owner's numbers of rows count, and a clip bounds: single records, or all records of a person."""
Relation = Literal["replace-one", "add-remove"]
RELATIONS: tuple[Relation, ...] = ("replace-one", "add-remove")
UNITS: tuple[Unit, ...] = ("record", "person", "client")


@dataclass(frozen=True)
class PrivacyBudget:
    """The (epsilon_i, delta_i) that each client i may spend over the whole training.

    Clients hold disjoint data, so budgets compose in parallel across clients and sequentially over the
    uploads of one client.

    Args:
        epsilon: privacy loss, above 0 and finite, shape (N,).
        delta: what any event's probability may exceed e^epsilon times its neighbour's by, in [0, 1), shape
            (N,).
        relation: which data sets count as neighbours. `replace-one` (one record exchanged, the sizes
            public) or `add-remove` (one record more or less, with a fixed public divisor; a client whose
            data are left out uploads zero).
        unit: whose change is hidden: one `record` of one client, all records of one `person` at one client,
            or everything that one `client` holds.

    Raises:
        InvalidInput: an epsilon that is not above 0, a delta outside [0, 1), lengths that differ.

    Example:
        >>> PrivacyBudget.of(epsilon=[1.0, 2.0], delta=1e-5, clients=2).delta
        array([1.e-05, 1.e-05])
    """

    epsilon: NDArray[np.float64]
    delta: NDArray[np.float64]
    relation: Relation = "replace-one"
    unit: Unit = "record"

    def __post_init__(self):
        check.positive("epsilon", self.epsilon, remedy="ask such a client for nothing, or give it a budget")
        check.in_unit_interval(
            "delta", self.delta, closed_left=True, remedy="use a delta far below 1/records"
        )
        if np.shape(self.epsilon) != np.shape(self.delta) or np.ndim(self.epsilon) != 1:
            raise InvalidInput(
                f"epsilon and delta must be lists with one entry per client, got {np.shape(self.epsilon)} "
                f"and {np.shape(self.delta)}; PrivacyBudget.of takes one number for all"
            )
        check.one_of("relation", self.relation, RELATIONS)
        check.one_of("unit", self.unit, UNITS)

    @classmethod
    def of(
        cls, epsilon: ArrayLike, delta: ArrayLike, clients: int, relation: Relation = "replace-one",
        unit: Unit = "record",
    ) -> PrivacyBudget:  # fmt: skip
        """Budgets for `clients` clients from one number for all, or one per client."""
        epsilon = check.per_client("epsilon", epsilon, check.count("clients", clients))
        return cls(epsilon, check.per_client("delta", delta, clients), relation, unit)

    @cached_property
    def mu(self) -> NDArray[np.float64]:
        """Sensitivity over noise that Gaussian noise may spend in all, mu(epsilon_i, delta_i), shape (N,).

        Raises:
            InvalidInput: a delta of 0, for which no Gaussian noise is enough.
        """
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def clients(self) -> int:
        """Number of clients N."""
        return len(self.epsilon)
