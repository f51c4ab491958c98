"""Panels and tables of a record for the terminal, readable at 80 columns."""

from __future__ import annotations

from functools import partial
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from noiseworthy._wording import about, count, finite, level, number, rounded_up, shortened_apart, span
from noiseworthy.methods.dpfl_bcs.words import heterogeneity_of
from noiseworthy.methods.phrases import clipped_to
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.reports import at_home, findings, result, rivals_words
from noiseworthy.reports import tradeoff_words as surface
from noiseworthy.reports.alternatives import leak_of
from noiseworthy.reports.resources import bill_of, of_budget, planned_bill, prices, whose
from noiseworthy.reports.schedules import asked_in_training, noise_of_uploads, trusted, uploads_of, words_of
from noiseworthy.reports.what_if_words import price_of_next_point, what_trust_buys
from noiseworthy.studies.flags import sentences
from noiseworthy.studies.typed_record import PlanPart, RunRecord, view
from noiseworthy.studies.typed_sweeps import CellPart, ComparePart, PairPart, TradeoffPart

WIDTH = 80
CHOSEN = "bold dark_orange3"
"""What is ours among others."""


def plan_panel(record: findings.Record | RunRecord) -> Panel:
    """The decision, its price and what it rests on."""
    record = view(record)
    plan, words = record.plan, words_of(record.plan)
    facts = _facts()
    if prepared := findings.preparation(record.study.get("task", {})):
        _fact(facts, "records", prepared)
    if plan.train:
        if steps := words.computes(plan.written):
            _fact(facts, "local steps", steps)
        bought = words_of(plan).noised.bought(plan.written)
        _fact(facts, "uploads", f"{span(uploads_of(plan))} per client{bought}")
        _fact(facts, "noise", _noise(plan))
    if trust := trusted(plan):
        _fact(facts, "trust", trust)
    if plan.train:
        _fact(facts, "clip", f"{clipped_to(plan.written)}: {words.clipped(plan.written)}")
        _fact(facts, "step size", _step(plan))
        if weighting := plan.weighting:
            by = "records and the precision of uploads" if weighting < 1 else "the precision of uploads alone"
            _fact(facts, "weights", f"by {by}")
        if share := plan.averaging:
            _fact(facts, "delivers", f"the mean of the models of the last {number(100 * share)} % of rounds")
    if record.study.get("deliver"):
        _fact(facts, "is for", f"its owners; {at_home.planned_for(record)}")
    _fact(facts, "privacy", _budget(plan))
    if own := _own_budgets(record):
        _fact(facts, "epsilon of", own)
    if plan.train and plan.resources and (bill := planned_bill(record)):
        _fact(facts, "resources", f"{of_budget(bill)}, {whose(record, bill)}; {prices(plan, plan.resources)}")
    if predicted := plan.predicted:
        untrained = f"untrained {level(predicted.no_training)} ({predicted.unit})"
        _fact(facts, "predicted", f"{level(predicted.bound)}{findings.band_of(record)}, {untrained}")
    if chosen := findings.chosen_by(record):
        _fact(facts, "chosen by", chosen)
    if record.what_if:
        _fact(facts, "what if", price_of_next_point(record, record.what_if))
        if bought := what_trust_buys(record, record.what_if):
            _fact(facts, "other trust", bought)
    nothing = "budgets and sizes alone" if words.chooses(plan.written) else "nothing: all was stated"
    _fact(facts, "rests on", "; ".join(provenances(record)) or nothing)
    for name, other in _others(plan).items():
        _fact(facts, name, other)
    return _panel("plan", plan.outcome, facts, _remarks(record, training=False))


def training_panel(record: RunRecord) -> Panel | None:
    """How training ended and what it spent; None without training."""
    if not (training := record.training):
        return None
    facts = _facts()
    predicted = findings.predicted_loss(record)
    foretold = "" if predicted is None else f", predicted {level(predicted)}"
    if (loss := findings.final(record, "loss")) is not None:
        _fact(facts, "test loss", f"{_over(loss, level)}, {findings.baseline(training)}{foretold}")
    if (accuracy := findings.final(record, "accuracy")) is not None:
        reached = _over(accuracy, partial(findings.score, record))
        _fact(facts, f"test {findings.score_name(record)}", reached)
    if training.metrics and (told := findings.scores_of(training.metrics)):
        _fact(facts, "model", f"of seed {training.seeds[0]}: {told}")
    if record.network and (score := record.network.score):
        _fact(facts, "told", sentences(score)[0])
    if chosen := findings.chosen_by(record):
        _fact(facts, "chosen by", chosen)
    _fact(facts, "asked", f"each client {asked_in_training(record)}")
    spent = findings.most_spent(record) or []
    said = "without bound: no noise" if None in spent else f"epsilon {findings.spent_words(spent)} per client"
    _fact(facts, "spent", said)
    if bill := bill_of(record):
        _fact(facts, "cost", f"{of_budget(bill)}, {whose(record, bill)}")
    _fact(facts, "took", f"{count(len(training.seeds), 'seed')}, {about(training.seconds)} s")
    remarks = _remarks(record, training=True)
    return _panel("training", result.title(record), facts, remarks, remarks_first=True)


