"""What clients release before the rounds of a plan, each a stage with what it is charged."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noiseworthy.errors import UnsoundClaim
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.filters import PrivacyFilter
from noiseworthy.privacy.releases import LEFT_OUT_IF_DEFAULT, Release

if TYPE_CHECKING:
    from noiseworthy.plans.plan import StepSize


@dataclass(frozen=True)
class Stage:
    """What clients release before the rounds of a plan, what it is charged, and how the plan follows from it.

    A class of stages is a rule that turns released replies into the rest of the plan. A stage that was run
    holds, or has led to, all that the rest rests on; one that is pending is run by the training, and the
    plan around it says what comes then if the replies tell nothing new.

    Attributes:
        parts: each kind of release, with how often each client makes it, shape (N,).
        budget: the whole budget, of which the plan's problem holds the rest.
    """

    parts: tuple[tuple[Release, NDArray[np.int64]], ...]
    budget: PrivacyBudget
    rule: ClassVar[str]
    """How the rest of the plan follows, in words."""
    trains: ClassVar[bool]
    """Whether rounds of training are among it."""

    @property
    def pending(self) -> bool:
        """Whether it is still to be run."""
        return False

    @property
    def uploads(self) -> NDArray[np.int64]:
        """Communications of each client, shape (N,)."""
        return self.parts[0][1]

    @property
    def rounds(self) -> int:
        """Rounds of training among it."""
        return 0

    @property
    def step(self) -> StepSize | None:
        """Step sizes of these rounds, which those of the plan go on from; None where there are none."""
        return None

    def as_dict(self) -> dict[str, Any]:
        """What a plan says of it, beside what it spends."""
        return {}


@dataclass(frozen=True)
class Pilot(Stage):
    """An upload of each client by which constants were bought while planning: they are the plan's."""

    rule: ClassVar[str] = "constants of the bound, from one noised gradient of every client"
    trains: ClassVar[bool] = False


@dataclass(frozen=True)
class BoughtRanges(Stage):
    """Noised quantiles of number columns and counts of labels, which every client answered before the plan.

    Attributes:
        found: least and greatest value of each column, by name: medians over the clients' answers.
        label_scale: root mean square of the numbers to predict that noised counts tell; None if not bought.
        label_octaves: shares of them in octaves below their range (`privacy.octaves`) that the counts tell.
        mean: of records of norm 1, noised and shrunk (`privacy.means`), which records are seen against.
        class_shares: told with it, which intercepts start at.
        label_mean: of the numbers to predict, noised, which intercepts start at; None if it was not told.
        label_noise: standard deviation of the noise in it.

    With nothing of all this it is pending: owners at the end of a network are asked for their mean, or that
    of their labels where its noise is known, once the training begins.
    """

    found: dict[str, tuple[float, float]]
    label_scale: float | None = field(default=None, metadata=LEFT_OUT_IF_DEFAULT)
    label_octaves: tuple[float, ...] = field(default=(), metadata=LEFT_OUT_IF_DEFAULT)
    mean: tuple[float, ...] = field(default=(), metadata=LEFT_OUT_IF_DEFAULT)
    class_shares: tuple[float, ...] = field(default=(), metadata=LEFT_OUT_IF_DEFAULT)
    label_mean: float | None = field(default=None, metadata=LEFT_OUT_IF_DEFAULT)
    label_noise: float = field(default=0.0, metadata=LEFT_OUT_IF_DEFAULT)
    rule: ClassVar[str] = "ranges, sizes and means, from noised answers of every client"
    trains: ClassVar[bool] = False

    @property
    def pending(self) -> bool:
        """Whether owners are still to tell a mean."""
        return not (self.found or self.mean) and self.label_scale is self.label_mean is None

    @property
    def of_labels(self) -> bool:
        """Whether it is about numbers to predict, their size or their mean."""
        return self.label_scale is not None or self.label_noise > 0

    @property
    def asked(self) -> str:
        """What owners are asked for where it is pending, by the name of their work."""
        return "label-mean" if self.label_noise else "mean"

    @property
    def words(self) -> str:
        """What was released for what, in words."""
        ranges = f"noised quantiles, which bought the range of {', '.join(self.found)}" * bool(self.found)
        size = "noised counts, which bought the size of labels" * (self.label_scale is not None)
        mean = "noised means and counts of classes, which training starts from"
        mean *= bool(self.mean or (self.pending and not self.label_noise))
        labels = "noised means of labels, which training starts from" * (self.label_noise > 0)
        return f"one round of {' and one of '.join(said for said in (ranges, size, mean, labels) if said)}"

    @cached_property
    def _remaining(self) -> PrivacyBudget:
        filled = PrivacyFilter.open(self.budget, self.parts[0][0].mechanism.family)
        for release, times in self.parts:
            filled = filled.charge(release, times)
        return filled.remaining

    def left_of(self, budget: PrivacyBudget) -> PrivacyBudget:
        """What training may spend after them.

        Args:
            budget: whole, of the training; it is the one that they were bought from.

        Raises:
            UnsoundClaim: another budget, or a training that hides whole clients, which a quantile does not.
        """
        if budget.unit != self.budget.unit:
            raise UnsoundClaim(
                "noised quantiles of a client hide one record of it, and this training hides a whole client; "
                f"state {self._stated}, or choose an algorithm whose unit is the record"
            )
        if not (np.all(budget.epsilon == self.budget.epsilon) and np.all(budget.delta == self.budget.delta)):
            raise UnsoundClaim(
                f"what clients told was bought from another budget; state {self._stated} to compare budgets"
            )
        return self._remaining

    @property
    def _stated(self) -> str:
        """What a study states that buys none of it."""
        if self.mean:
            return "[task] normalise = true"
        if self.label_mean is not None:
            return "everything under [algorithm] and clip_norm"
        return "ranges of [columns]" if self.found else "numbers like [planning] label_scale"

    def as_dict(self) -> dict[str, Any]:
        """What a plan says of them, under `bought_ranges`, `bought_label_scale` and the like."""
        ranges = {"bought_ranges": {name: list(ends) for name, ends in self.found.items()}}
        told = (ranges if self.found else {}) | {
            f"bought_{name}": size
            for name in ("label_scale", "label_mean")
            if (size := getattr(self, name)) is not None
        }
        mean = {"bought_mean": list(self.mean), "bought_class_shares": list(self.class_shares)}
        return told | (mean if self.mean else {})
