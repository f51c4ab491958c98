"""Small records with the shapes of real ones, made by the planner itself."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import numpy as np
import pytest

from noiseworthy._json import strict_json
from noiseworthy.methods.dp_fedavg import planner as local_iterations
from noiseworthy.methods.dp_fedavg.bound import local_bound
from noiseworthy.methods.dp_pasgd import planner as averaging_period
from noiseworthy.methods.dp_scaffnew import planner as communication_probability
from noiseworthy.methods.dp_scaffnew.bound import scaffnew_bound
from noiseworthy.methods.dpfl_bcs import planner as participation
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.methods.fedsgd_dpc.bound import RepliesBound, theory_bound
from noiseworthy.methods.rivals import planner as rivals
from noiseworthy.plans.curves import BoundCurves
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.clipping import unit_of
from noiseworthy.studies.claims import claim_facts

Record = dict[str, Any]
EXACT = ("dpfl-bcs", *rivals.RIVALS)
"""Algorithms whose schedules ask every client exactly as often as planned."""
VALUES = {
    "smoothness": 1.0, "strong_convexity": 0.1, "gradient_bound": 10.0, "initial_distance_sq": 9000.0,
    "heterogeneity": 0.5,
}  # fmt: skip
CONSTANTS = {name: Constant(value, "assumed") for name, value in VALUES.items()}
PSI = {
    "smoothness": 1.0, "strong_convexity": 0.05, "initial_distance_sq": 4.0, "optimum_gradient_sq": 0.5,
}  # fmt: skip
DESCENT = {
    "smoothness": 1.0, "strong_convexity": 0.05, "gradient_variance": 0.05, "initial_gap": 0.6931471805599453,
}  # fmt: skip
FITTED = {"gamma": 0.9, "sampling": 2.6, "rest": 1.8, "noise_weight": 50.0, "offset": 0.06}
FITTED = {name: Constant(value, "fitted to trials on wine, iris") for name, value in FITTED.items()}


def bound_of_trials(scale: float = 1.0) -> RepliesBound:
    return RepliesBound(
        gamma=0.9, sampling=2.6, rest=1.8, noise_weight=50.0 * scale, no_training=2.303, offset=0.06,
        unit="test loss, predicted from trials on public data", near_limit=0.01,
    )  # fmt: skip


def problem(
    n=10,
    size=143,
    p=640,
    epsilon: Any = 4.0,
    delta=1e-5,
    family="gaussian",
    clip=0.8,
    clipping: Any = "A",
    resources: Resources | None = None,
) -> Problem:
    budget, sizes = PrivacyBudget.of(epsilon, delta, n, unit=unit_of(clipping)), np.broadcast_to(size, n)
    return Problem(sizes.copy(), p, budget, family, clip, clipping=clipping, resources=resources)


def evidence(made: Plan, drawn: BoundCurves, trials: bool) -> Record:
    """The curves of a planner, with trials a tenth above them."""
    dots = [
        {"x": curve.x[i], "label": curve.label, "loss": 1.1 * curve.bound[i]}
        for curve in drawn.curves if trials
        for i in np.linspace(0, len(curve.x) - 1, 4).astype(int)
    ]  # fmt: skip
    return {
        "unit": made.prediction.unit,
        "no_training": made.prediction.no_training,
        "axis": drawn.axis,
        "chosen": drawn.chosen,
        "curves": [vars(curve) for curve in drawn.curves],
        "trials": dots,
        "spread": 0.05 if trials else None,
    }


def record_of(made: Plan, drawn: BoundCurves | None = None, trials: bool = False, **study: Any) -> Record:
    """A record with a plan and its evidence, without data."""
    problem = made.problem
    record = {
        "name": "study",
        "created": "2026-11-21T10:00:00+00:00",
        "version": "0.1.0",
        "study": {
            "federation": {"sizes": problem.sizes.tolist()},
            "privacy": {"mechanism": problem.family, "epsilon": problem.budget.epsilon.tolist()},
            "algorithm": {"name": made.algorithm, **study},
        },
        "plan": made.as_dict(),
        "claim": claim_facts(made),
        "federation": None,
        "evidence": None if drawn is None else evidence(made, drawn, trials),
        "training": None,
        "compare": None,
    }
    return strict_json(record)


def of_replies(
    problem: Problem, bound: RepliesBound, constants: dict[str, Constant], **chosen: Any
) -> Record:
    """A record of FedSGD-DPC."""
    made = queries_replies.plan(problem, bound, constants, **chosen)
    drawn = queries_replies.curves(problem, bound, made, 500)
    return record_of(made, drawn, trials=constants is FITTED, rounds="auto", max_rounds=500)


def of_local_steps(problem: Problem, **chosen: Any) -> Record:
    """A record of DP-FedAvg."""
    bound = local_bound(CONSTANTS)
    made = local_iterations.plan(problem, bound, CONSTANTS, **chosen)
    return record_of(made, local_iterations.curves(problem, bound, made))


def of_coins(problem: Problem, **chosen: Any) -> Record:
    """A record of DP-ScaffNew."""
    constants = {name: Constant(value, "assumed") for name, value in PSI.items()}
    made = communication_probability.plan(problem, constants, **chosen)
    return record_of(made, communication_probability.curves(scaffnew_bound(problem, constants), made))


def of_noised_steps(problem: Problem, **chosen: Any) -> Record:
    """A record of DP-PASGD."""
    constants = {name: Constant(value, "assumed") for name, value in DESCENT.items()}
    made = averaging_period.plan(problem, constants, step=StepSize(0.05, float("inf")), **chosen)
    return record_of(made, averaging_period.curves(problem, constants, made))


def of_selection(problem: Problem, heterogeneity: list[float] | None = None, **chosen: Any) -> Record:
    """A record of DPFL-BCS."""
    constants = {name: Constant(VALUES[name], "assumed") for name in ("smoothness", "strong_convexity")}
    made = participation.plan(problem, constants, heterogeneity=heterogeneity, **chosen)
    record = record_of(made)
    if heterogeneity is not None:
        record["study"]["constants"] = {"heterogeneity": heterogeneity}
    return record


def of_rival(name: Any, problem: Problem, counts: Any = None, **chosen: Any) -> Record:
    """A record of a rival of DPFL-BCS."""
    return record_of(rivals.plan(name, problem, counts=counts, step=StepSize(0.05, 200.0), **chosen))


def with_federation(record: Record, classes: int | None = 10) -> Record:
    n = len(record["plan"]["releases"])
    federation = {
        "name": "digits", "clients": [f"client {i}" for i in range(n)],
        "sizes": record["study"]["federation"]["sizes"], "classes": classes, "dimension": 640,
        "test_records": 359,
    }  # fmt: skip
    return {**record, "federation": federation}


def with_training(record: Record, seeds: int = 3) -> Record:
    """Curves that fall from 2.3 to about 0.7; every client asked as often as planned or once less.

    Where schedules have exact counts clients are asked as often as planned.
    """
    plan, draw = record["plan"], np.random.default_rng(5)
    rounds = np.unique((np.linspace(0, plan["rounds"] ** 0.5, 12) ** 2).round().astype(int))
    fall = np.exp(-rounds / (0.15 * plan["rounds"]))
    ends = 0.7 + 0.05 * np.arange(seeds)[:, None]
    loss = ends + (2.303 - ends) * fall
    planned = [plan["rounds"]] * len(plan["releases"]) if "noised" in plan else plan["releases"]
    less = draw.integers(0, 2, (seeds, len(planned))) * (plan["algorithm"] not in EXACT)
    uploads = np.array(planned) - less
    paid = [row["spent_epsilon"] for row in plan["privacy"]["clients"]]
    spent = [[None if e is None else e * u / max(k, 1) for e, u, k in zip(paid, made, planned, strict=True)]
             for made in uploads.tolist()]  # fmt: skip
    training = {
        "seeds": list(range(seeds)), "rounds": rounds.tolist(), "loss": loss.tolist(),
        "accuracy": (1 - loss / 2.6).tolist(), "uploads": uploads.tolist(), "spent_epsilon": spent,
        "untrained_loss": 2.303, "seconds": 1.6, "assurance": "simulation",
    }  # fmt: skip
    return {**record, "training": training}


GRIDS = {
    "fedsgd-dpc": ("rounds", (5, 20, 100, 500), "clients_per_round", (1, 5, 10)),
    "dp-fedavg": ("local_steps", (1, 4, 12, 60), "iterations", (60, 120, 240)),
    "dp-scaffnew": ("communication_probability", (0.02, 0.1, 0.5, 1.0), "iterations", (20, 40, 80)),
    "dp-pasgd": ("local_steps", (1, 4, 10, 20), "rounds", (2, 5, 9)),
    **dict.fromkeys(EXACT, ("clients_per_round", (1, 5, 10, 20), "rounds", (60,))),
}
"""Axes and values of a comparison; the last but one of the first axis with the last of the second is best."""


def place_of(plan: Record) -> Record:
    """Where a plan lies on the axes of its comparison."""
    keys = GRIDS[plan["algorithm"]][::2]
    return {key: plan.get(key, plan.get(f"total_{key}")) if plan["train"] else 0 for key in keys}


def with_comparison(record: Record, lost_gain: float | None = 0.0371, seeds: int = 3) -> Record:
    """A grid with its best cell at its third column and last row, and a plan that loses the stated gain."""
    across, columns, along, rows = GRIDS[record["plan"]["algorithm"]]
    noise, best = 0.02 * np.arange(seeds), 0.6

    def cell(place: Record, loss: float, planned: bool = False) -> Record:
        losses = loss + noise - noise.mean()
        return {**place, "loss": losses.tolist(), "accuracy": (1 - losses / 3).tolist(), "planned": planned}

    fixed = [
        cell({across: x, along: y}, best + 0.3 * abs(np.log(x / columns[2])) + 0.2 * (1 - y / rows[-1]))
        for y in rows for x in columns
    ]  # fmt: skip
    planned = cell(place_of(record["plan"]), best + (lost_gain or 0) * (2.303 - best), planned=True)
    compare = {
        "axes": [across, along], "seeds": [100 + i for i in range(seeds)], "untrained_loss": 2.303,
        "cells": [planned, *fixed], "best": {across: columns[2], along: rows[-1]}, "lost_gain": lost_gain,
        "search_epsilon": 17.25 if record["plan"]["privacy"]["private"] else None,
    }  # fmt: skip
    return {**record, "compare": compare}


def full() -> Record:
    made = of_replies(problem(), bound_of_trials(), FITTED)
    return with_comparison(with_training(with_federation(made)))


def plan_only() -> Record:
    laplace = problem(size=6000, p=7840, epsilon=5.0, delta=0.0, family="laplace", clip=300.0)
    return of_replies(laplace, theory_bound(laplace, CONSTANTS), CONSTANTS)


def do_not_train() -> Record:
    """So little budget that the noise outweighs any gain; compared all the same."""
    tiny = problem(epsilon=0.2, delta=0.0, family="laplace")
    made = with_federation(of_replies(tiny, bound_of_trials(), FITTED))
    compared = with_comparison(made, 1.0)
    compared["compare"]["cells"][0].update(loss=[2.303] * 3, accuracy=[None] * 3)
    return compared


def many() -> Record:
    """500 clients with 500 budgets."""
    budgets = np.geomspace(0.5, 8.0, 500)
    crowd = problem(n=500, epsilon=budgets, delta=0.0, family="laplace", size=2000)
    made = of_replies(crowd, bound_of_trials(), FITTED, rounds=120, clients_per_round=50)
    return with_training(with_federation(made), seeds=2)


def no_noise() -> Record:
    bare = problem(family="none")
    made = of_replies(bare, bound_of_trials(), FITTED, rounds=50, clients_per_round=5)
    return with_comparison(with_training(with_federation(made)), -0.02)


def one_seed() -> Record:
    made = of_replies(problem(n=2), bound_of_trials(), FITTED, rounds=20, clients_per_round=1)
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


def local_steps() -> Record:
    """DP-FedAvg whose batch gradients are clipped: client level, noise that falls with the steps."""
    crowd = problem(n=50, size=80, p=11, epsilon=3.0, delta=0.0, family="laplace", clip=2.0, clipping="C")
    made = of_local_steps(crowd, clients_per_round=5, total_iterations=120)
    return with_comparison(with_training(with_federation(made)))


def convex_steps() -> Record:
    """DP-FedAvg whose records are clipped in every step of a convex loss: record level, planned alone."""
    return of_local_steps(problem(n=20, p=10, epsilon=2.0, clip=10.0, clipping="B"), local_steps=3)


def whole_updates() -> Record:
    """DP-FedAvg on minibatches with clipped updates, all of it stated: no evidence."""
    step = StepSize(0.5, float("inf"))
    made = local_iterations.stated(problem(clipping="D"), 120, 12, 5, step, batch_size=16)
    return with_comparison(with_training(with_federation(record_of(made))))


def coins() -> Record:
    """DP-ScaffNew, planned, trained and compared."""
    made = of_coins(problem(n=20, size=500, p=10, clip=0.1, clipping="D"))
    return with_comparison(with_training(with_federation(made)))


def no_coins() -> Record:
    """DP-ScaffNew with a budget that no iteration is worth."""
    made = with_federation(of_coins(problem(n=20, p=10, epsilon=0.05, clipping="D")))
    compared = with_comparison(made, None)
    compared["compare"]["cells"][0].update(loss=[2.303] * 3, accuracy=[None] * 3)
    return compared


def noised_steps() -> Record:
    """DP-PASGD on all records within equal resources: the worked example of the theory."""
    battery = Resources.of(100.0, 1.0, 1000.0, clients=16)
    made = of_noised_steps(problem(n=16, size=256, p=100, delta=1e-4, clip=1.0, resources=battery))
    return with_comparison(with_training(with_federation(made)))


def noised_batches() -> Record:
    """DP-PASGD on minibatches: clients that differ in size, budget, cost and battery, planned alone."""
    clients, battery = np.arange(8), Resources.of(100.0, np.linspace(1.0, 3.0, 8), 900.0, 8, "joules")
    crowd = problem(n=8, size=300 + 100 * clients, p=100, epsilon=1.0 + clients, delta=1e-4, clip=1.0,
                    resources=battery)  # fmt: skip
    return of_noised_steps(crowd, batch_size=200)


def no_noised_steps() -> Record:
    """DP-PASGD with a budget that no step is worth."""
    return of_noised_steps(problem(n=4, size=20, p=100, epsilon=0.1, delta=1e-4, clip=1.0))


def paid_replies() -> Record:
    """FedSGD-DPC with clients of different batteries, trained and compared."""
    battery = Resources.of(10.0, 0.5, np.linspace(600.0, 900.0, 10), 10, "joules")
    made = of_replies(problem(resources=battery), bound_of_trials(), FITTED)
    return with_comparison(with_training(with_federation(made)))


def paid_local_steps() -> Record:
    """DP-FedAvg that has so much traffic, in bytes."""
    traffic = Resources.of(1e6, 0.0, 4e7, 50, "bytes")
    crowd = problem(n=50, size=80, p=11, epsilon=3.0, clip=2.0, clipping="C", resources=traffic)
    made = of_local_steps(crowd, clients_per_round=5, total_iterations=120)
    return with_comparison(with_training(with_federation(made)))


def paid_coins() -> Record:
    """DP-ScaffNew that has so much time, in seconds."""
    time = Resources.of(2.5, 0.125, 100.0, 20, "seconds")
    made = of_coins(problem(n=20, size=500, p=10, clip=0.1, clipping="D", resources=time))
    return with_comparison(with_training(with_federation(made)))


def chosen_clients() -> Record:
    """DPFL-BCS with clients of many budgets and sizes, some of them never asked; trained and compared."""
    budgets, sizes = np.geomspace(0.005, 3.0, 50), 100 + 37 * np.arange(50) % 400
    crowd = problem(n=50, size=sizes, p=11, epsilon=budgets, delta=0.0, family="laplace", clip=2.0)
    made = of_selection(crowd, rounds=60, clients_per_round=20)
    return with_comparison(with_training(with_federation(made)))


def unlike_clients() -> Record:
    """DPFL-BCS with clients of one budget whose data differ, planned alone; one is never asked."""
    unlike = [0.0, 0.5, 0.0, 40.0, 0.1]
    return of_selection(problem(n=5, p=11, clip=20.0), unlike, rounds=200, clients_per_round=2)


def everybody() -> Record:
    """DPFL-BCS with nobody to choose, because all are asked in every round."""
    return of_selection(problem(n=4, size=200, epsilon=1.0 + np.arange(4)), rounds=20, clients_per_round=4)


def many_chosen() -> Record:
    """DPFL-BCS with more clients than a figure draws, all of one budget."""
    crowd = problem(n=2000, size=200 + np.arange(2000), epsilon=2.0)
    return of_selection(crowd, rounds=30, clients_per_round=100)


def weighed_replies() -> Record:
    """WeiAvg, which asks clients of many budgets alike; trained and compared."""
    crowd = problem(n=50, size=300, p=11, epsilon=np.geomspace(0.05, 3.0, 50), clip=2.0)
    made = of_rival("weiavg", crowd, rounds=60, clients_per_round=20, momentum=0.9)
    return with_comparison(with_training(with_federation(made)))


def transformed_records() -> Record:
    """PrivateFL with the clients that DPFL-BCS chooses; trained and compared."""
    crowd = problem(n=20, size=300, p=11, epsilon=np.geomspace(0.005, 3.0, 20), clip=2.0)
    counts = participation.plan(crowd, {}, rounds=60, clients_per_round=10).releases
    made = of_rival("privatefl", crowd, counts, rounds=60, clients_per_round=10)
    return with_comparison(with_training(with_federation(made)))


RECORDS = {
    made.__name__: made
    for made in (
        full, plan_only, do_not_train, many, no_noise, one_seed, diverged,
        local_steps, convex_steps, whole_updates, coins, no_coins,
        noised_steps, noised_batches, no_noised_steps, paid_replies, paid_local_steps, paid_coins,
        chosen_clients, unlike_clients, everybody, many_chosen, weighed_replies, transformed_records,
    )
}  # fmt: skip


@cache
def _made(name: str) -> Record:
    """Planned once; tests change copies."""
    return RECORDS[name]()


@pytest.fixture(params=RECORDS)
def record(request: pytest.FixtureRequest) -> Record:
    """Each kind of record in turn."""
    return copy.deepcopy(_made(request.param))


@pytest.fixture(scope="session")
def make_record():
    """A kind of record by its name."""
    return lambda name: copy.deepcopy(_made(name))


@pytest.fixture(scope="session")
def times():
    """A record, changed to one of so many times its clients."""

    def multiplied(record: Record, many: int) -> Record:
        plan, federation, training = (record[part] for part in ("plan", "federation", "training"))
        of_clients = (federation, ("clients", "sizes")), (plan["privacy"], ("clients",))
        for part, keys in ((plan, ("releases", "noise")), *of_clients):
            part.update({key: part[key] * many for key in keys})
        for key in ("uploads", "spent_epsilon"):
            training[key] = [row * many for row in training[key]]
        return record

    return multiplied