def home_table(record: RunRecord) -> RenderableType | None:
    """Alone, shared and tuned at home, with who gains; None where nobody asked."""
    if (home := record.home) is None:
        return None
    gains = f"\n{at_home.who_gains(record, home)}"
    title = Text.assemble((at_home.finding(record) or "", "bold"), (gains, "dim"))
    return Group(Rule(style="dim"), title, of_rows("", at_home.fairness(record, home), "tuned at home"))


def comparison_table(record: RunRecord) -> RenderableType | None:
    """Mean test loss (and score) of the plan beside each fixed setting; None without a comparison."""
    if (compare := record.compare) is None:
        return None
    cells = sorted(compare.cells, key=lambda cell: (not cell.planned, finite(cell.loss).mean()))
    shown = cells[: 1 + MOST_CELLS]
    table = of_rows("", [_cell(record, compare, cell) for cell in shown], "plan")
    hidden = len(cells) - len(shown)
    more = f"and {count(hidden, 'worse setting')}; all are in the report\n" * (hidden > 0)
    untrained = f"lost gain {findings.lost_gain(compare)}, untrained loss {level(compare.untrained_loss)}"
    grid = Text.assemble((f"{findings.finding(record)}", "bold"), (f"\n{untrained}", "dim"))
    below = table, Text(more, style="dim"), *_for_owners(record)
    return Group(Rule(style="dim"), *_usual(record, compare), grid, *below)


def _for_owners(record: RunRecord) -> list[RenderableType]:
    """What owners make of the models; nothing of a study for others."""
    if not (rows := at_home.compared(record)):
        return []
    return [Text("For owners, on their own test records", style="bold"), of_rows("", rows, "the plan")]


def _usual(record: RunRecord, compare: ComparePart) -> list[RenderableType]:
    """The plan beside what people take without planning; nothing where that was not tried."""
    if not compare.usual:
        return []
    quantity = result.compared_by(compare)
    reached = "test loss" if quantity == "loss" else findings.score_name(record)
    write, rows, ours = partial(result.written, record, quantity), [], None
    for name, outcome, planned in result.beside_usual(record, compare):
        mean, ends = ("diverged", "") if outcome is None else (write(outcome.mean), outcome.ends(write))
        rows.append({"setting": name, reached: mean, "least to most": ends})
        ours = name if planned else ours
    return [Text(result.usual_verdict(record) or "", style="bold"), of_rows("", rows, ours)]


def tradeoff_table(record: RunRecord) -> RenderableType | None:
    """What every pair of budgets reaches, above its decision; the most resources on top, as in the figure."""
    if not (tradeoff := record.tradeoff):
        return None
    rows = [surface.tick(value, tradeoff.budget) for value in tradeoff.budget.values]
    what = f"Test{surface.name_of(record, tradeoff).removeprefix('test')} for every pair of budgets"
    said = _surface(record, tradeoff, rows, what, surface.budget_axis(tradeoff.budget))
    if not tradeoff.trust:
        return said
    trusts, what = surface.trusts(tradeoff), "The same by whom owners trust, with the study's own resources"
    return Group(said, _surface(record, surface.by_trust(tradeoff), trusts, what, "who is trusted"))


def _surface(record: RunRecord, told: TradeoffPart, rows: list[str], title: str, down: str) -> RenderableType:
    """A row for each of `rows`, the last on top."""
    across = told.epsilon
    table = Table(box=box.SIMPLE_HEAD, width=WIDTH, padding=(0, 1))
    table.add_column("", justify="right", style="dim")
    for value in across.values:
        table.add_column(surface.tick(value, across), justify="right")
    columns = len(across.values)
    for row in reversed(range(len(rows))):
        cells = told.cells[row * columns : (row + 1) * columns]
        table.add_row(rows[row], *(_pair(record, told, cell) for cell in cells))
    axes = f"\nacross: {surface.epsilon_axis(record, told)}; down: {down}"
    return Group(Rule(style="dim"), Text.assemble((title, "bold"), (axes, "dim")), table)


