"""How many rounds T and clients b: the planner of Zhou et al. for FedSGD-DPC.

Zhou et al., "The optimal numbers of queries and replies in federated learning with differential
privacy"; theory sections 1.3 to 1.8. Symbols: N clients, b per round, T rounds, k = ceil(bT/N) uploads
per client, p parameters, d_i records, L smoothness, mu strong convexity, gamma = 2L/mu, G gradient
bound, Gamma heterogeneity, Y_0 = ||theta_0 - theta*||^2.

    U(T, b) = [ sampling (N-b)/((N-1) b) + rest + noise_weight n(T, b) ] / (T + gamma)

bounds Y_T for T >= 1, with n(T, b) = (N/b) sum a_i^2 E||w_i||^2 the noise in one aggregate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.planning.plan import Plan, Prediction, StepSize
from noiseworthy.planning.problem import Constant, Problem

CITATION = "Zhou et al., optimal numbers of queries and replies (FedSGD-DPC), Theorems 1 to 4; corrected"
CONSTANT_NAMES = (
    "smoothness", "strong_convexity", "gradient_bound", "initial_distance_sq", "heterogeneity",
    "record_variance",
)  # fmt: skip


@dataclass(frozen=True)
class RepliesBound:
    """The bound's shape U(T, b), whether its numbers come from theory or from a fit to trials.

    Attributes:
        gamma: shift of the round count, at least 0.
        sampling: weight of the variance from asking b of N clients, 8 G^2 / mu^2 in theory.
        rest: (4/mu^2)(2 L Gamma + batch variance) + gamma Y_0 in theory.
        noise_weight: 4 / mu^2 in theory.
        no_training: value at T = 0, Y_0 in theory.
        offset: added to every value; 0 in theory, the reachable loss in a fit.
        unit: what is bounded.
        near_limit: share of the limit of a Gaussian bound, which only falls with T, at which to stop.
    """

    gamma: float
    sampling: float
    rest: float
    noise_weight: float
    no_training: float
    offset: float = 0.0
    unit: str = "squared distance to the optimum"
    near_limit: float = 0.1

    def at(self, problem: Problem, rounds: ArrayLike, clients_per_round: ArrayLike) -> NDArray[np.float64]:
        """U(T, b) with exact uploads k = ceil(bT/N), of the broadcast shape; T >= 1."""
        rounds, b = np.broadcast_arrays(np.asarray(rounds), np.asarray(clients_per_round))
        n = problem.n_clients
        asked = (n - b) / (max(n - 1, 1) * b)
        noise = n / b * problem.weighted_noise(uploads(rounds, b, n))
        return self.offset + (self.sampling * asked + self.rest + self.noise_weight * noise) / (
            rounds + self.gamma
        )


def theory_bound(problem: Problem, constants: dict[str, Constant]) -> RepliesBound:
    """The bound of theory 1.3 from the constants of a strongly convex problem.

    Args:
        problem: sizes, budgets and mechanism.
        constants: `smoothness` L, `strong_convexity` mu <= L, `gradient_bound` G,
            `initial_distance_sq` Y_0, `heterogeneity` Gamma, and for Poisson batches
            `record_variance` (of a single record's gradient inside a client; default G^2).

    Raises:
        InvalidInput: a missing or negative constant, or mu above L.

    Source: Zhou et al., Theorems 1 and 3, with the factor 2 of Lemma 2 as printed (1 is already valid).
    """
    value = {name: constant.value for name, constant in constants.items()}
    missing = [name for name in CONSTANT_NAMES[:5] if name not in value]
    if missing:
        raise InvalidInput(
            f"the bound needs the constants {', '.join(missing)}; state them under [constants]"
        )
    smoothness = check.positive("smoothness", value["smoothness"]).item()
    mu = check.positive("strong_convexity", value["strong_convexity"], remedy="add a ridge term").item()
    if mu > smoothness:
        raise InvalidInput(f"strong_convexity must be at most smoothness = {smoothness:g}, got {mu:g}")
    gradient_sq = check.non_negative("gradient_bound", value["gradient_bound"]).item() ** 2
    start = check.non_negative("initial_distance_sq", value["initial_distance_sq"]).item()
    heterogeneity = check.non_negative("heterogeneity", value["heterogeneity"]).item()
    gamma, weight = 2 * smoothness / mu, 4 / mu**2
    rest = weight * 2 * smoothness * heterogeneity + gamma * start
    if problem.sampling_rate < 1:
        variance = check.non_negative("record_variance", value.get("record_variance", gradient_sq)).item()
        rest += weight * variance / (problem.sampling_rate * problem.sizes.sum())
    sampling = 2 * weight * gradient_sq if problem.n_clients > 1 else 0.0
    return RepliesBound(gamma, sampling, rest, weight, start)


def uploads(rounds: ArrayLike, clients_per_round: ArrayLike, clients: int) -> NDArray[np.int64]:
    """Most uploads of one client in the reshuffled round robin, k = ceil(bT/N).

    Example:
        >>> uploads([22, 100], [1, 10], 10)
        array([  3, 100])
    """
    asked = np.asarray(rounds, dtype=np.int64) * np.asarray(clients_per_round, dtype=np.int64)
    return -(-asked // clients)


# Closed forms of the continuous relaxation k = bT/N --------------------------------------------------


@dataclass(frozen=True)
class LaplaceCurve:
    """U(T, b) = (C1/b + C2 b T^2 + C3) / (T + gamma) for pure-epsilon Laplace noise (theory 1.4)."""

    gamma: float
    c1: float
    c2: float
    c3: float

    def at(self, rounds: ArrayLike, clients_per_round: ArrayLike) -> NDArray[np.float64]:
        """U(T, b) at real T >= 0 and b >= 1."""
        t, b = np.asarray(rounds, float), np.asarray(clients_per_round, float)
        return (self.c1 / b + self.c2 * b * t**2 + self.c3) / (t + self.gamma)

    def best_rounds(self, clients_per_round: float) -> float:
        """T*(b) = sqrt(gamma^2 + (C1/b + C3)/(C2 b)) - gamma; infinite without noise."""
        if self.c2 == 0:
            return np.inf
        b = clients_per_round
        return float(np.sqrt(self.gamma**2 + max(self.c1 / b + self.c3, 0.0) / (self.c2 * b)) - self.gamma)

    def best_clients(self, rounds: float, clients: int) -> float:
        """b*(T) = sqrt(C1/(C2 T^2)), clipped to [1, N]."""
        if self.c2 == 0:
            return float(clients)
        return float(np.clip(np.sqrt(self.c1 / self.c2) / rounds, 1, clients))

    def best(self, clients: int) -> tuple[float, float]:
        """The joint optimum (T*, b*): b* = 1 if C3 > 2 gamma sqrt(C1 C2), else N (rule 1.4 c)."""
        if self.c2 == 0:
            return np.inf, float(clients)
        b = 1.0 if self.c3 > 2 * self.gamma * np.sqrt(self.c1 * self.c2) else float(clients)
        return self.best_rounds(b), b


def laplace_curve(problem: Problem, bound: RepliesBound) -> LaplaceCurve:
    """The constants C1, C2, C3 of theory 1.4 for a bound and pure-epsilon Laplace noise."""
    n = problem.n_clients
    shared = bound.sampling / max(n - 1, 1)
    c2 = bound.noise_weight * float(problem.weighted_noise(np.array([1]))[0]) / n
    return LaplaceCurve(bound.gamma, n * shared, c2, bound.rest - shared)


@dataclass(frozen=True)
class GaussianCurve:
    """U(T, b) = E1/(b(T+gamma)) + E2/(T+gamma) + E3 for Gaussian noise (theory 1.5); b* = N always."""

    gamma: float
    e1: float
    e2: float
    e3: float

    def at(self, rounds: ArrayLike, clients_per_round: ArrayLike) -> NDArray[np.float64]:
        """U(T, b) at real T >= 0 and b >= 1."""
        t, b = np.asarray(rounds, float), np.asarray(clients_per_round, float)
        return (self.e1 / b + self.e2) / (t + self.gamma) + self.e3

    def rounds_near_limit(self, clients_per_round: float, share: float = 0.1) -> float:
        """Least T with U <= (1 + share) E3: ceil((E1/b + E2)/(share E3) - gamma), at least 0."""
        numerator = self.e1 / clients_per_round + self.e2
        if numerator <= 0:
            return 0.0
        if self.e3 == 0:
            return np.inf
        return float(max(np.ceil(numerator / (share * self.e3) - self.gamma), 0.0))


def gaussian_curve(problem: Problem, bound: RepliesBound) -> GaussianCurve:
    """The constants E1, E2, E3 of theory 1.5 for a bound and full-batch Gaussian noise."""
    n = problem.n_clients
    shared = bound.sampling / max(n - 1, 1)
    e3 = bound.noise_weight * float(problem.weighted_noise(np.array([1]))[0])
    return GaussianCurve(bound.gamma, n * shared, bound.rest - shared - bound.gamma * e3, e3)


# The integer optimum over the staircase of true uploads -----------------------------------------------


def candidates(
    clients: int, max_rounds: int, rounds: int | None, clients_per_round: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All (T, b) that can be optimal, as two vectors.

    At fixed T and k the bound falls with b, so only the largest b with ceil(bT/N) = k matters:
    b = floor(kN/T). That leaves at most min(N, T) candidates for every T.
    """
    horizon = np.arange(1, max_rounds + 1) if rounds is None else np.array([rounds])
    if clients_per_round is not None:
        return horizon, np.full_like(horizon, clients_per_round)
    pairs = [_largest_cohorts(int(t), clients) for t in horizon]
    return np.repeat(horizon, [len(b) for b in pairs]), np.concatenate(pairs)


def _largest_cohorts(rounds: int, clients: int) -> NDArray[np.int64]:
    if clients <= rounds:
        return np.arange(1, clients + 1)
    return np.arange(1, rounds + 1) * clients // rounds


def optimum(
    problem: Problem, bound: RepliesBound, max_rounds: int, rounds: int | None, clients_per_round: int | None
) -> tuple[int, int, float]:
    """The (T, b) of least bound over the integers, with that bound; ties go to the fewest uploads."""
    t, b = candidates(problem.n_clients, max_rounds, rounds, clients_per_round)
    values = bound.at(problem, t, b)
    near = np.flatnonzero(values <= values.min() + 1e-12 * abs(values.min()))
    best = near[np.argmin(t[near] * b[near])]
    return int(t[best]), int(b[best]), float(values[best])


def plan(
    problem: Problem,
    bound: RepliesBound,
    constants: dict[str, Constant],
    *,
    rounds: int | None = None,
    clients_per_round: int | None = None,
    max_rounds: int = 500,
    step: StepSize | None = None,
    notes: tuple[str, ...] = (),
) -> Plan:
    """Plan FedSGD-DPC: rounds T and clients b, each given or planned.

    Laplace: the integer optimum over T <= max_rounds and b <= N. Gaussian: b = N, and the least T whose
    bound is within 10 % of its limit, because the bound only falls with T (Poisson batches: of the
    best within max_rounds). "Do not train" where the
    bound at the plan is not below its value without training, unless both T and b were given.

    Args:
        problem: public facts and budget.
        bound: from `theory_bound` or a fit to trials.
        constants: what the bound rests on, carried into the plan.
        rounds: T if fixed, else planned.
        clients_per_round: b if fixed, else planned.
        max_rounds: most rounds to consider.
        step: step sizes to train with.
        notes: warnings to carry.

    Returns:
        A `Plan` whose noise pays for ceil(bT/N) uploads of every client.

    Raises:
        InvalidInput: T or b outside 1..max_rounds or 1..N.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.full(10, 6000), 7840, PrivacyBudget.of(5.0, 0.0, 10), "laplace", 300.0)
        >>> values = dict(
        ...     smoothness=1.0,
        ...     strong_convexity=0.1,
        ...     gradient_bound=10.0,
        ...     initial_distance_sq=9000.0,
        ...     heterogeneity=0.5,
        ... )
        >>> constants = {name: Constant(value, "assumed") for name, value in values.items()}
        >>> best = plan(problem, theory_bound(problem, constants), constants)
        >>> best.rounds, best.clients_per_round, best.releases[0]
        (80, 1, np.int64(8))
    """
    most = check.count("max_rounds", max_rounds)
    if rounds is not None:
        rounds = check.count("rounds", rounds, remedy="T = 0 is no training; leave rounds to the planner")
        most = max(most, rounds)
    if clients_per_round is not None:
        remedy = f"the federation has {problem.n_clients} clients"
        clients_per_round = check.count(
            "clients_per_round", clients_per_round, most=problem.n_clients, remedy=remedy
        )
    t, b, value = _decide(problem, bound, most, rounds, clients_per_round)
    value = float(bound.at(problem, [t], [b])[0])
    stated = rounds is not None and clients_per_round is not None
    trains = stated or value < bound.no_training
    releases = np.full(problem.n_clients, int(uploads(t, b, problem.n_clients)) if trains else 0)
    return Plan(
        algorithm="fedsgd-dpc",
        citation=CITATION,
        problem=problem,
        rounds=t if trains else 0,
        clients_per_round=b if trains else 0,
        releases=releases,
        release=problem.release(releases) if trains else None,
        prediction=Prediction(value if trains else bound.no_training, bound.no_training, bound.unit),
        constants=constants,
        outcome=_outcome(problem, bound, t, b, value, trains, most),
        as_printed=as_printed(problem, bound, rounds, clients_per_round, most),
        step=step,
        notes=notes,
    )


def stated(problem: Problem, rounds: int, clients_per_round: int, step: StepSize) -> Plan:
    """A setting nobody planned, with the noise it needs: for grids and fixed baselines.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.array([100, 100]), 5, PrivacyBudget.of(1.0, 0.0, 2), "laplace", 1.0)
        >>> stated(problem, 3, 1, StepSize(0.1)).noise  # two uploads each: 2 * 2 C / (n epsilon)
        array([0.04, 0.04])
    """
    rounds = check.count("rounds", rounds)
    b = check.count("clients_per_round", clients_per_round, most=problem.n_clients)
    releases = np.full(problem.n_clients, int(uploads(rounds, b, problem.n_clients)))
    outcome = f"Train {rounds} rounds with {b} clients, as stated."
    release = problem.release(releases)
    return Plan("fedsgd-dpc", CITATION, problem, rounds, b, releases, release, None, {}, outcome, step=step)


def _decide(
    problem: Problem, bound: RepliesBound, most: int, rounds: int | None, clients_per_round: int | None
) -> tuple[int, int, float]:
    best = optimum(problem, bound, most, rounds, clients_per_round)
    if problem.family == "laplace" or problem.family == "none" or rounds is not None:
        return best
    b = clients_per_round or problem.n_clients
    t, cohorts = candidates(problem.n_clients, most, None, b)
    values = bound.at(problem, t, cohorts)
    limit = bound.offset + bound.noise_weight * float(problem.weighted_noise(np.array([1]))[0])
    if problem.sampling_rate < 1:  # noise grows more slowly than k, so one upload says nothing of the limit
        limit = best[2]
    enough = np.flatnonzero(values <= (1 + bound.near_limit) * limit)
    if enough.size == 0 or values[enough[0]] >= bound.no_training:
        return best
    return int(t[enough[0]]), b, float(values[enough[0]])


def vacuous_until(bound: RepliesBound) -> float:
    """Rounds below which the bound cannot recommend training, whatever the budget.

    The noise-free bound with all clients is rest/(T + gamma), above the untrained value until then.
    """
    start = bound.no_training - bound.offset
    return np.inf if start <= 0 else bound.rest / start - bound.gamma


def _outcome(
    problem: Problem, bound: RepliesBound, t: int, b: int, value: float, trains: bool, most: int
) -> str:
    compared = f"bound {value:.4g} against {bound.no_training:.4g} without training"
    if trains and value < bound.no_training:
        k = int(uploads(t, b, problem.n_clients))
        return f"Train {t} rounds with {b} of {problem.n_clients} clients, {k} uploads each: {compared}."
    if trains:
        return (
            f"Train {t} rounds with {b} clients as stated, although the bound advises against it: {compared}."
        )
    if most <= vacuous_until(bound):
        return (
            f"Do not train, but the bound is vacuous here: even without noise it recommends nothing below "
            f"{vacuous_until(bound):.3g} rounds; plan by trial on public data instead ({compared})."
        )
    return (
        f"Do not train: the noise outweighs the gain ({compared}, best of {most} rounds); "
        "raise epsilon or add records."
    )


# As printed -------------------------------------------------------------------------------------------


def as_printed(
    problem: Problem, bound: RepliesBound, rounds: int | None, clients_per_round: int | None, max_rounds: int
) -> dict[str, object]:
    """What the paper's formulas choose and how little noise they add; not private.

    Replies are counted as bT/N although a client cannot reply 1.1 times, and Gaussian noise uses
    c2 = 1 with the sensitivity C/n (theory 1.8, items 1 and 3).
    """
    n = problem.n_clients
    if problem.family == "none":
        return {}
    if problem.family == "laplace":
        curve = laplace_curve(problem, bound)
        b = clients_per_round or (curve.best_clients(rounds, n) if rounds else curve.best(n)[1])
        t = rounds or curve.best_rounds(b)
        t = min(t, float(max_rounds))
        scale = problem.sensitivity.value * (b * t / n) / problem.budget.epsilon
        return {
            "rounds": t, "clients_per_round": b, "noise": scale.tolist(), "private": False,
            "why": "replies counted as bT/N, not ceil(bT/N)",
        }  # fmt: skip
    b, t = clients_per_round or n, rounds or 100
    half = problem.sampling_rate * (1.0 if problem.budget.relation == "add-remove" else 0.5)
    log_term = np.sqrt(b * t / n * np.log(1 / problem.budget.delta)) / problem.budget.epsilon
    return {
        "rounds": t, "clients_per_round": b, "private": False,
        "noise": (half * problem.sensitivity.value * log_term).tolist(),
        "why": "c2 = 1, sensitivity C/n under replace-one, replies counted as bT/N",
    }  # fmt: skip
