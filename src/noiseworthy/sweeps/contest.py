"""DPFL-BCS beside its rivals, all with the same federation, budgets, rounds, clients, clip, steps and seeds.

What they differ by is who is asked how often, what a reply weighs, and what clients keep to themselves. All
are planned with exact counts and exact noise before anything is trained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy._validate import Real
from noiseworthy.engines.shards import Shards
from noiseworthy.errors import ConfigError
from noiseworthy.methods.base import Entrants
from noiseworthy.methods.registry import METHODS, make, method
from noiseworthy.methods.table import AlgorithmTable
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.mechanisms import Family, law_of
from noiseworthy.studies.at_home import delivers_to_owners
from noiseworthy.studies.decision import Decision, Progress
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import Prepared, prepare
from noiseworthy.studies.privacy_table import Drawn, PrivacyTable
from noiseworthy.studies.tables import ConstantsTable
from noiseworthy.studies.training import LEAST_ROUNDS, Pace, Run, carried_out_each, pace_of
from noiseworthy.sweeps.compare import ended, loading, search_epsilon
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.personal import personalised

_LOOKS = 8
"""How often a training is scored, for progress; only the last counts."""


@dataclass(frozen=True)
class Entry:
    """One algorithm at one point: its plan, and what trainings by it came to.

    Attributes:
        name: among the entrants.
        plan: what it does, and the noise that this takes.
        kind: the same where rounds do the same.
        loss: final test losses, shape (S,); infinite if diverged, empty before training.
        accuracy: final test scores, shape (S,); NaN where there is none or the training diverged.
        replies: uploads of each client, those of a first stage included, shape (S, N).
        spent: greatest share of its epsilon that any client has spent, shape (S,).
        theta: the shared model of the first seed, shape (p,).
        memory: what a client keeps of that training, its leaves; None where nobody keeps anything.
        home: score of what owners make of that model, by the way they do it; empty until it is asked for.
    """

    name: str
    plan: Plan
    kind: str
    loss: Real = field(default_factory=lambda: np.empty(0))
    accuracy: Real = field(default_factory=lambda: np.empty(0))
    replies: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), np.int64))
    spent: Real = field(default_factory=lambda: np.empty(0))
    theta: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))
    memory: Callable[[int], tuple[NDArray[Any], ...]] | None = None
    home: dict[str, float] = field(default_factory=dict)

    @property
    def work(self) -> int:
        """Replies that a training asks for."""
        return self.plan.all_rounds * self.plan.clients_per_round


@dataclass(frozen=True)
class Condition:
    """Everybody under the same noise, budgets and data.

    Attributes:
        mechanism: of the noise; "none" for the reference alone.
        epsilon_max: upper end of the range of budgets, None where the study states none.
        alpha: concentration of the Dirichlet partition, None for another partition.
        entries: in the order of the entrants; empty before planning.
    """

    mechanism: Family
    epsilon_max: float | None
    alpha: float | None
    entries: tuple[Entry, ...] = ()

    @property
    def search_epsilon(self) -> float | None:
        """What training every entry once would spend of the client that is worst off; None without a sum."""
        return search_epsilon([entry.plan for entry in self.entries])


@dataclass(frozen=True)
class Contest:
    """All points of a study: its own under each mechanism, and around it other budgets and other data.

    Attributes:
        mechanisms: of noise.
        points: those of one `alpha` follow each other, the reference first; the study's own come before all.
        seeds: of every training.
    """

    mechanisms: tuple[Family, ...]
    points: tuple[Condition, ...]
    seeds: tuple[int, ...]

    @classmethod
    def of(cls, prepared: Prepared) -> Contest:
        """The points that a study asks for, nothing planned yet.

        Raises:
            ConfigError: a method that nobody is held against, no data, no step size, no noise, or a sweep
                over what the study does not state.
            InvalidInput: a model whose records have no personal transform.
        """
        _checked(prepared.study.algorithm)
        personalised(prepared.trained()[1])
        wanted, mechanisms = prepared.study.rivals, _mechanisms(prepared)
        epsilon, alpha = _epsilon_max(prepared), _alpha(prepared)
        budgets = [epsilon, *sorted({*wanted.epsilon_max} - {epsilon})]
        points = [Condition("none", epsilon, alpha)]
        points += [Condition(m, e, alpha) for e in budgets for m in mechanisms]
        for other in sorted({*wanted.alpha} - {alpha}):
            points += [Condition(m, epsilon, other) for m in ("none", *mechanisms)]
        return cls(mechanisms, tuple(points), tuple(wanted.seeds))

    def at(self, mechanism: Family) -> Condition:
        """The study's own point under a mechanism, or its reference."""
        return next(point for point in self.points if point.mechanism == mechanism)

    @property
    def decision(self) -> Decision:
        """The plan that all are held against, at the study's own point under the first of the mechanisms."""
        return Decision(self.at(self.mechanisms[0]).entries[-1].plan, None)

    @property
    def entries(self) -> list[Entry]:
        """Every entry of every point."""
        return [entry for point in self.points for entry in point.entries]

    @property
    def replies(self) -> int:
        """Replies that all trainings together ask for."""
        return len(self.seeds) * sum(entry.work for entry in self.entries)


