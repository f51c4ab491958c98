"""Marks that mean the same in every figure: settings (T, b), the untrained level, and the plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from noiseworthy.reports.labels import Label
from noiseworthy.reports.style import MARKERS, MUTED, PAPER, PLAN, TONES
from noiseworthy.reports.wording import level


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


def points(axes: Axes, x: ArrayLike, y: ArrayLike, ink: Ink, size: float = 16.0) -> None:
    """Markers at (x, y); those above the picture become small arrows at its edge."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    inside = y <= axes.get_ylim()[1]
    axes.scatter(
        x[inside], y[inside], size, PAPER, marker=ink.marker, edgecolors=ink.colour, linewidths=1.1,
        zorder=3, clip_on=False,
    )  # fmt: skip
    if not inside.all():
        axes.scatter(
            x[~inside], np.ones((~inside).sum()), size * 0.8, ink.colour, marker=6,  # a caret that points up
            transform=axes.get_xaxis_transform(), linewidths=0, zorder=3, clip_on=False,
        )  # fmt: skip


def untrained_line(axes: Axes, value: float, *, is_plan: bool = False) -> Label:
    """A dashed line at the value without training, which may be the plan; returns the label it needs."""
    colour = PLAN if is_plan else MUTED
    axes.axhline(value, color=colour, linewidth=1.8 if is_plan else 0.9, linestyle=(0, (4, 3)), zorder=1)
    return value, f"{'plan: ' if is_plan else ''}untrained {level(value)}", colour


def plan_ring(axes: Axes, x: float, y: float, text: str) -> None:
    """The plan on a curve: a ring, with its label at the axis."""
    axes.plot(
        [x], [y], "o", color=PLAN, markersize=11, markerfacecolor="none", markeredgewidth=2, zorder=5,
        gid="plan",
    )  # fmt: skip
    plan_label(axes, x, y, text)


def plan_diamond(axes: Axes, x: float, y: float, least: float, most: float, text: str) -> None:
    """The plan as measured: a diamond with a bar from least to most, and its label at the axis."""
    axes.vlines([x], least, min(most, axes.get_ylim()[1]), color=PLAN, linewidth=2, zorder=4)
    axes.plot([x], [y], "D", color=PLAN, markersize=8, markeredgecolor=PAPER, zorder=5, gid="plan")
    plan_label(axes, x, y, text)


def plan_label(axes: Axes, x: float, y: float, text: str) -> None:
    """A text at the foot of a line from (x, y) to the axis, on the side where there is room."""
    left = axes.transAxes.inverted().transform(axes.transData.transform((x, 1)))[0] > 0.5
    axes.vlines([x], axes.get_ylim()[0], y, color=PLAN, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
    axes.annotate(
        text, (x, 0), (-5 if left else 5, 5), ("data", "axes fraction"), textcoords="offset points",
        ha="right" if left else "left", va="bottom", color=PLAN, fontweight="bold", zorder=6,
    )  # fmt: skip
