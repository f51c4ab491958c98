"""The figures of a reproduction: loss per round, and final scores against b, epsilon or share of records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noiseworthy.experiments.papers.spec import Point, Reproduction
from noiseworthy.reports.style import INK, MARKERS, MUTED, PLAN, RULE, TONES, head, new_figure, styled

Line = Sequence[Point]


@styled
def draw(result: Reproduction) -> Figure:
    """The figure of a result, in the layout that its specification names."""
    return _LAYOUTS[result.layout](result.points)


def _curves(points: Line) -> Figure:
    """Loss per round: a row per mechanism, a column per epsilon."""
    mechanisms = _distinct(points, "mechanism")
    figure = new_figure(10.5, 3.4 * len(mechanisms))
    grid = figure.subplots(len(mechanisms), 3, squeeze=False)
    for row, mechanism in zip(grid, mechanisms, strict=True):
        mine = [p for p in points if p.mechanism == mechanism]
        for axes, epsilon in zip(row, _distinct(mine, "epsilon"), strict=False):
            head(axes, f"{mechanism.capitalize()}, ε = {epsilon:g}", "test loss", "round")
            for point, look in _looks([p for p in mine if p.epsilon == epsilon]):
                losses = np.array(point.losses)
                mean, std = losses.mean(axis=0), losses.std(axis=0)
                axes.plot(point.at, mean, label=point.series, **{**look, "marker": ""})
                axes.fill_between(point.at, mean - std, mean + std, color=look["color"], alpha=0.15, lw=0)
            axes.set_ylim(0, 3.2)
            axes.set_xscale("symlog", linthresh=1)
            axes.set_xlim(0, 600)
            axes.set_xticks([0, 1, 10, 100, 500], ["0", "1", "10", "100", "500"])
        _legend(row[-1])
    return figure


def _scores(points: Line, along: str, xlabel: str) -> Figure:
    """Final loss and accuracy against one quantity: a column per mechanism, a line per setting."""
    mechanisms = _distinct(points, "mechanism")
    figure = new_figure(10.0, 6.2)
    grid = figure.subplots(2, len(mechanisms), squeeze=False)
    for column, mechanism in enumerate(mechanisms):
        for axes, score in zip(grid[:, column], ("loss", "accuracy"), strict=True):
            head(axes, mechanism.capitalize(), f"final test {score}", xlabel)
            for line, look, label in _lines([p for p in points if p.mechanism == mechanism], along):
                axes.errorbar(
                    [getattr(p, along) for p in line], [getattr(p, score) for p in line],
                    None if line[0].role == "grid" else [p.std(score) for p in line], label=label, **look,
                )  # fmt: skip
            axes.set_ylim(0, 3.2 if score == "loss" else 1)
            axes.set_xticks(_distinct([p for p in points if p.mechanism == mechanism], along))
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        _legend(grid[0, column])
    return figure


def _data(points: Line) -> Figure:
    """Accuracy against the share of records: a panel per mechanism, a line per epsilon."""
    mechanisms = _distinct(points, "mechanism")
    figure = new_figure(10.0, 3.6)
    for axes, mechanism in zip(
        figure.subplots(1, len(mechanisms), squeeze=False)[0], mechanisms, strict=True
    ):
        head(axes, mechanism.capitalize(), "final test accuracy", "share of the records")
        mine = [p for p in points if p.mechanism == mechanism]
        for i, epsilon in enumerate(_distinct(mine, "epsilon")):
            line = sorted((p for p in mine if p.epsilon == epsilon), key=lambda p: p.fraction)
            look = {"color": TONES[1 + i % 4], "marker": MARKERS[i % len(MARKERS)]}
            axes.plot(
                [p.fraction for p in line], [p.accuracy for p in line], label=f"ε = {epsilon:g}", **look
            )
        axes.set_ylim(0, 1)
        axes.set_xticks(_distinct(mine, "fraction"))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        _legend(axes)
    return figure


_LAYOUTS: dict[str, Callable[[Line], Figure]] = {
    "curves": _curves,
    "clients": lambda points: _scores(points, "clients_per_round", "clients per round b"),
    "epsilon": lambda points: _scores(points, "epsilon", "ε"),
    "data": _data,
}


def _lines(points: Line, along: str):
    """Points joined along the axis with their look and label: per epsilon against b, else per setting."""
    if along == "clients_per_round":
        for i, epsilon in enumerate(_distinct(points, "epsilon")):
            line = sorted((p for p in points if p.epsilon == epsilon), key=lambda p: p.clients_per_round)
            yield line, {"color": TONES[1 + i], "marker": MARKERS[i]}, f"ε = {epsilon:g}"
        return
    seen: dict[str, list[Point]] = {}
    for point in sorted(points, key=lambda p: p.epsilon):
        seen.setdefault(point.series, []).append(point)
    looks = dict(zip(seen, (look for _, look in _looks([line[0] for line in seen.values()])), strict=True))
    first_grid = next((name for name, line in seen.items() if line[0].role == "grid"), None)
    for name, line in seen.items():
        grid = "grid" if name == first_grid else None
        yield line, looks[name], name if line[0].role != "grid" else grid


def _looks(points: Line):
    """A look per setting: plans in the plan's colour, the paper's optimum dark, its grid faint."""
    tones = iter(TONES[1:] * 3)
    marks = iter(MARKERS * 3)
    for point in points:
        if point.role == "grid":
            yield point, {"color": RULE, "marker": ".", "lw": 0.8, "ls": "-", "zorder": 1}
        elif point.role.startswith("planned"):
            style = "-" if point.role == "planned" else "--"
            yield point, {"color": PLAN, "marker": "D", "lw": 2.0, "ls": style, "zorder": 4}
        elif point.role == "paper":
            yield point, {"color": INK, "marker": "o", "lw": 1.8, "ls": "-", "zorder": 3}
        else:
            yield point, {"color": next(tones), "marker": next(marks), "lw": 1.2, "ls": "-", "zorder": 2}


def _legend(axes: Axes) -> None:
    axes.legend(frameon=False, fontsize=7.5, labelcolor=MUTED)


def _distinct(points: Line, name: str) -> list:
    return sorted({getattr(p, name) for p in points}, key=lambda v: (v == "gaussian", v))
