"""The panels that figures are put together from, each drawn on axes that it is given."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from noiseworthy.reports.findings import Outcome, Record, planned_cell, predicted_beside, score_name
from noiseworthy.reports.labels import (
    Ink,
    Label,
    inks,
    label_right,
    loss_limits,
    points,
    round_axis,
    untrained_line,
)
from noiseworthy.reports.style import MUTED, PAPER, PLAN, head
from noiseworthy.reports.wording import finite, number

ROUNDS = "rounds T"


def prediction(axes: Axes, record: Record, title: str) -> None:
    """Predicted value against rounds, a curve per b, trials as dots, the plan as a ring."""
    evidence, plan = record["evidence"], record["plan"]
    curves, trials = evidence["curves"], evidence["trials"]
    colours = inks([part["clients_per_round"] for part in (*curves, *trials)])
    head(axes, title, evidence["unit"], ROUNDS)
    rounds = np.concatenate([part["rounds"] for part in curves] + [[plan["rounds"] or 1]])
    lowest = [min(finite(curve["bound"])) for curve in curves]
    round_axis(axes, rounds.min(), rounds.max())
    loss_limits(axes, lowest, max(evidence["no_training"], min(lowest)))
    for curve in curves:
        colour = colours[curve["clients_per_round"]].colour
        axes.plot(curve["rounds"], finite(curve["bound"]), color=colour, linewidth=1.8, zorder=2)
    for b, ink in colours.items():
        mine = [trial for trial in trials if trial["clients_per_round"] == b]
        points(axes, [t["rounds"] for t in mine], finite([t["loss"] for t in mine]), ink)
    labels = [untrained_line(axes, evidence["no_training"])]
    for curve in curves:
        labels += _curve_label(axes, curve, colours[curve["clients_per_round"]].colour)
    if plan["train"] and plan["predicted"]:
        _ring(axes, plan["rounds"], plan["predicted"]["bound"])
        _plan_label(axes, plan, plan["predicted"]["bound"])
    label_right(axes, labels, _size())


def curves(axes: Axes, record: Record, quantity: str, title: str) -> None:
    """A quantity of training per round: mean over seeds, band from least to most, the end written out."""
    training = record["training"]
    values = np.array([finite(curve) for curve in training[quantity]])
    rounds, mean = np.array(training["rounds"]), values.mean(axis=0)
    head(axes, title, _over_seeds(len(values)), "round")
    axes.fill_between(rounds, values.min(axis=0), values.max(axis=0), color=PLAN, alpha=0.18, linewidth=0)
    axes.plot(rounds, mean, color=PLAN, linewidth=1.8, gid="mean")
    axes.plot(rounds[-1:], mean[-1:], "o", color=PLAN, markersize=4.5, clip_on=False)
    axes.set_xlim(0, rounds[-1])
    if quantity == "accuracy":
        score_axis(axes, record, values)
        end = _written(axes, mean[-1])
        label_right(axes, [(mean[-1], end, PLAN)], _size())
        return
    level = training["untrained_loss"]
    loss_limits(
        axes,
        np.append(mean, _foretold(record)),
        max(level, float(np.max(mean, where=np.isfinite(mean), initial=level)) / 1.1),
    )
    labels: list[Label] = [(mean[-1], number(mean[-1]), PLAN), untrained_line(axes, level)]
    if predicted_beside(record):
        axes.axhline(_foretold(record), color=MUTED, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
        labels.append((_foretold(record), f"predicted {number(_foretold(record))}", MUTED))
    label_right(axes, labels, _size())


def settings(axes: Axes, record: Record, quantity: str, title: str) -> None:
    """The plan beside fixed (T, b): dots for means over seeds, bars from least to most."""
    compare = record["compare"]
    fixed = [cell for cell in compare["cells"] if not cell["planned"]]
    planned = planned_cell(record)
    colours = inks(cell["clients_per_round"] for cell in fixed)
    everything = [o for cell in compare["cells"] if (o := Outcome.of(cell[quantity]))]
    unit = "test loss" if quantity == "loss" else f"test {score_name(record)}"
    head(axes, title, f"{unit} after T rounds, {_over_seeds(len(compare['seeds']))}", ROUNDS)
    rounds = [cell["rounds"] for cell in compare["cells"] if cell["rounds"] > 0]
    round_axis(axes, min(rounds), max(rounds))
    labels = []
    if quantity == "loss":
        loss_limits(axes, [outcome.least for outcome in everything], compare["untrained_loss"])
        labels.append(untrained_line(axes, compare["untrained_loss"]))
    else:
        score_axis(axes, record, [(o.least, o.most) for o in everything])
    for place, (b, ink) in enumerate(colours.items()):
        mine = sorted((cell for cell in fixed if cell["clients_per_round"] == b), key=lambda c: c["rounds"])
        labels += _series(axes, mine, quantity, ink, 1.045 ** (place - (len(colours) - 1) / 2))
    if planned is not None and planned["rounds"] > 0 and (outcome := Outcome.of(planned[quantity])):
        _plan_mark(axes, record["plan"], outcome)
    label_right(axes, labels, _size())


def score_axis(axes: Axes, record: Record, values: object) -> None:
    """Accuracy in percent from 0; R² as it is."""
    if score_name(record) != "R²":
        axes.set_ylim(0, 1.0)
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        return
    shown = np.asarray(values, float)
    axes.set_ylim(max(-1.0, float(shown.min()) - 0.05), 1.0)


# Parts of panels --------------------------------------------------------------------------------------


def _size() -> float:
    return 0.95 * matplotlib.rcParams["font.size"]


def _over_seeds(seeds: int) -> str:
    return "one seed" if seeds == 1 else f"mean and range of {seeds} seeds"


def _foretold(record: Record) -> float:
    return record["plan"]["predicted"]["bound"] if predicted_beside(record) else np.inf


def _written(axes: Axes, value: float) -> str:
    return axes.yaxis.get_major_formatter()(value, 0) if axes.get_ylim()[0] == 0 else number(value, 2)


def _curve_label(axes: Axes, curve: Record, colour: str) -> list[Label]:
    """The label of a curve: at the right edge, or where it leaves through the top."""
    text, bound, top = f"b = {curve['clients_per_round']}", finite(curve["bound"]), axes.get_ylim()[1]
    inside = np.flatnonzero(bound <= top)
    if inside.size == 0:
        return []
    if inside[-1] == len(bound) - 1:
        return [(bound[-1], text, colour)]
    axes.annotate(
        text, (curve["rounds"][inside[-1]], 1), (4, -2), ("data", "axes fraction"), textcoords="offset points",
        va="top", color=colour, fontsize=_size(),
    )  # fmt: skip
    return []


def _series(axes: Axes, cells: Sequence[Record], quantity: str, ink: Ink, dodge: float) -> list[Label]:
    """All cells of one b; returns the label at its last visible dot."""
    known = [(cell["rounds"], o) for cell in cells if (o := Outcome.of(cell[quantity]))]
    if not known:
        return []
    x = np.array([rounds for rounds, _ in known]) * dodge
    mean, least, most = (np.array([getattr(o, f) for _, o in known]) for f in ("mean", "least", "most"))
    axes.plot(x, mean, color=ink.colour, linewidth=0.9, alpha=0.55, zorder=2)
    axes.vlines(x, least, most, color=ink.colour, linewidth=1.3, zorder=2)
    points(axes, x, mean, ink, 20)
    text, top = f"b = {cells[0]['clients_per_round']}", axes.get_ylim()[1]
    inside = np.flatnonzero(mean <= top)
    if inside.size and inside[-1] == len(mean) - 1:
        return [(float(mean[-1]), text, ink.colour)]
    if inside.size:
        last = inside[-1]
        axes.annotate(
            text,
            (x[last], mean[last]),
            (5, 3),
            textcoords="offset points",
            color=ink.colour,
            fontsize=_size(),
        )
    return []


def _ring(axes: Axes, x: float, y: float) -> None:
    axes.plot(
        [x],
        [y],
        "o",
        color=PLAN,
        markersize=11,
        markerfacecolor="none",
        markeredgewidth=2.0,
        zorder=5,
        gid="plan",
    )


def _plan_mark(axes: Axes, plan: Record, outcome: Outcome) -> None:
    top = axes.get_ylim()[1]
    axes.vlines([plan["rounds"]], outcome.least, outcome.most, color=PLAN, linewidth=2.0, zorder=4)
    axes.plot(
        [plan["rounds"]],
        [outcome.mean],
        "D",
        color=PLAN,
        markersize=8,
        markeredgecolor=PAPER,
        zorder=5,
        gid="plan",
    )
    _plan_label(axes, plan, min(outcome.least, top), "plan")


def _plan_label(axes: Axes, plan: Record, y: float, text: str | None = None) -> None:
    """Below the mark, and to the left where the right edge is near."""
    text = text or f"plan: T = {plan['rounds']}, b = {plan['clients_per_round']}"
    across = axes.transAxes.inverted().transform(axes.transData.transform((plan["rounds"], 1)))[0]
    axes.annotate(
        text, (plan["rounds"], y), (0, -9), textcoords="offset points", va="top",
        ha="center" if 0.2 < across < 0.8 else "right" if across > 0.5 else "left",
        color=PLAN, fontweight="bold", fontsize=_size(), zorder=6,
    )  # fmt: skip
