"""Direct labels: texts beside what they name, moved apart where they would overlap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from noiseworthy._validate import Real
from noiseworthy.reports.style import ON_PAPER

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
