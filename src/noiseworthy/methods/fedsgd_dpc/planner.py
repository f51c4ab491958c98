"""How many rounds T and clients b: the planner of Zhou et al. for FedSGD-DPC.

The exact integer optimum of the bound in `replies_bound` over the staircase of true uploads, with
"do not train" as an answer, and the paper's own formulas beside it (docs/theory/zhou.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy._wording import count
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.fedsgd_dpc.bound import RepliesBound, laplace_curve, uploads, vacuous_until
from noiseworthy.methods.fedsgd_dpc.words import AXIS
from noiseworthy.methods.phrases import BY_TRIAL, unless_noise
from noiseworthy.methods.selection import cohort
from noiseworthy.plans.curves import BoundCurves, Curve
from noiseworthy.plans.local_work import check_length
from noiseworthy.plans.plan import Plan, Prediction, StepSize
from noiseworthy.plans.problem import Constant, Problem, Sketch
from noiseworthy.plans.stages import Pilot

CITATION = (
    "Zhou et al., optimizing the numbers of queries and replies in federated learning with differential "
    "privacy (FedSGD-DPC), Theorems 1 to 4; corrected"
)
_REMEDY = f'{BY_TRIAL}, or plan by the rule, source = "rule"'

# The integer optimum over the staircase of true uploads -----------------------------------------------


def candidates(
    clients: int,
    max_rounds: int,
    rounds: int | None,
    clients_per_round: int | None,
    most_uploads: float = np.inf,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All (T, b) that can be optimal with at most so many uploads of a client, as two vectors.

    At fixed T and k the bound falls with b, so only the largest b with ceil(bT/N) = k matters:
    b = floor(kN/T). That leaves at most min(N, T) candidates for every T.
    """
    horizon = np.arange(1, max_rounds + 1) if rounds is None else np.array([rounds])
    if clients_per_round is not None:
        t, b = horizon, np.full_like(horizon, clients_per_round)
    else:
        _check_pairs(len(horizon), int(horizon[-1]), clients)
        places, b = cohorts_of(horizon, clients)
        t = horizon[places]
    paid = uploads(t, b, clients) <= most_uploads
    return t[paid], b[paid]


