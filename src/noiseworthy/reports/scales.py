"""Axes of losses, scores and rounds that show what matters and no more."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import ArrayLike

from noiseworthy.reports.findings import Record, score_name
from noiseworthy.reports.wording import number


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
        _plain_ticks(axes.yaxis, *axes.get_ylim())
    else:
        axes.set_ylim(max(0.0, low - 0.2 * (high - low)), high)


def score_limits(axes: Axes, record: Record, values: ArrayLike) -> None:
    """Accuracy in percent from 0 to 100; R² from a little below the least."""
    if score_name(record) != "R²":
        axes.set_ylim(0, 1.0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
        return
    least = np.nanmin(np.append(np.asarray(values, float), 0.5))
    axes.set_ylim(max(-1.0, least - 0.05), 1.0)


def round_axis(axes: Axes, least: float, most: float) -> None:
    """A logarithmic axis of rounds with ticks at 1, 2, 5, 10, ..."""
    axes.set_xscale("log")
    low, high = least / 1.25, max(most, 2 * least) * 1.25
    axes.set_xlim(low, high)
    _plain_ticks(axes.xaxis, low, high)


def _plain_ticks(axis: Axis, low: float, high: float) -> None:
    """Ticks of a logarithmic axis at 1, 2, 5, 10, ... or, over a wide range, at powers of ten alone."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [s * 10.0**e for e in powers for s in ((1, 2, 5) if high / low < 3000 else (1,))]
    axis.set_major_locator(FixedLocator([s for s in steps if low <= s <= high]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
