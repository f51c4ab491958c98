"""Trials around a plan that tell how its loss depends on counts and on noise."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.methods.space import GradientScale, Setting
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Problem
from noiseworthy.tasks.base import Task
from noiseworthy.trials.bench import Bench, Candidate
from noiseworthy.trials.courses import LAST, courses
from noiseworthy.trials.deadline import Deadline
from noiseworthy.trials.proxies import on_each
from noiseworthy.trials.spaces import Space

PASSES = (1 / 3, 3.0, 0.1)
"""Replies of each client beside the plan's own, times these; together, as they share programs."""
WORK = (1.0, 0.5, 2.0)
"""Local steps, or probability of communication, times the plan's; tried at its own passes."""
REACHES = {0.25: (0.25, 0.5, 1.0), 1.0: (0.5, 1.0), 4.0: (1.0, 2.0, 4.0)}
"""Budgets, times the plan's, with the reaches worth trying under each: eight trainings for one program."""
PASSES_OF_IMAGES = (1 / 3, 0.1)
REACHES_OF_NETWORKS = {0.25: (0.5,), 1.0: (1.0,), 4.0: (2.0,)}
"""The same of images and of networks, of which a training takes longer than its program does to compile."""
MARKS = np.square(np.linspace(0, 1, 13))
"""Shares of the rounds after which trials of as many passes as the plan's are scored, densest at first."""


@dataclass(frozen=True)
class TrialPoint:
    """What trials found for some counts under some budget, with the step size that suits both best.

    Attributes:
        plan: for the private federation.
        factor: of every epsilon, 1 for the budget of the study.
        loss: over the untrained one, mean over proxies and seeds.
        accuracy: (R^2 of a regression), mean over proxies and seeds.
        course: of a trial with the plan's own passes, its loss on each proxy after `MARKS` of its rounds,
            mean over seeds, shape (proxies, marks); None of other trials.
    """

    plan: Plan
    factor: float
    loss: float
    accuracy: float
    course: NDArray[np.float64] | None = None


class _Cell(NamedTuple):
    setting: Setting
    factor: float


def landscape(
    bench: Bench,
    space: Space,
    winner: Candidate,
    seeds: Sequence[int],
    on_progress: Callable[[float], None] = lambda done: None,
    deadline: Deadline | None = None,
) -> list[TrialPoint]:
    """Trials around the winner of a race: other counts and other budgets, each with its best reach.

    Clip, treatment and levers are the winner's.

    Args:
        bench: the proxies.
        space: what was free in the race; counts that it fixes stay.
        winner: of the race.
        seeds: noise seeds that the race has not seen.
        on_progress: told the share of the work that is done.
        deadline: after which the plan's own counts are all that is tried.

    Returns:
        A point for each pair of counts and budget that resources, schedules and proofs allow, under one
        clipping mode.
    """
    deadline, points = deadline or Deadline(), []
    rows = bench.linear and len(bench.facts.record_shape) == 1
    others, reaches = PASSES if rows else PASSES_OF_IMAGES, REACHES if bench.linear else REACHES_OF_NETWORKS
    for done, (several, marks) in enumerate((((1.0,), MARKS), (others, LAST)), start=1):
        cells = [cell for passes in several for cell in _cells(space, winner.setting, passes, reaches)]
        points += _points(bench, space, winner, cells, seeds, marks)
        on_progress(done / 2)
        if deadline.passed:
            break
    # the first is the winner's: noise under another clipping mode is another matter
    modes = [point.plan.problem.clipping for point in points]
    return _distinct([point for point, mode in zip(points, modes, strict=True) if mode == modes[0]])


def scaled(problem: Problem, factor: float) -> Problem:
    """The problem with every epsilon times a factor."""
    return replace(problem, budget=replace(problem.budget, epsilon=problem.budget.epsilon * factor))


def _cells(
    space: Space, setting: Setting, passes: float, reaches: Mapping[float, tuple[float, ...]]
) -> Iterator[_Cell]:
    fixed = space.one_gradient or space.work is not None or passes != 1
    for work in (1.0,) if fixed else WORK:
        counts = replace(setting, passes=setting.passes * passes, work=setting.work * work)
        for factor, several in reaches.items():
            for reach in several if space.step_size is None else (1.0,):
                yield _Cell(replace(counts, reach=setting.reach * reach), factor)


def _points(
    bench: Bench, space: Space, winner: Candidate, cells: Sequence[_Cell], seeds: Sequence[int],
    marks: NDArray[np.float64],
) -> list[TrialPoint]:  # fmt: skip
    """The points of some cells; of those that share counts and budget the one of least loss."""
    kind, facts = winner.treatment, bench.facts.paying(winner.treatment)
    task = facts.make_task(facts.record_shape, facts.classes, kind)
    problem, scale = replace(facts.problem, dimension=task.dimension), bench.scale(kind, task)
    asked = [(cell, plan) for cell in cells if (plan := _plan(space, problem, task, scale, cell))]
    proxies, alike = bench.proxies(kind), bench.alike(space, kind)

    def on(group: list[int]) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        first = proxies[group[0]]
        scale, few = bench.scale(kind, first.task), space.among(first.problem.n_clients, problem.n_clients)
        plans = [_plan(few, first.problem, first.task, scale, cell) for cell, _ in asked]
        return courses([proxies[j] for j in group], plans, seeds, marks)

    every = [one for few in on_each(alike, on) for one in few]
    order = np.argsort([j for group in alike for j in group])
    losses, accuracies = (np.array(results)[order] for results in zip(*every, strict=True))
    return [_point(plan, cell.factor, losses[:, i], accuracies[:, i]) for i, (cell, plan) in enumerate(asked)]


def _plan(space: Space, problem: Problem, task: Task, scale: GradientScale, cell: _Cell) -> Plan | None:
    """The plan of a cell that trains; None where nothing allows it."""
    try:
        made = space.plan(scaled(problem, cell.factor), task, scale, cell.setting)
    except (InvalidInput, UnsoundClaim):
        return None
    return made if made.train else None


def _point(plan: Plan, factor: float, losses: NDArray[np.float64], accuracies: NDArray) -> TrialPoint:
    """From losses of trials, shape (proxies, seeds, marks), and accuracies of shape (proxies, seeds)."""
    loss, course = losses[..., -1].mean(axis=0).mean(), losses.mean(axis=1)
    kept = course if course.shape[-1] > 1 else None
    return TrialPoint(plan, factor, float(loss), float(accuracies.mean()), kept)


def _distinct(points: Sequence[TrialPoint]) -> list[TrialPoint]:
    """One point for each counts and budget: that of least loss."""
    best: dict[object, TrialPoint] = {}
    for point in sorted(points, key=lambda point: point.loss):
        plan = point.plan
        best.setdefault((plan.rounds, plan.clients_per_round, plan.local, point.factor), point)
    return sorted(best.values(), key=lambda point: (point.plan.rounds, point.factor))