def cohorts_of(rounds: NDArray[np.int64], clients: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places of rounds T, each as often as a number of clients b can be best for it, and these b.

    Example:
        >>> cohorts_of(np.array([2, 9]), 5)
        (array([0, 0, 1, 1, 1, 1, 1]), array([2, 5, 1, 2, 3, 4, 5]))
    """
    counts = np.minimum(rounds, clients)
    places = np.repeat(np.arange(len(rounds)), counts)
    t, k = rounds[places], 1 + np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
    # from T = N on every b has a number of uploads of its own
    return places, np.where(t >= clients, k, k * clients // t)


_MOST_PAIRS = 20_000_000
"""Pairs (T, b) that are weighed in seconds."""


def _check_pairs(horizons: int, rounds: int, clients: int) -> None:
    """Refuse a search over more pairs of rounds and clients than there is memory for."""
    if (pairs := horizons * min(rounds, clients)) > _MOST_PAIRS:
        raise InvalidInput(
            f"max_rounds = {rounds} with {clients} clients gives {pairs:.2g} pairs of rounds and clients to "
            f"weigh, which must be at most {_MOST_PAIRS:.2g}; lower max_rounds, or state rounds or "
            "clients_per_round"
        )


def optimum(
    problem: Problem,
    bound: RepliesBound,
    max_rounds: int,
    rounds: int | None,
    clients_per_round: int | None,
    paid_before: int = 0,
) -> tuple[int, int, float]:
    """The (T, b) of least bound over the integers, with that bound; ties go to the fewest uploads.

    Only uploads that the resources pay for beside `paid_before` earlier ones are considered.
    """
    limit = problem.most_uploads() - paid_before
    t, b = candidates(problem.n_clients, max_rounds, rounds, clients_per_round, limit)
    values = bound.at(problem, t, b)
    near = np.flatnonzero(values <= values.min() + 1e-12 * abs(values.min()))
    best = near[np.argmin(t[near] * b[near])]
    return int(t[best]), int(b[best]), float(values[best])


def plan(
    problem: Problem, bound: RepliesBound, constants: dict[str, Constant], *, rounds: int | None = None,
    clients_per_round: int | None = None, max_rounds: int = 500, step: StepSize | None = None,
    notes: tuple[str, ...] = (), pilot: Pilot | None = None,
) -> Plan:  # fmt: skip
    """Plan FedSGD-DPC: rounds T and clients b, each given or planned.

    Laplace: the integer optimum over T <= max_rounds and b <= N. Gaussian: b = N, and the least T whose
    bound is within 10 % of its limit, because the bound only falls with T (Poisson batches: of the
    best within max_rounds). Both among the T and b whose k = ceil(bT/N) uploads, at c1 + c2 each, every
    client can pay for; a pilot costs as much as one of them. "Do not train" where the
    bound at the plan is not below its value without training, unless both T and b were given. The prediction
    is `vacuous` where that is so for every T that was considered, at any epsilon.

    Args:
        problem: public facts and budget.
        bound: from `theory_bound` or a fit to trials.
        constants: what the bound rests on, carried into the plan.
        rounds: T if fixed, else planned.
        clients_per_round: b if fixed, else planned.
        max_rounds: most rounds to consider.
        step: step sizes to train with.
        notes: warnings to carry.
        pilot: the upload that bought the constants, if they were bought.

    Returns:
        A `Plan` whose noise pays for ceil(bT/N) uploads of every client.

    Raises:
        InvalidInput: T or b outside 1..max_rounds or 1..N, or beyond what the resources pay for.

    Guarantee: `plan.cost <= problem.resources.budget` for every client.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.full(10, 6000), 7840, PrivacyBudget.of(5.0, 0.0, 10), "laplace", 300.0)
        >>> from noiseworthy.methods.fedsgd_dpc.bound import theory_bound
        >>> values = {"smoothness": 1.0, "strong_convexity": 0.1, "gradient_bound": 10.0}
        >>> values |= {"initial_distance_sq": 9000.0, "heterogeneity": 0.5}
        >>> constants = {name: Constant(value, "assumed") for name, value in values.items()}
        >>> best = plan(problem, theory_bound(problem, constants), constants)
        >>> best.rounds, best.clients_per_round, best.releases[0]
        (80, 1, np.int64(8))
    """
    most = check.count("max_rounds", max_rounds)
    rounds, clients_per_round = in_range(problem.n_clients, rounds, clients_per_round)
    most = max(most, rounds or 0)
    check_paid(problem, rounds, clients_per_round, pilot)
    t, b, value = _decide(problem, bound, most, rounds, clients_per_round, pilot)
    value = float(bound.at(problem, [t], [b])[0])
    trains = value < bound.no_training or None not in (rounds, clients_per_round)
    releases = np.full(problem.n_clients, int(uploads(t, b, problem.n_clients)) if trains else 0)
    return Plan(
        algorithm="fedsgd-dpc",
        citation=CITATION,
        problem=problem,
        rounds=t if trains else 0,
        clients_per_round=b if trains else 0,
        releases=releases,
        release=problem.release(releases, b) if trains else None,
        prediction=Prediction(
            value if trains else bound.no_training,
            bound.no_training,
            bound.unit,
            vacuous=bool((rounds or most) <= vacuous_until(bound)),
        ),
        constants=constants,
        outcome=_outcome(problem, bound, t, b, value, trains, rounds or most),
        as_printed=as_printed(problem, bound, rounds, clients_per_round, most),
        step=step,
        notes=(*notes, *_limit_note(problem, most, clients_per_round, pilot)),
        pilot=pilot,
    )


def in_range(n: int, rounds: int | None, clients_per_round: int | None) -> tuple[int | None, int | None]:
    """Rounds T and clients b as they are given, each None where it is free.

    Raises:
        InvalidInput: T below 1, or b outside 1..N.
    """
    if rounds is not None:
        rounds = check_length("rounds", rounds)
    if clients_per_round is not None:
        clients_per_round = cohort(clients_per_round, n)
    return rounds, clients_per_round


def check_paid(
    problem: Problem, rounds: int | None, clients_per_round: int | None, pilot: Pilot | None = None
) -> None:
    """Refuse rounds T and clients b that the resources do not pay for.

    Args:
        problem: with its resources.
        rounds: T, or None where it is free.
        clients_per_round: b, or None where it is free.
        pilot: an upload that was paid before.

    Raises:
        InvalidInput: more than the affordable uploads of a client, with the most T and b that are affordable.
    """
    n, limit = problem.n_clients, problem.most_uploads() - (pilot is not None)
    asked = int(uploads(rounds or 1, clients_per_round or 1, n))
    if asked <= limit:
        return
    t, b = rounds or 1, clients_per_round or 1
    remedy = [f"use rounds of at most {int(limit) * n // b}"]
    if int(limit) * n // t:
        remedy.append(f"clients_per_round of at most {int(limit) * n // t}")
    raise InvalidInput(
        f"[resources] budget pays for {int(limit)} uploads of every client, got rounds = {t} with {b} of "
        f"{n} clients each, which is {asked}; {' or '.join(remedy)}, or raise the budget"
    )


def stated(problem: Problem, rounds: int, clients_per_round: int, step: StepSize) -> Plan:
    """A setting nobody planned, with the noise it needs: for grids and fixed baselines.

    Raises:
        InvalidInput: T or b out of range, or beyond what the resources pay for.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.array([100, 100]), 5, PrivacyBudget.of(1.0, 0.0, 2), "laplace", 1.0)
        >>> stated(problem, 3, 1, StepSize(0.1)).noise  # two uploads each: 2 * 2 C / (n epsilon)
        array([0.04, 0.04])
    """
    rounds = check.count("rounds", rounds)
    b = check.count("clients_per_round", clients_per_round, most=problem.n_clients)
    check_paid(problem, rounds, b)
    releases = np.full(problem.n_clients, int(uploads(rounds, b, problem.n_clients)))
    outcome = f"Train {count(rounds, 'round')} with {count(b, 'client')}, as stated."
    release = problem.release(releases, b)
    return Plan("fedsgd-dpc", CITATION, problem, rounds, b, releases, release, None, {}, outcome, step=step)


def _decide(
    problem: Problem,
    bound: RepliesBound,
    most: int,
    rounds: int | None,
    clients_per_round: int | None,
    pilot: Pilot | None = None,
) -> tuple[int, int, float]:
    paid_before = int(pilot is not None)
    best = optimum(problem, bound, most, rounds, clients_per_round, paid_before)
    if problem.law.exponent != 1 or rounds is not None:
        return best
    b = clients_per_round or problem.n_clients
    t, cohorts = candidates(problem.n_clients, most, None, b, problem.most_uploads() - paid_before)
    values = bound.at(problem, t, cohorts)
    limit = bound.offset + bound.noise_weight * float(problem.weighted_noise(np.array([1]), b)[0])
    if problem.sampling_rate < 1:  # noise grows more slowly than k, so one upload says nothing of the limit
        limit = best[2]
    enough = np.flatnonzero(values <= (1 + bound.near_limit) * limit)
    if enough.size == 0 or values[enough[0]] >= bound.no_training:
        return best
    return int(t[enough[0]]), b, float(values[enough[0]])


def _limit_note(problem: Problem, most: int, b: int | None, pilot: Pilot | None) -> tuple[str, ...]:
    """What the resources left out, if anything."""
    limit, n = problem.most_uploads() - (pilot is not None), problem.n_clients
    if uploads(most, b or n, n) <= limit:
        return ()
    beside = " beside the one that bought the constants" if pilot else ""
    return (f"[resources] budget pays for at most {int(limit)} uploads of every client{beside}.",)


def _outcome(
    problem: Problem, bound: RepliesBound, t: int, b: int, value: float, trains: bool, most: int
) -> str:
    compared = f"bound {value:.4g} against {bound.no_training:.4g} without training"
    if trains and value < bound.no_training:
        each = count(int(uploads(t, b, problem.n_clients)), "upload")
        return f"Train {count(t, 'round')} with {b} of {problem.n_clients} clients, {each} each: {compared}."
    if trains:
        schedule = f"Train {count(t, 'round')} with {count(b, 'client')} as stated"
        return f"{schedule}, although the bound advises against it: {compared}."
    if most <= vacuous_until(bound):
        needed = f"it recommends nothing below {vacuous_until(bound):.3g} rounds, of which {most} are allowed"
        return unless_noise(needed, compared, _REMEDY)
    why = f"the noise outweighs the gain ({compared}, best of {most} rounds)"
    return f"Do not train: {why}; raise epsilon or add records."


def curves(problem: Problem, bound: RepliesBound, made: Plan, most: int) -> BoundCurves:
    """The bound against rounds, for the planned b and a few others, up to `most` rounds."""
    problem, n = Sketch.of(problem) if problem.sampling_rate < 1 else problem, problem.n_clients
    others = {1, max(1, round(np.sqrt(n))), n} - {made.clients_per_round}
    cohorts = [made.clients_per_round] * made.train + sorted(others)
    lines = tuple(_curve(problem, bound, b, most) for b in cohorts)
    return BoundCurves(AXIS, lines, made.rounds if made.train else None)


def _curve(problem: Problem, bound: RepliesBound, clients_per_round: int, most: int) -> Curve:
    """The bound at the ends of passes over the clients, where every reply paid for has been asked for."""
    n = problem.n_clients
    spaced = np.unique(np.geomspace(1, most, 120).round().astype(int))
    passes = np.maximum(spaced * clients_per_round // n, 1)
    rounds = np.unique(np.where(spaced * clients_per_round < n, spaced, passes * n // clients_per_round))
    values = bound.at(problem, rounds, np.full_like(rounds, clients_per_round))
    return Curve(f"b = {clients_per_round}", rounds.tolist(), values.tolist())


# As printed -------------------------------------------------------------------------------------------


def as_printed(
    problem: Problem, bound: RepliesBound, rounds: int | None, clients_per_round: int | None, max_rounds: int
) -> dict[str, object]:
    """What the paper's formulas choose and how little noise they add; not private.

    Replies are counted as bT/N although a client cannot reply 1.1 times, and Gaussian noise uses
    c2 = 1 with the sensitivity C/n (docs/theory/zhou.md#errata).
    """
    n = problem.n_clients
    if not problem.law.noisy:
        return {}
    if problem.law.pure:
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
