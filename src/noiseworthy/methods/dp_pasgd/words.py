"""What is said of DP-PASGD and its plans: outcome and notes, why a setting is refused, and in every view."""

from dataclasses import replace
from typing import Any

import numpy as np

from noiseworthy import _validate as check
from noiseworthy._wording import count, span, times
from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.methods import phrases as say
from noiseworthy.methods.dp_pasgd.bound import AveragingBound
from noiseworthy.methods.dp_pasgd.search import Given, Setting
from noiseworthy.methods.fedsgd_dpc import words as fedsgd_dpc
from noiseworthy.methods.words import Course, Noised, Record, Term
from noiseworthy.plans.problem import Problem
from noiseworthy.plans.resources import Resources

# The outcome ------------------------------------------------------------------------------------------


def training(problem: Problem, iterations: int, local_steps: int) -> str:
    """The schedule in a clause, with what it costs the client that it leaves least."""
    rounds = iterations // local_steps
    steps = f"{count(local_steps, 'local step')} ({count(iterations, 'iteration')})"
    schedule = f"Train {count(rounds, 'round')} of {steps}"
    resources = problem.resources
    if resources is None:
        return schedule
    cost = resources.cost(rounds, iterations)
    tightest = int(np.argmax(cost / resources.budget))
    whose = "" if np.ptp(cost) == 0 == np.ptp(resources.budget) else f" of client {tightest}"
    paid = f"cost {cost[tightest]:.6g} of {resources.budget[tightest]:.6g} {resources.unit}{whose}"
    return f"{schedule}, {paid}"


def outcome_of(problem: Problem, found: Setting, start: float, trains: bool, vacuous: bool) -> str:
    """The decision and its reason; vacuous where even without noise the bound recommends nothing."""
    compared = f"bound {found.value:.4g} against {start:.4g} without training"
    if trains:
        against = "" if found.value < start else ", as stated, although the bound advises against it"
        return f"{training(problem, found.total_iterations, found.local_steps)}{against}; {compared}."
    if vacuous:
        return say.unless_noise("no K and no step size of those considered gains anything", compared)
    return (
        f"Do not train: no affordable setting has a bound below that of the start (best {compared}); "
        "raise epsilon or the [resources] budget, or add records."
    )


def notes_of(problem: Problem, printed: dict[str, Any], batch_size: int | None) -> tuple[str, ...]:
    """What the bound is of and rests on, and where the printed solution cannot be run."""
    notes = ["The bound is of the last iterate, which is the model that training returns."]
    if problem.n_clients > 1:
        notes.append(
            "The bound takes every client's gradient as unbiased for that of the whole (Assumption 3), as "
            "for records that are dealt out at random; where clients differ in kind, add their difference to "
            "gradient_variance, and trust the bound less."
        )
    if batch_size is not None:
        notes.append("gradient_variance must include the variance of minibatches.")
    return (*notes, *_impossible(problem, printed))


def _impossible(problem: Problem, printed: dict[str, Any]) -> tuple[str, ...]:
    if not printed or problem.resources is None:
        return ()
    k, tau, resources = printed["total_iterations"], printed["local_steps"], problem.resources
    faults = []
    if not resources.affords(k / tau, k):
        cost = resources.cost(k / tau, k)
        worst = int(np.argmax(cost / resources.budget))
        faults.append(f"costs {cost[worst]:.6g} of {resources.budget[worst]:.6g} {resources.unit}")
    if k % tau:
        faults.append(f"its {tau} local steps do not divide its {k} iterations")
    return (f"The printed solution cannot be run: {' and '.join(faults)}.",) if faults else ()


# What is refused --------------------------------------------------------------------------------------


