"""What other budgets, more clients or more uploads would bring, in words."""

from __future__ import annotations

from collections.abc import Sequence

from noiseworthy._wording import number
from noiseworthy.reports.findings import metric_name, metric_score
from noiseworthy.studies.typed_evidence import TrustOutcomePart, WhatIfPart
from noiseworthy.studies.typed_record import RunRecord


def what_if_caption(record: RunRecord) -> str:
    """What the figure shows, how well its bound fits, and the price of the next point; empty without it."""
    if (found := record.what_if) is None:
        return ""
    return (
        "Rings are the study as it is, dots trials on public data; lines are the theory fitted to them, "
        f"dashed beyond what was tried. The theory {found.fit}. {price_of_next_point(record, found)}"
        + f" {what_trust_buys(record, found)}".rstrip()
    )


def what_trust_buys(record: RunRecord, found: WhatIfPart) -> str:
    """What the same records would reach with other trust, in a sentence; empty where there is no choice."""
    reached = [(one, metric_score(record, one.accuracy)) for one in found.trust]
    if len(reached) < 2:
        return ""
    return f"By trust, on public data, each with its best counts: {listed_trusts(reached)}."


def listed_trusts(reached: Sequence[tuple[TrustOutcomePart, str]]) -> str:
    """Words of a study with what they reach, the study's own and those beyond trials marked.

    Example:
        >>> keys = {"colluders": 0, "dropouts": 0, "loss": 0.5, "accuracy": 0.5, "rounds": 3}
        >>> local = TrustOutcomePart(model="local", inside=True, own=True, **keys)
        >>> summed = TrustOutcomePart(model="secure-sum", inside=False, own=False, **keys)
        >>> listed_trusts([(local, "45 %"), (summed, "81 %")])
        'local 45 % (this study), secure-sum 81 % (beyond what was tried)'
    """
    return ", ".join(f"{one.model} {says}{_marked(one)}" for one, says in reached)


def _marked(one: TrustOutcomePart) -> str:
    if one.own:
        return " (this study)"
    return "" if one.inside else " (beyond what was tried)"


def price_of_next_point(record: RunRecord, found: WhatIfPart) -> str:
    """The epsilon that one more point of accuracy, or of the study's metric, needs, in a sentence."""
    name = metric_name(record)
    if not found.prices:
        return f"No epsilon in sight buys another point of {name}."
    (accuracy, epsilon), own = found.prices[0], found.curves["epsilon"].own
    needed = f"epsilon {number(epsilon, 3)} instead of {number(own, 3)}"
    return f"The next point of {name}, {metric_score(record, accuracy)}, needs {needed}."
