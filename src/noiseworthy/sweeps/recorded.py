"""What comparing, trading off and contests add to the record of a run."""

from typing import Any

from noiseworthy._json import strict_json
from noiseworthy.plans.plan import Plan
from noiseworthy.sweeps.compare import Cell, Comparison, UsualCell
from noiseworthy.sweeps.contest import Contest
from noiseworthy.sweeps.contest_results import over_seeds, standings
from noiseworthy.sweeps.tradeoff import Axis, BudgetPair, Surface

Record = dict[str, Any]


def with_comparison(record: Record, comparison: Comparison, seeds: list[int]) -> Record:
    """The record with the plan beside the grid, and the lost gain."""
    cells = [(comparison.planned, True), *((cell, False) for cell in comparison.grid)]
    best = comparison.best
    compared = {
        "axes": list(best.setting),
        "seeds": list(seeds),
        "untrained_loss": comparison.untrained_loss,
        "cells": [{**cell.setting, **_outcome(cell), "planned": planned} for cell, planned in cells],
        "best": best.setting,
        "lost_gain": comparison.lost_gain,
        "search_epsilon": comparison.search_epsilon,
        "usual": [_usual(one) for one in comparison.usual],
    }
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
        "cells": [_point(point) for point in surface.points],
        "search_epsilon": surface.search_epsilon,
    }
    trusts = [{**_point(point), "trust": point.trust} for point in surface.trusts]
    return {**record, "tradeoff": strict_json(tradeoff | ({"trust": trusts} if trusts else {}))}


def with_rivals(record: Record, contest: Contest, seconds: float) -> Record:
    """The record with DPFL-BCS beside its rivals: by accuracy where labels are classes, else by loss."""
    classes = record["federation"]["classes"]
    made = standings(contest, "loss" if classes is None else "accuracy", seconds)
    return {**record, "rivals": strict_json(made)}


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


def _point(point: BudgetPair) -> Record:
    reached = {"loss": point.loss, "accuracy": point.accuracy}
    return {
        "epsilon": point.epsilon,
        "budget": point.budget,
        "own": point.own,
        "reason": point.reason or None,
        **_decided(point.plan),
        **{name: values.tolist() for name, values in reached.items()},
        **{f"mean_{name}": over_seeds(values)[0] for name, values in reached.items()},
        **{f"std_{name}": over_seeds(values)[1] for name, values in reached.items()},
    }


def _decided(plan: Plan | None) -> Record:
    """The decision for a pair of budgets, what it costs and what its bound says."""
    if plan is None:
        return {"train": False, "cost": None, "predicted": None}
    stated = plan.as_dict()
    counts = {name: stated[name] for name in _COUNTS if name in stated}
    return {name: stated[name] for name in ("train", "cost", "predicted")} | counts
