"""Direct labels and scales for curves of losses: no legend, no overlap, nothing off the picture unsaid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import ArrayLike, NDArray

from noiseworthy.reports.style import MARKERS, MUTED, PAPER, TONES
from noiseworthy.reports.wording import number


@dataclass(frozen=True)
class Ink:
    """Colour and marker of one number of clients per round."""

    colour: str
    marker: str


def inks(cohorts: Iterable[int]) -> dict[int, Ink]:
    """An ink for each b, light for few clients and dark for many.

    Example:
        >>> [ink.marker for ink in inks([10, 1]).values()]
        ['o', 's']
    """
    ordered = sorted(set(cohorts))
    tones = np.linspace(0, len(TONES) - 1, max(len(ordered), 2)).round().astype(int)
    return {
        b: Ink(TONES[tone], MARKERS[i % len(MARKERS)])
        for i, (b, tone) in enumerate(zip(ordered, tones, strict=False))
    }


def spread(positions: Sequence[float], gap: float) -> NDArray[np.float64]:
    """Positions moved apart, as little as needed, until neighbours are `gap` from each other.

    Example:
        >>> spread([1.0, 1.0, 5.0], 2.0)
        array([0., 2., 5.])
    """
    order = np.argsort(positions, kind="stable")
    groups: list[list[float]] = []  # of ordered positions, each group packed at `gap` about its mean
    for position in np.asarray(positions, float)[order]:
        groups.append([position])
        while len(groups) > 1 and _start(groups[-1], gap) - _end(groups[-2], gap) < gap:
            last = groups.pop()
            groups[-1] += last
    placed = np.empty(len(order))
    placed[order] = [_start(group, gap) + i * gap for group in groups for i in range(len(group))]
    return placed


def _start(group: list[float], gap: float) -> float:
    return float(np.mean(group)) - gap * (len(group) - 1) / 2


def _end(group: list[float], gap: float) -> float:
    return float(np.mean(group)) + gap * (len(group) - 1) / 2


Label = tuple[float, str, str]
"""Height in data, text and colour of a label at the right edge."""


def label_right(axes: Axes, labels: Sequence[Label], size: float) -> None:
    """Texts beside the right edge, each at its height where there is room; set the limits before."""
    if not labels:
        return
    heights = [axes.transAxes.inverted().transform(axes.transData.transform((1, y)))[1] for y, _, _ in labels]
    room = axes.figure.get_figure(root=True).get_figheight() * 72 * 0.72  # pyright: ignore[reportOptionalMemberAccess]
    placed = spread(heights, 1.45 * size / room)
    placed += min(0.0, 1 - placed.max()) - min(0.0, placed.min())
    for (_, text, colour), height in zip(labels, placed, strict=True):
        axes.annotate(
            text, (1, height), (size * 0.6, 0), "axes fraction", textcoords="offset points",
            va="center", color=colour, fontsize=size, annotation_clip=False,
        )  # fmt: skip


def loss_limits(axes: Axes, values: ArrayLike, reference: float) -> None:
    """Limits that show `values` up to somewhat above `reference` and leave room below for a label.

    A logarithmic axis where the least value is far below the reference.
    """
    shown = np.asarray(values, float)
    shown = shown[np.isfinite(shown)]
    low, high = min(shown.min(initial=reference), reference), 1.18 * reference
    if low > 0 and high / low > 20:
        axes.set_yscale("log")
        axes.set_ylim(low / (high / low) ** 0.15, high * 1.1)
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(max(0.0, low - 0.2 * (high - low)), high)


def round_axis(axes: Axes, least: float, most: float) -> None:
    """A logarithmic axis of rounds with ticks at 1, 2, 5, 10, ..."""
    axes.set_xscale("log")
    low, high = least / 1.25, max(most, 2 * least) * 1.25
    axes.set_xlim(low, high)
    steps = [s * 10.0**e for e in range(8) for s in ((1, 2, 5) if high / low < 3000 else (1,))]
    axes.xaxis.set_major_locator(FixedLocator([s for s in steps if low <= s <= high]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def points(axes: Axes, x: ArrayLike, y: ArrayLike, ink: Ink, size: float = 16.0) -> int:
    """Markers at (x, y); those above the picture become small arrows at its edge, and are counted."""
    x, y, top = np.asarray(x, float), np.asarray(y, float), axes.get_ylim()[1]
    inside = y <= top
    axes.scatter(
        x[inside], y[inside], size, PAPER, marker=ink.marker, edgecolors=ink.colour, linewidths=1.1, zorder=3
    )
    if not inside.all():
        at_edge = np.full((~inside).sum(), 0.985)
        axes.scatter(
            x[~inside], at_edge, size * 0.8, ink.colour, marker=6,  # 6: a caret that points up
            transform=axes.get_xaxis_transform(), linewidths=0, clip_on=False, zorder=3,
        )  # fmt: skip
    return int((~inside).sum())


def untrained_line(axes: Axes, level: float) -> Label:
    """A dashed line at the value without training, with the label it needs."""
    axes.axhline(level, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    return level, f"untrained {number(level)}", MUTED
