"""Plan DP-PASGD for a study: the averaging period and the iterations that privacy and resources allow."""

from __future__ import annotations

from noiseworthy.errors import ConfigError
from noiseworthy.methods.conditions import missing_convexity
from noiseworthy.methods.dp_pasgd.bound import LossShape
from noiseworthy.methods.dp_pasgd.planner import curves, plan, stated
from noiseworthy.plans.local_work import NoisySteps
from noiseworthy.plans.plan import StepSize
from noiseworthy.studies.planners.decision import (
    Decision,
    analytic,
    averaging,
    given,
    local_constants,
)
from noiseworthy.studies.prepare import Prepared
from noiseworthy.studies.tables import AveragingTable
from noiseworthy.tasks import LinearModel

_NEEDED = "smoothness, strong_convexity, gradient_variance and initial_gap"


def decide(prepared: Prepared, table: AveragingTable) -> Decision:
    """Plan DP-PASGD; where everything is stated, take it as it is."""
    problem = prepared.problem(_clip(prepared))
    step = None if table.step_size == "auto" else StepSize(float(table.step_size), float("inf"))
    batch = None if table.batch_size == "full" else int(table.batch_size)
    k, tau = given(table.total_iterations), given(table.local_steps)
    if k and tau and step and not prepared.study.constants.assumed():
        return Decision(stated(problem, k, tau, step, batch), None)
    records = NoisySteps(1, batch).records(problem.sizes)
    constants = local_constants(prepared, lambda: averaging(prepared, records, problem.clip_norm), _NEEDED)
    shape = _shape(prepared) if table.loss_shape == "auto" else table.loss_shape
    made = plan(
        problem,
        constants,
        step=step,
        batch_size=batch,
        total_iterations=k,
        local_steps=tau,
        max_iterations=table.max_iterations,
        shape=shape,
    )
    return Decision(made, curves(problem, constants, made, k, shape=shape))


def _shape(prepared: Prepared) -> LossShape:
    """What is known of the loss: nothing without a model, or of one with several outputs."""
    task = prepared.task
    if not isinstance(task, LinearModel) or missing_convexity(task):
        return "general"
    return "quadratic" if task.loss == "squared" else "convex"


def _clip(prepared: Prepared) -> float:
    """The stated clip, or the largest gradient of a linear model: a clip that changes nothing."""
    clip = prepared.study.privacy.clip_norm
    if clip != "auto":
        return float(clip)
    if prepared.study.constants.source == "analytic":
        return analytic(prepared, 1e30)["gradient_bound"].value
    raise ConfigError(
        '[privacy] clip_norm = "auto" needs [constants] source = "analytic" for dp-pasgd; state a number'
    )
