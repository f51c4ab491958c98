"""What planning a study comes to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noiseworthy.plans.curves import BoundCurves, LossCourse
from noiseworthy.plans.plan import Plan
from noiseworthy.studies.public_sizes import untrained_loss
from noiseworthy.studies.tables import Study
from noiseworthy.tasks.qualities import Metric

if TYPE_CHECKING:
    from noiseworthy.trials.at_home import AtHome
    from noiseworthy.trials.what_if import WhatIf

Progress = Callable[[float], None]


@dataclass(frozen=True)
class TrialMark:
    """A trial on public data beside the curves: its x, the curve it belongs to, and its mean loss."""

    x: float
    label: str
    loss: float


@dataclass(frozen=True)
class Quality:
    """The metric that a plan was chosen by, in trials: mean, least and greatest of all of them."""

    metric: Metric
    mean: float
    least: float
    most: float


@dataclass(frozen=True)
class Foretold:
    """What trials on public data say of a plan.

    Attributes:
        loss: test loss over that of the untrained model, mean over the public data sets.
        losses: the same on each of them.
        accuracy: accuracy (R^2 of a regression), mean over them.
        accuracies: the same on each of them.
        least: least accuracy on any of them under any noise seed.
        most: greatest accuracy.
        sources: names of the public data sets.
        lost: share of the attainable gain that the plan loses on each of them.
        quality: the metric that the study names; None where that is the loss.
        weights: what the word of each source weighed.
        frontier: uploads of all clients, and the share of the gain that is lost with so many.
        home: what owners would reach at home; None of a study that delivers to others.
    """

    loss: float
    losses: tuple[float, ...]
    accuracy: float
    accuracies: tuple[float, ...]
    least: float
    most: float
    sources: tuple[str, ...]
    lost: tuple[float, ...]
    quality: Quality | None = None
    weights: tuple[float, ...] = ()
    frontier: tuple[tuple[int, float], ...] = ()
    home: AtHome | None = None


@dataclass(frozen=True)
class Decision:
    """A plan with what it rests on.

    Attributes:
        plan: the plan.
        curves: the bound that was minimised; None where everything was stated.
        trials: trial cells on public data, empty without trials.
        spread: lost gain on the proxy the choice suits least; None without trials.
        foretold: what trials say of the plan; None without trials.
        study: the study with everything decided, records treated as the plan chose; None where the plan
            changed nothing but counts.
        course: how the plan's loss fell in trials; None without trials, or where it does not train.
        what_if: what other budgets, more clients or other costs would give; None without trials.
        kept: what records say of the decision, where the plan came from a file; else None.
    """

    plan: Plan
    curves: BoundCurves | None
    trials: tuple[TrialMark, ...] = ()
    spread: float | None = None
    foretold: Foretold | None = None
    study: Study | None = None
    course: LossCourse | None = None
    what_if: WhatIf | None = None
    kept: dict[str, Any] | None = None

    def untrained(self, classes: int | None) -> float:
        """Loss of a model that knows nothing, of which trials foretell shares; 1 of numbers to predict."""
        return 1.0 if classes is None else untrained_loss(self.study and self.study.task.model, classes)
