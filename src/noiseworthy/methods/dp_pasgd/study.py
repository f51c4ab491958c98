"""Plan DP-PASGD for a study: the averaging period and the iterations that privacy and resources allow."""

from __future__ import annotations

from noiseworthy.methods.base import LocalStep
from noiseworthy.methods.conditions import missing_convexity
from noiseworthy.methods.dp_pasgd.planner import curves, plan, stated
from noiseworthy.methods.dp_pasgd.table import AveragingTable, LossShape
from noiseworthy.methods.question import Answer, Question, averaging, batch, clip_of, given, local_constants
from noiseworthy.plans.local_work import NoisySteps
from noiseworthy.plans.plan import StepSize
from noiseworthy.tasks.linear import LinearModel

_NEEDED = "smoothness, strong_convexity, gradient_variance and initial_gap"


def answer(question: Question, table: AveragingTable) -> Answer:
    """Plan DP-PASGD; where everything is stated, take it as it is."""
    problem = question.problem(clip_of(question, table.name))
    step = None if table.step_size == "auto" else StepSize(float(table.step_size), float("inf"))
    records_per_step = batch(table.batch_size)
    k, tau = given(table.total_iterations), given(table.local_steps)
    if k and tau and step and not question.assumed:
        return Answer(stated(problem, k, tau, step, records_per_step), None)
    records = NoisySteps(1, records_per_step).records(problem.sizes)
    constants = local_constants(
        question, table.name, lambda: averaging(question, records, problem.clip_norm), _NEEDED
    )
    shape = _shape(question) if table.loss_shape == "auto" else table.loss_shape
    made = plan(
        problem, constants, step=step, batch_size=records_per_step, total_iterations=k, local_steps=tau,
        max_iterations=table.max_iterations, shape=shape,
    )  # fmt: skip
    return Answer(made, curves(problem, constants, made, k, shape=shape))


def _shape(question: Question) -> LossShape:
    """What is known of the loss: nothing without a model, or of one with several outputs."""
    task = question.task
    if not isinstance(task, LinearModel) or missing_convexity(task):
        return "general"
    return "quadratic" if task.loss == "squared" else "convex"


def leaves_free(table: AveragingTable) -> bool:
    """Whether iterations, local steps or the step size are left open."""
    return "auto" in (table.total_iterations, table.local_steps, table.step_size)


def local_step(question: Question, table: AveragingTable) -> LocalStep:
    """One step on all records or a minibatch, which never has more than a client holds."""
    return LocalStep(NoisySteps(1, batch(table.batch_size)).records(question.sizes), "A")
