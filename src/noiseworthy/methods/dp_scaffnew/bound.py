"""The convergence bound of DP-ScaffNew over iterations T and communication probability p, and its optima.

Hou et al., "Balancing privacy and performance for private federated learning algorithms", Theorem 1 and
Corollary 1, with the dimension that they lose; docs/theory/hou.md#bound. Symbols: N clients, d parameters, L
smoothness and mu strong convexity of every client's loss, eta = 1/L, h_i the control variates (0 at first),

    psi_t = sum_i ||x_t^i - x*||^2 + (eta/p)^2 sum_i ||h_t^i - grad f_i(x*)||^2,
    rho = max(1 - mu/L, 1 - p^2).

One iteration gives E psi_{t+1} <= rho psi_t + 2 p d sigma^2 and one more round costs c in sigma^2, so that

    B(T, p) = rho^T psi_0(p) + 2 p^2 d c T / (1 - rho)

bounds psi_T of a training of p T rounds (without the factor 1 - rho^T of the noise, as in the paper).

What it leaves out: clipping, which must not bite, and minibatches; that the realised rounds R, which set
sigma^2 = c R, go together with the coins (E[theta R] = p (p T + 1 - p)); and that the common model is the one
of the last communication, on average 1/p iterations before T.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlog1py

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.plans.problem import Constant, Problem, stated_values
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.calibration import unit_noise

REQUIRED = ("smoothness", "strong_convexity", "initial_distance_sq")
UNIT = "squared distance to the optimum, with control variates, summed over clients (psi)"


@dataclass(frozen=True)
class ScaffNewBound:
    """B(T, p) of this module for the step size 1/L, with its closed forms.

    A smaller step eta is a larger L: what is L-smooth is 1/eta-smooth too.

    Attributes:
        smoothness: L.
        strong_convexity: mu, at most L.
        start: N ||x_0 - x*||^2.
        optimum_gradient_sq: H = sum over clients of ||grad f_i(x*)||^2.
        dimension: d.
        noise_per_round: c, the variance per coordinate that every round adds to an upload, mean over clients.

    Example:
        >>> bound = ScaffNewBound(1.0, 0.25, 100.0, 8.0, 10, 0.01)
        >>> float(bound.psi_0(1.0)), bound.best_iterations(0.5, 1000), bound.best(1000)
        (108.0, 18, (18, 0.5))

    Source: docs/theory/hou.md#bound. The printed bound has no d, which a
        simulation exceeds 14 times (docs/theory/hou.md#dimension).
    """

    smoothness: float
    strong_convexity: float
    start: float
    optimum_gradient_sq: float
    dimension: int
    noise_per_round: float

    @property
    def rate(self) -> float:
        """mu/L, at most 1: the part of psi that one iteration removes if p is large enough."""
        return min(self.strong_convexity / self.smoothness, 1.0)

    @property
    def paper_probability(self) -> float:
        """p = sqrt(mu/L), the least that does not slow convergence."""
        return float(np.sqrt(self.rate))

    def psi_0(self, probability: ArrayLike) -> NDArray[np.float64]:
        """Value at the start, N ||x_0 - x*||^2 + H / (L p)^2: rare communication makes it large."""
        p = np.asarray(probability, float)
        return self.start + self.optimum_gradient_sq / np.square(self.smoothness * p)

    def at(self, iterations: ArrayLike, probability: ArrayLike) -> NDArray[np.float64]:
        """B(T, p), of the broadcast shape: noise for p T rounds, without the factor 1 - rho^T."""
        t = np.asarray(iterations, float)
        return self._shrinking(t, probability) * self.psi_0(probability) + self._growth(probability) * t

    def exact(
        self, iterations: ArrayLike, probability: ArrayLike, noise_variance: float
    ) -> NDArray[np.float64]:
        """rho^T psi_0(p) + 2 p d sigma^2 (1 - rho^T) / (1 - rho) for a stated sigma^2, whatever it pays for.

        Args:
            iterations: T, at least 0.
            probability: p in (0, 1].
            noise_variance: sigma^2 per coordinate of one upload, mean over clients.

        Returns:
            A bound on E psi_T, of the broadcast shape.
        """
        p, left = np.asarray(probability, float), self._shrinking(iterations, probability)
        noise = 2 * p * self.dimension * noise_variance * (1 - left) / self._gap(p)
        return left * self.psi_0(p) + noise

    def stationary_iterations(self, probability: float) -> float:
        """The real T where B(., p) turns, ln(psi_0 a (1 - rho) / (2 p^2 d c)) / a with a = -ln rho.

        Negative where noise outweighs the gain from the first iteration on; infinite without noise; NaN at
        rho = 0, where one iteration does all, and at psi_0 = 0 without noise.
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # log1p, because 1 - rho may be below the rounding of rho: ln rho would be 0 and the quotient
            # infinite
            decay = -np.log1p(-self._gap(probability))
            return float(np.log(self.psi_0(probability) * decay / self._growth(probability)) / decay)

    def best_iterations(self, probability: float, most: int) -> int:
        """The whole T in 0..most of least B(T, p): B is convex in T, so floor, ceiling and 0 are compared."""
        # NaN leaves 0 and 1 to compare: where rho = 0 nothing else can be best, and where psi_0 = 0 all are
        turn = np.nan_to_num(self.stationary_iterations(probability), nan=0.0, posinf=most)
        floor = int(np.clip(turn, 0, most))
        candidates = np.minimum([0, floor, floor + 1], most)
        return int(candidates[np.argmin(self.at(candidates, probability))])

    def best_probability(self, iterations: ArrayLike) -> NDArray[np.float64]:
        """The p of least B(T, p) for every T: p^2 = clip(sqrt(A/B), mu/L, 1).

        A = (1 - mu/L)^T H / L^2 is what p^2 divides and B = 2 d c T L / mu what it multiplies; below
        sqrt(mu/L) nothing is gained. H = 0 gives sqrt(mu/L), no noise or no iterations 1.
        """
        t = np.asarray(iterations, float)
        with np.errstate(divide="ignore", invalid="ignore"):
            # in logarithms: (1 - mu/L)^T underflows long before the p that it leads to stops mattering
            divided = xlog1py(t, -self.rate) + np.log(self.optimum_gradient_sq) - 2 * np.log(self.smoothness)
            multiplied = np.log(self._growth(1.0) * t)
            # no heterogeneity and no noise is 0/0, and goes with the former: the least p
            log_squared = np.nan_to_num((divided - multiplied) / 2, nan=-np.inf, posinf=np.inf)
        return np.sqrt(np.clip(np.exp(np.minimum(log_squared, 0)), self.rate, 1))

    def best(self, most: int, resources: Resources | None = None) -> tuple[int, float]:
        """The (T, p) of least bound over T = 0..most: the best p of every T, and the least T of equals.

        With resources over those with T (p c1 + c2) <= C for every client. B(T, .) falls up to its best p, so
        that a smaller p that is paid for is best as it is.
        """
        if self.noise_per_round == 0 and resources is None:
            p = float(self.best_probability(1))
            return self.best_iterations(p, most), p
        t = np.arange(most + 1)
        p = self.best_probability(t)
        if resources is not None:
            p = np.minimum(p, resources.most_probability(t))
            t, p = t[p > 0], p[p > 0]
        best = np.argmin(self.at(t, p))
        return int(t[best]), float(p[best])

    def _gap(self, probability: ArrayLike) -> NDArray[np.float64]:
        """1 - rho."""
        return np.minimum(self.rate, np.square(probability))

    def _shrinking(self, iterations: ArrayLike, probability: ArrayLike) -> NDArray[np.float64]:
        """rho^T."""
        # xlog1py is 0 at T = 0 even where rho = 0: without iterations all of psi is left
        return np.exp(xlog1py(iterations, -self._gap(probability)))

    def _growth(self, probability: ArrayLike) -> NDArray[np.float64]:
        """What one more iteration adds in noise, 2 p^2 d c / (1 - rho)."""
        squared = np.square(probability)
        return 2 * squared * self.dimension * self.noise_per_round / self._gap(probability)


def scaffnew_bound(problem: Problem, constants: dict[str, Constant]) -> ScaffNewBound:
    """The bound from the constants of a strongly convex problem.

    Args:
        problem: with clipping D; its mechanism gives c, the mean over clients of (2C)^2 s(eps_i, delta_i)^2
            (C for add-remove), and of their shares where only sums are seen.
        constants: `smoothness` L, `strong_convexity` mu <= L, `initial_distance_sq` ||x_0 - x*||^2, and
            `optimum_gradient_sq` H, 0 where it is not given.

    Raises:
        InvalidInput: a missing or negative constant, mu above L, or a problem that the bound does not cover.

    Source: docs/theory/hou.md#bound; Hou et al., Theorem 1.
    """
    check_covered(problem)
    value = stated_values(constants, REQUIRED)
    smoothness, mu = value["smoothness"], value["strong_convexity"]
    start = check.non_negative("initial_distance_sq", value["initial_distance_sq"]).item()
    gradient = check.non_negative("optimum_gradient_sq", value.get("optimum_gradient_sq", 0.0)).item()
    noise = np.square(problem.sensitivity.value * unit_noise(problem.family, problem.budget, 1))
    each = np.max(noise) / problem.hidden_among(None) if problem.trust.in_sums else np.mean(noise)
    return ScaffNewBound(smoothness, mu, problem.n_clients * start, gradient, problem.dimension, float(each))


def check_clips_updates(problem: Problem) -> None:
    """Refuse a problem whose uploads are not clipped as a whole.

    Raises:
        InvalidInput: another clipping mode than D.
    """
    if problem.clipping != "D":
        raise InvalidInput(
            f"dp-scaffnew clips a client's whole update (clipping mode D), got mode {problem.clipping}; "
            "its control variates carry every earlier gradient, so no other mode bounds an upload"
        )


def check_covered(problem: Problem) -> None:
    """Refuse a problem that the bound says nothing of.

    Raises:
        InvalidInput: another clipping mode than D, or Laplace noise.
    """
    check_clips_updates(problem)
    if problem.law.pure:
        raise InvalidInput(
            f"dp-scaffnew is planned for Gaussian noise, got {problem.family}; "
            'set mechanism = "gaussian" and a delta above 0'
        )
