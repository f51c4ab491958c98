"""Plan DP-ScaffNew for a study: iterations, communication probability, and the coins that noise pays for."""

from __future__ import annotations

import numpy as np

from noiseworthy.errors import ConfigError
from noiseworthy.methods.base import LocalStep
from noiseworthy.methods.dp_scaffnew.bound import scaffnew_bound
from noiseworthy.methods.dp_scaffnew.planner import curves, plan, stated
from noiseworthy.methods.dp_scaffnew.table import ScaffNewTable
from noiseworthy.methods.question import NEEDED, Answer, Question, analytic, batch, given, local_constants
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import ANALYTIC, Constant


def answer(question: Question, table: ScaffNewTable) -> Answer:
    """Plan DP-ScaffNew; where everything is stated, take it as it is."""
    if question.clip_norm is None:
        raise ConfigError('[privacy] clip_norm = "auto" is not planned for dp-scaffnew; state a number')
    problem = question.problem(question.clip_norm, "D")
    step = None if table.step_size == "auto" else StepSize(float(table.step_size), float("inf"))
    records = batch(table.batch_size)
    t, p = given(table.iterations), given(table.communication_probability)
    if t and p and step and not question.assumed:
        return Answer(stated(problem, t, p, step, table.coin_seed, records), None)
    constants = _constants(question, table.name)
    made = plan(
        problem, constants, rule=table.rule, iterations=t, probability=p,
        max_iterations=table.max_iterations, coin_seed=table.coin_seed, batch_size=records, step=step,
    )  # fmt: skip
    return Answer(made, curves(scaffnew_bound(problem, constants), made))


def _constants(question: Question, name: str) -> dict[str, Constant]:
    """Stated or analytic constants: at the optimum a client's gradient, ridge included, is at most 2 G."""
    constants = local_constants(question, name, lambda: analytic(question, float("inf")), NEEDED)
    if question.source == "analytic" and "optimum_gradient_sq" not in constants:
        steepest = analytic(question, float("inf"))["gradient_bound"].value
        value = len(question.sizes) * (2 * steepest) ** 2
        constants["optimum_gradient_sq"] = Constant(value, ANALYTIC)
    return constants


def leaves_free(table: ScaffNewTable) -> bool:
    """Whether iterations, the probability or the step size are left open."""
    return "auto" in (table.iterations, table.communication_probability, table.step_size)


def local_step(question: Question, table: ScaffNewTable) -> LocalStep:
    """One step on all records or a minibatch, not clipped: the update is."""
    records, size = question.sizes, batch(table.batch_size)
    return LocalStep(records if size is None else np.full_like(records, size), "D")
