"""Train whatever was planned: in one stage, or in two where each seed plans the second by its first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noiseworthy.data import Federation
from noiseworthy.engines.records import Trajectory
from noiseworthy.engines.shards import Shards
from noiseworthy.methods.dpfl_bcs.two_stages import FirstStage
from noiseworthy.plans.plan import Plan
from noiseworthy.studies import runner, two_stages
from noiseworthy.studies.checkpoints import fingerprint
from noiseworthy.studies.prepare import check_same_sizes
from noiseworthy.studies.run_folder import kept_in
from noiseworthy.studies.run_ledger import Owners, SharedLedger
from noiseworthy.studies.two_stages import Estimation
from noiseworthy.tasks import Task


@dataclass(frozen=True)
class Trained:
    """Trainings of a study.

    Attributes:
        run: curves, parameters, and the uploads that count against the plans' `releases`.
        plans: which training followed which plan, one per seed.
        stages: what each training estimated before; empty in one stage.
    """

    run: Trajectory
    plans: tuple[Plan, ...]
    stages: tuple[Estimation, ...] = ()


def train(plan: Plan, federation: Federation, task: Task, seeds: Sequence[int], **options: Any) -> Trained:
    """Train a plan under several seeds.

    Args:
        plan: what to do.
        federation: the clients' records and the test set.
        task: model and loss.
        seeds: one training each.
        options: of `runner.train`.

    Raises:
        InvalidInput, DataError, ResumeError, LedgerError, BudgetExceeded: as `runner.train`.
    """
    if not isinstance(plan.pilot, FirstStage):
        return Trained(runner.train(plan, federation, task, seeds, **options), (plan,) * len(seeds))
    check_same_sizes(plan.problem, federation)
    return _in_two_stages(plan, federation, task, seeds, **options)


def _in_two_stages(
    plan: Plan,
    federation: Federation,
    task: Task,
    seeds: Sequence[int],
    *,
    folder: Path | None = None,
    resume: bool = False,
    belongs_to: str = "",
    ledger: SharedLedger | None = None,
    **options: Any,
) -> Trained:
    shards, plans = Shards.load(federation, task), [plan] * len(seeds)
    mark, owners = fingerprint(plan, seeds, belongs_to), Owners(federation.name, federation.clients)
    with kept_in(folder, mark, plans, seeds, owners, ledger=ledger, resume=resume) as keeper:
        run, stages = two_stages.train(plans, shards, task, seeds, keeper=keeper, **options)
    return Trained(run, tuple(stage.plan for stage in stages), stages)
