"""The report of a run: one HTML page that needs nothing else, and the figures as PNG files beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from noiseworthy._wording import level, number, rounded_up, span
from noiseworthy.errors import DataError
from noiseworthy.methods.phrases import clients_of
from noiseworthy.methods.words import Key
from noiseworthy.reports import alternatives, findings, rivals_words, tradeoff_words
from noiseworthy.reports.claim_card import claim_card, write_claim_card
from noiseworthy.reports.estimates import estimates_caption
from noiseworthy.reports.figures import FIGURES, all_figures
from noiseworthy.reports.findings import Record, final
from noiseworthy.reports.ledger import ledger_clauses
from noiseworthy.reports.network import network_caption, network_clauses
from noiseworthy.reports.participation import participation_caption
from noiseworthy.reports.privacy_statement import privacy_statement
from noiseworthy.reports.resources import Bill, amount, bill_of, planned_bill, prices, whose
from noiseworthy.reports.schedules import headline, uploads_of, words_of
from noiseworthy.reports.style import png, svg
from noiseworthy.reports.what_if_words import what_if_caption
from noiseworthy.studies.loading import in_line

FILE = "report.html"
FOLDED, LISTED = 20, 1000
"""Clients above which their table is folded, and above which it is cut."""

_CAPTIONS = {
    "why": findings.why_caption,
    "what-if": what_if_caption,
    "leak": alternatives.leak_caption,
    "participation": participation_caption,
    "estimates": estimates_caption,
    "training": findings.training_caption,
    "network": network_caption,
    "compare": findings.compare_caption,
    "tradeoff": tradeoff_words.caption,
    "rivals": rivals_words.caption,
    "rivals-varied": rivals_words.sweeps_caption,
    "who": findings.who_caption,
}
_TITLES = {
    "why": "Why this plan",
    "what-if": "What if",
    "leak": "What the printed formula would have leaked",
    "participation": "Whom to ask",
    "estimates": "What was estimated",
    "training": "What training reached",
    "network": "How the network did",
    "compare": "The plan beside fixed settings",
    "tradeoff": "Trade-off",
    "rivals": "DPFL-BCS beside its rivals",
    "rivals-varied": "Other budgets, other data",
    "who": "Who was asked, and what it cost",
}
PAGES = Environment(
    loader=PackageLoader("noiseworthy.reports", "."),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True)
class Plot:
    """A figure on the page: title, caption, and the drawing as an SVG element."""

    title: str
    caption: str
    drawing: str


def render(record: Record) -> str:
    """The page as a string.

    Args:
        record: a run record.

    Returns:
        HTML with its style and drawings inside, that loads nothing over the network.
    """
    return _page(record, all_figures(record, tuple(_CAPTIONS)))


def write_report(record: Record, folder: Path) -> Path:
    """Write `report.html`, its claim card and a PNG of every figure into a run folder.

    A PNG of an earlier record that this one has no data for is removed.

    Raises:
        DataError: a folder that cannot be written to.
    """
    figures = all_figures(record)
    page = _page(record, figures)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FIGURES:
            path = folder / f"{name}.png"
            if name in figures:
                path.write_bytes(png(figures[name]))
            else:
                path.unlink(missing_ok=True)
        (folder / FILE).write_text(page, encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"run folder {folder} cannot be written ({error}); choose another with --out"
        ) from None
    write_claim_card(card := claim_card(record), card_page(card), folder)
    return folder / FILE


def card_page(card: Record) -> str:
    """A claim card as one HTML page, which loads nothing over the network."""
    return PAGES.get_template("claim_card.html.jinja").render(card=card)


def _page(record: Record, figures: dict[str, Figure]) -> str:
    plots = [
        Plot(_TITLES[name], caption(record), svg(figures[name], name))
        for name, caption in _CAPTIONS.items()
        if name in figures
    ]
    return PAGES.get_template("report.html.jinja").render(
        record=record,
        headline=headline(record),
        finding=findings.finding(record) or rivals_words.finding(record),
        setting=findings.setting(record),
        keys=key_numbers(record),
        warnings=findings.warnings_of(record),
        notes=findings.notes_of(record),
        prepared=findings.preparation(record),
        plots=plots,
        standings=rivals_words.standings(record),
        others=(others := alternatives.rows_of(record)),
        others_note=alternatives.note_of(record["plan"], others),
        clients=client_rows(record),
        listing=listing(record),
        folded=FOLDED,
        listed=LISTED,
        card=claim_card(record),
        statement=[*privacy_statement(record), *ledger_clauses(record), *network_clauses(record)],
        study=toml(record["study"]),
        exact=lambda value: number(value, 6),
    )


# What the page is filled with --------------------------------------------------------------------------


def key_numbers(record: Record) -> list[Key]:
    """The numbers at the top of the page."""
    plan, budget = record["plan"], record["plan"]["privacy"]["clients"]
    words, keys = words_of(plan), []
    if plan["train"]:
        keys += [
            *words.keys(plan),
            Key("clients in each", f"{plan['clients_per_round']:,}", f"of {clients_of(record):,}"),
            Key("uploads per client", span(uploads_of(plan)), words.noised.remark(plan)),
        ]
        if bill := planned_bill(record):
            budget_of = f"of {amount(bill.budget[bill.dearest])}; {whose(record, bill)}"
            keys.append(Key(f"cost in {bill.unit}", amount(bill.cost[bill.dearest]), budget_of))
    if plan["privacy"]["private"]:
        epsilon, delta = (
            span((row[k] for row in budget), lambda v: number(v, 6)) for k in ("epsilon", "delta")
        )
        keys.append(Key("epsilon at most", epsilon, f"delta {delta}"))
    else:
        keys.append(Key("epsilon", "unbounded", "no noise, not private"))
    for quantity, write in (("loss", level), ("accuracy", lambda v: findings.score(record, v))):
        if outcome := final(record, quantity):
            name = "test loss" if quantity == "loss" else f"test {findings.score_name(record)}"
            keys.append(Key(name, write(outcome.mean), outcome.ends(write)))
    if record["compare"]:
        keys.append(Key("lost gain", findings.lost_gain(record), "against the best fixed setting"))
    return keys


def client_rows(record: Record) -> list[dict[str, str]]:
    """A row per client, up to `LISTED`: name, size, uploads, noise, budget, spent, and cost if it differs."""
    plan, federation, training = record["plan"], record["federation"], record["training"]
    spent, bill = findings.most_spent(record), bill_of(record)
    rows = []
    for i, name in enumerate(findings.client_names(record)[:LISTED]):
        budget = plan["privacy"]["clients"][i]
        cost = spent[i] if spent else budget["spent_epsilon"]
        rows.append({
            "client": name,
            "records": f"{federation['sizes'][i]:,}" if federation else "",
            **words_of(plan).noised.columns(plan, i),
            "made": span(seed[i] for seed in training["uploads"]) if training else "",
            "noise": number(plan["noise"][i]),
            "epsilon": number(budget["epsilon"], 6),
            "delta": number(budget["delta"], 6),
            "spent": "unbounded" if cost is None else rounded_up(cost),
            **({} if bill is None or bill.alike else _cost(bill, i)),
        })  # fmt: skip
    return rows


def _cost(bill: Bill, i: int) -> dict[str, str]:
    return {bill.unit: amount(bill.cost[i]), "of": amount(bill.budget[i])}


def listing(record: Record) -> str:
    """What the columns of the list of clients are."""
    plan = record["plan"]
    noised = words_of(plan).noised
    whose = "the seed that asked most" if record["training"] else "all planned uploads"
    noise = f"noise is per coordinate of {noised.listed(plan)}"
    said = f"{noised.columns_said}; {noise}; spent is the epsilon of {whose}."
    bill = planned_bill(record)
    return said + (f" Training costs {prices(plan)}, in {bill.unit}." if bill else "")


def toml(study: dict[str, Any]) -> str:
    """The study as TOML, as it was understood: defaults included.

    Example:
        >>> print(toml({"privacy": {"mechanism": "laplace", "epsilon": [1.0, 2.0]}}))
        [privacy]
        mechanism = "laplace"
        epsilon = [1.0, 2.0]
        >>> print(toml({"privacy": {"epsilon": {"uniform": [0.1, 3.0]}}}))
        [privacy]
        epsilon = { uniform = [0.1, 3.0] }
    """
    tables = []
    for name, table in study.items():
        lines = [f"{key} = {in_line(value)}" for key, value in table.items()]
        tables.append("\n".join([f"[{name}]", *lines]))
    return "\n\n".join(tables)
