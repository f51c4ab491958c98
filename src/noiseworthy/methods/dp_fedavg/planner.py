"""How many iterations T, and how many of them between two uploads: the planner of Fu et al. for DP-FedAvg.

The exact integer optimum of the bound in `local_bound` over T and the divisors E of T, with true uploads and
"do not train" as an answer; the continuous guide, the asymptotic law and the paper's own formulas beside it
(docs/theory/fu.md#planner).
"""

from dataclasses import replace

import numpy as np

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.methods.dp_fedavg.bound import NEAR, LocalBound, Noise, UploadNoise, power_law
from noiseworthy.methods.dp_fedavg.search import Given, Setting, most_uploads, optimum
from noiseworthy.methods.dp_fedavg.words import AXIS, as_printed, is_vacuous, notes_of, outcome_of, training
from noiseworthy.methods.fedsgd_dpc.bound import uploads
from noiseworthy.methods.selection import cohort
from noiseworthy.plans.curves import BoundCurves, Curve
from noiseworthy.plans.local_work import LocalSteps, check_divides, check_length, divisors
from noiseworthy.plans.plan import Plan, Prediction, StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.privacy.clipping import unit_of

CITATION = (
    "Fu et al., on the practicality of differential privacy in federated learning by tuning iteration times "
    "(DP-FedAvg), Theorems 1 to 5; corrected"
)


# The plan ---------------------------------------------------------------------------------------------


