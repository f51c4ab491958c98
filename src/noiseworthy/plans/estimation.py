"""Where the constants of a bound come from: the model itself, or one charged round of noised gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from noiseworthy import _validate as check
from noiseworthy._validate import Real
from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.plans.problem import ANALYTIC, Constant, Problem
from noiseworthy.privacy.filters import PrivacyFilter
from noiseworthy.privacy.releases import Release

LinearLossName = Literal["softmax", "logistic", "hinge", "squared"]
CURVATURE = {"softmax": 0.5, "logistic": 0.25, "hinge": 1.0, "squared": 1.0}
"""Largest eigenvalue of the second derivative of a loss in its outputs."""
_SLOPE = {"softmax": np.sqrt(2), "logistic": 1.0, "hinge": 1.0, "squared": np.inf}


def analytic_constants(
    loss: LinearLossName, record_norm: float | None, ridge: float, clip_norm: float, classes: int | None
) -> dict[str, Constant]:
    """Constants of a linear model that need no data, only public bounds.

    With ||x|| <= R and ridge mu: L = c R^2 + mu (c = 1/2 softmax, 1/4 logistic, 1 hinge),
    G = min(slope R, C), F(0) = ln K (hinge 1/2), Gamma <= F(0), Y_0 <= min(2 F(0)/mu, (slope R/mu)^2): the
    optimum is that of the unclipped loss, so the clip bounds G and not Y_0.

    Args:
        loss: of the linear model.
        record_norm: R, guaranteed by projection; `[task] feature_norm`.
        ridge: mu, above 0.
        clip_norm: C.
        classes: K; None for regression, where F(0) has no public bound.

    Raises:
        InvalidInput: no record norm, no ridge, or a regression.

    Example:
        >>> constants = analytic_constants("softmax", 1.0, 0.1, 10.0, 10)
        >>> constants["smoothness"]
        Constant(value=0.6, provenance='analytic')

    Source: docs/theory/zhou.md#constants; these bounds are sound, and on real data they make the planner's
        bound vacuous.
    """
    shape = _shape_of(loss, record_norm, ridge, classes)
    mu = shape.strong_convexity
    return _analytic(
        smoothness=shape.smoothness,
        strong_convexity=mu,
        gradient_bound=min(shape.steepest, clip_norm),
        initial_distance_sq=min(2 * shape.start / mu, (shape.steepest / mu) ** 2),
        heterogeneity=shape.start,
    )


def averaging_constants(
    loss: LinearLossName,
    record_norm: float | None,
    ridge: float,
    clip_norm: float,
    classes: int | None,
    records: ArrayLike,
    dimension: int,
) -> dict[str, Constant]:
    """Constants of DP-PASGD for a linear model that need no data, only public bounds.

    With ||x|| <= R, ridge lambda, and X_m records in a local step of device m:

        L = c R^2 + lambda,    xi^2 = mean over m of min(slope R, C)^2 / X_m,    alpha = F(0),
        noise_dimension = (o c R^2 + lambda d) / L, with o = K outputs for softmax and 1 else

    c, slope and F(0) are those of `analytic_constants`. Strong convexity gives what the bound asks of
    lambda: ||grad F||^2 / 2 >= lambda (F - F*). A loss is at least 0, hence alpha >= F(0) - F*. xi^2 bounds
    the variance of a mean of X_m record gradients that are drawn independently from one law. So it rests
    on devices that are alike (Assumption 3 of the paper): where they differ by more than chance, as a
    partition by owner makes them, no public number bounds how far a device's gradient is off.

    If C is below slope R, F is the loss whose gradient is the clipped one, which exists for one output.

    Args:
        loss, record_norm, classes: as `analytic_constants`.
        ridge: lambda, above 0; no part of the clipped gradient.
        clip_norm: C, above 0.
        records: X_m of each device, or one number for all; the whole device for full batches.
        dimension: d.

    Returns:
        `smoothness`, `strong_convexity`, `gradient_variance` (xi^2), `initial_gap` (alpha), and
        `noise_dimension`: the trace of a matrix that dominates every Hessian, over L.

    Raises:
        InvalidInput: no record norm, no ridge, a regression, no clip above 0, a device without records.

    Example:
        >>> constants = averaging_constants("hinge", 1.0, 0.01, 1.0, 2, [100, 200], 50)
        >>> {name: round(constant.value, 6) for name, constant in constants.items()}
        {'smoothness': 1.01, 'strong_convexity': 0.01, 'gradient_variance': 0.0075, 'initial_gap': 0.5, \
'noise_dimension': 1.485149}

    Source: docs/theory/hu.md#setting, docs/theory/hu.md#bounds, docs/theory/hu.md#assumptions (the paper
        estimates them from private data, un-noised).
    """
    shape = _shape_of(loss, record_norm, ridge, classes)
    steepest = min(shape.steepest, check.positive("clip_norm", clip_norm).item())
    outputs = (classes or 1) if loss == "softmax" else 1
    felt = outputs * (shape.smoothness - ridge) + ridge * check.count("dimension", dimension)
    return _analytic(
        smoothness=shape.smoothness,
        strong_convexity=shape.strong_convexity,
        gradient_variance=float(np.mean(steepest**2 / check.counts("records", records))),
        initial_gap=shape.start,
        noise_dimension=min(felt / shape.smoothness, dimension),
    )


class _Shape(NamedTuple):
    """Public bounds on a linear classifier's loss: L, mu, the largest gradient of a record, and F(0)."""

    smoothness: float
    strong_convexity: float
    steepest: float
    start: float


