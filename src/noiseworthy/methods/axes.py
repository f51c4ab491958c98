"""What a comparison varies of a method: two axes, where a plan lies on them, and fixed settings beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.clipping import ClippingMode
from noiseworthy.privacy.sensitivity import Norm

Wanted: TypeAlias = Mapping[str, Sequence[float] | None]
"""Values of each axis that a study states; None leaves them to the method."""


@dataclass(frozen=True)
class Beside:
    """What fixed settings are made for.

    Attributes:
        plan: what they stand beside; it may say not to train.
        problem: with the whole budget, nothing bought, and the clip of all settings.
        step: step sizes of all settings.
        wanted: values along the axes.
        longest: iterations to centre them on where the plan does not train.
        several: clipping mode of several local steps where the plan takes one.
    """

    plan: Plan
    problem: Problem
    step: StepSize
    wanted: Wanted
    longest: int
    several: ClippingMode

    def values(self, axis: str, otherwise: Sequence[float]) -> Sequence[float]:
        """Values along an axis: as stated, or others."""
        stated = self.wanted[axis]
        return otherwise if stated is None else stated

    def counts(self, axis: str, otherwise: Sequence[int]) -> list[int]:
        """The same of whole numbers."""
        return [int(value) for value in self.values(axis, otherwise)]


@dataclass(frozen=True)
class Usual:
    """A setting that people take without planning; its noise is exact for the same budget.

    Attributes:
        name: who takes it.
        rounds: in each of which all clients reply.
        clip_norm: of what is clipped.
        step: step sizes.
        steps: local steps before an upload, where the method has them.
    """

    name: str
    rounds: int
    clip_norm: float
    step: StepSize
    steps: int = 5

    def wanted(self, clients: int) -> Wanted:
        """Itself on the axes of any method."""
        return {
            "rounds": [self.rounds],
            "clients_per_round": [clients],
            "iterations": [self.rounds * self.steps],
            "local_steps": [self.steps],
            "communication_probability": [1 / self.steps],
        }


TUTORIALS = (
    *(Usual("tutorial", rounds, 1.0, StepSize(0.1, np.inf)) for rounds in (50, 100, 200)),
    Usual("tutorial, larger step", 100, 1.0, StepSize(1.0, np.inf)),
)
"""Clip 1 and step 0.1 are the defaults of Opacus' MNIST example, and of many that follow it; a step of 1 is
the server's in federated averaging."""


@dataclass(frozen=True, kw_only=True)
class Axes:
    """What a comparison varies of a method.

    Attributes:
        across: varied along a picture: a key of `[compare]`.
        series: varied from series to series: another.
        place: where a plan that trains lies on both.
        cells: fixed settings beside a plan, each with the noise that it needs; those that some client cannot
            pay for, or that would train nothing, are left out.
        papers: settings that its paper reports, by the norm that is clipped.
    """

    across: str
    series: str
    place: Callable[[Plan], tuple[float, float]]
    cells: Callable[[Beside], list[Plan]]
    papers: Mapping[Norm, Usual]

    def usual(self, norm: Norm) -> tuple[Usual, ...]:
        """What people take without planning: common defaults, and what the paper reports."""
        return (*TUTORIALS, self.papers[norm]) if norm in self.papers else TUTORIALS

    def setting(self, plan: Plan) -> dict[str, float]:
        """Where a plan lies, by axis; zeros if it does not train."""
        across, series = self.place(plan) if plan.train else (0, 0)
        return {self.across: across, self.series: series}


def spaced(most: int, points: int = 5) -> list[int]:
    """Whole numbers from 1 to `most`, about evenly in their logarithm.

    Example:
        >>> spaced(100)
        [1, 3, 10, 32, 100]
    """
    return np.unique(np.geomspace(1, most, points).round().astype(int)).tolist()


def around(planned: int) -> list[int]:
    """A number of iterations with half and twice as many.

    Example:
        >>> around(1), around(60)
        ([1, 2], [30, 60, 120])
    """
    return sorted({max(1, planned // 2), planned, 2 * planned})
