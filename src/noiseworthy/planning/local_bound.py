"""The convergence bound of DP-FedAvg over iterations T and local steps E, its closed-form optima and its law.

Fu et al., "Client based DP-FedAvg", Theorem 3; theory sections 2.3 and 2.4. Symbols: N clients, b per round,
E local steps per upload, T iterations in all, T_g = T/E rounds, L smoothness, mu strong convexity, G gradient
bound, Gamma heterogeneity, Y_0 = ||theta_0 - theta*||^2, gamma = max(8L/mu, E), eta_k = (2/mu)/(k + gamma).

    Y_T <= (4 omega_0(E)/mu^2 + gamma Y_0)/(T + gamma) + (4/mu^2) T_g omega_1/(T + gamma - 1)^2
    omega_0 = 6 L Gamma + 8 (E - 1)^2 G^2 + 4 E^2 G^2 (N - b)/((N - 1) b)        omega_1 = 4 E^2 n(T_g, b)

n(T_g, b) is the noise in one aggregate, E||(N/b) sum a_i w_i||^2, per unit of (eta E)^2; the 4 pays for
taking the largest step size of a round for the last, eta_k <= 2 eta_{k+E}. Closed forms take
n = C_M T_g^z / 4: z = 2 for Laplace, 1 for Gaussian noise, any z in [0, 2] for a mechanism of one's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.planning.problem import Constant, Problem
from noiseworthy.planning.replies_bound import uploads

CONSTANT_NAMES = (
    "smoothness", "strong_convexity", "gradient_bound", "initial_distance_sq", "heterogeneity",
)  # fmt: skip
NEAR_LIMIT = 0.1
"""Share of its limit within which a bound that only falls towards that limit is good enough."""

Noise = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]
"""n(T_g, b): the noise in one aggregate per unit of (eta E)^2, over the broadcast shape of its arguments."""

# The noise in one aggregate ---------------------------------------------------------------------------


@dataclass(frozen=True)
class UploadNoise:
    """n(T_g, b) = (N/b) sum a_i^2 E||w_i||^2 with noise that pays for k = ceil(b T_g/N) uploads of a client.

    Attributes:
        clients: N.
        weighted: k -> sum a_i^2 E||w_i||^2, shape (m,) to (m,).

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.full(10, 50), 4, PrivacyBudget.of(1.0, 0.0, 10), "laplace", 1.0)
        >>> UploadNoise.of(problem)(np.array([5, 10, 11]), 1)  # one upload each, one, two
        array([0.0128, 0.0128, 0.0512])

    Source: theory 0.7 and 2.3; the paper counts b T_g/N uploads, a half where one happens (2.6, item 7).
    """

    clients: int
    weighted: Callable[[NDArray[np.int64]], NDArray[np.float64]]

    @classmethod
    def of(cls, problem: Problem) -> UploadNoise:
        """The noise that the budgets of a problem ask for."""
        return cls(problem.n_clients, problem.weighted_noise)

    @classmethod
    def tabulated(cls, problem: Problem, most_uploads: int) -> UploadNoise:
        """The same for at most `most_uploads` uploads, computed once, for searches."""
        table = problem.weighted_noise(np.arange(1, most_uploads + 1))
        return cls(problem.n_clients, lambda k: table[k - 1])

    def __call__(self, rounds: ArrayLike, clients_per_round: ArrayLike) -> NDArray[np.float64]:
        """n(T_g, b) for whole T_g and b, of the broadcast shape."""
        k = uploads(rounds, clients_per_round, self.clients)
        return self.clients / np.asarray(clients_per_round) * self.weighted(k.ravel()).reshape(k.shape)


@dataclass(frozen=True)
class PowerLaw:
    """n(T_g, b) = C_M T_g^z / 4: a mechanism of one's own, or the power law of a known one.

    Attributes:
        exponent: z in [0, 2]: how the variance for a fixed budget grows with the rounds; 0 if it does not.
        constant: C_M, at least 0, for the b at hand.

    Raises:
        InvalidInput: z outside [0, 2], a negative or infinite constant.

    Example:
        >>> PowerLaw(1.5, 0.04)(np.array([1.0, 4.0]), 1)
        array([0.01, 0.08])

    Source: Fu et al., Definition 2; more than z = 2 no mechanism needs, because budgets add at worst.
    """

    exponent: float
    constant: float

    def __post_init__(self):
        _check_exponent(self.exponent)
        check.non_negative("noise_constant", self.constant)

    def __call__(self, rounds: ArrayLike, clients_per_round: ArrayLike) -> NDArray[np.float64]:
        """n(T_g, b) at real T_g > 0; the same for every b."""
        value = self.constant / 4 * np.asarray(rounds, float) ** self.exponent
        return np.broadcast_to(value, np.broadcast_shapes(value.shape, np.shape(clients_per_round)))


def power_law(problem: Problem, clients_per_round: int) -> PowerLaw | None:
    """z and C_M of a problem's noise if uploads were b T_g/N; None where it follows no power.

        Laplace: z = 2, C_M = 8 p b S^2/(N^2 epsilon^2)
        Gaussian: z = 1, C_M = 4 p S^2 s(epsilon, delta)^2/N

    for equal clients and S the sensitivity per unit of eta E. Laplace noise with a delta comes from a privacy
    loss distribution, whose exponent falls from 2 towards 1.

    Source: theory 2.3, with the errata of the Gaussian C_M (2.6, item 6).
    """
    if problem.family == "none":
        return PowerLaw(0.0, 0.0)
    if problem.family == "laplace" and np.any(problem.budget.delta):
        return None
    z = noise_exponent(problem)
    one_upload = float(problem.weighted_noise(np.array([1]))[0])
    return PowerLaw(z, 4 * one_upload * (clients_per_round / problem.n_clients) ** (z - 1))


def noise_exponent(problem: Problem) -> float:
    """z for many uploads: 2 for pure Laplace noise, 1 for Gaussian noise and Laplace noise with a delta."""
    if problem.family == "none":
        return 0.0
    return 2.0 if problem.family == "laplace" and not np.any(problem.budget.delta) else 1.0


# The bound --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LocalBound:
    """The bound of this module, from the constants of a strongly convex problem.

    Attributes:
        smoothness: L of every client's loss.
        strong_convexity: mu of every client's loss.
        gradient_bound: G, with E||grad f_i||^2 <= G^2 along the way.
        heterogeneity: Gamma = F* - sum a_i f_i*.
        initial_distance_sq: Y_0.

    Example:
        >>> bound = LocalBound(1.0, 0.5, 1.0, 0.1, 100.0)
        >>> bound.at(PowerLaw(2.0, 0.1), 60, np.array([1, 2, 3, 4, 60]), 10, 10).round(1)
        array([  82.6,   53.6,   48.4,   51.7, 3763.6])

    Source: Fu et al., Theorem 3; theory 2.3. Clipping bias is outside the bound; G and equal weights a_i are
    assumed for the sampling of clients.
    """

    smoothness: float
    strong_convexity: float
    gradient_bound: float
    heterogeneity: float
    initial_distance_sq: float

    @property
    def no_training(self) -> float:
        """Value at T = 0, Y_0."""
        return self.initial_distance_sq

    @property
    def unit(self) -> str:
        """What is bounded."""
        return "squared distance to the optimum"

    def gamma(self, local_steps: ArrayLike) -> NDArray[np.float64]:
        """max(8L/mu, E): the planner must not hold it constant (theory 2.6, item 8)."""
        return np.maximum(8 * self.smoothness / self.strong_convexity, np.asarray(local_steps, float))

    def drift(
        self, local_steps: ArrayLike, clients_per_round: ArrayLike, clients: int
    ) -> NDArray[np.float64]:
        """omega_0: heterogeneity, the drift of E - 1 unheard steps, and asking b of N clients."""
        steps = np.asarray(local_steps, float)
        asked = _asked(clients_per_round, clients)
        moved = 8 * (steps - 1) ** 2 + 4 * steps**2 * asked
        return 6 * self.smoothness * self.heterogeneity + moved * self.gradient_bound**2

    def at(
        self,
        noise: Noise,
        total_iterations: ArrayLike,
        local_steps: ArrayLike,
        clients_per_round: ArrayLike,
        clients: int,
    ) -> NDArray[np.float64]:
        """The bound on Y_T.

        Args:
            noise: n(T_g, b).
            total_iterations: T >= 1.
            local_steps: E; a divisor of T where the noise counts uploads.
            clients_per_round: b.
            clients: N.

        Returns:
            Of the broadcast shape.
        """
        t, steps = np.asarray(total_iterations, float), np.asarray(local_steps, float)
        rounds = t / steps
        noised = 4 * rounds * steps**2 * noise(rounds, np.asarray(clients_per_round))
        shift = t + self.gamma(steps) - 1
        return self.quiet(t, steps, clients_per_round, clients) + self._weight * noised / shift**2

    def quiet(
        self, total_iterations: ArrayLike, local_steps: ArrayLike, clients_per_round: ArrayLike, clients: int
    ) -> NDArray[np.float64]:
        """The bound without noise."""
        gamma = self.gamma(local_steps)
        start = self._start(local_steps, clients_per_round, clients)
        return start / (np.asarray(total_iterations, float) + gamma)

    def limit(self, noise: PowerLaw) -> float:
        """4 C_M/mu^2, where the bound ends for z = 1 as T grows, whatever E is."""
        return self._weight * noise.constant

    def vacuous_until(self, local_steps: int, clients_per_round: int, clients: int) -> float:
        """T up to which even the bound without noise is not below Y_0: 4 omega_0(E)/(mu^2 Y_0)."""
        drift = float(self.drift(local_steps, clients_per_round, clients))
        return self._weight * drift / self.no_training if self.no_training > 0 else np.inf

    @property
    def _weight(self) -> float:
        return 4 / self.strong_convexity**2

    def _start(
        self, local_steps: ArrayLike, clients_per_round: ArrayLike, clients: int
    ) -> NDArray[np.float64]:
        """4 omega_0/mu^2 + gamma Y_0."""
        drift = self.drift(local_steps, clients_per_round, clients)
        return self._weight * drift + self.gamma(local_steps) * self.initial_distance_sq


def local_bound(constants: dict[str, Constant]) -> LocalBound:
    """The bound from the constants of a strongly convex problem.

    Args:
        constants: `smoothness` L, `strong_convexity` mu <= L, `gradient_bound` G, `initial_distance_sq` Y_0
            and `heterogeneity` Gamma.

    Raises:
        InvalidInput: a missing or negative constant, or mu above L.

    Example:
        >>> values = dict(
        ...     smoothness=1.0,
        ...     strong_convexity=0.5,
        ...     gradient_bound=1.0,
        ...     heterogeneity=0.1,
        ...     initial_distance_sq=100.0,
        ... )
        >>> local_bound({name: Constant(value, "assumed") for name, value in values.items()}).gamma([1, 20])
        array([16., 20.])
    """
    missing = [name for name in CONSTANT_NAMES if name not in constants]
    if missing:
        raise InvalidInput(
            f"the bound needs the constants {', '.join(missing)}; state them under [constants]"
        )
    value = {name: constants[name].value for name in CONSTANT_NAMES}
    smoothness = check.positive("smoothness", value["smoothness"]).item()
    mu = check.positive("strong_convexity", value["strong_convexity"], remedy="add a ridge term").item()
    if mu > smoothness:
        raise InvalidInput(f"strong_convexity must be at most smoothness = {smoothness:g}, got {mu:g}")
    for name in CONSTANT_NAMES[2:]:
        check.non_negative(name, value[name])
    return LocalBound(**{name: float(number) for name, number in value.items()})


def _asked(clients_per_round: ArrayLike, clients: int) -> NDArray[np.float64]:
    """(N - b)/((N - 1) b), 0 for one client."""
    b = np.asarray(clients_per_round, float)
    return (clients - b) / (max(clients - 1, 1) * b)


# Closed forms of the continuous relaxation ------------------------------------------------------------


def best_local_steps(
    bound: LocalBound, noise: PowerLaw, total_iterations: float, clients_per_round: int, clients: int
) -> float:
    """The continuous guide E* for fixed T, with gamma held at 8L/mu; in [1, T].

    Minimises a (E-1)^2 + c E^2 + D E^(1-z), a = 8 G^2, c = 4 G^2 (N-b)/((N-1) b),
    D = C_M T^(z+1) (T + gamma)/(T + gamma - 1)^2, whose slope rises with E for z > 1: E* is its only root
    (for z = 2 of 2 (a + c) E^3 - 2 a E^2 = D). For z <= 1 every term grows with E, so E* = 1.

    Example:
        >>> round(best_local_steps(LocalBound(1.0, 0.5, 1.0, 0.1, 100.0), PowerLaw(2.0, 0.1), 60, 10, 10), 2)
        3.01

    Source: theory 2.4; the paper's Theorem 4 lets E grow for z < 1 too, wrongly (2.6, item 4).
    """
    z, t = noise.exponent, float(total_iterations)
    a, gamma = 8 * bound.gradient_bound**2, float(bound.gamma(1))
    c = 4 * bound.gradient_bound**2 * float(_asked(clients_per_round, clients))
    d = noise.constant * t ** (z + 1) * (t + gamma) / (t + gamma - 1) ** 2

    def slope(steps: float) -> float:
        return 2 * a * (steps - 1) + 2 * c * steps - (z - 1) * d * steps**-z

    if z <= 1 or slope(1.0) >= 0:
        return 1.0
    return t if slope(t) <= 0 else float(brentq(slope, 1.0, t))  # pyright: ignore[reportArgumentType]


def best_iterations(
    bound: LocalBound, noise: PowerLaw, local_steps: int, clients_per_round: int, clients: int
) -> float:
    """The continuous T* for fixed E; infinite where more is always better in the end.

    With A = 4 omega_0/mu^2 + gamma Y_0, g = gamma - 1 and c = (4/mu^2) C_M E^(1-z) the bound is
    A/(T + gamma) + c T^(z+1)/(T + g)^2. It is stationary where

        c T^z ((z-1) T + (z+1) g) (T + gamma)^2/(T + g)^3 = A,

    whose left side rises with T for z >= 1: for z > 1 without limit, so that T* is its only root; for z = 1
    up to 2 g c. For A below that the root is T*; else the bound only falls, to c, and T* is the least T
    within 10 % of that. For z < 1 it tends to 0, though it may rise before.

    Example:
        >>> round(best_iterations(LocalBound(1.0, 0.5, 1.0, 0.1, 100.0), PowerLaw(2.0, 0.1), 2, 10, 10), 2)
        36.31

    Source: theory 2.4, which for z = 1 has the tolerance alone.
    """
    z, gamma = noise.exponent, float(bound.gamma(local_steps))
    start, g = float(bound._start(local_steps, clients_per_round, clients)), gamma - 1
    c = bound.limit(noise) * local_steps ** (1 - z)

    def excess(t: float) -> float:
        """Slope of the bound, times (T + gamma)^2."""
        return c * t**z * ((z - 1) * t + (z + 1) * g) * (t + gamma) ** 2 / (t + g) ** 3 - start

    if c == 0 or z < 1:
        return np.inf
    if z == 1 and start >= 2 * g * c:
        return _crossing(lambda t: (1 + NEAR_LIMIT) * c - start / (t + gamma) - c * (t / (t + g)) ** 2)
    return _crossing(excess)


def _crossing(rising: Callable[[float], float]) -> float:
    """The T >= 0 where a function that ends above zero becomes zero; 0 if it starts above."""
    if rising(0.0) >= 0:
        return 0.0
    high = 1.0
    while rising(high) < 0:
        high *= 2
    return float(brentq(rising, 0.0, high))  # pyright: ignore[reportArgumentType]


# What happens as T grows ------------------------------------------------------------------------------


def best_growth(exponent: float) -> float:
    """The alpha with which E should grow like T^alpha: z/(z+1) for z > 1, else 0 (theory 2.4)."""
    return exponent / (exponent + 1) if _check_exponent(exponent) > 1 else 0.0


def asymptotic_local_steps(exponent: float, total_iterations: ArrayLike) -> NDArray[np.float64]:
    """((z-1)/2)^(1/(z+1)) T^(z/(z+1)), which minimises E^2/T + E^(1-z) T^(z-1); 1 for z <= 1.

    Example:
        >>> asymptotic_local_steps(2.0, 1000).round(1)
        np.float64(79.4)

    Source: theory 2.4; the paper omits the constant and takes the power for z <= 1 too (2.6, items 4 and 5).
    """
    alpha = best_growth(exponent)
    factor = ((exponent - 1) / 2) ** (1 - alpha) if alpha else 1.0
    return factor * np.asarray(total_iterations, float) ** alpha


@dataclass(frozen=True)
class Convergence:
    """How the bound goes as T grows and E grows like T^alpha.

    Attributes:
        verdict: `converges` to 0, stays `bounded`, or `diverges`.
        rate: r, with bound ~ T^r.
        growth: alpha.
    """

    verdict: Literal["converges", "bounded", "diverges"]
    rate: float
    growth: float

    def __str__(self) -> str:
        """In words."""
        if self.verdict == "bounded":
            return "stays bounded and does not converge"
        return f"{'converges to 0' if self.rate < 0 else 'diverges'} like {power('T', self.rate)}"


def convergence(exponent: float, growth: float = 0.0) -> Convergence:
    """Whether the bound converges for noise that grows like T_g^z, and at what rate.

    With E ~ T^alpha the drift (G > 0) gives T^(2 alpha - 1) and the noise
    E^(1-z) T^(z-1) = T^((1 - alpha)(z - 1)), of which the larger remains:

        E fixed:                z < 1 converges like T^(z-1), z = 1 bounded, z > 1 diverges like T^(z-1)
        E ~ T^(z/(z+1)), z > 1: diverges like T^((z-1)/(z+1)), which no other growth beats

    Args:
        exponent: z in [0, 2].
        growth: alpha in [0, 1]; 0 keeps E fixed.

    Raises:
        InvalidInput: z or alpha out of range.

    Example:
        >>> print(convergence(2.0), "|", convergence(2.0, 2 / 3), "|", convergence(0.5))
        diverges like T | diverges like T^0.333 | converges to 0 like T^-0.5

    Source: theory 2.4 and 2.6, items 4 and 5; Fu et al., Theorems 4 and 5, corrected.
    """
    z, alpha = _check_exponent(exponent), check.non_negative("growth", growth).item()
    if alpha > 1:
        raise InvalidInput(f"growth must lie in [0, 1], got {alpha:g}; E = T^1 is a single upload")
    rate = max(2 * alpha - 1, (1 - alpha) * (z - 1))
    if rate == 0:
        return Convergence("bounded", 0.0, alpha)
    return Convergence("converges" if rate < 0 else "diverges", rate, alpha)


def convergence_statement(exponent: float) -> str:
    """What more iterations bring for this z, in a sentence: with E fixed, and with E growing as it should.

    Example:
        >>> convergence_statement(1.0)
        'As T grows with E fixed, the bound stays bounded and does not converge; no growth of E does better.'
        >>> print(convergence_statement(2.0))  # doctest: +ELLIPSIS
        As T grows with E fixed, the bound diverges like T; with E growing like T^0.667, ... like T^0.333: ...
    """
    fixed, grown = convergence(exponent), convergence(exponent, best_growth(exponent))
    said = f"As T grows with E fixed, the bound {fixed}"
    if grown.growth == 0:
        return f"{said}; no growth of E does better."
    law = f"with E growing like {power('T', grown.growth)}, the best law, it {grown}"
    return f"{said}; {law}: some finite T is best."


def power(base: str, exponent: float) -> str:
    """A power in words.

    Example:
        >>> power("T", 1.0), power("T", 2 / 3)
        ('T', 'T^0.667')
    """
    return base if exponent == 1 else f"{base}^{exponent:.3g}"


def _check_exponent(exponent: float) -> float:
    z = check.non_negative("noise_exponent", exponent).item()
    if z > 2:
        raise InvalidInput(
            f"noise_exponent must lie in [0, 2], got {z:g}; basic composition never needs more than 2"
        )
    return z
