"""An advice as a picture: a row for each algorithm, what trials on public data say that it reaches."""

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from noiseworthy._wording import count, number, rounded_up
from noiseworthy.reports.marks import beside, name_rows
from noiseworthy.reports.scales import free_limits, percent_axis
from noiseworthy.reports.style import INK, MUTED, PAPER, PLAN, RULE, TONES, head, new_figure, styled
from noiseworthy.sweeps.advice_words import written
from noiseworthy.sweeps.typed_advice import OF_TUNED, AdviceRecord, AdvisedPart, CurvePart, FlipPart

WIDTH = 8.6
_ROW, _AROUND = 0.42, 1.5
"""Inches of a row, and of everything around the rows."""
_ROOM = 45
"""Signs of names that a line beside the rest of it has room for."""


@styled
def advice_figure(advice: AdviceRecord) -> Figure:
    """Predicted score of every algorithm, the best on top: mean, bands, and each public data set.

    Args:
        advice: its record.

    Returns:
        A figure in which those that tie for the first place lie on one ground.
    """
    rows = advice.algorithms
    figure = new_figure(WIDTH, _AROUND + _ROW * len(rows))
    axes = figure.subplots()
    title = f"What each algorithm would reach, by mean {_written(advice.ranked_by)}"
    head(axes, title, _reading(advice), _name(advice))
    axes.grid(visible=False)
    _limits(axes, advice)
    _ground(axes, [one for one in rows if one.place == 1 and one.train])
    for i, one in enumerate(rows):
        _row(axes, advice, i, one)
    name_rows(axes, [one.name for one in rows])
    for label, one in zip(axes.get_yticklabels(), rows, strict=True):
        label.set(color=_colour(advice, one), fontweight="bold" if _chosen(advice, one) else "normal")
    return figure


@styled
def outlook_figure(advice: AdviceRecord) -> Figure | None:
    """The recommended algorithm beside the next best along epsilon, clients and cost; None without bounds.

    Lines are bounds fitted to trials, dashed where no trial had as much noise; a line at the study's own
    value, and marks where the answer flips.
    """
    outlook = advice.outlook
    if outlook is None:
        return None
    pairs = list(zip(outlook.ours, outlook.theirs, strict=True))
    figure = new_figure(WIDTH, 3.0)
    panels = figure.subplots(1, len(pairs), sharey=True, squeeze=False)[0]
    for axes, (ours, theirs) in zip(panels, pairs, strict=True):
        _along(axes, (advice.recommended, outlook.other), outlook.flips, ours, theirs)
    head(panels[0], "When the answer would flip", _name(advice), pairs[0][0].axis)
    for axes, (ours, _) in zip(panels[1:], pairs[1:], strict=True):
        head(axes, "", "", ours.axis)
    if "accuracy" in advice.score:
        percent_axis(panels[0].yaxis)
    return figure


def _along(
    axes: Axes, names: tuple[str | None, str], flips: list[FlipPart], ours: CurvePart, theirs: CurvePart
) -> None:
    for curve, name, colour in zip((ours, theirs), names, (PLAN, TONES[2]), strict=True):
        x, y, inside = (np.array(getattr(curve, key)) for key in ("x", "accuracy", "inside"))
        axes.plot(x, y, color=colour, linewidth=1.0, linestyle=(0, (2, 2)))
        axes.plot(x, np.where(inside, y, np.nan), color=colour, linewidth=2.0, label=name, gid=name)
    axes.axvline(ours.own, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
    ends = [end for flip in flips if flip.axis == ours.axis for end in (flip.below, flip.above)]
    for end in [end for end in ends if end is not None]:
        at = np.interp(np.log(end), np.log(ours.x), ours.accuracy)
        axes.plot([end], [at], "o", color=PAPER, markeredgecolor=INK, markersize=7, zorder=5, gid="flip")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sorted({ours.x[0], ours.own, ours.x[-1]})))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value, 2)))
    axes.xaxis.set_minor_locator(NullLocator())
    if ours.axis == "epsilon":
        axes.legend(frameon=False, loc="lower right", handlelength=1.2)


def _row(axes: Axes, advice: AdviceRecord, i: int, one: AdvisedPart) -> None:
    colour, values = _colour(advice, one), one.accuracy
    axes.axhline(i, color=RULE, linewidth=0.6, zorder=0)
    beside(axes, i, _beside(advice, one), colour, 8, fontsize=_small())
    if one.train:
        axes.hlines([i], values.least, values.most, color=colour, linewidth=1.1, gid="band")
        axes.hlines([i], values.seeds_least, values.seeds_most, color=colour, linewidth=5, gid="seeds")
    each = values.of_each_public
    axes.scatter(each, np.full(len(each), i), 26, colour, marker="|", linewidths=1.3, zorder=3, gid="public")
    axes.plot(
        [values.mean], [i], "D" if _chosen(advice, one) else "o", color=colour, markersize=7.5,
        markeredgecolor=PAPER, zorder=4, gid="mean",
    )  # fmt: skip


def _beside(advice: AdviceRecord, one: AdvisedPart) -> str:
    """What a row says at its right end: the mean, the price, and whom the epsilon covers."""
    if not one.train:
        return "do not train"
    uploads = count(one.cost.uploads[1], "upload")
    epsilon = rounded_up(one.privacy.spent_epsilon)
    return f"{written(advice.score, one.accuracy.mean)}, {uploads}, ε {epsilon} of a {one.privacy.unit}"


def _ground(axes: Axes, ties: list[AdvisedPart]) -> None:
    """A light ground under those that tie for the first place."""
    if len(ties) < 2:
        return
    axes.axhspan(-0.5, len(ties) - 0.5, color=RULE, alpha=0.45, zorder=-1, linewidth=0, gid="ties")
    axes.annotate(
        "a tie", (0, len(ties) - 0.5), (4, 3), ("axes fraction", "data"), textcoords="offset points",
        color=MUTED, va="bottom", fontsize=_small(),
    )  # fmt: skip


def _reading(advice: AdviceRecord) -> str:
    """How a row is read; of many public data sets by their number, which a line has room for."""
    names = ", ".join(advice.public)
    ticks = names if len(names) <= _ROOM else count(len(advice.public), "public data set")
    return f"dot: mean; thick: over seeds; thin: over data sets and seeds; ticks: {ticks}"


def _limits(axes: Axes, advice: AdviceRecord) -> None:
    shown = [one.accuracy for one in advice.algorithms]
    low, high = min(one.least for one in shown), max(one.most for one in shown)
    if "accuracy" not in advice.score:
        low, high = max(low, -1.0), min(high, 1.0)
    free_limits(axes, low, high, free=0.04, ticks=6)
    if "accuracy" in advice.score:
        percent_axis(axes.xaxis)


def _small() -> float:
    return 0.9 * matplotlib.rcParams["font.size"]


def _name(advice: AdviceRecord) -> str:
    return f"predicted test {_written(advice.score)}" + ", tuned at home" * (advice.ranked_by == OF_TUNED)


def _written(name: str) -> str:
    return name.replace("^2", "²")


def _chosen(advice: AdviceRecord, one: AdvisedPart) -> bool:
    return one.name == advice.recommended


def _colour(advice: AdviceRecord, one: AdvisedPart) -> str:
    if _chosen(advice, one):
        return PLAN
    return (TONES[2] if one.place == 1 else INK) if one.train else MUTED
