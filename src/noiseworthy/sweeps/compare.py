"""Train a plan beside fixed settings, and how much of the attainable gain it loses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from noiseworthy.data import Federation
from noiseworthy.engines.shards import Shards
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.algorithm import start_of
from noiseworthy.methods.axes import Beside, Usual
from noiseworthy.methods.conditions import tightest_mode
from noiseworthy.methods.registry import method
from noiseworthy.methods.space import MOST_GAIN
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.privacy.accountants import composed_epsilon, composes
from noiseworthy.privacy.clipping import ClippingMode
from noiseworthy.studies.prepare import check_same_sizes
from noiseworthy.studies.sweep_tables import CompareTable
from noiseworthy.studies.tables import Study
from noiseworthy.studies.training import Progress, Run, carried_out_each
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Score

_LONGEST = 1000
"""Iterations to centre a grid on where the plan does not train."""


@dataclass(frozen=True)
class Cell:
    """One fixed setting, trained under every seed.

    Attributes:
        setting: where it lies on the axes.
        loss: final test losses, infinite if diverged, shape (S,).
        accuracy: final test scores, NaN if diverged, shape (S,).
        theta: parameters that the first seed ended with, shape (p,); None of what was not trained.
    """

    setting: dict[str, float]
    loss: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    theta: NDArray[np.floating] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class UsualCell:
    """A setting that people take without planning, and what it ends with."""

    usual: Usual
    cell: Cell


class HomeScores(NamedTuple):
    """What owners reach with one shared model, as it is and tuned at home, over all their test records."""

    name: str
    shared: float
    tuned: float


class OwnersScores(NamedTuple):
    """What owners reach alone, and with each shared model."""

    alone: float
    models: tuple[HomeScores, ...]


@dataclass(frozen=True)
class Comparison:
    """The plan beside what people take without planning, and beside a grid of fixed settings.

    Attributes:
        planned: the plan's cell; its setting is 0 if it does not train.
        grid: the fixed cells.
        untrained_loss: test loss without training.
        search_epsilon: what training every fixed setting once on private records would spend of the client
            that is worst off; None where it has no closed form.
        usual: what people take without planning.
        home: what owners make of the models; None where nobody asked (`compare_home`).
    """

    planned: Cell
    grid: tuple[Cell, ...]
    untrained_loss: float
    search_epsilon: float | None = None
    usual: tuple[UsualCell, ...] = ()
    home: OwnersScores | None = None

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


def untrained_score(task: Task, shards: Shards) -> Score:
    """Test loss and score of the public start."""
    return task.score(start_of(task, jax.random.key(0)), shards.test_x, shards.test_y)


def untrained_loss(task: Task, shards: Shards) -> float:
    """Test loss of the public start."""
    return float(untrained_score(task, shards).loss)


def run_grid(
    plans: Sequence[Plan], federation: Federation, task: Task, seeds: Sequence[int],
    on_progress: Progress = lambda done: None,
) -> list[Cell]:  # fmt: skip
    """Train each plan under each seed; plans that ask as many clients share a compiled program."""
    load = loading(federation, task)
    runs = carried_out_each(plans, task, load, seeds, lambda plan: np.array([plan.all_rounds]), on_progress)
    return [Cell(setting_of(plan), *ended(run), run.theta[0]) for plan, run in zip(plans, runs, strict=True)]


def loading(federation: Federation, task: Task) -> Callable[[bool], Shards]:
    """What puts a federation on the device, with records or condensed, once and when first asked."""
    return cache(lambda condensed: Shards.load(federation, task, condensed=condensed))


def ended(run: Run) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Final test losses and scores, shape (S,): infinite and NaN where a training diverged."""
    diverged = ~np.isfinite(run.final_loss)
    # outputs of NaN name the first class, so that a diverged model would score as that constant answer does
    return np.where(diverged, np.inf, run.final_loss), np.where(diverged, np.nan, run.final_accuracy)


def compare(
    plan: Plan, federation: Federation, task: Task, study: Study, on_progress: Progress = lambda done: None
) -> Comparison:
    """Train the plan, what people take without planning, and the grid of `[compare]` under the same seeds.

    Fixed settings buy no constants, so they spend the whole budget on training. Those that the resources do
    not pay for are left out.

    Raises:
        InvalidInput: a grid with more clients per round than there are clients.
    """
    check_same_sizes(plan.problem, federation)
    seeds, (grid, usual) = study.compare.seeds, fixed_settings(plan, task, study)
    start = untrained_loss(task, Shards.load(federation, task))
    plans = [*grid, *(setting for _, setting in usual), *([plan] if plan.train else [])]
    cells = run_grid(plans, federation, task, seeds, on_progress)
    untrained = Cell(setting_of(plan), np.full(len(seeds), start), np.full(len(seeds), np.nan))
    planned = cells.pop() if plan.train else untrained
    named = tuple(UsualCell(one, cell) for (one, _), cell in zip(usual, cells[len(grid) :], strict=True))
    searched = search_epsilon([replace(cell, ranges=plan.ranges) for cell in grid])
    return Comparison(planned, tuple(cells[: len(grid)]), start, searched, named)


