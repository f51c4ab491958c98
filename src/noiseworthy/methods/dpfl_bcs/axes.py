"""DPFL-BCS, and what it is held against, beside fixed settings: clients in each round, and rounds."""

from __future__ import annotations

from dataclasses import replace

from noiseworthy.methods.axes import Axes, Beside
from noiseworthy.methods.dpfl_bcs.planner import stated
from noiseworthy.methods.dpfl_bcs.search import uniform_counts
from noiseworthy.plans.plan import Plan


def place(plan: Plan) -> tuple[float, float]:
    """K and T, rounds of a first stage included."""
    return plan.clients_per_round, plan.all_rounds


def cells(beside: Beside) -> list[Plan]:
    """Cells of K clients in each of T rounds who are asked equally often, up to one: nobody is chosen."""
    plan, problem = beside.plan, beside.problem
    n, k = problem.n_clients, plan.clients_per_round
    cohorts = beside.counts("clients_per_round", sorted({max(1, k // 2), k, min(2 * k, n)}))
    made = [
        stated(problem, uniform_counts(b, t, n), b, t, beside.step)
        for t in beside.counts("rounds", [plan.all_rounds])
        for b in cohorts
        if -(-b * t // n) <= problem.most_uploads()
    ]
    own = {name: getattr(plan, name) for name in ("algorithm", "citation", "personal_step")}
    return [replace(cell, **own) for cell in made]


AXES = Axes(across="clients_per_round", series="rounds", place=place, cells=cells, papers={})
