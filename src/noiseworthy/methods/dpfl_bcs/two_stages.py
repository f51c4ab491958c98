"""DPFL-BCS in two stages: a few rounds in which clients also report noised losses, then a plan made by them.

Stage 1 asks clients by P1 as if their data were alike, and takes the share T0/T of every budget, a tenth of
it for the losses. Stage 2 plans the other rounds by the heterogeneity that the losses tell, on what the
privacy filter has left of every budget (docs/theory/ma.md#stages).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy._wording import count
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dpfl_bcs import planner as participation
from noiseworthy.methods.dpfl_bcs.bound import Curvature
from noiseworthy.methods.dpfl_bcs.heterogeneity import Heterogeneity, ReportedLosses, estimated
from noiseworthy.methods.dpfl_bcs.losses import LOSSES_PER_REPLY
from noiseworthy.methods.dpfl_bcs.worth_estimating import LOSS_SHARE
from noiseworthy.plans.plan import Plan, Stage, StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.filters import PrivacyFilter
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import Sensitivity, of_mean_loss


@dataclass(frozen=True)
class FirstStage(Stage):
    """Rounds before the plan, in which clients send gradients and report losses.

    Attributes:
        parts: the gradients, and the single losses, with how often each client releases them.
        budget: whole.
        plan: of these T0 rounds.
        loss_cap: Theta, to which every record's loss is clipped.
        told: the noised losses, once they are released; None before.
    """

    plan: Plan
    loss_cap: float
    told: ReportedLosses | None = None
    trains: ClassVar[bool] = True
    rule: ClassVar[str] = "who is asked how often, by the heterogeneity that noised losses tell"

    @property
    def pending(self) -> bool:
        """Whether its rounds are still to be run."""
        return self.told is None

    @property
    def rounds(self) -> int:
        """T0."""
        return self.plan.rounds

    @property
    def step(self) -> StepSize | None:
        """Its plan's."""
        return self.plan.step

    @property
    def losses(self) -> Release:
        """One reported loss."""
        return self.parts[1][0]

    @property
    def noise_std(self) -> NDArray[np.float64]:
        """Standard deviation of the noise on each loss, infinite where none is reported, shape (N,)."""
        return np.where(self.plan.releases > 0, np.sqrt(self.losses.mechanism.variance), np.inf)

    def rest(self, made: Plan, told: ReportedLosses) -> Plan:
        """The plan of stage 2 by what this stage released, which it holds from then on."""
        again = replanned(made, estimated(told, made.problem.n_clients))
        return replace(again, pilot=replace(self, told=told))

    def as_dict(self) -> dict[str, Any]:
        """What `plan --json` says of stage 1, under `estimation`."""
        asked = self.plan.releases > 0
        return {
            "estimation": {
                "rounds": self.plan.rounds,
                "releases": self.plan.releases.tolist(),
                "noise": self.plan.noise.tolist(),
                "loss_noise": np.where(asked, self.losses.mechanism.size, 0.0).tolist(),
                "losses_per_reply": LOSSES_PER_REPLY,
                "loss_cap": self.loss_cap,
            }
        }


def plan(
    problem: Problem, constants: dict[str, Constant], *, rounds: int, clients_per_round: int,
    estimation_rounds: int, loss_cap: float, step: StepSize | None = None, momentum: float = 0.0,
    notes: tuple[str, ...] = (),
) -> Plan:  # fmt: skip
    """Plan DPFL-BCS in two stages; of stage 2 what is planned if clients turn out to be alike.

    Args:
        problem: public facts and budget, with clipping A; Gaussian noise, or Laplace with delta 0.
        constants: `smoothness` and `strong_convexity`, by which stage 2 weighs heterogeneity.
        rounds: T of both stages together.
        clients_per_round: K.
        estimation_rounds: T0, at least 1 and below T.
        loss_cap: Theta above 0, to which a record's loss is clipped before it is reported.
        step: step sizes of all T rounds; those of the theory if not given.
        momentum: of the server, in [0, 1).
        notes: warnings to carry.

    Returns:
        The plan of stage 2, T - T0 rounds, whose `pilot` is stage 1. Give it to `replanned` with what stage 1
        released.

    Raises:
        InvalidInput: T0 out of range, a cap that is not above 0, a missing constant, no noise, a resource
            budget, and what `participation.plan` refuses.

    Guarantee: both stages together spend at most every client's budget, whatever the losses turn out to be.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> budget = PrivacyBudget.of([0.5, 1.0, 2.0, 4.0], 1e-5, 4)
        >>> problem = Problem(np.full(4, 600), 11, budget, "gaussian", 1.0)
        >>> known = {name: Constant(1.0, "assumed") for name in ("smoothness", "strong_convexity")}
        >>> made = plan(problem, known, rounds=20, clients_per_round=2, estimation_rounds=4, loss_cap=2.3)
        >>> made.rounds, made.pilot.uploads, made.releases
        (16, array([0, 1, 3, 4]), array([ 1,  3, 12, 16]))

    Source: docs/theory/ma.md#stages; Ma et al., Algorithms 1 and 2, which split budgets in another way
        (docs/theory/ma.md#second-stage).
    """
    total = check.count("rounds", rounds)
    remedy = f"stage 2 needs a round of the {total}"
    first_rounds = check.count("estimation_rounds", estimation_rounds, most=total - 1, remedy=remedy)
    cap = check.positive("loss_cap", loss_cap).item()
    _check_plannable(problem, constants)
    whole = PrivacyFilter.open(problem.budget, problem.family)
    step = step or participation.theory_step(Curvature.among(constants))
    first = _first_stage(problem, clients_per_round, first_rounds, first_rounds / total, cap, step)
    first = replace(first, plan=replace(first.plan, momentum=momentum))
    later = None if step is None else later_step(step, first_rounds)
    made = participation.plan(
        replace(problem, budget=_left(whole, first)), constants, rounds=total - first_rounds,
        clients_per_round=clients_per_round, step=later, asked_before=first.uploads, notes=notes,
    )  # fmt: skip
    outcome = f"{_introduction(first)} If clients prove alike, then: {made.outcome}"
    said = tuple(one.replace(" never asked:", " never asked if all prove alike:") for one in made.notes)
    return replace(made, pilot=first, momentum=momentum, outcome=outcome, notes=said)


