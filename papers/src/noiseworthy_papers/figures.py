"""The figures of a reproduction: curves while training, and final scores against any quantity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.registry import METHODS, method
from noiseworthy.reports.style import INK, MARKERS, MUTED, PLAN, RULE, TONES, head, new_figure, styled
from noiseworthy_papers.points import Point, Score
from noiseworthy_papers.selecting import numeral
from noiseworthy_papers.spec import Layout, Reproduction

Points = Sequence[Point]
Look = dict[str, Any]
_WHILE_TRAINING = ("round", "iteration", "cost")
_AXES = {
    "round": "round",
    "iteration": "iteration k",
    "clients_per_round": "clients per round b",
    "iterations": "iterations T",
    "local_steps": "local steps per upload",
    "epsilon": "ε",
    "fraction": "share of the records",
    "clip_norm": "clip",
    "step_size": "step size",
    "alpha": "Dirichlet α",
    "budget": "resource budget C",
    "cost": "resources spent",
}
_SCORES = {"accuracy": "test accuracy", "error": "test error", "local_steps": "local steps τ per averaging"}
_LINES = {"epsilon": "ε", "budget": "C"}
_TONES = (*TONES[1:], TONES[0])
_DASHES: Look = dict(zip(MARKERS, ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1))), strict=True))
"""Curves are told apart by dashes, where settings have marks."""
_ROOM = 0.06
"""Share of an axis between two ticks."""
_SIZES = {(1, 1): (7.6, 4.2), (2, 1): (7.6, 6.4)}
"""Inches of figures of one column, which have their legend beside them."""


@styled
def draw(result: Reproduction) -> Figure:
    """The figure of a result, in the layout that its specification names.

    Raises:
        InvalidInput: a result without a layout.
    """
    if result.layout is None:
        raise InvalidInput(f"{result.item} has no figure; its numbers are a table")
    layout, points = result.layout, _drawable(result.layout, result.points)
    grid = list(_panels(layout, points))
    rows, columns = 1 + max(row for row, *_ in grid), 1 + max(column for _, column, *_ in grid)
    figure = new_figure(*_SIZES.get((rows, columns), (min(5.0 * columns, 10.5), 3.2 * rows)))
    axes = figure.subplots(rows, columns, squeeze=False)
    for row, column, score, title, own in grid:
        _panel(axes[row, column], layout, score, title, own, result.loss.name)
    for row in axes:
        _legend(row, outside=columns == 1 or layout.zoomed)
    return figure


def _drawable(layout: Layout, points: Points) -> Points:
    """Points that have a place on the horizontal axis: a logarithmic one has none for not training."""
    if "x" not in layout.log or layout.along in _WHILE_TRAINING:
        return points
    return [p for p in points if p.quantity(layout.along) > 0]


def _panels(layout: Layout, points: Points) -> Iterator[tuple[int, int, Score, str, list[Point]]]:
    """(row, column, score, title, points): a row per score, and per value of all panels but the last."""
    above, last = layout.panels[:-1], layout.panels[-1:]
    rows = product(layout.scores, *(_distinct(points, name) for name in above))
    for row, (score, *values) in enumerate(rows):
        held = _where(points, above, values)
        for column, value in enumerate(product(*(_distinct(held, name) for name in last))):
            title = _title(layout.panels, [*values, *value])
            yield row, column, score, title, _where(held, last, value)


def _panel(axes: Axes, layout: Layout, score: Score, title: str, points: Points, loss: str) -> None:
    final = "" if layout.along in _WHILE_TRAINING or score == "local_steps" else "final "
    head(axes, title, final + _SCORES.get(score, loss), _AXES[layout.along])
    for line, look, label in _lines(layout, points):
        if layout.along in _WHILE_TRAINING:
            _curve(axes, layout, score, line[0], look, label)
        else:
            _line(axes, layout, score, line, look, label)
    _scale(axes, layout, score, points)


def _curve(axes: Axes, layout: Layout, score: Score, point: Point, look: Look, label: str | None) -> None:
    at, scores = np.array(point.at) * _per_round(layout.along, point), point.curves(score)
    mean = scores.mean(axis=0)
    dashes = _DASHES.get(look["marker"], "-") if look["ls"] == "-" else look["ls"]
    axes.plot(at, mean, label=label, **{**look, "marker": "", "ls": dashes})
    axes.fill_between(at, *_band(scores, "y" in layout.log), color=look["color"], alpha=0.15, lw=0)


def _band(scores: np.ndarray, logarithmic: bool) -> tuple[np.ndarray, np.ndarray]:
    """One deviation over seeds below and above the mean; on a logarithmic axis, by that of the logarithm."""
    mean = scores.mean(axis=0)
    if logarithmic:
        factor = np.exp(np.log(np.maximum(scores, np.finfo(float).tiny)).std(axis=0))
        return mean / factor, mean * factor
    return mean - scores.std(axis=0), mean + scores.std(axis=0)


def _per_round(along: str, point: Point) -> float:
    """How far a round goes on the axis."""
    if along == "cost":
        return point.cost / max(point.rounds, 1)
    return max(point.setting["local_steps"], 1) if along == "iteration" else 1


def _line(axes: Axes, layout: Layout, score: Score, line: Points, look: Look, label: str | None) -> None:
    grid = line[0].role == "grid" and layout.lines == "series"
    axes.errorbar(
        [p.quantity(layout.along) for p in line], [getattr(p, score) for p in line],
        None if grid else [p.std(score) for p in line], label=label, elinewidth=0.8, **look,
    )  # fmt: skip


def _scale(axes: Axes, layout: Layout, score: Score, points: Points) -> None:
    """Limits and ticks: shares from 0 to 1, quantities marked where they were measured."""
    if score in ("accuracy", "error") and not layout.zoomed:
        axes.set_ylim(0, 1)
    elif layout.most is not None:
        axes.set_ylim(0, layout.most)
    if score == "loss" and "y" in layout.log:
        axes.set_yscale("log")
        _mark_decades(axes)
    if "x" in layout.log and layout.along in _WHILE_TRAINING:
        axes.set_xscale("symlog", linthresh=1)
    elif "x" in layout.log:
        axes.set_xscale("log", base=2)
    if layout.along == "round" and "x" in layout.log:
        axes.set_xlim(0, 600)
        axes.set_xticks([0, 1, 10, 100, 500], ["0", "1", "10", "100", "500"])
    elif layout.along not in _WHILE_TRAINING:
        _mark(axes, layout, points)


def _mark_decades(axes: Axes) -> None:
    """Ticks at powers of ten, and at 2 and 5 times those where there are few."""
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_locator(NullLocator())


def _mark(axes: Axes, layout: Layout, points: Points) -> None:
    """Ticks where points were measured, as many as have room."""
    measured = [v for v in _distinct(points, layout.along) if np.isfinite(v)]
    places = np.log(measured) if "x" in layout.log else np.array(measured, float)
    chosen, room = [0], _ROOM * float(np.ptp(places))
    for i in range(1, len(places)):
        if places[i] - places[chosen[-1]] >= room:
            chosen.append(i)
    axes.set_xticks([measured[i] for i in chosen])
    axes.xaxis.set_minor_locator(NullLocator())
    as_share = layout.along == "fraction"
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}" if as_share else f"{value:g}")


# Lines and their looks --------------------------------------------------------------------------------


def _lines(layout: Layout, points: Points) -> Iterator[tuple[list[Point], Look, str | None]]:
    """Points joined along the axis, with their look and label."""
    if layout.lines != "series":
        yield from _lines_by_number(layout, points)
        return
    seen: dict[str, list[Point]] = {}
    for point in _along(layout, points):
        name = point.series.removesuffix(", as printed") if "noise" in layout.panels else point.series
        seen.setdefault(name, []).append(point)
    looks = _looks([line[0] for line in seen.values()])
    labelled_grid = False
    for (name, line), look in zip(seen.items(), looks, strict=True):
        grid = line[0].role == "grid"
        yield line, look, name if not grid else None if labelled_grid else "grid"
        labelled_grid |= grid


def _lines_by_number(layout: Layout, points: Points) -> Iterator[tuple[list[Point], Look, str | None]]:
    """A line per epsilon or budget, dotted where noise is the paper's; plans as marks beside settings."""
    name, ordered = layout.lines, _along(layout, points)
    alone = all(point.role.startswith("planned") for point in points)
    planned = [] if alone else [point for point in ordered if point.role.startswith("planned")]
    tones = {value: _TONES[i % len(_TONES)] for i, value in enumerate(_distinct(points, name))}
    for i, (value, tone) in enumerate(tones.items()):
        look: Look = {"color": tone, "marker": MARKERS[i % len(MARKERS)]}
        own = [p for p in ordered if getattr(p, name) == value and p not in planned]
        label = f"{_LINES[name]} = {numeral(value)}"
        if sound := [p for p in own if p.role != "as printed"]:
            yield sound, {**look, "ls": "-", "ms": 4.5, "lw": 1.3}, label
        if printed := [p for p in own if p.role == "as printed"]:
            yield printed, {**look, "ls": ":", "ms": 3.5, "lw": 1.0}, f"{label}, as printed"
    yield from _plans(planned, name, tones)