def _shape_of(loss: LinearLossName, record_norm: float | None, ridge: float, classes: int | None) -> _Shape:
    if record_norm is None or classes is None:
        raise InvalidInput("analytic constants need a classifier and [task] feature_norm, a bound on ||x||")
    remedy = "analytic constants need strong convexity: set [task] ridge"
    mu = check.positive("ridge", ridge, remedy=remedy).item()
    start = 0.5 if loss == "hinge" else float(np.log(classes))
    return _Shape(CURVATURE[loss] * record_norm**2 + mu, mu, _SLOPE[loss] * record_norm, start)


def _analytic(**values: float) -> dict[str, Constant]:
    return {name: Constant(float(value), ANALYTIC) for name, value in values.items()}


def split_budget(problem: Problem, share: float) -> tuple[Release, Problem]:
    """One charged upload per client, and the problem with what is left of the budget.

    Gaussian: the pilot gets `share` of mu^2, exactly additive. Laplace: `share` of epsilon.

    Args:
        problem: with the whole budget.
        share: part of the budget for the pilot, in (0, 1).

    Returns:
        The pilot's release, and the problem for the training that follows. Together they cost the
        whole budget: `spent_with_pilot`.

    Raises:
        UnsoundClaim: Poisson batches, whose composition with a full-batch pilot is not provided.
        InvalidInput: a study without privacy, a delta so large that no epsilon describes the rest, or
            resources that leave nothing for a round after the pilot.
    """
    share = check.in_unit_interval("share", share, closed_left=False).item()
    _check_pays_twice(problem)
    if problem.sampling_rate < 1:
        raise UnsoundClaim("constants cannot be bought with Poisson batches; use sampling_rate = 1")
    budget, sensitivity = problem.budget, problem.sensitivity
    filled = PrivacyFilter.open(budget, problem.family)
    size = problem.law.paid_in.analysis.noise(sensitivity.value, budget, share, 1)
    pilot = Release(problem.law.noise(size), sensitivity)
    # what the filter leaves after this very pilot, and not 1 - share of it: rounding is paid for, too
    return pilot, replace(problem, budget=filled.charge(pilot, 1).remaining)


def _check_pays_twice(problem: Problem) -> None:
    """A pilot costs a communication and a step; one round at least must be left after it."""
    if problem.most_uploads() < 2:
        raise InvalidInput(
            "[resources] budget pays for one upload of every client, and buying constants needs one before "
            "the first round; raise the budget or state the constants"
        )


def bought_constants(
    gradients: Real, problem: Problem, pilot: Release, smoothness: float, strong_convexity: float
) -> dict[str, Constant]:
    """Constants from one noised gradient per client at the start, corrected for the known noise.

    With noised gradients g_i, s = sum a_i (||g_i||^2 - p v_i), q = ||sum a_i g_i||^2 - p sum a_i^2 v_i:

        G^2 = s        Gamma <= s / (2 mu) - q / (2 L)        Y_0 <= q / mu^2

    The inequalities follow from strong convexity and smoothness of each F_i.

    Args:
        gradients: noised uploads at theta_0, shape (N, p).
        problem: weights a_i.
        pilot: their noise, from `split_budget`.
        smoothness: L, analytic or assumed.
        strong_convexity: mu.

    Returns:
        `gradient_bound`, `heterogeneity`, `initial_distance_sq`, marked `bought`.

    Source: docs/theory/zhou.md#constants, docs/theory/zhou.md#released-constants (the paper returns these
        un-noised).
    """
    variance, weights = pilot.mechanism.variance, problem.weights
    dimension = gradients.shape[1]
    spread = weights @ (np.sum(np.square(gradients), axis=1) - dimension * variance)
    mean = weights @ gradients
    start = max(float(mean @ mean - dimension * np.square(weights) @ variance), 0.0)
    # the mean square is at least the square of the mean, but not always once the noise is taken off both
    spread = max(float(spread), start)
    bought = f"bought with one upload per client ({problem.law.paid_in.symbol} {np.max(pilot.shift):.3g})"
    values = {
        "gradient_bound": np.sqrt(spread),
        "heterogeneity": max(spread / (2 * strong_convexity) - start / (2 * smoothness), 0.0),
        "initial_distance_sq": start / strong_convexity**2,
    }
    return {name: Constant(float(value), bought) for name, value in values.items()}


def bought_noise(problem: Problem, pilot: Release) -> float:
    """Standard deviation that the pilot's noise alone gives to the bought G^2, in squared gradients.

    sqrt(c p sum a_i^2 v_i^2) with c = Var(w^2)/v^2 per coordinate: 2 for Gaussian, 5 for Laplace noise.
    A bought G^2 below a few of these says more about the noise than about the clients.
    """
    variance = np.square(problem.weights * pilot.mechanism.variance).sum()
    return float(np.sqrt(problem.law.square_spread * problem.dimension * variance))