def plan_contest(contest: Contest, prepared: Prepared, on_progress: Progress = lambda done: None) -> Contest:
    """Plan every entry of every point, each by the planner of its algorithm.

    Args:
        contest: of the study.
        prepared: the study.
        on_progress: told the share of points done.

    Returns:
        The contest with its plans. Laplace noise is planned for pure epsilon, delta 0.

    Raises:
        ConfigError, InvalidInput: what any of the planners refuses.
    """
    planned: list[Condition] = []
    for alpha, points in groupby(contest.points, key=lambda point: point.alpha):
        here = _dealt(prepared, alpha)
        for point in points:
            planned.append(_planned(point, here))
            on_progress(len(planned) / len(contest.points))
    return replace(contest, points=tuple(planned))


def train_contest(
    contest: Contest,
    prepared: Prepared,
    on_progress: Progress = lambda done: None,
    on_estimate: Progress | None = None,
) -> Contest:
    """Train every entry under every seed in simulation, the seeds of one side by side.

    Args:
        contest: planned for the same study.
        prepared: the study.
        on_progress: told the share of replies done.
        on_estimate: told the seconds that all will take, before networks train.
    """
    trained: list[Condition] = []
    for alpha, group in groupby(contest.points, key=lambda point: point.alpha):
        (federation, task), points = _dealt(prepared, alpha).trained(), list(group)
        shards = loading(federation, task)
        if not trained and on_estimate is not None and _takes_long(contest, task):
            on_estimate(_foretold(contest, task, shards))
        plans, before = [entry.plan for point in points for entry in point.entries], len(trained)
        part = _part(on_progress, contest, before, before + len(points))
        runs = carried_out_each(plans, task, shards, contest.seeds, _looks, part)
        for point in points:
            # entries come first: zip ends with them before it takes, and loses, a run of the next point
            entries = tuple(_trained(entry, run) for entry, run in zip(point.entries, runs, strict=False))
            trained.append(replace(point, entries=entries))
    return replace(contest, points=tuple(trained))


# What a study states ----------------------------------------------------------------------------------


def _checked(table: AlgorithmTable) -> Entrants:
    """Who enters, unless nobody is held against the study's method, or its step is left open."""
    held_against = method(table.name).held_against
    if held_against is None:
        known = ", ".join(name for name in METHODS if method(name).held_against is not None)
        raise ConfigError(
            f"[algorithm] name must be one of {known} to hold them against each other, got {table.name!r}"
        )
    if method(table.name).leaves_free(table):
        raise ConfigError(
            "[algorithm] step_size is missing: no theory gives one for the rivals, who share it; state one"
        )
    return held_against


def _mechanisms(prepared: Prepared) -> tuple[Family, ...]:
    own, wanted = prepared.study.privacy.mechanism, prepared.study.rivals.mechanisms
    if wanted == "auto" and not law_of(own).noisy:
        raise ConfigError(
            'rivals need noise, got mechanism = "none" in [privacy]; state [rivals] mechanisms = ["gaussian"]'
        )
    return (own,) if wanted == "auto" else tuple(dict.fromkeys(wanted))


def _epsilon_max(prepared: Prepared) -> float | None:
    """The upper end of the range of budgets, None without a range."""
    law, wanted = prepared.study.privacy.epsilon, prepared.study.rivals.epsilon_max
    if not isinstance(law, Drawn):
        if wanted:
            raise ConfigError(
                "[rivals] epsilon_max varies the upper end of a range, but [privacy] epsilon is none; state "
                "epsilon = { uniform = [least, greatest] }, or leave epsilon_max out"
            )
        return None
    least, greatest = law.ends
    if wanted and min(wanted) < least:
        raise ConfigError(
            f"[rivals] epsilon_max must be at least {least:g}, the lower end of [privacy] epsilon, got "
            f"{min(wanted):g}; raise it, or lower that end"
        )
    return greatest


