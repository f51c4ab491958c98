"""Train a plan, and keep what happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from noiseworthy.data import Federation
from noiseworthy.engines.records import Trajectory, evaluation_rounds
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import Checkpoint, simulate
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dpfl_bcs.two_stages import FirstStage
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import Plan
from noiseworthy.studies.checkpoints import fingerprint
from noiseworthy.studies.prepare import check_same_sizes
from noiseworthy.studies.run_folder import kept_in
from noiseworthy.studies.run_ledger import Owners, SharedLedger
from noiseworthy.tasks import Task

Progress = Callable[[float], None]
_LONGEST = 1000
"""Iterations to centre a grid on where the plan does not train."""


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
    ledger: SharedLedger | None = None,
    on_progress: Progress = lambda done: None,
) -> Trajectory:
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
        on_progress: told the share of rounds done.

    Returns:
        Curves, parameters and uploads.

    Raises:
        InvalidInput: a plan that does not train, or of two stages.
        DataError: a federation of other sizes than the plan's.
        ResumeError: a folder of another study, without a checkpoint, or without its ledger.
        LedgerError: a ledger that cannot be written, or that disagrees with the run.
        BudgetExceeded: clients whose lifetime budget does not pay for the plan; nothing was spent.
    """
    check_same_sizes(plan.problem, federation)
    if isinstance(plan.pilot, FirstStage):
        raise InvalidInput(
            "this plan has two stages, and every seed plans the second one by its own first; train it with "
            "noiseworthy.studies.training.train, which also returns those plans"
        )
    algorithms = [make(plan, task, seed) for seed in seeds]
    mark = fingerprint(plan, seeds, belongs_to)
    plans, owners = [plan] * len(seeds), Owners(federation.name, federation.clients)
    with kept_in(folder, mark, plans, seeds, owners, ledger=ledger, resume=resume) as keeper:

        def keep(checkpoint: Checkpoint) -> None:
            keeper.keep(checkpoint)
            on_progress(checkpoint.round / plan.rounds)

        return simulate(
            algorithms,
            plan.uploads,
            Shards.load(federation, task, condensed=algorithms[0].condensed),
            evaluation_rounds(plan.rounds, evaluations),
            seeds,
            resume=keeper.start,
            before_segment=keeper.last_stage(plans, algorithms),
            on_segment=keep,
        )
