"""From a figure to its points: which settings, under which budgets, trained or taken from the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any

import numpy as np

from noiseworthy.plans.plan import StepSize
from noiseworthy.tasks import LinearModel
from noiseworthy_papers.keeping import Store
from noiseworthy_papers.laboratory import Curves, Laboratory, Training
from noiseworthy_papers.points import Point
from noiseworthy_papers.settings import Setting, algorithm_of, from_json, quantities, to_json
from noiseworthy_papers.spec import Arm, Bench, Figure, Planned, Series

Progress = Callable[[float], None]
Foretold = Callable[[float], None]
_PLAN_WORK = 3000
_USUAL_EVALUATIONS = Training._field_defaults["evaluations"]


def measure(
    figure: Figure,
    laboratory: Laboratory,
    store: Store,
    on_progress: Progress,
    on_estimate: Foretold | None = None,
) -> list[Point]:
    """Every series of every arm at every share of the records and every partition, under every budget.

    Before a network trains, `on_estimate` is told the seconds that it will take.
    """
    jobs = list(_jobs(figure))
    if on_estimate is not None:
        _foretell(jobs, laboratory, store, on_estimate)
    done, total = 0.0, sum(job.work for job in jobs)
    points: list[Point] = []
    for alpha, alike in groupby(jobs, key=lambda job: job.alpha):
        here = laboratory.dealt(alpha)
        for job in alike:
            tell = lambda part, job=job, done=done: on_progress((done + part * job.work) / total)  # noqa: E731
            points += _points(job, here, store, tell)
            tell(1.0)
            done += job.work
    return points


def _foretell(jobs: list[_Job], laboratory: Laboratory, store: Store, on_estimate: Foretold) -> None:
    """Tell the seconds of a network's trainings that are not kept yet, from a few rounds of the first."""
    stated = [(job, training) for job in jobs if (training := job.training(job.stated))]
    missing = [(job, training) for job, training in stated if _missing(job, training, laboratory, store)]
    if not missing or isinstance(laboratory.task, LinearModel):
        return
    first, training = missing[0]
    pace = laboratory.dealt(first.alpha).pace(training, first.epsilons)
    once = pace.seconds(training.setting.rounds, training.evaluations) / first.work
    on_estimate(len(missing) * pace.compiling + sum(job.work for job, _ in missing) * once)


@dataclass(frozen=True)
class _Job:
    """One series at one share of the records, under budgets that can be trained side by side."""

    arm: Arm
    series: Series
    fraction: float
    epsilons: tuple[float, ...]
    setting: Setting | None
    evaluations: int
    alpha: float | None = None

    @property
    def work(self) -> float:
        """Rough cost in full-batch gradients of a client."""
        if self.series.planner is not None:
            return 2 * _PLAN_WORK if self.series.role == "planned" else _PLAN_WORK
        return self.fraction * self.setting.work * len(self.epsilons) if self.setting else 1

    @property
    def stated(self) -> Planned:
        """The setting at the arm's clip and step; None, too, where it is yet to be planned."""
        return Planned(self.setting, self.arm.clip_norm, self.arm.step)

    def training(self, planned: Planned) -> Training | None:
        """What is trained, None if nothing is."""
        if planned.setting is None:
            return None
        printed = self.series.role == "as printed"
        return Training(
            self.arm,
            planned.setting,
            planned.clip_norm,
            planned.step,
            self.fraction,
            printed,
            self.evaluations,
        )


def _jobs(figure: Figure) -> Iterator[_Job]:
    """All jobs; those of one partition follow each other."""
    for alpha in figure.alphas or (figure.bench.alpha,):
        for arm, fraction in product(figure.arms, figure.fractions):
            for series in arm.series:
                for epsilons, setting in _alike(arm, series, fraction):
                    yield _Job(arm, series, fraction, epsilons, setting, figure.evaluations, alpha)


def _alike(arm: Arm, series: Series, fraction: float) -> Iterator[tuple[tuple[float, ...], Setting | None]]:
    """Budgets that share a setting; each its own where the setting is planned."""
    if series.setting is None:
        yield from (((epsilon,), None) for epsilon in arm.epsilons)
        return
    settings = {epsilon: series.setting(epsilon, fraction) for epsilon in arm.epsilons}
    for setting in dict.fromkeys(settings.values()):
        yield tuple(epsilon for epsilon, own in settings.items() if own == setting), setting


def _points(job: _Job, laboratory: Laboratory, store: Store, tell: Progress) -> list[Point]:
    planned = _planned(job, laboratory, store, tell)
    curves = _curves(job, laboratory, store, job.training(planned))
    return [_point(job, laboratory.bench, planned, epsilon, found) for epsilon, found in curves.items()]


