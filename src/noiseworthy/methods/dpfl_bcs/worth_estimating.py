"""Whether the losses of stage 1 bring more than they cost: decided in public, before anything is released.

Estimating heterogeneity takes budget from every reply and rounds that are planned without it; what it brings
is a second stage that asks the right clients. Both are measured in the planner's own objective J, averaged
over worlds with heterogeneity of a spread that the user vouches for (docs/theory/ma.md#estimation).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from noiseworthy import _validate as check
from noiseworthy._validate import Real
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dpfl_bcs.bound import caps, exponent, kappa, noise_constant
from noiseworthy.methods.dpfl_bcs.heterogeneity import ReportedLosses, estimated
from noiseworthy.methods.dpfl_bcs.search import Counts, Exponent, ParticipationCosts, greedy
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.privacy.calibration import unit_noise

LOSS_SHARE = 0.1
"""b, the part of stage 1's budget that pays for losses (docs/theory/ma.md#stages)."""
_WORLDS = 32
_FEWEST = 4
_MANY = 100
"""Clients from which on fewer worlds are enough, because each averages over more clients."""
_SEED = 20240501
_LEAST_SPREAD = 1e-4
"""Of the loss cap: below it no spread is worth a question."""
_LOG_ERROR = 0.02
"""Relative error of a break-even spread."""


@dataclass(frozen=True)
class Estimation:
    """What stage 1 would spend on knowing Gamma_n.

    Attributes:
        rounds: T0, at least 1 and below T.
        loss_cap: Theta, at which each record's loss is clipped, above 0.
        share: a, the part of the budget that stage 1 takes of every client it asks, in (0, 1).
        loss_share: b, the part of that which buys the losses, in (0, 1).

    Raises:
        InvalidInput: a value out of range.

    Example:
        >>> Estimation.usual(rounds=200, estimation_rounds=10, loss_cap=2.3).share
        0.05
    """

    rounds: int
    loss_cap: float
    share: float
    loss_share: float = LOSS_SHARE

    def __post_init__(self):
        check.count("estimation_rounds", self.rounds)
        check.positive("loss_cap", self.loss_cap)
        check.in_unit_interval("share", self.share, closed_left=False)
        check.in_unit_interval("loss_share", self.loss_share, closed_left=False)

    @classmethod
    def usual(cls, rounds: int, estimation_rounds: int, loss_cap: float) -> Estimation:
        """With the share of the budget that stage 1 has of the rounds, a = T0/T, and b = 0.1."""
        remedy = "leave rounds for the second stage"
        first = check.count("estimation_rounds", estimation_rounds, most=rounds - 1, remedy=remedy)
        return cls(first, loss_cap, first / rounds)


@dataclass(frozen=True)
class Worth:
    """What estimating heterogeneity does to the planner's cost J, expected over worlds; in units of J.

    Attributes:
        one_stage: J of all rounds planned as if clients were alike.
        two_stages: J where stage 1 buys losses and stage 2 is planned by what they tell.
        knowing: J of all rounds planned with the true Gamma_n, which no estimate can beat.
        standard_error: of the mean gain, over the worlds.
        worlds: number of worlds.
    """

    one_stage: float
    two_stages: float
    knowing: float
    standard_error: float
    worlds: int

    @property
    def gain(self) -> float:
        """What estimating saves of J; negative where it costs more than it brings."""
        return self.one_stage - self.two_stages

    @property
    def pays(self) -> bool:
        """Whether the gain is above 0."""
        return self.gain > 0


