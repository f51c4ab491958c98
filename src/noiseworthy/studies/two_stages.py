"""Train DPFL-BCS in two stages: rounds with reported losses, then the plan that each seed makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy.engines.records import Curves, Trajectory
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import Checkpoint, simulate
from noiseworthy.methods.dpfl_bcs import loss_reports
from noiseworthy.methods.dpfl_bcs.heterogeneity import Heterogeneity, ReportedLosses, estimated
from noiseworthy.methods.dpfl_bcs.two_stages import FirstStage, stage_before
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import Plan
from noiseworthy.studies.run_folder import NOWHERE, Keeper
from noiseworthy.tasks.base import Task

Progress = Callable[[float], None]
OnStage = Callable[[Sequence[Plan]], None]
OnCurves = Callable[[Curves], None]


def unheard(plans: Sequence[Plan]) -> None:
    """Plans that follow from a stage, where nobody keeps them."""


def untold(curves: Curves) -> None:
    """What was reached, where nobody asks."""


@dataclass(frozen=True)
class Estimation:
    """What stage 1 of one training told, and the plan of stage 2 that follows from it.

    Attributes:
        reports: the noised losses.
        found: Gamma_n by them.
        plan: of stage 2.
    """

    reports: ReportedLosses
    found: Heterogeneity
    plan: Plan


def run(
    plans: Sequence[Plan], shards: Shards, task: Task, seeds: Sequence[int], scored: NDArray[np.int64], *,
    keeper: Keeper = NOWHERE, adapted: Callable[[Any], Any] = lambda algorithm: algorithm,
    on_stage: OnStage = unheard, on_progress: Progress = lambda done: None, on_curves: OnCurves = untold,
) -> tuple[Trajectory, tuple[Estimation, ...]]:  # fmt: skip
    """Both stages under several seeds; each goes on by the losses that its own stage 1 released.

    Args:
        plans: of `methods.dpfl_bcs.two_stages.plan`, one per seed, all of as many rounds.
        shards: the federation on the device, of the sizes that the plans were made for.
        task: model and loss.
        seeds: of schedules, start and noise.
        scored: rounds of the whole training to score at.
        keeper: pays for rounds and keeps stage 2. On resume stage 1 is run again, to the same values.
        adapted: changes the algorithms of both stages, where clients hold other records than planned.
        on_stage: told the plans of stage 2, before they are trained.
        on_progress: told the share of all rounds done.
        on_curves: told after every evaluation what was reached so far.

    Returns:
        Curves over all T rounds, with the uploads of stage 2 as `releases` of the plans count them, and what
        each training estimated.

    Raises:
        InvalidInput: a plan in one stage.
        LedgerError: a stage 1 that told other losses than before, and as `training.train`.
        BudgetExceeded: clients whose lifetime budget does not pay for both stages.
    """
    before, total = stage_before(plans[0]).rounds, plans[0].all_rounds
    opening, end, stages = _opened(
        plans, shards, task, seeds, scored[scored < before], adapted, keeper,
        lambda done: on_progress(done / total), on_curves,
    )  # fmt: skip
    on_stage([stage.plan for stage in stages])
    later = seeds_of_stage_2(seeds)
    algorithms = [adapted(make(stage.plan, task, seed)) for stage, seed in zip(stages, later, strict=True)]
    start = keeper.start or onward(end, averaged=plans[0].averaging > 0)

    def keep(done: Checkpoint) -> None:
        keeper.keep(done)
        on_progress((before + done.round) / total)
        on_curves(joined_curves(opening, done, before))

    closing = simulate(
        algorithms, np.stack([stage.plan.uploads for stage in stages]), shards,
        np.unique(np.append(0, scored[scored > before] - before)), later,
        resume=start, before_segment=keeper.last_stage([stage.plan for stage in stages], algorithms),
        on_segment=keep, hosts=True,
    )  # fmt: skip
    return joined(opening, closing, before), stages


def estimate(
    plans: Sequence[Plan], shards: Shards, task: Task, seeds: Sequence[int]
) -> tuple[Estimation, ...]:
    """Stage 1 alone: what `run` would estimate and plan by the same arguments."""
    return _opened(plans, shards, task, seeds, np.array([0])).stages


class _Opened(NamedTuple):
    """Stage 1 of several trainings: curves, where they ended, and what they told."""

    run: Trajectory
    end: Checkpoint
    stages: tuple[Estimation, ...]


def _opened(
    plans: Sequence[Plan], shards: Shards, task: Task, seeds: Sequence[int], scored: NDArray[np.int64],
    adapted: Callable[[Any], Any] = lambda algorithm: algorithm, keeper: Keeper = NOWHERE,
    on_round: Progress = lambda done: None, on_curves: OnCurves = untold,
) -> _Opened:  # fmt: skip
    """Stage 1, scored after some of its rounds and at its end."""
    firsts = [stage_before(plan) for plan in plans]
    starts = [adapted(loss_reports.make(one, task, seed)) for one, seed in zip(firsts, seeds, strict=True)]
    reached: list[Checkpoint] = []

    def reach(done: Checkpoint) -> None:
        reached[:] = [done]
        keeper.sealed(done)
        on_round(done.round)
        on_curves(Curves(done.rounds, done.loss, done.accuracy))

    opening = simulate(
        starts, np.stack([first.uploads for first in firsts]), shards,
        np.append(scored, firsts[0].rounds), seeds,
        before_segment=keeper.first_stage(starts), on_segment=reach, hosts=True,
    )  # fmt: skip
    (end,) = reached
    stages = [
        estimation_of(plan, np.asarray(algorithm.cohorts), losses)
        for plan, algorithm, losses in zip(plans, starts, end.server[-1], strict=True)
    ]
    return _Opened(opening, end, tuple(stages))


def estimation_of(plan: Plan, cohorts: NDArray[np.int32], losses: NDArray[np.float32]) -> Estimation:
    """Stage 2 of one training, from the noised losses (T0, K, 2) that its cohorts released in stage 1."""
    first = stage_before(plan)
    reports = reports_of(first, cohorts, losses)
    return Estimation(reports, estimated(reports, plan.problem.n_clients), first.rest(plan, reports))


def reports_of(first: FirstStage, cohorts: NDArray[np.int32], losses: NDArray[np.float32]) -> ReportedLosses:
    """The losses (T0, K, 2) that the cohorts (T0, K) of stage 1 reported, NaN where a reply is missing."""
    rounds, asked = cohorts.shape
    there = np.isfinite(losses).all(axis=2).ravel()
    before, after = losses.astype(np.float64).reshape(-1, 2)[there].T
    whose, when = cohorts.ravel()[there], np.repeat(np.arange(rounds), asked)[there]
    return ReportedLosses(whose, when, before, after, first.noise_std, first.loss_cap)


def onward(reached: Checkpoint, *, averaged: bool) -> Checkpoint:
    """The start of stage 2: where stage 1 ended, with its momentum, nothing asked or averaged yet."""
    velocity, _ = reached.server
    empty = np.empty((len(reached.theta), 0))
    return reached._replace(
        round=0, used=np.zeros_like(reached.used), rounds=np.empty(0, np.int64), loss=empty, accuracy=empty,
        server=(velocity, reached.theta) if averaged else (velocity,),
    )  # fmt: skip


def seeds_of_stage_2(seeds: Sequence[int]) -> list[int]:
    """Other seeds than those of stage 1: rounds are counted anew, and no draw may come twice."""
    return [int(np.random.SeedSequence([seed, 2]).generate_state(1)[0]) for seed in seeds]


def joined(opening: Trajectory | Checkpoint, closing: Trajectory, before: int) -> Trajectory:
    """A training of both stages."""
    return replace(closing, **joined_curves(opening, closing, before)._asdict())


def joined_curves(opening: Trajectory | Checkpoint, closing: Trajectory | Checkpoint, before: int) -> Curves:
    """Curves of both stages one after the other."""
    later = slice(1, None)  # stage 2 starts where stage 1 was scored last
    return Curves(
        np.concatenate([opening.rounds, before + closing.rounds[later]]),
        np.concatenate([opening.loss, closing.loss[:, later]], axis=1),
        np.concatenate([opening.accuracy, closing.accuracy[:, later]], axis=1),
    )
