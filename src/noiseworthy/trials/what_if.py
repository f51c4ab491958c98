"""What other budgets, more clients or other costs would give: a fitted bound at its best counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy._validate import Real
from noiseworthy.methods.dp_fedavg.bound import sampling_share
from noiseworthy.methods.registry import method
from noiseworthy.methods.shape import Counts
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.trust import TRUST_MODELS, Trust
from noiseworthy.trials.fitted_bound import FittedBound
from noiseworthy.trials.landscape import REACHES, scaled

EPSILONS = COSTS = tuple(float(2 ** (j / 2)) for j in range(-6, 7))
"""Budgets, times the study's, and resources, or uploads per client, times the plan's: 1/8 to 8."""
CLIENTS = tuple(float(2 ** (j / 2)) for j in range(-4, 9))
"""Numbers of clients, times the study's: 1/4 to 16."""
_PLACES = 16
"""Numbers of rounds that are compared."""
_SLACK = 1e-6


@dataclass(frozen=True)
class Curve:
    """Predictions along one axis.

    Attributes:
        axis: what x counts, in words.
        x: its values, rising.
        loss: predicted, over the untrained one; 1 where the best is not to train.
        accuracy: (R^2) that goes with it.
        inside: whether trials had as much noise; elsewhere the theory's form alone carries the prediction.
        own: x of the study.
    """

    axis: str
    x: tuple[float, ...]
    loss: tuple[float, ...]
    accuracy: tuple[float, ...]
    inside: tuple[bool, ...]
    own: float

    def reaching(self, accuracy: float) -> float | None:
        """The least x whose accuracy is so much, between points along log x; None where no x is enough.

        Example:
            >>> Curve("epsilon", (1.0, 4.0), (0.8, 0.4), (0.5, 0.7), (True, True), 1.0).reaching(0.6)
            2.0
        """
        reached = np.flatnonzero(np.maximum.accumulate(self.accuracy) >= accuracy)
        if not reached.size:
            return None
        after = int(reached[0])
        if after == 0:
            return self.x[0]
        low, high = self.accuracy[after - 1], self.accuracy[after]
        share = (accuracy - low) / (high - low)
        return float(self.x[after - 1] ** (1 - share) * self.x[after] ** share)


@dataclass(frozen=True)
class BestCounts:
    """A prediction at the counts that are best for it.

    Attributes:
        loss: over the untrained one; 1 where the best is not to train.
        accuracy: (R^2) that goes with it.
        inside: whether trials had as much noise and as many rounds.
        rounds: that are best; 0 where none can be paid for.
        work: E, tau or p that is best.
    """

    loss: float
    accuracy: float
    inside: bool
    rounds: int
    work: float


@dataclass(frozen=True)
class TrustOutcome:
    """A prediction at the counts that are best under one trust; `own` is the study's."""

    trust: Trust
    best: BestCounts
    own: bool

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        reached = {name: getattr(self.best, name) for name in ("loss", "accuracy", "inside", "rounds")}
        return {**self.trust.as_dict(), **reached, "own": self.own}