def worth(
    problem: Problem,
    constants: dict[str, Constant],
    estimation: Estimation,
    *,
    rounds: int,
    clients_per_round: int,
    spread: float,
) -> Worth:
    """The value of estimating heterogeneity of a given spread, in the planner's objective.

        J = sum over replies of their noise, in units of Lambda, + kappa sum T_n Gamma_n

    One stage has T_n^(z+1) Phi_n of noise. In two stages a client that has k replies in a stage with a part
    r of its budget has k^(z+1) Phi_n / r^z: mu^2 is additive (z = 1), epsilon is (z = 2, variance 1/r^2).
    Stage 1 has r = a (1 - b) for replies and a b for two losses with each; stage 2 has r = 1 - a, or 1 for a
    client that stage 1 did not ask.

    Worlds: Gamma_n independent, Beta on [0, Theta] with mean and deviation both equal to the spread. For a
    small spread this is the exponential law, the least assuming one of its mean, a few clients being odd; for
    Theta/2, the largest spread there can be, every other client has 0 and the rest Theta. Reports are
    Gamma_n with the noise that Theta/D_n needs, read by `heterogeneity.estimated`. Draws have a fixed seed,
    the same for every spread, so that the answer is a function of public values.

    This favours estimating. Losses at early models differ less between clients than Gamma_n does, not at all
    at a first model that gives every record the same loss, and they do not tell Gamma_n from min F_n.

    Args:
        problem: public facts and whole budgets, with clipping A.
        constants: `smoothness` L and `strong_convexity` mu.
        estimation: what stage 1 would spend.
        rounds: T, of both stages.
        clients_per_round: K.
        spread: standard deviation of Gamma_n between clients, above 0 and below Theta/2.

    Returns:
        `Worth`.

    Raises:
        InvalidInput: a spread or T0 out of range, constants that are missing, rounds that cannot be filled.

    Guarantee: reads public values only.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.full(40, 600), 50, PrivacyBudget.of(1.0, 1e-5, 40), "gaussian", 1.0)
        >>> values = dict(smoothness=1.0, strong_convexity=0.1)
        >>> constants = {name: Constant(value, "assumed") for name, value in values.items()}
        >>> spend = Estimation.usual(rounds=100, estimation_rounds=10, loss_cap=2.3)
        >>> found = [
        ...     worth(problem, constants, spend, rounds=100, clients_per_round=8, spread=one)
        ...     for one in (0.0001, 0.3)
        ... ]
        >>> [one.pays for one in found]
        [False, True]

    Source: docs/theory/ma.md#estimation; the paper estimates always and counts no cost.
    """
    most = estimation.loss_cap / 2
    if not 0 < spread < most:
        raise InvalidInput(
            f"heterogeneity_spread must lie between 0 and loss_cap / 2 = {most:g}, more than which values "
            f"between 0 and loss_cap cannot deviate, got {spread:g}; state another, or leave it out"
        )
    question = _Question.of(problem, constants, estimation, rounds, clients_per_round)
    ways = (question.one, question.two, question.knowing)
    costs = np.array([[way(world) for way in ways] for world in question.worlds(spread)])
    error = np.std(costs[:, 0] - costs[:, 1], ddof=1) / np.sqrt(len(costs))
    one, two, knowing = costs.mean(axis=0).tolist()
    return Worth(one, two, knowing, float(error), len(costs))


def break_even(
    problem: Problem,
    constants: dict[str, Constant],
    estimation: Estimation,
    *,
    rounds: int,
    clients_per_round: int,
) -> float | None:
    """The least spread of Gamma_n for which estimating it pays in the mean; None where no spread does.

    The root of the mean gain in the logarithm of the spread, to 2 %, between Theta / 10^4 and Theta / 2. With
    the same draws for every spread the gain is nearly monotone: what is worth knowing grows with the spread.
    Arguments are those of `worth`.

    Returns:
        The spread, in units of the loss; Theta / 10^4 where even less pays.

    Raises:
        InvalidInput: T0 not below T, constants that are missing, rounds that cannot be filled.

    Guarantee: reads public values only.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.full(9, 600), 10**6, PrivacyBudget.of(1.0, 1e-5, 9), "gaussian", 1.0)
        >>> values = dict(smoothness=1.0, strong_convexity=0.1)
        >>> constants = {name: Constant(value, "assumed") for name, value in values.items()}
        >>> spend = Estimation.usual(rounds=30, estimation_rounds=5, loss_cap=2.3)
        >>> print(break_even(problem, constants, spend, rounds=30, clients_per_round=3))
        None

    Source: docs/theory/ma.md#estimation.
    """
    question = _Question.of(problem, constants, estimation, rounds, clients_per_round)

    def gain(log_spread: float) -> float:
        worlds = question.worlds(float(np.exp(log_spread)))
        return float(np.mean([question.one(world) - question.two(world) for world in worlds]))

    low, high = np.log(estimation.loss_cap * np.array([_LEAST_SPREAD, 0.5 * (1 - _LEAST_SPREAD)]))
    if gain(high) <= 0:
        return None
    if gain(low) >= 0:
        return float(np.exp(low))
    from scipy.optimize import brentq  # here, because it is slow to load

    found = brentq(gain, low, high, xtol=_LOG_ERROR)
    return float(np.exp(found))  # pyright: ignore[reportArgumentType, reportCallIssue]


def loss_noise(problem: Problem, reports: Counts, loss_cap: float, share: float) -> Real:
    """Standard deviation of the noise on each of two losses per report, from a part of the budget.

        Gaussian: (Theta / D_n) sqrt(2 k / share) / mu_n    Laplace: sqrt(2) (Theta / D_n) 2 k / (share eps_n)

    Args:
        problem: sizes D_n and whole budgets.
        reports: k, of each client, shape (N,); infinite noise for 0.
        loss_cap: Theta, at which each record's loss is clipped: the mean loss has sensitivity Theta / D_n.
        share: part of mu_n^2, or of epsilon_n, that pays for all losses together.

    Returns:
        shape (N,).

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.array([100, 50]), 5, PrivacyBudget.of(1.0, 0.0, 2), "laplace", 1.0)
        >>> loss_noise(problem, np.array([1, 0]), loss_cap=2.0, share=0.5).round(3)
        array([0.113,   inf])

    Source: docs/theory/ma.md#stages.
    """
    z = exponent(problem)
    unit = unit_noise(problem.family, problem.budget, np.maximum(2 * reports, 1))
    std = loss_cap / problem.sizes * unit * np.sqrt(z) / share ** (z / 2)
    return np.where(reports > 0, std, np.inf)


