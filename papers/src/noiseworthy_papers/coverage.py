"""How much of a paper is measured: every table and figure in full, in miniature, or not, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Literal, NamedTuple

from noiseworthy_papers.spec import Paper, Reproduction

FULL, MINIATURE, MISSING = "in full", "in miniature", "not measured"
Status = Literal["in full", "in miniature", "not measured"]
STATUSES: tuple[Status, ...] = ("in full", "in miniature", "not measured")
_SCALED = re.compile(r"(Scaled: .*?|A miniature: .*?|[^.]*a SUBSET: .*?)\.(?= |$)")


class Covered(NamedTuple):
    """An item of a paper, or of ours beside it: how far it was measured, and why no further."""

    paper: str
    item: str
    ours: bool
    status: Status
    why: str


def coverage(paper: Paper, results: Sequence[Reproduction]) -> list[Covered]:
    """Every item of a paper by what its results say of themselves.

    A result is in miniature if its scale is below 1, if its notes name something scaled, or if the paper's
    data say that it trains less than the paper did. Without a result an item is not measured.
    """
    found = {result.item: result for result in results}
    return [_covered(paper, item, found.get(item)) for item in paper.items]


def summed(items: Sequence[Covered]) -> str:
    """How many of the paper's own tables and figures have which status, in words.

    Example:
        >>> summed([Covered("zhou", "table-1", False, "in full", "")])
        '1 of 1 tables and figures of the paper in full, 0 in miniature, 0 not'
    """
    counts = counted(items)
    total, (full, small, missing) = sum(counts.values()), (counts[status] for status in STATUSES)
    return f"{full} of {total} tables and figures of the paper in full, {small} in miniature, {missing} not"


def counted(items: Sequence[Covered]) -> Counter[Status]:
    """Number of the papers' own items by status."""
    return Counter(one.status for one in items if not one.ours)


def _covered(paper: Paper, item: str, result: Reproduction | None) -> Covered:
    ours = item in paper.ours
    if result is None:
        why = next((why for pattern, why in paper.missing if fnmatch(item, pattern)), "not run yet")
        return Covered(paper.name, item, ours, "not measured", why)
    smaller = _smaller(paper, item, result)
    return Covered(paper.name, item, ours, "in miniature" if smaller else "in full", "; ".join(smaller))


def _smaller(paper: Paper, item: str, result: Reproduction) -> list[str]:
    """In what a result is less than what the paper did."""
    said = [why for pattern, why in paper.simpler if fnmatch(item, pattern)]
    if not (result.points or result.statistics):
        return said
    if result.repeats and result.seeds < result.repeats:
        said.append(f"{result.seeds} of {result.repeats} repeats")
    said += [part.strip() for note in result.notes for part in _SCALED.findall(note)]
    return said if said or result.scale == 1 else [f"scale {result.scale:g}"]
