"""The convergence bound of DP-FedAvg over iterations T and local steps E, its closed-form optima and its law.

Fu et al., "On the practicality of differential privacy in federated learning by tuning iteration times"
(2021), Theorem 3; docs/theory/fu.md#bound. Symbols: N clients, b per round, E local steps per upload, T
iterations in all, T_g = T/E rounds, L smoothness, mu strong convexity, G gradient bound, Gamma heterogeneity,
Y_0 = ||theta_0 - theta*||^2, gamma = max(8L/mu, E), eta_k = (2/mu)/(k + gamma).

    Y_T <= (4 omega_0(E)/mu^2 + gamma Y_0)/(T + gamma) + (4/mu^2) T_g omega_1/(T + gamma - 1)^2
    omega_0 = 6 L Gamma + 8 (E - 1)^2 G^2 + 4 E^2 G^2 (N - b)/((N - 1) b)        omega_1 = 4 E^2 n(T_g, b)

n(T_g, b) is the noise in one aggregate, E||(N/b) sum a_i w_i||^2, per unit of (eta E)^2; the 4 pays for
taking the largest step size of a round for the last, eta_k <= 2 eta_{k+E}. Closed forms take
n = C_M T_g^z / 4: z = 2 for Laplace, 1 for Gaussian noise, any z in [0, 2] for a mechanism of one's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy._validate import Real
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.fedsgd_dpc.bound import uploads
from noiseworthy.plans.problem import Constant, Problem, stated_values

CONSTANT_NAMES = (
    "smoothness", "strong_convexity", "gradient_bound", "initial_distance_sq", "heterogeneity",
)  # fmt: skip
NEAR = 0.1
"""Share of its limit within which a bound that only falls towards that limit is good enough."""

Noise = Callable[[Real, Real], Real]
"""n(T_g, b): the noise in one aggregate per unit of (eta E)^2, over the broadcast shape of its arguments."""

# The noise in one aggregate ---------------------------------------------------------------------------


@dataclass(frozen=True)
class UploadNoise:
    """n(T_g, b) = (N/b) sum a_i^2 E||w_i||^2 with noise that pays for k = ceil(b T_g/N) uploads of a client.

    Attributes:
        clients: N.
        weighted: k, b -> sum a_i^2 E||w_i||^2, two arrays of shape (m,) to (m,).

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.full(10, 50), 4, PrivacyBudget.of(1.0, 0.0, 10), "laplace", 1.0)
        >>> UploadNoise.of(problem)(np.array([5, 10, 11]), 1)  # one upload each, one, two
        array([0.0128, 0.0128, 0.0512])

    Source: docs/theory/accounting.md#aggregates, docs/theory/fu.md#bound; the paper counts b T_g/N uploads, a
        half where one happens (docs/theory/fu.md#half-an-upload).
    """

    clients: int
    weighted: Callable[[NDArray[np.int64], NDArray[np.int64]], Real]

    @classmethod
    def of(cls, problem: Problem) -> UploadNoise:
        """The noise that the budgets of a problem ask for."""
        return cls(problem.n_clients, problem.weighted_noise)

    @classmethod
    def tabulated(cls, problem: Problem, most_uploads: int) -> UploadNoise:
        """The same for at most `most_uploads` uploads, computed once, for searches."""
        table = problem.weighted_noise(np.arange(1, most_uploads + 1))

        def weighted(k: NDArray[np.int64], b: NDArray[np.int64]) -> Real:
            with np.errstate(divide="ignore"):
                return table[k - 1] * problem.hidden_among(None) / problem.hidden_among(b)

        return cls(problem.n_clients, weighted)

    def __call__(self, rounds: ArrayLike, clients_per_round: ArrayLike) -> Real:
        """n(T_g, b) for whole T_g and b, of the broadcast shape."""
        k = uploads(rounds, clients_per_round, self.clients)
        b = np.broadcast_to(clients_per_round, k.shape)
        return self.clients / b * self.weighted(k.ravel(), b.ravel()).reshape(k.shape)


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
        check_exponent(self.exponent)
        check.non_negative("noise_constant", self.constant)

    def __call__(self, rounds: ArrayLike, clients_per_round: ArrayLike) -> Real:
        """n(T_g, b) at real T_g > 0; the same for every b."""
        value = self.constant / 4 * np.asarray(rounds, float) ** self.exponent
        return np.broadcast_to(value, np.broadcast_shapes(value.shape, np.shape(clients_per_round)))


def power_law(problem: Problem, clients_per_round: int) -> PowerLaw | None:
    """z and C_M of a problem's noise if uploads were b T_g/N; None where it follows no power.

        Laplace: z = 2, C_M = 8 p b S^2/(N^2 epsilon^2)
        Gaussian: z = 1, C_M = 4 p S^2 s(epsilon, delta)^2/N

    for equal clients and S the sensitivity per unit of eta E. Laplace noise with a delta comes from a privacy
    loss distribution, whose exponent falls from 2 towards 1.

    Source: docs/theory/fu.md#bound, with the errata of the Gaussian C_M (docs/theory/fu.md#noise-constant).
    """
    if not problem.law.noisy:
        return PowerLaw(0.0, 0.0)
    if not problem.law.analysis.closed_form(1.0, problem.budget.delta):
        return None
    z = noise_exponent(problem)
    one_upload = float(problem.weighted_noise(np.array([1]), clients_per_round)[0])
    # (N/b) times the noise of k uploads, which is that of one times k^z, at k = b T_g/N
    return PowerLaw(z, 4 * one_upload * (clients_per_round / problem.n_clients) ** (z - 1))


def noise_exponent(problem: Problem) -> float:
    """z for many uploads: 2 for pure Laplace noise, 1 for Gaussian noise and Laplace noise with a delta."""
    return problem.law.analysis.growth(problem.budget.delta)


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

    Source: Fu et al., Theorem 3; docs/theory/fu.md#bound. Clipping bias is outside the bound; G and equal
    weights a_i are assumed for the sampling of clients.
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

    def gamma(self, local_steps: ArrayLike) -> Real:
        """max(8L/mu, E): the planner must not hold it constant (docs/theory/fu.md#shift)."""
        return np.maximum(8 * self.smoothness / self.strong_convexity, np.asarray(local_steps, float))

    def drift(self, local_steps: ArrayLike, clients_per_round: ArrayLike, clients: int) -> Real:
        """omega_0: heterogeneity, the drift of E - 1 unheard steps, and asking b of N clients."""
        steps = np.asarray(local_steps, float)
        asked = sampling_share(clients_per_round, clients)
        moved = 8 * (steps - 1) ** 2 + 4 * steps**2 * asked
        return 6 * self.smoothness * self.heterogeneity + moved * self.gradient_bound**2

    def at(
        self,
        noise: Noise,
        total_iterations: ArrayLike,
        local_steps: ArrayLike,
        clients_per_round: ArrayLike,
        clients: int,
    ) -> Real:
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
    ) -> Real:
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

    def _start(self, local_steps: ArrayLike, clients_per_round: ArrayLike, n: int) -> Real:
        """4 omega_0/mu^2 + gamma Y_0."""
        drift = self.drift(local_steps, clients_per_round, n)
        return self._weight * drift + self.gamma(local_steps) * self.initial_distance_sq


def local_bound(constants: dict[str, Constant]) -> LocalBound:
    """The bound from the constants of a strongly convex problem.

    Args:
        constants: `smoothness` L, `strong_convexity` mu <= L, `gradient_bound` G, `initial_distance_sq` Y_0
            and `heterogeneity` Gamma.

    Raises:
        InvalidInput: a missing or negative constant, or mu above L.

    Example:
        >>> values = zip(CONSTANT_NAMES, (1.0, 0.5, 1.0, 100.0, 0.1))
        >>> local_bound({name: Constant(value, "assumed") for name, value in values}).gamma([1, 20])
        array([16., 20.])
    """
    value = stated_values(constants, CONSTANT_NAMES)
    for name in CONSTANT_NAMES[2:]:
        check.non_negative(name, value[name])
    return LocalBound(**{name: value[name] for name in CONSTANT_NAMES})


def sampling_share(clients_per_round: ArrayLike, clients: int) -> Real:
    """(N - b)/((N - 1) b), 0 for one client."""
    b = np.asarray(clients_per_round, float)
    return (clients - b) / (max(clients - 1, 1) * b)


def check_exponent(exponent: float) -> float:
    """z, if it lies in [0, 2].

    Raises:
        InvalidInput: another exponent.
    """
    z = check.non_negative("noise_exponent", exponent).item()
    if z > 2:
        raise InvalidInput(f"noise_exponent must lie in [0, 2], got {z:g}; basic composition needs 2 at most")
    return z
