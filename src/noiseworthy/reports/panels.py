"""The panels that figures are put together from, each drawn on axes that it is given."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from noiseworthy.reports.findings import Outcome, Record, planned_cell, predicted_beside, score, score_name
from noiseworthy.reports.labels import Label, label_inside, label_right
from noiseworthy.reports.marks import Ink, inks, plan_diamond, plan_label, plan_ring, points, untrained_line
from noiseworthy.reports.scales import loss_limits, round_axis, score_limits
from noiseworthy.reports.style import MUTED, PLAN, head
from noiseworthy.reports.wording import finite, level

ROUNDS = "rounds T"


def prediction(axes: Axes, record: Record, title: str) -> None:
    """Predicted value against rounds, a curve per b, trials as dots, the plan as a ring."""
    evidence, plan = record["evidence"], record["plan"]
    lines = {part["clients_per_round"]: _line(part, plan) for part in evidence["curves"]}
    trials = evidence["trials"]
    colours = inks([*lines, *(trial["clients_per_round"] for trial in trials)])
    rounds, lowest = np.concatenate([x for x, _ in lines.values()]), [y.min() for _, y in lines.values()]
    head(axes, title, evidence["unit"], ROUNDS)
    round_axis(axes, rounds.min(), rounds.max())
    start = evidence["no_training"]
    loss_limits(axes, [*lowest, start], start if min(lowest) < start else 3 * max(lowest))
    for b, (x, y) in lines.items():
        axes.plot(x, y, color=colours[b].colour, linewidth=1.8, zorder=2)
    for b, ink in colours.items():
        mine = [trial for trial in trials if trial["clients_per_round"] == b]
        points(axes, [t["rounds"] for t in mine], finite([t["loss"] for t in mine]), ink)
    labels = [untrained_line(axes, start, is_plan=not plan["train"])]
    for b, (x, y) in lines.items():
        labels += _curve_label(axes, x, y, f"b = {b}", colours[b].colour)
    if _is_predicted(plan):
        text = f"plan: T = {plan['rounds']}, b = {plan['clients_per_round']}"
        plan_ring(axes, plan["rounds"], plan["predicted"]["bound"], text)
    label_right(axes, labels, _size())


def curves(axes: Axes, record: Record, quantity: str, title: str) -> None:
    """A quantity of training per round: mean over seeds, band from least to most, the end written out."""
    training = record["training"]
    missing = np.inf if quantity == "loss" else np.nan
    values = np.array([finite(curve, missing) for curve in training[quantity]])
    rounds, mean = np.array(training["rounds"]), values.mean(axis=0)
    head(axes, title, _over_seeds(len(values)), "round")
    axes.set_xlim(0, rounds[-1])
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    if quantity == "loss":
        labels = _levels(axes, record, mean)
    else:
        score_limits(axes, record, values)
        labels = []
    axes.fill_between(rounds, values.min(axis=0), values.max(axis=0), color=PLAN, alpha=0.18, linewidth=0)
    axes.plot(rounds, mean, color=PLAN, linewidth=1.8, gid="mean")
    axes.plot(rounds[-1:], mean[-1:], "o", color=PLAN, markersize=4.5, clip_on=False)
    end = mean[-1] if np.isfinite(mean[-1]) else axes.get_ylim()[1]
    label_right(axes, [(end, _written(record, quantity, mean[-1]), PLAN), *labels], _size())


def settings(axes: Axes, record: Record, quantity: str, title: str) -> None:
    """The plan beside fixed (T, b): dots for means over seeds, bars from least to most."""
    compare, planned = record["compare"], planned_cell(record)
    fixed = [cell for cell in compare["cells"] if not cell["planned"]]
    known = [outcome for cell in compare["cells"] if (outcome := Outcome.of(quantity, cell[quantity]))]
    unit = "test loss" if quantity == "loss" else f"test {score_name(record)}"
    head(axes, title, f"{unit} after T rounds, {_over_seeds(len(compare['seeds']))}", ROUNDS)
    rounds = [cell["rounds"] for cell in compare["cells"] if cell["rounds"] > 0]
    round_axis(axes, min(rounds), max(rounds))
    labels = []
    if quantity == "loss":
        start = compare["untrained_loss"]
        loss_limits(axes, [o.least for o in known], max(start, _in_view(planned)))
        labels.append(untrained_line(axes, start, is_plan=not record["plan"]["train"]))
    else:
        score_limits(axes, record, [o.least for o in known])
    labels += _all_series(axes, fixed, quantity)
    if planned is not None and planned["rounds"] > 0:
        _plan(axes, record, planned, quantity)
    label_right(axes, labels, _size())


# Parts of panels --------------------------------------------------------------------------------------


def _size() -> float:
    return 0.95 * matplotlib.rcParams["font.size"]


def _over_seeds(seeds: int) -> str:
    return "one seed" if seeds == 1 else f"mean and range of {seeds} seeds"


def _written(record: Record, quantity: str, value: float) -> str:
    return level(value) if quantity == "loss" else score(record, value)


def _is_predicted(plan: Record) -> bool:
    return plan["train"] and bool(plan["predicted"]) and plan["predicted"]["bound"] is not None


def _line(curve: Record, plan: Record) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rounds and values of a curve, the plan's own point among them."""
    known = dict(zip(curve["rounds"], finite(curve["bound"]), strict=True))
    if _is_predicted(plan) and plan["clients_per_round"] == curve["clients_per_round"]:
        known[plan["rounds"]] = plan["predicted"]["bound"]
    return np.array(sorted(known), float), np.array([known[t] for t in sorted(known)])


