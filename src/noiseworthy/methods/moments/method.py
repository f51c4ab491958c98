"""One upload of second moments as a method: as stated, or by trials, because no theory chooses for it."""

from dataclasses import replace
from typing import Any

import numpy as np

from noiseworthy._wording import count, number
from noiseworthy.errors import ConfigError
from noiseworthy.methods import phrases as say
from noiseworthy.methods.axes import Axes, Beside
from noiseworthy.methods.base import LocalStep, Method, made_by, never, one_gradient, wired_by
from noiseworthy.methods.fedsgd_dpc import method as fedsgd_dpc
from noiseworthy.methods.moments.scale import RecordScale, check_task, stated
from noiseworthy.methods.moments.table import MomentsTable
from noiseworthy.methods.question import Answer, Question, given
from noiseworthy.methods.shape import Counts, Real, Rounds, Shape, noise_of_mean, uniform_noise
from noiseworthy.methods.space import Free, GradientScale, Grid, Keys, SearchSpace, Setting
from noiseworthy.methods.words import Key, Record, Term
from noiseworthy.plans.moments import SecondMoments
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.tasks.base import Task


def answer(question: Question, table: MomentsTable) -> Answer:
    """Take a study as it is stated.

    Raises:
        ConfigError: something is left free, or constants are given: no bound is known.
        InvalidInput: another model than a linear one.
    """
    if leaves_free(table) or question.clip_norm is None or question.assumed or question.source is not None:
        raise ConfigError(
            "moments has no bound to plan by; leave [constants] out to plan by trial on public data, or "
            "state shrinkage, step_size and [privacy] clip_norm"
        )
    task, problem = question.model(), question.problem(question.clip_norm)
    label_weight = given(table.label_weight)
    size = label_weight and (check_task(task).record_norm or 1.0) / label_weight
    scale = RecordScale.of(task, problem.norm, size)
    weight = label_weight or scale.label_weight
    shrinkage, steps = float(table.shrinkage), StepSize(float(table.step_size), np.inf)
    made = stated(problem, task, scale, steps, shrinkage, weight, given(table.weighting) or 0.0)
    return Answer(made, None)


def leaves_free(table: MomentsTable) -> bool:
    """Whether the ridge or the step is left open, or the weighting is: none unless it is named."""
    named = [table.weighting] if "weighting" in table.model_fields_set else []
    return "auto" in (table.shrinkage, table.step_size, *named)


def check(question: Question, table: MomentsTable) -> None:
    """Refuse models that moments do not solve before anything is tried.

    Raises:
        InvalidInput: another model than a linear one, class weights, or too many features.
        UnsoundClaim: rows that are persons, whom no clip of single records' moments bounds.
    """
    check_task(question.model())
    question.problem(1.0, "M")


def local_step(question: Question, table: MomentsTable) -> LocalStep:
    """One pass over all records, before an upload of second moments."""
    task = check_task(question.model())
    sent = SecondMoments(task.outputs, task.loss == "squared", 1.0, 1.0, 1.0).numbers(task.dimension)
    return one_gradient(question, table)._replace(numbers=sent)


# In trials: the ridge, the step of classes, the clip and the weights; nothing is counted --------------


