"""Marks that mean the same in every figure, and labels beside what they name, moved apart."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.markers import CARETDOWN, CARETUP, MarkerStyle
from numpy.typing import ArrayLike

from noiseworthy._validate import Real
from noiseworthy._wording import level
from noiseworthy.reports.style import MARKERS, MUTED, ON_PAPER, PAPER, PLAN, TONES, drawable

Label = tuple[float, str, str]
"""Height in data, text and colour."""


def spread(positions: Sequence[float], gap: float, low: float = -np.inf, high: float = np.inf) -> Real:
    """Positions moved apart, as little as needed, until neighbours are `gap` from each other.

    Less the gaps below them they are to be in order and between the ends, which is isotonic regression: of
    few labels by its max-min formula, because solvers are slow to load.

    Example:
        >>> spread([1.0, 1.0, 5.0], 2.0), spread([1.0, 1.0, 0.5], 0.1, 0.0, 1.0)
        (array([0., 2., 5.]), array([0.9, 1. , 0.5]))
    """
    order = np.argsort(positions, kind="stable")
    below = gap * np.arange(len(order))
    free, n = np.asarray(positions, float)[order] - below, len(order)
    means = [[free[i:j].mean() for j in range(i + 1, n + 1)] for i in range(n)]
    apart = [max(min(means[i][k - i :]) for i in range(k + 1)) for k in range(n)]
    placed = np.empty(len(order))
    placed[order] = np.clip(apart, low, high - gap * (len(order) - 1)) + below
    return placed


def label_right(axes: Axes, labels: Sequence[Label], size: float) -> None:
    """Texts beside the right edge, each at its height where there is room; set the limits before."""
    _annotate(axes, [1.0] * len(labels), "axes fraction", labels, size)


def label_inside(axes: Axes, across: Sequence[float], labels: Sequence[Label], size: float) -> None:
    """Texts to the right of points in the picture, at `across` in data; set the limits before."""
    _annotate(axes, across, "data", labels, size)


def label_top(axes: Axes, labels: Sequence[tuple[float, Label]], size: float) -> list[Label]:
    """Texts below the top edge at shares of its width, each to the right of what leaves through it there.

    Where they would run into each other none is drawn, and all are returned for the right edge.
    """
    ordered = sorted(labels, key=lambda placed: placed[0])
    ends = [share + 0.65 * size * len(text) / _in_points(axes)[0] for share, (_, text, _) in ordered]
    if any(end > share for end, (share, _) in zip(ends, ordered[1:], strict=False)):
        return [label for _, label in reversed(ordered)]
    for share, (_, text, colour) in ordered:
        axes.annotate(
            text, (share, 1), (4, -5), "axes fraction", textcoords="offset points", va="top", color=colour,
            fontsize=size, annotation_clip=False, bbox=ON_PAPER, parse_math=False,
        )  # fmt: skip
    return []


def _annotate(axes: Axes, across: Sequence[float], units: str, labels: Sequence[Label], size: float) -> None:
    if not labels:
        return
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = [float(to_axes.transform((1, y))[1]) for y, _, _ in labels]
    placed = spread(heights, 1.45 * size / (0.9 * _in_points(axes)[1]), 0.0, 1.0)
    for x, (_, text, colour), height in zip(across, labels, placed, strict=True):
        axes.annotate(
            text, (x, height), (size * 0.6, 0), (units, "axes fraction"), textcoords="offset points",
            va="center", color=colour, fontsize=size, annotation_clip=False, bbox=ON_PAPER, parse_math=False,
        )  # fmt: skip


def _in_points(axes: Axes) -> tuple[float, float]:
    """Width and height of the axes before layout, which gives or takes a little."""
    figure, place = axes.get_figure(root=True), axes.get_position()
    wide, high = (1 / 72, 1 / 72) if figure is None else figure.get_size_inches()
    return place.width * wide * 72, place.height * high * 72


@dataclass(frozen=True)
class Ink:
    """Colour and marker of one series."""

    colour: str
    marker: str


Name = TypeVar("Name", bound=Hashable)


def inks(ordered: Sequence[Name]) -> dict[Name, Ink]:
    """An ink for each series, from light to dark in their order.

    Example:
        >>> [ink.marker for ink in inks(["b = 1", "b = 10"]).values()]
        ['o', 's']
    """
    tones = np.linspace(0, len(TONES) - 1, max(len(ordered), 2)).round().astype(int)
    pairs = enumerate(zip(ordered, tones, strict=False))
    return {name: Ink(TONES[tone], MARKERS[i % len(MARKERS)]) for i, (name, tone) in pairs}


def points(axes: Axes, x: ArrayLike, y: ArrayLike, ink: Ink, size: float = 16.0) -> None:
    """Markers at (x, y); those above or below the picture become small arrows at its edges."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    low, high = axes.get_ylim()
    inside = (low <= y) & (y <= high)
    axes.scatter(
        x[inside], y[inside], size, PAPER, marker=ink.marker, edgecolors=ink.colour, linewidths=1.1,
        zorder=3, clip_on=False,
    )  # fmt: skip
    for outside, edge, caret in ((y > high, 1.0, CARETUP), (y < low, 0.0, CARETDOWN)):
        if outside.any():
            axes.scatter(
                x[outside], np.full(outside.sum(), edge), size * 0.8, ink.colour, marker=MarkerStyle(caret),
                transform=axes.get_xaxis_transform(), linewidths=0, zorder=3, clip_on=False,
            )  # fmt: skip


