"""What a method is asked when a study is planned, what it answers, and what planners share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from noiseworthy._tables import PerClient
from noiseworthy.errors import ConfigError
from noiseworthy.plans.curves import BoundCurves
from noiseworthy.plans.estimation import analytic_constants, averaging_constants
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.privacy.clipping import ClippingMode
from noiseworthy.privacy.mechanisms import Family, law_of
from noiseworthy.privacy.releases import Release
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel

NOTHING_TO_TRY = "there is nothing to plan by trial without noise; state [constants] to plan by the theory"
NEEDED = "smoothness, strong_convexity and initial_distance_sq"
"""Constants that the planners of DP-FedAvg and DP-ScaffNew cannot do without."""


class Question(Protocol):
    """A study as planners see it: public facts and what the user states. No record is among them."""

    @property
    def mechanism(self) -> Family:
        """Kind of noise."""
        ...

    @property
    def clip_norm(self) -> float | None:
        """The stated clip; None leaves it to the planner."""
        ...

    @property
    def source(self) -> str | None:
        """Where the study says that constants come from; None where it does not say."""
        ...

    @property
    def assumed(self) -> dict[str, Constant]:
        """The constants that the user vouches for."""
        ...

    @property
    def share(self) -> float:
        """Share of the budget that constants may be bought with."""
        ...

    @property
    def heterogeneity(self) -> PerClient | None:
        """How far clients' data are from the others', if that is stated."""
        ...

    @property
    def heterogeneity_spread(self) -> float | None:
        """Its standard deviation between clients, if somebody vouches for one."""
        ...

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Records of each client, shape (N,)."""
        ...

    @property
    def task(self) -> Task | None:
        """The model; None where a study has sizes alone."""
        ...

    @property
    def classes(self) -> int | None:
        """Classes of the labels; None where they are numbers, or there are no data."""
        ...

    def model(self) -> Task:
        """The model, for what needs one.

        Raises:
            ConfigError: the study names no data.
        """
        ...

    def problem(self, clip_norm: float, clipping: ClippingMode = "A") -> Problem:
        """The public facts with a clip, the budget in the unit of its clipping mode."""
        ...

    def pilot_gradients(self, problem: Problem, pilot: Release) -> NDArray[np.float64]:
        """One noised mean gradient of each client at the public start, shape (N, p), paid for by `pilot`."""
        ...


@dataclass(frozen=True)
class Answer:
    """What a method plans: the plan, and the bound that it minimised; None where all was stated."""

    plan: Plan
    curves: BoundCurves | None


T = TypeVar("T")


def given(value: T | Literal["auto"]) -> T | None:
    """What the user fixed, None where it is "auto"."""
    return None if value == "auto" else cast(T, value)


def decay(step_decay: float | str) -> float:
    """Rounds or iterations after which the step is halved."""
    return float("inf") if step_decay == "none" else float(step_decay)


def step_of(step_size: float | Literal["auto"], step_decay: float | str) -> StepSize | None:
    """The stated step; None for the schedule of the theory."""
    return None if step_size == "auto" else StepSize(float(step_size), decay(step_decay))


def batch(batch_size: int | Literal["full"]) -> int | None:
    """Records per local step, None for all of them."""
    return None if batch_size == "full" else batch_size


def clip_of(question: Question, name: str) -> float:
    """The stated clip, or the largest gradient of a linear model: a clip that changes nothing.

    Raises:
        ConfigError: a clip that is neither stated nor known.
    """
    if question.clip_norm is not None:
        return question.clip_norm
    if question.source == "analytic" and law_of(question.mechanism).norm == "l2":
        # a clip that never bites leaves the bound of the gradients themselves
        return analytic(question, 1e30)["gradient_bound"].value
    raise ConfigError(
        f'[privacy] clip_norm = "auto" needs [constants] source = "analytic" and L2 noise for {name}; '
        "state a number"
    )


def analytic(question: Question, clip_norm: float) -> dict[str, Constant]:
    """Constants of a linear classifier that follow from public bounds.

    Raises:
        ConfigError: another model. InvalidInput: no feature norm or no ridge.
    """
    task = _known_at_zero(question)
    return analytic_constants(task.loss, task.record_norm, task.ridge, clip_norm, question.classes)


def averaging(question: Question, records: NDArray[np.int64], clip_norm: float) -> dict[str, Constant]:
    """Constants of a linear classifier for DP-PASGD, from public bounds and X_m records in a step.

    Raises:
        ConfigError: another model. InvalidInput: no feature norm or no ridge.
    """
    task = _known_at_zero(question)
    return averaging_constants(
        task.loss, task.record_norm, task.ridge, clip_norm, question.classes, records, task.dimension
    )


def _known_at_zero(question: Question) -> LinearModel:
    """The linear model, if public bounds tell its constants and its loss at the start."""
    task = question.model()
    if not isinstance(task, LinearModel) or task.weighted or any(task.start):
        raise ConfigError(
            "analytic constants exist for linear models without weights that start at zero only; plan by "
            "trial, leave class_weights and class_shares out, or state [constants]"
        )
    return task


def local_constants(
    question: Question, name: str, from_bounds: Callable[[], dict[str, Constant]], needed: str
) -> dict[str, Constant]:
    """Constants for the planners of local steps: stated, or analytic where the study says so.

    Args:
        question: the study.
        name: of the method.
        from_bounds: gives the analytic ones.
        needed: names of those that the planner cannot do without, for the error.

    Raises:
        ConfigError: no constants, or a source that these planners do not have.
    """
    if question.source in ("fitted", "bought"):
        raise ConfigError(
            f'[constants] source = "{question.source}" is not available for {name}; state the constants, '
            'or use source = "analytic" for a linear classifier with [task] feature_norm and ridge'
        )
    stated = question.assumed
    if question.source == "analytic":
        return from_bounds() | stated
    if not stated:
        raise ConfigError(
            f"[constants] are missing: planning {name} needs {needed} of the loss (the README has the rest); "
            "or fix everything under [algorithm]"
        )
    return stated
