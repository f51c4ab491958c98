"""The one judge of all claims of all papers, and of ours: cases that hold, fail or cannot be told.

A claim is data: words, and kinds (`kinds`, `optima`) that name the cases it speaks of. In each case
differences are paired by seed and told by two standard errors (`samples`). All claims share one slack for
ties and one factor for places of optima.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from noiseworthy_papers.points import Measurement

Word = Literal["agrees", "partly", "disagrees", "not testable here"]
SLACK = 0.05
"""Share of the gain over not training by which a setting may be behind the best and still ties with it."""
NEAR = 1.5
"""Factor within which an optimum, or a level, is where it is said to be."""
FEW = 4
"""Most cases of an outcome that are listed."""


class Case(NamedTuple):
    """One place where a claim can be looked at: 1 it holds, -1 it fails, 0 cannot be told; with numbers."""

    told: int
    shown: str


class Kind(Protocol):
    """What is claimed, as data."""

    def cases(self, points: Sequence[Measurement]) -> list[Case]:
        """Every place where it can be looked at."""
        ...


class Judgement(NamedTuple):
    """A verdict with the measured numbers it rests on."""

    word: Word
    evidence: str


@dataclass(frozen=True)
class Claim:
    """Something that is said, of what kind it is, and the reason to offer where we do not fully agree.

    Attributes:
        words: the claim.
        kinds: what is compared; cases of all of them count.
        reason: why we differ, printed where the verdict is `partly` or `disagrees`.
        ours: whether this product makes the claim, not the paper.
    """

    words: str
    kinds: tuple[Kind, ...]
    reason: str = ""
    ours: bool = False


@dataclass(frozen=True)
class Verdict:
    """A judged claim."""

    claim: str
    word: Word
    evidence: str
    reason: str
    ours: bool


def verdict(claim: Claim, points: Sequence[Measurement]) -> Verdict:
    """Judge a claim on what was measured."""
    word, evidence = judged([case for kind in claim.kinds for case in kind.cases(points)])
    reason = claim.reason if word in ("partly", "disagrees") else ""
    return Verdict(claim.words, word, evidence, reason, claim.ours)


def judged(cases: Sequence[Case]) -> Judgement:
    """The verdict on all cases.

    `agrees`: every case holds. Where at least half of the cases are told: `partly` if at least as many hold
    as fail, else `disagrees`. Otherwise, or without cases, the claim is `not testable here`.

    Example:
        >>> judged([Case(1, "a"), Case(0, "b")]).word, judged([Case(1, "a"), Case(0, "b"), Case(0, "c")]).word
        ('partly', 'not testable here')
    """
    held, failed = (sum(case.told == told for case in cases) for told in (1, -1))
    return Judgement(_word(held, failed, len(cases)), _evidence(cases))


def _word(held: int, failed: int, cases: int) -> Word:
    if not cases or 2 * (held + failed) < cases:
        return "not testable here"
    if held == cases:
        return "agrees"
    return "partly" if held >= failed else "disagrees"


def _evidence(cases: Sequence[Case]) -> str:
    """How many cases hold, fail and cannot be told, and a few of each."""
    if not cases:
        return "nothing that was measured speaks of it"
    parts = []
    for told, name in ((1, "holds"), (-1, "fails"), (0, "cannot be told")):
        shown = [case.shown for case in cases if case.told == told]
        if shown:
            count = f" in {len(shown)} of {len(cases)}" if len(cases) > 1 else ""
            shown = list(dict.fromkeys(shown))
            parts.append(f"{name}{count}: " + "; ".join(shown[:FEW] + ["…"] * (len(shown) > FEW)))
    return ". ".join(part[0].upper() + part[1:] for part in parts)
