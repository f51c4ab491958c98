"""DP-ScaffNew of Hou et al. as a method."""

from __future__ import annotations

import numpy as np

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.base import Method, never, nothing_to_check
from noiseworthy.methods.dp_scaffnew import axes, study, trials, wire
from noiseworthy.methods.dp_scaffnew.algorithm import DPScaffNew
from noiseworthy.methods.dp_scaffnew.table import ScaffNewTable
from noiseworthy.methods.dp_scaffnew.words import WORDS
from noiseworthy.methods.making import as_float, trainable
from noiseworthy.plans.local_work import Coins
from noiseworthy.plans.plan import Plan
from noiseworthy.tasks.base import Task


def make(plan: Plan, task: Task, seed: int) -> DPScaffNew:
    """The algorithm of a plan, with the coins that its noise was calibrated for.

    Args:
        plan: of `dp-scaffnew`, with `train` true.
        task: of the dimension that the plan was made for.
        seed: unused, because everybody takes part and the coins belong to the plan.

    Raises:
        InvalidInput: a plan that does not train, without step size or coins, or for another dimension.
    """
    step = trainable(plan, task)
    if not isinstance(plan.local, Coins) or plan.release is None:
        raise InvalidInput("dp-scaffnew needs planned coins; plan them with methods.dp_scaffnew.planner")
    problem, rounds = plan.problem, plan.rounds
    if plan.release.sharing is not None and np.ptp(plan.weights):
        raise InvalidInput("dp-scaffnew takes the mean of all updates, for which this noise is not shared")
    return DPScaffNew(
        task=task,
        family=problem.family,
        parts=plan.parts,
        norm=problem.norm,
        batch_size=plan.local.batch_size,
        clip_norm=as_float(problem.clip_norm),
        noise=as_float(plan.release.mechanism.size),
        step=as_float(step.initial),
        probability=as_float(plan.local.probability),
        counts=plan.local.counts(rounds).astype(np.int32),
        cohorts=np.tile(np.arange(problem.n_clients, dtype=np.int32), (rounds, 1)),
    )


METHOD = Method(
    name="dp-scaffnew", table=ScaffNewTable, only=None, answer=study.answer, check=nothing_to_check,
    leaves_free=study.leaves_free, tells_clients_apart=never, takes_heterogeneity=never, by_rule=None,
    stages=(), local_step=study.local_step, make=make, wire=wire.WIRE, words=WORDS, space=trials.SPACE,
    shape=trials.SHAPE, axes=axes.AXES, for_owners=False, held_against=None, reads="",
    shows="clients remember in which rounds they took part, and move by it",
)  # fmt: skip
METHODS = {METHOD.name: METHOD}
