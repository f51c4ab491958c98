"""How often to ask each client: the planner P1 of Ma et al. for DPFL-BCS, one stage.

Asking a client more often means more noise in each of its replies, and asking a client that differs from the
rest pulls the model its way. P1 weighs the two: the exact integer optimum under T_n <= T, whose counts can be
scheduled and paid for (docs/theory/ma.md#planner).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy._wording import count, span, times
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dpfl_bcs.bound import (
    UNIT,
    Curvature,
    ParticipationBound,
    Real,
    caps,
    kappa,
    participation_bound,
    participation_costs,
)
from noiseworthy.methods.dpfl_bcs.printed import as_printed
from noiseworthy.methods.dpfl_bcs.search import Counts, ParticipationCosts, continuous, greedy
from noiseworthy.methods.selection import checked_counts, cohort
from noiseworthy.plans.plan import Plan, Prediction, StepSize
from noiseworthy.plans.problem import Constant, Problem

__all__ = ["ParticipationCosts", "continuous", "greedy", "kappa", "plan", "stated", "training"]

CITATION = (
    "Ma et al., the power of bias: optimizing client selection in federated learning with heterogeneous "
    "differential privacy (DPFL-BCS), Theorem 5 and P1; corrected"
)
_NAMED = 10
"""Clients that a note names before it only counts them."""

# The plan ---------------------------------------------------------------------------------------------


def plan(
    problem: Problem, constants: dict[str, Constant], *, rounds: int, clients_per_round: int,
    heterogeneity: ArrayLike | None = None, step: StepSize | None = None, asked_before: Counts | None = None,
    notes: tuple[str, ...] = (),
) -> Plan:  # fmt: skip
    """Plan DPFL-BCS: how often each client is asked, T_n, with K of N clients in each of T rounds.

        minimise sum T_n^(z+1) Phi_n + kappa sum T_n Gamma_n,    sum T_n = K T,    0 <= T_n <= cap_n

    over whole T_n, exactly; cap_n is T, or what the client's resources pay for at c1 + c2 per reply.

    Args:
        problem: public facts and budget, with clipping A; Gaussian noise, Laplace with delta 0, or none.
        constants: `smoothness` and `strong_convexity`, which are needed where heterogeneity differs between
            clients; with `initial_distance_sq` too the error is predicted.
        rounds: T.
        clients_per_round: K.
        heterogeneity: Gamma_n = F_n(w*) - min F_n, at least 0, shape (N,) or one for all; None takes 0.
        step: step sizes; those of the theory, 2 / (mu (t + gamma)), if not given and L and mu are known.
        asked_before: replies that clients gave in an earlier stage, shape (N,), for what is said of them.
        notes: warnings to carry.

    Returns:
        A `Plan` whose `releases` are the T_n, which may be 0, and whose noise pays for them.

    Raises:
        InvalidInput: T or K out of range, Laplace noise with a delta, another clipping mode than A, Poisson
            batches, a constant that is missing or out of range, fewer than K T replies within the caps.

    Guarantee: `sum(releases) == K T`, `releases <= T`, `spent() <= epsilon` and `cost <= budget` for every
    client.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> budget = PrivacyBudget.of([0.1, 1.0, 2.0, 4.0], 0.0, 4)
        >>> problem = Problem(np.full(4, 600), 11, budget, "laplace", 1.0)
        >>> made = plan(problem, {}, rounds=20, clients_per_round=2)  # T_n near D_n epsilon_n, at most T
        >>> made.releases, made.noise.round(4)
        (array([ 1,  6, 13, 20]), array([0.0333, 0.02  , 0.0217, 0.0167]))
        >>> made.outcome
        'Train 20 rounds asking 2 of 4 clients in each; clients are asked 1 to 20 times, by their budget.'

    Source: docs/theory/ma.md#planner; Ma et al., section 5.
    """
    t, k, gamma = _given(problem, rounds, clients_per_round, heterogeneity)
    costs = participation_costs(problem, constants, gamma, t, k)
    _check_feasible(problem, costs, t, k)
    asked, curvature = greedy(costs, k * t), Curvature.among(constants)
    bound = participation_bound(problem, constants, gamma, t, k)
    made = _scheduled(problem, asked, t, k, step or theory_step(curvature))
    return replace(
        made,
        prediction=None if bound is None else _prediction(bound, asked, costs.most),
        constants=constants,
        outcome=_outcome(problem, asked, t, k, gamma, bound, costs.most),
        as_printed=as_printed(problem, t, k, gamma, curvature),
        notes=(*notes, *_notes(problem, asked, t, asked_before), *_step_note(bound, step)),
    )


def stated(
    problem: Problem, counts: ArrayLike, clients_per_round: int, rounds: int, step: StepSize | None = None
) -> Plan:
    """Counts nobody planned, with the noise they need: for grids and baselines, as uniform selection.

    Args:
        problem: public facts and budget, with clipping A.
        counts: T_n, whole numbers between 0 and T with sum K T, shape (N,).
        clients_per_round: K.
        rounds: T.
        step: step sizes.

    Raises:
        InvalidInput: counts that no schedule has, or that the resources do not pay for.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.array([100, 100]), 5, PrivacyBudget.of(1.0, 0.0, 2), "laplace", 1.0)
        >>> stated(problem, [1, 3], 1, 4).noise  # T_n 2 C / (n epsilon)
        array([0.02, 0.06])
    """
    _check_clips_records(problem)
    if np.shape(counts) != (problem.n_clients,):
        raise InvalidInput(
            f"counts must be a list with one entry for each of {problem.n_clients} clients, "
            f"got shape {np.shape(counts)}"
        )
    asked = checked_counts(counts, clients_per_round, rounds)
    _check_paid(problem, asked, rounds)
    return _scheduled(problem, asked, rounds, clients_per_round, step)


def _scheduled(
    problem: Problem, asked: Counts, rounds: int, clients_per_round: int, step: StepSize | None
) -> Plan:
    """Counts with the noise that pays for them; whoever is never asked has that of one reply."""
    return Plan(
        algorithm="dpfl-bcs", citation=CITATION, problem=problem, rounds=rounds,
        clients_per_round=clients_per_round, releases=asked, release=problem.release(np.maximum(asked, 1)),
        prediction=None, constants={},
        outcome=f"{training(problem, asked, rounds, clients_per_round)}, as stated.", step=step,
    )  # fmt: skip


def theory_step(curvature: Curvature | None) -> StepSize | None:
    """2 / (mu (t + gamma)) for t = 1, 2, ..."""
    if curvature is None:
        return None
    later = curvature.gamma + 1
    return StepSize(2 / (curvature.strong_convexity * later), later)


# What is given ----------------------------------------------------------------------------------------


def _given(
    problem: Problem, rounds: int, clients_per_round: int, heterogeneity: ArrayLike | None
) -> tuple[int, int, Real]:
    """T, K and Gamma_n, checked."""
    _check_power_law(problem)
    t = check.count("rounds", rounds)
    k = cohort(clients_per_round, problem.n_clients)
    given = 0.0 if heterogeneity is None else heterogeneity
    gamma = check.per_client("heterogeneity", given, problem.n_clients)
    remedy = "it is the loss of the common optimum beyond a client's own least loss"
    return t, k, check.non_negative("heterogeneity", gamma, remedy=remedy)


def _check_clips_records(problem: Problem) -> None:
    if problem.clipping != "A":
        raise InvalidInput(
            f"replies are each record's clipped gradients (clipping mode A), got mode {problem.clipping}; "
            'set clipping = "A"'
        )


def _check_power_law(problem: Problem) -> None:
    """Refuse noise that is no power of the number of replies, which P1 rests on."""
    _check_clips_records(problem)
    if not problem.law.analysis.closed_form(1.0, problem.budget.delta):
        raise InvalidInput(
            f"dpfl-bcs plans {problem.law.title} noise for pure epsilon, because with a delta its variance "
            "is no power of the number of replies, got delta = "
            f'{problem.budget.delta.max():g}; set delta = 0, or mechanism = "gaussian"'
        )
    if problem.sampling_rate < 1:
        raise InvalidInput(
            f"dpfl-bcs plans full batches, got sampling_rate = {problem.sampling_rate:g}; "
            "set sampling_rate = 1"
        )


def _check_feasible(problem: Problem, costs: ParticipationCosts, rounds: int, clients_per_round: int) -> None:
    """Refuse rounds that the clients that can be asked cannot fill."""
    possible, wanted = int(costs.most.sum()), clients_per_round * rounds
    if possible >= wanted:
        return
    askable = int(np.count_nonzero(costs.most))
    if askable < clients_per_round:
        raise InvalidInput(
            f"clients_per_round must be at most {askable}, the clients whose epsilon allows a reply at all, "
            f"got {clients_per_round}; ask fewer, or raise epsilon"
        )
    raise InvalidInput(
        f"[resources] budget pays for {possible} replies within {rounds} rounds, got clients_per_round = "
        f"{clients_per_round}, which asks for {wanted}; use clients_per_round of at most "
        f"{possible // rounds}, fewer rounds, or raise the budget"
    )


def _check_paid(problem: Problem, asked: Counts, rounds: int) -> None:
    """Refuse counts that some client's resources do not pay for."""
    most = caps(problem, rounds)
    over = np.flatnonzero(asked > most)
    if over.size:
        poor = over[0]
        raise InvalidInput(
            f"[resources] budget pays for {most[poor]} replies of client {poor}, got counts = {asked[poor]}; "
            "ask it less often, or raise its budget"
        )