def _alpha(prepared: Prepared) -> float | None:
    """The concentration of the partition, None for another than Dirichlet."""
    table, wanted = prepared.study.federation, prepared.study.rivals.alpha
    if wanted and table.partition != "dirichlet":
        quoted = "none" if table.partition is None else f'"{table.partition}"'
        raise ConfigError(
            f"[rivals] alpha varies a Dirichlet partition, got partition = {quoted}; set "
            'partition = "dirichlet" with alpha in [federation], or leave it out of [rivals]'
        )
    if wanted and isinstance(prepared.study.constants.heterogeneity, list | dict):
        raise ConfigError(
            "[rivals] alpha deals the records out anew, and [constants] heterogeneity is stated for the "
            "clients as they are; leave one of them out"
        )
    return table.alpha if table.partition == "dirichlet" else None


def _dealt(prepared: Prepared, alpha: float | None) -> Prepared:
    """The study with its records dealt out at another concentration."""
    study = prepared.study
    if alpha in (None, study.federation.alpha):
        return prepared
    table = study.federation.model_copy(update={"alpha": alpha})
    return prepare(study.model_copy(update={"federation": table}))


# Plans ------------------------------------------------------------------------------------------------


def _planned(point: Condition, prepared: Prepared) -> Condition:
    study = prepared.study
    privacy, entries = _privacy(study.privacy, point), []
    for name, entrant in _checked(study.algorithm)(point.mechanism).items():
        table = entrant.told(study.algorithm)
        if (own := method(table.name).for_owners) and not delivers_to_owners(prepared):
            continue
        changed = {"privacy": privacy, "algorithm": table, **({"constants": ConstantsTable()} if own else {})}
        made = decide(replace(prepared, study=study.model_copy(update=changed))).plan
        entries.append(Entry(name, made, entrant.kind))
    return replace(point, entries=tuple(entries))


def _privacy(table: PrivacyTable, point: Condition) -> PrivacyTable:
    """The study's budgets at a point; pure where noise allows it, because DPFL-BCS plans no other."""
    changed: dict[str, Any] = {"mechanism": point.mechanism, "accountant": "auto"}
    if law_of(point.mechanism).pure:
        changed["delta"] = 0.0
    if isinstance(table.epsilon, Drawn):
        ((law, (least, _)),) = table.epsilon.model_dump(exclude_none=True).items()
        changed["epsilon"] = Drawn(**{law: [least, point.epsilon_max]})
    return table.model_copy(update=changed)


# Trainings --------------------------------------------------------------------------------------------


def _looks(plan: Plan) -> NDArray[np.int64]:
    return np.unique(np.linspace(1, plan.all_rounds, _LOOKS).astype(int))


def _trained(entry: Entry, run: Run) -> Entry:
    (loss, accuracy), pilot = ended(run), entry.plan.pilot
    return replace(
        entry, loss=loss, accuracy=accuracy,
        replies=run.uploads + (0 if pilot is None else pilot.uploads),
        spent=np.max(run.spent / entry.plan.budget.epsilon, axis=1),
        theta=run.theta[0],
        memory=None if run.memory is None else partial(run.memory, 0),
    )  # fmt: skip


def _part(on_progress: Progress, contest: Contest, first: int, end: int) -> Progress:
    """Progress within the points from one to another, of all by the replies that they ask for."""
    work = [sum(entry.work for entry in point.entries) for point in contest.points]
    before, own, whole = sum(work[:first]), sum(work[first:end]), sum(work)
    return lambda share: on_progress((before + share * own) / whole)


# How long it takes ------------------------------------------------------------------------------------


def _takes_long(contest: Contest, task: Task) -> bool:
    """Whether networks train, for at least as long as timing them would take."""
    rounds = contest.at(contest.mechanisms[0]).entries[0].plan.rounds
    return rounds >= LEAST_ROUNDS and not isinstance(task, LinearModel)


def _foretold(contest: Contest, task: Task, shards: Callable[[bool], Shards]) -> float:
    """Seconds of all trainings, from a few rounds of each kind of algorithm at the study's own point."""
    timed, paces = contest.at(contest.mechanisms[0]), dict[str, Pace]()
    for entry in timed.entries:
        if entry.kind not in paces:
            algorithms = [make(entry.plan, task, seed) for seed in contest.seeds]
            paces[entry.kind] = pace_of(algorithms, entry.plan.uploads, shards(False), contest.seeds)
    most = timed.entries[0].plan.problem.sizes.max()
    seconds, compiled = 0.0, {(timed.mechanism, timed.alpha, kind) for kind in paces}
    for point in contest.points:
        for entry in point.entries:
            plan, pace = entry.plan, paces[entry.kind]
            program = point.mechanism, point.alpha, entry.kind
            seconds += pace.seconds(plan.all_rounds, _LOOKS) * plan.problem.sizes.max() / most
            seconds += 0.0 if program in compiled else pace.compiling
            compiled.add(program)
    return seconds
