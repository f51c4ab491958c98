"""Small records with the shapes of real ones, made by the planner itself."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest

from noiseworthy.planning.problem import Constant, Problem
from noiseworthy.planning.queries_replies import plan
from noiseworthy.planning.replies_bound import RepliesBound, theory_bound
from noiseworthy.privacy.budget import PrivacyBudget

Record = dict[str, Any]
VALUES = {
    "smoothness": 1.0, "strong_convexity": 0.1, "gradient_bound": 10.0, "initial_distance_sq": 9000.0,
    "heterogeneity": 0.5,
}  # fmt: skip
CONSTANTS = {name: Constant(value, "assumed") for name, value in VALUES.items()}
FITTED = {"gamma": 0.9, "sampling": 2.6, "rest": 1.8, "noise_weight": 50.0, "offset": 0.06}
FITTED = {name: Constant(value, "fitted to trials on wine, iris") for name, value in FITTED.items()}


def bound_of_trials(scale: float = 1.0) -> RepliesBound:
    return RepliesBound(
        gamma=0.9, sampling=2.6, rest=1.8, noise_weight=50.0 * scale, no_training=2.303, offset=0.06,
        unit="test loss, predicted from trials on public data", near_limit=0.01,
    )  # fmt: skip


def problem(n=10, size=143, p=640, epsilon: Any = 4.0, delta=1e-5, family="gaussian", clip=0.8) -> Problem:
    return Problem(np.full(n, size), p, PrivacyBudget.of(epsilon, delta, n), family, clip)


def evidence(problem: Problem, bound: RepliesBound, b: int, trials: bool) -> Record:
    t, n = np.unique(np.geomspace(1, 500, 60).round().astype(int)), problem.n_clients
    cohorts = sorted({1, max(1, round(n**0.5)), n} | ({b} - {0}))
    dots = [(t, c) for c in cohorts for t in (2, 10, 50, 200)] if trials else []
    return {
        "unit": bound.unit,
        "no_training": bound.no_training,
        "curves": [
            {"clients_per_round": c, "rounds": t.tolist(), "bound": bound.at(problem, t, c).tolist()}
            for c in cohorts
        ],
        "trials": [
            {"rounds": t, "clients_per_round": c, "loss": 1.1 * float(bound.at(problem, t, c))}
            for t, c in dots
        ],
        "spread": 0.05 if trials else None,
    }  # fmt: skip


def record_of(problem: Problem, bound: RepliesBound, constants: dict[str, Constant], **chosen: Any) -> Record:
    """A record with a plan and its evidence, without data."""
    decided = plan(problem, bound, constants, **chosen)
    made = {
        "name": "study",
        "created": "2026-11-21T10:00:00+00:00",
        "version": "0.1.0",
        "study": {
            "federation": {"sizes": problem.sizes.tolist()},
            "privacy": {"mechanism": problem.family, "epsilon": problem.budget.epsilon.tolist()},
            "algorithm": {"name": "fedsgd-dpc", "rounds": "auto", "max_rounds": 500},
        },
        "plan": decided.as_dict(),
        "federation": None,
        "evidence": evidence(problem, bound, decided.clients_per_round, trials=constants is FITTED),
        "training": None,
        "compare": None,
    }
    return json.loads(json.dumps(made))


def with_federation(record: Record, classes: int | None = 10) -> Record:
    n = len(record["plan"]["releases"])
    federation = {
        "name": "digits", "clients": [f"client {i}" for i in range(n)],
        "sizes": record["study"]["federation"]["sizes"], "classes": classes, "dimension": 640,
        "test_records": 359,
    }  # fmt: skip
    return {**record, "federation": federation}


def with_training(record: Record, seeds: int = 3) -> Record:
    """Curves that fall from 2.3 to about 0.7; every client asked as often as planned or once less."""
    plan, draw = record["plan"], np.random.default_rng(5)
    rounds = np.unique((np.linspace(0, plan["rounds"] ** 0.5, 12) ** 2).round().astype(int))
    fall = np.exp(-rounds / (0.15 * plan["rounds"]))
    ends = 0.7 + 0.05 * np.arange(seeds)[:, None]
    loss = ends + (2.303 - ends) * fall
    uploads = np.array(plan["releases"]) - draw.integers(0, 2, (seeds, len(plan["releases"])))
    paid = [row["spent_epsilon"] for row in plan["privacy"]["clients"]]
    spent = [[None if e is None else e * u / k for e, u, k in zip(paid, made, plan["releases"], strict=True)]
             for made in uploads.tolist()]  # fmt: skip
    training = {
        "seeds": list(range(seeds)), "rounds": rounds.tolist(), "loss": loss.tolist(),
        "accuracy": (1 - loss / 2.6).tolist(), "uploads": uploads.tolist(), "spent_epsilon": spent,
        "untrained_loss": 2.303, "seconds": 1.6, "assurance": "simulation",
    }  # fmt: skip
    return {**record, "training": training}


def with_comparison(record: Record, lost_gain: float | None = 0.0371, seeds: int = 3) -> Record:
    """A grid with its best cell at T = 100, b = 10, and a plan that loses the stated gain."""
    plan = record["plan"]
    noise = 0.02 * np.arange(seeds)
    grid = [(t, b) for b in (1, 5, 10) for t in (5, 20, 100, 500)]
    best = 0.6

    def cell(t: int, b: int, loss: float, planned: bool) -> Record:
        losses = loss + noise - noise.mean()
        return {"rounds": t, "clients_per_round": b, "loss": losses.tolist(),
                "accuracy": (1 - losses / 3).tolist(), "planned": planned}  # fmt: skip

    fixed = [cell(t, b, best + 0.3 * abs(np.log(t / 100)) + 0.2 / b - 0.02, False) for t, b in grid]
    planned = cell(plan["rounds"], plan["clients_per_round"], best + (lost_gain or 0) * (2.303 - best), True)
    compare = {
        "seeds": [100 + i for i in range(seeds)], "untrained_loss": 2.303, "cells": [planned, *fixed],
        "best": {"rounds": 100, "clients_per_round": 10}, "lost_gain": lost_gain,
    }  # fmt: skip
    return {**record, "compare": compare}


def full() -> Record:
    made = record_of(problem(), bound_of_trials(), FITTED)
    return with_comparison(with_training(with_federation(made)))


def plan_only() -> Record:
    laplace = problem(size=6000, p=7840, epsilon=5.0, delta=0.0, family="laplace", clip=300.0)
    return record_of(laplace, theory_bound(laplace, CONSTANTS), CONSTANTS)


def do_not_train() -> Record:
    """So little budget that the noise outweighs any gain; compared all the same."""
    tiny = problem(epsilon=0.2, delta=0.0, family="laplace")
    made = with_federation(record_of(tiny, bound_of_trials(), FITTED))
    compared = with_comparison(made, 1.0)
    compared["compare"]["cells"][0].update(
        rounds=0, clients_per_round=0, loss=[2.303] * 3, accuracy=[None] * 3
    )
    return compared


def many() -> Record:
    """500 clients with 500 budgets."""
    budgets = np.geomspace(0.5, 8.0, 500)
    crowd = problem(n=500, epsilon=budgets, delta=0.0, family="laplace", size=2000)
    made = record_of(crowd, bound_of_trials(), FITTED, rounds=120, clients_per_round=50)
    return with_training(with_federation(made), seeds=2)


def no_noise() -> Record:
    bare = problem(family="none")
    made = record_of(bare, bound_of_trials(), FITTED, rounds=50, clients_per_round=5)
    return with_comparison(with_training(with_federation(made)), -0.02)


def one_seed() -> Record:
    made = record_of(problem(n=2), bound_of_trials(), FITTED, rounds=20, clients_per_round=1)
    return with_comparison(with_training(with_federation(made, classes=None), seeds=1), 0.0, seeds=1)


def diverged() -> Record:
    """Every seed of the plan and the long settings diverged; JSON has no infinity, so None."""
    made = copy.deepcopy(full())
    for curve in made["training"]["loss"]:
        curve[-4:] = [None] * 4
    for cell in made["compare"]["cells"]:
        if cell["planned"] or cell["rounds"] == 500:
            cell["loss"] = [None] * len(cell["loss"])
    made["compare"]["lost_gain"] = None
    return made


RECORDS = {
    made.__name__: made
    for made in (full, plan_only, do_not_train, many, no_noise, one_seed, diverged)
}  # fmt: skip


@pytest.fixture(params=RECORDS)
def record(request: pytest.FixtureRequest) -> Record:
    """Each kind of record in turn."""
    return RECORDS[request.param]()


@pytest.fixture
def make_record():
    """A kind of record by its name."""
    return lambda name: RECORDS[name]()
