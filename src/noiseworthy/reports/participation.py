"""Who is asked how often where clients are chosen: uploads against what decides them."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator
from numpy.typing import NDArray

from noiseworthy._wording import count, number, span, times
from noiseworthy.methods.dpfl_bcs.words import heterogeneity_of, sizes_of
from noiseworthy.methods.phrases import asked, clients_of
from noiseworthy.reports.clients import evenly_chosen
from noiseworthy.reports.labels import Label, label_right
from noiseworthy.reports.schedules import never_asked, uploads_of, words_of
from noiseworthy.reports.style import MUTED, PAPER, PLAN, RAMP, WIDE, head, new_figure, small, styled
from noiseworthy.studies.typed_record import RunRecord

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
