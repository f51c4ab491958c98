"""A comparison in the terms of owners: what they make at home of the plan's model and of fixed settings'."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from noiseworthy.home.owners import ALONE, BEST, CANDIDATES, SHARED, merits_at_home, overall_score
from noiseworthy.studies.at_home import counted_once, delivers_to_owners
from noiseworthy.studies.prepare import Prepared
from noiseworthy.sweeps.compare import Comparison, HomeScores, OwnersScores

PLAN, GRID = "the plan", "the best fixed setting"


def with_home(
    comparison: Comparison, prepared: Prepared, on_progress: Callable[[float], None] = lambda done: None
) -> Comparison:
    """The comparison with what owners reach alone, with each shared model, and with it tuned at home.

    The models are those of the first seed: the plan's, the best fixed setting's, and those of what people
    take without planning. Scores are of owners' own test records.

    Args:
        comparison: trained.
        prepared: the study.
        on_progress: told the share of models done.

    Returns:
        The comparison as it is, of a study that delivers to others.
    """
    if not delivers_to_owners(prepared):
        return comparison
    models = _models(comparison)
    federation, task = counted_once(*prepared.trained())

    def scores(theta: NDArray[np.floating], *names: str) -> list[float]:
        each = merits_at_home(federation, task, theta, {name: CANDIDATES[name] for name in names})
        return [overall_score(each[name]) for name in names]

    found: list[HomeScores] = []
    for name, theta in models.items():
        found.append(HomeScores(name, *scores(theta, SHARED, BEST)))
        on_progress(len(found) / len(models))
    (alone,) = scores(models[GRID], ALONE)
    return replace(comparison, home=OwnersScores(alone, tuple(found)))


def _models(comparison: Comparison) -> dict[str, NDArray[np.floating]]:
    """Parameters of the cells that were trained, by what they are called."""
    usual = {f"{one.usual.name}, {one.usual.rounds} rounds": one.cell for one in comparison.usual}
    cells = {PLAN: comparison.planned, GRID: comparison.best, **usual}
    return {name: cell.theta for name, cell in cells.items() if cell.theta is not None}
