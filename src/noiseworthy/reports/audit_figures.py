"""An audit as a picture: the attacker's scores in both worlds, and what any attacker may reach at most."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from noiseworthy._wording import rounded_down, rounded_up
from noiseworthy.reports.style import INK, MUTED, PLAN, RULE, TONES, head, new_figure, styled
from noiseworthy.studies.typed_audit import AuditedPart, AuditRecord

_WIDTH, _HEIGHT = 8.6, 3.7
_ABSENT, _PRESENT = TONES[0], TONES[3]


@styled
def audit_figure(audit: AuditRecord) -> Figure:
    """A row for each training: scores of both worlds, and the trade-off curves.

    Args:
        audit: its record.
    """
    trainings = audit.trainings
    figure = new_figure(_WIDTH, _HEIGHT * len(trainings))
    rows = figure.subplots(len(trainings), 2, squeeze=False, width_ratios=[1.15, 1])
    for (left, right), one in zip(rows, trainings, strict=True):
        _scores(left, audit, one)
        _tradeoff(right, one)
    return figure


def _scores(axes: Axes, audit: AuditRecord, one: AuditedPart) -> None:
    """How often each score came, with and without the canary."""
    wrong = 100 * one.errors / one.trials
    the = "The" if one.name == "training" else f"{one.name.capitalize()}: the"
    head(
        axes, f"{the} attacker is wrong {wrong:.1f} % of the time",
        f"share of {one.trials:,} trials; guessing is wrong half of the time",
        "log-likelihood ratio of all uploads of a client",
    )  # fmt: skip
    edges = np.array(one.scores.edges)
    for name, colour in (("absent", _ABSENT), ("present", _PRESENT)):
        counts = np.array(getattr(one.scores, name), float)
        share = counts / max(counts.sum(), 1)
        axes.stairs(share, edges, color=colour, fill=True, alpha=0.35)
        axes.stairs(share, edges, color=colour, linewidth=1.3)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_ylim(0, axes.get_ylim()[1] * 1.15)
    axes.set_yticks([share for share in axes.get_yticks() if share <= 1])
    axes.locator_params("x", nbins=5)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    absent = "with its opposite" if audit.relation == "replace-one" else f"without that {audit.unit}"
    _label(axes, absent, _ABSENT, left=True)
    _label(axes, f"with the canary {audit.unit}", _PRESENT, left=False)


def _label(axes: Axes, words: str, colour: str, *, left: bool) -> None:
    """The name of a world, in its colour, on its side of the threshold."""
    shift, align = (-6, "right") if left else (6, "left")
    axes.annotate(
        words, (0.0, axes.get_ylim()[1]), (shift, -2), textcoords="offset points", ha=align, va="top",
        color=colour, fontweight="bold",
    )  # fmt: skip


def _tradeoff(axes: Axes, one: AuditedPart) -> None:
    """Misses against false alarms: as claimed, as proven, and as the attacker reached."""
    curves = one.curves
    proven, claimed = rounded_down(one.proven_epsilon), rounded_up(one.claimed_epsilon)
    of = "Epsilon" if one.name == "training" else f"{one.name.capitalize()}:"
    head(axes, f"{of} {proven} proven, {claimed} claimed", "misses", "false alarms")
    rates = curves.rates
    axes.fill_between(rates, 0, curves.claimed, color=RULE, alpha=0.6, linewidth=0)
    axes.plot([0, 1], [1, 0], color=MUTED, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.plot(rates, curves.claimed, color=PLAN, linewidth=1.6)
    axes.plot(rates, curves.proven, color=TONES[3], linewidth=1.2)
    reached = curves.attacker
    axes.plot(
        reached.false_alarms[::4], reached.misses[::4], "o", color=TONES[0], markersize=3.2,
        markeredgewidth=0,
    )  # fmt: skip
    axes.text(0.03, 0.03, "impossible under the claim", color=MUTED, fontsize=8)
    _legend(axes)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")


def _legend(axes: Axes) -> None:
    entries = (
        (PLAN, "least errors that the claim allows"),
        (TONES[3], "that the trials prove"),
        (TONES[0], "reached by the attacker"),
        (MUTED, "guessing"),
    )
    for place, (colour, words) in enumerate(entries):
        axes.annotate(
            words, (1, 1), (-2, -4 - 13 * place), "axes fraction", textcoords="offset points", ha="right",
            va="top", color=colour, fontsize=8.5,
        )  # fmt: skip
