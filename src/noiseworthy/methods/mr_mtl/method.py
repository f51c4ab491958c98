"""MR-MTL of Liu et al. as a method: rounds, clip and steps as for FedSGD-DPC where it asks everybody."""

from dataclasses import replace

from noiseworthy import _validate as check
from noiseworthy.errors import ConfigError
from noiseworthy.methods.axes import Axes, Beside
from noiseworthy.methods.base import Method, made_by, never, nothing_to_check, one_gradient, wired_by
from noiseworthy.methods.fedsgd_dpc import method as fedsgd_dpc
from noiseworthy.methods.fedsgd_dpc import planner as replies
from noiseworthy.methods.fedsgd_dpc.words import WORDS
from noiseworthy.methods.mr_mtl.table import PULL, MrMtlTable
from noiseworthy.methods.question import Answer, Question, clip_of, decay
from noiseworthy.methods.space import Free, GradientScale, Keys, Setting
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.tasks.base import Task

CITATION = "Liu et al., on privacy and personalization in cross-silo federated learning, 2022 (MR-MTL)"


def stated(problem: Problem, rounds: int, step: StepSize, pull: float = PULL) -> Plan:
    """The plan of a stated training: its noise pays for T gradients of every owner.

    Args:
        problem: public facts and budget.
        rounds: T, in each of which everybody replies.
        step: step sizes.
        pull: lambda, at least 0.

    Raises:
        InvalidInput: a T that is no count or that the resources do not pay for, a negative pull.

    Guarantee: `spent() <= epsilon` and `cost <= budget` for every client.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem([600] * 4, 11, PrivacyBudget.of(1.0, 1e-5, 4), "gaussian", 1.0)
        >>> made = stated(problem, 20, StepSize(0.5, float("inf")), pull=0.1)
        >>> made.releases, made.outcome
        (array([20, 20, 20, 20]), 'Train 20 rounds with 4 clients, as stated.')

    Source: Liu et al. (2022), Algorithm 1; docs/theory/baselines.md#mr-mtl.
    """
    return drawn_to_the_mean(replies.stated(problem, rounds, problem.n_clients, step), pull)


def drawn_to_the_mean(made: Plan, pull: float) -> Plan:
    """A plan of FedSGD-DPC that asks everybody, to be carried out by this method."""
    pull = check.non_negative("pull", pull).item()
    return replace(made, algorithm="mr-mtl", citation=CITATION, pull=pull)


_OWN = (
    "Each client keeps a model of its own, at which its gradients are taken. It moves by noised gradients "
    "and by what the server sends: the claim would hold even for somebody who sees these models."
)


def answer(question: Question, table: MrMtlTable) -> Answer:
    """Take a study as it is stated.

    Raises:
        ConfigError: something is left free, or constants are given: no bound is known.
    """
    if leaves_free(table) or question.assumed:
        raise ConfigError(
            "mr-mtl has no bound to plan by; leave [constants] out to plan by trial on data, or state "
            "rounds, step_size and clip_norm"
        )
    problem = question.problem(clip_of(question, "mr-mtl"))
    step = StepSize(float(table.step_size), decay(table.step_decay))
    return Answer(stated(problem, int(table.rounds), step, table.pull), None)


def leaves_free(table: MrMtlTable) -> bool:
    """Whether rounds or the step size are left open, or the averaging is by its name."""
    averaging = table.averaging if "averaging" in table.model_fields_set else None
    return "auto" in (table.rounds, table.step_size, averaging)


def plan(free: Free, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    """The plan of a setting in trials: FedSGD-DPC's for everybody in every round."""
    everybody = replace(free, clients_per_round=problem.n_clients, momentum=0.0, weighting=0.0, steering=0.0)
    made = fedsgd_dpc.plan(everybody, problem, task, scale, setting)
    return drawn_to_the_mean(made, free.own.get("pull", PULL))


def cells(beside: Beside) -> list[Plan]:
    """Fixed settings beside a plan: rounds, in which everybody replies, and its own pull."""
    everybody = {**beside.wanted, "clients_per_round": [beside.problem.n_clients]}
    settings = fedsgd_dpc.cells(replace(beside, wanted=everybody))
    return [drawn_to_the_mean(setting, beside.plan.pull) for setting in settings]


_SPACE = replace(
    fedsgd_dpc.SPACE, keys=Keys(rounds="rounds", work=None, most="max_rounds", own=("pull",)),
    levers=frozenset({"decay"}), plan=plan,
)  # fmt: skip
_MOVED = "its clients keep models that are moved by single noised uploads"
METHOD = Method(
    name="mr-mtl", table=MrMtlTable, only=None, answer=answer, check=nothing_to_check,
    leaves_free=leaves_free, tells_clients_apart=never, takes_heterogeneity=never, by_rule=None, stages=(),
    local_step=one_gradient, make=made_by("mr_mtl.algorithm"), wire=wired_by("mr_mtl.wire"),
    words=replace(WORDS, called="MR-MTL", beyond=(_OWN,), knows="every client keeps a model of its own"),
    space=_SPACE, shape=fedsgd_dpc.SHAPE,
    axes=Axes(across="rounds", series="clients_per_round", place=fedsgd_dpc.place, cells=cells, papers={}),
    for_owners=True, held_against=None, reads=_MOVED, shows=_MOVED,
)  # fmt: skip
METHODS = {METHOD.name: METHOD}
