"""Replies of one clipped and noised gradient on schedules of exact counts: DPFL-BCS and its rivals.

What differs between them is who is asked how often, what a reply weighs, and what the server makes of it.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from noiseworthy._keys import schedule_generator
from noiseworthy.methods.fedsgd_dpc.algorithm import FedSGDDPC
from noiseworthy.methods.making import as_float, trainable
from noiseworthy.methods.selection import exact_counts
from noiseworthy.plans.plan import Plan
from noiseworthy.tasks.base import Task

Kind = TypeVar("Kind", bound=FedSGDDPC)


def exact_replies(
    kind: type[Kind], plan: Plan, task: Task, seed: int, weights: ArrayLike | None = None, **own: Any
) -> Kind:
    """An algorithm of one gradient per reply whose schedule has the plan's counts exactly.

    Args:
        kind: which one.
        plan, task, seed: as `fedsgd_dpc.algorithm.make`.
        weights: factor of each client's reply, shape (N,); None for 1/K, whatever clients hold.
        own: what `kind` has beside the fields of `FedSGDDPC`.

    Raises:
        InvalidInput: a plan that does not train, without step sizes, or for another dimension.

    Guarantee: the schedule asks client n exactly `plan.releases[n]` times, in different rounds.
    """
    step, problem, k = trainable(plan, task), plan.problem, plan.clients_per_round
    generator = schedule_generator(seed)
    return kind(
        task=task, family=problem.family, norm=problem.norm, sampled=problem.sampling_rate < 1,
        clip_norm=as_float(problem.clip_norm), noise=as_float(plan.noise),
        weights=as_float(np.full(problem.n_clients, 1 / k) if weights is None else weights),
        divisors=as_float(problem.sampling_rate * problem.sizes),
        sampling_rate=as_float(problem.sampling_rate), steps=as_float(step.at(np.arange(plan.rounds))),
        momentum=as_float(plan.momentum), cohorts=exact_counts(plan.releases, k, plan.rounds, generator),
        **own,
    )  # fmt: skip
