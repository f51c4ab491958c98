"""One upload beside a fixed setting: of all clients in one round, with a ridge as large as the noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from noiseworthy.methods.axes import Axes, Beside
from noiseworthy.plans.plan import Plan, StepSize


def place(plan: Plan) -> tuple[float, float]:
    """One round of all clients."""
    return plan.rounds, plan.clients_per_round


def cells(beside: Beside) -> list[Plan]:
    """The setting that nobody planned: a whole step, and a ridge of the norm of the noise.

    There are no other rounds and clients than one of all.
    """
    plan, n = beside.plan, beside.problem.n_clients
    stated = beside.counts("rounds", [1]), beside.counts("clients_per_round", [n])
    if plan.moments is None or 1 not in stated[0] or n not in stated[1]:
        return []
    problem, once = beside.problem.clipped_as("M"), np.ones(n, np.int64)
    made = replace(
        plan, problem=problem, rounds=1, clients_per_round=n, releases=once, release=problem.release(once),
        prediction=None, outcome="Train on one upload with a ridge as large as the noise.",
        step=StepSize(1.0, np.inf), pilot=None, moments=replace(plan.moments, shrinkage=1.0),
    )  # fmt: skip
    return [made.weighed(plan.weighting)]


AXES = Axes(across="rounds", series="clients_per_round", place=place, cells=cells, papers={})
