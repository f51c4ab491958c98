"""The convergence bound of DP-PASGD over iterations K and local steps tau, and the printed one that is false.

Hu et al., "Differentially private federated learning for resource-constrained internet of things", Theorem 1,
corrected (docs/theory/hu.md#bounds, docs/theory/hu.md#errata).
Symbols: M clients, L smoothness, lambda strong convexity (or the Polyak-Lojasiewicz constant), eta step
size, d parameters, xi^2 variance of a client's gradient, alpha = L(theta_0) - L*, sigma-bar^2 the noise
variance per coordinate and local step, mean over clients, V = xi^2 + d sigma-bar^2.

    last iterate   E L(theta_K) - L* <= (1 - eta lambda)^K (alpha - B') + B'
                   B' = (eta L V/M + eta^2 L^2 2 (tau - 1) V) / (2 lambda)
                   if eta L + eta^2 L^2 tau (tau - 1) (1 - eta lambda)^-(tau - 1) <= 1
    average        mean over k = 1..K <= (1 - eta lambda) alpha / (eta lambda K) + B
                   B = (eta L/M + eta^2 L^2 (tau - 1)) V / (2 lambda), if eta L + eta^2 L^2 tau (tau - 1) <= 1

    convex         the last, with drift min(u V, u_s W) for 2 (tau - 1) V, for any tau if eta L <= 1
    quadratic      the same with drift u W

V = xi^2 + d sigma-bar^2 and W = xi^2 + noise_dimension sigma-bar^2, which stands for V in the term of eta
L/M of every bound; u and u_s are the means of i and of s(i) over the steps i = 0..tau - 1 since the
average, weighted by q^(tau - 1 - i), q = 1 - eta lambda: u is about (tau - 1)/2.

The last two are ours. Where the loss is convex and eta <= 1/L, a step of gradient descent is non-expansive,
so that models of one round part by their noise alone: E (1/M) sum |theta_m - mean|^2 <= eta^2 i V after i
steps. The gradients need no step-size condition to cancel them, and i is averaged over the round with the
weights of the recursion, not replaced by its greatest value.

Noise hurts by the curvature that it meets. Where one matrix A dominates every Hessian, as the mean of c x
x^T does for a linear model, E b^T A b = sigma^2 tr(A): d becomes `noise_dimension` = tr(A)/L, at most 1 for
a model of one output with L = c R^2. Drift is met by A as well, E (1/M) sum |theta_m - mean|_A^2 <= eta^2
s(i) L (xi^2 + tr(A)/L sigma^2), with s(i) = i where the Hessian is A all along the way. Where it is not,
write v = N - D for the difference of two models, N its noise and D what gradients took from it; then D' = D
+ eta H (N - D) for some 0 <= H <= A, and from 2 N^T H v - (2 - eta L) v^T H v <= |N|_A^2/(2 - eta L)

    |D'|^2 <= |D|^2 + eta |N|_A^2/(2 - eta L),    s(i) = i (1 + sqrt(eta L (i - 1)/(2 (2 - eta L))))^2.

It assumes that every client's gradient is unbiased for the gradient of the whole (Assumption 3), and that
clipping does not bite.
"""

from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlog1py

from noiseworthy import _validate as check
from noiseworthy._validate import Real
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dp_pasgd.table import LossShape
from noiseworthy.plans.problem import Constant, Problem, stated_values

REQUIRED = ("smoothness", "strong_convexity", "gradient_variance", "initial_gap")
NOISE_DIMENSION = "noise_dimension"
SHAPES: tuple[LossShape, ...] = get_args(LossShape)
UNIT = "excess loss"
_ROUNDING = 1e-12
_UNLIMITED = 10**9
"""Local steps beyond any training."""
_HUGE = 1e200
_LONGEST_ROUND = 100_000
"""Local steps up to which drift is counted in the norm of A."""


