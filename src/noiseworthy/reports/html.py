"""The report of a run: one HTML page that needs nothing else, and the figures as PNG files beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from noiseworthy._places import write_whole, writing
from noiseworthy._wording import number, rounded_up, span
from noiseworthy.data.schema.stated import REPLACED
from noiseworthy.methods.words import Key, Record
from noiseworthy.reports import alternatives, at_home, coefficients, findings, result, rivals_words
from noiseworthy.reports.claim_card import Card, claim_card, write_claim_card
from noiseworthy.reports.figures import FIGURES, PLOTS, all_figures
from noiseworthy.reports.ledger import ledger_clauses
from noiseworthy.reports.network import network_clauses
from noiseworthy.reports.privacy_statement import privacy_statement
from noiseworthy.reports.resources import amount, bill_of, planned_bill, prices, whose
from noiseworthy.reports.schedules import headline, of_stages, uploads_of, words_of
from noiseworthy.reports.style import NARROW, svg, write_png
from noiseworthy.studies.loading import in_key, in_line
from noiseworthy.studies.occupied import REPORT as FILE
from noiseworthy.studies.typed_record import RunRecord, view

FOLDED, LISTED = 20, 1000
"""Clients above which their table is folded, and above which it is cut."""

PAGES = Environment(
    loader=PackageLoader("noiseworthy.reports", "."),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True)
class Plot:
    """A figure on the page: title, caption, its SVG element, and whether it scrolls on a phone."""

    title: str
    caption: str
    drawing: str
    wide: bool = False


def write_report(record: Record | RunRecord, folder: Path) -> Path:
    """Write `report.html`, its claim card and a PNG of every figure into a run folder.

    A PNG of an earlier record that this one has no data for is removed.

    Raises:
        DataError: a folder that cannot be written to.
    """
    record = view(record)
    figures = all_figures(record)
    page = page_of(record, figures)
    with writing(f"run folder {folder}", f"free space or open it, then: noiseworthy report {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in FIGURES:
            write_png(figures.get(name), folder / f"{name}.png")
        write_claim_card(card := claim_card(record), card_page(card), folder)
        write_whole(folder / FILE, page)  # last: where it is, all of the report is
    return folder / FILE


def card_page(card: Card) -> str:
    """A claim card as one HTML page, which loads nothing over the network."""
    return PAGES.get_template("claim_card.html.jinja").render(card=card)


def page_of(record: RunRecord, figures: dict[str, Figure]) -> str:
    """The page as a string: HTML with its style and drawings inside, that loads nothing over the network.

    Args:
        record: a run record.
        figures: all that it has data for, by name.
    """
    rivals = record.rivals
    plots = [
        Plot(title, caption(record), svg(figures[name], name), figures[name].get_figwidth() > NARROW)
        for name, (_, title, caption) in PLOTS.items()
        if name in figures
    ]
    return PAGES.get_template("report.html.jinja").render(
        record=record, title=result.title(record), verdict=result.verdict(record),
        setting=findings.setting(record), keys=result.key_numbers(record),
        explained=result.explained(record), decision=headline(record), counts=plan_numbers(record),
        warnings=findings.warnings_of(record), notes=findings.notes_of(record),
        prepared=findings.preparation(record.study.get("task", {})), plots=plots,
        standings=rivals_words.standings(rivals) if rivals else {},
        homes=rivals_words.at_home(rivals) if rivals else {},
        homes_found=rivals_words.home_finding(rivals) if rivals else "",
        home=None if (home := record.home) is None else at_home.fairness(record, home),
        home_note="" if home is None else at_home.fairness_note(home), owners=at_home.owner_rows(record),
        coefficients=coefficients.rows_of(record),
        coefficients_note="" if record.coefficients is None else coefficients.note_of(record.coefficients),
        others=(others := alternatives.rows_of(record)),
        others_note=alternatives.note_of(record.plan, others), clients=client_rows(record),
        listing=listing(record), folded=FOLDED, listed=LISTED, card=claim_card(record),
        statement=[*privacy_statement(record), *ledger_clauses(record.ledger), *network_clauses(record)],
        study=toml(record.study), rests_on=rests_on(record), constants=constants_of(record),
    )  # fmt: skip


# What the page is filled with --------------------------------------------------------------------------


def plan_numbers(record: RunRecord) -> list[Key]:
    """What the plan does, in counts; empty if it does not train."""
    plan = record.plan
    if not plan.train:
        return []
    words = words_of(plan)
    of_all = f"of {len(plan.releases):,}{' on average' * (plan.asked_with is not None)}"
    keys = [
        *words.keys(plan.written),
        Key("clients in each", f"{plan.clients_per_round:,}", of_all),
        Key("uploads per client", span(uploads_of(plan)), words.noised.remark(plan.written)),
    ]
    if bill := planned_bill(record):
        budget_of = f"of {amount(bill.budget[bill.dearest])}; {whose(record, bill)}"
        keys.append(Key(f"cost in {bill.unit}", amount(bill.cost[bill.dearest]), budget_of))
    return keys


def client_rows(record: RunRecord) -> list[dict[str, str]]:
    """A row per client, up to `LISTED`: name, size, uploads, noise, budget, spent, and cost if it differs."""
    plan, federation, training = record.plan, record.federation, record.training
    spent, bill = findings.most_spent(record), bill_of(record)
    rows = []
    for i, name in enumerate(record.client_names[:LISTED]):
        budget = plan.privacy.clients[i]
        cost = spent[i] if spent else budget.spent_epsilon
        rows.append({
            "client": name,
            "records": f"{federation.sizes[i]:,}" if federation else "",
            **words_of(plan).noised.columns(plan.written, i),
            "made": span(seed[i] for seed in training.uploads) if training and not plan.asked_with else "",
            "noise": number(plan.noise[i]),
            "epsilon": rounded_up(budget.epsilon, 6),
            "delta": rounded_up(budget.delta, 6),
            "spent": "unbounded" if cost is None else rounded_up(cost),
            **({} if bill is None or bill.alike
               else {bill.unit: amount(bill.cost[i]), "of": amount(bill.budget[i])}),
        })  # fmt: skip
    return rows


def listing(record: RunRecord) -> str:
    """What the columns of the list of clients are."""
    plan, noised = record.plan, words_of(record.plan).noised
    whose = "the seed that asked most" if record.training else "all planned uploads"
    noise = f"noise is per coordinate of {noised.listed(plan.written)}"
    said = (f"{noised.columns_said}; {noise}; spent is the epsilon of {whose}.", *of_stages(plan))
    costs = plan.resources
    return " ".join(said) + (f" Training costs {prices(plan, costs)}, in {costs.unit}." if costs else "")


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
        if name == "columns":
            table = {one["name"]: {**one} for one in table["columns"]}
            for column in table.values():
                del column["name"]
        said = REPLACED if name == "federation" and "columns" in study else ()
        lines = [f"{in_key(key)} = {in_line(value)}" for key, value in table.items() if key not in said]
        tables.append("\n".join([f"[{name}]", *lines]))
    return "\n\n".join(tables)


_MEANINGS = {
    "control_variates": "how much corrections between clients have to learn first",
    "drift": "how far clients drift apart in their own steps",
    "drift_of_noise": "how far their own noise drives them apart",
    "floor": "the loss that no training gets below, over the untrained one",
    "gamma": "rounds after which a step size halves, by the theory",
    "gradient_bound": "the largest gradient of a record",
    "gradient_variance": "how much gradients of records differ",
    "heterogeneity": "how much data differ between clients",
    "initial_distance_sq": "how far the start is from the best model, squared",
    "initial_gap": "how much loss there is to lose at the start",
    "noise_dimension": "how many directions of the noise matter",
    "noise_weight": "how much noise in an upload costs",
    "offset": "the loss that no training gets below",
    "optimum_gradient_sq": "how much clients disagree at the best model",
    "power": "how fast the loss rises with the bound",
    "record_variance": "how much records differ within a client",
    "rest": "what the first steps have left to learn",
    "sampling": "how much asking some of the clients only costs",
    "smoothness": "how sharply the loss may bend",
    "start": "what the first steps have left to learn",
    "strong_convexity": "how sharply the loss bends at least",
}
"""Constants of bounds, by the names that plans have for them."""


def rests_on(record: RunRecord) -> str:
    """What decided, in a sentence.

    Fitted constants name the public data that they come from.
    """
    sources = sorted({constant.provenance for constant in record.plan.constants.values()})
    named = ", ".join(record.plan.bought_ranges)
    bought = f" Ranges of {named} were bought with noised quantiles of every client." if named else ""
    if record.plan.bought_label_scale is not None:
        bought += " How large labels are was bought with noised counts of every client."
    if record.plan.bought_label_mean is not None:
        bought += " Intercepts start at the mean of labels, which every client told with noise."
    if record.plan.bought_mean:
        bought += " Records are seen against their mean, which every client told with noise."
    if record.plan.bought_class_shares:
        bought += " Intercepts start at shares of classes, told with it."
    if not sources:
        return f"On budgets, sizes and what the study states alone.{bought or ' No record was looked at.'}"
    its = "Its one number is" if (n := len(record.plan.constants)) == 1 else f"Its {n} numbers are"
    on = "rule of thumb" if any(source.startswith("rule") for source in sources) else "bound on the loss"
    return f"On a {on}. {its} {'; '.join(sources)}.{bought}"


def constants_of(record: RunRecord) -> list[dict[str, str]]:
    """A row for each constant: what it stands for, its value, where it comes from, and its name in theory."""
    return [
        {
            "what it stands for": _MEANINGS.get(name, name.replace("_", " ")),
            "value": number(constant.value, 6),
            "where it comes from": constant.provenance,
            "name in the theory": name.replace("_", " "),
        }
        for name, constant in record.plan.constants.items()
    ]