def plan(
    problem: Problem, bound: LocalBound, constants: dict[str, Constant], *,
    clients_per_round: int | None = None, total_iterations: int | None = None,
    local_steps: int | None = None, max_iterations: int = 500, step: StepSize | None = None,
    notes: tuple[str, ...] = (),
) -> Plan:  # fmt: skip
    """Plan DP-FedAvg: iterations T, local steps E per upload and clients b, each given or planned.

    The integer optimum over T <= max_iterations, E | T and b <= N of what is not given, among those whose
    k = ceil(b T_g/N) uploads, at c1 + E c2 each, every client can pay for. With E given and
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
        InvalidInput: T, E or b out of range or beyond what the resources pay for, E no divisor of T, clipping
            mode D, Poisson batches.
        UnsoundClaim: several local steps under mode A.

    Guarantee: `plan.cost <= problem.resources.budget` for every client.

    Example:
        >>> from noiseworthy.methods.dp_fedavg.bound import CONSTANT_NAMES, local_bound
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> budget = PrivacyBudget.of(2.0, 1e-5, 40, unit="client")
        >>> problem = Problem(np.full(40, 80), 11, budget, "gaussian", 1.0, clipping="C")
        >>> values = zip(CONSTANT_NAMES, (1.0, 0.5, 1.0, 400.0, 0.1))
        >>> constants = {name: Constant(value, "assumed") for name, value in values}
        >>> best = plan(problem, local_bound(constants), constants, total_iterations=120)
        >>> best.local.steps, best.rounds, best.releases[0]
        (1, 120, np.int64(120))

    Source: docs/theory/fu.md#planner; Fu et al., Theorems 3 to 5.
    """
    if problem.clipping == "D":
        raise InvalidInput(
            "clipping mode D, clipped updates, has no bound to plan by; "
            "state total_iterations and local_steps, or use mode C"
        )
    _check_full_batches(problem)
    most = check.count("max_iterations", max_iterations)
    given = _given(problem, total_iterations, local_steps, clients_per_round, most)
    most = given.total_iterations or most
    _check_paid(problem, given)
    found = _decide(problem, bound, given, most)
    trains = found.value < bound.no_training or None not in (given.total_iterations, given.local_steps)
    step = step or theory_step(bound, found.local_steps)
    return replace(
        _scheduled(problem, found, step, trains),
        prediction=Prediction(
            found.value if trains else bound.no_training,
            bound.no_training,
            bound.unit,
            is_vacuous(problem, bound, given, most),
        ),
        constants=constants,
        outcome=outcome_of(problem, bound, found, given, trains, most),
        as_printed=as_printed(problem, found, given, step),
        notes=(
            *notes,
            *notes_of(problem, bound, found, given, trains),
            *_limit_note(problem, found, given, most),
        ),
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
        InvalidInput: T, E or b out of range or beyond the resources, E no divisor of T, Poisson batches.
        UnsoundClaim: several local steps under mode A, minibatches under a mode that protects records.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> budget = PrivacyBudget.of(1.0, 0.0, 2, unit="client")
        >>> problem = Problem(np.array([100, 100]), 5, budget, "laplace", 1.0, clipping="C")
        >>> stated(problem, 6, 2, 1, StepSize(0.1, float("inf"))).noise  # two uploads: 2 * 2 C * 0.2/epsilon
        array([0.8, 0.8])
    """
    _check_full_batches(problem)
    t, e = check_length("total_iterations", total_iterations), _steps(problem, local_steps)
    check_divides(t, e)
    setting = Setting(t, e, cohort(clients_per_round, problem.n_clients), np.nan)
    _check_paid(problem, Given(t, e, setting.clients_per_round))
    if batch_size is not None and unit_of(problem.clipping) != "client":
        raise UnsoundClaim(
            f"clipping mode {problem.clipping} has no proof for minibatches, got batch_size {batch_size}; "
            "leave it out, or use mode C or D"
        )
    return replace(_scheduled(problem, setting, step), local=LocalSteps(e, batch_size))


def curves(
    problem: Problem,
    bound: LocalBound,
    plan: Plan,
    total_iterations: int | None = None,
    max_iterations: int = 500,
) -> BoundCurves:
    """The bound against local steps E: for the T of the plan, and for half and twice as many iterations.

    Under mode A, which takes one step per upload, against rounds instead. A plan not to train shows the best
    T up to `max_iterations`.

    Args:
        problem: of the plan.
        bound: from `local_bound`, for the constants of the plan.
        plan: of `dp-fedavg`.
        total_iterations: T if it was fixed, for a plan that does not train.
        max_iterations: else the most T to consider for such a plan.

    Raises:
        InvalidInput: a plan without local steps.
    """
    if not isinstance(plan.local, LocalSteps):
        raise InvalidInput("these curves need a plan of dp-fedavg, with local steps; got another one")
    noise, n = UploadNoise.of(problem), problem.n_clients
    t, b = plan.rounds * plan.local.steps, plan.clients_per_round
    if not plan.train:
        given = _given(problem, total_iterations, None, None, max_iterations)
        t, _, b, _ = _best(problem, bound, given, max_iterations)
    if problem.clipping == "A":
        x = np.unique(np.linspace(1, 2 * t, 200).round().astype(int))
        drawn = Curve("one local step per upload", x.tolist(), bound.at(noise, x, 1, b, n).tolist())
        return BoundCurves("rounds", (drawn,), plan.rounds or None)
    lengths = dict.fromkeys(length for length in (t, t // 2, 2 * t) if length)
    drawn = tuple(_curve(bound, noise, length, b, n) for length in lengths)
    return BoundCurves(AXIS, drawn, plan.local.steps if plan.train else None)


def _curve(bound: LocalBound, noise: Noise, total_iterations: int, b: int, clients: int) -> Curve:
    steps = divisors(total_iterations)
    values = bound.at(noise, total_iterations, steps, b, clients)
    return Curve(f"T = {total_iterations} iterations", steps.tolist(), values.tolist())


# What is allowed --------------------------------------------------------------------------------------


def _check_full_batches(problem: Problem) -> None:
    if problem.sampling_rate < 1:
        raise InvalidInput(
            f"dp-fedavg takes all records in every local step, got sampling_rate {problem.sampling_rate:g}; "
            "use sampling_rate = 1, or fedsgd-dpc for Poisson batches"
        )


def _given(problem: Problem, t: int | None, e: int | None, b: int | None, most: int) -> Given:
    """What is fixed, in range and allowed together; mode A fixes E = 1."""
    t = None if t is None else check_length("total_iterations", t)
    b = None if b is None else cohort(b, problem.n_clients)
    if e is None:
        return Given(t, 1 if problem.clipping == "A" else None, b)
    e = _steps(problem, e, most if t is None else None)
    if t is not None:
        check_divides(t, e)
    return Given(t, e, b)


def _steps(problem: Problem, e: int, most: int | None = None) -> int:
    e = check.count("local_steps", e, most=most, remedy="max_iterations is the most" if most else "")
    if problem.clipping == "A" and e > 1:
        raise UnsoundClaim(
            f"clipping mode A is proved for one local step per upload, got local_steps = {e}; "
            "use local_steps = 1, mode B or E for a convex loss, or mode C"
        )
    return e


def affordable(
    problem: Problem,
    total_iterations: int | None = None,
    local_steps: int | None = None,
    clients_per_round: int | None = None,
) -> bool:
    """Whether some setting that agrees with what is fixed is paid for by the resources.

    Args:
        problem: with its resources.
        total_iterations: T, or None where it is free.
        local_steps: E, or None where it is free.
        clients_per_round: b, or None where it is free.
    """
    t, e, b = total_iterations, local_steps, clients_per_round
    steps = divisors(t) if t and e is None else np.array([e or 1])
    rounds = t // steps if t else np.ones_like(steps)
    limit = np.array([problem.most_uploads(int(one)) for one in steps])
    return bool(np.any(uploads(rounds, b or 1, problem.n_clients) <= limit))


def _check_paid(problem: Problem, given: Given) -> None:
    """Refuse what no setting within the resources agrees with."""
    if affordable(problem, *given):
        return
    names = ("total_iterations", "local_steps", "clients_per_round")
    fixed = [f"{name} = {value}" for name, value in zip(names, given, strict=True) if value is not None]
    raise InvalidInput(
        f"[resources] budget does not pay for {' with '.join(fixed)}; {_paid_instead(problem, given)}, "
        "or raise the budget"
    )


def _paid_instead(problem: Problem, given: Given) -> str:
    """The most iterations below the fixed ones that are paid for, else the most local steps."""
    t, e, b = given
    limit = most_uploads(problem.resources, max(t or 1, e or 1))
    if problem.resources and e is not None and limit[e] < 1:
        return f"use local_steps of at most {int(problem.resources.most_steps())}"
    steps = np.arange(1, t or 2) if e is None else np.array([e])
    rounds = np.minimum(limit[steps] * problem.n_clients // (b or 1), ((t or 1) - 1) // steps)
    return f"use total_iterations = {int(np.max(rounds * steps))}"


# The decision -----------------------------------------------------------------------------------------


def _best(problem: Problem, bound: LocalBound, given: Given, most: int) -> Setting:
    """The integer optimum; for Gaussian noise and a fixed E the least T near the limit."""
    noise, n = UploadNoise.of(problem), problem.n_clients
    if None in given:
        longest = max(most, given.total_iterations or 0)
        uploaded = uploads(longest // (given.local_steps or 1), given.clients_per_round or n, n)
        noise = UploadNoise.tabulated(problem, int(uploaded))
    best = optimum(bound, noise, n, most, given, problem.resources)
    if problem.law.exponent == 1 and given.total_iterations is None and given.local_steps is not None:
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
    t = t[uploads(t // e, b, n) <= problem.most_uploads(e)]
    values = bound.at(noise, t, e, b, n)
    limit = bound.limit(law) if law else np.inf
    enough = np.flatnonzero(values <= (1 + NEAR) * limit)
    if best.value < limit or enough.size == 0 or values[enough[0]] >= bound.no_training:
        return best
    return Setting(int(t[enough[0]]), e, b, float(values[enough[0]]))


def _limit_note(problem: Problem, found: Setting, given: Given, most: int) -> tuple[str, ...]:
    """What the resources left out at the planned E, if anything."""
    n, e = problem.n_clients, found.local_steps
    limit = problem.most_uploads(e)
    if uploads(most // e, given.clients_per_round or n, n) <= limit:
        return ()
    steps = f"{e} local steps" if e > 1 else "one local step"
    return (f"[resources] budget pays for at most {int(limit)} uploads of every client after {steps} each.",)


def theory_step(bound: LocalBound, local_steps: int) -> StepSize:
    """Step sizes of the theory, (2/mu)/(k + gamma) with gamma = max(8L/mu, E)."""
    gamma = float(bound.gamma(local_steps))
    return StepSize(2 / (bound.strong_convexity * gamma), gamma)


def _scheduled(problem: Problem, setting: Setting, step: StepSize, trains: bool = True) -> Plan:
    """The rounds of a setting, with the noise that pays for them; none if it is not worth training."""
    k = int(problem.takes_part(setting.rounds, setting.clients_per_round)) if trains else 0
    releases = np.full(problem.n_clients, k)
    return Plan(
        algorithm="dp-fedavg", citation=CITATION, problem=problem, rounds=setting.rounds if trains else 0,
        clients_per_round=setting.clients_per_round if trains else 0, releases=releases,
        release=problem.release(releases, setting.clients_per_round) if trains else None, prediction=None,
        constants={}, outcome=f"{training(problem, setting)}, as stated.", step=step,
        local=LocalSteps(setting.local_steps),
    )  # fmt: skip
