"""The planner's bound with its constants fitted to trials instead of derived from worst cases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from noiseworthy.planning.replies_bound import RepliesBound

_GAMMAS = np.geomspace(0.1, 1000, 81)
_SLACK = 0.05
NEAR_LIMIT = 0.01


@dataclass(frozen=True)
class TrialPoint:
    """One cell of the landscape: T rounds, b of n clients, aggregate noise n(T, b), mean loss share."""

    rounds: int
    asked: float
    noise: float
    loss: float


def fit_replies_bound(points: list[TrialPoint], untrained_loss: float) -> tuple[RepliesBound, float]:
    """Fit U(T, b) = offset + (sampling asked + rest + noise_weight n) / (T + gamma) to trial losses.

    For each gamma the other four numbers enter linearly and may not be negative, so that non-negative
    least squares finds them; gamma is scanned. Points near the best loss weigh most.

    Args:
        points: trial cells with `asked` = (N-b)/((N-1) b) and losses as shares of the untrained loss.
        untrained_loss: loss of the study's start, the unit of the answer.

    Returns:
        The bound in units of test loss, and the root mean square error of the fit as a share of the
        untrained loss, over the points that are within twice the best loss.
    """
    losses = np.minimum([p.loss for p in points], 1.5)
    weights = 1 / (losses - losses.min() + _SLACK)
    solutions = [_solve(points, losses, weights, gamma) for gamma in _GAMMAS]
    best = int(np.argmin([residual for _, residual in solutions]))
    offset, sampling, rest, noise_weight = solutions[best][0].tolist()
    design = _design(points, _GAMMAS[best])
    near = losses <= max(2 * losses.min(), losses.min() + _SLACK)
    error = float(np.sqrt(np.mean(np.square(design @ solutions[best][0] - losses)[near])))
    bound = RepliesBound(
        gamma=float(_GAMMAS[best]),
        sampling=untrained_loss * sampling,
        rest=untrained_loss * rest,
        noise_weight=untrained_loss * noise_weight,
        no_training=untrained_loss,
        offset=untrained_loss * offset,
        unit="test loss, predicted from trials on public data",
        near_limit=NEAR_LIMIT,
    )
    return bound, error


def _solve(
    points: list[TrialPoint], losses: NDArray[np.float64], weights: NDArray[np.float64], gamma: float
) -> tuple[NDArray[np.float64], float]:
    design = _design(points, gamma)
    scale = np.maximum(design.max(axis=0), 1e-300)
    solution, residual = nnls(design / scale * weights[:, None], losses * weights)
    return solution / scale, residual


def _design(points: list[TrialPoint], gamma: float) -> NDArray[np.float64]:
    rows = [
        (1.0, p.asked / (p.rounds + gamma), 1 / (p.rounds + gamma), p.noise / (p.rounds + gamma))
        for p in points
    ]
    return np.array(rows)
