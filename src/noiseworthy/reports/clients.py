"""Who is asked how often and what it costs: a row per client, or sorted steps when they are many."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray

from noiseworthy._wording import finite, shortened_apart
from noiseworthy.methods.phrases import clients_of
from noiseworthy.reports.at_home import MOST_ROWS
from noiseworthy.reports.findings import most_spent
from noiseworthy.reports.marks import name_marks, name_rows
from noiseworthy.reports.resources import bill_of
from noiseworthy.reports.scales import amount_axis
from noiseworthy.reports.schedules import uploads_of
from noiseworthy.reports.style import INK, MUTED, PLAN, RULE, WIDE, head, new_figure, styled
from noiseworthy.studies.typed_record import RunRecord

MOST_DOTS = 1500
"""Above this many clients, evenly chosen ones are drawn."""


def evenly_chosen(clients: int) -> NDArray[np.int64]:
    """Places of the clients that are drawn: all of them, or some where they are many."""
    return np.unique(np.linspace(0, clients - 1, min(clients, MOST_DOTS)).round().astype(int))


@styled
def who_figure(record: RunRecord) -> Figure | None:
    """Uploads made against those planned, epsilon and resources spent against their budgets, per client.

    Before training it shows what is planned. None where nobody is asked for anything.
    """
    plan = record.plan
    if not any(plan.releases):
        return None
    private, bill = plan.privacy.private, bill_of(record)
    many = clients_of(record.written) > MOST_ROWS
    figure = new_figure(WIDE, 3.1 if many else 1.35 + 0.19 * max(clients_of(record.written), 3))
    scarce = bill is not None
    axes = figure.subplots(1, 1 + private + scarce, squeeze=False, sharey=not many)[0]
    draw = _steps if many else _rows
    made, spent = ("made", "spent") if record.training else ("planned", "planned")
    limit = "if all prove alike" if plan.estimation else "paid for" if private else "at most"
    planned = np.array(uploads_of(plan), float)
    uploads = np.array(record.training.uploads, float) if record.training else planned[None]
    draw(axes[0], record, planned, uploads, "Uploads", made, limit)
    if scarce:
        draw(axes[-1], record, bill.budget, bill.cost[None], f"Cost in {bill.unit}", spent, "budget")
    if private:
        rows = plan.privacy.clients
        loss = most_spent(record) or [row.spent_epsilon for row in rows]
        budget = np.array([row.epsilon for row in rows])
        draw(axes[1], record, budget, finite(loss)[None], "Privacy loss ε", spent, "budget")
    return figure


def _rows(
    axes: Axes, record: RunRecord, most: NDArray[np.float64], used: NDArray[np.float64],
    title: str, verb: str, limit: str,
) -> None:  # fmt: skip
    """A row per client: a bar to its limit, a dot at what was used, a line for the range over seeds."""
    rows = np.arange(len(most))
    _head(axes, title, verb, limit, len(used))
    axes.grid(visible=False)
    axes.barh(rows, most, height=0.62, color=RULE, zorder=1)
    axes.vlines(most, rows - 0.31, rows + 0.31, color=INK, linewidth=1.6, zorder=2)
    axes.hlines(rows, used.min(axis=0), used.max(axis=0), color=PLAN, linewidth=2.2, zorder=3)
    axes.scatter(used.max(axis=0), rows, 22, PLAN, zorder=4, linewidths=0)
    name_rows(axes, shortened_apart(record.client_names))
    axes.tick_params("y", labelcolor=INK)
    amount_axis(axes.xaxis, np.vstack([most, used]), whole=title == "Uploads")


def _steps(
    axes: Axes, record: RunRecord, most: NDArray[np.float64], used: NDArray[np.float64],
    title: str, verb: str, limit: str,
) -> None:  # fmt: skip
    """Clients in the order of their limits: the limits as a line, what each used as a dot."""
    used = used.max(axis=0)
    order = np.lexsort((used, most))
    shown = evenly_chosen(len(most))
    _head(axes, title, verb, limit, 1)
    axes.fill_between(shown, most[order][shown], step="mid", color=RULE, linewidth=0)
    axes.step(shown, most[order][shown], where="mid", color=INK, linewidth=1.2, zorder=4)
    axes.scatter(shown, used[order][shown], 8, PLAN, linewidths=0, zorder=3)
    axes.set_xlim(0, len(most) - 1)
    axes.xaxis.set_major_formatter("{x:,.0f}" if len(most) < 10_000 else EngFormatter(sep=""))
    amount_axis(axes.yaxis, np.vstack([most, used]), whole=title == "Uploads")
    drawn = "" if len(shown) == len(most) else f" ({len(shown):,} of them drawn)"
    axes.set_xlabel(f"{len(most):,} clients in order{drawn}")


def _head(axes: Axes, title: str, verb: str, limit: str, seeds: int) -> None:
    head(axes, title, "", "")
    range_of = " (by seed)" if len(axes.figure.axes) > 2 else " (range over seeds)"
    over = f"● {verb}" + (range_of if seeds > 1 else "")
    name_marks(axes, [(over, PLAN), (f"┃ {limit}", MUTED)])