@dataclass(frozen=True)
class AveragingBound:
    """The bounds of this module at one step size.

    Attributes:
        smoothness: L of the loss of the whole.
        strong_convexity: lambda <= L, with |grad L|^2 / 2 >= lambda (L - L*).
        gradient_variance: xi^2 of one client's gradient, summed over coordinates; 0 for iid full batches.
        initial_gap: alpha = L(theta_0) - L*.
        step_size: eta in (0, 1/L].
        dimension: d.
        clients: M.
        noise_dimension: tr(A)/L where one matrix dominates every Hessian; None takes d.
        shape: what is known of the loss: `general` smooth with the constants above, `convex`, or `quadratic`.

    Example:
        >>> bound = AveragingBound(1.0, 0.05, 0.05, 0.6931471805599453, 0.05, 100, 16)
        >>> bound.at([63, 81], [7, 9], 0.02).round(3), bound.most_local_steps
        (array([0.691, 0.728]), 19)

    Source: docs/theory/hu.md#bounds; Hu et al., Theorem 1.
    """

    smoothness: float
    strong_convexity: float
    gradient_variance: float
    initial_gap: float
    step_size: float
    dimension: int
    clients: int
    noise_dimension: float | None = None
    shape: LossShape = "general"

    @property
    def no_training(self) -> float:
        """Value at K = 0, alpha."""
        return self.initial_gap

    @property
    def unit(self) -> str:
        """What is bounded."""
        return UNIT

    def at(self, iterations: ArrayLike, local_steps: ArrayLike, mean_variance: ArrayLike) -> Real:
        """The bound on E L(theta_K) - L* of the last iterate.

        Args:
            iterations: K, at least 0.
            local_steps: tau, at least 1; where `allows` is false the value bounds nothing.
            mean_variance: sigma-bar^2 per coordinate and local step, mean over clients.

        Returns:
            Of the broadcast shape; it rises with tau and with the variance.
        """
        log_left = xlog1py(iterations, -self._rate)
        floor = self._floor(self._drift(local_steps, mean_variance), mean_variance)
        # expm1, because 1 - (1 - eta lambda)^K is mostly rounding where K eta lambda is small
        return np.exp(log_left) * self.initial_gap - np.expm1(log_left) * floor

    def printed_at(self, iterations: ArrayLike, local_steps: ArrayLike, mean_variance: ArrayLike) -> Real:
        """Theorem 1 as printed, (1 - eta lambda)^K (alpha - B)/K + B: false, for comparison only.

        Source: docs/theory/hu.md#false-theorem.
        """
        floor = self._floor(self._unweighted(local_steps, mean_variance), mean_variance)
        share = np.exp(xlog1py(iterations, -self._rate)) / np.asarray(iterations, float)
        return share * (self.initial_gap - floor) + floor

    def allows(self, local_steps: ArrayLike) -> NDArray[np.bool_]:
        """Whether the step size is small enough for the last-iterate bound at tau, real or whole.

        Example:
            >>> AveragingBound(1.0, 1.0, 0.0, 1.0, 1.0, 1, 1).allows([1, 2])  # eta lambda = 1
            array([ True, False])
        """
        tau = np.asarray(local_steps, float)
        step = self.step_size * self.smoothness
        if self.shape != "general":
            return np.full(tau.shape, step <= 1 + _ROUNDING)
        with np.errstate(over="ignore"):
            growth = np.exp(-xlog1py(tau - 1, -self._rate))
            return step + step**2 * tau * (tau - 1) * growth <= 1 + _ROUNDING

    def vacuous(self, local_steps: int = 1) -> bool:
        """Whether at tau local steps or more the bound is nowhere below alpha, even without noise.

        The bound lies between alpha and its floor, and the floor rises with tau and with the noise.

        Example:
            >>> AveragingBound(1.0, 0.05, 9.0, 0.7, 0.05, 100, 16).vacuous()
            False
            >>> AveragingBound(1.0, 0.05, 90.0, 0.7, 0.05, 100, 16).vacuous()
            True
        """
        return bool(self._floor(self._drift(local_steps, 0.0), 0.0) >= self.initial_gap)

    @property
    def most_local_steps(self) -> int:
        """The largest tau that the step size allows, by bisection; 1 at eta = 1/L."""
        if self.shape != "general":
            return _UNLIMITED
        # the condition asks for (tau - 1) eta L of at most 1, whatever the growth
        low, high = 1, int(1 / (self.step_size * self.smoothness)) + 3
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.allows(middle) else (low, middle)
        return low

    @property
    def _rate(self) -> float:
        """eta lambda, at most 1."""
        return min(self.step_size * self.strong_convexity, 1.0)

    def _floor(self, drift: Real, mean_variance: ArrayLike) -> Real:
        """B or B', where the bound ends."""
        step, felt = self.step_size * self.smoothness, self._felt(mean_variance)
        return (step / self.clients * felt + step**2 * drift) / (2 * self.strong_convexity)

    def _drift(self, local_steps: ArrayLike, mean_variance: ArrayLike) -> Real:
        """How far models are apart on average over a round, in units of eta^2."""
        if self.shape == "general":
            return 2 * self._unweighted(local_steps, mean_variance)
        since = self._mean_since(local_steps)
        if self.shape == "quadratic":
            return since * self._felt(mean_variance)
        spread = self._mean_spread(local_steps) * self._felt(mean_variance)
        return np.minimum(since * self._full(mean_variance), spread)

    def _unweighted(self, local_steps: ArrayLike, mean_variance: ArrayLike) -> Real:
        """(tau - 1) V."""
        return (np.asarray(local_steps, float) - 1) * self._full(mean_variance)

    def _full(self, mean_variance: ArrayLike) -> Real:
        """V = xi^2 + d sigma-bar^2."""
        return self.gradient_variance + self.dimension * np.asarray(mean_variance, float)

    def _felt(self, mean_variance: ArrayLike) -> Real:
        """W, with the noise dimension for d."""
        felt = self.dimension if self.noise_dimension is None else self.noise_dimension
        return self.gradient_variance + felt * np.asarray(mean_variance, float)

    def _mean_since(self, local_steps: ArrayLike) -> Real:
        """u = tau/(1 - q^tau) - 1/(1 - q): (tau - 1)/2 for small eta lambda, tau - 1 at 1."""
        tau = np.asarray(local_steps, float)
        with np.errstate(divide="ignore"):
            lost = -np.expm1(tau * np.log1p(-self._rate))
        # two numbers near 1/(eta lambda) leave only rounding where that is large; u itself rises with eta
        # lambda from the one limit to the other
        return np.clip(tau / lost - 1 / self._rate, (tau - 1) / 2, tau - 1)

    def _mean_spread(self, local_steps: ArrayLike) -> Real:
        """u_s, linear between whole tau; beyond `_LONGEST_ROUND` so large that u V is counted instead."""
        tau, step = np.asarray(local_steps, float), self.step_size * self.smoothness
        since = np.arange(min(np.ceil(np.max(tau, initial=1)), _LONGEST_ROUND))
        apart = since * np.square(1 + np.sqrt(step * np.maximum(since - 1, 0) / (2 * (2 - step))))
        from scipy.signal import lfilter  # here, because it takes a third of a second to import

        # y_i = x_i + q y_{i-1} sums x with weights q^(tau - 1 - i), for every tau in one sweep
        weighted, weights = lfilter([1], [1, self._rate - 1], np.stack([apart, np.ones(len(since))]))
        return np.interp(tau, since + 1, weighted / weights, right=_HUGE)


