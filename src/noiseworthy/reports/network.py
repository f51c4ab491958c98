"""What a training over a network looked like: who answered when, what owners have spent and told of it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from rich import box
from rich.table import Table
from rich.text import Text

from noiseworthy._names import shown
from noiseworthy._wording import about, count, percent_up, rounded_up, shortened_apart
from noiseworthy.reports.clauses import Clause
from noiseworthy.reports.marks import name_rows
from noiseworthy.reports.style import MUTED, PLAN, TONES, WIDE, head, new_figure, styled
from noiseworthy.studies.flags import sentences
from noiseworthy.studies.typed_owners import RoundPart
from noiseworthy.studies.typed_record import RunRecord

if TYPE_CHECKING:
    from noiseworthy.deploy.owners import Standing

_OF_HELD_OUT = (
    " In the end {} told how good the model is on records held out, of each once, with noise that its whole "
    "epsilon pays for. No other release reads them, and what it cost is not part of what is told here."
)
_SHOWN = 20
"""Owners that are drawn; of more, those who answered least, and of scores those with the most records."""


@styled
def network_figure(record: RunRecord) -> Figure | None:
    """Answers of owners by round, above the seconds that rounds took; None for what was simulated."""
    if record.network is None or record.federation is None or not record.network.rounds:
        return None
    rounds = record.network.rounds
    owners = _drawn(rounds, record.federation.clients)
    figure = new_figure(WIDE, 1.9 + 0.24 * len(owners))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[0.24 * len(owners) + 0.3, 1.1])
    _answers(above, rounds, owners)
    _seconds(below, rounds)
    return figure


def _drawn(rounds: list[RoundPart], clients: list[str]) -> list[str]:
    """Owners from top to bottom, in the federation's order."""
    missed = {name: sum(bool(one.answers.get(name)) for one in rounds) for name in clients}
    kept = sorted(clients, key=lambda name: -missed[name])[:_SHOWN]
    return [name for name in clients if name in kept]


def _answers(axes: Axes, rounds: list[RoundPart], owners: list[str]) -> None:
    asked = [
        (one.number + 1, row, why)
        for one in rounds
        for row, name in enumerate(owners)
        if (why := one.answers.get(name)) is not None
    ]
    for came, marker, colour in ((True, "o", TONES[2]), (False, "x", MUTED)):
        places = [(t, row) for t, row, why in asked if came is not bool(why)]
        axes.scatter(*np.array(places or np.empty((0, 2))).T, s=16, marker=marker, color=colour, linewidths=1)
    head(axes, "Who answered", "a dot for an upload, a cross for none", "")
    name_rows(axes, shortened_apart(owners), 0.5, 0.5)


def _seconds(axes: Axes, rounds: list[RoundPart]) -> None:
    head(axes, "How long rounds took", "seconds", "round")
    axes.bar([one.number + 1 for one in rounds], [one.seconds for one in rounds], color=TONES[1])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(3))


def network_caption(record: RunRecord) -> str:
    """Uploads that arrived, those that did not with the commonest reason, and the seconds of a round.

    Empty for what was simulated.
    """
    if (network := record.network) is None:
        return ""
    whys = [why for one in network.rounds for why in one.answers.values()]
    missing = [why for why in whys if why]
    seconds = median(one.seconds for one in network.rounds)
    text = f"{len(whys) - len(missing):,} of {count(len(whys), 'upload')} that were asked for arrived"
    if missing:
        text += f"; of the others most had this reason: {max(set(missing), key=missing.count)}"
    late = f" {count(network.late, 'upload')} came too late to be used." if network.late else ""
    return f"{text}.{late} A round took {about(seconds)} seconds at the median."