def _plans(planned: Points, name: str, tones: Look) -> Iterator[tuple[list[Point], Look, str | None]]:
    """Plans as diamonds with the tone of their line inside; those of further planners hollow, then square."""
    for place, series in enumerate(dict.fromkeys(p.series for p in sorted(planned, key=lambda p: p.role))):
        mine = [p for p in planned if p.series == series]
        hollow = place > 0
        for value in dict.fromkeys(getattr(p, name) for p in mine):
            fill = "none" if hollow else tones[value]
            marker = "DDs"[min(place, 2)]
            look = {
                "color": tones[value],
                "marker": marker,
                "ls": "none",
                "mfc": fill,
                "mec": PLAN,
                "zorder": 4,
            }
            label = series if value == getattr(mine[0], name) else None
            yield [p for p in mine if getattr(p, name) == value], {**look, "mew": 1.6, "ms": 7}, label


def _looks(points: Points) -> Iterator[Look]:
    """A look per setting: plans in the plan's colour, the paper's optimum dark, its grid faint."""
    tones, marks = iter(_TONES * 3), iter(MARKERS * 3)
    for point in points:
        if point.role == "grid":
            yield {"color": RULE, "marker": ".", "lw": 0.8, "ls": "-", "zorder": 1}
        elif point.role.startswith("planned"):
            style = "-" if point.role == "planned" else "--"
            yield {"color": PLAN, "marker": "D", "lw": 2.0, "ls": style, "zorder": 4}
        elif point.role == "paper":
            yield {"color": INK, "marker": "o", "lw": 1.8, "ls": "-", "zorder": 3}
        elif point.role == "as printed":
            yield {"color": next(tones), "marker": next(marks), "lw": 1.2, "ls": ":", "zorder": 2}
        else:
            yield {"color": next(tones), "marker": next(marks), "lw": 1.2, "ls": "-", "zorder": 2}


