"""Axes of losses, scores and settings that show what matters and no more."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from noiseworthy._wording import number
from noiseworthy.reports.findings import score_name
from noiseworthy.studies.typed_record import RunRecord

_PLAIN = FuncFormatter(lambda value, _: f"{value:,.0f}" if 1000 <= value < 1e9 else number(value, 6))
"""Numbers at axes as they are in texts."""


def loss_limits(axes: Axes, values: ArrayLike, reference: float) -> None:
    """Limits that show `values` up to somewhat above `reference` and leave room below for a label.

    A logarithmic axis where the least value is far below the reference, down to twelve powers of ten.
    """
    shown = np.asarray(values, float)
    shown = shown[np.isfinite(shown)]
    reference = reference if math.isfinite(reference) else shown.max(initial=1.0)
    low, high = min(shown.min(initial=reference), reference), 1.18 * reference
    low = max(low, 1e-12 * high) if low > 0 else low
    if low > 0 and high / low > 20:
        axes.set_yscale("log")
        axes.set_ylim(low / (high / low) ** 0.15, high * 1.1)
        _plain_ticks(axes.yaxis, *axes.get_ylim())
    else:
        axes.set_ylim(max(0.0, low - 0.2 * (high - low)), high)
        if high >= 1000:
            axes.yaxis.set_major_formatter(_PLAIN)


def score_limits(axes: Axes, record: RunRecord, values: ArrayLike) -> None:
    """Accuracy in percent from 0 to 100; R² from about the least, at most 2, or thrice, below the best."""
    if score_name(record) != "R²":
        axes.set_ylim(0, 1.0)
        percent_axis(axes.yaxis)
        return
    known = np.asarray(values, float)
    least, best = np.nanmin(np.append(known, 0.5)), np.nanmax(np.append(known, -np.inf))
    axes.set_ylim(max(least, min(-1.0, best - 2.0, 3 * best)) - 0.05, 1.0)


def percent_axis(axis: Axis) -> None:
    """Shares in percent."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))


def setting_axis(axes: Axes, least: float, most: float) -> None:
    """A logarithmic axis of settings with ticks at 1, 2, 5, 10, ...; a linear one from 0."""
    if least <= 0:
        axes.set_xlim(0, 1.02 * max(most, 1))
        axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10], integer=True))
        axes.xaxis.set_major_formatter(_PLAIN)
        return
    axes.set_xscale("log")
    low, high = least / 1.25, max(most, 2 * least) * 1.25
    axes.set_xlim(low, high)
    _plain_ticks(axes.xaxis, low if least < 1 else max(low, 1), high)


def free_limits(axes: Axes, low: float, high: float, *, free: float, ticks: int) -> None:
    """Limits from one value to another with a share of the width free on both sides, and round ticks."""
    room = free * (high - low or 1.0)
    axes.set_xlim(low - room, high + room)
    axes.xaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))


def amount_axis(axis: Axis, amounts: ArrayLike, *, whole: bool = False) -> None:
    """Amounts from 0: beyond the least of them logarithmic where the largest is a hundred times as much."""
    shown = np.asarray(amounts, float)
    most, least = shown.max(), shown[shown > 0].min(initial=np.inf)
    direction = "y" if axis is axis.axes.yaxis else "x"
    if most < 100 * least:
        axis.axes.set(**{f"{direction}lim": (0, 1.06 * most)})
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=whole))
    else:
        least = max(least, 1e-6 * most)
        getattr(axis.axes, f"set_{direction}scale")("symlog", linthresh=least, linscale=0.3)
        axis.axes.set(**{f"{direction}lim": (0, 1.3 * most)})
        powers = np.arange(math.floor(math.log10(least)), math.ceil(math.log10(most)))
        ticks = np.outer(10.0 ** powers[:: 1 + len(powers) // 5], (1, 3) if len(powers) < 4 else (1,))
        axis.set_major_locator(FixedLocator([0.0, *ticks[ticks >= least]]))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(_PLAIN)
    if most >= 10_000:
        axis.set_major_formatter(EngFormatter(sep=""))


def _plain_ticks(axis: Axis, low: float, high: float) -> None:
    axis.set_major_locator(FixedLocator(_round_numbers(low, high)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(_PLAIN)


def _round_numbers(low: float, high: float) -> list[float]:
    """Round numbers for a logarithmic axis: over a wide range eight powers of ten.

    Example:
        >>> _round_numbers(1, 3.75), _round_numbers(8, 80), _round_numbers(1, 1e16)[:3]
        ([1.0, 2.0, 3.0], [10.0, 20.0, 50.0], [1.0, 1000.0, 1000000.0])
    """
    first, last, ratio = math.floor(math.log10(low)), math.ceil(math.log10(high)), high / low
    digits = range(1, 10) if ratio < 8 else (1, 2, 5) if ratio < 3000 else (1,)
    stride = 1 if ratio < 3000 else 1 + (last - first) // 8
    numbers = [float(f"{digit}e{power}") for power in range(first, last + 1, stride) for digit in digits]
    return [number for number in numbers if low <= number <= high]
