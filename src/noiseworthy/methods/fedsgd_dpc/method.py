"""FedSGD-DPC of Zhou et al. as a method: where constants come from, then rounds, clients, clip and step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from noiseworthy import _validate as check
from noiseworthy.errors import ConfigError
from noiseworthy.methods.axes import Axes, Beside, Usual
from noiseworthy.methods.base import Method, made_by, never, one_gradient, wired_by
from noiseworthy.methods.conditions import largest_weight, smoothness_of
from noiseworthy.methods.fedsgd_dpc.bound import theory_bound
from noiseworthy.methods.fedsgd_dpc.planner import check_paid, curves, in_range, stated
from noiseworthy.methods.fedsgd_dpc.planner import plan as plan_replies
from noiseworthy.methods.fedsgd_dpc.rule import PublicScale, plan_by_rule
from noiseworthy.methods.fedsgd_dpc.table import FedSGDTable
from noiseworthy.methods.fedsgd_dpc.words import WORDS
from noiseworthy.methods.question import NOTHING_TO_TRY, Answer, Question, analytic, decay, given
from noiseworthy.methods.shape import Counts, Real, Shape, noise_of_mean, noise_of_uploads
from noiseworthy.methods.space import (
    MOST_CLIENTS,
    ONE_GRADIENT_GRID,
    Free,
    GradientScale,
    Keys,
    SearchSpace,
    Setting,
    rounds_and_clients,
)
from noiseworthy.plans.estimation import bought_constants, bought_noise, split_budget
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.plans.stages import Pilot
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel

_LONGEST_CURVE = 500
_RULED = ("softmax", "logistic")


def answer(question: Question, table: FedSGDTable) -> Answer:
    """Plan FedSGD-DPC from stated, analytic or bought constants; where all is stated, take it as it is."""
    check_stated(question, table)
    clip = question.clip_norm
    if clip is not None and not leaves_free(table) and question.source is None and not question.assumed:
        t, b, step = int(table.rounds), int(table.clients_per_round), _step(table, {})
        return Answer(stated(question.problem(clip), t, b, step), None)
    source = question.source or "assumed"
    problem = question.problem(_stated_clip(question, source))
    constants, problem, pilot = _constants(question, problem, source)
    bound = theory_bound(problem, constants)
    plan = plan_replies(
        problem, bound, constants, rounds=given(table.rounds),
        clients_per_round=given(table.clients_per_round), max_rounds=table.max_rounds,
        step=_step(table, constants),
        notes=_clip_note(question.task, problem) + _pilot_note(constants, problem, pilot), pilot=pilot,
    )  # fmt: skip
    return Answer(plan, curves(plan.problem, bound, plan, max(plan.rounds, _LONGEST_CURVE)))


def leaves_free(table: FedSGDTable) -> bool:
    """Whether counts or the step size are left open, or a lever of the server is: off unless it is named."""
    counts = (table.rounds, table.clients_per_round, table.step_size)
    levers = [getattr(table, name) for name in ("momentum", "averaging", "weighting", "steering")
              if name in table.model_fields_set]  # fmt: skip
    return "auto" in (*counts, *levers)


def check_stated(question: Question, table: FedSGDTable) -> None:
    """What the user fixed is checked before anything is planned, because trials take their time.

    Raises:
        InvalidInput: a count out of range, or more uploads than the resources pay for.
    """
    check.count("max_rounds", table.max_rounds)
    rounds, clients_per_round = given(table.rounds), given(table.clients_per_round)
    in_range(len(question.sizes), rounds, clients_per_round)
    problem = question.problem(1.0 if question.clip_norm is None else question.clip_norm)
    check_paid(problem, rounds, clients_per_round)


def _constants(
    question: Question, problem: Problem, source: str
) -> tuple[dict[str, Constant], Problem, Pilot | None]:
    stated = question.assumed
    if source == "assumed":
        if not stated:
            raise ConfigError(_without_constants(question))
        return stated, problem, None
    # before gradients are bought: a model that has no such constants is refused while nothing is spent
    smooth = (analytic(question, problem.clip_norm) if question.task is not None else {}) | stated
    if source == "analytic":
        return smooth, problem, None
    pilot, left = split_budget(problem, question.share)
    gradients = question.pilot_gradients(problem, pilot)
    bought = bought_constants(
        gradients, problem, pilot, smooth["smoothness"].value, smooth["strong_convexity"].value
    )
    asked = np.ones(problem.n_clients, np.int64)
    return smooth | bought | stated, left, Pilot(((pilot, asked),), problem.budget)


def _without_constants(question: Question) -> str:
    if question.task is not None:
        return NOTHING_TO_TRY
    return (
        "[constants] are missing: planning from sizes alone needs smoothness, strong_convexity, "
        "gradient_bound, initial_distance_sq and heterogeneity; or give data to plan by trial"
    )


def _stated_clip(question: Question, source: str) -> float:
    if question.clip_norm is not None:
        return question.clip_norm
    task = question.task
    euclidean = law_of(question.mechanism).norm == "l2"
    if source != "assumed" and euclidean and isinstance(task, LinearModel) and task.record_norm is not None:
        return float(analytic(question, 1e30)["gradient_bound"].value)
    raise ConfigError(
        '[privacy] clip_norm = "auto" needs planning by trial (leave [constants] out) or [task] feature_norm '
        "with analytic constants; or state a number"
    )


def _step(table: FedSGDTable, constants: dict[str, Constant]) -> StepSize:
    """The stated step, or the schedule of the theory, (2/mu) / (t + 2L/mu)."""
    if table.step_size != "auto":
        return StepSize(float(table.step_size), decay(table.step_decay))
    smoothness, mu = constants["smoothness"].value, constants["strong_convexity"].value
    return StepSize(1 / smoothness, 2 * smoothness / mu)


def _clip_note(task: Task | None, problem: Problem) -> tuple[str, ...]:
    """Clipping below the gradient bound of a multiclass model leaves the theorem's assumptions."""
    if not isinstance(task, LinearModel) or task.record_norm is None or problem.norm != "l2":
        return ()
    if task.loss == "softmax" and problem.clip_norm < np.sqrt(2) * largest_weight(task) * task.record_norm:
        return ("The clip is below the largest gradient sqrt(2) R: the bound is of an altered objective.",)
    return ()


