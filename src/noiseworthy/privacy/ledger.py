"""Who has released how often: a value that refuses a client past its planned count."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy.errors import BudgetExceeded, InvalidInput


@dataclass(frozen=True)
class Ledger:
    """Uploads planned and made, per client.

    A ledger is charged before a client is asked, for a whole cohort or not at all.

    Attributes:
        planned: the number of uploads that the noise was calibrated for, shape (N,).
        used: uploads charged so far, shape (N,).

    Example:
        >>> ledger = Ledger.open([2, 1]).charge([0, 1])
        >>> ledger.remaining
        array([1, 0])
        >>> ledger.charge([1])
        Traceback (most recent call last):
        ...
        noiseworthy.errors.BudgetExceeded: client 1 has made all of its 1 planned uploads; nothing was ...
    """

    planned: NDArray[np.int64]
    used: NDArray[np.int64]

    @classmethod
    def open(cls, planned: ArrayLike) -> Ledger:
        """A ledger with nothing spent."""
        planned = check.counts("planned uploads", planned, least=0)
        return cls(planned, np.zeros_like(planned))

    @property
    def remaining(self) -> NDArray[np.int64]:
        """Uploads that each client may still make."""
        return self.planned - self.used

    def affordable(self, client: int) -> bool:
        """Whether the client may make another upload."""
        return bool(self.remaining[client] > 0)

    def charge(self, cohort: ArrayLike) -> Ledger:
        """The ledger after one upload of each client in `cohort`; checks all, then writes.

        Raises:
            BudgetExceeded: a client past its planned count, or named twice in one cohort.
            InvalidInput: a client that this ledger does not know.
        """
        return self.charge_rounds(np.asarray(cohort, dtype=np.int64)[None])

    def charge_rounds(self, cohorts: ArrayLike) -> Ledger:
        """The ledger after whole rounds, cohorts of shape (rounds, b); all of them or none.

        Raises:
            BudgetExceeded, InvalidInput: as for `charge`.
        """
        cohorts = np.asarray(cohorts, dtype=np.int64)
        unknown = cohorts[(cohorts < 0) | (cohorts >= len(self.planned))]
        if unknown.size:
            raise InvalidInput(
                f"client {unknown[0]} is not among clients 0 to {len(self.planned) - 1}; nothing was charged"
            )
        repeated = np.diff(np.sort(cohorts, axis=1), axis=1) == 0
        if np.any(repeated):
            twice = np.sort(cohorts, axis=1)[:, 1:][repeated][0]
            raise BudgetExceeded(f"client {twice} is asked twice in one round; nothing was charged")
        asked = np.bincount(cohorts.ravel(), minlength=len(self.planned))
        over = np.flatnonzero(asked > self.remaining)
        if over.size:
            raise BudgetExceeded(
                f"client {over[0]} has made all of its {self.planned[over[0]]} planned uploads; "
                "nothing was charged, plan more uploads (with more noise) before training"
            )
        return replace(self, used=self.used + asked)
