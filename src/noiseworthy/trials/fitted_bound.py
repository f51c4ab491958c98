"""Each theory's bound with its constants fitted to trials instead of derived from worst cases.

A bound is for one step size; in trials, as in the product, the step size is planned anew for every budget.
Where a reach of s leaves A/s of a loss and adds B s or B s^2 of noise, the best s leaves a power 1/2 or 1/3
of B. And a loss does not pass the untrained one, because a shorter step moves the model less. So

    loss / untrained loss = floor + (1 - floor) V/(1 + V),    V = U^power,    power 1, 1/2, 1/3 or 1/4,
    U = sum of non-negative constants times the terms of the theory

which rises and falls with U, so that the theory's best counts stay the best.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy._validate import Real
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.registry import method
from noiseworthy.methods.shape import Counts, Shape, shifts
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Constant
from noiseworthy.trials.landscape import TrialPoint

_SLACK = 0.1
"""Loss above the best under the same budget at which a trial weighs half as much."""
_GROUPS = 12
"""Groups that trials are left out in: each alone up to so many."""
_OTHERS = 0.5
"""What a trial under another budget weighs."""
_LEAST, _MOST = 1e-4, 0.98
"""Shares of the way from floor to untrained loss beyond which a loss says nothing more of the bound."""
_POWERS = (1.0, 1 / 2, 1 / 3, 1 / 4)
_FLOORS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Floors to try, as shares of the least loss of any trial."""
POOR = 0.05
"""Error of a fit, as a share of the untrained loss, above which it is said to be poor."""


class Bend(NamedTuple):
    """How a bound U becomes a loss in shares of the untrained one: through V/(1 + V), V = U^power.

    Example:
        >>> Bend(0.5, 0.2).loss(np.array([0.0, 1.0, 9.0])).round(3)
        array([0.2, 0.6, 0.8])
    """

    power: float
    floor: float

    def loss(self, bound: Real) -> Real:
        """The loss where the theory's bound is U."""
        bent = np.power(bound, self.power)
        return self.floor + (1 - self.floor) * bent / (1 + bent)

    def bound(self, loss: Real) -> Real:
        """U where the loss is so much above the floor."""
        share = np.clip((loss - self.floor) / (1 - self.floor), _LEAST, _MOST)
        return np.power(share / (1 - share), 1 / self.power)

    def slope(self, loss: Real) -> Real:
        """d loss / dU where the loss is so much."""
        share = np.clip((loss - self.floor) / (1 - self.floor), _LEAST, _MOST)
        bent, bound = share / (1 - share), self.bound(loss)
        return (1 - self.floor) * np.square(1 - share) * self.power * bent / bound


class _Solution(NamedTuple):
    gamma: float
    bend: Bend
    weights: Real
    misfit: float


@dataclass(frozen=True)
class FittedBound:
    """A theory's bound whose constants come from trials, as a loss in shares of the untrained one, below 1.

    Attributes:
        shape: the form of the theory.
        gamma: by which steps are counted more, the one number that does not enter linearly.
        bend: how the bound becomes a loss.
        weights: constants of the terms, at least 0, shape (terms,).
        error: root mean square error over the trials near the best of their budget, a share of the
            untrained loss.
        left_out: the same for trials that the fit has not seen, left out in turn; not a number where
            there are too few.
        points: the trials.
        trials: their counts.
        losses: theirs, shape (m,), rising, from 0 to the untrained 1.
        scores: accuracies that go with these losses, falling from 1.
    """

    shape: Shape
    gamma: float
    bend: Bend
    weights: Real
    error: float
    left_out: float
    points: tuple[TrialPoint, ...]
    trials: Counts
    losses: Real
    scores: Real

    def at(self, plan: Plan) -> float:
        """Predicted loss of a plan that trains, over the untrained one."""
        return float(self.of(self.shape.counts([plan]))[0])

    def of(self, counts: Counts) -> Real:
        """Predicted losses of counts, over the untrained one, shape (m,)."""
        return self.bend.loss(self.shape.rows(counts, self.gamma) @ self.weights)

    def accuracy(self, loss: ArrayLike) -> Real:
        """The accuracy (R^2) that goes with a loss: monotone through the trials, 1 where nothing is lost."""
        from scipy.interpolate import PchipInterpolator  # here, because it is slow to load

        return np.asarray(PchipInterpolator(self.losses, self.scores)(np.clip(loss, 0, 1)))

    def constants(self, sources: Sequence[str]) -> dict[str, Constant]:
        """The constants by name, with the public data that they were fitted to."""
        provenance = f"fitted to trials on {', '.join(sources)}"
        weights = dict(zip(self.shape.terms, self.weights, strict=True))
        values = {"gamma": self.gamma, **weights, "floor": self.bend.floor, "power": self.bend.power}
        return {name: Constant(float(value), provenance) for name, value in values.items()}

    @property
    def quality(self) -> str:
        """How well the theory's form fits, in words that follow its name."""
        if min(point.loss for point in self.points) >= _MOST:
            return "has nothing to be fitted to: no trial gained on the untrained model"
        if not np.isfinite(self.left_out):
            return "has too few trials to tell how well it fits"
        how = "fits poorly" if self.left_out > POOR else "fits"
        return f"{how}: {self.left_out:.1%} of the untrained loss off, on trials left out"