def rivals_table(record: RunRecord) -> RenderableType | None:
    """Everybody under each mechanism, the best first, with what was varied below."""
    if (rivals := record.rivals) is None:
        return None
    said = filter(None, (rivals_words.finding(rivals), rivals_words.home_finding(rivals)))
    title = Text.assemble((".\n".join(said), "bold"), (f"\n{rivals_words.pace(rivals)}", "dim"))
    several = rivals_words.standings(rivals) | rivals_words.at_home(rivals) | rivals_words.varied(rivals)
    tables = [of_rows(name, rows, rivals_words.OURS) for name, rows in several.items()]
    return Group(Rule(style="dim"), title, *tables)


def of_rows(title: str, rows: list[dict[str, str]], ours: str | None = None) -> Table:
    """Rows under their keys, first the name; those of ours stand out."""
    table = ruled(title=title, title_justify="left")
    for i, name in enumerate(rows[0]):
        table.add_column(name, justify="right" if i else "left")
    for row in rows:
        told = [Text(value) for value in row.values()]  # brackets in names of columns are no markup
        table.add_row(*told, style=CHOSEN if told[0].plain == ours else None)
    return table


def _pair(record: RunRecord, tradeoff: TradeoffPart, cell: PairPart) -> Text:
    """A cell of the trade-off; the study's own stands out."""
    lines = [surface.reached(record, tradeoff, cell), *surface.decision(record, cell).split(", ")]
    return Text("\n".join(lines).rstrip(), style=CHOSEN if cell.own else "")


MOST_CELLS = 8
"""Fixed settings shown in the terminal, best first."""
MOST_CLIENTS = 24
"""Clients whose budgets are shown in the terminal."""


def provenances(record: RunRecord) -> list[str]:
    """Where the constants come from, each source with the names of its constants: `assumed: smoothness`."""
    sources: dict[str, list[str]] = {}
    for name, constant in record.plan.constants.items():
        sources.setdefault(constant.provenance, []).append(name.replace("_", " "))
    if heterogeneity_of(record.written):
        sources.setdefault("assumed", []).append("heterogeneity of each client")
    if record.plan.bought_ranges:
        sources["bought with noised quantiles"] = [f"range of {name}" for name in record.plan.bought_ranges]
    if record.plan.bought_label_scale is not None:
        sources["bought with noised counts"] = ["size of labels"]
    if record.plan.bought_label_mean is not None:
        sources["told with noise"] = ["mean of labels"]
    if record.plan.bought_mean:
        shares = ["shares of classes"] * bool(record.plan.bought_class_shares)
        sources["told with noise"] = ["mean of records", *shares]
    if record.foretold and not any(source.startswith("fitted") for source in sources):
        sources["tried on public data"] = ["settings"]
    return [f"{source}: {', '.join(names)}" for source, names in sources.items()]


# Parts ------------------------------------------------------------------------------------------------


def panel(title: str, *parts: RenderableType) -> Panel:
    """Parts below each other in a frame with a title."""
    said = f"[bold]{title}[/]"
    return Panel(Group(*parts), title=said, title_align="left", border_style="dim", width=WIDTH)


def ruled(**look: Any) -> Table:
    """A table with a rule below its head, without columns yet."""
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", **look)


def of_verdicts(rows: list[dict[str, str]], passed: list[bool]) -> Table:
    """What was checked under the keys of its rows, of which only `found` is folded; red where it failed."""
    table = ruled(width=WIDTH)
    for name in rows[0]:
        table.add_column(name, no_wrap=name != "found")
    for row, fine in zip(rows, passed, strict=True):
        told = map(Text, row.values())  # brackets in the name of a folder are no markup
        table.add_row(*told, style=None if fine else "bold red")
    return table


def _facts() -> Table:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    return facts


def _fact(facts: Table, name: str, value: str) -> None:
    """A row, its value as it is: brackets in names of data are no markup."""
    facts.add_row(name, Text(value))


def _panel(title: str, head: str, facts: Table, remarks: list[Text], *, remarks_first: bool = False) -> Panel:
    said: list[list[RenderableType]] = [[*remarks], [facts]] if remarks_first else [[facts], [*remarks]]
    parts = [part for some in said if some for part in (Text(), *some)]
    return panel(title, Text(head, style="bold"), *parts)


