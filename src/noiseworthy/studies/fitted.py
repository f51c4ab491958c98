"""What trials explain of a plan: the theory fitted to them, its curves, and what if all were otherwise."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from noiseworthy.methods.registry import method
from noiseworthy.plans.curves import BoundCurves, Curve, LossCourse
from noiseworthy.plans.plan import Plan, Prediction
from noiseworthy.studies.decision import Decision, Progress, TrialMark
from noiseworthy.trials.bench import Bench
from noiseworthy.trials.courses import untrained_score
from noiseworthy.trials.deadline import Deadline
from noiseworthy.trials.fitted_bound import fit
from noiseworthy.trials.landscape import MARKS, TrialPoint, landscape
from noiseworthy.trials.search import TrialPlan
from noiseworthy.trials.spaces import Space
from noiseworthy.trials.what_if import WhatIf

SEEDS = range(500_000, 500_003)
"""Noise seeds that races do not reach."""
TEST_LOSS = "test loss, predicted from trials on public data"
SHARE = "loss over that of no training, predicted from trials on public data"
_PLACES = 60
FAR = 2.0
"""Factor between the rounds of a plan and those that the fitted bound would rather have, and"""
MUCH = 0.05
"""share of the attainable gain between them by that bound, from which a note becomes a warning."""


def explained(
    decision: Decision, bench: Bench, space: Space, found: TrialPlan, deadline: Deadline,
    on_progress: Progress,
) -> Decision:  # fmt: skip
    """A decision by trial with the theory's bound fitted around it: curves, prediction and what-if.

    As it is where no time is left, or no counts around the plan are allowed.
    """
    if deadline.passed:
        return decision
    points = landscape(bench, space, found.result.winner, SEEDS, on_progress, deadline)
    if not points:
        return decision
    start = np.mean([untrained_score(proxy) for proxy in bench.proxies(found.treatment)])
    guess = WhatIf.of(fit(points, float(start)), _tried(found, points), bench.facts.own_epsilon)
    unit = decision.untrained(bench.facts.classes)
    return replace(
        decision,
        plan=_predicted(found, guess, unit),
        curves=_curves(found.plan, guess, unit),
        trials=tuple(_mark(point, guess, unit) for point in points if point.factor == 1),
        course=_course(found.plan, points, unit),
        what_if=guess,
    )


def _tried(found: TrialPlan, points: Sequence[TrialPoint]) -> Plan:
    """The plan, or what it would be if it trained."""
    if found.plan.train:
        return found.plan
    return min(points, key=lambda point: (point.factor != 1, point.loss)).plan


def _predicted(found: TrialPlan, guess: WhatIf, unit: float) -> Plan:
    """The plan with what the fitted bound predicts of it, its constants, and how well it fits."""
    plan, notes = found.plan, _notes(guess, found.plan)
    bound = min(guess.bound.at(plan), 1.0) if plan.train else 1.0
    return replace(
        plan,
        prediction=Prediction(bound * unit, unit, SHARE if unit == 1 else TEST_LOSS),
        constants=guess.bound.constants(found.sources),
        notes=(*plan.notes, *(notes if found.result.scores.missed is None else notes[:1])),
    )


def _notes(guess: WhatIf, plan: Plan) -> tuple[str, ...]:
    """How well the theory fits its trials, and whether it would rather have other counts."""
    bound = guess.bound
    fits = (
        f"The form of the theory ({bound.shape.source}) {bound.quality} "
        f"({len(bound.points)} other counts and budgets were tried)."
    )
    best = guess.at(guess.plan.problem)
    if not plan.train or not best.loss + bound.error < bound.at(plan):
        return (fits,)
    planned = bound.at(plan)
    rather = (
        f"would rather have T = {best.rounds} rounds: {best.loss:.1%} of the untrained loss, against "
        f"{planned:.1%} for the plan."
    )
    apart = max(best.rounds / plan.rounds, plan.rounds / best.rounds)
    missed = (planned - best.loss) / (1 - best.loss)
    if apart < FAR or missed < MUCH:
        return fits, f"The fitted bound {rather}"
    return fits, (
        f"Warning: the plan has T = {plan.rounds} rounds, the bound fitted to its own trials {rather} By it "
        f"the plan misses {missed:.0%} of what can be gained; compare both, with T stated under [algorithm]."
    )


def _curves(plan: Plan, guess: WhatIf, unit: float) -> BoundCurves:
    """The fitted bound over the rounds trialled: of the plan's work first, then of others."""
    low, high = guess.rounds
    rounds = np.unique(np.geomspace(low, high, _PLACES).round().astype(np.int64))
    own = guess.bound.shape.work(guess.plan)
    works = sorted(guess.works, key=lambda work: abs(np.log(work / own)))
    lines = [
        Curve(_label(guess.plan, work), rounds.tolist(), (unit * guess.along(rounds, work)).tolist())
        for work in works
    ]
    return BoundCurves("rounds", tuple(lines), plan.rounds if plan.train else None)


def _course(plan: Plan, points: Sequence[TrialPoint], unit: float) -> LossCourse | None:
    """The loss of the trial with the plan's own counts and budget, round by round."""
    own = [point for point in points if point.factor == 1 and _counts(point.plan) == _counts(plan)]
    if not plan.train or not own or own[0].course is None:
        return None
    rounds, losses = np.ceil(plan.rounds * MARKS).astype(int), unit * own[0].course
    _, first = np.unique(rounds, return_index=True)
    levels = (of(losses, axis=0)[first].tolist() for of in (np.mean, np.min, np.max))
    return LossCourse(rounds[first].tolist(), *levels)


def _counts(plan: Plan) -> tuple[object, ...]:
    return plan.rounds, plan.clients_per_round, plan.local


def _mark(point: TrialPoint, guess: WhatIf, unit: float) -> TrialMark:
    label = _label(point.plan, guess.bound.shape.work(point.plan))
    return TrialMark(point.plan.rounds, label, point.loss * unit)


def _label(plan: Plan, work: float) -> str:
    """What a curve holds fixed, as its paper writes it."""
    return method(plan.algorithm).words.curve(plan, work)
