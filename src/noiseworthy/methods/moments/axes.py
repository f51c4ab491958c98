"""One upload beside fixed settings: of all clients there is one, with a ridge as large as the noise."""

from __future__ import annotations

from noiseworthy.methods.axes import Axes, Beside
from noiseworthy.plans.plan import Plan


def place(plan: Plan) -> tuple[float, float]:
    """One round of all clients."""
    return plan.rounds, plan.clients_per_round


def cells(beside: Beside) -> list[Plan]:
    """None: nothing but the ridge is left to vary."""
    return []


AXES = Axes(across="rounds", series="clients_per_round", place=place, cells=cells, papers={})