def _point(job: _Job, bench: Bench, planned: Planned, epsilon: float, curves: Curves) -> Point:
    setting = planned.setting
    return Point(
        mechanism=job.arm.mechanism,
        epsilon=epsilon,
        fraction=job.fraction,
        series=job.series.label,
        role=job.series.role,
        algorithm="" if setting is None else algorithm_of(setting),
        setting=quantities(setting),
        clip_norm=planned.clip_norm,
        step_size=planned.step.initial,
        at=curves["at"],
        losses=(bench.loss.factor * np.array(curves["losses"])).tolist(),
        accuracies=curves["accuracies"],
        seconds=curves["seconds"] + planned.seconds,
        budget=float("inf") if job.arm.costs is None else job.arm.costs.budget,
        cost=_cost(job.arm, setting),
        alpha=bench.alpha,
    )


def _cost(arm: Arm, setting: Setting | None) -> float:
    """What every client pays for a setting in which all take part."""
    if arm.costs is None or setting is None:
        return 0.0
    return arm.costs.per_round * setting.rounds + arm.costs.per_step * quantities(setting)["iterations"]


def _planned(job: _Job, laboratory: Laboratory, store: Store, tell: Progress) -> Planned:
    arm, planner = job.arm, job.series.planner
    if planner is None:
        return job.stated
    (epsilon,) = job.epsilons

    def decide() -> dict[str, Any]:
        started = time.monotonic()
        found = planner(laboratory, arm, epsilon, job.fraction, tell)
        step = {"step_size": found.step.initial, "step_decay": found.step.decay_rounds}
        rest = {"clip_norm": found.clip_norm, "seconds": time.monotonic() - started}
        return {"setting": to_json(found.setting), **step, **rest}

    kept = store.get(_key(laboratory, "plan", job.series.label, arm, epsilon, job.fraction), decide)
    step = StepSize(kept["step_size"], kept["step_decay"])
    return Planned(from_json(kept["setting"]), kept["clip_norm"], step, kept["seconds"])


def _curves(
    job: _Job, laboratory: Laboratory, store: Store, training: Training | None
) -> dict[float, Curves]:
    """Curves by epsilon, from the store where they are there; the missing ones side by side."""
    if training is None:
        return {epsilon: laboratory.untrained(job.fraction) for epsilon in job.epsilons}
    keys = _keys(job, training, laboratory)
    if missing := _missing(job, training, laboratory, store):
        found = laboratory.train(training, missing)
        store.keep({keys[epsilon]: curves for epsilon, curves in found.items()})
    return {epsilon: store.content[key] for epsilon, key in keys.items()}


def _keys(job: _Job, training: Training, laboratory: Laboratory) -> dict[float, str]:
    which = _which(training)
    return {e: _key(laboratory, "run", which, job.arm, e, job.fraction) for e in job.epsilons}


def _missing(job: _Job, training: Training, laboratory: Laboratory, store: Store) -> list[float]:
    """Budgets under which a training is not kept yet."""
    keys = _keys(job, training, laboratory.dealt(job.alpha))
    return [epsilon for epsilon, key in keys.items() if key not in store.content]


def _which(training: Training) -> str:
    printed = " as printed" if training.printed else ""
    printed += f" v={training.arm.constant:g}" if training.printed and training.arm.constant != 1 else ""
    scored = "" if training.evaluations == _USUAL_EVALUATIONS else f" scored {training.evaluations} times"
    return f"{training.setting} | {training.clip_norm:.6g} {training.step}{printed}{scored}"


def _key(laboratory: Laboratory, what: str, which: str, arm: Arm, epsilon: float, fraction: float) -> str:
    """A name that says everything a measurement depends on, but the version of the code."""
    bench = laboratory.bench
    where = f"{laboratory.source} {bench.model} {bench.partition} {bench.clients} scale={laboratory.scale:g}"
    rest = (bench.records_per_client, bench.batch_size, bench.noise_of, bench.test_records)
    where += "".join(f" {value}" for value in rest if value is not None)
    where += " by device" if bench.by_device else ""
    where += "" if bench.alpha is None else f" alpha={bench.alpha:g}"
    where += "" if laboratory.least_seeds == 2 else f" seeds={len(laboratory.seeds)}"
    where += "".join(f" {name}={value}" for name, value in bench.task)
    mode = "" if arm.clipping == "A" else f" {arm.clipping}"
    how = f"{arm.mechanism} {arm.delta:g} clip={arm.clip_norm:g}{mode} {arm.step}"
    how += "" if arm.budgets is None else f" {arm.budgets}"
    if what == "plan" and arm.costs is not None:
        how += f" {arm.costs}"
    return " | ".join((what, which, where, how, f"{epsilon:g}", f"{fraction:g}"))
