"""Grids of fixed settings to hold a plan against: for each algorithm its two axes and its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from noiseworthy.methods.dp_fedavg import planner as local_iterations
from noiseworthy.methods.dp_fedavg.search import divisors
from noiseworthy.methods.dp_pasgd import planner as averaging_period
from noiseworthy.methods.dp_scaffnew import planner as communication_probability
from noiseworthy.methods.dpfl_bcs import planner as participation
from noiseworthy.methods.dpfl_bcs.search import uniform_counts
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.methods.rivals.planner import RIVALS
from noiseworthy.plans.local_work import Coins, LocalSteps, NoisySteps
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.clipping import ClippingMode
from noiseworthy.studies.tables import CompareTable

AXES = {
    "fedsgd-dpc": ("rounds", "clients_per_round"),
    "dp-fedavg": ("local_steps", "iterations"),
    "dp-scaffnew": ("communication_probability", "iterations"),
    "dp-pasgd": ("local_steps", "rounds"),
    **dict.fromkeys(["dpfl-bcs", *RIVALS], ("clients_per_round", "rounds")),
}
"""What a comparison varies: along the picture, and from series to series."""
_ROUNDS = (10, 20, 50, 100, 200, 500)
_PERIODS = (1, 2, 5, 10, 20)
_PROBABILITIES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)


def setting_of(plan: Plan) -> dict[str, float]:
    """Where a plan lies on the axes of its algorithm; zeros if it does not train."""
    across, series = AXES[plan.algorithm]
    if not plan.train:
        return {across: 0, series: 0}
    if isinstance(plan.local, Coins):
        return {across: plan.local.probability, series: plan.local.iterations}
    if isinstance(plan.local, NoisySteps):
        return {across: plan.local.steps, series: plan.rounds}
    if isinstance(plan.local, LocalSteps):
        return {across: plan.local.steps, series: plan.rounds * plan.local.steps}
    counts = {"rounds": plan.all_rounds, "clients_per_round": plan.clients_per_round}
    return {across: counts[across], series: counts[series]}


def grid_of(
    plan: Plan, own_step: StepSize, table: CompareTable, longest: int, several: ClippingMode
) -> list[Plan]:
    """Fixed settings beside a plan, each with the noise that it needs and none for bought constants.

    Settings that some client cannot pay for are left out.

    Args:
        plan: what they stand beside.
        own_step: its step sizes.
        table: `[compare]`.
        longest: iterations to centre the grid of a local algorithm on where the plan does not train.
        several: clipping mode of several local steps where the plan takes one.
    """
    cells = _cells(plan, own_step, table, longest, several)
    levers = {"momentum": plan.momentum, "averaging": plan.averaging, "weighting": plan.weighting}
    return [replace(cell, **levers) for cell in cells]


def _cells(
    plan: Plan, own_step: StepSize, table: CompareTable, longest: int, several: ClippingMode
) -> list[Plan]:
    problem = replace(plan.problem, budget=plan.budget, clip_norm=table.clip_norm or plan.problem.clip_norm)
    step = own_step if table.step_size is None else StepSize(table.step_size, own_step.decay_rounds)
    if plan.algorithm == "dp-fedavg":
        return _local_steps(plan, problem, step, table, longest, several)
    if plan.algorithm == "dp-scaffnew":
        return _coins(plan, problem, step, table, longest)
    if plan.algorithm == "dp-pasgd":
        return _periods(plan, problem, step, table)
    if plan.algorithm == "dpfl-bcs" or plan.algorithm in RIVALS:
        return _alike(plan, problem, step, table)
    n = problem.n_clients
    cohorts = sorted({1, max(1, n // 2), n}) if table.clients_per_round == "auto" else table.clients_per_round
    return [
        queries_replies.stated(problem, t, b, step) for b in cohorts for t in _paid_rounds(problem, table, b)
    ]


def _paid_rounds(problem: Problem, table: CompareTable, clients_per_round: int) -> list[int]:
    """Rounds with b clients that are paid for: of the stated ones, or of some up to the most."""
    paid = np.floor(problem.most_uploads() * problem.n_clients / clients_per_round)
    if table.rounds != "auto":
        return [t for t in table.rounds if t <= paid]
    return sorted({t for t in _ROUNDS if t <= paid} | {int(min(_ROUNDS[-1], paid))})


def some_divisors(number: int, most: int = 6) -> list[int]:
    """The divisors of a number, at most so many of them, evenly chosen with both ends.

    Example:
        >>> some_divisors(12), some_divisors(120)
        ([1, 2, 3, 4, 6, 12], [1, 4, 8, 15, 30, 120])
    """
    every = divisors(number)
    chosen = np.unique(np.linspace(0, len(every) - 1, min(most, len(every))).round().astype(int))
    return every[chosen].tolist()


def _local_steps(
    plan: Plan, problem: Problem, step: StepSize, table: CompareTable, longest: int, several: ClippingMode
) -> list[Plan]:
    planned = setting_of(plan)
    b = plan.clients_per_round or problem.n_clients
    batch = plan.local.batch_size if isinstance(plan.local, LocalSteps) else None
    cells = [
        (t, e)
        for t in _iterations(table, int(planned["iterations"]) or longest)
        for e in (some_divisors(t) if table.local_steps == "auto" else table.local_steps)
        if t % e == 0
    ]

    def clipped(e: int) -> Problem:
        return problem if problem.clipping != "A" or e == 1 else problem.clipped_as(several)

    return [
        local_iterations.stated(clipped(e), t, e, b, step, batch)
        for t, e in cells
        if local_iterations.affordable(problem, t, e, b)
    ]


def _coins(plan: Plan, problem: Problem, step: StepSize, table: CompareTable, longest: int) -> list[Plan]:
    """Cells whose coins never fall for communication are left out: nothing would be trained."""
    planned = setting_of(plan)
    coins = plan.local if isinstance(plan.local, Coins) else Coins(1, 1.0)
    probabilities = table.communication_probability
    chosen: Sequence[float] = _PROBABILITIES if probabilities == "auto" else probabilities
    cells = [
        communication_probability.stated(problem, t, p, step, coins.seed, coins.batch_size)
        for t in _iterations(table, int(planned["iterations"]) or longest)
        for p in chosen
        if communication_probability.affordable(problem, t, p)
    ]
    return [cell for cell in cells if cell.train]


def _periods(plan: Plan, problem: Problem, step: StepSize, table: CompareTable) -> list[Plan]:
    """Cells of R rounds with tau noised steps each, those that every device can pay for."""
    planned, batch = setting_of(plan), plan.local.batch_size if plan.local is not None else None
    longest = problem.resources.most_rounds(1) if problem.resources is not None else np.inf
    around = 2 * max(int(planned["rounds"]), 5)
    rounds = _spaced(int(min(longest, around))) if table.rounds == "auto" else table.rounds
    periods = (
        sorted({*_PERIODS, int(planned["local_steps"])} - {0})
        if table.local_steps == "auto"
        else table.local_steps
    )
    return [
        averaging_period.stated(problem, r * tau, tau, step, batch)
        for r in rounds
        for tau in periods
        if problem.resources is None or problem.resources.affords(r, r * tau)
    ]


def _alike(plan: Plan, problem: Problem, step: StepSize, table: CompareTable) -> list[Plan]:
    """Cells of K clients in each of T rounds who are asked equally often, up to one: nobody is chosen."""
    n, k = problem.n_clients, plan.clients_per_round
    around = {max(1, k // 2), k, min(2 * k, n)}
    cohorts = sorted(around) if table.clients_per_round == "auto" else table.clients_per_round
    rounds = [plan.all_rounds] if table.rounds == "auto" else table.rounds
    cells = [
        participation.stated(problem, uniform_counts(b, t, n), b, t, step)
        for t in rounds
        for b in cohorts
        if -(-b * t // n) <= problem.most_uploads()
    ]
    own = {name: getattr(plan, name) for name in ("algorithm", "citation", "personal_step")}
    return [replace(cell, **own) for cell in cells]


def _spaced(most: int, points: int = 5) -> list[int]:
    """Whole numbers from 1 to `most`, about evenly in their logarithm."""
    return np.unique(np.geomspace(1, most, points).round().astype(int)).tolist()


def _iterations(table: CompareTable, planned: int) -> list[int]:
    """The stated iterations, or the planned ones with half and twice as many."""
    if table.iterations != "auto":
        return list(table.iterations)
    return sorted({max(1, planned // 2), planned, 2 * planned})