def check_covered(problem: Problem, batch_size: int | None) -> None:
    """Refuse a problem whose privacy this algorithm does not account for.

    Raises:
        InvalidInput: Laplace noise, another clipping mode than A.
        UnsoundClaim: Poisson batches, or minibatches under add-remove neighbours: one record less would deal
            all others into other batches.
    """
    if batch_size is not None and problem.budget.relation == "add-remove":
        raise UnsoundClaim(
            f"dp-pasgd deals a fixed number of records into batches of {batch_size}, which is proved under "
            'replace-one neighbours only; set relation = "replace-one", or leave batch_size out'
        )
    if problem.law.pure:
        raise InvalidInput(
            f"dp-pasgd adds Gaussian noise at every local step, got {problem.family}; "
            'set mechanism = "gaussian" and a delta above 0'
        )
    if problem.sampling_rate < 1:
        raise UnsoundClaim(
            f"dp-pasgd has no proof for Poisson batches, got sampling_rate {problem.sampling_rate:g}; "
            "use batch_size, which deals records into disjoint minibatches"
        )
    if problem.clipping != "A":
        raise InvalidInput(
            f"dp-pasgd clips each record's gradient (clipping mode A), got mode {problem.clipping}; "
            "its noise is added to every step and needs no other mode"
        )


