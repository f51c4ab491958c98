"""Many plans trained one after the other, each under the same seeds side by side."""

from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np
from numpy.typing import NDArray

from noiseworthy.engines.shards import Shards
from noiseworthy.methods.algorithm import Algorithm
from noiseworthy.methods.making import aligned
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import Plan
from noiseworthy.studies.training import Progress, Run, carried_out
from noiseworthy.tasks.base import Task


def carried_out_each(
    plans: Sequence[Plan],
    task: Task,
    load: Callable[[bool], Shards],
    seeds: Sequence[int],
    scored: Callable[[Plan], NDArray[np.int64]],
    on_progress: Progress = lambda done: None,
) -> Iterator[Run]:
    """All rounds of every plan; those that can share a compiled program do.

    Args:
        plans: what to do.
        task: model and loss.
        load: the federation on the device, with records condensed or whole; asked for each plan.
        seeds: one training of each plan each.
        scored: rounds of a plan's whole training to score at.
        on_progress: told the share of all local steps that is done.

    Yields:
        The trainings of a plan, in the order of the plans.
    """
    ends, alike = np.cumsum([_work(plan) for plan in plans]), _sharing(plans, task, seeds)
    for plan, algorithms, end in zip(plans, alike, ends, strict=True):

        def told(share: float, end: int = end, own: int = _work(plan)) -> None:
            on_progress(float((end - own + share * own) / ends[-1]))

        yield carried_out(plan, task, load, seeds, scored(plan), algorithms=algorithms, on_progress=told)


def _sharing(plans: Sequence[Plan], task: Task, seeds: Sequence[int]) -> list[list[Algorithm]]:
    """Algorithms of each plan, one per seed, as long as those that one program can run beside them.

    None of a plan whose first stage is still to be run: which follow, only that stage tells.
    """
    known = [not (plan.pilot and plan.pilot.pending) for plan in plans]
    made = [[make(plan, task, seed) for seed in seeds if own] for plan, own in zip(plans, known, strict=True)]
    kinds = [
        (plan.clients_per_round, jax.tree.structure(one[0])) if one else None
        for plan, one in zip(plans, made, strict=True)
    ]
    for kind in {*kinds} - {None}:
        same = [i for i, other in enumerate(kinds) if other == kind]
        longer = iter(aligned([algorithm for i in same for algorithm in made[i]]))
        for i in same:
            made[i] = [next(longer) for _ in seeds]
    return made


def _work(plan: Plan) -> int:
    """Local steps of a whole training, over all clients that are asked."""
    steps = plan.all_rounds if plan.local is None else int(plan.local.counts(plan.rounds).sum())
    return steps * plan.clients_per_round
