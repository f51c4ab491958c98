"""Panels and tables of a record for the terminal, readable at 80 columns."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from noiseworthy.reports.findings import (
    Outcome,
    Record,
    final,
    finding,
    is_scored,
    lost_gain,
    most_spent,
    notes_of,
    predicted_beside,
    score,
    score_name,
    warnings_of,
)
from noiseworthy.reports.privacy_statement import privacy_statement
from noiseworthy.reports.schedules import (
    TERMS,
    clipped_to,
    is_local,
    local_steps,
    noise_falls,
    what_is_clipped,
)
from noiseworthy.reports.wording import count, finite, level, number, rounded_up, span, times

WIDTH = 80


def plan_panel(record: Record) -> Panel:
    """The decision, its price and what it rests on."""
    plan = record["plan"]
    facts = _facts()
    if plan["train"]:
        if is_local(plan):
            _fact(facts, "local steps", local_steps(plan))
        _fact(facts, "uploads", f"{span(plan['releases'])} per client, paid for by its noise")
        _fact(facts, "noise", _noise(plan))
        _fact(facts, "clip", f"{clipped_to(plan)}: {what_is_clipped(plan)}")
        _fact(facts, "step size", _step(plan))
    _fact(facts, "privacy", _budget(plan))
    if plan["predicted"]:
        predicted = plan["predicted"]
        _fact(
            facts,
            "predicted",
            f"{level(predicted['bound'])}, untrained {level(predicted['no_training'])} ({predicted['unit']})",
        )
    _fact(facts, "rests on", "; ".join(provenances(record)) or "nothing: all was stated")
    return _panel("plan", plan["outcome"], facts, _remarks(record, training=False))


def training_panel(record: Record) -> Panel | None:
    """How training ended and what it spent; None without training."""
    training, loss = record["training"], final(record, "loss")
    if not training or loss is None:
        return None
    facts = _facts()
    predicted = record["plan"]["predicted"]
    foretold = f", predicted {level(predicted['bound'])}" if predicted_beside(record) else ""
    _fact(
        facts, "test loss", f"{_over(loss, level)}, untrained {level(training['untrained_loss'])}{foretold}"
    )
    if (accuracy := final(record, "accuracy")) is not None:
        _fact(facts, f"test {score_name(record)}", _over(accuracy, lambda value: score(record, value)))
    _fact(facts, "asked", f"each client {times(span(u for seed in training['uploads'] for u in seed))}")
    spent = most_spent(record) or []
    known = [value for value in spent if value is not None]
    bounded = len(known) == len(spent)
    _fact(
        facts,
        "spent",
        f"epsilon {span(known, rounded_up)} per client" if bounded else "without bound: no noise",
    )
    seeds = f"{count(len(training['seeds']), 'seed')}, {number(training['seconds'], 2)} s"
    return _panel("training", seeds, facts, _remarks(record, training=True))


def comparison_table(record: Record) -> RenderableType | None:
    """Mean test loss (and score) of the plan beside each fixed setting; None without a comparison."""
    compare = record["compare"]
    if not compare:
        return None
    cells = sorted(compare["cells"], key=lambda cell: (not cell["planned"], finite(cell["loss"]).mean()))
    scored = is_scored({**record, "training": None})
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", expand=False)
    table.add_column("setting")
    axes = compare["axes"]
    for name in (*(TERMS[axis].column for axis in axes), "test loss", "least to most"):
        table.add_column(name, justify="right")
    if scored:
        table.add_column(score_name(record), justify="right")
    shown = cells[: 1 + MOST_CELLS]
    for cell in shown:
        table.add_row(*_cell(record, cell, scored), style="bold dark_orange3" if cell["planned"] else None)
    hidden = len(cells) - len(shown)
    rest = (
        Text(f"and {count(hidden, 'worse setting')}; all are in the report\n", style="dim")
        if hidden
        else Text()
    )
    untrained = f"lost gain {lost_gain(record)}, untrained loss {level(compare['untrained_loss'])}"
    title = Text.assemble((f"{finding(record)}", "bold"), (f"\n{untrained}", "dim"))
    return Group(Rule(style="dim"), title, table, rest)


MOST_CELLS = 8
"""Fixed settings shown in the terminal, best first."""


def statement_text(record: Record) -> Group:
    """The privacy statement for the terminal."""
    styles = {"claim": "bold", "limit": "bold", "warning": "bold red"}
    parts = []
    for clause in privacy_statement(record):
        parts.append(Text.assemble((f"{clause.title}. ", styles[clause.kind]), clause.text))
        parts += [Text(f"  - {point}") for point in clause.points]
    return Group(*parts)


def provenances(record: Record) -> list[str]:
    """Where the constants come from, each source with the names of its constants.

    Example:
        >>> provenances({"plan": {"constants": {"a": {"value": 1, "provenance": "assumed"}}}})
        ['assumed: a']
    """
    sources: dict[str, list[str]] = {}
    for name, constant in record["plan"]["constants"].items():
        sources.setdefault(constant["provenance"], []).append(name.replace("_", " "))
    return [f"{source}: {', '.join(names)}" for source, names in sources.items()]


# Parts ------------------------------------------------------------------------------------------------


def _facts() -> Table:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    return facts


def _fact(facts: Table, name: str, value: str) -> None:
    """A row, its value as it is: brackets in names of data are no markup."""
    facts.add_row(name, Text(value))


def _panel(title: str, head: str, facts: Table, remarks: list[Text]) -> Panel:
    parts: list[RenderableType] = [Text(head, style="bold"), Text(), facts]
    parts += [Text(), *remarks] if remarks else []
    return Panel(
        Group(*parts), title=f"[bold]{title}[/]", title_align="left", border_style="dim", width=WIDTH
    )


def _remarks(record: Record, *, training: bool) -> list[Text]:
    """Warnings in yellow; the planner's notes only where nothing was trained yet."""
    if training:
        return [Text(f"! {line}", style="yellow") for line in warnings_of(record)]
    loud = [Text(f"! {line}", style="yellow") for line in warnings_of({**record, "training": None})]
    return [*loud, *(Text(note, style="dim") for note in notes_of(record))]