# Worlds -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Stage:
    """Rounds that are planned together: Phi_n / r^z, z, caps, and K times the rounds."""

    noise: Real
    exponent: Exponent
    most: Counts
    replies: int

    def costs(self, bias: Real) -> ParticipationCosts:
        """J with kappa Gamma_n as given."""
        return ParticipationCosts.of(self.noise, bias, self.exponent, self.most)

    def asked(self, bias: Real) -> Counts:
        """T_n that are best for it."""
        return greedy(self.costs(bias), self.replies)


class _World(NamedTuple):
    """kappa Gamma_n beyond the least, as it is and as stage 1 lets it appear; shape (N,) each."""

    bias: Real
    guess: Real


@dataclass(frozen=True)
class _Question:
    """What `worth` is asked, but for the spread: stages, with the T_n that are planned without knowledge."""

    whole: _Stage
    alike: Counts
    first: _Stage
    reports: Counts
    second: _Stage
    kappa: float
    estimation: Estimation
    noise_std: Real

    @classmethod
    def of(
        cls,
        problem: Problem,
        constants: dict[str, Constant],
        estimation: Estimation,
        rounds: int,
        clients_per_round: int,
    ) -> _Question:
        z, k, first = exponent(problem), clients_per_round, estimation.rounds
        later = rounds - check.count("estimation_rounds", first, most=rounds - 1, remedy="T0 is below T")
        phi, most = problem.upload_variance / noise_constant(problem), caps(problem, rounds)
        a = estimation.share
        whole = _Stage(phi, z, most, k * rounds)
        start = _Stage(phi / (a * (1 - estimation.loss_share)) ** z, z, caps(problem, first), k * first)
        nothing = np.zeros(problem.n_clients)
        reports = start.asked(nothing)
        left = np.where(reports > 0, 1 - a, 1.0)
        return cls(
            whole=whole,
            alike=whole.asked(nothing),
            first=start,
            reports=reports,
            second=_Stage(phi / left**z, z, np.minimum(most - reports, later), k * later),
            kappa=kappa(problem, constants, rounds, k),
            estimation=estimation,
            noise_std=loss_noise(problem, reports, estimation.loss_cap, a * estimation.loss_share),
        )

    def worlds(self, spread: float) -> Iterator[_World]:
        """Worlds of one spread, from the same draws for every spread."""
        number = max(_FEWEST, _WORLDS * _MANY // max(len(self.reports), _MANY))
        for seed in np.random.SeedSequence(_SEED).spawn(number):
            yield self._world(spread, np.random.default_rng(seed))

    def one(self, world: _World) -> float:
        """J of one stage that takes clients for alike."""
        return self.whole.costs(world.bias).value(self.alike)

    def two(self, world: _World) -> float:
        """J of two stages, the second planned by the guess."""
        later = self.second.asked(world.guess)
        return self.first.costs(world.bias).value(self.reports) + self.second.costs(world.bias).value(later)

    def knowing(self, world: _World) -> float:
        """J of one stage that knows."""
        return self.whole.costs(world.bias).value(self.whole.asked(world.bias))

    def _world(self, spread: float, rng: np.random.Generator) -> _World:
        truth = _between_clients(rng, spread, self.estimation.loss_cap, len(self.reports))
        found = estimated(self._released(rng, truth), len(truth)).value
        return _World(self.kappa * (truth - truth.min()), self.kappa * (found - found.min()))

    def _released(self, rng: np.random.Generator, truth: Real) -> ReportedLosses:
        """What stage 1 releases: T_n losses in different rounds, all rounds at one level."""
        order = rng.permutation(len(truth))
        clients = np.repeat(order, self.reports[order])
        rounds, size = np.arange(len(clients)) % self.estimation.rounds, self.noise_std[clients]
        laplace = self.first.exponent == 2
        draws = rng.laplace(0, np.sqrt(0.5), len(clients)) if laplace else rng.normal(size=len(clients))
        losses = truth[clients] + size * draws
        return ReportedLosses(clients, rounds, losses, losses, self.noise_std, self.estimation.loss_cap)


def _between_clients(rng: np.random.Generator, spread: float, loss_cap: float, clients: int) -> Real:
    """Beta draws in [0, Theta] whose mean and standard deviation both equal the spread."""
    # Beta(a, b) with a = 1 - 2 p and a + b = (1 - 2 p)/p has mean p and variance p (1 - p)/(a + b + 1) = p^2
    part = spread / loss_cap
    from scipy.special import betaincinv

    return loss_cap * betaincinv(1 - 2 * part, (1 / part - 2) * (1 - part), rng.random(clients))
