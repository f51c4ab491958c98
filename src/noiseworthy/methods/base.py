"""What a method is to the rest of the house: one value with everything that is its own.

No default stands in for a missing part: a method that lacks one is refused when its file is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from noiseworthy.methods.axes import Axes
from noiseworthy.methods.question import Answer, Question
from noiseworthy.methods.shape import Shape
from noiseworthy.methods.space import SearchSpace
from noiseworthy.methods.table import AlgorithmTable
from noiseworthy.methods.words import Words
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.clipping import ClippingMode
from noiseworthy.privacy.mechanisms import Family
from noiseworthy.tasks.base import Task

if TYPE_CHECKING:
    from noiseworthy.methods.algorithm import Algorithm
    from noiseworthy.methods.wire import Wire

T = TypeVar("T", bound=AlgorithmTable)


class LocalStep(NamedTuple):
    """What measuring asks of a method: records of a step of each client, shape (N,), what is clipped in it,
    and how many numbers an upload has that are not the parameters."""

    records: NDArray[np.int64]
    mode: ClippingMode
    numbers: int | None = None


@dataclass(frozen=True)
class Entrant:
    """Somebody in a contest, who shares all with the others but what they differ by.

    Attributes:
        told: its `[algorithm]` table, from that of the study.
        kind: the same for entrants whose rounds do the same, of which one is timed for all.
    """

    told: Callable[[AlgorithmTable], AlgorithmTable]
    kind: str


Entrants: TypeAlias = Callable[[Family], dict[str, Entrant]]
"""Who enters under a mechanism, by name: last the one that all others are rivals of; without noise only the
one that all are measured by."""


@dataclass(frozen=True, kw_only=True)
class Method(Generic[T]):
    """An algorithm of a paper with its planner.

    Attributes:
        name: in a study file.
        table: its `[algorithm]` keys.
        only: the kind of noise that it is defined for; None where any will do.
        answer: plans a study by theory, or takes it as it is stated.
        check: refuses stated counts out of range before anything is tried.
        leaves_free: whether a table leaves something to the planner, beside the clip.
        tells_clients_apart: whether a table asks clients by what only theory knows of them, not by trial.
        takes_heterogeneity: whether a table has use for heterogeneity client by client.
        by_rule: plans without any data; None where no rule is known.
        stages: classes of what its plans hold beside that of every plan: stages and what they released.
        local_step: what a step of a client takes.
        make: from a plan to the algorithm that trains, its schedule drawn from a seed.
        wire: tells what it asks of owners, and what they compute then.
        words: what views say of its decision.
        space: what trials may choose of it.
        shape: what its theory says the loss is made of.
        axes: what a comparison varies.
        for_owners: whether clients train models of their own, so that it is held against others only where
            owners use what comes of it.
        held_against: who enters a contest with it; None where nobody does.
        reads: why it cannot train where only sums of uploads are seen; empty where it can.
        shows: why it cannot train where a trusted server keeps to itself whom it asks; empty where it can.
    """

    name: str
    table: type[T]
    only: Family | None
    answer: Callable[[Question, T], Answer]
    check: Callable[[Question, T], None]
    leaves_free: Callable[[T], bool]
    tells_clients_apart: Callable[[T], bool]
    takes_heterogeneity: Callable[[T], bool]
    by_rule: Callable[[Question, T], Answer] | None
    stages: tuple[type, ...]
    local_step: Callable[[Question, T], LocalStep]
    make: Callable[[Plan, Task, int], Algorithm]
    wire: Callable[[], Wire[Any]]
    words: Words
    space: SearchSpace
    shape: Shape
    axes: Axes
    for_owners: bool
    held_against: Entrants | None
    reads: str
    shows: str


def made_by(module: str) -> Callable[[Plan, Task, int], Algorithm]:
    """`make` of a module in `methods`, loaded when something is trained: planning computes nothing."""
    return lambda plan, task, seed: import_module(f"noiseworthy.methods.{module}").make(plan, task, seed)


def wired_by(module: str, name: str = "WIRE") -> Callable[[], Wire[Any]]:
    """What a module in `methods` has owners compute, loaded when they are asked."""
    return lambda: getattr(import_module(f"noiseworthy.methods.{module}"), name)


def never(table: Any) -> bool:
    """No table does."""
    return False


def nothing_to_check(question: Question, table: Any) -> None:
    """Counts that the planner itself refuses in time."""


def one_gradient(question: Question, table: Any) -> LocalStep:
    """One step on all records, each clipped."""
    return LocalStep(question.sizes, "A")
