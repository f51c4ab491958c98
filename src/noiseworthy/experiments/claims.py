"""What a claim card tells beside the plan: what was released before, and what looser counts say."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy.planning.plan import Plan
from noiseworthy.privacy.accountants import Release, spent_with_pilot

Parts = list[tuple[Release, NDArray[np.int64]]]


def claim_facts(plan: Plan) -> dict[str, Any]:
    """What a claim card tells of a plan and its other values do not.

    Returns:
        `before`: what was released before the plan was made, and the epsilon that it took; None if nothing.
        `looser`: other valid counts of the same noise, as papers use them, by name: least and greatest
        epsilon over the clients that release anything.
    """
    return {"before": _before(plan), "looser": _looser(plan)}


def _before(plan: Plan) -> dict[str, Any] | None:
    if plan.pilot is None:
        return None
    none = np.zeros(plan.problem.n_clients, np.int64)
    spent = spent_with_pilot(plan.pilot.parts, None, none, plan.budget.delta)
    return {
        "what": "rounds of training that estimate"
        if plan.pilot.rounds
        else "one upload that bought constants",
        "rounds": plan.pilot.rounds,
        "uploads": _ends(plan.pilot.uploads),
        "spent_epsilon": _ends(spent),
    }


def _looser(plan: Plan) -> dict[str, list[float]]:
    parts = [*(plan.pilot.parts if plan.pilot else ()), *_own(plan)]
    if not parts or any(release.sampling_rate < 1 for release, _ in parts):
        return {}
    if plan.problem.family == "gaussian":
        rho = np.sum([k * np.square(release.shift) / 2 for release, k in parts], axis=0)
        return _of_some("zCDP", rho + 2 * np.sqrt(rho * -np.log(plan.budget.delta)), rho)
    if plan.problem.family == "laplace":
        pure = np.sum([k * release.shift for release, k in parts], axis=0)
        return _of_some("basic composition", pure, pure) if np.any(plan.budget.delta) else {}
    return {}


def _own(plan: Plan) -> Parts:
    return [] if plan.release is None else [(plan.release, plan.releases)]


def _of_some(name: str, epsilon: NDArray[np.float64], spends: NDArray[np.float64]) -> dict[str, list[float]]:
    return {name: _ends(epsilon[spends > 0])} if np.any(spends > 0) else {}


def _ends(values: NDArray[Any]) -> list[float]:
    return [values.min().item(), values.max().item()]
