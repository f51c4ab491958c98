"""The bound as curves, for reports: what the planner minimised, along the axis that it decided."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Curve:
    """Values of a bound along one axis; `label` says what is held fixed."""

    label: str
    x: list[float]
    bound: list[float]


@dataclass(frozen=True)
class LossCourse:
    """How a test loss is predicted to fall as a plan is carried out, from the untrained model on.

    Attributes:
        rounds: 0 to the rounds of the plan.
        loss: the prediction.
        least: least on any public data set.
        most: greatest on any of them.
    """

    rounds: list[int]
    loss: list[float]
    least: list[float]
    most: list[float]


@dataclass(frozen=True)
class BoundCurves:
    """Curves of one bound on one axis.

    Attributes:
        axis: what x counts, in words, e.g. `rounds` or `local steps per reply`.
        curves: at least one; the first belongs to the plan.
        chosen: the planned x; None if the plan is not to train.
    """

    axis: str
    curves: tuple[Curve, ...]
    chosen: float | None
