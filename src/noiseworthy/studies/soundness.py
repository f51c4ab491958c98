"""Whether a plan holds what it claims, whoever wrote it: noise, counts, clip and stages hang together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from noiseworthy.errors import PlanError
from noiseworthy.methods.dpfl_bcs.two_stages import LOSSES_PER_REPLY, FirstStage, stage_before
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import Sensitivity, of_mean_loss
from noiseworthy.studies.plan_codec import same

_ROUNDING = 1e-9
"""Part of an epsilon that is a matter of rounding."""
_LAST_BITS = 1e-12
"""The same of a sensitivity, which is a product of few factors."""


def check_sound(plan: Plan) -> None:
    """Refuse a plan whose parts claim what they do not hold.

    What no value of a plan can show is left to the study that it is for: sizes and budgets, and whether the
    model meets the condition of its clipping mode.

    Raises:
        PlanError: noise that does not pay for the budgets, for another sensitivity, or for fewer releases
            than are planned; a stage that releases something else than it is charged for.
    """
    if plan.release is None or not plan.problem.law.noisy:
        return
    release, clients = plan.release, len(plan.problem.sizes)
    if {len(release.mechanism.size), len(release.sensitivity.value), len(plan.releases)} != {clients}:
        raise _unsound("plan.release", "is of other clients than plan.problem")
    # a NaN would pass every comparison below; none gets here, because noise, budgets and sensitivities refuse
    # it where they are made, also when they are read from a file
    if np.any(plan.spent() > plan.budget.epsilon * (1 + _ROUNDING)):
        raise _unsound("plan.release", "does not pay for the budgets of plan.problem")
    if np.any(plan.released_by(plan.uploads) > plan.releases) or np.any(plan.uploads > plan.rounds):
        raise _unsound("plan.releases", "are fewer than plan.rounds make")
    _check_hides(plan.release, plan.problem.sensitivity, "plan.release")
    _check_shared(plan, plan.release)
    if plan.release.sampling_rate < plan.problem.rate_of(plan.clients_per_round):
        raise _unsound("plan.release.sampling_rate", "is less than plan.problem and clients_per_round give")
    if plan.pilot is not None:
        _check_hides(plan.pilot.parts[0][0], plan.problem.sensitivity, "plan.pilot")
    if plan.in_stages:
        _check_first(plan, stage_before(plan))


def _check_hides(release: Release, needed: Sensitivity, where: str) -> None:
    """Noise is for no less than one record, or one client, can change."""
    claimed = release.sensitivity
    kinds = [(one.norm, one.unit, one.relation, one.sampling_rate) for one in (claimed, needed)]
    if kinds[0] != kinds[1] or np.any(claimed.value < needed.value * (1 - _LAST_BITS)):
        raise _unsound(where, "is for another sensitivity than clip and sizes of plan.problem give")


def _check_shared(plan: Plan, release: Release) -> None:
    """Noise counts on no more owners than are left in a sum, and on none where each upload is seen."""
    trust, sharing = plan.problem.trust, release.sharing
    if (sharing is not None) != trust.in_sums:
        raise _unsound("plan.release.sharing", "is of another trust than plan.problem.trust")
    if sharing is None:
        return
    if plan.before:
        raise _unsound("plan.pilot", "releases single uploads, which plan.problem.trust does not show")
    too_few = sharing.survivors > plan.problem.noises_in(plan.clients_per_round)
    if too_few or len(sharing.weights) != len(plan.releases):
        raise _unsound("plan.release.sharing", "counts more noises than plan.problem.trust leaves in a sum")


def _check_first(plan: Plan, first: FirstStage) -> None:
    """Stage 1 makes the releases that it is charged for, of the same clients under the same clip."""
    (gradients, asked), (losses, told) = first.parts
    made, problem = first.plan, plan.problem
    if not (same(made.release, gradients) and same(made.releases, asked)):
        raise _unsound("plan.pilot.parts", "are not what plan.pilot.plan releases")
    alike = same(replace(made.problem, budget=problem.budget), problem)
    if not alike or np.any(told < LOSSES_PER_REPLY * asked):
        raise _unsound("plan.pilot.plan", "is not of the clients, clip and replies that it is charged for")
    loss = of_mean_loss(first.loss_cap, problem.sizes, problem.norm, problem.budget.relation)
    _check_hides(losses, replace(loss, unit=problem.row), "plan.pilot.parts[1]")


def _unsound(where: str, why: str) -> PlanError:
    return PlanError(f"{where} {why}; take the plan that was reviewed, or plan the study again")
