"""From a figure to its points: which settings, under which budgets, trained or taken from the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from noiseworthy.experiments.papers.keeping import Store
from noiseworthy.experiments.papers.laboratory import Laboratory
from noiseworthy.experiments.papers.spec import Arm, Cell, Figure, Point, Series
from noiseworthy.planning.plan import StepSize

Progress = Callable[[float], None]
_PLAN_COST = {"planned rounds": 3000, "planned": 6000}


class Setting(NamedTuple):
    """What one training needs besides its budget, and the time its planning took."""

    cell: Cell
    clip_norm: float
    step: StepSize
    planning: float = 0.0


def measure(figure: Figure, laboratory: Laboratory, store: Store, on_progress: Progress) -> list[Point]:
    """Every series of every arm at every share of the records, under every budget."""
    jobs = list(_jobs(figure))
    ends = np.cumsum([job.work for job in jobs])
    points: list[Point] = []
    for job, end in zip(jobs, ends, strict=True):
        tell = lambda part, job=job, end=end: on_progress((end - (1 - part) * job.work) / ends[-1])  # noqa: E731
        points += _points(job, laboratory, store, tell)
        tell(1.0)
    return points


@dataclass(frozen=True)
class _Job:
    """One series at one share of the records, under budgets that can be trained side by side."""

    arm: Arm
    series: Series
    fraction: float
    epsilons: tuple[float, ...]
    cell: Cell | None

    @property
    def work(self) -> float:
        """Rough cost in client-rounds of full size."""
        if self.cell is None:
            return _PLAN_COST[self.series.role]
        return self.fraction * self.cell[0] * self.cell[1] * len(self.epsilons)


def _jobs(figure: Figure) -> Iterator[_Job]:
    for arm in figure.arms:
        for fraction in figure.fractions:
            for series in arm.series:
                yield from _jobs_of(arm, series, fraction)


def _jobs_of(arm: Arm, series: Series, fraction: float) -> Iterator[_Job]:
    if series.cell is None:
        yield from (_Job(arm, series, fraction, (epsilon,), None) for epsilon in arm.epsilons)
        return
    cells = {epsilon: series.cell(epsilon, fraction) for epsilon in arm.epsilons}
    for cell in dict.fromkeys(cells.values()):
        alike = tuple(epsilon for epsilon, own in cells.items() if own == cell)
        yield _Job(arm, series, fraction, alike, cell)


def _points(job: _Job, laboratory: Laboratory, store: Store, tell: Progress) -> list[Point]:
    arm, series = job.arm, job.series
    if job.cell is None:
        setting = _planned(job, laboratory, store, tell)
    else:
        setting = Setting(job.cell, arm.clip_norm, arm.step)
    return [
        Point(
            mechanism=arm.mechanism,
            epsilon=epsilon,
            fraction=job.fraction,
            series=series.label,
            role=series.role,
            rounds=setting.cell[0],
            clients_per_round=setting.cell[1],
            clip_norm=setting.clip_norm,
            step_size=setting.step.initial,
            at=curves["at"],
            losses=curves["losses"],
            accuracies=curves["accuracies"],
            seconds=curves["seconds"] + setting.planning,
        )
        for epsilon, curves in _curves(job, laboratory, store, setting).items()
    ]


def _planned(job: _Job, laboratory: Laboratory, store: Store, tell: Progress) -> Setting:
    arm, (epsilon,), role = job.arm, job.epsilons, job.series.role

    def make() -> dict[str, Any]:
        everything = role == "planned"
        return laboratory.plan(arm, epsilon, job.fraction, everything=everything, on_progress=tell)

    plan = store.get(_key(laboratory, "plan", role, arm, epsilon, job.fraction), make)
    step = StepSize(plan["step_size"], arm.step.decay_rounds) if plan["step_size"] else arm.step
    rounds, clients = plan["cell"]
    return Setting((rounds, clients), plan["clip_norm"], step, plan["seconds"])


def _curves(job: _Job, laboratory: Laboratory, store: Store, setting: Setting) -> dict[float, dict[str, Any]]:
    """Curves by epsilon, from the store where they are there; the missing ones side by side."""
    if not setting.cell[0]:
        return {epsilon: laboratory.untrained(job.fraction) for epsilon in job.epsilons}
    which = f"{setting.cell} | {setting.clip_norm:.6g} {setting.step}"
    keys = {e: _key(laboratory, "run", which, job.arm, e, job.fraction) for e in job.epsilons}
    missing = [epsilon for epsilon, key in keys.items() if key not in store.content]
    if missing:
        found = laboratory.train(
            job.arm, setting.cell, missing, job.fraction, setting.clip_norm, setting.step
        )
        store.keep({keys[epsilon]: curves for epsilon, curves in found.items()})
    return {epsilon: store.content[key] for epsilon, key in keys.items()}


def _key(laboratory: Laboratory, what: str, which: str, arm: Arm, epsilon: float, fraction: float) -> str:
    """A name that says everything a measurement depends on, but the version of the code."""
    bench = laboratory.bench
    where = f"{laboratory.source} {bench.model} {bench.partition} {bench.clients} scale={laboratory.scale:g}"
    how = f"{arm.mechanism} {arm.delta:g} clip={arm.clip_norm:g} {arm.step}"
    return " | ".join((what, which, where, how, f"{epsilon:g}", f"{fraction:g}"))