def check_pays(resources: Resources | None, iterations: int, local_steps: int) -> None:
    """Refuse a setting that some client cannot pay for.

    Raises:
        InvalidInput: with the client, the cost, and what would fit.
    """
    if resources is None or resources.affords(iterations // local_steps, iterations):
        return
    fits = int(resources.most_rounds(local_steps)) * local_steps
    remedy = f"use at most total_iterations = {fits} with local_steps = {local_steps}"
    if not fits:
        remedy = f"use local_steps of at most {int(resources.most_steps())}"
    raise _too_dear(resources, iterations // local_steps, iterations, remedy)


def check_length_pays(resources: Resources | None, iterations: int) -> None:
    """Refuse a K that some client cannot pay for even with a single averaging.

    Raises:
        InvalidInput: with the largest K that fits.
    """
    if resources is None or resources.affords(1, iterations):
        return
    fits = f"use at most total_iterations = {int(resources.most_steps())}"
    raise _too_dear(resources, 1, iterations, fits)


def _too_dear(resources: Resources, rounds: int, iterations: int, remedy: str) -> InvalidInput:
    cost = resources.cost(rounds, iterations)
    poor = int(np.argmax(cost / resources.budget))
    return InvalidInput(
        f"total_iterations = {iterations} in {count(rounds, 'round')} must cost at most the [resources] "
        f"budget {resources.budget[poor]:.6g} {resources.unit} of client {poor}, got {cost[poor]:.6g}; "
        f"{remedy}, or raise the budget"
    )


def not_allowed(bounds: list[AveragingBound], given: Given) -> InvalidInput:
    """Why no step size serves what is fixed: the bound asks for small steps where there are many."""
    slowest = bounds[-1]
    longest = slowest.most_local_steps
    k, tau = given
    if tau is not None:
        return InvalidInput(
            f"local_steps must be at most {longest} for step_size {slowest.step_size:.4g} (the bound needs "
            f"eta L + eta^2 L^2 tau (tau - 1) (1 - eta lambda)^-(tau - 1) <= 1), got {tau}; "
            "use fewer local_steps or a smaller step_size"
        )
    return InvalidInput(
        f"total_iterations = {k} has no divisor that the [resources] budget pays for and that is at most "
        f"{longest}, the most local steps at step_size {slowest.step_size:.4g}; use another "
        "total_iterations, a larger budget or a smaller step_size"
    )


def whole(name: str, value: int, most: int | None = None) -> int:
    """K or tau, if it is a whole number of at least 1."""
    remedy = "K = 0 is no training; leave it to the planner"
    if name == "local_steps":
        remedy = "max_iterations is the most" if most else "1 averages after every step"
    return check.count(name, value, most=most, remedy=remedy)


# In every view ----------------------------------------------------------------------------------------

AXIS = "local steps per averaging"
"""Along which the bound is drawn."""
_STEP = "noised step"
_EVERY_STEP = "every local step"


def _sentence(record: Record) -> str:
    plan = record["plan"]
    steps = count(plan["local_steps"], "noised local step")
    rounds = f"{count(plan['rounds'], 'round')} of {steps}"
    return f"{say.iterations_before(plan)}{rounds}, averaging {say.asked(record)} after each"


def _computes(plan: Record) -> str:
    records = say.batches(plan)
    dealt = records if plan["batch_size"] is None else f"disjoint {records}, shuffled for every pass"
    return f"{plan['local_steps']:,} before each averaging, every one noised, on {dealt}"


def _uploads(plan: Record) -> list[int]:
    return [plan["rounds"]] * len(plan["releases"])


def _paid(plan: Record) -> str:
    return f"{say.paid_for(plan, _STEP)} of each {plan['privacy']['unit']}"


def _card(plan: Record) -> str:
    return f"It pays for {_paid(plan)}; a client uploads {times(span(_uploads(plan)))} at most."


def _means(plan: Record, noise: str) -> str:
    """What happens in every local step, and how many of them the noise pays for."""
    batch, dealt = "all its records", ""
    if plan["batch_size"] is not None:
        batch = f"a batch of {count(plan['batch_size'], 'record')} (all of a client that has fewer)"
        dealt = (
            " Every pass deals the client's records into disjoint batches anew: a record is in one of them "
            f"at most, and not in all {count(plan['total_iterations'], 'step')}."
        )
    return (
        f"Each local step moves by the mean gradient over {batch}, each record's gradient clipped to "
        f"{say.clipped_to(plan)}, plus {noise}, drawn anew in every step.{dealt} The noise pays for "
        f"{_paid(plan)}; a client uploads its model {times(span(_uploads(plan)))} and refuses more."
    )


WORDS = replace(
    fedsgd_dpc.WORDS,
    called="DP-PASGD",
    terms={
        "rounds": Term("R", "rounds R", "rounds R"),
        "total_iterations": (iterations := Term("K", "iterations K", "iterations K")),
        "iterations": iterations,
        "local_steps": Term("τ", "local steps τ", "local steps τ per averaging"),
    },
    decided=("total_iterations", "local_steps"),
    sentence=_sentence,
    brief=say.steps_in_brief,
    keys=lambda plan: [say.rounds_key(plan), say.local_steps_key(plan, ", each noised")],
    computes=_computes,
    decays="local steps",
    clipped=lambda plan: f"{say.gradients_clipped(plan)} in {_EVERY_STEP}",
    means=_means,
    beyond=(
        "A record counts no more than its share in any step of any model, because each step is noised before "
        "the next one starts: this needs no convex loss.",
        "The server sees only the last model of every round. The claim holds even for somebody who sees "
        "every step, so that against the server it has a margin.",
    ),
    noised=Noised(
        what=_EVERY_STEP,
        release=_STEP,
        listed=lambda plan: _EVERY_STEP,
        where=lambda plan: f" of {_EVERY_STEP}",
        exchange="averaging",
        uploads=_uploads,
        bought=lambda plan: f"; its noise pays for {_paid(plan)}",
        remark=lambda plan: f"noise pays for {say.paid_for(plan, _STEP)}",
        caption=lambda plan: f"{_paid(plan)}, in {count(plan['rounds'], 'upload')}",
        card=_card,
        columns=lambda plan, n: {"steps paid for": str(plan["releases"][n]), "uploads": str(plan["rounds"])},
        columns_said=(
            "The noise pays for as many steps as one record is in; uploads are those planned and those made "
            "in training (range over seeds)"
        ),
        counted="Steps that a record is in are counted per client (the most of any of its records)",
    ),
    baseline="τ = 1 is DP-SGD.",
    courses={
        **say.ALONG_ROUNDS,
        AXIS: Course(
            "Averaging often uses up the resources in few steps; averaging seldom lets the clients drift "
            "apart, noise and all.",
            "The longer between averagings, the more steps the resources pay for.",
            "More steps between averagings let the clients drift apart, noise and all.",
        ),
    },
    curve=lambda plan, work: f"τ = {work:g}",
    online=say.all_online,
)