def replanned(made: Plan, found: Heterogeneity) -> Plan:
    """The plan of stage 2 by the heterogeneity that stage 1's losses tell.

    Args:
        made: of `plan`, with the constants to weigh heterogeneity by.
        found: Gamma_n by what stage 1 released.

    Raises:
        InvalidInput: a plan without a first stage.

    Guarantee: budget, rounds and steps are those of `made`; only counts, and noise with them, change.
    """
    first = stage_before(made)
    again = participation.plan(
        made.problem, made.constants, rounds=made.rounds, clients_per_round=made.clients_per_round,
        heterogeneity=found.value, step=made.step, asked_before=first.uploads,
    )  # fmt: skip
    outcome = f"{_introduction(first)} Then: {again.outcome}"
    kept = {"momentum": made.momentum, "averaging": made.averaging, "ranges": made.ranges}
    return replace(again, pilot=first, outcome=outcome, **kept)


def stage_before(made: Plan) -> FirstStage:
    """Stage 1 of a plan of stage 2.

    Raises:
        InvalidInput: a plan in one stage.
    """
    if not isinstance(made.pilot, FirstStage):
        raise InvalidInput("this plan has one stage; plan with two_stages.plan to estimate first")
    return made.pilot


def later_step(step: StepSize, rounds: int) -> StepSize:
    """The same step sizes, counted from a later round.

    Example:
        >>> later_step(StepSize(0.1, 50.0), 50).at(np.array([25])), StepSize(0.1, 50.0).at(np.array([75]))
        (array([0.04]), array([0.04]))
    """
    if step.decay_rounds == float("inf"):
        return step
    return StepSize(float(step.at(np.array(rounds))), step.decay_rounds + rounds)


# Stage 1 ----------------------------------------------------------------------------------------------


def _first_stage(
    problem: Problem, clients_per_round: int, rounds: int, share: float, cap: float, step: StepSize | None
) -> FirstStage:
    """T0 rounds as if clients were alike, with the noise that their share of the budget pays for."""
    # with whole budgets: the share of stage 1 raises all Phi_n by one factor, which moves no T_n
    first = participation.plan(problem, {}, rounds=rounds, clients_per_round=clients_per_round, step=step)
    asked = first.releases
    times = np.maximum(asked, 1)
    gradients = _released(problem, problem.sensitivity, share * (1 - LOSS_SHARE), times)
    mean_loss = of_mean_loss(cap, problem.sizes, problem.norm, problem.budget.relation)
    mean_loss = replace(mean_loss, unit=problem.row)
    losses = _released(problem, mean_loss, share * LOSS_SHARE, LOSSES_PER_REPLY * times)
    alone = participation.stated(problem, asked, clients_per_round, rounds, step)
    parts = (gradients, asked), (losses, LOSSES_PER_REPLY * asked)
    return FirstStage(parts, problem.budget, replace(alone, release=gradients), cap)


def _released(problem: Problem, sensitivity: Sensitivity, share: float, times: NDArray[np.int64]) -> Release:
    """Noise of which `times` releases spend a share of mu^2, or of epsilon."""
    size = problem.law.paid_in.analysis.noise(sensitivity.value, problem.budget, share, times)
    return Release(problem.law.noise(size), sensitivity)


def _left(whole: PrivacyFilter, first: FirstStage) -> PrivacyBudget:
    """What stage 1 leaves of every budget."""
    (gradients, asked), (losses, told) = first.parts
    return whole.charge(gradients, asked).charge(losses, told).remaining


def _check_plannable(problem: Problem, constants: dict[str, Constant]) -> None:
    if Curvature.among(constants) is None:
        raise InvalidInput(
            "estimation_rounds above 0 needs smoothness and strong_convexity, by which heterogeneity is "
            "weighed against noise; state both under [constants], or set estimation_rounds = 0"
        )
    if problem.resources is not None:
        raise InvalidInput("estimation_rounds above 0 allows no [resources]; set estimation_rounds = 0")


def _introduction(first: FirstStage) -> str:
    return f"{count(first.plan.rounds, 'round')} first, in which clients also report noised losses."