def averaging_bound(
    problem: Problem,
    constants: dict[str, Constant],
    step_size: float | None = None,
    *,
    shape: LossShape = "general",
) -> AveragingBound:
    """The bound from the constants of a strongly convex problem.

    Args:
        problem: gives d and M.
        constants: `smoothness` L, `strong_convexity` lambda <= L, `gradient_variance` xi^2 and `initial_gap`
            alpha, or upper bounds of the last two; `noise_dimension` tr(A)/L if wanted, else d.
        step_size: eta, at most 1/L; 1/L if not given.
        shape: what is known of the loss of every record, clipped as it is.

    Raises:
        InvalidInput: a missing or negative constant, lambda above L, eta outside (0, 1/L].

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.array([50, 50]), 10, PrivacyBudget.of(1.0, 1e-5, 2), "gaussian", 1.0)
        >>> values = dict(smoothness=2.0, strong_convexity=0.1, gradient_variance=0.0, initial_gap=1.0)
        >>> constants = {name: Constant(value, "assumed") for name, value in values.items()}
        >>> averaging_bound(problem, constants, 0.05).most_local_steps
        9
    """
    value = _checked(constants)
    largest = 1 / value["smoothness"]
    eta = largest if step_size is None else check.positive("step_size", step_size).item()
    if eta > largest * (1 + _ROUNDING):
        raise InvalidInput(
            f"step_size must be at most 1/smoothness = {largest:g}, got {eta:g}; the bound holds up to there"
        )
    return AveragingBound(
        **value,
        step_size=eta,
        dimension=problem.dimension,
        clients=problem.n_clients,
        noise_dimension=_noise_dimension(problem, constants),
        shape=check.one_of("loss_shape", shape, SHAPES),
    )


def _noise_dimension(problem: Problem, constants: dict[str, Constant]) -> float | None:
    """tr(A)/L where it is given, which is at most d."""
    if NOISE_DIMENSION not in constants:
        return None
    felt = check.positive(NOISE_DIMENSION, constants[NOISE_DIMENSION].value).item()
    if felt > problem.dimension:
        raise InvalidInput(
            f"{NOISE_DIMENSION} must be at most the dimension {problem.dimension}, got {felt:g}; leave it out"
        )
    return felt


def _checked(constants: dict[str, Constant]) -> dict[str, float]:
    """The constants of the bound, all there and in range."""
    value = stated_values(constants, REQUIRED)
    for name in REQUIRED[2:]:
        check.non_negative(name, value[name], remedy="an upper bound will do")
    return {name: value[name] for name in REQUIRED}
