"""What other budgets, more clients or more uploads would bring, in words."""

from __future__ import annotations

from noiseworthy._wording import number
from noiseworthy.reports.findings import metric_name, metric_score
from noiseworthy.studies.typed_evidence import WhatIfPart
from noiseworthy.studies.typed_record import RunRecord


def what_if_caption(record: RunRecord) -> str:
    """What the figure shows, how well its bound fits, and the price of the next point; empty without it."""
    if (found := record.what_if) is None:
        return ""
    return (
        "Rings are the study as it is, dots trials on public data; lines are the theory fitted to them, "
        f"dashed beyond what was tried. The theory {found.fit}. {price_of_next_point(record, found)}"
    )


def price_of_next_point(record: RunRecord, found: WhatIfPart) -> str:
    """The epsilon that one more point of accuracy, or of the study's metric, needs, in a sentence."""
    name = metric_name(record)
    if not found.prices:
        return f"No epsilon in sight buys another point of {name}."
    accuracy, epsilon = found.prices[0]
    own = found.curves["epsilon"].own
    wanted = metric_score(record, accuracy)
    return (
        f"The next point of {name}, {wanted}, needs epsilon {number(epsilon, 3)} instead of {number(own, 3)}."
    )
