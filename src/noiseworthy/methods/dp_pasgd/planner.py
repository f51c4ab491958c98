"""How long between averagings, and how long in all: the planner of Hu et al. for DP-PASGD.

Every client adds Gaussian noise to each of its K local steps and averages after every tau of them, within a
privacy budget and a budget of resources, c1 K/tau + c2 K <= C. The exact integer optimum of the bound in
`averaging_bound`, with "do not train" as an answer; zero-concentrated accounting, the relaxed problem and the
printed solution beside it (docs/theory/hu.md#bounds).
"""

from dataclasses import replace
from typing import Any

import numpy as np

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dp_pasgd.bound import AveragingBound, averaging_bound
from noiseworthy.methods.dp_pasgd.printed import as_printed, relaxed
from noiseworthy.methods.dp_pasgd.search import (
    NOTHING,
    Candidates,
    Given,
    Setting,
    StepNoise,
    optimum,
    stepwise,
    zcdp_noise,
)
from noiseworthy.methods.dp_pasgd.table import LossShape
from noiseworthy.methods.dp_pasgd.words import (
    AXIS,
    check_covered,
    check_length_pays,
    check_pays,
    not_allowed,
    notes_of,
    outcome_of,
    training,
    whole,
)
from noiseworthy.plans.curves import BoundCurves, Curve
from noiseworthy.plans.local_work import NoisySteps, check_divides
from noiseworthy.plans.plan import Plan, Prediction, StepSize
from noiseworthy.plans.problem import Constant, Problem

CITATION = "Hu et al., differentially private periodic averaging (DP-PASGD), Theorem 1 and (21); corrected"
MOST = 100_000
_STEP_SIZES = np.geomspace(1.0, 1e-3, 25)
"""In units of 1/L, where the step size is planned."""
_POINTS = 100

# The plan ---------------------------------------------------------------------------------------------


def plan(
    problem: Problem, constants: dict[str, Constant], *, step: StepSize | None = None,
    batch_size: int | None = None, total_iterations: int | None = None, local_steps: int | None = None,
    max_iterations: int = MOST, shape: LossShape = "general", notes: tuple[str, ...] = (),
) -> Plan:  # fmt: skip
    """Plan DP-PASGD: iterations K and local steps tau per averaging, each given or planned.

    The least bound over whole R and tau with K = R tau, within the resources of every client and the
    step-size condition; ties go to the fewest rounds. "Do not train" where the bound is not below its value
    without training, unless both K and tau were given.

    Args:
        problem: public facts, budget and resources, with clipping A and Gaussian noise, or none; its sizes
            are all records of each client.
        constants: `smoothness`, `strong_convexity`, `gradient_variance` and `initial_gap`.
        step: constant step size of at most 1/L; planned on 25 values from 1/L to 0.001/L if not given.
        batch_size: X, records per local step, dealt into disjoint minibatches; None takes all.
        total_iterations: K if fixed.
        local_steps: tau if fixed, a divisor of a fixed K.
        max_iterations: most K to consider.
        shape: what is known of the loss, clipped as it is; `convex` and `quadratic` allow any tau.
        notes: warnings to carry.

    Returns:
        A `Plan` of K/tau rounds whose noise pays for every step that one record takes part in.

    Raises:
        InvalidInput: a constant that is missing or out of range, K or tau out of range, beyond the resources
            or the step-size condition, tau no divisor of K, Laplace noise, another clipping mode than A.
        UnsoundClaim: Poisson batches, or minibatches under add-remove neighbours.

    Guarantee: `cost <= budget` and `spent() <= epsilon` for every client.

    Example:
        >>> from noiseworthy.plans.resources import Resources
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> battery = Resources.of(100.0, 1.0, 1000.0, clients=16)
        >>> budget = PrivacyBudget.of(4.0, 1e-4, 16)
        >>> problem = Problem(np.full(16, 256), 100, budget, "gaussian", 1.0, resources=battery)
        >>> values = dict(smoothness=1, strong_convexity=0.05, gradient_variance=0.05, initial_gap=np.log(2))
        >>> constants = {name: Constant(value, "assumed") for name, value in values.items()}
        >>> made = plan(problem, constants, step=StepSize(0.05, float("inf")))
        >>> made.rounds, made.local.steps, round(made.prediction.bound, 3)
        (9, 9, 0.606)
        >>> made.compared["zcdp"]["local_steps"], round(made.as_printed["spent_epsilon_zcdp"], 1)
        (7, 85.0)

    Source: docs/theory/hu.md#planner; Hu et al., sections 5 and 7.
    """
    check_covered(problem, batch_size)
    work, bounds = NoisySteps(1, batch_size), _bounds(problem, constants, step, shape)
    given, most = _given(problem, total_iterations, local_steps, max_iterations)
    candidates = Candidates.within(problem.resources, most, given)
    noise = StepNoise.exact(problem, work)
    found = _found(bounds, noise, candidates)
    bound = next(one for one in bounds if one.step_size == found.step_size)
    trains = None not in given or found.value < bound.no_training
    printed = as_printed(problem, bound, work, given, found, most)
    value = found.value if trains else bound.no_training
    vacuous = all(one.vacuous(given.local_steps or 1) for one in bounds)
    made = _scheduled(problem, found, step or StepSize(found.step_size, float("inf")), batch_size, trains)
    compared = _zcdp(problem, bounds, work, candidates)
    if problem.resources is not None and given == NOTHING:
        compared["relaxed"] = relaxed(bound, noise, problem.resources, found, most)
    return replace(
        made,
        prediction=Prediction(value, bound.no_training, bound.unit, vacuous),
        constants=constants,
        outcome=outcome_of(problem, found, bound.no_training, trains, vacuous),
        as_printed=printed,
        notes=(*notes, *notes_of(problem, printed, batch_size)),
        compared=compared,
    )


