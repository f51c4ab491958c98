"""Train a plan, compare it with fixed settings, and keep what happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import numpy as np
from numpy.typing import NDArray

from noiseworthy._keys import Purpose, named_key
from noiseworthy.algorithms.registry import make
from noiseworthy.config import Study
from noiseworthy.data import Federation
from noiseworthy.engines.records import Trajectory, evaluation_rounds
from noiseworthy.engines.simulation import Checkpoint, Shards, simulate
from noiseworthy.errors import InvalidInput
from noiseworthy.experiments.checkpoints import fingerprint, load_checkpoint, save_checkpoint
from noiseworthy.experiments.prepare import check_same_sizes
from noiseworthy.planning.plan import Plan, StepSize
from noiseworthy.planning.problem import Problem
from noiseworthy.planning.queries_replies import stated
from noiseworthy.tasks import Task

Progress = Callable[[float], None]


def train(
    plan: Plan,
    federation: Federation,
    task: Task,
    seeds: Sequence[int] = (0,),
    *,
    evaluations: int = 25,
    folder: Path | None = None,
    resume: bool = False,
    belongs_to: str = "",
    on_progress: Progress = lambda done: None,
) -> Trajectory:
    """Train by a plan under several seeds, side by side in one compiled program.

    Args:
        plan: what to do; its noise belongs to the federation's sizes.
        federation: the clients' records and the test set.
        task: model and loss.
        seeds: of schedule, start and noise, one training each.
        evaluations: how often to score, densest at the beginning.
        folder: where to keep a checkpoint after each evaluation, or None.
        resume: go on from the folder's checkpoint; ends in the same state as an unbroken run.
        belongs_to: names data and model; a checkpoint kept under another name is not resumed.
        on_progress: told the share of rounds done.

    Returns:
        Curves, parameters and uploads.

    Raises:
        InvalidInput: a plan that does not train.
        DataError: a federation of other sizes than the plan's.
        ResumeError: a folder of another study or without a checkpoint.
    """
    check_same_sizes(plan.problem, federation)
    algorithms = [make(plan, task, seed) for seed in seeds]
    mark = fingerprint(plan, seeds, belongs_to)
    done = load_checkpoint(folder, mark) if resume else None

    def keep(checkpoint: Checkpoint) -> None:
        if folder is not None:
            save_checkpoint(folder, checkpoint, mark)
        on_progress(checkpoint.round / plan.rounds)

    return simulate(
        algorithms,
        plan.releases,
        Shards.load(federation, task),
        evaluation_rounds(plan.rounds, evaluations),
        seeds,
        resume=done,
        on_segment=keep,
    )


@dataclass(frozen=True)
class Cell:
    """One fixed setting: T, b, and its final test losses (infinite if diverged) and accuracies per seed."""

    rounds: int
    clients_per_round: int
    loss: NDArray[np.float64]
    accuracy: NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """The plan beside a grid of fixed settings.

    Attributes:
        planned: the plan's cell; its rounds are 0 if it does not train.
        grid: the fixed cells.
        untrained_loss: test loss without training.
    """

    planned: Cell
    grid: tuple[Cell, ...]
    untrained_loss: float

    @property
    def best(self) -> Cell:
        """The grid cell of least mean loss."""
        return min(self.grid, key=lambda cell: float(np.mean(cell.loss)))

    @property
    def lost_gain(self) -> float:
        """(L_plan - L_best) / (L_untrained - L_best): the share of the attainable gain that is missed.

        Not training is always attainable, so the gain is nan where no cell gains anything.
        """
        best = float(np.mean(self.best.loss))
        attainable = self.untrained_loss - best
        return (float(np.mean(self.planned.loss)) - best) / attainable if attainable > 0 else float("nan")


def untrained_loss(task: Task, shards: Shards) -> float:
    """Test loss of the public start."""
    start = task.initial(named_key(jax.random.key(0), Purpose.START))
    return float(task.score(start, shards.test_x, shards.test_y).loss)


def run_grid(
    problem: Problem,
    step: StepSize,
    cells: Sequence[tuple[int, int]],
    shards: Shards,
    task: Task,
    seeds: Sequence[int],
    on_progress: Progress = lambda done: None,
) -> list[Cell]:
    """Train fixed settings (T, b) with the noise each needs; cells of one b share a compiled program."""
    horizon = max(rounds for rounds, _ in cells)
    results, work, total = [], 0, sum(rounds * b for rounds, b in cells)
    for rounds, b in cells:
        plan = stated(problem, rounds, b, step)
        algorithms = [make(plan, task, seed, horizon=horizon) for seed in seeds]
        run = simulate(algorithms, plan.releases, shards, np.array([rounds]), seeds)
        diverged = ~np.isfinite(run.final_loss)
        results.append(Cell(rounds, b, np.where(diverged, np.inf, run.final_loss), run.final_accuracy))
        work += rounds * b
        on_progress(work / total)
    return results


def compare(
    plan: Plan,
    federation: Federation,
    task: Task,
    study: Study,
    on_progress: Progress = lambda done: None,
) -> Comparison:
    """Train the plan and the grid of `[compare]` under the same seeds.

    Fixed settings buy no constants, so they spend the whole budget on training.

    Raises:
        InvalidInput: a grid with more clients per round than there are clients.
    """
    check_same_sizes(plan.problem, federation)
    if plan.step is None:
        raise InvalidInput("comparing needs step sizes; state [algorithm] step_size")
    table, n = study.compare, plan.problem.n_clients
    cohorts = sorted({1, max(1, n // 2), n}) if table.clients_per_round == "auto" else table.clients_per_round
    cells = [(rounds, b) for b in cohorts for rounds in table.rounds]
    shards, seeds = Shards.load(federation, task), table.seeds
    clip = table.clip_norm or plan.problem.clip_norm
    problem = replace(plan.problem, budget=plan.budget, clip_norm=clip)
    step = plan.step if table.step_size is None else StepSize(table.step_size, plan.step.decay_rounds)
    grid = run_grid(problem, step, cells, shards, task, seeds, lambda done: on_progress(0.9 * done))
    start = untrained_loss(task, shards)
    planned = Cell(0, 0, np.full(len(seeds), start), np.full(len(seeds), np.nan))
    if plan.train:
        (planned,) = run_grid(
            plan.problem, plan.step, [(plan.rounds, plan.clients_per_round)], shards, task, seeds
        )
    on_progress(1.0)
    return Comparison(planned, tuple(grid), start)
