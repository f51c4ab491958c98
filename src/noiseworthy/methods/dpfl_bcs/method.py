"""DPFL-BCS of Ma et al. as a method: rounds and clients are stated, who is asked how often is decided."""

import math
from dataclasses import replace

import numpy as np

from noiseworthy.errors import ConfigError
from noiseworthy.methods.axes import Axes, Beside
from noiseworthy.methods.base import Method, made_by, one_gradient, wired_by
from noiseworthy.methods.dpfl_bcs import planner, two_stages
from noiseworthy.methods.dpfl_bcs.bound import exponent, participation_costs
from noiseworthy.methods.dpfl_bcs.heterogeneity import ReportedLosses
from noiseworthy.methods.dpfl_bcs.search import greedy, uniform_counts
from noiseworthy.methods.dpfl_bcs.stages import Advice, advise
from noiseworthy.methods.dpfl_bcs.table import SelectionTable
from noiseworthy.methods.dpfl_bcs.two_stages import FirstStage
from noiseworthy.methods.dpfl_bcs.words import WORDS
from noiseworthy.methods.fedsgd_dpc import method as fedsgd_dpc
from noiseworthy.methods.question import Answer, Question, analytic, clip_of, given, local_constants, step_of
from noiseworthy.methods.rivals import contest
from noiseworthy.methods.rivals.table import RivalTable
from noiseworthy.methods.shape import Real, Rounds, variances
from noiseworthy.methods.space import Free, GradientScale, Keys, Setting
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.tasks.base import Task

_UNSTATED = ("No heterogeneity is stated: clients are chosen as if their data were alike.",)


def answer(question: Question, table: SelectionTable) -> Answer:
    """Plan DPFL-BCS; constants are needed only for what rests on them, heterogeneity and the step sizes.

    In two stages where the study says so, or where estimating heterogeneity is expected to pay.

    Raises:
        ConfigError: constants, a clip or a loss cap that cannot be had from what the study gives.
        InvalidInput: what `planner.plan` and `two_stages.plan` refuse.
    """
    advice = _stages(question, table)
    if advice.estimation_rounds == 0:
        made = chosen(question, table)
        notes = (advice.reason, *made.notes) if advice.reason else made.notes
        return Answer(replace(made, momentum=given(table.momentum) or 0.0, notes=notes), None)
    problem = question.problem(clip_of(question, table.name))
    made = two_stages.plan(
        problem, _constants(question, table.name, problem), rounds=table.rounds,
        clients_per_round=table.clients_per_round, estimation_rounds=advice.estimation_rounds,
        loss_cap=_stated_cap(question, table), step=step_of(table.step_size, table.step_decay),
        momentum=given(table.momentum) or 0.0, notes=(advice.reason,) if advice.reason else (),
    )  # fmt: skip
    return Answer(made, None)


def _stages(question: Question, table: SelectionTable) -> Advice:
    """Rounds of stage 1 as the study states them, or as far as they are worth it; with the reason, if any."""
    known = question.heterogeneity() is not None
    if known and table.estimation_rounds not in (0, "auto"):
        raise ConfigError(
            f"[constants] heterogeneity is stated, and [algorithm] estimation_rounds = "
            f"{table.estimation_rounds} would estimate it; leave one of them out"
        )
    if known or table.estimation_rounds == 0:
        without_first_stage(question, table)
        return Advice(0, "")
    if table.estimation_rounds != "auto":
        return Advice(table.estimation_rounds, "")
    problem = question.problem(clip_of(question, table.name))
    return advise(
        problem, _constants(question, table.name, problem), rounds=table.rounds,
        clients_per_round=table.clients_per_round, loss_cap=_loss_cap(question, table),
        spread=question.heterogeneity_spread,
    )  # fmt: skip


def without_first_stage(question: Question, table: SelectionTable) -> None:
    """Refuse what only a first stage reads, of a study that has none."""
    if table.loss_cap != "auto":
        raise ConfigError("[algorithm] loss_cap clips losses of a first stage; without one, leave it out")


def _loss_cap(question: Question, table: SelectionTable) -> float | None:
    """Theta as stated, or the loss of a guess among the classes."""
    if table.loss_cap != "auto":
        return float(table.loss_cap)
    return None if question.classes is None else math.log(question.classes)


def _stated_cap(question: Question, table: SelectionTable) -> float:
    cap = _loss_cap(question, table)
    if cap is None:
        raise ConfigError(
            "[algorithm] loss_cap is missing: reported losses are clipped at it, and only a classifier on "
            "data has one by itself, ln(classes); state it, or set estimation_rounds = 0"
        )
    return cap


def chosen(question: Question, table: SelectionTable | RivalTable) -> Plan:
    """Who is asked how often, by the study's budgets, sizes and heterogeneity; errors as in `answer`."""
    problem = question.problem(clip_of(question, table.name))
    stated = question.heterogeneity()
    return planner.plan(
        problem, _constants(question, table.name, problem), rounds=table.rounds,
        clients_per_round=table.clients_per_round, heterogeneity=stated,
        step=step_of(table.step_size, table.step_decay), notes=_UNSTATED if stated is None else (),
    )  # fmt: skip