def _curve_label(axes: Axes, x: NDArray, y: NDArray, text: str, colour: str) -> list[Label]:
    """The label of a curve: for the right edge, or else put where it leaves through the top."""
    top = axes.get_ylim()[1]
    inside = np.flatnonzero(y <= top)
    if inside.size == 0:
        return []
    last = inside[-1]
    if last == len(y) - 1:
        return [(y[-1], text, colour)]
    share = (top - y[last]) / (y[last + 1] - y[last]) if np.isfinite(y[last + 1]) else 0.0
    axes.annotate(
        text, (x[last] * (x[last + 1] / x[last]) ** share, 1), (4, -5), ("data", "axes fraction"),
        textcoords="offset points", va="top", color=colour, fontsize=_size(),
    )  # fmt: skip
    return []


def _levels(axes: Axes, record: Record, mean: NDArray[np.float64]) -> list[Label]:
    """Limits of a training's losses, with lines at the untrained and the predicted loss."""
    start = record["training"]["untrained_loss"]
    predicted = record["plan"]["predicted"]["bound"] if predicted_beside(record) else start
    highest = float(np.max(mean, where=np.isfinite(mean), initial=start))
    loss_limits(axes, [*mean, predicted], max(start, highest / 1.1))
    labels = [untrained_line(axes, start)]
    if predicted_beside(record):
        axes.axhline(predicted, color=MUTED, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
        labels.append((predicted, f"predicted {level(predicted)}", MUTED))
    return labels


def _in_view(planned: Record | None) -> float:
    """The height that keeps the plan's mean in the picture."""
    outcome = Outcome.of("loss", planned["loss"]) if planned else None
    return outcome.mean / 1.08 if outcome and np.isfinite(outcome.mean) else 0.0


def _all_series(axes: Axes, fixed: Sequence[Record], quantity: str) -> list[Label]:
    """Every b beside the others; returns labels for the right edge, and puts the others inside."""
    colours = inks(cell["clients_per_round"] for cell in fixed)
    right, inside = [], []
    for place, (b, ink) in enumerate(colours.items()):
        mine = sorted((c for c in fixed if c["clients_per_round"] == b), key=lambda c: c["rounds"])
        known = [(c["rounds"], o) for c in mine if (o := Outcome.of(quantity, c[quantity]))]
        x = np.array([rounds for rounds, _ in known]) * 1.045 ** (place - (len(colours) - 1) / 2)
        mean = np.array([outcome.mean for _, outcome in known])
        _series(axes, x, [outcome for _, outcome in known], ink)
        seen = np.flatnonzero(mean <= axes.get_ylim()[1])
        if seen.size and seen[-1] == len(mean) - 1:
            right.append((mean[-1], f"b = {b}", ink.colour))
        elif seen.size:
            inside.append((x[seen[-1]], (mean[seen[-1]], f"b = {b}", ink.colour)))
    label_inside(axes, [x for x, _ in inside], [label for _, label in inside], _size())
    return right


def _series(axes: Axes, x: NDArray[np.float64], outcomes: Sequence[Outcome], ink: Ink) -> None:
    mean = [outcome.mean for outcome in outcomes]
    axes.plot(x, mean, color=ink.colour, linewidth=0.9, alpha=0.55, zorder=2)
    axes.vlines(x, [o.least for o in outcomes], [o.most for o in outcomes], color=ink.colour, linewidth=1.3)
    points(axes, x, mean, ink, 20)


def _plan(axes: Axes, record: Record, planned: Record, quantity: str) -> None:
    outcome = Outcome.of(quantity, planned[quantity])
    if outcome is None:
        return
    text = f"plan: {_written(record, quantity, outcome.mean)}"
    if np.isfinite(outcome.mean):
        plan_diamond(axes, planned["rounds"], outcome.mean, outcome.least, outcome.most, text)
    else:
        plan_label(axes, planned["rounds"], axes.get_ylim()[1], text)