# What the plan says -----------------------------------------------------------------------------------


def training(problem: Problem, asked: Counts, rounds: int, clients_per_round: int) -> str:
    """The schedule in a clause."""
    asking = f"asking {clients_per_round} of {problem.n_clients} clients in each"
    return f"Train {count(rounds, 'round')} {asking}; clients are asked {times(span(asked.tolist()))}"


def _prediction(bound: ParticipationBound, asked: Counts, most: Counts) -> Prediction:
    """What the bound says of the counts; vacuous where even without noise no counts gain anything."""
    return Prediction(bound.at(asked), bound.no_training, UNIT, bound.quiet(most) >= bound.no_training)


def _outcome(
    problem: Problem, asked: Counts, rounds: int, clients_per_round: int, heterogeneity: Real,
    bound: ParticipationBound | None, most: Counts,
) -> str:  # fmt: skip
    """The decision and its reason."""
    by = _reasons(problem, asked, rounds, heterogeneity) if np.ptp(asked) > 1 else ""
    text = f"{training(problem, asked, rounds, clients_per_round)}{by}"
    if bound is None:
        return f"{text}."
    predicted = _prediction(bound, asked, most)
    against = "" if predicted.bound < bound.no_training else ", although the bound advises against it"
    if predicted.vacuous:
        against = f"; the bound is vacuous here, {bound.quiet(most):.4g} even without noise"
    compared = f"bound {predicted.bound:.4g} against {bound.no_training:.4g} without training"
    return f"{text}{against}; {compared}."


