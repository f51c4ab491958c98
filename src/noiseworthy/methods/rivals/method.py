"""The methods that DPFL-BCS is held against: rows that differ in noise, weights and what clients keep.

Everything is stated, or whom to ask is left to DPFL-BCS.
"""

from dataclasses import replace
from typing import cast

from noiseworthy.errors import ConfigError
from noiseworthy.methods.base import Method, made_by, one_gradient, wired_by
from noiseworthy.methods.dpfl_bcs import method as dpfl_bcs
from noiseworthy.methods.dpfl_bcs.words import WORDS, asked_unlike
from noiseworthy.methods.fedsgd_dpc import method as fedsgd_dpc
from noiseworthy.methods.question import Answer, Question, clip_of, decay, given
from noiseworthy.methods.rivals import contest, planner
from noiseworthy.methods.rivals.planner import RIVALS
from noiseworthy.methods.rivals.table import RivalName, RivalTable
from noiseworthy.methods.space import Free, GradientScale, Setting
from noiseworthy.methods.words import Words
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.tasks.base import Task


def answer(question: Question, table: RivalTable) -> Answer:
    """Plan a rival; with `selection = "biased"` clients are asked as often as DPFL-BCS would ask them.

    Raises:
        ConfigError: a clip, a step, or constants of a biased selection, that the study does not give.
        InvalidInput: what `planner.plan` refuses, or `dpfl_bcs.planner.plan` where it selects.
    """
    problem = question.problem(clip_of(question, table.name))
    planner.check_fits(table.name, problem)
    selected = dpfl_bcs.chosen(question, table) if table.selection == "biased" else None
    made = planner.plan(
        table.name, problem, rounds=table.rounds, clients_per_round=table.clients_per_round,
        step=_step(table), counts=None if selected is None else selected.releases,
        momentum=given(table.momentum) or 0.0,
        personal_step=table.personal_step_size or planner.PERSONAL_STEP,
        notes=() if selected is None else selected.notes,
    )  # fmt: skip
    return Answer(made if selected is None else replace(made, constants=selected.constants), None)


def check(question: Question, table: RivalTable) -> None:
    """Refuse persons whom a rival does not clip before anything is tried.

    Raises:
        InvalidInput: rows that are persons, of a rival that clips single records.
    """
    if (problem := question.problem(1.0)).row == "person":
        planner.check_fits(table.name, problem)


def _step(table: RivalTable) -> StepSize:
    """The stated step: no theory has one for a rival."""
    if table.step_size == "auto":
        raise ConfigError(
            f'[algorithm] step_size = "auto" is chosen for {table.name} by trial only, which needs data, '
            "noise, no [constants] and a uniform selection; state a number"
        )
    return StepSize(table.step_size, decay(table.step_decay))


def asks_as_told(table: RivalTable) -> bool:
    """Whether clients are asked as often as DPFL-BCS would ask them."""
    return table.selection == "biased"


# In trials: all clients are asked alike ---------------------------------------------------------------


def plan(free: Free, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    """The plan of a setting."""
    problem, kept = free.clipped(problem, setting, scale.clip)
    name = cast(RivalName, free.algorithm)
    planner.check_fits(name, problem)
    n = problem.n_clients
    b = free.clients_per_round or n
    rounds = free.rounds_of(setting.passes, n, b)
    made = planner.plan(
        name,
        problem,
        rounds=rounds,
        clients_per_round=b,
        step=free.step(setting, rounds, kept, scale),
        momentum=free.momentum_of(setting),
        personal_step=free.own.get("personal_step_size") or planner.PERSONAL_STEP,
    )
    return replace(made, averaging=free.averaging_of(setting))


SPACE = replace(dpfl_bcs.SPACE, keys=replace(dpfl_bcs.SPACE.keys, own=("personal_step_size",)), plan=plan)
_SPACES = {"privatefl": replace(SPACE, any_width=False)}
"""Of rivals that fit no wider model: a personal transform is as wide as the records."""

_APART = ("pfa", "privatefl")
"""Whose replies are combined otherwise or hold something else: each is made in a file of its own."""

_READS = {
    "pfa": "its server projects single uploads on those of clients with large budgets",
    "privatefl": "its clients keep transforms that are moved by single noised uploads",
}
_RIVAL = replace(WORDS, chooses=asked_unlike, knows="")
_TRANSFORMS = (
    "Each client keeps a transform of its records. Its gradient is clipped together with that of the model, "
    "as one, and noised alike before the transform moves: the claim would hold even for somebody who sees "
    "the transforms."
)
_WORDS: dict[RivalName, Words] = {
    "fedsgd": replace(_RIVAL, called="FedSGD"),
    "dpsgd": replace(_RIVAL, called="DPSGD"),
    "dmldp": replace(_RIVAL, called="DMLDP"),
    "weiavg": replace(
        _RIVAL, called="WeiAvg", knows="the server knows clients' epsilons and weighs replies by them"
    ),
    "pfa": replace(_RIVAL, called="PFA", knows="the server knows clients' epsilons and trusts larger ones"),
    "privatefl": replace(
        _RIVAL, called="PrivateFL", beyond=(_TRANSFORMS,),
        knows="every client keeps a transform of its own; the accuracy is that of the shared model alone",
    ),
}  # fmt: skip


def _method(name: RivalName) -> Method[RivalTable]:
    return Method(
        name=name, table=RivalTable, only=RIVALS[name].only, answer=answer, check=check,
        leaves_free=dpfl_bcs.leaves_free, tells_clients_apart=asks_as_told, takes_heterogeneity=asks_as_told,
        by_rule=None, stages=(), local_step=one_gradient,
        make=made_by(f"rivals.{name if name in _APART else 'alike'}"), words=_WORDS[name],
        wire=wired_by("rivals.wire" if name == "privatefl" else "fedsgd_dpc.wire"),
        space=_SPACES.get(name, SPACE), shape=fedsgd_dpc.SHAPE, axes=dpfl_bcs.AXES,
        for_owners=False, held_against=contest.entrants,
        reads=_READS.get(name, "it stands for its paper, with the noise of single uploads"),
        shows="it stands for its paper, whose cohorts are public",
    )  # fmt: skip


METHODS = {name: _method(name) for name in RIVALS}
