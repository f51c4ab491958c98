"""Stage 1 of DPFL-BCS as Ma et al. set it: what it tells of clients, and how far that is from the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy.methods.dpfl_bcs.bound import participation_costs
from noiseworthy.methods.dpfl_bcs.heterogeneity import as_printed
from noiseworthy.methods.dpfl_bcs.search import greedy
from noiseworthy.methods.dpfl_bcs.two_stages import replanned
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.mechanisms import Family
from noiseworthy.studies.record import estimated
from noiseworthy.studies.two_stages import Estimation, estimate
from noiseworthy_papers.keeping import Store
from noiseworthy_papers.laboratory import Laboratory, Training
from noiseworthy_papers.ma.benches import COHORT, MOMENTUM, ROUNDS, Case
from noiseworthy_papers.ma.constants import constants_of, public_curvature
from noiseworthy_papers.ma.truth import Truth, true_heterogeneity
from noiseworthy_papers.selections import BIASED, Selection

Measured = dict[str, Any]
REPEATS = 5


def measured(case: Case, mechanism: Family, laboratory: Laboratory, store: Store) -> Measured:
    """Stage 1 of every seed, from the store where it is there.

    Args:
        case: data and constants.
        mechanism: kind of noise.
        laboratory: the case's bench, opened only if something is missing.
        store: of measurements.

    Returns:
        Plain values: `told` of each seed (`studies.record.estimated`) with the `true` Gamma_n, `common` the
        F_n(w*), `excess` of each seed, by what stage 2 is decided by, and `constants` of the first seed.
    """
    bench = case.bench
    where = f"{bench.source} {bench.model} {bench.partition} {bench.alpha} {bench.clients} {bench.task}"
    which = f"{mechanism} epsilon<={case.most:g} clip={case.clip:g} {case.step} seeds={len(laboratory.seeds)}"
    truth = Truth(*map(np.array, store.get(f"truth | {where}", lambda: _truth(laboratory))))
    return store.get(f"stage 1 | {where} | {which}", lambda: _measure(case, mechanism, laboratory, truth))


def _truth(laboratory: Laboratory) -> list[list[float]]:
    return [part.tolist() for part in true_heterogeneity(laboratory.shards(1.0), laboratory.task)]


def _measure(case: Case, mechanism: Family, laboratory: Laboratory, truth: Truth) -> Measured:
    training = _training(case, mechanism)
    plans = [laboratory.plan(training, case.most, seed) for seed in laboratory.seeds]
    stages = estimate(plans, laboratory.shards(1.0), laboratory.task, laboratory.seeds)
    return {
        "told": [{**estimated(stage), "true": truth.heterogeneity.tolist()} for stage in stages],
        "common": truth.common.tolist(),
        "excess": [_excess(plan, stage, truth) for plan, stage in zip(plans, stages, strict=True)],
        "constants": constants_of(stages[0], public_curvature(laboratory.task)),
    }


def _training(case: Case, mechanism: Family) -> Training:
    """The two stages of figure 2."""
    first = case.estimating(mechanism)
    setting = Selection(BIASED, ROUNDS, COHORT, momentum=MOMENTUM, estimating=first)
    return Training(case.arm(mechanism, (case.most,), ()), setting, case.clip, case.step)


def _excess(plan: Plan, stage: Estimation, truth: Truth) -> dict[str, float]:
    """How much more J of stage 2 costs at the true Gamma_n than the best counts do, as a share.

    The counts are decided by our estimate, by the paper's, and as if clients were alike.
    """
    printed = as_printed(stage.reports, plan.problem.n_clients)
    asked = {
        "estimate": stage.plan.releases,
        "as_printed": replanned(plan, replace(stage.found, value=printed)).releases,
        "alike": plan.releases,
    }
    costs = participation_costs(
        plan.problem, plan.constants, truth.heterogeneity, plan.rounds, plan.clients_per_round
    )
    best = costs.value(greedy(costs, plan.clients_per_round * plan.rounds))
    return {name: costs.value(counts) / best - 1 for name, counts in asked.items()}


# How good estimates are -------------------------------------------------------------------------------


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's, and 0 where one of the two tells nobody apart.

    Example:
        >>> rank_correlation([1.0, 2.0, 9.0], [0.1, 0.3, 0.4]), rank_correlation([1.0, 1.0], [0.0, 2.0])
        (1.0, 0.0)
    """
    from scipy.stats import spearmanr  # here, because it takes half a second to import

    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    found = spearmanr(one, other).statistic  # pyright: ignore[reportAttributeAccessIssue]
    return round(float(found), 12)


def likeness(told: dict[str, Any], name: str) -> float:
    """Rank correlation of what is told under a name with the truth, over the clients that reported."""
    estimate, true = _reporting(told, name)
    return rank_correlation(estimate.tolist(), true.tolist())


def distance(told: dict[str, Any], name: str) -> float:
    """Root mean square error of deviations from the mean, over the clients that reported.

    A part that all share changes nothing in P1.
    """
    estimate, true = _reporting(told, name)
    return float(np.std(estimate - true))


def _reporting(told: dict[str, Any], name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    seen = np.array([raw is not None for raw in told["raw"]])
    estimate, true = (np.array(told[key], float)[seen] for key in (name, "true"))
    return estimate, true
