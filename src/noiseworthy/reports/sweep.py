"""A sweep as a figure and as a table: what every variant of a study reached."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich import box
from rich.table import Table
from rich.text import Text

from noiseworthy._wording import level, number, percent, shortened, shortened_apart
from noiseworthy.reports.findings import Outcome, final, over_seeds, score_name
from noiseworthy.reports.marks import Ink, Label, inks, label_right, points, untrained_line
from noiseworthy.reports.result import written
from noiseworthy.reports.scales import loss_limits, score_limits
from noiseworthy.reports.style import MUTED, drawable, head, new_figure, styled
from noiseworthy.studies.typed_parts import Quantity
from noiseworthy.studies.typed_record import RunRecord
from noiseworthy.sweeps.variants import short, shown, words

WIDTH, HEIGHT = 7.4, 3.9
_LABEL, _LONGEST = 8.5, 40
"""Points of a label, and characters of a name in it."""
_WIDE = 4.0
"""From the least to the greatest value, the ratio from which on an axis is logarithmic."""
_ASIDE = 0.01
"""Share of the width between equal places of two lines."""


class Reached(NamedTuple):
    """A variant with the record of its run."""

    changes: dict[str, Any]
    record: RunRecord


@styled
def sweep_figure(reached: Sequence[Reached]) -> Figure | None:
    """Scores over the first key, a line for every choice of the others; None where nothing was trained."""
    trained = [one for one in reached if one.record.training]
    if not trained:
        return None
    record, keys = trained[0].record, list(trained[0].changes)
    quantity: Quantity = "accuracy" if all(final(one.record, "accuracy") for one in trained) else "loss"
    named = f"Test {score_name(record)}" if quantity == "accuracy" else "Test loss"
    figure = new_figure(WIDTH, HEIGHT)
    axes = figure.subplots()
    head(axes, f"{named} by {short(keys[0], keys)}", _over_seeds(trained), drawable(keys[0]))
    across = _places(axes, [one.changes[keys[0]] for one in trained])
    outcomes = [found for one in trained if (found := final(one.record, quantity))]
    _limits(axes, record, quantity, outcomes)
    lines: dict[str, list[tuple[float, Outcome]]] = {}
    for one, x, outcome in zip(trained, across, outcomes, strict=True):
        lines.setdefault(words({key: one.changes[key] for key in keys[1:]}), []).append((x, outcome))
    colours = inks(list(lines))
    labels = _start(axes, trained, quantity)
    for i, (name, line) in enumerate(lines.items()):
        line.sort(key=lambda mark: mark[0])
        _draw(axes, line, colours[name], i - (len(lines) - 1) / 2)
        last = line[-1][1].mean
        end = written(record, quantity, last)
        said = drawable(f"{shortened(name, _LONGEST)}: {end}" if name else end)
        labels.append((last, said, colours[name].colour))
    label_right(axes, [label for label in labels if np.isfinite(label[0])], _LABEL)
    return figure


def sweep_table(frame: pd.DataFrame, keys: Sequence[str]) -> Table:
    """A row for each variant: its values and what it reached; below, why some could not be planned.

    Args:
        frame: of `calls.sweep.Sweep`.
        keys: that were varied.
    """
    reasons = list(dict.fromkeys(reason for reason in frame.refused if reason))
    caption = Text("\n".join(f"({i + 1}) {reason}" for i, reason in enumerate(reasons)))
    table = Table(box=box.SIMPLE_HEAD, caption=caption if reasons else None, caption_justify="left")
    for column in (*(short(key, keys) for key in keys), *_NUMBERS):
        table.add_column(Text(column), justify="right" if column in _NUMBERS else "left")
    for row in frame.to_dict("records"):
        told = [Text(number(row[k], 6) if isinstance(row[k], float) else shown(row[k])) for k in keys]
        if row["refused"]:
            table.add_row(*told, f"refused ({reasons.index(row['refused']) + 1})")
            continue
        loss = level(row["loss"]) if row["rounds"] else "–"
        table.add_row(*told, _spread(row), loss, number(row["rounds"]), f"{row['uploads']:,.0f}")
    return table


_NUMBERS = ("accuracy", "loss", "rounds", "uploads")


def _spread(row: dict[Any, Any]) -> str:
    """A score with its standard deviation over seeds, of which one has none; neither has an idle plan."""
    if not np.isfinite(row["accuracy"]):
        return "–" if row["rounds"] else "do not train"
    return f"{row['accuracy']:.3f}" + f" ± {row['accuracy_std']:.3f}" * (row["accuracy_std"] > 0)


def _over_seeds(trained: Sequence[Reached]) -> str:
    seeds = {len(one.record.training.seeds) for one in trained if one.record.training}
    return over_seeds(*seeds) if len(seeds) == 1 else "mean and range of seeds"


def _places(axes: Axes, values: Sequence[Any]) -> list[float]:
    """Where values lie across: numbers at themselves, all else side by side; ticks at every one of them."""
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    names = [number(value, 6) if numeric else shown(value) for value in values]
    order = list(dict.fromkeys(names))
    places = [float(value) for value in values] if numeric else [float(order.index(name)) for name in names]
    least, most = min(places), max(places)
    if numeric and least > 0 and most / least >= _WIDE:
        axes.set_xscale("log")
        axes.set_xlim(least / 1.15, most * 1.15)
    else:
        room = 0.06 * (most - least) or 0.5
        axes.set_xlim(least - room, most + room)
    ticks = dict(zip(places, names, strict=True))
    axes.set_xticks(list(ticks), [*map(drawable, shortened_apart([*ticks.values()]))], parse_math=False)
    axes.minorticks_off()
    return places


def _limits(axes: Axes, record: RunRecord, quantity: Quantity, outcomes: Sequence[Outcome]) -> None:
    training = record.training
    if quantity == "accuracy" or training is None:
        score_limits(axes, record, [outcome.least for outcome in outcomes])
    else:
        loss_limits(axes, [outcome.least for outcome in outcomes], training.untrained_loss)


def _start(axes: Axes, trained: Sequence[Reached], quantity: Quantity) -> list[Label]:
    """A line at what no training reaches, where that is the same for all variants."""
    trainings = [one.record.training for one in trained if one.record.training]
    if quantity == "loss":
        starts = {training.untrained_loss for training in trainings}
        return [untrained_line(axes, starts.pop())] if len(starts) == 1 else []
    priors = {training.prior for training in trainings}
    prior = priors.pop()
    if priors or prior is None:
        return []
    axes.axhline(prior, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    return [(prior, f"most frequent class {percent(prior)}", MUTED)]


def _draw(axes: Axes, line: Sequence[tuple[float, Outcome]], ink: Ink, aside: float) -> None:
    """A line, moved a little aside, so that equal ones do not hide each other."""
    low, high = axes.get_xlim()
    wide = axes.get_xscale() == "log"
    x = [x * (high / low) ** (_ASIDE * aside) if wide else x + _ASIDE * aside * (high - low) for x, _ in line]
    mean = [outcome.mean for _, outcome in line]
    axes.plot(x, mean, color=ink.colour, linewidth=1.2, alpha=0.7, zorder=2)
    axes.vlines(
        x, [outcome.least for _, outcome in line], [outcome.most for _, outcome in line], color=ink.colour,
        linewidth=1.3,
    )  # fmt: skip
    points(axes, x, mean, ink, 22)
