"""An audit for people: a panel in the terminal, and one HTML page with its figure."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from rich.console import Group
from rich.text import Text

from noiseworthy._places import write_whole, writing
from noiseworthy._wording import number, rounded_down, rounded_up
from noiseworthy.reports.html import PAGES, Key
from noiseworthy.reports.style import INK, MUTED, PLAN, RULE, TONES, head, new_figure, png, styled, svg
from noiseworthy.reports.tables import of_verdicts, panel
from noiseworthy.studies.typed_audit import AuditedPart, AuditRecord

FILE, PAGE, FIGURE = "audit.json", "audit.html", "audit.png"

CHECKS = {
    "exposure": "Follows a worst-case record through the code without noise, and adds up how far it moves "
    "every upload in units of the planned noise. Exact, for every client.",
    "bound": "Trains many times with and without that record; an attacker who sees what the adversary does "
    "says which. The fewer its errors, the larger epsilon must be.",
    "scale": "Subtracts from every upload what it would be without noise. What is left must have the planned "
    "size and law, for every client and every round.",
    "replay": "Compares the signs of all noises with each other, at every distance, across rounds, clients, "
    "runs and a break with resume. A repeated noise would reveal the difference of two updates.",
    "reconciliation": "Counts the uploads of the schedule, and prices them by a second formula.",
    "run": "Counts the uploads that the training in this folder made.",
    "ledger": "Verifies the chain of the folder's ledger, entry by entry, and its sums.",
}
"""What each check does."""


def write_audit(audit: dict[str, Any], folder: Path) -> Path:
    """Write `audit.json`, `audit.html` and the figure.

    Args:
        audit: its record, as plain values.
        folder: the run folder.

    Returns:
        The page.

    Raises:
        DataError: a folder that cannot be written to.
    """
    made = AuditRecord.view(audit)
    figure = audit_figure(made)
    with writing(f"run folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / FILE, json.dumps(audit, indent=1, allow_nan=False))
        write_whole(folder / FIGURE, png(figure))
        write_whole(folder / PAGE, page(made))
    return folder / PAGE


def page(audit: AuditRecord) -> str:
    """The page as a string, which loads nothing over the network."""
    return PAGES.get_template("audit.html.jinja").render(
        audit=audit, headline=headline(audit), keys=key_numbers(audit), checks=checks(audit),
        drawing=svg(audit_figure(audit), "audit"), clients=client_rows(audit), what=CHECKS,
    )  # fmt: skip


def headline(audit: AuditRecord) -> str:
    """The answer in a few words."""
    return "The claim stands" if audit.passed else "The claim is refuted"


def key_numbers(audit: AuditRecord) -> list[Key]:
    """The numbers at the top of the page: claim and proof of every training, trials and time."""
    keys = []
    for one in audit.trainings:
        of = "" if one.name == "training" else f"{one.name}: "
        keys += [
            Key(f"{of}claimed epsilon", rounded_up(one.claimed_epsilon), f"at most, delta {one.delta:g}"),
            Key(f"{of}proven epsilon", rounded_down(one.proven_epsilon), f"at least, {confidence(audit)}"),
            Key(f"{of}trials", f"{one.trials:,}", f"{one.errors:,} errors; {one.seconds:.0f} s"),
        ]
    return [*keys, Key("protects", f"one {audit.unit}", audit.relation)]


def confidence(audit: AuditRecord) -> str:
    """With which the lower bound holds."""
    return f"{100 * audit.confidence:g} % confidence"


def checks(audit: AuditRecord) -> list[dict[str, str]]:
    """A row for each check of each training: name, verdict, and what was found."""
    several = len(audit.trainings) > 1
    found = [
        (f"{one.name}: {check.name}" if several else check.name, check)
        for one in audit.trainings
        for check in one.checks
    ]
    found += [(check.name, check) for check in audit.run]
    verdicts = {True: "passed", False: "FAILED"}
    return [{"check": name, "verdict": verdicts[one.passed], "found": one.says} for name, one in found]


def client_rows(audit: AuditRecord) -> list[dict[str, str]]:
    """A row for each distinct claim: how many clients have it, and what is proven of them."""
    rows: dict[tuple[str, str], list[int]] = {}
    for one in audit.trainings:
        for each in one.proven:
            key = rounded_up(each.claimed_epsilon), rounded_down(each.proven_epsilon)
            rows.setdefault(key, []).append(each.client)
    return [
        {"clients": number(len(clients)), "claimed epsilon": claimed, "proven epsilon": proven}
        for (claimed, proven), clients in sorted(rows.items(), key=lambda row: float(row[0][1]))
    ]


def audit_panel(record: dict[str, Any] | AuditRecord) -> Group:
    """Verdict, bounds and checks, readable at 80 columns."""
    audit = AuditRecord.view(record)
    style = "bold green" if audit.passed else "bold red"
    lines = [Text(audit.verdict, style=style), *(Text(_between(audit, one)) for one in audit.trainings)]
    found = checks(audit)
    return Group(panel("audit", *lines), of_verdicts(found, [row["verdict"] == "passed" for row in found]))


def _between(audit: AuditRecord, one: AuditedPart) -> str:
    proven, claimed = rounded_down(one.proven_epsilon), rounded_up(one.claimed_epsilon)
    return (
        f"{one.name}: epsilon between {proven} (proven, {confidence(audit)}) and {claimed} (claimed), "
        f"delta {one.delta:g}; {one.trials:,} trials in {one.seconds:.0f} s"
    )


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
