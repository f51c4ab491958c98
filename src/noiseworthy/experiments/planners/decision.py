"""What planning a study comes to, and what its planners share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from noiseworthy.config import Study
from noiseworthy.errors import ConfigError
from noiseworthy.experiments.prepare import Prepared
from noiseworthy.planning.curves import BoundCurves
from noiseworthy.planning.estimation import analytic_constants, averaging_constants
from noiseworthy.planning.plan import Plan
from noiseworthy.planning.problem import ASSUMED, Constant
from noiseworthy.tasks import LinearModel
from noiseworthy.trials.what_if import WhatIf

Progress = Callable[[float], None]
NOTHING_TO_TRY = "there is nothing to plan by trial without noise; state [constants] to plan by the theory"
NEEDED = "smoothness, strong_convexity and initial_distance_sq"
"""Constants that the planners of DP-FedAvg and DP-ScaffNew cannot do without."""


@dataclass(frozen=True)
class TrialMark:
    """A trial on public data beside the curves: its x, the curve it belongs to, and its mean loss."""

    x: float
    label: str
    loss: float


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
    """

    loss: float
    losses: tuple[float, ...]
    accuracy: float
    accuracies: tuple[float, ...]
    least: float
    most: float
    sources: tuple[str, ...]
    lost: tuple[float, ...]


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
        what_if: what other budgets, more clients or other costs would give; None without trials.
        kept: what records say of the decision, where the plan came from a file; else None.
    """

    plan: Plan
    curves: BoundCurves | None
    trials: tuple[TrialMark, ...] = ()
    spread: float | None = None
    foretold: Foretold | None = None
    study: Study | None = None
    what_if: WhatIf | None = None
    kept: dict[str, Any] | None = None


T = TypeVar("T")


def given(value: T | Literal["auto"]) -> T | None:
    """What the user fixed, None where it is "auto"."""
    return None if value == "auto" else cast(T, value)


def decay(step_decay: float | str) -> float:
    """Rounds or iterations after which the step is halved."""
    return float("inf") if step_decay == "none" else float(step_decay)


def stated_constants(study: Study) -> dict[str, Constant]:
    """The constants that the user vouches for."""
    return {name: Constant(value, ASSUMED) for name, value in study.constants.assumed().items()}


def analytic(prepared: Prepared, clip_norm: float) -> dict[str, Constant]:
    """Constants of a linear classifier that follow from public bounds.

    Raises:
        ConfigError: another model. InvalidInput: no feature norm or no ridge.
    """
    federation, task = prepared.trained()
    if not isinstance(task, LinearModel):
        raise ConfigError(
            "analytic constants exist for linear models only; plan by trial or state [constants]"
        )
    return analytic_constants(task.loss, task.record_norm, task.ridge, clip_norm, federation.classes)


def averaging(prepared: Prepared, records: NDArray[np.int64], clip_norm: float) -> dict[str, Constant]:
    """Constants of a linear classifier for DP-PASGD, from public bounds and X_m records in a step.

    Raises:
        ConfigError: another model. InvalidInput: no feature norm or no ridge.
    """
    federation, task = prepared.trained()
    if not isinstance(task, LinearModel):
        raise ConfigError("analytic constants exist for linear models only; state [constants]")
    return averaging_constants(
        task.loss, task.record_norm, task.ridge, clip_norm, federation.classes, records, task.dimension
    )


def local_constants(
    prepared: Prepared, from_bounds: Callable[[], dict[str, Constant]], needed: str
) -> dict[str, Constant]:
    """Constants for the planners of local steps: stated, or analytic where the study says so.

    Args:
        prepared: the study.
        from_bounds: gives the analytic ones.
        needed: names of those that the planner cannot do without, for the error.

    Raises:
        ConfigError: no constants, or a source that these planners do not have.
    """
    study, name = prepared.study, prepared.study.algorithm.name
    source = study.constants.source
    if source in ("fitted", "bought"):
        raise ConfigError(
            f'[constants] source = "{source}" is not available for {name}; state the constants, '
            'or use source = "analytic" for a linear classifier with [task] feature_norm and ridge'
        )
    stated = stated_constants(study)
    if source == "analytic":
        return from_bounds() | stated
    if not stated:
        raise ConfigError(
            f"[constants] are missing: planning {name} needs {needed} of the loss (the README has the rest); "
            "or fix everything under [algorithm]"
        )
    return stated
