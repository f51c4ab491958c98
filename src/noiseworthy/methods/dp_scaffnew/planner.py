"""How many iterations T, and how often to communicate: the planner of Hou et al. for DP-ScaffNew.

The least bound of `scaffnew_bound` over T and p, by the paper's rule p = sqrt(mu/L) or jointly, with "do not
train" as an answer; the public coins are drawn here, because the noise pays for the rounds that they give.

Not training is T = 0 in the same bound and so has the value psi_0(p) (docs/theory/hou.md#planner), at the p
that makes it least where p is free: N ||x_0 - x*||^2 + H/L^2 in the joint rule. psi_0 counts the error of
control variates that nobody has without training; a plan whose bound beats psi_0 but not N ||x_0 - x*||^2
says so in a note.
"""

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from noiseworthy import _validate as check
from noiseworthy._wording import count
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dp_scaffnew.bound import UNIT, ScaffNewBound, check_clips_updates, scaffnew_bound
from noiseworthy.methods.dp_scaffnew.words import AXIS
from noiseworthy.plans.curves import BoundCurves, Curve
from noiseworthy.plans.local_work import Coins, check_length, check_probability
from noiseworthy.plans.plan import Plan, Prediction, StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.plans.resources import Resources

CITATION = "Hou et al., balancing privacy and performance (DP-ScaffNew), Theorem 1 and Corollary 1; corrected"

Rule = Literal["joint", "paper"]
RULES: tuple[Rule, ...] = ("joint", "paper")

_POINTS = 200
_LONGEST_CURVE = 10_000


def plan(
    problem: Problem, constants: dict[str, Constant], *, rule: Rule = "joint", iterations: int | None = None,
    probability: float | None = None, max_iterations: int = 10_000, coin_seed: int = 0,
    batch_size: int | None = None, step: StepSize | None = None, notes: tuple[str, ...] = (),
) -> Plan:  # fmt: skip
    """Plan DP-ScaffNew: iterations T and communication probability p, each given or planned.

    Joint rule: the (T, p) of least bound over T <= max_iterations. The paper's rule: p = sqrt(mu/L), then the
    best T. Both among those with T (p c1 + c2) <= C, what the training costs a client on average. "Do not
    train" where the bound is not below its value at T = 0, unless both T and p were given. The coins are then
    drawn, and the noise is calibrated for the rounds R that they give, never for p T. Where those cost a
    client more than it may spend, training ends before the first communication that it cannot pay for.

    Args:
        problem: public facts and budget, with clipping D and Gaussian noise, or none.
        constants: `smoothness` L, `strong_convexity` mu, `initial_distance_sq` ||x_0 - x*||^2 and
            `optimum_gradient_sq` H = sum over clients of ||grad f_i(x*)||^2, or upper bounds. The joint rule
            needs H to choose p; elsewhere it is taken as 0 where it is not given, and a note says so.
        rule: `joint` or `paper`.
        iterations: T if fixed, else planned.
        probability: p if fixed, else planned.
        max_iterations: most iterations to consider.
        coin_seed: of the public coins.
        batch_size: records per local step; None takes all, as the bound does.
        step: constant step size eta <= 1/L; 1/L if not given.
        notes: warnings to carry.

    Returns:
        A `Plan` whose noise pays for R uploads of every client, with its `Coins` as local work. If it does
        not train they have T = 0, or, where all T coins fell against communication, no round.

    Raises:
        InvalidInput: another clipping mode, Laplace noise, a constant that is missing or out of range, T or p
            out of range or beyond what the resources pay for, a step size that is not constant or above 1/L.

    Guarantee: `spent() <= epsilon` and `cost <= problem.resources.budget` for every client and every outcome
    of the coins, because they are drawn before training and without looking at data.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> budget = PrivacyBudget.of(4.0, 1e-5, 20, unit="client")
        >>> problem = Problem(np.full(20, 500), 10, budget, "gaussian", 0.1, clipping="D")
        >>> values = dict(smoothness=1, strong_convexity=0.05, initial_distance_sq=4, optimum_gradient_sq=0.5)
        >>> made = plan(problem, {name: Constant(value, "assumed") for name, value in values.items()})
        >>> made.local.iterations, round(made.local.probability, 3), made.rounds, made.releases[0]
        (31, 0.224, 4, np.int64(4))

    Source: docs/theory/hou.md#planner; Hou et al., Corollary 1.
    """
    check.one_of("rule", rule, RULES)
    unknown = _unknown_gradient(constants, rule, probability)
    bound = _at_step(scaffnew_bound(problem, constants), step)
    most = check.count("max_iterations", max_iterations)
    if iterations is not None:
        iterations = check_length("iterations", iterations)
    fixed = None if probability is None else check_probability(probability)
    if fixed is None and rule == "paper":
        fixed = bound.paper_probability
    _check_paid(problem, iterations, fixed)
    t, p = _decide(bound, problem.resources, iterations, fixed, most)
    untrained = fixed or float(bound.best_probability(0))
    coins, cut = _paid(problem, Coins(t, p, coin_seed, batch_size))
    value, start = float(bound.at(coins.iterations, p)), float(bound.psi_0(untrained))
    trains = value < start or None not in (iterations, probability)
    coins = coins if trains else Coins(0, untrained, coin_seed, batch_size)
    outcome = _outcome(coins, value, start, iterations, most)
    made = _scheduled(problem, coins, step or StepSize(1 / bound.smoothness, float("inf")), outcome)
    return replace(
        made,
        prediction=Prediction(value if made.train else start, start, UNIT),
        constants=constants,
        as_printed=as_printed(problem, bound, iterations, probability),
        notes=(*notes, *unknown, *(_notes(bound, coins, value) if made.train else ()), *cut),
    )