def _pilot_note(constants: dict[str, Constant], problem: Problem, pilot: Pilot | None) -> tuple[str, ...]:
    """A warning where the bought constants are hidden by the noise they were bought with."""
    if pilot is None or "gradient_bound" not in constants:
        return ()
    error = bought_noise(problem, pilot.parts[0][0])
    if constants["gradient_bound"].value ** 2 >= 3 * error:
        return ()
    return (
        f"Warning: the bought gradients are hidden by their noise (error {np.sqrt(error):.3g} on G); "
        "raise [constants] share, or plan by trial on public data.",
    )


# Without data -----------------------------------------------------------------------------------------


def by_rule(question: Question, table: FedSGDTable) -> Answer:
    """Plan a study by the signal-to-noise rule, which needs no data but public facts.

    Raises:
        ConfigError: another model than softmax or logistic, records of no stated norm, constants
            beside the rule.
    """
    if stated := question.assumed:
        raise ConfigError(
            f'[constants] source = "rule" has no use for {", ".join(stated)}; leave them out, or leave out '
            "source to plan by them"
        )
    problem = question.problem(1.0)
    task, norm = _classifier(question)
    features = task.dimension // task.outputs
    if task.loss == "logistic":
        scale = PublicScale.of_logistic(norm, features, problem.norm)
    else:
        scale = PublicScale.of_softmax(norm, task.outputs, features, problem.norm)
    made = plan_by_rule(
        problem, scale, rounds=given(table.rounds), clients_per_round=given(table.clients_per_round),
        max_rounds=table.max_rounds, clip_norm=question.clip_norm, step_size=given(table.step_size),
        decay_rounds=decay(table.step_decay),
    )  # fmt: skip
    return Answer(made, None)


def _classifier(question: Question) -> tuple[LinearModel, float]:
    """The model and the norm of its records, if the rule knows how its gradients begin."""
    task = question.task
    if not isinstance(task, LinearModel) or task.record_norm is None or task.loss not in _RULED:
        raise ConfigError(
            "the signal-to-noise rule is for softmax and logistic regression on records of a known norm; set "
            '[task] model = "softmax" and normalise = true, or name public data under [planning] public'
        )
    if task.weighted or any(task.start):
        raise ConfigError(
            "the signal-to-noise rule knows nothing of weights and of shares of classes to start at; leave "
            "them out, or name public data under [planning] public"
        )
    return task, task.record_norm


# In trials: rounds and clients per round, and the bound of one gradient per reply ---------------------