def stated(
    problem: Problem, total_iterations: int, local_steps: int, step: StepSize, batch_size: int | None = None
) -> Plan:
    """A setting nobody planned, with the noise it needs: for grids and fixed baselines.

    Args:
        problem: public facts, budget and resources, with clipping A and Gaussian noise, or none.
        total_iterations: K.
        local_steps: tau, a divisor of K.
        step: step sizes of the local steps.
        batch_size: X, records per local step; None takes all.

    Raises:
        InvalidInput: K or tau out of range or beyond the resources, tau no divisor of K, Laplace noise,
            another clipping mode than A.
        UnsoundClaim: Poisson batches, or minibatches under add-remove neighbours.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.array([100, 200]), 5, PrivacyBudget.of(1.0, 1e-5, 2), "gaussian", 1.0)
        >>> made = stated(problem, 6, 3, StepSize(0.1, float("inf")), batch_size=50)
        >>> made.rounds, made.releases, made.noise.round(4)  # 2G/X sqrt(uses) s(epsilon, delta)
        (2, array([3, 2]), array([0.2585, 0.211 ]))
    """
    check_covered(problem, batch_size)
    k, tau = whole("total_iterations", total_iterations), whole("local_steps", local_steps)
    check_divides(k, tau)
    check_pays(problem.resources, k, tau)
    return _scheduled(problem, Setting(k, tau, step.initial, np.nan), step, batch_size)


def curves(
    problem: Problem,
    constants: dict[str, Constant],
    plan: Plan,
    total_iterations: int | None = None,
    *,
    shape: LossShape = "general",
) -> BoundCurves:
    """The bound against tau, each with its best affordable number of rounds; and under zCDP accounting.

    Args:
        problem: of the plan.
        constants: of the plan.
        plan: of `dp-pasgd`.
        total_iterations: K if it was fixed.
        shape: as in `plan`.

    Raises:
        InvalidInput: a plan without noised steps or step size.
    """
    if not isinstance(plan.local, NoisySteps) or plan.step is None:
        raise InvalidInput("these curves need a plan of dp-pasgd, with noised steps; got another one")
    bound = averaging_bound(problem, constants, plan.step.initial, shape=shape)
    every = _periods(problem, bound, plan, plan.local.steps, total_iterations)
    work, noisy = NoisySteps(1, plan.local.batch_size), problem.law.noisy
    noises = {"exact accounting" if noisy else "no noise": StepNoise.exact(problem, work)}
    if noisy:
        noises["zCDP accounting"] = StepNoise.zcdp(problem, work)
    drawn = tuple(_curve(bound, label, noise, every) for label, noise in noises.items())
    return BoundCurves(AXIS, drawn, plan.local.steps if plan.train else None)


