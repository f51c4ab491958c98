"""An audit of a plan: five checks, what each of them found, and a verdict.

    exposure         what the worst canary gives away, if noise is as planned, is within the claim
    bound            what trials prove about epsilon is within the claim
    scale            the noise that is drawn has the size and the law that were planned
    replay           no noise is drawn twice, across rounds, clients, runs and a break with resume
    reconciliation   the schedule makes no more releases than are paid for, and they cost what is allowed

Three of them are statistical. All of them together accuse a sound plan once in a thousand audits at most.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy._wording import rounded_down, rounded_up
from noiseworthy.audit.attack import Bound, Exposure, Trials, attack, bound, exposure_of
from noiseworthy.audit.canaries import ABSENT, Direction, Model, Twin, twin_of
from noiseworthy.audit.observations import Observations, observe
from noiseworthy.audit.residuals import ReplayTest, ScaleTest, replay_test, scale_test
from noiseworthy.audit.targets import Books, Target, reconcile, targets_of
from noiseworthy.data.federation import numbered
from noiseworthy.plans.plan import Plan

FALSE_ALARM = 1e-3
"""How often a sound plan is accused, at most."""
CONFIDENCE = 0.95
"""Of the lower bound that is shown."""
BEYOND = (
    f"{{}} shows more than {{}} with {100 * CONFIDENCE:g} % confidence, as one attack in "
    f"{1 / (1 - CONFIDENCE):.0f} on a sound one may"
)
TRIALS = 40_000
_EACH = FALSE_ALARM / 3
_CLOSED_FORM, _DISTRIBUTION = 1e-4, 5e-3
"""Relative slack of exposures: float32 differences, and the grid of a privacy loss distribution."""
_RESIDUALS = 2_000_000
_WIDEST = 4_096
_ENOUGH = 200_000
"""Residuals that are drawn by further runs where two of a small study make fewer."""
_RUNS, _MOST_RUNS = 2, 100

Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: of the check.
        passed: whether nothing speaks against the claim.
        says: what was found, in a sentence.
    """

    name: str
    passed: bool
    says: str


@dataclass(frozen=True)
class Audit:
    """All that was found about one training.

    Attributes:
        target: what was audited.
        exposure: what the worst canary gives away if noise is as planned.
        trials: scores of the attacker.
        bound: what the scores prove, at the confidence that is shown.
        accusation: the same at the confidence at which a plan is accused.
        scale: of the noise that was drawn.
        replay: of noise that came twice.
        books: what the schedule makes and costs.
        alarm: how often each of the three statistical checks accuses a sound training, at most.
        names: of all clients.
    """

    target: Target
    exposure: Exposure
    trials: Trials
    bound: Bound
    accusation: Bound
    scale: ScaleTest
    replay: ReplayTest
    books: Books
    alarm: float
    names: Sequence[str]

    @property
    def checks(self) -> tuple[Check, ...]:
        """What each check found."""
        return (
            _exposure_check(self),
            _bound_check(self),
            _scale_check(self.scale, self.alarm),
            _replay_check(self.replay, self.alarm),
            _books_check(self.books, self.names),
        )

    @property
    def passed(self) -> bool:
        """Whether no check speaks against the claim."""
        return all(check.passed for check in self.checks)

    @property
    def headline(self) -> int:
        """Place, among the clients under attack, of the one of the largest claim of which most is proven."""
        # of equal claims one may be asked less often than its noise pays for
        claims = self.target.epsilon[self.trials.subjects]
        largest = claims >= claims.max() * (1 - _CLOSED_FORM)
        return int(np.argmax(np.where(largest, self.bound.epsilon, -1.0)))

    @property
    def claimed(self) -> float:
        """Epsilon that is claimed for the client of the headline."""
        return float(self.target.epsilon[self.trials.subjects][self.headline])

    @property
    def proven(self) -> float:
        """Epsilon that the trials prove for that client, at the confidence shown."""
        return float(self.bound.epsilon[self.headline])

    @property
    def beyond(self) -> str:
        """That more is shown than is claimed, in words; empty where it is not."""
        return BEYOND.format(self.target.name, "is claimed") if self.proven > self.claimed else ""


