"""The page of a model that an owner tuned at home: three scores on its own held-out records."""

import math

import numpy as np
from matplotlib.figure import Figure

from noiseworthy._wording import count, number, percent
from noiseworthy.model.description import Description
from noiseworthy.reports.at_home import NAMES
from noiseworthy.reports.html import PAGES
from noiseworthy.reports.marks import name_rows
from noiseworthy.reports.scales import percent_axis
from noiseworthy.reports.style import INK, MUTED, NARROW, PLAN, RULE, head, new_figure, styled, svg

FILE = "tuned.html"
Scores = dict[str, float]
Ends = dict[str, tuple[float, float]]


def page_of(said: Description, records: int, tests: int, scores: Scores, limits: Ends, gains: Ends) -> str:
    """The page, which loads nothing over the network.

    Args:
        said: description of the tuned model.
        records: that were learnt from.
        tests: that were held out.
        scores: of each candidate, NaN where there are none.
        limits: of each score.
        gains: limits of the tuned model's gain over each other.
    """
    why = "Not every model has a score" if tests else "No records are held out"
    scored = all(math.isfinite(value) for value in scores.values())
    return PAGES.get_template("tuned.html.jinja").render(
        said=said,
        finding=finding(said, scores, gains) if scored else f"{why}: nothing is scored",
        learnt=count(records, "record"),
        tests=f"{count(tests, 'record')} {'was' if tests == 1 else 'were'}",
        rows=rows(said, scores, limits) if scored else [],
        drawing=svg(scores_figure(said, scores, limits), "tuned") if scored else "",
    )


def finding(said: Description, scores: Scores, gains: Ends) -> str:
    """The three scores in a sentence without its full stop; whether those of the same records differ."""
    told = ", ".join(f"{NAMES[name]} {unit(said)}{_written(said, value)}" for name, value in scores.items())
    others = " and ".join(NAMES[name] for name, (low, high) in gains.items() if low > 0 or high < 0)
    chance = f"beyond chance of {others}" if others else "these records do not tell them apart"
    return f"{told[0].upper()}{told[1:]}: {chance}"


def rows(said: Description, scores: Scores, limits: Ends) -> list[dict[str, str]]:
    """A row for each candidate."""
    return [
        {"model": NAMES[name], _name(said): _written(said, value), "95 % limits": _ends(said, limits[name])}
        for name, value in scores.items()
    ]


@styled
def scores_figure(said: Description, scores: Scores, limits: Ends) -> Figure:
    """A dot with its limits for each candidate."""
    figure = new_figure(NARROW, 1.9)
    axes = figure.subplots()
    name = _name(said)
    head(axes, f"{name[0].upper()}{name[1:]} on held-out records", "lines are limits at 95 %", "")
    for row, (name, value) in enumerate(scores.items()):
        colour = PLAN if name == "tuned" else INK
        axes.hlines(row, *limits[name], color=colour if name == "tuned" else MUTED, linewidth=2, alpha=0.5)
        axes.scatter([value], [row], 26, colour, zorder=3, linewidths=0)
    name_rows(axes, [NAMES[name] for name in scores], 0.5, 0.5)
    axes.tick_params("y", labelcolor=INK)
    axes.grid(visible=False)
    axes.grid(axis="x", color=RULE)
    if said.classes is not None:
        axes.set_xlim(0, 1.02)
        percent_axis(axes.xaxis)
    elif (least := min(scores.values())) < -1:
        axes.set_xlim(max(np.nanmax([*scores.values()]) - 2.5, least), 1.0)
    return figure


def unit(said: Description) -> str:
    """What is written before a score that does not say by itself what it is."""
    return "R² " if said.classes is None else ""


def _name(said: Description) -> str:
    return "R²" if said.classes is None else "accuracy"


def _written(said: Description, value: float) -> str:
    return percent(value) if said.classes is not None else number(value, 2 if value > -99.5 else 3)


def _ends(said: Description, ends: tuple[float, float]) -> str:
    if not all(map(math.isfinite, ends)):
        return "unknown"
    return f"{_written(said, ends[0])} to {_written(said, ends[1])}"
