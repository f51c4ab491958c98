"""Train by a plan under several seeds: its stages one after the other, and what is kept of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy.data import Federation
from noiseworthy.engines.compilation import use_persistent_cache
from noiseworthy.engines.records import Curves, Trajectory, evaluation_rounds
from noiseworthy.engines.shards import Shards, loaded
from noiseworthy.engines.simulation import Checkpoint, simulate
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.algorithm import Algorithm
from noiseworthy.methods.making import aligned
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import Plan
from noiseworthy.studies import two_stages
from noiseworthy.studies.checkpoints import fingerprint
from noiseworthy.studies.models import check_tokens
from noiseworthy.studies.prepare import check_same_sizes
from noiseworthy.studies.run_folder import NOWHERE, Keeper, kept_in
from noiseworthy.studies.run_ledger import Owners, SharedLedger
from noiseworthy.studies.two_stages import Estimation, OnCurves, OnStage, Progress, unheard, untold
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.networks import check_fits


@dataclass(frozen=True, repr=False)
class Run(Trajectory):
    """Trainings of one plan, one per seed.

    Attributes:
        plans: which training followed which plan in the end.
        stages: what each training estimated before; empty in one stage.
    """

    plans: tuple[Plan, ...] = ()
    stages: tuple[Estimation, ...] = ()

    @classmethod
    def of(cls, run: Trajectory, plans: Sequence[Plan], stages: Sequence[Estimation] = ()) -> Run:
        """Curves with the plans behind them."""
        return cls(**vars(run), plans=tuple(plans), stages=tuple(stages))

    @property
    def spent(self) -> NDArray[np.float64]:
        """Exact epsilon of every client in every training, shape (S, N)."""
        return np.stack([plan.spent(uploads) for plan, uploads in zip(self.plans, self.uploads, strict=True)])


def train(
    plan: Plan, federation: Federation, task: Task, seeds: Sequence[int] = (0,), *, evaluations: int = 25,
    folder: Path | str | None = None, resume: bool = False, belongs_to: str = "",
    ledger: SharedLedger | None = None, on_stage: OnStage = unheard,
    on_progress: Progress = lambda done: None, on_curves: OnCurves = untold,
) -> Run:  # fmt: skip
    """Train by a plan under several seeds, side by side in one compiled program.

    Args:
        plan: what to do; its noise belongs to the federation's sizes.
        federation: the clients' records and the test set.
        task: model and loss.
        seeds: of schedule, start and noise, one training each.
        evaluations: how often to score, densest at the beginning.
        folder: where to keep a ledger, and a checkpoint after each evaluation; or None.
        resume: go on from the folder's checkpoint; ends in the same state as an unbroken run.
        belongs_to: names data and model; a checkpoint kept under another name is not resumed.
        ledger: that several runs on these data share; by default one in the folder for this run alone.
        on_stage: told the plans that follow from a stage, one per seed, before they are trained.
        on_progress: told the share of rounds done.
        on_curves: told after every evaluation what was reached so far, from the start of the training on.

    Returns:
        Curves, parameters and uploads, with the plan that each training followed.

    Raises:
        InvalidInput: a plan that does not train, or one that follows from a stage of another training; a
            folder where `jax.distributed` has joined processes, which train as one and in memory alone.
        DataError: a federation of other sizes than the plan's, or with tokens that the model does not know.
        ResumeError: a folder of another study or other records, without a checkpoint, or without its ledger.
        LedgerError: a ledger that cannot be written, or that disagrees with the run.
        BudgetExceeded: clients whose lifetime budget does not pay for the plan; nothing was spent.
    """
    if not isinstance(plan, Plan):
        raise InvalidInput(f"plan must be a Plan, got a {type(plan).__name__}; of a Planned give its .plan")
    if folder is not None and (count := jax.process_count()) > 1:
        raise InvalidInput(f"a run folder has one writer, got {count} processes; leave out the folder")
    if not isinstance(federation, Federation) or not isinstance(task, Task):
        raise InvalidInput(
            f"train needs a Federation and a task, got a {type(federation).__name__} and a "
            f"{type(task).__name__}; prepared.trained() has both, equinox_task makes a module a task"
        )
    if not np.iterable(seeds):
        raise InvalidInput(f"seeds must be a list of whole numbers, got {seeds!r}; write [{seeds!r}]")
    if not (seeds := [check.count("seeds", one, least=0, most=2**32 - 1) for one in seeds]):
        raise InvalidInput("seeds must be one or more, got none; each is of a training")
    points = check.count("evaluations", evaluations)
    check_same_sizes(plan.problem, federation)
    check_fits("the task", task, federation.test_x, federation.test_y, federation.classes)
    check_tokens(federation, task)
    check_begins(plan)
    folder = None if folder is None else Path(folder)
    mark = "" if folder is None else fingerprint(plan, seeds, belongs_to)
    plans, owners = [plan] * len(seeds), Owners(federation.name, federation.clients)
    records = "" if folder is None else federation.content
    with kept_in(folder, mark, plans, seeds, owners, ledger=ledger, resume=resume, records=records) as keeper:
        return carried_out(
            plan, task, lambda condensed: loaded(federation, task, condensed=condensed), seeds,
            evaluation_rounds(plan.all_rounds, points),
            keeper=keeper, on_stage=on_stage, on_progress=on_progress, on_curves=on_curves,
        )  # fmt: skip


def carried_out(
    plan: Plan, task: Task, load: Callable[[bool], Shards], seeds: Sequence[int], scored: NDArray[np.int64],
    *, algorithms: Sequence[Algorithm] = (), keeper: Keeper = NOWHERE, on_stage: OnStage = unheard,
    on_progress: Progress = lambda done: None, on_curves: OnCurves = untold,
) -> Run:  # fmt: skip
    """All rounds of a plan: those of a stage that is still to be run, and those that follow from it.

    Args:
        plan: what to do.
        task: model and loss.
        load: the federation on the device, with records condensed or whole.
        seeds: one training each.
        scored: rounds of the whole training to score at.
        algorithms: one per seed, where they were made before; of a plan in one stage.
        keeper: pays for rounds, and keeps what was reached.
        on_stage: as in `train`.
        on_progress: told the share of rounds done.
        on_curves: as in `train`.
    """
    use_persistent_cache()
    plans = [plan] * len(seeds)
    if plan.pilot is not None and plan.pilot.pending:
        run, stages = two_stages.run(
            plans, load(False), task, seeds, scored,
            keeper=keeper, on_stage=on_stage, on_progress=on_progress, on_curves=on_curves,
        )  # fmt: skip
        return Run.of(run, [stage.plan for stage in stages], stages)
    algorithms = algorithms or [make(plan, task, seed) for seed in seeds]

    def keep(reached: Checkpoint) -> None:
        keeper.keep(reached)
        on_progress(reached.round / plan.rounds)
        on_curves(Curves(reached.rounds, reached.loss, reached.accuracy))

    run = simulate(
        algorithms, plan.uploads, load(algorithms[0].condensed), scored, seeds,
        resume=keeper.start, before_segment=keeper.last_stage(plans, algorithms), on_segment=keep,
        folder=keeper.memories, hosts=True,
    )  # fmt: skip
    return Run.of(run, plans)


def check_begins(plan: Plan) -> None:
    """Refuse a plan that begins in the middle of a training.

    Raises:
        InvalidInput: a plan that follows from a stage that was run.
    """
    if plan.pilot is not None and plan.pilot.rounds and not plan.pilot.pending:
        raise InvalidInput(
            f"this plan follows from what {plan.pilot.rounds} rounds of a training told, and begins where "
            "they ended; train by the plan of the whole, or go on with that run by --resume"
        )


def carried_out_each(
    plans: Sequence[Plan], task: Task, load: Callable[[bool], Shards], seeds: Sequence[int],
    scored: Callable[[Plan], NDArray[np.int64]], on_progress: Progress = lambda done: None,
) -> Iterator[Run]:  # fmt: skip
    """All rounds of every plan; those that can share a compiled program do.

    Args:
        plans: what to do.
        task: model and loss.
        load: the federation on the device, with records condensed or whole; asked for each plan.
        seeds: one training of each plan each.
        scored: rounds of a plan's whole training to score at.
        on_progress: told the share of all local steps that is done.

    Yields:
        The trainings of a plan, in the order of the plans.
    """
    ends, alike = np.cumsum([_work(plan) for plan in plans]), _sharing(plans, task, seeds)
    for plan, algorithms, end in zip(plans, alike, ends, strict=True):

        def told(share: float, end: int = end, own: int = _work(plan)) -> None:
            on_progress(float((end - own + share * own) / ends[-1]))

        yield carried_out(plan, task, load, seeds, scored(plan), algorithms=algorithms, on_progress=told)


def _sharing(plans: Sequence[Plan], task: Task, seeds: Sequence[int]) -> list[list[Algorithm]]:
    """Algorithms of each plan, one per seed, as long as those that one program can run beside them.

    None of a plan whose first stage is still to be run: which follow, only that stage tells.
    """
    known = [not (plan.pilot and plan.pilot.pending) for plan in plans]
    made = [[make(plan, task, seed) for seed in seeds if own] for plan, own in zip(plans, known, strict=True)]
    kinds = [
        (plan.clients_per_round, jax.tree.structure(one[0])) if one else None
        for plan, one in zip(plans, made, strict=True)
    ]
    for kind in {*kinds} - {None}:
        same = [i for i, other in enumerate(kinds) if other == kind]
        longer = iter(aligned([algorithm for i in same for algorithm in made[i]]))
        for i in same:
            made[i] = [next(longer) for _ in seeds]
    return made


def _work(plan: Plan) -> int:
    """Local steps of a whole training, over all clients that are asked."""
    steps = plan.all_rounds if plan.local is None else int(plan.local.counts(plan.rounds).sum())
    return steps * plan.clients_per_round


LEAST_ROUNDS = 4
"""Rounds that are timed: one while compiling, one, and two."""


class Pace(NamedTuple):
    """Seconds that trainings side by side need to compile, for a round, and to be scored once."""

    compiling: float
    a_round: float
    a_score: float

    def seconds(self, rounds: int, evaluations: int) -> float:
        """Of whole trainings that are compiled already.

        Example:
            >>> Pace(2.0, 0.1, 0.5).seconds(100, 4)
            12.0
        """
        return self.a_round * rounds + self.a_score * evaluations


def pace_of(
    algorithms: Sequence[Algorithm], planned: NDArray[np.int64], shards: Shards, seeds: Sequence[int]
) -> Pace:
    """The pace of trainings, from their first rounds.

    They run in the program that the whole trainings use, which is not compiled again.

    Args:
        algorithms: S algorithms of at least `LEAST_ROUNDS` rounds.
        planned: as for `simulate`.
        shards: the federation on the device.
        seeds: S seeds.
    """
    ends = [time.monotonic()]
    rounds = np.array([1, 2, LEAST_ROUNDS])
    simulate(algorithms, planned, shards, rounds, seeds, on_segment=lambda _: ends.append(time.monotonic()))
    first, one_round, two_rounds = (float(seconds) for seconds in np.diff(ends))
    a_round = max(two_rounds - one_round, two_rounds / LEAST_ROUNDS)
    return Pace(max(first - one_round, 0.0), a_round, max(one_round - a_round, 0.0))