def stated(
    problem: Problem,
    iterations: int,
    probability: float,
    step: StepSize,
    coin_seed: int = 0,
    batch_size: int | None = None,
) -> Plan:
    """A setting nobody planned, with the noise it needs: for grids and fixed baselines, Laplace noise too.

    Raises:
        InvalidInput: T or p out of range or beyond what the resources pay for on average, a step size that is
            not constant, another clipping mode than D.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> budget = PrivacyBudget.of(2.0, 0.0, 2, unit="client")
        >>> problem = Problem(np.array([100, 100]), 5, budget, "laplace", 1.0, clipping="D")
        >>> made = stated(problem, 10, 0.5, StepSize(0.1, float("inf")))
        >>> made.rounds, made.noise  # R rounds: R * 2 C / epsilon
        (4, array([4., 4.]))
    """
    check_clips_updates(problem)
    _check_constant(step)
    _check_paid(problem, check_length("iterations", iterations), check_probability(probability))
    coins, cut = _paid(problem, Coins(iterations, probability, coin_seed, batch_size))
    outcome = f"{_schedule(coins)}, as stated." if coins.rounds else _unlucky(coins)
    return replace(_scheduled(problem, coins, step, outcome), notes=cut)


def curves(bound: ScaffNewBound, plan: Plan) -> BoundCurves:
    """The bound against iterations T: at the p of the plan, at sqrt(mu/L) and at 1.

    Args:
        bound: from `scaffnew_bound`, for the constants of the plan.
        plan: of `dp-scaffnew`.

    Raises:
        InvalidInput: a plan without coins.
    """
    if not isinstance(plan.local, Coins):
        raise InvalidInput("these curves need a plan of dp-scaffnew, with coins; got another one")
    bound = _at_step(bound, plan.step)
    chosen, paper = plan.local.iterations, bound.paper_probability
    labels = dict.fromkeys([plan.local.probability, paper, 1.0], "p = {:.3g}")
    labels[paper] = "p = √(μ/L) = {:.3g}"
    most = 2 * max(chosen, 5, *(bound.best_iterations(p, _LONGEST_CURVE) for p in labels))
    t = np.unique(np.append(np.linspace(0, most, _POINTS).astype(int), chosen))
    drawn = [Curve(label.format(p), t.tolist(), bound.at(t, p).tolist()) for p, label in labels.items()]
    return BoundCurves(AXIS, tuple(drawn), chosen if plan.train else None)