def _noise(plan: Record) -> str:
    if plan["mechanism"] == "none":
        return "none"
    size = "scale" if plan["mechanism"] == "laplace" else "std"
    first = f"{size} {span(plan['noise'])} per coordinate{noise_falls(plan)}"
    return f"{plan['mechanism'].capitalize()}, {first}"


def _step(plan: Record) -> str:
    if plan["step_size"] is None:
        return "none stated"
    if plan["step_decay_rounds"] is None:
        return f"{number(plan['step_size'])}, constant"
    steps = "local steps" if is_local(plan) else "rounds"
    return f"{number(plan['step_size'])}, halved after {number(plan['step_decay_rounds'])} {steps}"


def _budget(plan: Record) -> str:
    privacy = plan["privacy"]
    if not privacy["private"]:
        return "none: every upload is in the clear"
    rows = privacy["clients"]
    epsilon = span((row["epsilon"] for row in rows), lambda e: number(e, 6))
    delta = span((row["delta"] for row in rows), lambda d: number(d, 6))
    spent = span((row["spent_epsilon"] for row in rows), rounded_up)
    return f"epsilon {epsilon}, delta {delta} per {privacy['unit']} ({privacy['relation']}); spends {spent}"


def _over(outcome: Outcome, write) -> str:
    spread = "" if outcome.least == outcome.most else f" ({write(outcome.least)} to {write(outcome.most)})"
    return f"{write(outcome.mean)}{spread}"


def _cell(record: Record, cell: Record, scored: bool) -> list[str]:
    loss, accuracy = Outcome.of("loss", cell["loss"]), Outcome.of("accuracy", cell["accuracy"])
    row = ["plan" if cell["planned"] else "fixed"]
    row += [number(cell[axis]) if cell[axis] else "none" for axis in record["compare"]["axes"]]
    row += (
        ["diverged", ""] if loss is None else [level(loss.mean), f"{level(loss.least)} to {level(loss.most)}"]
    )
    return row + ([] if not scored else ["" if accuracy is None else score(record, accuracy.mean)])
