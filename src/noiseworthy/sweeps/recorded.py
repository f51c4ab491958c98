"""What comparing, trading off and contests add to the record of a run."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy._json import strict_json
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.studies.typed_parts import Quantity
from noiseworthy.sweeps.compare import Cell, Comparison, UsualCell
from noiseworthy.sweeps.contest import Condition, Contest, Entry
from noiseworthy.sweeps.tradeoff import Axis, BudgetPair, Surface

Record = dict[str, Any]


def with_comparison(record: Record, comparison: Comparison, seeds: list[int]) -> Record:
    """The record with the plan beside the grid, and the lost gain."""
    cells = [(comparison.planned, True), *((cell, False) for cell in comparison.grid)]
    best = comparison.best
    compared = {
        "axes": list(best.setting), "seeds": list(seeds), "untrained_loss": comparison.untrained_loss,
        "cells": [{**cell.setting, **_outcome(cell), "planned": planned} for cell, planned in cells],
        "best": best.setting, "lost_gain": comparison.lost_gain,
        "search_epsilon": comparison.search_epsilon, "usual": [_usual(one) for one in comparison.usual],
    }  # fmt: skip
    if comparison.home is not None:
        models = [one._asdict() for one in comparison.home.models]
        compared["home"] = {"alone": comparison.home.alone, "models": models}
    return {**record, "compare": strict_json(compared)}


def with_tradeoff(record: Record, surface: Surface) -> Record:
    """The record with every pair of budgets, what is planned for it and what that reaches."""
    tradeoff = {
        "epsilon": _axis(surface.epsilon),
        "budget": {**_axis(surface.budget), "unit": surface.unit},
        "seeds": list(surface.seeds),
        "cells": [_pair(point) for point in surface.points],
        "search_epsilon": surface.search_epsilon,
    }
    trusts = [{**_pair(point), "trust": point.trust} for point in surface.trusts]
    return {**record, "tradeoff": strict_json(tradeoff | ({"trust": trusts} if trusts else {}))}


def _outcome(cell: Cell) -> Record:
    return {"loss": cell.loss.tolist(), "accuracy": cell.accuracy.tolist()}


def _axis(axis: Axis) -> Record:
    return {"values": list(axis.values), "own": axis.own, "per_client": axis.per_client}


def _usual(one: UsualCell) -> Record:
    usual = one.usual
    stated = {"name": usual.name, "clip_norm": usual.clip_norm, "step_size": usual.step.initial}
    return {**stated, "rounds": usual.rounds, **_outcome(one.cell)}


_COUNTS = (
    "rounds", "clients_per_round", "iterations", "total_iterations", "local_steps",
    "communication_probability",
)  # fmt: skip
"""What planners decide, by the names that it has in plans."""


def _pair(point: BudgetPair) -> Record:
    return {
        "epsilon": point.epsilon, "budget": point.budget, "own": point.own, "reason": point.reason or None,
        **_decided(point.plan), **_over_seeds("loss", point.loss), **_over_seeds("accuracy", point.accuracy),
    }  # fmt: skip


def _decided(plan: Plan | None) -> Record:
    """The decision for a pair of budgets, what it costs and what its bound says."""
    if plan is None:
        return {"train": False, "cost": None, "predicted": None}
    stated = plan.as_dict()
    counts = {name: stated[name] for name in _COUNTS if name in stated}
    return {name: stated[name] for name in ("train", "cost", "predicted")} | counts


# Contests ---------------------------------------------------------------------------------------------


def with_rivals(record: Record, contest: Contest, seconds: float) -> Record:
    """The record with DPFL-BCS beside its rivals: by accuracy where labels are classes, else by loss.

    Args:
        record: of the run.
        contest: trained.
        seconds: that training took.

    Returns:
        The record with everybody's outcomes at every point, and with the gaps between DPFL-BCS and the other
        private algorithms.
    """
    quantity: Quantity = "loss" if record["federation"]["classes"] is None else "accuracy"
    own = contest.points[0]
    rivals = {
        "mechanisms": list(contest.mechanisms), "epsilon_max": own.epsilon_max, "alpha": own.alpha,
        "seeds": list(contest.seeds), "quantity": quantity, "replies": contest.replies, "seconds": seconds,
        "points": [_point(point, own, quantity) for point in contest.points],
    }  # fmt: skip
    return {**record, "rivals": strict_json(rivals)}


def gap(ours: Entry, other: Entry, quantity: Quantity) -> dict[str, float] | None:
    """By how much DPFL-BCS does better than another, seed by seed: mean and standard deviation.

    None where a training of either diverged.

    Example:
        >>> from types import SimpleNamespace as Entry
        >>> ours, other = Entry(loss=np.array([0.5, 0.75])), Entry(loss=np.array([1.0, 1.0]))
        >>> gap(ours, other, "loss")
        {'mean': 0.375, 'std': 0.125}
    """
    if not np.all(np.isfinite([ours.loss, other.loss])):
        return None
    by = other.loss - ours.loss if quantity == "loss" else ours.accuracy - other.accuracy
    return {"mean": float(by.mean()), "std": float(by.std())}


def _point(point: Condition, own: Condition, quantity: Quantity) -> Record:
    ours = point.entries[-1]
    held = law_of(point.mechanism).noisy
    return {
        "mechanism": point.mechanism, "epsilon_max": point.epsilon_max, "alpha": point.alpha,
        "own": (point.epsilon_max, point.alpha) == (own.epsilon_max, own.alpha),
        "search_epsilon": point.search_epsilon,
        "algorithms": [
            {**_entry(entry), "gap": gap(ours, entry, quantity) if held and entry is not ours else None}
            for entry in point.entries
        ],
    }  # fmt: skip


def _entry(entry: Entry) -> Record:
    return {
        "name": entry.name,
        "algorithm": entry.plan.algorithm,
        "asked": [int(entry.replies.min()), int(entry.replies.max())],
        "spent": float(entry.spent.max()),
        **_over_seeds("loss", entry.loss),
        **_over_seeds("accuracy", entry.accuracy),
        **({"home": entry.home} if entry.home else {}),
    }


def _over_seeds(name: str, values: NDArray[np.float64]) -> Record:
    """Values with mean and standard deviation, which one training that diverged leaves undefined."""
    known = values.size and np.all(np.isfinite(values))
    mean, std = (float(values.mean()), float(values.std())) if known else (None, None)
    return {name: values.tolist(), f"mean_{name}": mean, f"std_{name}": std}
