"""FedSGD-DPC beside fixed settings: rounds, and clients in each."""

from __future__ import annotations

import numpy as np

from noiseworthy.methods.axes import Axes, Beside, Usual
from noiseworthy.methods.fedsgd_dpc.planner import stated
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.privacy.sensitivity import Norm

_ROUNDS = (10, 20, 50, 100, 200, 500)


def place(plan: Plan) -> tuple[float, float]:
    """T and b."""
    return plan.all_rounds, plan.clients_per_round


def cells(beside: Beside) -> list[Plan]:
    """Cells of T rounds, each asking one client, half of them or all."""
    problem, n = beside.problem, beside.problem.n_clients
    some = [b for b in sorted({1, max(1, n // 2), n}) if b >= problem.trust.least_cohort]
    cohorts = beside.counts("clients_per_round", some)
    return [stated(problem, t, b, beside.step) for b in cohorts for t in _paid_rounds(beside, b)]


def _paid_rounds(beside: Beside, clients_per_round: int) -> list[int]:
    """Rounds with b clients that are paid for: of the stated ones, or of some up to the most."""
    problem = beside.problem
    paid = np.floor(problem.most_uploads() * problem.n_clients / clients_per_round)
    some = sorted({t for t in _ROUNDS if t <= paid} | {int(min(_ROUNDS[-1], paid))})
    return [t for t in beside.counts("rounds", some) if t <= paid]


_PAPERS: dict[Norm, Usual] = {
    "l1": Usual("Zhou et al., their MNIST", 100, 300.0, StepSize(0.05, 50.0)),
    "l2": Usual("Zhou et al., their MNIST", 100, 10.0, StepSize(0.05, 50.0)),
}
AXES = Axes(across="rounds", series="clients_per_round", place=place, cells=cells, papers=_PAPERS)
