"""DP-PASGD beside fixed settings: noised steps before an averaging, and rounds."""

from __future__ import annotations

import numpy as np

from noiseworthy.methods.axes import Axes, Beside, spaced
from noiseworthy.methods.dp_pasgd.planner import stated
from noiseworthy.methods.dp_pasgd.trials import work_of
from noiseworthy.plans.plan import Plan

_PERIODS = (1, 2, 5, 10, 20)
_FEWEST = 5
"""Rounds that the grid is centred on at least."""


def place(plan: Plan) -> tuple[float, float]:
    """tau and R."""
    return work_of(plan).steps, plan.rounds


def cells(beside: Beside) -> list[Plan]:
    """Cells of R rounds with tau noised steps each, those that every device can pay for."""
    plan, problem = beside.plan, beside.problem
    batch = None if plan.local is None else plan.local.batch_size
    tau = work_of(plan).steps if plan.train else 0
    longest = problem.resources.most_rounds(1) if problem.resources is not None else np.inf
    rounds = beside.counts("rounds", spaced(int(min(longest, 2 * max(plan.rounds, _FEWEST)))))
    periods = beside.counts("local_steps", sorted({*_PERIODS, tau} - {0}))
    return [
        stated(problem, r * tau, tau, beside.step, batch)
        for r in rounds
        for tau in periods
        if problem.resources is None or problem.resources.affords(r, r * tau)
    ]


AXES = Axes(across="local_steps", series="rounds", place=place, cells=cells, papers={})