@styled
def score_figure(record: RunRecord) -> Figure | None:
    """The told score of all, of both classes and of each owner, two deviations to either side."""
    if record.network is None or (told := record.network.score) is None:
        return None
    shown = sorted(told.owners, key=lambda one: -one.records)[:_SHOWN]
    names = shortened_apart([one.client for one in shown])
    rows = [(f"all {told.row}s", told.score, told.deviation, PLAN)]
    rows += [(f"of {one.label}", one.found, one.deviation, TONES[3]) for one in told.classes]
    rows += [(name, one.score, one.deviation, TONES[1]) for name, one in zip(names, shown, strict=True)]
    figure = new_figure(WIDE, 1.3 + 0.28 * len(rows))
    axes = figure.subplots()
    for row, (_, score, deviation, colour) in enumerate(rows):
        least, most = max(0.0, score - 2 * deviation), min(told.reach or 1.0, score + 2 * deviation)
        axes.plot([least, most], [row, row], color=colour, linewidth=2, alpha=0.5, clip_on=False)
        axes.plot([score], [row], "o", color=colour, markersize=5, clip_on=False)
    said = "mean error of predictions" if told.reach else "records that the model is right on"
    head(axes, "What owners told of the model", f"{said}; two standard deviations to either side", "")
    name_rows(axes, [name for name, *_ in rows], 0.5, 0.5)
    if not told.reach:
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter(PercentFormatter(1))
    return figure


def score_caption(record: RunRecord) -> str:
    """What the figure shows; empty where owners told nothing."""
    if record.network is None or (told := record.network.score) is None:
        return ""
    hidden = len(told.owners) - _SHOWN
    others = f" {count(hidden, 'owner')} with fewer {told.row}s not drawn." if hidden > 0 else ""
    return f"{sentences(told)[0]} Owners of loud noise count less; noise hides more of one alone.{others}"


def network_clauses(record: RunRecord) -> list[Clause]:
    """What owners told of their ledgers, after a training over a network."""
    if (network := record.network) is None:
        return []
    owners, ended = network.owners, network.ended
    told = tuple(
        f"{one.client}: {percent_up(one.spent)} of epsilon {rounded_up(one.epsilon, 6)} for "
        f"{one.data_set}, ledger head {one.head[: one.head.index(':') + 13]}"
        for one in owners[:_SHOWN]
    )
    drew = "and drew it without a seed" if record.plan.whom.owners_add else "which the server did"
    text = (
        f"Every owner paid for its releases from a ledger of its own, before their noise was drawn, {drew}. "
        f"{count(len(owners), 'owner')} told afterwards how much of their lifetime budgets is spent, by this "
        "and other trainings:"
    )
    if (score := network.score) is not None:
        text += _OF_HELD_OUT.format(count(len(score.owners), "owner"))
    early = [Clause("Why the training ended early", f"{ended[0].upper()}{ended[1:]}.")] if ended else []
    return [*early, Clause("What owners hold", text, told)]


def status_table(standings: Sequence[Standing]) -> Table:
    """Owners of a deployment: what runs on this machine, whose nodes are connected, and what is spent."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0, header_style="dim")
    table.add_column("owner")
    for column in ("gateway", "node", "records", "budget", "delta", "spent", "ledger"):
        table.add_column(column, justify="right", no_wrap=True)
    for one in standings:
        name = Text(shown(one.client), no_wrap=True, overflow="ellipsis")
        table.add_row(name, _runs(one.gateway), _node(one), *_told(one))
    return table


def _runs(running: bool | None) -> Text:
    if running is None:
        return Text("elsewhere")
    return Text("runs") if running else Text("down", "bold")


def _node(one: Standing) -> Text:
    """A process that runs is of no use until the superlink hears of it; on another machine that is all."""
    if one.node is False or one.connected is None:
        return _runs(one.node)
    return Text("connected" if one.connected else "not connected")


def _told(one: Standing) -> tuple[str, ...]:
    if (about := one.about) is None:
        return ("" if one.gateway is None else "no answer", *[""] * 4)
    budget = f"{about.mechanism} {rounded_up(about.epsilon)}"
    entries = f"{int(about.head.split(':')[0]):,} entries"
    return f"{about.records:,}", budget, rounded_up(about.delta), percent_up(about.spent), entries