@dataclass(frozen=True)
class Effort:
    """How a plan is audited.

    Attributes:
        ridge: of the study's model.
        model: whether its records are clipped as those of a `linear` model or of a `network`.
        trials: coins that the attacker names, per training.
        seconds: for these trials; when they are over, fewer prove less and are as valid.
        seed: of schedule, coins and noise.
        beyond: owners that collude or are missing beside those that the plan provides for; a sound plan with
            trust in sums is caught with one.
        person: records of the person that is the canary, where persons are hidden.
        names: of all clients; by default their numbers.
    """

    ridge: float = 0.0
    model: Model = "linear"
    trials: int = TRIALS
    seconds: float = np.inf
    seed: int = 0
    beyond: int = 0
    person: int = 2
    names: Sequence[str] = ()

    def __post_init__(self):
        check.count("trials", self.trials)
        if self.seconds != np.inf:
            check.non_negative("seconds", self.seconds)

    def twin(self, target: Target, dimension: int, direction: Direction, model: Model = "linear") -> Twin:
        """A twin of a training, with the ridge and the schedule of this audit."""
        return twin_of(
            target, dimension, direction, model=model, ridge=self.ridge, seed=self.seed, person=self.person
        )


def audit(
    plan: Plan, effort: Effort | None = None, on_progress: Progress = lambda done, what: None
) -> tuple[Audit, ...]:
    """Audit a plan by the product's own algorithm, engine and noise.

    Args:
        plan: with noise and step sizes.
        effort: how; by default 40,000 trials of a linear model without a ridge.
        on_progress: told the share done, and of what.

    Returns:
        One audit of a plan in one stage, two of a plan in two.

    Raises:
        InvalidInput: a plan that does not train, without noise or step sizes.

    Example:
        >>> from noiseworthy.plans.plan import StepSize
        >>> from noiseworthy.plans.problem import Problem
        >>> from noiseworthy.methods.fedsgd_dpc.planner import stated
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.array([50, 80]), 3, PrivacyBudget.of(3.0, 1e-5, 2), "gaussian", 1.0)
        >>> (made,) = audit(stated(problem, 10, 2, StepSize(0.1)), Effort(trials=4_000))
        >>> made.passed, 2.0 < made.proven < 3.0
        (True, True)
    """
    targets, done = targets_of(plan), []
    effort = effort or Effort()
    each = replace(effort, seconds=effort.seconds / len(targets))
    for place, target in enumerate(targets):

        def report(share: float, place: int = place, what: str = target.name) -> None:
            on_progress((place + share) / len(targets), what)

        done.append(_audited(target, each, _EACH / len(targets), report))
    return tuple(done)


def _audited(target: Target, effort: Effort, alarm: float, on_progress: Callable[[float], None]) -> Audit:
    """One training: its noise and its exposure first, then the attack, which takes most of the time."""
    mechanism = target.release.mechanism
    noise = _noise_of(effort.twin(target, _width(target), "spread"), effort.seed)
    on_progress(0.2)
    trials = attack(
        # Laplace noise hides an L1 shift least where one coordinate has all of it; Gaussian noise hides alike
        effort.twin(target, 1, "one") if mechanism.norm == "l1" else effort.twin(target, 2, "spread"),
        trials=effort.trials, seed=effort.seed, seconds=effort.seconds, beyond=effort.beyond,
        on_progress=lambda done: on_progress(0.2 + 0.8 * done),
    )  # fmt: skip
    shown, accusing = (bound(trials, target.delta[trials.subjects], at) for at in (CONFIDENCE, 1 - alarm))
    return Audit(
        target, _exposure(target, effort, noise.in_sums(target.release, target.survivors)), trials,
        shown, accusing,
        scale_test(*_whole(noise, target), mechanism.family), replay_test(noise.residuals, noise.clients),
        reconcile(target.plan, np.bincount(noise.clients.ravel(), minlength=target.plan.problem.n_clients)),
        alarm, effort.names or numbered(target.plan.problem.n_clients),
    )  # fmt: skip


def _whole(noise: Observations, target: Target) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Residuals that have the law of the noise, and whose they are.

    Shares of a law that is not stable have another one; the fewest of a round that make it up have it, as
    those of client 0.
    """
    if target.plan.parts == 1:
        return noise.residuals, noise.clients
    whole = noise.residuals[:, :, : target.survivors].sum(axis=2, keepdims=True)
    return whole, np.zeros_like(noise.clients[:, :1])


def _exposure(target: Target, effort: Effort, noise: Observations) -> Exposure:
    """By a twin of the kind of the study's model; where losses are reported, by one whose losses move too."""
    if effort.model == "linear" and target.loss_noise is None:
        return exposure_of(noise, target)
    twin = effort.twin(target, 2, "spread", "network")
    seen = observe(twin, np.full((1, twin.clients), ABSENT), [effort.seed])
    return exposure_of(seen.in_sums(target.release, target.survivors), target)


