"""Smoothness L and strong convexity mu from losses released in stage 1: P2 of Ma et al., and P2' beside it.

P2 asks one number, the mean loss of the last cohort, for five unknowns; whatever it starts from, it ends in
an exact fit. P2' fits the whole course of the losses and holds on to public values of L and mu
(docs/theory/ma.md#estimation). It is no better: a bound is no model of a loss. Plans take L and mu as stated;
both are here for the reproduction alone. Post-processing of released values; nothing here reads data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dpfl_bcs.bound import Curvature
from noiseworthy.methods.dpfl_bcs.heterogeneity import ReportedLosses

Real = NDArray[np.float64]
_SWEEPS = 100
_EXACT = 1e-12
"""Relative residual that counts as none."""
_GRID = 61
_FURTHEST = np.log(1e6)
"""Largest distance from the prior, in ln L and ln mu, that is searched."""


# P2 as printed ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PrintedUnknowns:
    """The five unknowns of P2.

    Attributes:
        initial_distance_sq: ||w^0 - w*||^2.
        gamma: free, although the bound has 8 L/mu.
        gradient_variance: sigma^2, although full batches have 0.
        smoothness: L.
        strong_convexity: mu, below L.

    Raises:
        InvalidInput: an L or mu that is not above 0, mu above L, another value below 0.
    """

    initial_distance_sq: float
    gamma: float
    gradient_variance: float
    smoothness: float
    strong_convexity: float

    def __post_init__(self):
        Curvature(self.smoothness, self.strong_convexity)
        for name in ("initial_distance_sq", "gamma", "gradient_variance"):
            check.non_negative(name, getattr(self, name))


@dataclass(frozen=True)
class PrintedStage:
    """What P2 knows of the first T0 - 1 rounds.

    Attributes:
        loss: F^(w^(T0-1)), mean of the last cohort's noised losses.
        noise: Lambda sum C_n^(z+1) Phi_n.
        bias: sum C_n Gamma_n.
        mean_heterogeneity: (1/N) sum Gamma_n.
        rho_min: as estimated.
        rounds: T0 - 1.
        clients_per_round: K.
    """

    loss: float
    noise: float
    bias: float
    mean_heterogeneity: float
    rho_min: float
    rounds: int
    clients_per_round: int

    def bound(self, at: PrintedUnknowns) -> float:
        """F~(w^(T0-1)), the printed bound of eq. (10), with F* = 0."""
        return self.at(_free(at, self.rounds))

    def at(self, free: list[float]) -> float:
        """The same of R^2, 1 / (gamma + T0 - 1), sigma^2, L and 1 / mu: of degree 2 at most in each."""
        distance, damping, variance, smooth, flat = free
        t, k = self.rounds, self.clients_per_round
        noise = variance / k + self.noise / (k**2 * t) + smooth * self.bias / (k * t)
        skew = self.bias / (k * t) - self.rho_min * self.mean_heterogeneity
        fading = (1 - t * damping) * smooth * distance / 2 + 4 * damping * smooth * flat**2 * noise
        return fading + 1.5 * smooth * flat * skew


@dataclass(frozen=True)
class PrintedFit:
    """What P2 ends in: the unknowns, and |F^ - F~| there."""

    unknowns: PrintedUnknowns
    residual: float


def literal(stage: PrintedStage, start: PrintedUnknowns) -> PrintedFit:
    """P2 of Ma et al. as printed: minimise |F^(w^(T0-1)) - F~(w^(T0-1))| over five unknowns, one at a time.

    For comparison only. Every unknown in turn (R^2, gamma, sigma^2, L, mu, with L >= mu) takes its best
    value, the others held, until nothing improves. The bound is a polynomial of degree 2 at most in each of
    R^2, 1/(gamma + T0 - 1), sigma^2, L and 1/mu, so that each step is exact; a value that fits as
    well as any is kept. One equation cannot tell five unknowns: the first step, in R^2, mostly fits exactly,
    and all others stay where they started (docs/theory/ma.md#five-unknowns).

    Args:
        stage: what the first stage released.
        start: where the search begins, which largely decides where it ends.

    Returns:
        `PrintedFit`.

    Raises:
        InvalidInput: no rounds or clients.

    Example:
        >>> stage = PrintedStage(2.0, 0.0, 0.0, 0.0, 1.0, 9, 20)
        >>> ends = [literal(stage, PrintedUnknowns(1.0, 1.0, 0.0, one, one / 2)) for one in (0.5, 500.0)]
        >>> [round(one.residual, 9) for one in ends], [one.unknowns.smoothness for one in ends]
        ([0.0, 0.0], [0.5, 500.0])

    Source: Ma et al., eq. (10) and P2.
    """
    check.count("rounds", stage.rounds, remedy="P2 needs T0 >= 2")
    check.count("clients_per_round", stage.clients_per_round)
    here, residual = _free(start, stage.rounds), np.inf
    for _ in range(_SWEEPS):
        for which in range(len(here)):
            here[which] = _best(stage, here, which)
        last, residual = residual, abs(stage.loss - stage.at(here))
        if residual >= last:
            break
    return PrintedFit(_unknowns(here, stage.rounds), residual)


def _free(at: PrintedUnknowns, rounds: int) -> list[float]:
    """R^2, 1 / (gamma + T0 - 1), sigma^2, L, 1 / mu."""
    damping, flat = 1 / (at.gamma + rounds), 1 / at.strong_convexity
    return [at.initial_distance_sq, damping, at.gradient_variance, at.smoothness, flat]


def _unknowns(free: list[float], rounds: int) -> PrintedUnknowns:
    """The inverse of `_free`."""
    distance, damping, variance, smooth, flat = free
    return PrintedUnknowns(distance, max(1 / damping - rounds, 0.0), variance, smooth, min(1 / flat, smooth))


def _with(here: list[float], which: int, value: float) -> list[float]:
    """The variables with one replaced."""
    return [*here[:which], value, *here[which + 1 :]]


def _best(stage: PrintedStage, here: list[float], which: int) -> float:
    """The value of one variable that fits best, the others held; the present one if it fits as well."""

    def residual(value: float) -> float:
        return max(abs(stage.loss - stage.at(_with(here, which, value))), _EXACT * abs(stage.loss))

    least, most = _range(stage, here, which)
    found = [float(np.clip(one, least, most)) for one in _turning_points(stage, here, which)]
    return min([here[which], *found], key=residual)


def _range(stage: PrintedStage, here: list[float], which: int) -> tuple[float, float]:
    """What P2 allows one variable: all at least 0, L at least mu."""
    most, smooth, flat = 1 / stage.rounds, here[3], here[4]
    least = [0.0, _EXACT * most, 0.0, 1 / flat, 1 / smooth][which]
    return least, most if which == 1 else np.inf


def _turning_points(stage: PrintedStage, here: list[float], which: int) -> list[float]:
    """Where a parabola through three values of the bound meets the loss or turns, and 0."""
    unit = here[which] or 1.0
    at = [stage.at(_with(here, which, x * unit)) for x in (0.0, 1.0, 2.0)]
    curve = np.array([at[2] - 2 * at[1] + at[0], 4 * at[1] - at[2] - 3 * at[0], 2 * (at[0] - stage.loss)])
    roots = [*np.roots(curve), *np.roots(np.polyder(curve))]
    return [0.0, *(unit * float(root.real) for root in roots if abs(root.imag) < _EXACT)]


# P2' --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Course:
    """How the mean released loss went over stage 1, and what is known to have moved it.

    Attributes:
        losses: F^(w^t), mean of the noised losses of the cohort of round t, shape (R,).
        variance: v_t of its noise, shape (R,).
        elapsed: t of each, at least 0, shape (R,).
        noise: mean variance E||w||^2 of the uploads before round t, shape (R,).
        bias: mean Gamma_n of those who made them, shape (R,).
        clients_per_round: K.

    Raises:
        InvalidInput: lengths that differ, losses that are not finite, a variance that is not above 0, other
            values below 0.
    """

    losses: Real
    variance: Real
    elapsed: Real
    noise: Real
    bias: Real
    clients_per_round: int

    def __post_init__(self):
        check.positive(
            "variance", self.variance, remedy="reports without noise need no prior: fit them as is"
        )
        for name in ("elapsed", "noise", "bias"):
            check.non_negative(name, getattr(self, name))
        check.count("clients_per_round", self.clients_per_round)
        lengths = {np.shape(one) for one in (self.losses, self.variance, self.elapsed, self.noise, self.bias)}
        if len(lengths) > 1 or not np.all(np.isfinite(self.losses)):
            raise InvalidInput(
                f"losses must be finite, one for every entry of the rest, got {self.losses!r} "
                f"beside shapes {sorted(lengths)}"
            )

    @classmethod
    def of(cls, reports: ReportedLosses, upload_variance: Real, heterogeneity: Real) -> Course:
        """The course of a stage 1 with K reports in every round.

        Args:
            reports: the losses, of rounds 0 to T0 - 1.
            upload_variance: E||w_n||^2 of each upload of client n in stage 1, shape (N,).
            heterogeneity: Gamma_n, shape (N,).

        Example:
            >>> who, when = np.array([0, 1, 0, 2]), np.array([0, 0, 1, 1])
            >>> losses = np.array([2.0, 2.2, 1.0, 1.4])
            >>> reports = ReportedLosses(who, when, losses, losses, np.full(3, 0.2))
            >>> course = Course.of(reports, np.array([4.0, 6.0, 8.0]), np.zeros(3))
            >>> course.losses, course.variance, course.noise
            (array([2.1, 1.2]), array([0.02, 0.02]), array([0., 5.]))
        """
        each = np.bincount(reports.rounds)
        elapsed, noise = np.arange(len(each), dtype=float), reports.noise_std[reports.clients]
        return cls(
            losses=np.bincount(reports.rounds, reports.before) / each,
            variance=np.bincount(reports.rounds, noise**2) / each**2,
            elapsed=elapsed,
            noise=_mean_before(upload_variance[reports.clients], reports.rounds),
            bias=_mean_before(heterogeneity[reports.clients], reports.rounds),
            clients_per_round=int(each.max()),
        )

    def parts(self, smoothness: Real, strong_convexity: Real) -> tuple[Real, Real]:
        """Slope and offset of the corrected bound F~_t in R^2, shape (..., R).

        F~_t = (L/2) [ (gamma R^2 + 4 (noise_t/K + 2 L bias_t) / mu^2) / (gamma + t) + 2 bias_t / mu ]
        """
        smooth, mu = np.asarray(smoothness)[..., None], np.asarray(strong_convexity)[..., None]
        gamma = 8 * smooth / mu
        fading = 4 * (self.noise / self.clients_per_round + 2 * smooth * self.bias) / mu**2
        offset = smooth / 2 * (fading / (gamma + self.elapsed) + 2 * self.bias / mu)
        return smooth / 2 * gamma / (gamma + self.elapsed), offset


def _mean_before(value: Real, rounds: NDArray[np.integer]) -> Real:
    """Mean over all reports of earlier rounds, 0 in the first, shape (T0,)."""
    number, total = np.bincount(rounds), np.bincount(rounds, value)
    earlier = np.cumsum(number) - number
    return (np.cumsum(total) - total) / np.maximum(earlier, 1)


@dataclass(frozen=True)
class FittedCurvature:
    """L, mu and R^2 of the least P2', and that least value."""

    curvature: Curvature
    initial_distance_sq: float
    objective: float


def regularised(course: Course, prior: Curvature, log_spread: float) -> FittedCurvature:
    """P2': L, mu and R^2 from the whole course of the released losses, held near public values.

        minimise sum_t (F^(w^t) - F~_t)^2 / v_t + ((ln L - ln L0)^2 + (ln mu - ln mu0)^2) / tau^2
        over L >= mu > 0 and R^2 = ||w^0 - w*||^2 >= 0, with gamma = 8 L/mu, sigma^2 = 0 and F* = 0

    F~_t is the corrected bound after t rounds. R^2 enters linearly and is eliminated, so that two dimensions
    are left: the least of a grid over ln mu and ln L/mu, refined as a least-squares problem. The answer is
    deterministic. The prior makes it exist; that no other valley is deeper is known up to the grid.

    A bound is no model of a loss: what fits best makes the bound touch the losses, which lie far below it on
    real data. Public constants need no such fit and are the default.

    Args:
        course: of the losses.
        prior: public L0 and mu0.
        log_spread: tau, by how much ln L and ln mu may be off, above 0.

    Returns:
        `FittedCurvature`.

    Raises:
        InvalidInput: a tau that is not above 0.

    Example:
        >>> zero, t = np.zeros(12), np.arange(12.0)
        >>> losses = 4 * 80 / (80 + t) / 2  # the bound of L = 1, mu = 0.1, R^2 = 4
        >>> course = Course(losses, np.full(12, 1e-8), t, zero, zero, 20)
        >>> fit = regularised(course, Curvature(1.0, 0.2), log_spread=1.0)
        >>> round(fit.curvature.gamma, 1), round(fit.curvature.smoothness * fit.initial_distance_sq, 3)
        (80.0, 4.0)

    Source: docs/theory/ma.md#estimation (P2').
    """
    tau = check.positive("log_spread", log_spread).item()
    away = np.log([prior.strong_convexity, prior.smoothness])

    def residuals(log_mu: Real, log_ratio: Real) -> Real:
        logs = np.stack(np.broadcast_arrays(log_mu, log_mu + log_ratio), axis=-1)
        return np.concatenate(
            [_residuals(course, *np.exp(np.moveaxis(logs, -1, 0))), (logs - away) / tau], axis=-1
        )

    log_mu, log_ratio = _least(residuals, away, tau)
    smooth, mu = np.exp(log_mu + log_ratio), np.exp(log_mu)
    distance = float(_distance(course, *course.parts(smooth, mu)))
    objective = float(np.sum(np.square(residuals(log_mu, log_ratio))))
    return FittedCurvature(Curvature(float(smooth), float(mu)), distance, objective)


def _distance(course: Course, slope: Real, offset: Real) -> Real:
    """R^2 >= 0 of least squares, weighted by 1/v_t, shape (...)."""
    weighted = slope / course.variance
    fitted = np.sum(weighted * (course.losses - offset), axis=-1) / np.sum(weighted * slope, axis=-1)
    return np.maximum(fitted, 0.0)


def _residuals(course: Course, strong_convexity: Real, smoothness: Real) -> Real:
    """(F^(w^t) - F~_t) / sqrt(v_t) at the best R^2, shape (..., R)."""
    slope, offset = course.parts(smoothness, strong_convexity)
    distance = _distance(course, slope, offset)[..., None]
    return (course.losses - offset - slope * distance) / np.sqrt(course.variance)


def _least(residuals: Callable[[Real, Real], Real], away: Real, tau: float) -> Real:
    """(ln mu, ln L/mu) of the least sum of squares, which is nowhere above its value at the prior.

    There the prior's own term is at most that value: this bounds the grid.
    """
    centre = np.array([away[0], away[1] - away[0]])
    reach = min(tau * float(np.linalg.norm(residuals(*centre))), _FURTHEST)
    low, high = centre - np.array([1, 2]) * reach, centre + np.array([1, 2]) * reach
    low[1], high = max(low[1], 0.0), high + _EXACT
    grid = np.meshgrid(*np.linspace(low, high, _GRID).T, indexing="ij")
    best = np.argmin(np.sum(np.square(residuals(*grid)), axis=-1))
    start = np.array([axis.ravel()[best] for axis in grid])
    return least_squares(lambda at: residuals(*at), start, "3-point", (low, high), xtol=_EXACT, ftol=_EXACT).x
