"""What participations T_n do to the error of DPFL-BCS: the bound of Ma et al., corrected, and its cost J.

    E F(w^T) - F* <= (L/2) [ (gamma ||w^0 - w*||^2 + 4 Y_A / mu^2) / (gamma + T) + Y_B / mu ]
    Y_A = sum T_n V_n(T_n) / (K^2 T) + (2 L / (K T)) sum T_n Gamma_n,    Y_B = (2 / (K T)) sum T_n Gamma_n

with full batches, gamma = 8 L/mu, steps 2 / (mu (t + gamma)) for t = 1, 2, ..., F = (1/N) sum F_n, V_n(k) =
V_n k^z the variance of one upload of client n among k, and Gamma_n = F_n(w*) - min F_n
(docs/theory/ma.md#bound).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy._validate import Real
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dpfl_bcs.search import Exponent, ParticipationCosts
from noiseworthy.plans.problem import Constant, Problem

UNIT = "excess loss"


@dataclass(frozen=True)
class Curvature:
    """Smoothness L and strong convexity mu of every client's loss.

    Raises:
        InvalidInput: a constant that is not above 0, mu above L.
    """

    smoothness: float
    strong_convexity: float

    def __post_init__(self):
        check.positive("smoothness", self.smoothness)
        check.positive("strong_convexity", self.strong_convexity, remedy="add a ridge term")
        if self.strong_convexity > self.smoothness:
            raise InvalidInput(
                f"strong_convexity must be at most smoothness = {self.smoothness:g}, "
                f"got {self.strong_convexity:g}"
            )

    @property
    def gamma(self) -> float:
        """8 L / mu."""
        return 8 * self.smoothness / self.strong_convexity

    @classmethod
    def among(cls, constants: dict[str, Constant]) -> Curvature | None:
        """From `smoothness` and `strong_convexity`; None where one is not known."""
        known = [constants.get(name) for name in ("smoothness", "strong_convexity")]
        values = [one.value for one in known if one is not None]
        return cls(*values) if len(values) == 2 else None


# The two costs of a participation ---------------------------------------------------------------------


def exponent(problem: Problem) -> Exponent:
    """z, by which the variance of one upload grows with their number: 2 for pure epsilon, else 1."""
    return 2 if problem.law.exponent == 2 else 1


def noise_constant(problem: Problem) -> float:
    """Lambda: 4 p C^2 for Gaussian noise, 8 p C^2 for Laplace noise; a quarter under add-remove."""
    of_one_record = problem.sensitivity.value[0] * problem.sizes[0]
    return float(problem.dimension * problem.law.variance_factor * of_one_record**2)


def kappa(problem: Problem, constants: dict[str, Constant], rounds: int, clients_per_round: int) -> float:
    """What a participation costs in bias, against what it costs in noise.

        kappa = K (6 L + mu T / 2) / Lambda

    Args:
        problem: its clip, dimension and mechanism give Lambda.
        constants: `smoothness` L and `strong_convexity` mu.
        rounds: T.
        clients_per_round: K.

    Returns:
        kappa of J = sum T_n^(z+1) Phi_n + kappa sum T_n Gamma_n, the ratio of the bound's two coefficients.

    Raises:
        InvalidInput: a constant that is missing or out of range.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.array([100] * 9), 5, PrivacyBudget.of(1.0, 1e-5, 9), "gaussian", 1.0)
        >>> values = dict(smoothness=1.0, strong_convexity=0.1)
        >>> constants = {name: Constant(value, "assumed") for name, value in values.items()}
        >>> kappa(problem, constants, rounds=200, clients_per_round=2)  # 2 * 16 / 20
        1.6

    Source: docs/theory/ma.md#planner; printed with 4 L + 3 mu T / 8, from a step that does not hold
        (docs/theory/ma.md#bias-term).
    """
    known = Curvature.among(constants)
    if known is None:
        raise InvalidInput(
            "heterogeneity that differs between clients is weighed by smoothness and strong_convexity; "
            "state both under [constants], or leave heterogeneity out"
        )
    # the weight of sum T_n Gamma_n over that of the noise, in units of K/Lambda: 2 L by Y_A, and by Y_B mu
    # (gamma + T)/2, which is 4 L + mu T/2
    slope = 6 * known.smoothness + known.strong_convexity * rounds / 2
    return clients_per_round * slope / noise_constant(problem)


# The bound --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParticipationBound:
    """The bound above, at any T_n.

    Attributes:
        curvature: L and mu.
        initial_distance_sq: ||w^0 - w*||^2.
        variance: V_n, shape (N,).
        exponent: z.
        heterogeneity: Gamma_n, shape (N,).
        rounds: T.
        clients_per_round: K.
    """

    curvature: Curvature
    initial_distance_sq: float
    variance: Real
    exponent: Exponent
    heterogeneity: Real
    rounds: int
    clients_per_round: int

    @property
    def no_training(self) -> float:
        """(L/2) ||w^0 - w*||^2, which is at least the excess loss of the start."""
        return self.curvature.smoothness * self.initial_distance_sq / 2

    def at(self, counts: ArrayLike) -> float:
        """The bound on E F(w^T) - F* at participations T_n, shape (N,)."""
        asked = np.asarray(counts, float)
        t, variance = asked[asked > 0], self.variance[asked > 0]
        k, total = self.clients_per_round, self.rounds
        smooth, mu, gamma = self.curvature.smoothness, self.curvature.strong_convexity, self.curvature.gamma
        noise = np.sum(t ** (self.exponent + 1) * variance) / (k**2 * total)
        bias = 2 * np.sum(asked * self.heterogeneity) / (k * total)
        fading = gamma * self.initial_distance_sq + 4 * (noise + smooth * bias) / mu**2
        return float(smooth / 2 * (fading / (gamma + total) + bias / mu))

    def quiet(self, most: ArrayLike) -> float:
        """The least of the bound without noise over all T_n <= most_n that fill the rounds: likest first."""
        order = np.argsort(self.heterogeneity, kind="stable")
        free = self.clients_per_round * self.rounds - np.cumsum(np.asarray(most)[order])
        asked = np.zeros(len(order))
        asked[order] = np.diff(np.maximum(free, 0), prepend=self.clients_per_round * self.rounds) * -1.0
        return replace(self, variance=np.zeros_like(self.variance)).at(asked)


def participation_bound(
    problem: Problem, constants: dict[str, Constant], heterogeneity: Real, rounds: int, clients_per_round: int
) -> ParticipationBound | None:
    """The bound of a problem, or None where L, mu or `initial_distance_sq` is not among the constants."""
    known, start = Curvature.among(constants), constants.get("initial_distance_sq")
    if known is None or start is None:
        return None
    distance = check.non_negative("initial_distance_sq", start.value).item()
    return ParticipationBound(
        known, distance, problem.upload_variance, exponent(problem), heterogeneity, rounds, clients_per_round
    )


def participation_costs(
    problem: Problem, constants: dict[str, Constant], heterogeneity: Real, rounds: int, clients_per_round: int
) -> ParticipationCosts:
    """Phi_n, kappa Gamma_n, z and the caps of a problem.

    Heterogeneity counts from its least value, because a part that all share changes nothing. A client whose
    noise exceeds all floats is never asked.
    """
    phi = problem.upload_variance / noise_constant(problem)
    beyond = heterogeneity - heterogeneity.min()
    weight = kappa(problem, constants, rounds, clients_per_round) if np.any(beyond) else 0.0
    return ParticipationCosts.of(phi, weight * beyond, exponent(problem), caps(problem, rounds))


def caps(problem: Problem, rounds: int) -> NDArray[np.int64]:
    """The most participations of each client: T, or what its resources pay for, shape (N,)."""
    if problem.resources is None:
        return np.full(problem.n_clients, rounds)
    return np.minimum(problem.resources.rounds_of_each(1), rounds).astype(np.int64)