def _width(target: Target) -> int:
    """Parameters of the twin whose noise is looked at: those of the study, as far as memory goes."""
    uploads = _RUNS * target.plan.rounds * target.plan.clients_per_round
    return int(np.clip(_RESIDUALS // uploads, 2, min(target.plan.problem.dimension, _WIDEST)))


def _noise_of(twin: Twin, seed: int) -> Observations:
    """Two runs of all rounds at least, broken and resumed half way."""
    rounds, in_each = twin.target.plan.rounds, np.shape(twin.algorithm.cohorts)[1] * twin.noise.shape[2]
    runs = int(np.clip(_ENOUGH // (rounds * in_each), _RUNS, _MOST_RUNS))
    absent = np.full((runs, twin.clients), ABSENT)
    seeds = [seed + run for run in range(runs)]
    return observe(twin, absent, seeds, broken_at=rounds // 2 if rounds > 1 else None)


# What was found, in words ------------------------------------------------------------------------------


def _exposure_check(made: Audit) -> Check:
    exposure, target = made.exposure, made.target
    share = exposure.epsilon / np.where(target.epsilon > 0, target.epsilon, 1.0)
    worst = int(np.argmax(share))
    passed = bool(share[worst] <= 1 + _slack(target))
    given, claim = exposure.epsilon[worst], rounded_up(target.epsilon[worst])
    says = f"the worst canary gives away epsilon {given:.4g} of {made.names[worst]}, {claim} is claimed"
    return Check("exposure", passed, says)


def _slack(target: Target) -> float:
    exact = target.release.mechanism.law.analysis.closed_form(target.release.sampling_rate, target.delta)
    return _CLOSED_FORM if exact else _DISTRIBUTION


def _bound_check(made: Audit) -> Check:
    subjects, accused = made.trials.subjects, made.accusation.epsilon
    claims = made.target.epsilon[subjects]
    over = np.flatnonzero(accused > claims * (1 + _slack(made.target)))
    says = (
        f"{made.trials.count:,} trials prove epsilon {rounded_down(made.proven)} with {100 * CONFIDENCE:g} % "
        f"confidence, {rounded_up(made.claimed)} is claimed"
    )
    if over.size and made.headline not in over:
        proven, claim = float(accused[over[0]]), float(claims[over[0]])
        who = made.names[int(subjects[over[0]])]
        says += f"; of {who} {rounded_down(proven)}, {rounded_up(claim)} is claimed"
    return Check("bound", not over.size, says)


def _scale_check(test: ScaleTest, alarm: float) -> Check:
    passed, seen = test.p_value > alarm, f"{test.count:,} residuals, p = {test.p_value:.2g}"
    says = f"noise is {test.ratio:.4f} times as large as planned ({seen})"
    if not passed:
        says += f"; {test.where}: {test.worst:.4f} times"
    return Check("scale", passed, says)


def _replay_check(test: ReplayTest, alarm: float) -> Check:
    if test.p_value > alarm:
        says = f"no noise comes twice, across rounds, clients and runs (p = {test.p_value:.2g})"
        return Check("replay", True, says)
    again = f"{test.repeated} uploads repeat the noise of another; " if test.repeated else ""
    says = f"{again}noise of {test.where} agrees by {test.correlation:.2f} (p = {test.p_value:.2g})"
    return Check("replay", False, says)


def _books_check(books: Books, names: Sequence[str]) -> Check:
    if books.balanced:
        most = rounded_up(100 * float(np.max(books.spent / books.allowed)))
        says = f"no client uploads more than is paid for; the dearest spends {most} % of its budget"
        return Check("reconciliation", True, says)
    if not books.overdrawn.size:
        says = f"delta at the budget's epsilon is {books.excess:.4g} times the allowed"
        return Check("reconciliation", False, says)
    first = books.overdrawn[0]
    spent, allowed = (rounded_up(float(of[first])) for of in (books.spent, books.allowed))
    says = f"{names[first]} makes {books.made[first]} uploads of {books.planned[first]} paid for, "
    says += f"which cost epsilon {spent} of {allowed}"
    return Check("reconciliation", False, says)