def _remarks(record: RunRecord, *, training: bool) -> list[Text]:
    """Warnings in yellow; the planner's notes only where nothing was trained yet."""
    said = record if training else record.model_copy(update={"training": None})
    loud = [Text(f"! {line}", style="yellow") for line in findings.warnings_of(said)]
    return loud if training else [*loud, *(Text(note, style="dim") for note in findings.notes_of(record))]


def _others(plan: PlanPart) -> dict[str, str]:
    """What zCDP accounting would do instead, and what the printed formula would leak."""
    others, words = {}, words_of(plan)
    if zcdp := plan.compared.get("zcdp"):
        setting = words.symbols(zcdp, words.decided)
        others["by zCDP"] = f"{setting}, std {span(zcdp['noise'])}, predicted {level(zcdp['bound'])}"
    if leak := leak_of(plan):
        others["as printed"] = (
            f"would spend epsilon {rounded_up(leak.printed)} ({rounded_up(leak.converted)} by the paper's "
            f"conversion) of {rounded_up(leak.budget, 6)}: not private, not used"
        )
    return others


def _noise(plan: PlanPart) -> str:
    law = law_of(plan.mechanism)
    if not law.noisy:
        return "none"
    if not plan.whom.owners_add:
        return f"{law.title}, added by the server alone"
    where = words_of(plan).noised.where(plan.written)
    return f"{law.title}, {law.size_words[0]} {span(noise_of_uploads(plan))} per coordinate{where}"


def _step(plan: PlanPart) -> str:
    if plan.step_size is None:
        return "none stated"
    steps, decay = words_of(plan).decays, plan.step_decay_rounds
    falls = "constant" if decay is None else f"halved after {number(decay)} {steps}"
    momentum = f", momentum {number(plan.momentum)}" if plan.momentum else ""
    what = "" if plan.steering and plan.steering.gain else "the last model "
    momentum += f", {what}scaled by what uploads say" if plan.steering else ""
    own = f"; {number(plan.personal_step_size)} of transforms" if plan.personal_step_size else ""
    own += f"; own models drawn to their mean with strength {number(plan.pull)}" if plan.pull else ""
    return f"{number(plan.step_size)}, {falls}{momentum}{own}"


def _budget(plan: PlanPart) -> str:
    privacy = plan.privacy
    if not privacy.private:
        return "none: every upload is in the clear"
    rows = privacy.clients
    epsilon = span((row.epsilon for row in rows), lambda e: rounded_up(e, 6))
    delta = span((row.delta for row in rows), lambda d: rounded_up(d, 6))
    spent = findings.spent_words([row.spent_epsilon for row in rows])
    return f"epsilon {epsilon}, delta {delta} per {privacy.unit} ({privacy.relation}); spends {spent}"


def _own_budgets(record: RunRecord) -> str:
    """Whose epsilon is how large, client by client; empty where all have the same."""
    privacy = record.plan.privacy
    epsilons = [row.epsilon for row in privacy.clients]
    if not privacy.private or len(set(epsilons)) == 1:
        return ""
    owned = zip(shortened_apart(record.client_names, 40), epsilons, strict=True)
    shown = [f"{name}: {rounded_up(epsilon, 6)}" for name, epsilon in owned][:MOST_CLIENTS]
    more = len(epsilons) - len(shown)
    return ", ".join(shown) + (f" and {count(more, 'more client')} (see --json)" if more else "")


def _over(outcome: findings.Outcome, write) -> str:
    ends = outcome.ends(write)
    return f"{write(outcome.mean)} ({ends})" if ends else write(outcome.mean)


def _cell(record: RunRecord, compare: ComparePart, cell: CellPart) -> dict[str, str]:
    loss, accuracy = (findings.Outcome.of(what, cell.over_seeds(what)) for what in ("loss", "accuracy"))
    terms, row = words_of(record.plan).terms, {"setting": "plan" if cell.planned else "fixed"}
    for axis in compare.axes:
        row[terms[axis].column] = number(cell.setting[axis]) if cell.setting[axis] else "none"
    row["test loss"] = "diverged" if loss is None else level(loss.mean)
    row["least to most"] = "" if loss is None else f"{level(loss.least)} to {level(loss.most)}"
    if findings.is_scored(compare):
        row[findings.score_name(record)] = "" if accuracy is None else findings.score(record, accuracy.mean)
    return row
