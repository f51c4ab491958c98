"""DP-ScaffNew beside fixed settings: the probability of communication, and iterations."""

from __future__ import annotations

from noiseworthy.methods.axes import Axes, Beside, around
from noiseworthy.methods.dp_scaffnew.planner import affordable, stated
from noiseworthy.methods.dp_scaffnew.trials import coins_of
from noiseworthy.plans.local_work import Coins
from noiseworthy.plans.plan import Plan

_PROBABILITIES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)


def place(plan: Plan) -> tuple[float, float]:
    """p and T."""
    return coins_of(plan).probability, coins_of(plan).iterations


def cells(beside: Beside) -> list[Plan]:
    """Cells with the plan's seed of coins; those whose coins never fall are left out."""
    plan, problem = beside.plan, beside.problem
    coins = plan.local if isinstance(plan.local, Coins) else Coins(1, 1.0)
    planned = coins.iterations if plan.train else beside.longest
    made = [
        stated(problem, t, p, beside.step, coins.seed, coins.batch_size)
        for t in beside.counts("iterations", around(planned))
        for p in beside.values("communication_probability", _PROBABILITIES)
        if affordable(problem, t, p)
    ]
    return [cell for cell in made if cell.train]


AXES = Axes(across="communication_probability", series="iterations", place=place, cells=cells, papers={})
