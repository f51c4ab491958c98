"""Fixed settings to hold a plan against, along the axes of its method."""

from dataclasses import replace

from noiseworthy.methods.axes import Beside, Usual
from noiseworthy.methods.registry import method
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.privacy.clipping import ClippingMode
from noiseworthy.studies.sweep_tables import CompareTable


def setting_of(plan: Plan) -> dict[str, float]:
    """Where a plan lies on the axes of its method; zeros if it does not train."""
    return method(plan.algorithm).axes.setting(plan)


def usual_of(plan: Plan, several: ClippingMode) -> list[tuple[Usual, Plan]]:
    """What people take without planning, each with the noise that it needs: all clients, own clip and step.

    Settings that some client cannot pay for are left out.

    Args:
        plan: what they stand beside.
        several: clipping mode of several local steps where the plan takes one.
    """
    axes, clients = method(plan.algorithm).axes, plan.problem.n_clients
    everybody = replace(plan, clients_per_round=clients)
    made = []
    for usual in axes.usual(plan.problem.norm):
        problem = replace(plan.problem, budget=plan.trainable, clip_norm=usual.clip_norm)
        longest = usual.rounds * usual.steps
        beside = Beside(everybody, problem, usual.step, usual.wanted(clients), longest, several)
        made += [(usual, cell) for cell in axes.cells(beside)]
    return made


def grid_of(
    plan: Plan, own_step: StepSize, table: CompareTable, longest: int, several: ClippingMode
) -> list[Plan]:
    """Fixed settings beside a plan, each with the noise that it needs and none for bought constants.

    Args:
        plan, several: as `usual_of`, which leaves out the same settings.
        own_step: its step sizes.
        table: `[compare]`.
        longest: iterations to centre the grid of a local algorithm on where the plan does not train.
    """
    clip = table.clip_norm or plan.problem.clip_norm
    step = own_step if table.step_size is None else StepSize(table.step_size, own_step.decay_rounds)
    problem = replace(plan.problem, budget=plan.trainable, clip_norm=clip)
    beside = Beside(plan, problem, step, table.wanted, longest, several)
    levers = {
        "momentum": plan.momentum, "averaging": plan.averaging, "weighting": plan.weighting,
        "steering": plan.steering,
    }  # fmt: skip
    return [replace(cell, **levers) for cell in method(plan.algorithm).axes.cells(beside)]
