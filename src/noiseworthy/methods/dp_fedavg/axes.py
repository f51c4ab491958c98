"""DP-FedAvg beside fixed settings: local steps before an upload, and iterations of all rounds together."""

from __future__ import annotations

import numpy as np

from noiseworthy.methods.axes import Axes, Beside, around
from noiseworthy.methods.dp_fedavg.planner import affordable, stated
from noiseworthy.methods.dp_fedavg.trials import steps_of
from noiseworthy.plans.local_work import divisors
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Problem


def place(plan: Plan) -> tuple[float, float]:
    """E and T."""
    return steps_of(plan), plan.rounds * steps_of(plan)


def some_divisors(number: int, most: int = 6) -> list[int]:
    """The divisors of a number, at most so many of them, evenly chosen with both ends.

    Example:
        >>> some_divisors(12), some_divisors(120)
        ([1, 2, 3, 4, 6, 12], [1, 4, 8, 15, 30, 120])
    """
    every = divisors(number)
    chosen = np.unique(np.linspace(0, len(every) - 1, min(most, len(every))).round().astype(int))
    return every[chosen].tolist()


def cells(beside: Beside) -> list[Plan]:
    """Cells of T iterations in rounds of E, with the plan's minibatches."""
    plan, problem = beside.plan, beside.problem
    b = plan.clients_per_round or problem.n_clients
    batch = None if plan.local is None else plan.local.batch_size
    planned = plan.rounds * steps_of(plan) if plan.train else beside.longest
    pairs = [
        (t, e)
        for t in beside.counts("iterations", around(planned))
        for e in beside.counts("local_steps", some_divisors(t))
        if t % e == 0
    ]

    def clipped(e: int) -> Problem:
        return problem if problem.clipping != "A" or e == 1 else problem.clipped_as(beside.several)

    return [stated(clipped(e), t, e, b, beside.step, batch) for t, e in pairs if affordable(problem, t, e, b)]


AXES = Axes(across="local_steps", series="iterations", place=place, cells=cells, papers={})
