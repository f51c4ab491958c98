"""How many iterations T, and how many of them between two uploads: the planner of Fu et al. for DP-FedAvg.

The exact integer optimum of the bound in `local_bound` over T and the divisors E of T, with true uploads and
"do not train" as an answer; the continuous guide, the asymptotic law and the paper's own formulas beside it
(theory sections 2.4 to 2.6).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.planning.curves import BoundCurves, Curve
from noiseworthy.planning.local_bound import (
    NEAR_LIMIT,
    LocalBound,
    Noise,
    UploadNoise,
    asymptotic_local_steps,
    best_growth,
    best_iterations,
    best_local_steps,
    convergence_statement,
    noise_exponent,
    power,
    power_law,
)
from noiseworthy.planning.local_work import LocalSteps
from noiseworthy.planning.plan import Plan, Prediction, StepSize
from noiseworthy.planning.problem import Constant, Problem
from noiseworthy.planning.queries_replies import candidates
from noiseworthy.planning.replies_bound import uploads
from noiseworthy.privacy.clipping import unit_of

Whole = NDArray[np.int64]
CITATION = "Fu et al., local iterations in client based DP-FedAvg, Theorems 1 to 5; corrected"


class Given(NamedTuple):
    """What is fixed; None is planned."""

    total_iterations: int | None = None
    local_steps: int | None = None
    clients_per_round: int | None = None


NOTHING = Given()


class Setting(NamedTuple):
    """T, E and b, with the bound there."""

    total_iterations: int
    local_steps: int
    clients_per_round: int
    value: float

    @property
    def rounds(self) -> int:
        """T_g = T/E."""
        return self.total_iterations // self.local_steps


# The integer optimum ----------------------------------------------------------------------------------


def divisors(number: int) -> Whole:
    """All divisors, ascending.

    Example:
        >>> divisors(12)
        array([ 1,  2,  3,  4,  6, 12])
    """
    small = np.arange(1, math.isqrt(number) + 1)
    small = small[number % small == 0]
    return np.unique(np.append(small, number // small))


def optimum(
    bound: LocalBound, noise: Noise, clients: int, max_iterations: int, given: Given = NOTHING
) -> Setting:
    """The (T, E, b) of least bound over the integers, E a divisor of T; ties go to the fewest rounds.

    Enumerates T <= max_iterations and E | T, at every b that can be best: for T_g rounds and k uploads only
    the largest b with ceil(b T_g/N) = k.

    Args:
        bound: from `local_bound`.
        noise: n(T_g, b): `UploadNoise` of a problem, or a `PowerLaw` of one's own.
        clients: N.
        max_iterations: most T to consider where T is not fixed.
        given: what is fixed.

    Example:
        >>> from noiseworthy.planning.local_bound import PowerLaw
        >>> bound = LocalBound(1.0, 0.5, 1.0, 0.1, 100.0)
        >>> optimum(bound, PowerLaw(2.0, 0.1), 10, 500)[:3]
        (36, 2, 10)
        >>> optimum(bound, PowerLaw(2.0, 0.1), 10, 500, Given(total_iterations=64))[:3]
        (64, 4, 10)

    Source: theory 2.4, "this enumeration is the reference answer".
    """
    found = [_least(bound, noise, clients, *block) for block in _blocks(clients, max_iterations, given)]
    value = min(setting.value for setting in found)
    return next(setting for setting in found if setting.value <= value + 1e-12 * abs(value))


def _least(bound: LocalBound, noise: Noise, clients: int, rounds: Whole, steps: Whole, b: Whole) -> Setting:
    """The best of some (T_g, E), shape (m,), and some b, shape (n,)."""
    values = bound.at(noise, (rounds * steps)[:, None], steps[:, None], b, clients)
    row, column = np.unravel_index(np.argmin(values), values.shape)
    e = int(steps[row])
    return Setting(int(rounds[row]) * e, e, int(b[column]), float(values[row, column]))


def _blocks(clients: int, most: int, given: Given) -> Iterator[tuple[Whole, Whole, Whole]]:
    """All (T_g, E), rounds ascending, in blocks that share the candidates b."""
    rounds, steps = _pairs(most, given)
    if given.clients_per_round is not None:
        yield rounds, steps, np.array([given.clients_per_round])
        return
    for block in np.split(np.arange(len(rounds)), np.flatnonzero(np.diff(rounds)) + 1):
        t = int(rounds[block[0]])
        yield rounds[block], steps[block], candidates(clients, t, t, None)[1]


def _pairs(most: int, given: Given) -> tuple[Whole, Whole]:
    t, e = given.total_iterations, given.local_steps
    if t is not None:
        steps = divisors(t)[::-1] if e is None else np.array([e])
        return t // steps, steps
    if e is not None:
        rounds = np.arange(1, most // e + 1)
        return rounds, np.full_like(rounds, e)
    rounds = np.arange(1, most + 1)
    steps = [np.arange(1, most // t + 1) for t in range(1, most + 1)]
    return np.repeat(rounds, most // rounds), np.concatenate(steps)


# The plan ---------------------------------------------------------------------------------------------


def plan(
    problem: Problem,
    bound: LocalBound,
    constants: dict[str, Constant],
    *,
    clients_per_round: int | None = None,
    total_iterations: int | None = None,
    local_steps: int | None = None,
    max_iterations: int = 500,
    step: StepSize | None = None,
    notes: tuple[str, ...] = (),
) -> Plan:
    """Plan DP-FedAvg: iterations T, local steps E per upload and clients b, each given or planned.

    The integer optimum over T <= max_iterations, E | T and b <= N of what is not given. With E given and
    Gaussian noise the bound usually only falls with T towards its limit; then T is the least that is within
    10 % of it. "Do not train" where the bound at the plan is not below its value without training, unless
    both T and E were given.

    Args:
        problem: public facts and budget, with clipping A, B, C or E; mode A takes one step per upload.
        bound: from `local_bound`.
        constants: what the bound rests on, carried into the plan.
        clients_per_round: b if fixed.
        total_iterations: T if fixed.
        local_steps: E if fixed, a divisor of a fixed T.
        max_iterations: most T to consider.
        step: step sizes to train with; the theory's (2/mu)/(k + gamma) if not given.
        notes: warnings to carry.

    Returns:
        A `Plan` of T/E rounds whose noise pays for ceil(b T_g/N) uploads of every client.

    Raises:
        InvalidInput: T, E or b out of range, E no divisor of T, clipping mode D, Poisson batches.
        UnsoundClaim: several local steps under mode A.

    Example:
        >>> from noiseworthy.planning.local_bound import local_bound
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> budget = PrivacyBudget.of(2.0, 1e-5, 40, unit="client")
        >>> problem = Problem(np.full(40, 80), 11, budget, "gaussian", 1.0, clipping="C")
        >>> values = dict(
        ...     smoothness=1.0,
        ...     strong_convexity=0.5,
        ...     gradient_bound=1.0,
        ...     heterogeneity=0.1,
        ...     initial_distance_sq=400.0,
        ... )
        >>> constants = {name: Constant(value, "assumed") for name, value in values.items()}
        >>> best = plan(problem, local_bound(constants), constants, total_iterations=120)
        >>> best.local.steps, best.rounds, best.releases[0]
        (1, 120, np.int64(120))

    Source: theory 2.4; Fu et al., Theorems 3 to 5.
    """
    _check_bounded(problem)
    _check_full_batches(problem)
    most = check.count("max_iterations", max_iterations)
    given = _given(problem, total_iterations, local_steps, clients_per_round, most)
    most = given.total_iterations or most
    found = _decide(problem, bound, given, most)
    fixed = None not in (given.total_iterations, given.local_steps)
    trains = fixed or found.value < bound.no_training
    step = step or _schedule(bound, found.local_steps)
    return replace(
        _scheduled(problem, found, step, trains),
        prediction=Prediction(found.value if trains else bound.no_training, bound.no_training, bound.unit),
        constants=constants,
        outcome=_outcome(problem, bound, found, given, trains, most),
        as_printed=as_printed(problem, found, given, step),
        notes=(*notes, *_notes(problem, bound, found, given, trains)),
    )


def stated(
    problem: Problem,
    total_iterations: int,
    local_steps: int,
    clients_per_round: int,
    step: StepSize,
    batch_size: int | None = None,
) -> Plan:
    """A setting nobody planned, with the noise it needs: for grids and fixed baselines, mode D too.

    Args:
        problem: public facts and budget.
        total_iterations: T.
        local_steps: E, a divisor of T.
        clients_per_round: b.
        step: step sizes of the local iterations.
        batch_size: records per local step, modes C and D only; None takes all.

    Raises:
        InvalidInput: T, E or b out of range, E no divisor of T, Poisson batches.
        UnsoundClaim: several local steps under mode A, minibatches under a mode that protects records.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> budget = PrivacyBudget.of(1.0, 0.0, 2, unit="client")
        >>> problem = Problem(np.array([100, 100]), 5, budget, "laplace", 1.0, clipping="C")
        >>> stated(problem, 6, 2, 1, StepSize(0.1, float("inf"))).noise  # two uploads: 2 * 2 C * 0.2/epsilon
        array([0.8, 0.8])
    """
    _check_full_batches(problem)
    t, e = _iterations(total_iterations), _steps(problem, local_steps)
    _check_divides(t, e)
    setting = Setting(t, e, _cohort(problem, clients_per_round), np.nan)
    if batch_size is not None and unit_of(problem.clipping) == "record":
        raise UnsoundClaim(
            f"clipping mode {problem.clipping} has no proof for minibatches, got batch_size {batch_size}; "
            "leave it out, or use mode C or D"
        )
    return replace(_scheduled(problem, setting, step), local=LocalSteps(e, batch_size))


def curves(problem: Problem, bound: LocalBound, plan: Plan, max_iterations: int = 500) -> BoundCurves:
    """The bound against local steps E: for the T of the plan, and for half and twice as many iterations.

    Under mode A, which takes one step per upload, against rounds instead. A plan not to train shows the best
    T up to `max_iterations`.

    Args:
        problem: of the plan.
        bound: from `local_bound`, for the constants of the plan.
        plan: of `dp-fedavg`.
        max_iterations: where a plan does not train.

    Raises:
        InvalidInput: a plan without local steps.
    """
    if not isinstance(plan.local, LocalSteps):
        raise InvalidInput("these curves need a plan of dp-fedavg, with local steps; got another one")
    noise, n = UploadNoise.of(problem), problem.n_clients
    t, b = plan.rounds * plan.local.steps, plan.clients_per_round
    if not plan.train:
        t, _, b, _ = _best(problem, bound, _given(problem, None, None, None, max_iterations), max_iterations)
    if problem.clipping == "A":
        x = np.unique(np.linspace(1, 2 * t, 200).round().astype(int))
        drawn = Curve("one local step per upload", x.tolist(), bound.at(noise, x, 1, b, n).tolist())
        return BoundCurves("rounds", (drawn,), plan.rounds or None)
    lengths = dict.fromkeys(length for length in (t, t // 2, 2 * t) if length)
    drawn = tuple(_curve(bound, noise, length, b, n) for length in lengths)
    return BoundCurves("local steps per upload", drawn, plan.local.steps if plan.train else None)


def _curve(bound: LocalBound, noise: Noise, total_iterations: int, b: int, clients: int) -> Curve:
    steps = divisors(total_iterations)
    values = bound.at(noise, total_iterations, steps, b, clients)
    return Curve(f"T = {total_iterations} iterations", steps.tolist(), values.tolist())


# What is allowed --------------------------------------------------------------------------------------


def _check_bounded(problem: Problem) -> None:
    if problem.clipping == "D":
        raise InvalidInput(
            "clipping mode D, clipped updates, has no bound to plan by; "
            "state total_iterations and local_steps, or use mode C"
        )


def _check_full_batches(problem: Problem) -> None:
    if problem.sampling_rate < 1:
        raise InvalidInput(
            f"dp-fedavg takes all records in every local step, got sampling_rate {problem.sampling_rate:g}; "
            "use sampling_rate = 1, or fedsgd-dpc for Poisson batches"
        )


def _given(problem: Problem, t: int | None, e: int | None, b: int | None, most: int) -> Given:
    """What is fixed, in range and allowed together; mode A fixes E = 1."""
    t = None if t is None else _iterations(t)
    b = None if b is None else _cohort(problem, b)
    if e is None:
        return Given(t, 1 if problem.clipping == "A" else None, b)
    e = _steps(problem, e, most if t is None else None)
    if t is not None:
        _check_divides(t, e)
    return Given(t, e, b)


def _iterations(t: int) -> int:
    return check.count(
        "total_iterations", t, remedy="T = 0 is no training; leave total_iterations to the planner"
    )


def _cohort(problem: Problem, b: int) -> int:
    remedy = f"the federation has {problem.n_clients} clients"
    return check.count("clients_per_round", b, most=problem.n_clients, remedy=remedy)


def _steps(problem: Problem, e: int, most: int | None = None) -> int:
    e = check.count("local_steps", e, most=most, remedy="max_iterations is the most" if most else "")
    if problem.clipping == "A" and e > 1:
        raise UnsoundClaim(
            f"clipping mode A is proved for one local step per upload, got local_steps = {e}; "
            "use local_steps = 1, mode B or E for a convex loss, or mode C"
        )
    return e


def _check_divides(t: int, e: int) -> None:
    if t % e == 0:
        return
    every = divisors(t)
    near = [every[every < e].max(), *every[every > e][:1]]
    lengths = [length for length in (t // e * e, -(-t // e) * e) if length]
    raise InvalidInput(
        f"local_steps must divide total_iterations = {t}, got {e}; use local_steps = {_either(near)}, "
        f"or total_iterations = {_either(lengths)}"
    )


def _either(numbers: list[int]) -> str:
    return " or ".join(str(number) for number in numbers)


# The decision -----------------------------------------------------------------------------------------


def _best(problem: Problem, bound: LocalBound, given: Given, most: int) -> Setting:
    """The integer optimum; for Gaussian noise and a fixed E the least T near the limit."""
    noise, n = UploadNoise.of(problem), problem.n_clients
    if None in given:
        uploaded = uploads(most // (given.local_steps or 1), given.clients_per_round or n, n)
        noise = UploadNoise.tabulated(problem, int(uploaded))
    best = optimum(bound, noise, n, most, given)
    if problem.family == "gaussian" and given.total_iterations is None and given.local_steps is not None:
        return _near_limit(problem, bound, noise, given, most, best)
    return best


def _decide(problem: Problem, bound: LocalBound, given: Given, most: int) -> Setting:
    """The best setting, with the exact bound: a search may have interpolated its noise."""
    found = _best(problem, bound, given, most)
    t, e, b, _ = found
    return found._replace(value=float(bound.at(UploadNoise.of(problem), t, e, b, problem.n_clients)))


def _near_limit(
    problem: Problem, bound: LocalBound, noise: Noise, given: Given, most: int, best: Setting
) -> Setting:
    """The least T within 10 % of the limit, where there is one and the bound does not dip below the limit."""
    n, e = problem.n_clients, given.local_steps or 1
    b = given.clients_per_round or n
    law = power_law(problem, b)
    t = np.arange(e, most + 1, e)
    values = bound.at(noise, t, e, b, n)
    limit = bound.limit(law) if law else np.inf
    enough = np.flatnonzero(values <= (1 + NEAR_LIMIT) * limit)
    if best.value < limit or enough.size == 0 or values[enough[0]] >= bound.no_training:
        return best
    return Setting(int(t[enough[0]]), e, b, float(values[enough[0]]))


def _schedule(bound: LocalBound, local_steps: int) -> StepSize:
    """(2/mu)/(k + gamma) with gamma = max(8L/mu, E)."""
    gamma = float(bound.gamma(local_steps))
    return StepSize(2 / (bound.strong_convexity * gamma), gamma)


def _scheduled(problem: Problem, setting: Setting, step: StepSize, trains: bool = True) -> Plan:
    """The rounds of a setting, with the noise that pays for them; none if it is not worth training."""
    k = int(uploads(setting.rounds, setting.clients_per_round, problem.n_clients)) if trains else 0
    releases = np.full(problem.n_clients, k)
    return Plan(
        algorithm="dp-fedavg",
        citation=CITATION,
        problem=problem,
        rounds=setting.rounds if trains else 0,
        clients_per_round=setting.clients_per_round if trains else 0,
        releases=releases,
        release=problem.release(releases) if trains else None,
        prediction=None,
        constants={},
        outcome=f"{_training(problem, setting)}, as stated.",
        step=step,
        local=LocalSteps(setting.local_steps),
    )


# In words ---------------------------------------------------------------------------------------------


def _training(problem: Problem, setting: Setting) -> str:
    t, e, b, _ = setting
    k = int(uploads(setting.rounds, b, problem.n_clients))
    steps = f"{setting.rounds} rounds of {e} local step{'s' if e > 1 else ''} ({t} iterations)"
    return f"Train {steps} with {b} of {problem.n_clients} clients, {k} upload{'s' if k > 1 else ''} each"


def _outcome(
    problem: Problem, bound: LocalBound, found: Setting, given: Given, trains: bool, most: int
) -> str:
    compared = f"bound {found.value:.4g} against {bound.no_training:.4g} without training"
    if trains:
        advised = found.value < bound.no_training
        against = "" if advised else ", as stated, although the bound advises against it"
        return f"{_training(problem, found)}{against}: {compared}."
    n = problem.n_clients
    needed = bound.vacuous_until(given.local_steps or 1, given.clients_per_round or n, n)
    if most <= needed:
        return (
            f"Do not train, but the bound is vacuous here: even without noise it recommends nothing up to "
            f"{needed:.3g} iterations; plan by trial on public data instead ({compared})."
        )
    more = "records" if problem.sensitivity.unit == "record" else "clients"
    return (
        f"Do not train: the noise outweighs the gain ({compared}, best of {most} iterations); "
        f"raise epsilon or add {more}."
    )


def _notes(
    problem: Problem, bound: LocalBound, found: Setting, given: Given, trains: bool
) -> tuple[str, ...]:
    """The continuous guide, the law for large T and what more iterations bring; and who is never asked."""
    z, notes = noise_exponent(problem), []
    if problem.clipping != "A":
        notes.append(_guide(problem, bound, found))
    if given.local_steps is not None and given.total_iterations is None:
        notes.append(_best_length(problem, bound, found))
    noise = "There is no noise"
    if problem.family != "none":
        noise = f"For a fixed budget the variance of the noise grows like {power('T_g', z)}"
    notes.append(f"{noise}. {convergence_statement(z)}")
    reached = found.rounds * found.clients_per_round
    if trains and reached < problem.n_clients:
        notes.append(
            f"{reached} of {problem.n_clients} clients are asked once and the others never: "
            "fewer rounds than N/b."
        )
    return tuple(note for note in notes if note)


def _guide(problem: Problem, bound: LocalBound, found: Setting) -> str:
    t, _, b, _ = found
    law = power_law(problem, b)
    if law is None:
        return "Laplace noise with a delta follows no power of T_g: E comes from enumeration alone."
    guide = best_local_steps(bound, law, t, b, problem.n_clients)
    far = float(asymptotic_local_steps(law.exponent, t))
    growth = best_growth(law.exponent)
    large = f"E grows like {power('T', growth)} ({far:.3g} for the pure rates)" if growth else "E = O(1)"
    return f"Continuous guide at T = {t}: E = {guide:.3g}. Law for large T: {large}."


def _best_length(problem: Problem, bound: LocalBound, found: Setting) -> str:
    _, e, b, _ = found
    law = power_law(problem, b)
    if law is None:
        return ""
    t = best_iterations(bound, law, e, b, problem.n_clients)
    return f"Continuous guide at E = {e}: T = {t:.4g}." if np.isfinite(t) else ""


# As printed -------------------------------------------------------------------------------------------

_PRINTED_EXPONENT = {"laplace": 2.0, "gaussian": 1.0}


def as_printed(problem: Problem, found: Setting, given: Given, step: StepSize) -> dict[str, Any]:
    """What Theorems 1, 2, 4 and 5 choose at the same T and how little noise they add; not private.

    E = T^(z/(z+1)) rounded; T_l = b T_g/N uploads that need not be whole; for S = E times the largest step
    size and the sensitivity of one gradient, Laplace noise T_l S/epsilon, Gaussian noise with c2 = 1 and S/2
    (theory 2.6, items 1, 2, 3 and 7).
    """
    if problem.family == "none":
        return {}
    t, b = found.total_iterations, found.clients_per_round
    z = _PRINTED_EXPONENT[problem.family]
    e = given.local_steps or max(round(t ** (z / (z + 1))), 1)
    k = b * t / (e * problem.n_clients)
    noise, why = _printed_noise(problem, k)
    return {
        "total_iterations": t, "local_steps": e, "rounds": t / e, "clients_per_round": b, "uploads": k,
        "noise": (step.initial * e * noise).tolist(), "private": False, "why": why,
    }  # fmt: skip


def _printed_noise(problem: Problem, uploaded: float) -> tuple[NDArray[np.float64], str]:
    """Per unit of eta E, and what is wrong with it."""
    budget, sensitivity = problem.budget, problem.sensitivity.value
    why = "uploads counted as b T_g/N, not ceil(b T_g/N)"
    if problem.family == "gaussian":
        half = 1.0 if budget.relation == "add-remove" else 0.5
        unit = np.sqrt(uploaded * np.log(1 / budget.delta)) / budget.epsilon
        return half * sensitivity * unit, f"{why}; c2 = 1; the norm of a gradient for its sensitivity"
    if problem.clipping == "E":
        sensitivity = sensitivity / np.sqrt(problem.dimension)
        why = f"{why}; E times the L1 sensitivity of one gradient, which is no bound after several steps"
    return uploaded * sensitivity / budget.epsilon, why
