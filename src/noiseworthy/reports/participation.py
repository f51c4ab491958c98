"""Who is asked how often where clients are chosen, against what decides it, and what stage 1 told of each."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator
from numpy.typing import NDArray

from noiseworthy._wording import count, finite, number, span, times
from noiseworthy.methods.dpfl_bcs.words import heterogeneity_of, sizes_of
from noiseworthy.methods.phrases import asked, clients_of
from noiseworthy.reports.clients import evenly_chosen
from noiseworthy.reports.marks import Ink, Label, label_right, name_marks, points
from noiseworthy.reports.schedules import never_asked, uploads_of, words_of
from noiseworthy.reports.style import (
    INK,
    MUTED,
    PAPER,
    PLAN,
    RAMP,
    RULE,
    TONES,
    WIDE,
    head,
    new_figure,
    small,
    styled,
)
from noiseworthy.studies.typed_parts import Curve
from noiseworthy.studies.typed_record import EstimatedPart, RunRecord

_LARGEST, _SMALLEST = 190.0, 5.0
"""Areas of dots, in square points."""
_TICKS = 7
_TONES = LinearSegmentedColormap.from_list("heterogeneity", RAMP[2:])
"""From clients that are like the others to those that are not."""


@styled
def participation_figure(record: RunRecord) -> Figure | None:
    """Uploads T_n of clients in the order of their budgets; None where clients are not chosen."""
    if not has_participation(record):
        return None
    figure = new_figure(WIDE, 3.6)
    participation(figure.subplots(), record)
    return figure


def has_participation(record: RunRecord) -> bool:
    """Whether a plan chooses whom to ask by budgets."""
    plan = record.plan
    return bool(words_of(plan).chooses(plan.written) and plan.train and plan.privacy.private)


def participation(axes: Axes, record: RunRecord) -> None:
    """A dot per client, its area the records, its tone the heterogeneity; a cross if it is never asked."""
    epsilon = np.array([row.epsilon for row in record.plan.privacy.clients])
    varied = number(epsilon.min()) != number(epsilon.max())
    order = np.lexsort((np.array(sizes_of(record.written)), epsilon * varied))
    ranks = evenly_chosen(len(order))
    _head(axes, record, len(ranks))
    labels = _levels(axes, record)
    _marks(axes, record, ranks, order[ranks])
    budget_ticks(axes, epsilon[order] if varied else epsilon[:0])
    label_right(axes, labels, small())


def participation_caption(record: RunRecord) -> str:
    """What the figure of chosen clients shows."""
    plan = record.plan
    often, never = span(uploads_of(plan)), never_asked(plan)
    text = f"{count(plan.rounds, 'round')} with {asked(record.written)}, each asked {times(often)} by plan"
    if not never:
        return f"{text}."
    verb, if_alike = "is" if never == 1 else "are", ", if all prove alike" if plan.estimation else ""
    never_are = f"{count(never, 'client')} (×) {verb} never asked{if_alike}"
    return f"{text}. {never_are}: the replies of others serve better."


def _head(axes: Axes, record: RunRecord, drawn: int) -> None:
    """What height, area and tone are, and in which order clients stand."""
    n, sizes = clients_of(record.written), span(sizes_of(record.written))
    marks = f"area: records, {sizes}" if "to" in sizes else f"{sizes} records each"
    if unlike := heterogeneity_of(record.written):
        marks += f"; tone: heterogeneity Γ, {span(unlike)}"
    budgets = span(row.epsilon for row in record.plan.privacy.clients)
    if "to" in budgets:
        order = " in the order of their budget ε"
    else:
        order = (" in the order of their size" if "to" in sizes else "") + f"; ε = {budgets}"
    some = "" if drawn == n else f" ({drawn:,} of them drawn)"
    head(axes, "Who is asked how often", f"uploads of a client; {marks}", f"{n:,} clients{order}{some}")


def _marks(axes: Axes, record: RunRecord, ranks: NDArray[np.int64], clients: NDArray[np.int64]) -> None:
    """The marks of some clients, from left to right."""
    uploads, tones = np.array(uploads_of(record.plan))[clients], _tones(record)[clients]
    area = areas(np.array(sizes_of(record.written), float)[clients])
    some, none = uploads > 0, uploads == 0
    axes.scatter(
        ranks[some], uploads[some], area[some], tones[some], edgecolors=PAPER, linewidths=0.5, zorder=3,
        clip_on=False, gid="asked",
    )  # fmt: skip
    axes.scatter(
        ranks[none], uploads[none], 24, tones[none], marker="x", linewidths=1.3, zorder=4, clip_on=False,
        gid="never",
    )  # fmt: skip


def _levels(axes: Axes, record: RunRecord) -> list[Label]:
    """Limits, with lines at what asking all alike would ask of each, and at every round."""
    uploads = np.array(uploads_of(record.plan), float)
    n, rounds, alike = len(uploads), record.plan.rounds, float(uploads.mean())
    top = float(rounds if 1.35 * uploads.max() >= rounds else 1.08 * uploads.max())
    axes.set_ylim(-0.04 * top, 1.04 * top)
    axes.set_xlim(-0.5 - 0.01 * n, n - 0.5 + 0.01 * n)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
    labels = [(alike, f"all alike: {number(alike)}", MUTED)]
    if top == rounds > alike:
        labels.append((top, "every round", MUTED))
    for height, _, colour in labels:
        axes.axhline(height, color=colour, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    return labels


def areas(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Areas of dots in proportion to records, smaller where they are many."""
    largest = _LARGEST * min(1.0, (60 / len(sizes)) ** 0.5)
    return np.maximum(largest * sizes / sizes.max(), _SMALLEST)


def _tones(record: RunRecord) -> NDArray[np.float64]:
    """Colours of clients, shape (N, 4): the plan's, or by stated heterogeneity."""
    if not (unlike := heterogeneity_of(record.written)):
        return np.tile(to_rgba(PLAN), (clients_of(record.written), 1))
    return _TONES(np.array(unlike) / max(unlike))


def budget_ticks(axes: Axes, epsilon: NDArray[np.float64]) -> None:
    """Budgets of some clients, evenly chosen."""
    some = np.linspace(0, len(epsilon) - 1, min(_TICKS, len(epsilon))).round().astype(int)
    places = np.unique(some).tolist()
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_major_formatter(FixedFormatter([number(epsilon[place].item(), 2) for place in places]))


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
