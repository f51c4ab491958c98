"""The trade-off surface as a figure: what each privacy and resource budget buys, with the decision in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from noiseworthy.reports import style
from noiseworthy.reports import tradeoff_words as words
from noiseworthy.reports.style import MUTED, PAPER, PLAN, RAMP, WIDE, head, new_figure, styled
from noiseworthy.studies.typed_record import RunRecord
from noiseworthy.studies.typed_sweeps import TradeoffPart

_LINE, _AROUND = 0.15, 1.15
"""Inches of a line of text, and of everything around the cells."""
_FEW = 5
"""Columns up to which two equations stand side by side."""
_GAP, _FRAME = 4.0, 2.6
"""Points between cells, and of the frame that lies there."""
_SURFACE = LinearSegmentedColormap.from_list("noiseworthy", RAMP)


@styled
def tradeoff_figure(record: RunRecord) -> Figure | None:
    """What every pair of budgets reaches, as colour and number, with what is planned for it."""
    if (tradeoff := record.tradeoff) is None:
        return None
    rows = [words.tick(value, tradeoff.budget) for value in tradeoff.budget.values]
    title = f"Test{words.name_of(record, tradeoff).removeprefix('test')} and plan for every pair of budgets"
    return _cells(record, tradeoff, rows, title, words.budget_axis(tradeoff.budget))


@styled
def trusts_figure(record: RunRecord) -> Figure | None:
    """What each trust reaches at each privacy budget, drawn alike; None where it was not asked for."""
    if (tradeoff := record.tradeoff) is None or not tradeoff.trust:
        return None
    title = f"Test{words.name_of(record, tradeoff).removeprefix('test')} and plan by whom owners trust"
    return _cells(record, words.by_trust(tradeoff), words.trusts(tradeoff), title, "who is trusted")


def _cells(record: RunRecord, tradeoff: TradeoffPart, rows: list[str], title: str, up: str) -> Figure:
    """A cell for each pair, those of the first row below."""
    across = tradeoff.epsilon.values
    beside = 2 if len(across) <= _FEW else 1
    texts = [_in_lines(words.decision(record, cell), beside) for cell in tradeoff.cells]
    lines = 1 + max(1 + text.count("\n") for text in texts)
    figure = new_figure(WIDE, _AROUND + _LINE * (lines + 2) * len(rows))
    axes = figure.subplots()
    head(axes, title, up, words.epsilon_axis(record, tradeoff))
    _places(axes, [words.tick(value, tradeoff.epsilon) for value in across], rows)
    colours = levels(tradeoff)
    for i, cell in enumerate(tradeoff.cells):
        place = (i % len(across), i // len(across))
        axes.add_patch(_square(place, facecolor=colours[i] or PAPER, edgecolor=PAPER, linewidth=_GAP))
        _write(axes, place, words.reached(record, tradeoff, cell), texts[i], colours[i])
        if cell.own:
            axes.add_patch(_square(place, fill=False, edgecolor=PLAN, linewidth=_FRAME, gid="plan", zorder=3))
    return figure


def levels(tradeoff: TradeoffPart) -> list[str | None]:
    """The colour of each cell, darker where what is written in it is better; None without a mean."""
    means = [words.mean_of(tradeoff, cell) for cell in tradeoff.cells]
    values = np.array([np.nan if mean is None else float(f"{mean:.3g}") for mean in means])
    better = -values if words.quantity_of(tradeoff) == "loss" else values
    return [None if np.isnan(share) else to_hex(_SURFACE(float(share))) for share in _shares(better)]


def ink_on(colour: str) -> str:
    """Light or dark text, whichever stands out more from a colour.

    Example:
        >>> ink_on("#ffffff"), ink_on("#262c66")
        ('#010101', '#fefefe')
    """
    return max(style.ON_LIGHT, style.ON_DARK, key=lambda ink: contrast(ink, colour))


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, from 1 to 21.

    Source: Web Content Accessibility Guidelines 2.2, "contrast ratio".
    """
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    channels = np.array(to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def _shares(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values from the least, 0, to the greatest, 1; 0 where all are the same."""
    known = values[np.isfinite(values)]
    if known.size == 0:
        return values
    return (values - known.min()) / (np.ptp(known) or 1.0)


def _places(axes: Axes, across: list[str], rows: list[str]) -> None:
    """A place for every cell, with the words of columns and rows at the axes."""
    axes.set_xlim(-0.5, len(across) - 0.5)
    axes.set_ylim(-0.5, len(rows) - 0.5)
    axes.set_xticks(range(len(across)), across)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.spines["bottom"].set_visible(False)
    axes.grid(visible=False)


def _write(axes: Axes, place: tuple[int, int], reached: str, decided: str, colour: str | None) -> None:
    """What a cell reaches, with the decision below it, the two together in the middle."""
    ink = MUTED if colour is None else ink_on(colour)
    lift = 0.5 * 72 * _LINE * (1 + decided.count("\n")) if decided else 0
    weight = "normal" if colour is None else "bold"
    for text, height, size, bold in ((reached, lift, 9.5, weight), (decided, lift - 7, 8, "normal")):
        axes.annotate(
            text, place, (0, height), textcoords="offset points", ha="center", color=ink, fontsize=size,
            va="center" if text == reached else "top", fontweight=bold, linespacing=1.25,
        )  # fmt: skip


def _square(place: tuple[int, int], **look: Any) -> Rectangle:
    """The square of side 1 around a place."""
    return Rectangle((place[0] - 0.5, place[1] - 0.5), 1, 1, clip_on=False, **look)


def _in_lines(decision: str, beside: int) -> str:
    """The decision, one or two equations in a line."""
    equations = decision.split(", ")
    return "\n".join(", ".join(equations[i : i + beside]) for i in range(0, len(equations), beside))
