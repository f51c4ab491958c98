"""Plan DPFL-BCS for a study: rounds and clients per round are stated, who is asked how often is decided."""

from __future__ import annotations

from dataclasses import replace

from noiseworthy.config import RivalTable, SelectionTable
from noiseworthy.errors import ConfigError
from noiseworthy.experiments.planners.decision import (
    Decision,
    analytic,
    decay,
    local_constants,
    stated_constants,
)
from noiseworthy.experiments.prepare import Prepared
from noiseworthy.planning import participation
from noiseworthy.planning.plan import Plan, StepSize
from noiseworthy.planning.problem import Constant, Problem

_UNSTATED = ("No heterogeneity is stated: clients are chosen as if their data were alike.",)


def decide(prepared: Prepared, table: SelectionTable) -> Decision:
    """Plan DPFL-BCS; constants are needed only for what rests on them, heterogeneity and the step sizes.

    Raises:
        ConfigError: constants or a clip that cannot be had from what the study gives.
        InvalidInput: what `participation.plan` refuses.
    """
    return Decision(replace(chosen(prepared, table), momentum=table.momentum), None)


def chosen(prepared: Prepared, table: SelectionTable | RivalTable) -> Plan:
    """Who is asked how often, by the study's budgets, sizes and heterogeneity; errors as in `decide`."""
    problem = prepared.problem(clip_of(prepared))
    stated = prepared.study.constants.heterogeneity
    return participation.plan(
        problem,
        _constants(prepared, problem),
        rounds=table.rounds,
        clients_per_round=table.clients_per_round,
        heterogeneity=stated,
        step=_step(table),
        notes=_UNSTATED if stated is None else (),
    )


def _constants(prepared: Prepared, problem: Problem) -> dict[str, Constant]:
    """Stated or analytic constants, if any."""
    study = prepared.study
    if study.constants.source is None and not stated_constants(study):
        return {}

    def from_bounds() -> dict[str, Constant]:
        """All but heterogeneity, of which no public bound tells clients apart."""
        known = analytic(prepared, problem.clip_norm)
        return {name: constant for name, constant in known.items() if name != "heterogeneity"}

    return local_constants(prepared, from_bounds, "smoothness and strong_convexity")


def _step(table: SelectionTable | RivalTable) -> StepSize | None:
    """The stated step; None for the schedule of the theory."""
    return None if table.step_size == "auto" else StepSize(float(table.step_size), decay(table.step_decay))


def clip_of(prepared: Prepared) -> float:
    """The stated clip, or the largest gradient of a linear model: a clip that changes nothing.

    Raises:
        ConfigError: a clip that is neither stated nor known.
    """
    privacy, name = prepared.study.privacy, prepared.study.algorithm.name
    if privacy.clip_norm != "auto":
        return float(privacy.clip_norm)
    if prepared.study.constants.source == "analytic" and privacy.mechanism != "laplace":
        return analytic(prepared, 1e30)["gradient_bound"].value
    raise ConfigError(
        f'[privacy] clip_norm = "auto" needs [constants] source = "analytic" and L2 noise for {name}; '
        "state a number"
    )
