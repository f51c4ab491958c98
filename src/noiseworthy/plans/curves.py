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
