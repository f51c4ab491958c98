"""What a command leaves in its run folder: one JSON record, from which reports are made."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from noiseworthy._validate import strict_json
from noiseworthy.config import Study
from noiseworthy.data import Federation
from noiseworthy.engines.records import Trajectory
from noiseworthy.errors import DataError
from noiseworthy.experiments.planner import Decision
from noiseworthy.experiments.runner import Cell, Comparison
from noiseworthy.planning.plan import Plan
from noiseworthy.planning.problem import Problem
from noiseworthy.planning.replies_bound import RepliesBound
from noiseworthy.privacy.noise import ASSURANCE

FILE = "record.json"
_KEYS = {"name", "created", "version", "study", "plan", "federation", "evidence", "training", "compare"}
Record = dict[str, Any]


def new_record(
    study: Study, decision: Decision, federation: Federation | None, dimension: int, *, name: str
) -> Record:
    """The record of a plan: study, plan, federation and evidence; training and comparison still open."""
    record = {
        "name": name,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": version("noiseworthy"),
        "study": study.model_dump(mode="json", exclude_none=True),
        "plan": decision.plan.as_dict(),
        "federation": None if federation is None else _federation(federation, dimension),
        "evidence": _evidence(decision),
        "training": None,
        "compare": None,
    }
    return strict_json(record)


def with_training(record: Record, plan: Plan, run: Trajectory, seeds: list[int], seconds: float) -> Record:
    """The record with curves, uploads and what each client has spent by them."""
    spent = [plan.spent(uploads) for uploads in run.uploads]
    training = {
        "seeds": list(seeds),
        "rounds": run.rounds.tolist(),
        "loss": run.loss.tolist(),
        "accuracy": run.accuracy.tolist(),
        "uploads": run.uploads.tolist(),
        "spent_epsilon": [row.tolist() for row in spent],
        "untrained_loss": float(run.loss[0, 0]),
        "seconds": seconds,
        "assurance": ASSURANCE,
    }
    return {**record, "training": strict_json(training)}


def with_comparison(record: Record, comparison: Comparison, seeds: list[int]) -> Record:
    """The record with the plan beside the grid, and the lost gain."""
    cells = [(comparison.planned, True), *((cell, False) for cell in comparison.grid)]
    best = comparison.best
    compared = {
        "seeds": list(seeds),
        "untrained_loss": comparison.untrained_loss,
        "cells": [_cell(cell, planned) for cell, planned in cells],
        "best": {"rounds": best.rounds, "clients_per_round": best.clients_per_round},
        "lost_gain": comparison.lost_gain,
    }
    return {**record, "compare": strict_json(compared)}


def save_record(record: Record, folder: Path) -> Path:
    """Write `record.json`, whole or not at all.

    Raises:
        DataError: a folder that cannot be written to.
    """
    draft, text = folder / f".{FILE}", json.dumps(record, indent=1, allow_nan=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft.write_text(text)
        os.replace(draft, folder / FILE)
    except OSError as error:
        raise DataError(
            f"run folder {folder} cannot be written ({error}); choose another with --out"
        ) from None
    return folder / FILE


def load_record(folder: Path) -> Record:
    """The record of a run folder.

    Raises:
        DataError: no folder, no record, or a file that is none.
    """
    path = folder / FILE
    try:
        record = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(
            f"{path} does not exist; give a folder that train, compare or quickstart made"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is damaged ({error}); run the study again") from None
    if not isinstance(record, dict) or not record.keys() >= _KEYS:
        raise DataError(f"{path} is no record of a run; give a folder that train, compare or quickstart made")
    return record


def _federation(federation: Federation, dimension: int) -> Record:
    return {
        "name": federation.name,
        "clients": list(federation.clients),
        "sizes": federation.sizes.tolist(),
        "classes": federation.classes,
        "dimension": dimension,
        "test_records": len(federation.test_x),
    }


def _evidence(decision: Decision) -> Record:
    plan, bound = decision.plan, decision.bound
    problem, n = plan.problem, plan.problem.n_clients
    cohorts = sorted({1, max(1, round(np.sqrt(n))), n} | ({plan.clients_per_round} - {0}))
    most = max(plan.rounds, *(t.rounds for t in decision.trials), 500)
    trials = [
        {"rounds": t.rounds, "clients_per_round": max(1, round(n / (1 + t.asked * (n - 1)))), "loss": t.loss}
        for t in decision.trials
    ]
    return {
        "unit": bound.unit,
        "no_training": bound.no_training,
        "curves": [_curve(problem, bound, b, most) for b in cohorts],
        "trials": trials,
        "spread": decision.spread,
    }


def _curve(problem: Problem, bound: RepliesBound, clients_per_round: int, most: int) -> Record:
    """The bound at the ends of passes over the clients, where every reply paid for has been asked for."""
    n = problem.n_clients
    spaced = np.unique(np.geomspace(1, most, 120).round().astype(int))
    passes = np.maximum(spaced * clients_per_round // n, 1)
    rounds = np.unique(np.where(spaced * clients_per_round < n, spaced, passes * n // clients_per_round))
    values = bound.at(problem, rounds, np.full_like(rounds, clients_per_round))
    return {"clients_per_round": clients_per_round, "rounds": rounds.tolist(), "bound": values.tolist()}


def _cell(cell: Cell, planned: bool) -> Record:
    return {
        "rounds": cell.rounds,
        "clients_per_round": cell.clients_per_round,
        "loss": cell.loss.tolist(),
        "accuracy": cell.accuracy.tolist(),
        "planned": planned,
    }