MOST_TRAVEL = 12.0
"""Largest step times the curvature of the loss: from 2 on, steps along the steepest direction overshoot."""


def plan(free: Free, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    """The plan of a setting; `work` is the share of clients that a round asks."""
    problem, kept = free.clipped(problem, setting, scale.clip)
    n = problem.n_clients
    b = free.clients_per_round or max(1, round(max(setting.work, 1 / MOST_CLIENTS) * n))
    rounds = free.rounds_of(setting.passes, n, b)
    step = free.step(setting, rounds, kept, scale)
    if free.step_size is None:
        # with a momentum m steps overshoot from 2 (1 + m) over the curvature on
        most = _longest(task) * (1 + free.momentum_of(setting)) / kept
        step = replace(step, initial=min(step.initial, most))
    made = stated(problem, rounds, b, step)
    return replace(
        made.weighed(free.weighting_of(setting, made)),
        momentum=free.momentum_of(setting),
        averaging=free.averaging_of(setting),
        steering=free.steering_of(setting, rounds),
    )


def _longest(task: Task) -> float:
    """The longest step on whole gradients that a public bound on the curvature of the loss allows."""
    smoothness = smoothness_of(task)
    return np.inf if smoothness is None else MOST_TRAVEL / smoothness


SPACE = SearchSpace(
    grid=ONE_GRADIENT_GRID,
    keys=Keys(rounds="rounds", work=None, most="max_rounds", own=()),
    levers=frozenset({"momentum", "weighting", "cohorts", "decay", "steering", "centring"}),
    plan=plan,
    decided=rounds_and_clients,
    any_width=True,
)


def rows(counts: Counts, gamma: float) -> Real:
    """[sampling asked + rest + noise_weight n] / (T + gamma) (replies_bound)."""
    terms = np.column_stack([counts.asked, np.ones(len(counts)), counts.noise])
    return terms / (counts.rounds + gamma)[:, None]


SHAPE = Shape(
    terms=("sampling", "rest", "noise_weight"), rows=rows, source="Zhou et al., theorems 1, 3",
    work=lambda plan: 1.0, iterations=lambda plan: plan.rounds, steps=lambda work: 1, noise=noise_of_mean,
    noise_of=noise_of_uploads,
)  # fmt: skip


# Beside fixed settings: rounds, and clients in each ---------------------------------------------------

_ROUNDS = (10, 20, 50, 100, 200, 500)


def place(plan: Plan) -> tuple[float, float]:
    """T and b."""
    return plan.all_rounds, plan.clients_per_round


def cells(beside: Beside) -> list[Plan]:
    """Cells of T rounds, each asking one client, half of them or all."""
    problem, n = beside.problem, beside.problem.n_clients
    some = [b for b in sorted({1, max(1, n // 2), n}) if b >= problem.trust.least_cohort]
    cohorts = beside.counts("clients_per_round", some)
    return [stated(problem, t, b, beside.step) for b in cohorts for t in _paid_rounds(beside, b)]


def _paid_rounds(beside: Beside, clients_per_round: int) -> list[int]:
    """Rounds with b clients that are paid for: of the stated ones, or of some up to the most."""
    problem = beside.problem
    paid = np.floor(problem.most_uploads() * problem.n_clients / clients_per_round)
    some = sorted({t for t in _ROUNDS if t <= paid} | {int(min(_ROUNDS[-1], paid))})
    return [t for t in beside.counts("rounds", some) if t <= paid]


_PAPERS: dict[Norm, Usual] = {
    "l1": Usual("Zhou et al., their MNIST", 100, 300.0, StepSize(0.05, 50.0)),
    "l2": Usual("Zhou et al., their MNIST", 100, 10.0, StepSize(0.05, 50.0)),
}
AXES = Axes(across="rounds", series="clients_per_round", place=place, cells=cells, papers=_PAPERS)

METHOD = Method(
    name="fedsgd-dpc", table=FedSGDTable, only=None, answer=answer, check=check_stated,
    leaves_free=leaves_free, tells_clients_apart=never, takes_heterogeneity=never, by_rule=by_rule, stages=(),
    local_step=one_gradient, make=made_by("fedsgd_dpc.algorithm"), wire=wired_by("fedsgd_dpc.wire"),
    words=WORDS, space=SPACE, shape=SHAPE, axes=AXES, for_owners=False, held_against=None, reads="",
    shows="it clips single records, and whether a record's client takes part is seen by its others",
)  # fmt: skip
METHODS = {METHOD.name: METHOD}
