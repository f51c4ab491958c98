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


class _ProblemOf(Protocol):
    def __call__(self, clip_norm: float, clipping: ClippingMode = "A") -> Problem: ...


@dataclass(frozen=True, kw_only=True)
class Question:
    """A study as planners see it: public facts and what the user states. No record is among them.

    What may fail where the study does not have it is asked for when it is needed, by a call.

    Attributes:
        mechanism: kind of noise.
        clip_norm: the stated clip; None leaves it to the planner.
        source: where the study says that constants come from; None where it does not say.
        assumed: the constants that the user vouches for.
        share: of the budget that constants may be bought with.
        heterogeneity: gives how far clients' data are from the others', if that is stated.
        heterogeneity_spread: its standard deviation between clients, if somebody vouches for one.
        sizes: records of each client, shape (N,).
        task: the model; None where a study has sizes alone.
        classes: of the labels; None where they are numbers, or there are no data.
        model: gives the model, for what needs one; ConfigError where the study names no data.
        problem: gives the public facts with a clip, the budget in the unit of its clipping mode.
        pilot_gradients: gives one noised mean gradient of each client at the public start, shape (N, p), of a
            problem, paid for by a release.
    """

    mechanism: Family
    clip_norm: float | None
    source: str | None
    assumed: dict[str, Constant]
    share: float
    heterogeneity: Callable[[], PerClient | None]
    heterogeneity_spread: float | None
    sizes: NDArray[np.int64]
    task: Task | None
    classes: int | None
    model: Callable[[], Task]
    problem: _ProblemOf
    pilot_gradients: Callable[[Problem, Release], NDArray[np.float64]]


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