def _reasons(problem: Problem, asked: Counts, rounds: int, heterogeneity: Real) -> str:
    """In what clients differ that counts for how often they are asked."""
    noisy, budget = problem.law.noisy, problem.budget
    differs = {
        "budget": noisy and (np.ptp(budget.epsilon) > 0 or np.ptp(budget.delta) > 0),
        "size": noisy and np.ptp(problem.sizes) > 0,
        "heterogeneity": np.ptp(heterogeneity) > 0,
        "resources": _held(problem, asked, rounds).size > 0,
    }
    *first, last = [name for name, matters in differs.items() if matters]
    return f", by their {', '.join(first)} and {last}" if first else f", by their {last}"


def _notes(problem: Problem, asked: Counts, rounds: int, before: Counts | None) -> tuple[str, ...]:
    """Who is never asked, and whom the resources hold back."""
    never = np.flatnonzero(asked == 0 if before is None else asked + before == 0)
    held = _held(problem, asked, rounds)
    notes = []
    if never.size:
        notes.append(f"{_clients(never)} never asked: nothing is spent there, and nothing learnt.")
    if held.size:
        notes.append(f"{_clients(held)} asked as often as the [resources] budget pays for.")
    return tuple(notes)


def _held(problem: Problem, asked: Counts, rounds: int) -> NDArray[np.intp]:
    """Clients that are asked as often as their resources allow, and less than in every round."""
    if problem.resources is None:
        return np.empty(0, np.intp)
    return np.flatnonzero((asked == caps(problem, rounds)) & (asked < rounds))


def _step_note(bound: ParticipationBound | None, step: StepSize | None) -> tuple[str, ...]:
    """That the bound is of other steps than those to train with, if it is."""
    if bound is None or step in (None, theory_step(bound.curvature)):
        return ()
    return (
        "The bound is of steps 2 / (mu (t + 8 L/mu)); with others it is a guide to whom to ask, no more.",
    )


def _clients(which: NDArray[np.intp]) -> str:
    """Whom a note is about, by number where they are few."""
    if which.size > _NAMED:
        return f"{which.size} clients are"
    names = ", ".join(str(one) for one in which)
    return f"Client {names} is" if which.size == 1 else f"Clients {names} are"