@dataclass(frozen=True)
class WhatIf:
    """What a fitted bound says of federations like the study's.

    Attributes:
        bound: fitted to trials on the study's own federation.
        plan: of the study, for the private federation, under the clip that was trialled.
        works: E, tau or p that were trialled.
        rounds: of the trials, least and most.
        own_epsilon: greatest of a client as the study states it, in whose terms others are told: what is
            bought before training is paid for in proportion.
    """

    bound: FittedBound
    plan: Plan
    works: tuple[float, ...]
    rounds: tuple[int, int]
    own_epsilon: float

    @classmethod
    def of(cls, bound: FittedBound, plan: Plan, own_epsilon: float | None = None) -> WhatIf:
        """From a bound and the plan that it was fitted around, whose budget is the study's unless told."""
        counts = bound.trials
        works = tuple(np.unique(counts.work).tolist())
        own = own_epsilon or float(plan.budget.epsilon.max())
        return cls(bound, plan, works, (int(counts.rounds.min()), int(counts.rounds.max())), own)

    def epsilon(self) -> Curve:
        """Along the epsilon of the client that has most, all others in proportion."""
        points = [self.at(scaled(self.plan.problem, factor)) for factor in EPSILONS]
        own = self.own_epsilon
        return _curve("epsilon", [own * factor for factor in EPSILONS], points, own)

    def clients(self) -> Curve:
        """Along the number of clients of like sizes and budgets; what their records add is not counted."""
        n = self.plan.problem.n_clients
        numbers = sorted({max(1, round(n * factor)) for factor in CLIENTS})
        points = [self.at(resized(self.plan.problem, number)) for number in numbers]
        return _curve("clients", numbers, points, n)

    def cost(self) -> Curve:
        """Along the largest resources of a client where the study has them, else along uploads per client."""
        resources = self.plan.problem.resources
        if resources is None:
            own = int(self.plan.uploads.max())
            numbers = sorted({max(1, round(own * factor)) for factor in COSTS})
            points = [self.at(self.plan.problem, most) for most in numbers]
            return _curve("uploads per client", numbers, self._falling(points), own)
        times = [replace(resources, budget=resources.budget * factor) for factor in COSTS]
        afforded = [one for one in times if one.most_rounds(1) >= 1]
        points = [self.at(replace(self.plan.problem, resources=budget)) for budget in afforded]
        spent = [float(budget.budget.max()) for budget in afforded]
        axis = f"budget in {resources.unit}"
        return _curve(axis, spent, self._falling(points), float(resources.budget.max()))

    def _falling(self, points: Sequence[BestCounts]) -> list[BestCounts]:
        """Points along a limit: who may do more can do as well as who may do less, whatever a form says."""
        # less is raised to what more loses, and not more lowered to what less does: of few rounds a form is
        # extrapolated, and trials had those that a larger limit allows
        losses = np.maximum.accumulate([point.loss for point in points][::-1])[::-1]
        scores = self.bound.accuracy(losses)
        return [
            replace(point, loss=float(loss), accuracy=float(score))
            for point, loss, score in zip(points, losses, scores, strict=True)
        ]

    def price_of_points(self) -> list[tuple[float, float]]:
        """Up to 100 further hundredths of accuracy with the epsilon of each, from the study's rounded on."""
        curve = self.epsilon()
        own = curve.accuracy[curve.x.index(curve.own)]
        first, last = round(100 * own) + 1, int(np.floor(100 * max(curve.accuracy)))
        steps = [hundredth / 100 for hundredth in range(first, min(last + 1, first + 100))]
        return [(step, x) for step in steps if (x := curve.reaching(step)) is not None]

    def at(self, problem: Problem, most_uploads: float = np.inf) -> BestCounts:
        """The best prediction over the trialled counts, or over fewer where they cannot be paid for.

        Args:
            problem: the study's with another budget, other clients or resources.
            most_uploads: that a client may make besides what its resources pay for.
        """
        # the noise of such a cohort is infinite, which the form of a bound turns into NaN
        if problem.trust.least_cohort > self._asked(problem):
            most_uploads = 0
        counts = self._counts(problem, most_uploads)
        if not len(counts):
            return BestCounts(1.0, float(self.bound.accuracy(1.0)), False, 0, 1.0)
        losses = self.bound.of(counts)
        best, (least, most) = int(np.argmin(losses)), self._levels
        many = counts.rounds[best] >= self._range(problem)[0]
        inside = bool(many and least <= self._level(problem) <= most)
        loss = min(float(losses[best]), 1.0)
        rounds, work = int(counts.rounds[best]), float(counts.work[best])
        return BestCounts(loss, float(self.bound.accuracy(loss)), inside, rounds, work)

    def along(self, rounds: NDArray[np.int64], work: float) -> Real:
        """Predicted loss of the study for so many rounds of some work, over the untrained one."""
        return self.bound.of(self._of_rounds(self.plan.problem, rounds, work))

    def trusts(self) -> list[TrustOutcome]:
        """The best prediction for each that owners may trust; none for a method that reads single uploads.

        A secure sum is that of the study, or one without colluders and drop-outs.
        """
        own, plan = self.plan.problem.trust, self.plan
        if method(plan.algorithm).reads:
            return []
        every = [own if own.model == model else Trust(model) for model in TRUST_MODELS]
        return [
            TrustOutcome(trust, self.at(replace(plan.problem, trust=trust)), trust == own)
            for trust in every
            if trust.least_cohort <= plan.clients_per_round
        ]

    def as_dict(self) -> dict[str, Any]:
        """Curves with the trials on them, prices and the quality of the fit, as plain values."""
        curves = {"epsilon": self.epsilon(), "clients": self.clients()}
        if self.rounds[1] > 1:  # one round is all that one upload has, whatever more would cost
            curves["cost"] = self.cost()
        marks = self._marks()
        return {
            "curves": {name: {**vars(curve), "trials": marks[name]} for name, curve in curves.items()},
            "prices": [list(price) for price in self.price_of_points()],
            "fit": self.bound.quality,
            "trust": [outcome.as_dict() for outcome in self.trusts()],
        }

    def _marks(self) -> dict[str, list[list[float]]]:
        """Trials as x and accuracy: the best under each budget, and under the study's own all counts."""
        points, problem = self.bound.points, self.plan.problem
        own = [point for point in points if point.factor == 1]
        best = {
            k: min((p for p in points if p.factor == k), key=lambda p: p.loss, default=None) for k in REACHES
        }
        return {
            "epsilon": [[self.own_epsilon * by, point.accuracy] for by, point in best.items() if point],
            "clients": [[problem.n_clients, point.accuracy] for point in [best[1.0]] if point],
            "cost": [[_price(point.plan), point.accuracy] for point in own],
        }

    def _counts(self, problem: Problem, most_uploads: float) -> Counts:
        """Counts to compare, of all works that were trialled."""
        made = [self._of_rounds(problem, self._places(problem, one, most_uploads), one) for one in self.works]
        return Counts(*(np.concatenate(column) for column in zip(*map(Counts.columns, made), strict=True)))

    def _places(self, problem: Problem, work: float, most_uploads: float) -> NDArray[np.int64]:
        """The rounds trialled, with those of the plan, or fewer where they are not paid for."""
        paid = min(most_uploads, problem.most_uploads(self.bound.shape.steps(work)))
        low, high = self._range(problem)
        # inf // b is NaN where nothing is scarce, which min passes over because it comes second
        high = min(high, paid * problem.n_clients // self._asked(problem))
        if high < 1:
            return np.empty(0, np.int64)
        places = np.geomspace(min(low, high), high, _PLACES).round().astype(np.int64)
        own = self.plan.rounds
        return np.unique([*places, own] if low <= own <= high else places)

    def _of_rounds(self, problem: Problem, rounds: NDArray[np.int64], work: float) -> Counts:
        """So many rounds of some work, with the noise that they need."""
        steps, share = self.bound.shape.steps(work), sampling_share(self._asked(problem), problem.n_clients)
        every = np.ones(len(rounds))
        noise = self._noise(problem, rounds, steps) if len(rounds) else every
        return Counts(rounds * every, rounds * steps * every, work * every, share * every, noise)

    def _asked(self, problem: Problem) -> int:
        """b, the same share of all clients as in the plan."""
        share = self.plan.clients_per_round / self.plan.problem.n_clients
        return max(1, round(share * problem.n_clients))

    def _range(self, problem: Problem) -> tuple[int, int]:
        """Rounds in which each client replies as often as in the trials."""
        own, other = self.plan.problem.n_clients / self.plan.clients_per_round, problem.n_clients
        stretch = other / self._asked(problem) / own
        return max(1, round(self.rounds[0] * stretch)), max(1, round(self.rounds[1] * stretch))

    def _noise(self, problem: Problem, rounds: NDArray[np.int64], steps: int) -> Real:
        return self.bound.shape.noise_of(self.plan, problem, rounds, steps, self._asked(problem))

    def _level(self, problem: Problem) -> float:
        """Noise in one aggregate if clients replied as often as in the plan."""
        stretched = self.plan.rounds * self._range(problem)[1] / self.rounds[1]
        steps = self.bound.shape.steps(self.bound.shape.work(self.plan))
        return float(self._noise(problem, np.array([max(1, round(stretched))]), steps)[0])

    @cached_property
    def _levels(self) -> tuple[float, float]:
        """Least and most of it under the budgets of the trials."""
        known = [self._level(scaled(self.plan.problem, factor)) for factor in REACHES]
        return min(known) * (1 - _SLACK), max(known) * (1 + _SLACK)


def resized(problem: Problem, clients: int) -> Problem:
    """As many clients like those of a problem: in order of size, repeated or left out evenly.

    Example:
        >>> budget = PrivacyBudget.of(1.0, 0.0, 3)
        >>> small = Problem(np.array([30, 10, 20]), 4, budget, "laplace", 1.0)
        >>> resized(small, 5).sizes, resized(small, 2).sizes
        (array([10, 10, 20, 30, 30]), array([10, 30]))
    """
    order = np.argsort(problem.sizes, kind="stable")
    places = (np.arange(clients) + 0.5) * problem.n_clients / clients
    kept = order[places.astype(int)] if clients != problem.n_clients else np.arange(clients)
    budget = problem.budget
    few = PrivacyBudget(budget.epsilon[kept], budget.delta[kept], budget.relation, budget.unit)
    resources = problem.resources and problem.resources.of_some(kept)
    return replace(problem, sizes=problem.sizes[kept], budget=few, resources=resources)


def _price(plan: Plan) -> float:
    """What a plan costs the client that pays most: resources where they count, else uploads."""
    return float((plan.uploads if plan.cost is None else plan.cost).max())


def _curve(axis: str, x: Sequence[float], points: Sequence[BestCounts], own: float) -> Curve:
    columns = zip(*((point.loss, point.accuracy, point.inside) for point in points), strict=True)
    return Curve(axis, tuple(map(float, x)), *columns, own=float(own))