def untrained_line(axes: Axes, value: float, *, name: str = "untrained", is_plan: bool = False) -> Label:
    """A dashed line at the value without training, which may be the plan; returns the label it needs."""
    colour = PLAN if is_plan else MUTED
    axes.axhline(value, color=colour, linewidth=1.8 if is_plan else 0.9, linestyle=(0, (4, 3)), zorder=1)
    return value, f"{'plan: ' if is_plan else ''}{name} {level(value)}", colour


def plan_ring(axes: Axes, x: float, y: float, text: str) -> None:
    """The plan on a curve: a ring, with its label at the axis."""
    axes.plot(
        [x], [y], "o", color=PLAN, markersize=11, markerfacecolor="none", markeredgewidth=2, zorder=5,
        gid="plan", clip_on=False,
    )  # fmt: skip
    plan_label(axes, x, y, y, text)


def plan_diamond(axes: Axes, x: float, y: float, least: float, most: float, text: str) -> None:
    """The plan as measured: a diamond with a bar from least to most, and its label at the axis."""
    most = min(most, axes.get_ylim()[1])
    axes.vlines([x], least, most, color=PLAN, linewidth=2, zorder=4)
    axes.plot([x], [y], "D", color=PLAN, markersize=8, markeredgecolor=PAPER, zorder=5, gid="plan")
    plan_label(axes, x, least, most, text)


def plan_label(axes: Axes, x: float, least: float, most: float, text: str) -> None:
    """A text at the foot of a line from a mark to the axis; above the mark where that is too near."""
    to_axes = axes.transData + axes.transAxes.inverted()
    (across, foot), (_, head) = to_axes.transform([(x, least), (x, most)])
    side, height = -1 if across > 0.5 else 1, 0.0 if foot > _LOW else max(head, 0.0) + 0.04
    axes.vlines([x], axes.get_ylim()[0], least, color=PLAN, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
    axes.annotate(
        text, (x, height), (5 * side, 5), ("data", "axes fraction"), textcoords="offset points",
        ha="right" if side < 0 else "left", va="bottom", color=PLAN, fontweight="bold", zorder=6,
        bbox=ON_PAPER,
    )  # fmt: skip


_LOW = 0.12
"""Share of the height below which a mark leaves no room for a label under it."""


def name_rows(axes: Axes, names: Sequence[str], above: float = 0.6, below: float = 0.4) -> None:
    """Names of rows from top to bottom, with so much of a row above the first and below the last."""
    axes.set_yticks(range(len(names)), [*map(drawable, names)], parse_math=False)
    axes.set_ylim(len(names) - below, -above)


def beside(axes: Axes, row: int, said: str, colour: str, apart: float = 6.0, **look: Any) -> None:
    """A text at the right end of a row."""
    axes.annotate(
        said, (1, row), (apart, 0), ("axes fraction", "data"), textcoords="offset points", va="center",
        color=colour, annotation_clip=False, **look,
    )  # fmt: skip


def name_marks(axes: Axes, names: list[tuple[str, str]]) -> None:
    """What marks are, in their colours, one after the other below the title."""
    size = matplotlib.rcParams["font.size"]
    text, colour = names[0]
    last = axes.annotate(text, (0, 1), (0, size * 0.75), "axes fraction", "offset points", color=colour)
    for text, colour in names[1:]:
        last = axes.annotate(f"   {text}", (1, 0), (0, 0), last, "offset points", color=colour, va="bottom")
