"""The panels that figures are put together from, each drawn on axes that it is given."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from noiseworthy._wording import finite, level
from noiseworthy.methods.words import Words
from noiseworthy.reports import findings
from noiseworthy.reports.findings import Outcome, over_seeds, predicted_loss
from noiseworthy.reports.marks import (
    Ink,
    Label,
    inks,
    label_inside,
    label_right,
    label_top,
    plan_diamond,
    plan_label,
    plan_ring,
    points,
    untrained_line,
)
from noiseworthy.reports.resources import price_of_round
from noiseworthy.reports.result import written
from noiseworthy.reports.scales import loss_limits, score_limits, setting_axis
from noiseworthy.reports.schedules import decided, words_of
from noiseworthy.reports.style import MUTED, PLAN, RULE, TONES, head, small
from noiseworthy.studies.typed_evidence import CoursePart, EvidencePart
from noiseworthy.studies.typed_parts import Quantity
from noiseworthy.studies.typed_record import RunRecord, TrainingPart
from noiseworthy.studies.typed_sweeps import CellPart, ComparePart

Line = tuple[NDArray[np.float64], NDArray[np.float64]]
"""A curve: places along the axis and values."""
Place = tuple[float, float] | None
_FEW_POINTS = 24
"""Without trials up to so many points are marked: between the divisors of T there is nothing to choose."""


def prediction(axes: Axes, record: RunRecord, evidence: EvidencePart, title: str) -> None:
    """Predicted value along the axis that was decided: curves, trials as dots, the plan as a ring."""
    plan, trials, place = record.plan, evidence.trials, _place(record, evidence)
    lines = _lines(evidence, place)
    labels = dict.fromkeys([*lines, *(trial.label for trial in trials)])
    colours = inks(sorted(labels, key=_rank))
    head(axes, title, evidence.unit, evidence.axis)
    _prediction_limits(axes, evidence, lines, place)
    for label, (x, y) in lines.items():
        marker = "o" if len(x) == 1 or (len(x) <= _FEW_POINTS and not trials) else None
        axes.plot(x, y, color=colours[label].colour, linewidth=1.8, marker=marker, markersize=3.5, zorder=2)
    for label, ink in colours.items():
        mine = [trial for trial in trials if trial.label == label]
        points(axes, [t.x for t in mine], finite([t.loss for t in mine]), ink)
    inside, right = _curve_labels(axes, lines, colours)
    start = untrained_line(axes, evidence.no_training, is_plan=not plan.train)
    if place is not None:
        plan_ring(axes, *place, f"plan: {decided(plan)}")
    label_right(axes, [start, *right, *label_top(axes, inside, small())], small())


def curves(axes: Axes, record: RunRecord, training: TrainingPart, quantity: Quantity, title: str) -> None:
    """A quantity of training per round: mean over seeds, band from least to most, the end written out."""
    missing = np.inf if quantity == "loss" else np.nan
    values = np.array([finite(curve, missing) for curve in training.over_seeds(quantity)])
    rounds, mean = np.array(training.rounds), values.mean(axis=0)
    course = record.evidence.course if record.evidence and quantity == "loss" else None
    dashes = "" if course is None else "; dashed: predicted"
    head(axes, title, over_seeds(len(values)) + dashes, f"round{price_of_round(record)}")
    axes.set_xlim(0, rounds[-1])
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    if quantity == "loss":
        labels = _levels(axes, record, training, mean)
        _foretold(axes, course, 1.0 if predicted_loss(record) is not None else training.untrained_loss)
    else:
        score_limits(axes, record, values)
        labels = []
    axes.fill_between(rounds, values.min(axis=0), values.max(axis=0), color=PLAN, alpha=0.18, linewidth=0)
    axes.plot(rounds, mean, color=PLAN, linewidth=1.8, gid="mean")
    end = np.clip(mean[-1:], *axes.get_ylim())
    axes.plot(rounds[-1:], end, "o", color=PLAN, markersize=4.5, clip_on=False)
    label_right(axes, [(end.item(), written(record, quantity, mean[-1]), PLAN), *labels], small())


def _foretold(axes: Axes, course: CoursePart | None, unit: float) -> None:
    """The course that trials foretell, in a unit of the loss, with the range over public data sets."""
    if course is None:
        return
    least, loss, most = (unit * finite(curve) for curve in (course.least, course.loss, course.most))
    most = np.minimum(most, axes.get_ylim()[1])
    axes.fill_between(course.rounds, least, most, color=RULE, alpha=0.45, linewidth=0, zorder=0)
    axes.plot(course.rounds, loss, color=TONES[1], linewidth=1.6, linestyle=(0, (4, 2)), gid="foretold")


def settings(axes: Axes, record: RunRecord, compare: ComparePart, quantity: Quantity, title: str) -> None:
    """The plan beside fixed settings: dots for means over seeds, bars from least to most."""
    (across, _), planned = compare.axes, findings.planned_cell(compare)
    known = [outcome for cell in compare.cells if (outcome := _outcome(cell, quantity))]
    unit = "test loss" if quantity == "loss" else f"test {findings.score_name(record)}"
    axis = words_of(record.plan).terms[across].axis
    head(axes, title, f"{unit} after training, {over_seeds(len(compare.seeds))}", axis)
    places = [place for cell in compare.cells if (place := cell.setting[across]) > 0]
    setting_axis(axes, min(places), max(places))
    labels = []
    if quantity == "loss":
        start = compare.untrained_loss
        loss_limits(axes, [start, *(o.least for o in known)], max(start, _in_view(planned)))
        labels.append(untrained_line(axes, start, is_plan=not record.plan.train))
    else:
        score_limits(axes, record, [o.least for o in known])
    labels += _all_series(axes, words_of(record.plan), compare, quantity)
    if planned is not None and planned.setting[across] > 0:
        _plan(axes, record, planned, across, quantity)
    label_right(axes, labels, small())


# Parts of panels --------------------------------------------------------------------------------------


def _outcome(cell: CellPart, quantity: Quantity) -> Outcome | None:
    return Outcome.of(quantity, cell.over_seeds(quantity))


def _place(record: RunRecord, evidence: EvidencePart) -> Place:
    """Where the plan is on its curve; None if it does not train, or nothing was predicted for it."""
    chosen, predicted = evidence.chosen, record.plan.predicted
    if chosen is None or not predicted or predicted.bound is None:
        return None
    return chosen, predicted.bound


def _lines(evidence: EvidencePart, place: Place) -> dict[str, Line]:
    """The curves by their labels, the plan's own point among those of the first."""
    lines = {}
    for curve in evidence.curves:
        known = dict(zip(curve.x, finite(curve.bound), strict=True))
        if place is not None and not lines:
            known[place[0]] = place[1]
        lines[curve.label] = np.array(sorted(known), float), np.array([known[x] for x in sorted(known)])
    return lines


