"""Plan DP-ScaffNew for a study: iterations, communication probability, and the coins that noise pays for."""

from __future__ import annotations

from noiseworthy.errors import ConfigError
from noiseworthy.methods.dp_scaffnew.bound import scaffnew_bound
from noiseworthy.methods.dp_scaffnew.planner import curves, plan, stated
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import ANALYTIC, Constant
from noiseworthy.studies.planners.decision import (
    NEEDED,
    Decision,
    analytic,
    given,
    local_constants,
)
from noiseworthy.studies.prepare import Prepared
from noiseworthy.studies.tables import ScaffNewTable


def decide(prepared: Prepared, table: ScaffNewTable) -> Decision:
    """Plan DP-ScaffNew; where everything is stated, take it as it is."""
    clip = prepared.study.privacy.clip_norm
    if clip == "auto":
        raise ConfigError('[privacy] clip_norm = "auto" is not planned for dp-scaffnew; state a number')
    problem = prepared.problem(float(clip), "D")
    step = None if table.step_size == "auto" else StepSize(float(table.step_size), float("inf"))
    batch = None if table.batch_size == "full" else int(table.batch_size)
    t, p = given(table.iterations), given(table.communication_probability)
    if t and p and step and not prepared.study.constants.assumed():
        return Decision(stated(problem, t, p, step, table.coin_seed, batch), None)
    constants = _constants(prepared)
    made = plan(
        problem,
        constants,
        rule=table.rule,
        iterations=t,
        probability=p,
        max_iterations=table.max_iterations,
        coin_seed=table.coin_seed,
        batch_size=batch,
        step=step,
    )
    return Decision(made, curves(scaffnew_bound(problem, constants), made))


def _constants(prepared: Prepared) -> dict[str, Constant]:
    """Stated or analytic constants: at the optimum a client's gradient, ridge included, is at most 2 G."""
    constants = local_constants(prepared, lambda: analytic(prepared, float("inf")), NEEDED)
    if prepared.study.constants.source == "analytic" and "optimum_gradient_sq" not in constants:
        steepest = analytic(prepared, float("inf"))["gradient_bound"].value
        value = len(prepared.sizes) * (2 * steepest) ** 2
        constants["optimum_gradient_sq"] = Constant(value, ANALYTIC)
    return constants