def search_epsilon(plans: Sequence[Plan]) -> float | None:
    """What several plans together, pilots included, spend of the client that is worst off, each trained once.

    Returns:
        The exact epsilon at that client's delta; None where it has no closed form.
    """
    parts = [(plan.release, plan.releases) for plan in plans if plan.release is not None]
    parts += [part for plan in plans if plan.pilot is not None for part in plan.pilot.parts]
    # once: clients tell ranges before anything is planned, and all plans stand on the same ones
    parts += [] if plans[0].ranges is None else plans[0].ranges.parts
    delta = plans[0].budget.delta
    return float(composed_epsilon(parts, delta).max()) if composes(parts, delta) else None


def fixed_settings(plan: Plan, task: Task, study: Study) -> tuple[list[Plan], list[tuple[Usual, Plan]]]:
    """The grid of a study and what people take, each with a clipping mode that its claim holds for.

    Raises:
        InvalidInput: a grid outside the federation, or without a cell; a plan without step sizes.
    """
    if plan.step is None:
        raise InvalidInput("comparing needs step sizes; state [algorithm] step_size")
    most = method(plan.algorithm).space.keys.most
    longest = _LONGEST if most is None else min(getattr(study.algorithm, most), _LONGEST)
    batch = plan.local.batch_size if plan.local is not None else None
    several, _ = tightest_mode(task, plan.problem.family, batch, plan.problem.row)
    step = None if plan.pilot is None else plan.pilot.step
    plans = grid_of(plan, step or plan.step, study.compare, longest, several)
    if not plans:
        raise InvalidInput(
            "the grid of [compare] has no cell: no iterations are divisible by any of the local steps, no "
            "coin falls for communication, or the [resources] budget pays for none; name others"
        )
    if plan.train and getattr(study.algorithm, "steering", None) == "auto":
        plans = [_steered(cell, plan.rounds) for cell in plans]
    return plans, usual_of(plan, several)


def _steered(cell: Plan, planned: int) -> Plan:
    """The cell steered as much over all its rounds as over those planned, for which trials count gains."""
    if (own := cell.steering) is None:
        return cell
    return replace(cell, steering=replace(own, gain=min(MOST_GAIN, own.gain * (planned / cell.rounds))))


# Fixed settings, along the axes of the method ---------------------------------------------------------


def setting_of(plan: Plan) -> dict[str, float]:
    """Where a plan lies on the axes of its method; zeros if it does not train."""
    return method(plan.algorithm).axes.setting(plan)


def usual_of(plan: Plan, several: ClippingMode) -> list[tuple[Usual, Plan]]:
    """What people take without planning, each with the noise that it needs: all clients, own clip and step.

    Settings that some client cannot pay for are left out.

    Args:
        plan: what they stand beside.
        several: clipping mode of several local steps where the plan takes one.
    """
    axes, clients = method(plan.algorithm).axes, plan.problem.n_clients
    everybody = replace(plan, clients_per_round=clients)
    made = []
    for usual in axes.usual(plan.problem.norm):
        problem = replace(plan.problem, budget=plan.trainable, clip_norm=usual.clip_norm)
        longest = usual.rounds * usual.steps
        beside = Beside(everybody, problem, usual.step, usual.wanted(clients), longest, several)
        made += [(usual, cell) for cell in axes.cells(beside)]
    return made


def grid_of(
    plan: Plan, own_step: StepSize, table: CompareTable, longest: int, several: ClippingMode
) -> list[Plan]:
    """Fixed settings beside a plan, each with the noise that it needs and none for bought constants.

    Args:
        plan, several: as `usual_of`, which leaves out the same settings.
        own_step: its step sizes.
        table: `[compare]`.
        longest: iterations to centre the grid of a local algorithm on where the plan does not train.
    """
    clip = table.clip_norm or plan.problem.clip_norm
    step = own_step if table.step_size is None else StepSize(table.step_size, own_step.decay_rounds)
    problem = replace(plan.problem, budget=plan.trainable, clip_norm=clip)
    beside = Beside(plan, problem, step, table.wanted, longest, several)
    levers = {"momentum": plan.momentum, "averaging": plan.averaging, "steering": plan.steering}
    cells = [replace(cell, **levers) for cell in method(plan.algorithm).axes.cells(beside)]
    # of some methods weights are equal, whatever clients hold: those have no weighting
    return [cell.weighed(plan.weighting) if plan.weighting else cell for cell in cells]
