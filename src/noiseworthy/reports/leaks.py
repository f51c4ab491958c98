"""What a printed formula would have leaked: a bar for the budget, for the plan and for the printed noise."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noiseworthy._wording import number, rounded_up
from noiseworthy.reports.alternatives import Leak, leak_of
from noiseworthy.reports.marks import name_rows
from noiseworthy.reports.style import INK, PLAN, TONES, WIDE, head, new_figure, styled
from noiseworthy.studies.typed_record import RunRecord


@styled
def leak_figure(record: RunRecord) -> Figure | None:
    """Epsilon spent by the plan and by the printed noise, beside the budget; None where it is not known."""
    if (leak := leak_of(record.plan)) is None:
        return None
    figure = new_figure(WIDE, 2.15)
    axes = figure.subplots()
    title = f"Budget {rounded_up(leak.budget, 6)}, as printed {rounded_up(leak.printed, 3)}"
    head(axes, title, "privacy loss ε of the client that is worst off", "")
    axes.grid(visible=False)
    _bars(axes, _bars_of(leak))
    axes.axvline(leak.budget, color=INK, linewidth=1.2, linestyle=(0, (3, 2)), zorder=3)
    return figure


def _bars_of(leak: Leak) -> list[tuple[str, float, str]]:
    """Name, epsilon and colour of each bar."""
    noise = f"noise {number(leak.noise)}" if leak.noise else "no training"
    return [
        ("budget", leak.budget, INK),
        (f"this plan, {noise}", leak.plan, PLAN),
        (f"as printed, noise {number(leak.printed_noise)}", leak.printed, TONES[3]),
        ("as printed, by the paper's conversion", leak.converted, TONES[1]),
    ]


def _bars(axes: Axes, bars: list[tuple[str, float, str]]) -> None:
    names, values, colours = zip(*bars, strict=True)
    places = range(len(bars))
    axes.barh(places, values, height=0.6, color=colours)
    for place, value, colour in zip(places, values, colours, strict=True):
        axes.annotate(
            rounded_up(value, 3), (value, place), (5, 0), textcoords="offset points", va="center",
            color=colour, fontweight="bold",
        )  # fmt: skip
    name_rows(axes, names, below=0.5)
    axes.tick_params("y", labelcolor=INK)
    axes.set_xlim(0, 1.12 * max(values))