# The decision -----------------------------------------------------------------------------------------


def _decide(
    bound: ScaffNewBound,
    resources: Resources | None,
    iterations: int | None,
    probability: float | None,
    most: int,
) -> tuple[int, float]:
    """The (T, p) of least bound that agrees with what is fixed and that is paid for on average."""
    if probability is not None:
        paid = np.inf if resources is None else resources.most_iterations(probability)
        return iterations or bound.best_iterations(probability, int(min(most, paid))), probability
    if iterations is not None:
        paid = 1.0 if resources is None else float(resources.most_probability(iterations))
        return iterations, min(float(bound.best_probability(iterations)), paid)
    return bound.best(most, resources)


def affordable(problem: Problem, iterations: int, probability: float) -> bool:
    """Whether T iterations with communication probability p are paid for on average, T (p c1 + c2) <= C."""
    return problem.resources is None or iterations <= problem.resources.most_iterations(probability)


def _check_paid(problem: Problem, iterations: int | None, probability: float | None) -> None:
    """Refuse T, with p where it is fixed, that the resources do not pay for on average."""
    resources = problem.resources
    if resources is None or iterations is None:
        return
    paid = resources.most_steps() if probability is None else resources.most_iterations(probability)
    if iterations <= paid:
        return
    how = "one communication" if probability is None else f"communication_probability = {probability:.4g}"
    raise InvalidInput(
        f"[resources] budget pays for {int(paid)} iterations with {how} on average, got iterations = "
        f"{iterations}; use at most {int(paid)}, or raise the budget"
    )


def _paid(problem: Problem, coins: Coins) -> tuple[Coins, tuple[str, ...]]:
    """The coins up to the first communication that some client cannot pay for, with a note if there is one.

    The coins of a shorter training are the first of a longer one.
    """
    if problem.resources is None:
        return coins, ()
    ends = np.flatnonzero(coins.flips) + 1
    dear = np.flatnonzero(~problem.resources.affords(np.arange(1, len(ends) + 1), ends))
    if dear.size == 0:
        return coins, ()
    kept = replace(coins, iterations=int(ends[dear[0]]) - 1)
    return kept, (
        f"The coins of seed {coins.seed} cost more than the {coins.iterations} iterations with p = "
        f"{coins.probability:.3g} do on average; the [resources] budget ends training after "
        f"{kept.iterations} of them, with {kept.rounds} communications.",
    )


def _scheduled(problem: Problem, coins: Coins, step: StepSize, outcome: str) -> Plan:
    """The rounds that the coins give, with the noise that pays for them."""
    rounds = coins.rounds
    releases = np.full(problem.n_clients, rounds)
    return Plan(
        algorithm="dp-scaffnew", citation=CITATION, problem=problem, rounds=rounds,
        clients_per_round=problem.n_clients if rounds else 0, releases=releases,
        release=problem.release(releases, weights=np.ones(problem.n_clients)) if rounds else None,
        prediction=None, constants={}, outcome=outcome, step=step, local=coins,
    )  # fmt: skip


def _unknown_gradient(constants: dict[str, Constant], rule: Rule, coin: float | None) -> tuple[str, ...]:
    """A warning where H is not given; refused where p depends on it."""
    if "optimum_gradient_sq" in constants:
        return ()
    if rule == "joint" and coin is None:
        raise InvalidInput(
            'rule "joint" needs the constant optimum_gradient_sq, the sum over clients of ||grad f_i(x*)||^2 '
            "or a bound on it; state it under [constants], fix the communication_probability, "
            'or use rule "paper"'
        )
    return (
        "optimum_gradient_sq is not given and was taken as 0, as if all clients had one optimum; "
        "where they differ, the start is worse than stated and more iterations pay.",
    )


