"""What is said of a method, in words and symbols: one value that every view of a record asks.

A view holds the sentences that are true of any method. What differs between methods is here, so that no view
knows which methods there are. Functions take a run record, or the plan in it, as plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from noiseworthy._wording import number
from noiseworthy.plans.plan import Plan

Record = dict[str, Any]
"""A run record as `studies.record` writes it, or its plan; or the same read back from JSON."""


@dataclass(frozen=True)
class Term:
    """A setting as it is written: its symbol alone, with its name above a column, and at an axis."""

    symbol: str
    column: str
    axis: str


class Course(NamedTuple):
    """What a curve of the bound says that first falls and at last rises, that falls, and that rises."""

    turns: str
    falls: str
    rises: str


class Key(NamedTuple):
    """A number that a reader should take away, with what it is and a remark."""

    name: str
    value: str
    remark: str = ""


@dataclass(frozen=True, kw_only=True)
class Noised:
    """What carries noise, an upload or each local step, and how its count is said.

    Attributes:
        what: each of it: `every upload`.
        release: one noised value, for which the noise pays.
        listed: the value whose noise a list of clients states, for a plan.
        where: what follows the size of the noise in a plan's own row.
        exchange: what costs resources beside local steps.
        uploads: of each client at most, by a plan.
        bought: what follows the uploads of a client in a plan's row.
        remark: the same beside a number.
        caption: what the noise of each client pays for, in a caption.
        card: the same as a sentence of the claim card.
        columns: what a plan lets one client do, by the heads of columns.
        columns_said: what these columns are.
        counted: how releases are counted, in the statement of privacy.
    """

    what: str
    release: str
    listed: Callable[[Record], str]
    where: Callable[[Record], str]
    exchange: str
    uploads: Callable[[Record], list[int]]
    bought: Callable[[Record], str]
    remark: Callable[[Record], str]
    caption: Callable[[Record], str]
    card: Callable[[Record], str]
    columns: Callable[[Record, int], dict[str, str]]
    columns_said: str
    counted: str


@dataclass(frozen=True, kw_only=True)
class Words:
    """Words and picture of a method's decision.

    Attributes:
        called: its name as its paper writes it.
        terms: its settings as its paper writes them, by the keys of plans, comparisons and printed answers.
        decided: the keys that its planner decides, or is told.
        sentence: what is trained, after the word `Train`.
        brief: the same in a few words, for titles.
        keys: its counts as numbers at the top of a page.
        computes: how long a client computes before it uploads, and on what; empty for one gradient.
        decays: what the step size falls with.
        clipped: what the clip applies to.
        means: by what means a record is hidden, with given words for the noise.
        beyond: what the statement of privacy says beyond that.
        when: what else is seen of when clients take part; empty for nothing.
        coins: what public coins mean for the count; nothing where there are none.
        noised: what carries noise.
        chooses: whether some clients are planned to be asked more often than others.
        alike: what the settings that a plan is compared with have in common, as a clause; empty for nothing.
        baseline: which of these settings has a name of its own; empty for none.
        courses: what a curve of the bound says, by the axis that it is drawn along.
        curve: label of a curve of the bound fitted to trials: what it holds fixed, by plan and E, tau or p.
        knows: what is taken for granted of the server or of clients; empty for nothing of the kind.
        online: who must be online, of b and N.
    """

    called: str
    terms: Mapping[str, Term]
    decided: tuple[str, ...]
    sentence: Callable[[Record], str]
    brief: Callable[[Record], str]
    keys: Callable[[Record], list[Key]]
    computes: Callable[[Record], str]
    decays: str
    clipped: Callable[[Record], str]
    means: Callable[[Record, str], str]
    beyond: tuple[str, ...]
    when: Callable[[Record], str]
    coins: Callable[[Record], tuple[str, ...]]
    noised: Noised
    chooses: Callable[[Record], bool]
    alike: str
    baseline: str
    courses: Mapping[str, Course]
    curve: Callable[[Plan, float], str]
    knows: str
    online: Callable[[int, int], str]

    def symbols(self, values: Mapping[str, Any], keys: Iterable[str]) -> str:
        """Settings as equations: `T = 80, b = 1`."""
        return ", ".join(f"{self.terms[key].symbol} = {number(values[key])}" for key in keys)