def fit(points: Sequence[TrialPoint], untrained_accuracy: float) -> FittedBound:
    """The bound of the algorithm's theory with constants fitted to trials.

    The power, the floor and gamma are scanned; for each of them non-negative least
    squares finds the rest. A trial weighs less the further above the best under its budget: plans are near.

    Args:
        points: trials of one algorithm under one clipping mode, at least one.
        untrained_accuracy: of the start, mean over the proxies.

    Returns:
        A `FittedBound`.

    Raises:
        InvalidInput: no trial.
    """
    if not points:
        raise InvalidInput("a bound is fitted to at least one trial, got none; allow other counts")
    shape, sample = method(points[0].plan.algorithm).shape, _Sample.of(points)
    trials = shape.counts([point.plan for point in points])
    designs = {gamma: shape.rows(trials, gamma) for gamma in shifts(trials.iterations).tolist()}
    best = _best(designs, sample)
    fitted = best.bend.loss(designs[best.gamma] @ best.weights)
    left_out = _left_out(designs, sample)
    scores = [point.accuracy for point in points]
    known = _monotone([0.0, *sample.losses, 1.0], [1.0, *scores, untrained_accuracy])
    return FittedBound(
        shape, best.gamma, best.bend, best.weights, sample.error(fitted), left_out, tuple(points), trials,
        *known,
    )  # fmt: skip


class _Sample(NamedTuple):
    """Losses of trials, how far each is above the best under its budget, and which have the study's own."""

    losses: Real
    above: Real
    own: NDArray[np.bool_]

    @classmethod
    def of(cls, points: Sequence[TrialPoint]) -> _Sample:
        losses = np.minimum([point.loss for point in points], _MOST)
        factors = np.array([point.factor for point in points])
        above = losses - [losses[factors == factor].min() for factor in factors]
        return cls(losses, above, factors == 1)

    @property
    def importance(self) -> Real:
        """1 for the best under the study's budget, `_OTHERS` under others; half of it `_SLACK` above."""
        return np.where(self.own, 1.0, _OTHERS) / (1 + self.above / _SLACK)

    def kept(self, which: NDArray[np.bool_]) -> _Sample:
        return _Sample(self.losses[which], self.above[which], self.own[which])

    def error(self, fitted: Real) -> float:
        """Root mean square error over the trials near the best of their budget."""
        return float(np.sqrt(np.mean(np.square(fitted - self.losses)[self.above <= _SLACK])))


def _best(designs: Mapping[float, Real], sample: _Sample) -> _Solution:
    """The solution of least error in losses, over everything that is scanned."""
    return min(_solutions(designs, sample), key=lambda solution: solution.misfit)


def _solutions(designs: Mapping[float, Real], sample: _Sample) -> Iterator[_Solution]:
    """Weights of the terms: U is linear in them, and an error in U is one of slope times that in the loss."""
    from scipy.optimize import nnls  # here, because it is slow to load

    losses, importance = sample.losses, sample.importance
    bends = [Bend(power, floor * losses.min()) for power in _POWERS for floor in _FLOORS]
    counted = [(bend, by := importance * bend.slope(losses), bend.bound(losses) * by) for bend in bends]
    for gamma, rows in designs.items():
        for bend, by, wanted in counted:
            weighed = rows * by[:, None]
            scale = np.maximum(np.abs(weighed).max(axis=0), 1e-300)
            weights = nnls(weighed / scale, wanted)[0] / scale
            misfit = float(np.sum(np.square(importance * (bend.loss(rows @ weights) - losses))))
            yield _Solution(gamma, bend, weights, misfit)


def _left_out(designs: Mapping[float, Real], sample: _Sample) -> float:
    """Error of each trial near the best, predicted from those of other groups."""
    many = len(sample.losses)
    if many <= next(iter(designs.values())).shape[1] + 1:
        return np.nan
    groups, predicted = np.arange(many) % _GROUPS, np.empty(many)
    for group in np.unique(groups):
        out = groups == group
        best = _best({gamma: rows[~out] for gamma, rows in designs.items()}, sample.kept(~out))
        predicted[out] = best.bend.loss(designs[best.gamma][out] @ best.weights)
    return sample.error(predicted)


def _monotone(losses: Sequence[float], scores: Sequence[float]) -> tuple[Real, Real]:
    """Distinct losses, rising, with scores that do not rise; trials without a score are left out."""
    scored = np.isfinite(scores)
    known, place = np.unique(np.asarray(losses)[scored], return_inverse=True)
    weights = np.bincount(place).astype(float)
    means = np.bincount(place, np.asarray(scores)[scored]) / weights
    from scipy.optimize import isotonic_regression

    return known, isotonic_regression(means, weights=weights, increasing=False).x