def _check_constant(step: StepSize) -> None:
    if step.decay_rounds != float("inf"):
        raise InvalidInput(
            f"dp-scaffnew takes a constant step size, because its control variates are in units of it; "
            f'got step_decay = {step.decay_rounds:g}, use step_decay = "none"'
        )


def _at_step(bound: ScaffNewBound, step: StepSize | None) -> ScaffNewBound:
    """The bound for a stated step eta, which is the one for 1/eta in place of L."""
    if step is None:
        return bound
    _check_constant(step)
    largest = 1 / bound.smoothness
    if step.initial == largest:
        return bound
    if step.initial > largest:
        raise InvalidInput(
            f"step_size must be at most 1/smoothness = {largest:g}, got {step.initial:g}; take less"
        )
    return replace(bound, smoothness=1 / step.initial)


# In words ---------------------------------------------------------------------------------------------


def _outcome(coins: Coins, value: float, start: float, iterations: int | None, most: int) -> str:
    if coins.iterations == 0:
        return _refusal(value, start, iterations, most)
    if coins.rounds == 0:
        return _unlucky(coins)
    against = "" if value < start else ", as stated, although the bound advises against it"
    return f"{_schedule(coins)}{against}; bound {value:.4g} against {start:.4g} without training."


def _refusal(value: float, start: float, iterations: int | None, most: int) -> str:
    why = f"bound {value:.4g} at T = {iterations} against {start:.4g} without training"
    if iterations is None:
        why = f"no T up to {most} has a bound below the {start:.4g} without training"
    return f"Do not train: the noise outweighs the gain ({why}); raise epsilon or add clients."


def _schedule(coins: Coins) -> str:
    p, mean = coins.probability, coins.expected_rounds
    steps = f"{1 / p:.3g} local step{'s' * (p < 1)} between communications on average (p = {p:.3g})"
    drawn = f"{mean:.4g} round{'s' * (mean != 1)} expected, {coins.rounds} drawn"
    return f"Train {count(coins.iterations, 'iteration')}, {steps}, {drawn}"


def _unlucky(coins: Coins) -> str:
    return (
        f"Do not train: none of the {coins.iterations} coins of seed {coins.seed} fell on communication "
        f"({coins.expected_rounds:.3g} rounds expected), so that nothing would be uploaded; "
        "use another coin_seed or a larger communication_probability."
    )


def _notes(bound: ScaffNewBound, coins: Coins, value: float) -> tuple[str, ...]:
    """What to know before trusting the bound of a plan that trains."""
    notes = []
    if value >= bound.start:
        notes.append(
            f"The bound {value:.4g} is not below the squared distance of the start, {bound.start:.4g}: "
            "it promises better control variates, not a better model."
        )
    if coins.batch_size is not None:
        notes.append("The bound takes the gradient of all records; it does not cover minibatches.")
    return tuple(notes)


# As printed -------------------------------------------------------------------------------------------


def as_printed(
    problem: Problem, bound: ScaffNewBound, iterations: int | None, probability: float | None
) -> dict[str, Any]:
    """What Corollary 1 chooses and how little noise Lemma 1 with v = 1 adds; not private.

    Its T misses the dimension, may be negative, and divides by 0 at mu = L, where it is None; without a
    positive T there is no noise to state (docs/theory/hou.md#errata).
    """
    if not problem.law.noisy:
        return {}
    p = probability or bound.paper_probability
    per_round = problem.clip_norm**2 * np.log(1 / problem.budget.delta) / problem.budget.epsilon**2
    printed = replace(bound, dimension=1, noise_per_round=float(per_round.mean()))
    t = iterations or printed.stationary_iterations(p)
    answer = {
        "iterations": t if np.isfinite(t) else None,
        "rounds": p * t if np.isfinite(t) else None,
        "communication_probability": p,
        "clients_per_round": problem.n_clients,
        "private": False,
        "why": "sensitivity C where a client changes its upload by 2C, v = 1, noise for the mean number of "
        "rounds; T without the dimension",
    }
    return answer | ({"noise": np.sqrt(p * t * per_round).tolist()} if t > 0 else {})