def _rank(label: str) -> float:
    """Labels are in the order of the number that they end in."""
    numbers = re.findall(r"[\d.]+(?:e[+-]?\d+)?", label)
    return float(numbers[-1]) if numbers else 0.0


def _prediction_limits(axes: Axes, evidence: EvidencePart, lines: dict[str, Line], place: Place) -> None:
    """Heights up to the untrained value and the plan, and of the settings those that are in sight."""
    start = evidence.no_training
    lowest = min(y.min() for _, y in lines.values())
    reference = start if lowest <= start else 3 * lowest
    loss_limits(axes, [lowest, start], max(reference, place[1] / 1.1 if place else 0))
    shown = [ends for line in lines.values() for ends in _in_sight(*line, axes.get_ylim()[1])]
    shown += [trial.x for trial in evidence.trials] + ([place[0]] if place else [])
    setting_axis(axes, min(shown), max(shown))


def _in_sight(x: NDArray[np.float64], y: NDArray[np.float64], top: float) -> list[float]:
    """The ends of a curve below `top`, with the next points if they are near; nothing if it is all above."""
    seen = np.flatnonzero(y <= top)
    if seen.size == 0:
        return []
    first, last = x[max(seen[0] - 1, 0)], x[min(seen[-1] + 1, len(x) - 1)]
    return [float(max(first, x[seen[0]] / 2)), float(min(last, max(2 * x[seen[-1]], 1)))]


