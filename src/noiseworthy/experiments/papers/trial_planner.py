"""Planners of figures: by trial on public data, as a study does by default for FedSGD-DPC."""

from __future__ import annotations

import time
from collections.abc import Callable

from noiseworthy.experiments.papers.laboratory import Laboratory
from noiseworthy.experiments.papers.settings import FedSGD
from noiseworthy.experiments.papers.spec import Arm, Planned, Planner
from noiseworthy.planning.plan import StepSize
from noiseworthy.trials.search import Choice, plan_by_trial


def by_trial(*, everything: bool) -> Planner:
    """Plans (T, b) by trial at the published clip and step, or those too."""

    def decide(
        laboratory: Laboratory, arm: Arm, epsilon: float, fraction: float, tell: Callable[[float], None]
    ) -> Planned:
        started = time.monotonic()
        clip, step = (None, None) if everything else (arm.clip_norm, arm.step.initial)
        choice = Choice(None, None, laboratory.bench.horizon, step, arm.step.decay_rounds, clip)
        facts = laboratory.facts(arm, epsilon, fraction)
        plan = plan_by_trial(facts, laboratory.proxies, choice, on_progress=tell).plan
        setting = FedSGD(plan.rounds, plan.clients_per_round) if plan.train else None
        decided = StepSize(plan.step.initial, arm.step.decay_rounds) if plan.step else arm.step
        return Planned(setting, plan.problem.clip_norm, decided, time.monotonic() - started)

    return decide
