"""Planners of figures: by trial on public data, as a study does by default for FedSGD-DPC."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from noiseworthy.trials.bench import Bench
from noiseworthy.trials.search import plan_by_trial
from noiseworthy.trials.spaces import Space
from noiseworthy_papers.laboratory import Laboratory
from noiseworthy_papers.settings import FedSGD
from noiseworthy_papers.spec import Arm, Planned, Planner


def by_trial(*, everything: bool) -> Planner:
    """Plans (T, b) by trial at the published clip and step, or those too."""

    def decide(
        laboratory: Laboratory, arm: Arm, epsilon: float, fraction: float, tell: Callable[[float], None]
    ) -> Planned:
        bench = Bench(laboratory.facts(arm, epsilon, fraction), laboratory.public, laboratory.data_dir)
        space = _space(arm, laboratory.bench.horizon, everything=everything)
        plan = plan_by_trial(bench, space, on_progress=tell).plan
        setting = FedSGD(plan.rounds, plan.clients_per_round) if plan.train else None
        return Planned(setting, plan.problem.clip_norm, plan.step or arm.step)

    return decide


def _space(arm: Arm, most: int, *, everything: bool) -> Space:
    """What is free; a figure draws trainings without momentum and without averaging."""
    free = Space("fedsgd-dpc", most=most, momentum=0.0, averaging=0.0)
    if everything:
        return free
    step = arm.step
    return replace(free, clip_norm=arm.clip_norm, step_size=step.initial, decay_rounds=step.decay_rounds)