def _constants(question: Question, name: str, problem: Problem) -> dict[str, Constant]:
    """Stated or analytic constants, if any."""
    if question.source is None and not question.assumed:
        return {}

    def from_bounds() -> dict[str, Constant]:
        """All but heterogeneity, of which no public bound tells clients apart."""
        known = analytic(question, problem.clip_norm)
        return {name: constant for name, constant in known.items() if name != "heterogeneity"}

    return local_constants(question, name, from_bounds, "smoothness and strong_convexity")


def leaves_free(table: SelectionTable | RivalTable) -> bool:
    """Whether the step size is left open."""
    return table.step_size == "auto"


def estimates(table: SelectionTable) -> bool:
    """Whether a first stage is stated, in which clients report losses."""
    return table.estimation_rounds not in (0, "auto")


# In trials: rounds of clients chosen by budget and size, and the noise of unequal counts --------------


def plan(free: Free, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    """The plan of a setting, as if the clients' data were alike."""
    problem, kept = free.clipped(problem, setting, scale.clip)
    n = problem.n_clients
    b = free.clients_per_round or n
    rounds = free.rounds_of(setting.passes, n, b)
    step = free.step(setting, rounds, kept, scale)
    made = planner.plan(problem, {}, rounds=rounds, clients_per_round=b, step=step)
    return replace(made, momentum=free.momentum_of(setting), averaging=free.averaging_of(setting))


SPACE = replace(
    fedsgd_dpc.SPACE,
    keys=Keys(rounds="rounds", work=None, most=None, own=()),
    levers=frozenset({"momentum", "decay"}),
    plan=plan,
)


def noise(plan: Plan) -> float:
    """sum T_n v_n / (K^2 T), of clients asked unequally often."""
    if plan.release is None:
        return 0.0
    return float(np.sum(plan.releases * variances(plan)) / (plan.clients_per_round**2 * plan.rounds))


def noise_of(plan: Plan, problem: Problem, rounds: Rounds, steps: int, per_round: int) -> Real:
    """The same for the clients who would be chosen."""
    return np.array([_chosen(problem, int(t), per_round) for t in rounds])


def _chosen(problem: Problem, rounds: int, clients_per_round: int) -> float:
    alike = np.zeros(problem.n_clients)
    costs = participation_costs(problem, {}, alike, rounds, clients_per_round)
    if costs.most.sum() < clients_per_round * rounds:
        return np.inf
    asked = greedy(costs, clients_per_round * rounds).astype(float)
    total = np.sum(asked ** (1 + exponent(problem)) * problem.upload_variance)
    return float(total / (clients_per_round**2 * rounds * problem.dimension * problem.clip_norm**2))


SHAPE = replace(fedsgd_dpc.SHAPE, noise=noise, noise_of=noise_of)


# Beside fixed settings, as its rivals are: clients in each round, and rounds --------------------------


def place(plan: Plan) -> tuple[float, float]:
    """K and T, rounds of a first stage included."""
    return plan.clients_per_round, plan.all_rounds


def cells(beside: Beside) -> list[Plan]:
    """Cells of K clients in each of T rounds who are asked equally often, up to one: nobody is chosen."""
    plan, problem = beside.plan, beside.problem
    n, k = problem.n_clients, plan.clients_per_round
    cohorts = beside.counts("clients_per_round", sorted({max(1, k // 2), k, min(2 * k, n)}))
    made = [
        planner.stated(problem, uniform_counts(b, t, n), b, t, beside.step)
        for t in beside.counts("rounds", [plan.all_rounds])
        for b in cohorts
        if -(-b * t // n) <= problem.most_uploads()
    ]
    own = {name: getattr(plan, name) for name in ("algorithm", "citation", "personal_step")}
    return [replace(cell, **own) for cell in made]


AXES = Axes(across="clients_per_round", series="rounds", place=place, cells=cells, papers={})

METHOD = Method(
    name="dpfl-bcs", table=SelectionTable, only=None, answer=answer, check=without_first_stage,
    leaves_free=leaves_free, tells_clients_apart=estimates, takes_heterogeneity=lambda table: True,
    by_rule=None, stages=(FirstStage, ReportedLosses), local_step=one_gradient,
    make=made_by("dpfl_bcs.algorithm"), wire=wired_by("dpfl_bcs.wire", "IN_STAGES"), words=WORDS, space=SPACE,
    shape=SHAPE, axes=AXES, for_owners=False, held_against=contest.entrants,
    reads="its counts are chosen for the noise of single uploads, and its two stages read their losses",
    shows="it plans in public whom to ask how often",
)  # fmt: skip
METHODS = {METHOD.name: METHOD}
