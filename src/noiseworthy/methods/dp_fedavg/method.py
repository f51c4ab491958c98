"""DP-FedAvg of Fu et al. as a method."""

from __future__ import annotations

import numpy as np

from noiseworthy._keys import schedule_generator
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.base import Method, never, nothing_to_check
from noiseworthy.methods.conditions import check_condition
from noiseworthy.methods.dp_fedavg import axes, study, trials, wire
from noiseworthy.methods.dp_fedavg.algorithm import DPFedAvg
from noiseworthy.methods.dp_fedavg.table import FedAvgTable
from noiseworthy.methods.dp_fedavg.words import WORDS
from noiseworthy.methods.making import as_float, trainable
from noiseworthy.methods.selection import reshuffled_round_robin
from noiseworthy.plans.local_work import LocalSteps
from noiseworthy.plans.plan import Plan
from noiseworthy.tasks.base import Task


def make(plan: Plan, task: Task, seed: int) -> DPFedAvg:
    """The algorithm of a plan: its schedule drawn from `seed`, its numbers from the plan alone.

    Args:
        plan: of `dp-fedavg`, with `train` true.
        task: of the dimension that the plan was made for.
        seed: of the public schedule.

    Raises:
        InvalidInput: a plan that does not train, without step sizes or local steps, or for another dimension.
        UnsoundClaim: a clipping mode whose condition the task or the step size does not meet.

    Guarantee: the schedule asks no client more often than `plan.releases` says, and no update exceeds the
    sensitivity that the plan's noise was calibrated for.
    """
    step = trainable(plan, task)
    if not isinstance(plan.local, LocalSteps) or plan.release is None:
        raise InvalidInput("dp-fedavg needs planned local steps; plan them with methods.dp_fedavg.planner")
    problem, b = plan.problem, plan.clients_per_round
    check_condition(problem.clipping, task, step.initial, plan.local)
    return DPFedAvg(
        task=task,
        family=problem.family,
        parts=plan.parts,
        norm=problem.norm,
        clipping=problem.clipping,
        batch_size=plan.local.batch_size,
        clip_norm=as_float(problem.clip_norm),
        noise=as_float(plan.release.mechanism.size),
        scale=as_float(plan.upload_scale),
        weights=as_float(problem.n_clients / b * plan.weights),
        sizes=problem.sizes.astype(np.int32),
        local_steps=np.asarray(plan.local.steps, np.int32),
        steps=as_float(plan.local_step_sizes),
        cohorts=reshuffled_round_robin(
            problem.n_clients,
            problem.n_clients if problem.trust.secret else b,
            plan.rounds,
            schedule_generator(seed),
        ),
        secret=problem.trust.secret,
        asked_with=as_float(plan.sampling_rate),
    )


METHOD = Method(
    name="dp-fedavg", table=FedAvgTable, only=None, answer=study.answer, check=nothing_to_check,
    leaves_free=study.leaves_free, tells_clients_apart=never, takes_heterogeneity=never, by_rule=None,
    stages=(), local_step=study.local_step, make=make, wire=wire.WIRE, words=WORDS, space=trials.SPACE,
    shape=trials.SHAPE, axes=axes.AXES, for_owners=False, held_against=None, reads="", shows="",
)  # fmt: skip
METHODS = {METHOD.name: METHOD}