def _curve_labels(
    axes: Axes, lines: dict[str, Line], colours: dict[str, Ink]
) -> tuple[list[tuple[float, Label]], list[Label]]:
    """Labels of curves: at shares of the width where they leave through the top, or at the right edge."""
    top, inside, right = axes.get_ylim()[1], [], []
    to_axes = axes.transData + axes.transAxes.inverted()
    for text, (x, y) in lines.items():
        seen, colour = np.flatnonzero(y <= top), colours[text].colour
        if seen.size and seen[-1] == len(y) - 1:
            right.append((y[-1], text, colour))
        elif seen.size:
            last = seen[-1]
            share = (top - y[last]) / (y[last + 1] - y[last]) if np.isfinite(y[last + 1]) else 0.0
            ends = to_axes.transform(np.column_stack([x[last : last + 2], [top, top]]))[:, 0]
            inside.append((ends[0] + np.diff(ends).item() * share, (top, text, colour)))
    return inside, right


def _levels(axes: Axes, record: RunRecord, training: TrainingPart, mean: NDArray[np.float64]) -> list[Label]:
    """Limits of a training's losses, with lines at what they are held against and at the predicted loss."""
    predicted, (name, against) = predicted_loss(record), findings.held_against(training)
    start = max(training.untrained_loss, against)
    highest = float(np.max(mean, where=np.isfinite(mean), initial=start))
    loss_limits(axes, [against, *mean, start if predicted is None else predicted], max(start, highest / 1.1))
    labels = [untrained_line(axes, against, name=name)]
    if predicted is not None:
        follows = record.evidence is not None and record.evidence.course is not None
        if not follows:
            axes.axhline(predicted, color=MUTED, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
        labels.append((predicted, f"predicted {level(predicted)}", TONES[1] if follows else MUTED))
    return labels


def _in_view(planned: CellPart | None) -> float:
    """The height that keeps the plan's mean in the picture."""
    outcome = _outcome(planned, "loss") if planned else None
    return outcome.mean / 1.08 if outcome and np.isfinite(outcome.mean) else 0.0


def _all_series(axes: Axes, words: Words, compare: ComparePart, quantity: Quantity) -> list[Label]:
    """Every series beside the others; returns labels for the right edge, and puts the others inside."""
    across, along = compare.axes
    fixed = sorted((c for c in compare.cells if not c.planned), key=lambda cell: cell.setting[across])
    colours = inks(sorted({cell.setting[along] for cell in fixed}))
    right, inside = [], []
    for place, (value, ink) in enumerate(colours.items()):
        mine = [cell for cell in fixed if cell.setting[along] == value]
        known = [(cell.setting[across], o) for cell in mine if (o := _outcome(cell, quantity))]
        x = np.array([x for x, _ in known]) * 1.045 ** (place - (len(colours) - 1) / 2)
        mean = np.array([outcome.mean for _, outcome in known])
        _series(axes, x, [outcome for _, outcome in known], ink)
        seen, text = np.flatnonzero(mean <= axes.get_ylim()[1]), words.symbols({along: value}, [along])
        if seen.size and seen[-1] == len(mean) - 1:
            right.append((mean[-1], text, ink.colour))
        elif seen.size:
            inside.append((x[seen[-1]], (mean[seen[-1]], text, ink.colour)))
    label_inside(axes, [x for x, _ in inside], [label for _, label in inside], small())
    return right


def _series(axes: Axes, x: NDArray[np.float64], outcomes: Sequence[Outcome], ink: Ink) -> None:
    mean = [outcome.mean for outcome in outcomes]
    axes.plot(x, mean, color=ink.colour, linewidth=0.9, alpha=0.55, zorder=2)
    axes.vlines(x, [o.least for o in outcomes], [o.most for o in outcomes], color=ink.colour, linewidth=1.3)
    points(axes, x, mean, ink, 20)


def _plan(axes: Axes, record: RunRecord, planned: CellPart, across: str, quantity: Quantity) -> None:
    if (outcome := _outcome(planned, quantity)) is None:
        return
    x, text = planned.setting[across], f"plan: {written(record, quantity, outcome.mean)}"
    if np.isfinite(outcome.mean):
        plan_diamond(axes, x, outcome.mean, outcome.least, outcome.most, text)
    else:
        plan_label(axes, x, axes.get_ylim()[1], axes.get_ylim()[1], text)
