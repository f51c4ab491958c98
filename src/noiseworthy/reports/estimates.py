"""What noised losses told of each client, and how often it is asked for it: the estimation stage."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from noiseworthy._wording import count, finite, number, span, times
from noiseworthy.reports.clients import evenly_chosen
from noiseworthy.reports.marks import Ink, name_marks, points
from noiseworthy.reports.participation import areas, budget_ticks
from noiseworthy.reports.style import INK, MUTED, PLAN, RULE, TONES, WIDE, head, new_figure, styled
from noiseworthy.studies.typed_parts import Curve
from noiseworthy.studies.typed_record import EstimatedPart, RunRecord

_MARGIN = 0.06
"""Share of the height that stays free above and below what must be seen."""
_ROOM = 0.5
"""Share of the height of the estimates that reports may take above and below them."""


@styled
def estimates_figure(record: RunRecord) -> Figure | None:
    """Estimates and counts of a run's first seed; None where nothing was estimated."""
    return estimation_figure(record.estimation[0]) if record.estimation else None


@styled
def estimation_figure(told: EstimatedPart) -> Figure:
    """Two panels over clients by budget, then size: heterogeneity estimated, counts decided."""
    order = np.lexsort((np.array(told.sizes), np.array(told.epsilon)))
    ranks = evenly_chosen(len(order))
    figure = new_figure(WIDE, 5.8)
    above, below = figure.subplots(2, 1, sharex=True)
    _estimates(above, told, ranks, order[ranks])
    _counts(below, told, ranks, order[ranks])
    varied = "to" in span(told.epsilon)
    budget_ticks(below, np.sort(np.array(told.epsilon))[: None if varied else 0])
    return figure


def estimates_caption(record: RunRecord) -> str:
    """What the figure shows of a run."""
    text = in_words(record.estimation[0])
    seeds = len(record.estimation)
    return text if seeds == 1 else f"{text} Drawn is the first of {seeds} seeds."


def in_words(told: EstimatedPart) -> str:
    """Whether the reports tell clients apart, who never reported, and how often clients are asked."""
    silent = told.raw.count(None)
    never = f" {count(silent, 'client')} (×) never reported and took the mean." if silent else ""
    both = times(span(told.first)), times(span(told.releases))
    return f"{_finding(told)}{never} Each client is asked {both[0]} in stage 1, {both[1]} in stage 2."


def _finding(told: EstimatedPart) -> str:
    """What the reports tell beyond their noise."""
    if told.spread == 0:
        return "Reports differ by no more than their noise: clients are taken as alike."
    weights = told.spread**2 / (told.spread**2 + _reported(told.noise) ** 2)
    own = span((100 * weights).tolist(), lambda share: number(share, 2))
    return (
        f"Clients differ by about {number(told.spread)} beyond the noise of their reports; an estimate "
        f"takes {own} per cent of a client's own deviation, the less the noisier its reports."
    )


def _reported(values: Curve) -> NDArray[np.float64]:
    """Values of those clients that reported."""
    return np.array([value for value in values if value is not None], float)


# Drawing ----------------------------------------------------------------------------------------------


def _estimates(axes: Axes, told: EstimatedPart, ranks: NDArray[np.int64], clients: NDArray[np.int64]) -> None:
    """Gamma_n: estimates with the noise of their reports, the reports, the paper's estimate, the truth."""
    head(axes, "What was estimated", "", "")
    _limit(axes, told)
    value, noise = np.array(told.estimate)[clients], finite(told.noise, 0.0)[clients]
    low, high = axes.get_ylim()
    least, most = np.clip(value - noise, low, high), np.clip(value + noise, low, high)
    axes.vlines(ranks, least, most, color=RULE, linewidth=1.6, zorder=1, gid="noise")
    points(axes, ranks, np.array(told.as_printed)[clients], Ink(MUTED, "."), 5)
    seen = np.array([told.raw[n] is not None for n in clients])
    points(axes, ranks[seen], finite(told.raw)[clients][seen], Ink(TONES[1], "o"), 13)
    axes.scatter(ranks[seen], value[seen], 15, PLAN, linewidths=0, zorder=4, gid="estimate")
    axes.scatter(ranks[~seen], value[~seen], 22, PLAN, marker="x", linewidths=1.2, zorder=4, gid="silent")
    names = [("● Γ estimated", PLAN), ("┃ ± noise", MUTED)]
    names += [("○ own reports", TONES[1]), ("• as printed", MUTED)]
    if told.true:
        axes.plot(ranks, np.array(told.true)[clients], ":", color=INK, linewidth=1.1, zorder=3, gid="true")
        names.append(("┄ true", INK))
    name_marks(axes, names)


def _limit(axes: Axes, told: EstimatedPart) -> None:
    """Limits that show every estimate and, if it takes no more room than that, what most clients reported."""
    shown = np.concatenate([told.estimate, told.as_printed, told.true])
    low, high = float(np.min(shown)), float(np.max(shown))
    own = np.quantile(_reported(told.raw), [0.1, 0.9])
    room = _ROOM * (high - low or float(np.ptp(own)) or 1.0)
    least = max(min(low, float(own[0])), low - room)
    most = min(max(high, float(own[1])), high + room)
    margin = _MARGIN * max(most - least, room)
    axes.set_ylim(least - margin, most + margin)


def _counts(axes: Axes, told: EstimatedPart, ranks: NDArray[np.int64], clients: NDArray[np.int64]) -> None:
    """T_n of both stages, its area the records, and of stage 1 alone."""
    first, both = np.array(told.first)[clients], np.add(told.first, told.releases)[clients]
    some, n = len(ranks) < len(told.sizes), len(told.sizes)
    drawn = f" ({len(ranks):,} of them drawn)" if some else ""
    budget = span(told.epsilon)
    order = "in the order of their budget ε" if "to" in budget else f"of budget ε = {budget}"
    head(axes, "How often each client is asked", "", f"{n:,} clients {order}{drawn}")
    axes.vlines(ranks, 0, first, color=TONES[1], linewidth=1.6, zorder=2, gid="first")
    area = areas(np.array(told.sizes, float)[clients])
    axes.scatter(ranks, both, area, PLAN, linewidths=0, alpha=0.85, zorder=3, clip_on=False, gid="both")
    axes.set_xlim(-0.5 - 0.01 * n, n - 0.5 + 0.01 * n)
    axes.set_ylim(0, 1.1 * float(both.max()))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
    sizes = span(told.sizes)
    marks = f"area: records, {sizes}" if "to" in sizes else f"{sizes} records each"
    name_marks(axes, [(f"● both stages; {marks}", PLAN), ("┃ stage 1", TONES[1])])
