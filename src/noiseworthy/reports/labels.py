"""Direct labels: texts beside what they name, moved apart where they would overlap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

Label = tuple[float, str, str]
"""Height in data, text and colour."""


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


def label_right(axes: Axes, labels: Sequence[Label], size: float) -> None:
    """Texts beside the right edge, each at its height where there is room; set the limits before."""
    _annotate(axes, [1.0] * len(labels), "axes fraction", labels, size)


def label_inside(axes: Axes, across: Sequence[float], labels: Sequence[Label], size: float) -> None:
    """Texts to the right of points in the picture, at `across` in data; set the limits before."""
    _annotate(axes, across, "data", labels, size)


def _annotate(
    axes: Axes, across: Sequence[float], coordinates: str, labels: Sequence[Label], size: float
) -> None:
    if not labels:
        return
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = [float(to_axes.transform((1, y))[1]) for y, _, _ in labels]
    placed = spread(heights, 1.45 * size / (0.9 * _height_in_points(axes)))
    placed += min(0.0, 1 - placed.max()) - min(0.0, placed.min())
    for x, (_, text, colour), height in zip(across, labels, placed, strict=True):
        axes.annotate(
            text, (x, height), (size * 0.6, 0), (coordinates, "axes fraction"), textcoords="offset points",
            va="center", color=colour, fontsize=size, annotation_clip=False,
        )  # fmt: skip


def _height_in_points(axes: Axes) -> float:
    """Height of the axes before layout, which gives or takes a little."""
    figure = axes.get_figure(root=True)
    return 1.0 if figure is None else axes.get_position().height * figure.get_figheight() * 72
