"""Each theory's bound with its constants fitted to trials instead of derived from worst cases.

A bound grows without limit; a loss whose step size is planned anew does not, because a shorter step moves
the model less. Where a step of share s of the way leaves (1 - s)^2 A of an excess A and adds s^2 B of noise,
the best share leaves A B/(A + B). So trials are fitted by

    loss / untrained loss = U / (1 + U),    U = sum of non-negative constants times terms of the theory
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import PchipInterpolator
from scipy.optimize import isotonic_regression, nnls

from noiseworthy.errors import InvalidInput
from noiseworthy.planning.plan import Plan
from noiseworthy.planning.problem import Constant
from noiseworthy.trials.landscape import TrialPoint
from noiseworthy.trials.theory_shapes import Counts, Shape, shape_of

_SLACK = 0.1
"""Loss above the best at which a trial weighs half as much as the best."""
_MOST = 0.98
"""Losses above this share of the untrained one say no more than that training did not help."""
_ROUNDING = 1e-9
POOR = 0.05
"""Error of a fit, as a share of the untrained loss, above which it is said to be poor."""

Real = NDArray[np.float64]


@dataclass(frozen=True)
class FittedBound:
    """A theory's bound whose constants come from trials; a share of the untrained loss in [0, 1).

    Attributes:
        shape: the form of the theory.
        other: the number that enters otherwise than linearly.
        weights: constants of the terms, at least 0, shape (terms,).
        error: root mean square error over the trials within twice the best loss, a share of the untrained
            loss.
        left_out: the same for trials that the fit has not seen, each left out in turn; not a number where
            there are too few.
        trials: counts of the trials, whose range is where the bound is not extrapolated.
        losses: theirs, shape (m,), rising, with the untrained one.
        scores: accuracies that go with these losses, falling.
    """

    shape: Shape
    other: float
    weights: Real
    error: float
    left_out: float
    trials: Counts
    losses: Real
    scores: Real

    def at(self, plan: Plan) -> float:
        """Predicted loss of a plan that trains, over the untrained one."""
        return float(self.of(Counts.of([plan]))[0])

    def of(self, counts: Counts) -> Real:
        """Predicted losses of counts, over the untrained one, shape (m,)."""
        return saturated(self.shape.rows(counts, self.other) @ self.weights)

    def accuracy(self, loss: ArrayLike) -> Real:
        """The accuracy (R^2) that goes with a loss: monotone through the trials, constant beyond them."""
        loss = np.clip(loss, self.losses[0], self.losses[-1])
        if len(self.losses) == 1:
            return np.full(np.shape(loss), self.scores[0])
        return np.asarray(PchipInterpolator(self.losses, self.scores)(loss))

    def inside(self, counts: Counts) -> NDArray[np.bool_]:
        """Whether counts and noise are within those of the trials, shape (m,)."""
        within = np.ones(len(counts), bool)
        for name in ("iterations", "noise"):
            known, asked = getattr(self.trials, name), getattr(counts, name)
            within &= (known.min() <= asked * (1 + _ROUNDING)) & (asked <= known.max() * (1 + _ROUNDING))
        return within

    def constants(self, sources: Sequence[str]) -> dict[str, Constant]:
        """The constants by name, with the public data that they were fitted to."""
        provenance = f"fitted to trials on {', '.join(sources)}"
        values = {self.shape.other: self.other, **dict(zip(self.shape.terms, self.weights, strict=True))}
        return {name: Constant(float(value), provenance) for name, value in values.items()}

    @property
    def quality(self) -> str:
        """How well the theory's form fits, in words."""
        if not np.isfinite(self.left_out):
            return "too few trials to tell how well it fits"
        how = "fits poorly" if self.left_out > POOR else "fits"
        return f"{how}: {self.left_out:.1%} of the untrained loss off, on trials left out"


def saturated(bound: ArrayLike) -> Real:
    """U / (1 + U).

    Example:
        >>> saturated([0.0, 1.0, 3.0])
        array([0.  , 0.5 , 0.75])
    """
    bound = np.asarray(bound, float)
    return bound / (1 + bound)


def fit(points: Sequence[TrialPoint], untrained_accuracy: float) -> FittedBound:
    """The bound of the algorithm's theory with constants fitted to trials.

    For each value of the number that enters otherwise, non-negative least squares finds the rest. A trial
    weighs less, the further it is above the best: plans are made near the best.

    Args:
        points: trials of one algorithm under one clipping mode, at least one.
        untrained_accuracy: of the start, mean over the proxies.

    Returns:
        A `FittedBound`.

    Raises:
        InvalidInput: no trial.
    """
    if not points:
        raise InvalidInput("a bound is fitted to at least one trial, got none; state fewer counts")
    shape = shape_of(points[0].plan.algorithm)
    counts = Counts.of([point.plan for point in points])
    losses = np.minimum([point.loss for point in points], _MOST)
    designs = [(other, shape.rows(counts, other)) for other in shape.others(counts.iterations)]
    other, weights = _best(designs, losses)
    fitted = saturated(shape.rows(counts, other) @ weights)
    scores = [point.accuracy for point in points]
    return FittedBound(
        shape, other, weights, _off(fitted, losses), _left_out(designs, losses), counts,
        *_monotone([*losses, 1.0], [*scores, untrained_accuracy]),
    )  # fmt: skip


def _best(designs: Sequence[tuple[float, Real]], losses: Real) -> tuple[float, Real]:
    """The number and the weights of least error."""
    solved = [(other, *_solved(rows, losses)) for other, rows in designs]
    other, weights, _ = min(solved, key=lambda one: one[2])
    return float(other), weights


def _solved(rows: Real, losses: Real) -> tuple[Real, float]:
    """Weights of the terms, and the weighted error in losses.

    U = L/(1 - L) is linear in the weights; an error dU in it is one of (1 - L)^2 dU in the loss.
    """
    importance = 1 / (1 + (losses - losses.min()) / _SLACK)
    scale = np.maximum(rows.max(axis=0), 1e-300)
    by = importance * np.square(1 - losses)
    weights = nnls(rows / scale * by[:, None], losses / (1 - losses) * by)[0] / scale
    return weights, float(np.sum(np.square(importance * (saturated(rows @ weights) - losses))))


def _off(fitted: Real, losses: Real) -> float:
    """Root mean square error over the trials near the best."""
    near = losses <= 2 * losses.min()
    return float(np.sqrt(np.mean(np.square(fitted - losses)[near])))


def _left_out(designs: Sequence[tuple[float, Real]], losses: Real) -> float:
    """Error of each trial near the best, predicted from the others."""
    if len(losses) <= designs[0][1].shape[1]:
        return np.nan
    predicted = np.empty(len(losses))
    for i in range(len(losses)):
        kept = np.arange(len(losses)) != i
        other, weights = _best([(other, rows[kept]) for other, rows in designs], losses[kept])
        at = next(rows[i] for value, rows in designs if value == other)
        predicted[i] = saturated(at @ weights)
    return _off(predicted, losses)


def _monotone(losses: Sequence[float], scores: Sequence[float]) -> tuple[Real, Real]:
    """Distinct losses, rising, with scores that do not rise."""
    known, place = np.unique(losses, return_inverse=True)
    weights = np.bincount(place).astype(float)
    means = np.bincount(place, scores) / weights
    return known, isotonic_regression(means, weights=weights, increasing=False).x