def _along(layout: Layout, points: Points) -> list[Point]:
    if layout.along in _WHILE_TRAINING:
        return list(points)
    return sorted(points, key=lambda p: p.quantity(layout.along))


def _where(points: Points, names: Sequence[str], values: Sequence[Any]) -> list[Point]:
    return [p for p in points if all(getattr(p, n) == v for n, v in zip(names, values, strict=True))]


def _title(panels: Sequence[str], values: Sequence[Any]) -> str:
    return ", ".join(_named(name, value) for name, value in zip(panels, values, strict=True))


def _named(name: str, value: Any) -> str:
    if isinstance(value, str):
        return method(value).words.called if value in METHODS else value[:1].upper() + value[1:]
    return f"{_AXES[name]} = {value:g}"


def _legend(row: Sequence[Axes], *, outside: bool) -> None:
    """All lines of a row of panels, beside or in the last one."""
    place: Look = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if outside else {}
    handles = {
        label: line for axes in row for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    row[-1].legend(handles.values(), handles.keys(), frameon=False, fontsize=7.5, labelcolor=MUTED, **place)


def _distinct(points: Points, name: str) -> list:
    """Numbers in their order, names in that of their appearance."""
    found = list(dict.fromkeys(p.quantity(name) for p in points))
    return found if found and isinstance(found[0], str) else sorted(found)
