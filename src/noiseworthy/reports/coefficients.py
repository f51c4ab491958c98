"""Coefficients of a regression with standard errors that count the noise, in the terminal and on the page."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.text import Text

from noiseworthy._wording import number, shortened_apart
from noiseworthy.reports.tables import of_rows
from noiseworthy.studies.typed_record import CoefficientsPart, RunRecord

_SHOWN, _WIDEST = 30, 28
"""Rows and letters of a name in the terminal."""


def rows_of(record: RunRecord) -> list[dict[str, str]]:
    """A row for each coefficient; empty where none were estimated."""
    if (told := record.coefficients) is None:
        return []
    interval = f"{number(100 * told.confidence)} % interval"
    return [
        {
            "feature": one.feature,
            "coefficient": number(one.coefficient),
            "standard error": number(one.error),
            "of the noise": number(one.error_of_noise),
            interval: f"{number(one.least)} to {number(one.most)}",
        }
        for one in told.rows
    ]


def note_of(told: CoefficientsPart) -> str:
    """What the coefficients are, or why there are none."""
    if told.why_not:
        return f"No standard errors: {told.why_not}."
    left = "How much it leaves of a label is hidden by the noise"
    if told.residual:
        left = f"It leaves {number(told.residual)} of a label (deviation)"
    scaled = (
        "Norm or clip may scale records that the columns allow, which biases coefficients beyond intervals: "
        "state a larger [task] feature_norm or [privacy] clip_norm, or a smaller [algorithm] label_weight"
        if told.may_scale
        else "Neither norm nor clip scales a record"
    )
    return (
        "Least squares without the model's ridge, from the noised moments of the first seed; errors count "
        "the noise and the records as a sample. Numbers are per unit of their column, dates per day after "
        "their first, ordered values per step, yes beside no, values of a category beside its first, with "
        "which all counts that is none of them; transformed columns, and records that all are scaled, as the "
        f"model sees them. {scaled}. {left}."
    )


def coefficients_table(record: RunRecord) -> RenderableType | None:
    """The coefficients of a regression by one upload; None of other runs."""
    if (told := record.coefficients) is None:
        return None
    note = Text(note_of(told), style="dim")
    if not (rows := rows_of(record)):
        return Group(Rule(style="dim"), note)
    names = shortened_apart([row["feature"] for row in rows], _WIDEST)
    shown = [{**row, "feature": name} for row, name in zip(rows[:_SHOWN], names, strict=False)]
    rest = Text(f"and {len(rows) - _SHOWN:,} more; all are in the report" * (len(rows) > _SHOWN), style="dim")
    return Group(Rule(style="dim"), Text("Coefficients", style="bold"), note, of_rows("", shown), rest)