def _periods(
    problem: Problem, bound: AveragingBound, plan: Plan, chosen: int, total_iterations: int | None
) -> list[Candidates]:
    """Every tau to draw, with what is affordable at it."""
    most = total_iterations or max(MOST, plan.rounds * chosen)
    paid = most if problem.resources is None else int(min(problem.resources.most_steps(), most))
    longest = min(bound.most_local_steps, paid, 5 * chosen + 20)
    tried = np.unique([*np.linspace(1, longest, _POINTS).astype(int), chosen]).tolist()
    whole_only = [tau for tau in tried if total_iterations is None or total_iterations % tau == 0]
    return [Candidates.within(problem.resources, most, Given(total_iterations, tau)) for tau in whole_only]


def _curve(bound: AveragingBound, label: str, noise: StepNoise, every: list[Candidates]) -> Curve:
    found = [optimum([bound], noise, candidates) for candidates in every]
    shown = [setting for setting in found if setting is not None]
    return Curve(label, [one.local_steps for one in shown], [one.value for one in shown])


# The decision -----------------------------------------------------------------------------------------


def _bounds(
    problem: Problem, constants: dict[str, Constant], step: StepSize | None, shape: LossShape
) -> list[AveragingBound]:
    """One for each step size to consider, the largest first."""
    if step is not None:
        _check_constant(step)
        return [averaging_bound(problem, constants, step.initial, shape=shape)]
    largest = averaging_bound(problem, constants, shape=shape)
    return [replace(largest, step_size=float(eta)) for eta in _STEP_SIZES * largest.step_size]


def _check_constant(step: StepSize) -> None:
    if step.decay_rounds != float("inf"):
        raise InvalidInput(
            "dp-pasgd is planned for a constant step size, "
            f'got step_decay = {step.decay_rounds:g}; use step_decay = "none"'
        )


def _given(problem: Problem, k: int | None, tau: int | None, max_iterations: int) -> tuple[Given, int]:
    """What is fixed, in range and affordable, and the most iterations to consider."""
    most = check.count("max_iterations", max_iterations)
    if k is not None:
        most = whole("total_iterations", k)
        check_length_pays(problem.resources, k)
    if tau is not None:
        tau = whole("local_steps", tau, None if k else most)
        if k is not None:
            check_divides(k, tau)
        check_pays(problem.resources, k or tau, tau)
    return Given(k, tau), most


def _found(bounds: list[AveragingBound], noise: StepNoise, candidates: Candidates) -> Setting:
    found = optimum(bounds, noise, candidates)
    if found is None:
        raise not_allowed(bounds, candidates.given)
    return found


def _scheduled(
    problem: Problem, setting: Setting, step: StepSize, batch_size: int | None, trains: bool = True
) -> Plan:
    """The rounds of a setting, with the noise that pays for them; none if it is not worth training."""
    work = NoisySteps(setting.local_steps, batch_size)
    releases = work.uses(setting.total_iterations if trains else 0, problem.sizes)
    return Plan(
        algorithm="dp-pasgd", citation=CITATION, problem=problem, rounds=setting.rounds if trains else 0,
        clients_per_round=problem.n_clients if trains else 0, releases=releases,
        release=stepwise(problem, work).release(releases) if trains else None, prediction=None,
        constants={},
        outcome=f"{training(problem, setting.total_iterations, setting.local_steps)}, as stated.",
        step=step, local=work,
    )  # fmt: skip


# Beside it --------------------------------------------------------------------------------------------


def _zcdp(
    problem: Problem, bounds: list[AveragingBound], work: NoisySteps, candidates: Candidates
) -> dict[str, Any]:
    """The same decision under zero-concentrated privacy."""
    if not problem.law.noisy:
        return {}
    found = _found(bounds, StepNoise.zcdp(problem, work), candidates)
    k, resources = found.total_iterations, problem.resources
    answer = {
        "rounds": found.rounds,
        "local_steps": found.local_steps,
        "total_iterations": k,
        "step_size": found.step_size,
        "noise": zcdp_noise(problem, work, k).tolist(),
        "bound": found.value,
        "cost": None if resources is None else float(resources.cost(found.rounds, k).max()),
    }
    return {"zcdp": answer}