def plan(free: Free, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    """The plan of a setting: `work` is the shrinkage, `reach` the step of classes, 1 for a regression."""
    model = check_task(task)
    problem = problem.clipped_as("M")
    typical = scale.clip / (model.record_norm or 1.0)
    known = RecordScale.of(task, problem.norm, typical)
    weight = free.own.get("label_weight") or known.label_weight
    alike = problem.norm == "l2" and model.normalise and model.loss != "squared"  # a clip would scale all
    share = 1.0 if alike else setting.clip
    clip = share * known.clip(weight) if free.clip_norm is None else free.clip_norm
    length = free.step_size or (1.0 if model.loss == "squared" else setting.reach)
    shrinkage = setting.work if free.work is None else free.work
    problem = replace(problem, clip_norm=clip)
    made = stated(problem, task, known, StepSize(length, np.inf), shrinkage, weight)
    return made.weighed(free.weighting_of(setting, made))


def decided(made: Plan) -> dict[str, Any]:
    """What trials chose of a plan, by the keys of the table."""
    if made.moments is None:
        return {}
    return {"shrinkage": made.moments.shrinkage, "label_weight": made.moments.label_weight}


SPACE = SearchSpace(
    grid=Grid(passes=(1,), work=(0.3, 1.0, 3.0), clips=(1.0, 0.3), reaches=(0.5, 1.0, 2.0)),
    keys=Keys(rounds=None, work="shrinkage", most=None, own=("label_weight",)),
    levers=frozenset({"weighting", "centring"}),
    plan=plan,
    decided=decided,
    any_width=False,
)


def rows(counts: Counts, gamma: float) -> Real:
    """noise_weight n + rest: nothing is counted."""
    return np.column_stack([counts.noise, np.ones(len(counts))])


def noise_of(plan: Plan, problem: Problem, rounds: Rounds, steps: int, per_round: int) -> Real:
    """The noise of the one upload; no other number of rounds is allowed."""
    once = uniform_noise(problem, np.ones(1, np.int64), problem.n_clients)
    return np.where(np.asarray(rounds) == 1, once, np.inf)


SHAPE = Shape(
    terms=("noise_weight", "rest"), rows=rows, source="variance of a ridge solution, docs/theory/moments.md",
    work=lambda plan: 1.0, iterations=lambda plan: plan.rounds, steps=lambda work: 1, noise=noise_of_mean,
    noise_of=noise_of,
)  # fmt: skip


# Beside a fixed setting: of all clients in one round, with a ridge as large as the noise --------------


def cells(beside: Beside) -> list[Plan]:
    """The setting that nobody planned: a whole step, and a ridge of the norm of the noise.

    There are no other rounds and clients than one of all.
    """
    plan, n = beside.plan, beside.problem.n_clients
    stated = beside.counts("rounds", [1]), beside.counts("clients_per_round", [n])
    if plan.moments is None or 1 not in stated[0] or n not in stated[1]:
        return []
    problem, once = beside.problem.clipped_as("M"), np.ones(n, np.int64)
    made = replace(
        plan, problem=problem, rounds=1, clients_per_round=n, releases=once, release=problem.release(once),
        prediction=None, outcome="Train on one upload with a ridge as large as the noise.",
        step=StepSize(1.0, np.inf), pilot=None, moments=replace(plan.moments, shrinkage=1.0),
    )  # fmt: skip
    return [made.weighed(plan.weighting)]


AXES = Axes(across="rounds", series="clients_per_round", place=fedsgd_dpc.place, cells=cells, papers={})


def _sentence(record: Record) -> str:
    n = say.clients_of(record)
    return f"on one upload of second moments of each of {count(n, 'client')}, solved at the server"


WORDS = replace(
    fedsgd_dpc.METHOD.words, called="Moments",
    terms={
        "rounds": say.ROUNDS, "clients_per_round": say.CLIENTS,
        "shrinkage": Term("s", "shrinkage s", "shrinkage s"),
        "label_weight": Term("c", "label weight c", "label weight c"),
    },
    decided=("shrinkage", "label_weight"), sentence=_sentence,
    brief=lambda record: "one upload of second moments",
    keys=lambda plan: [
        Key("upload", "1", f"{plan['upload_numbers']:,} numbers per client, no round after it")
    ],
    computes=lambda plan: f"Sums {number(plan['upload_numbers'])} products of its features and labels",
    decays="rounds", clipped=lambda plan: "each record's second moments",
    means=lambda plan, noise: say.upload_hides("the mean second moments of a client's records", plan, noise),
    curve=lambda plan, work: "one upload", online=say.all_online,
)  # fmt: skip

METHOD = Method(
    name="moments", table=MomentsTable, only=None, answer=answer, check=check, leaves_free=leaves_free,
    tells_clients_apart=never, takes_heterogeneity=never, by_rule=None, stages=(), local_step=local_step,
    make=made_by("moments.algorithm"), wire=wired_by("moments.wire"), words=WORDS, space=SPACE, shape=SHAPE,
    axes=AXES, for_owners=False, held_against=None, reads="",
    shows="it clips single records, and whether a record's client takes part is seen by its others",
)  # fmt: skip
METHODS = {METHOD.name: METHOD}
