"""What other budgets, more clients or more uploads would bring, in words."""

from __future__ import annotations

from noiseworthy._wording import number
from noiseworthy.reports.findings import Record, score, score_name


def what_if_caption(record: Record) -> str:
    """What the figure shows, how well the bound behind it fits, and the price of the next point."""
    found = record["what_if"]
    return (
        "Rings are the study as it is, dots trials on public data; lines are the theory fitted to them, "
        f"dashed beyond what was tried. The theory {found['fit']}. {price_of_next_point(record)}"
    )


def price_of_next_point(record: Record) -> str:
    """The epsilon that one more point of accuracy needs, in a sentence.

    Example:
        >>> curve = {"own": 2.0, "accuracy": [0.8]}
        >>> found = {"curves": {"epsilon": curve}, "prices": [[0.81, 2.5], [0.82, 3.1]]}
        >>> price_of_next_point({"what_if": found, "federation": {"classes": 2}})
        'The next point of accuracy, 81\\xa0%, needs epsilon 2.5 instead of 2.'
    """
    found = record["what_if"]
    name = "R²" if score_name(record) == "R²" else "accuracy"
    if not found["prices"]:
        return f"No epsilon in sight buys another point of {name}."
    accuracy, epsilon = found["prices"][0]
    own = found["curves"]["epsilon"]["own"]
    wanted = score(record, accuracy)
    return (
        f"The next point of {name}, {wanted}, needs epsilon {number(epsilon, 3)} instead of {number(own, 3)}."
    )
