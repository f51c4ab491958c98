"""An advice for people: a table in the terminal, one HTML page with its figure, and its claim card."""

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Group
from rich.table import Table
from rich.text import Text

from noiseworthy._places import write_whole, writing
from noiseworthy._wording import number, percent, rounded_up, span
from noiseworthy.privacy.trust import ADVERSARY
from noiseworthy.reports.advice_figures import advice_figure, outlook_figure
from noiseworthy.reports.claim_card import FILE as CARD
from noiseworthy.reports.claim_card import NOT_COVERED, SCHEMA
from noiseworthy.reports.html import PAGES, toml
from noiseworthy.reports.style import svg, write_png
from noiseworthy.reports.tables import CHOSEN, WIDTH, panel, ruled
from noiseworthy.sweeps.advice_words import ends, written
from noiseworthy.sweeps.typed_advice import AdviceRecord, AdvisedPart

FILE, PAGE, STUDY = "advice.json", "report.html", "recommended.toml"
_NAMES = {1: "kB", 2: "MB", 3: "GB", 4: "TB"}


def write_advice(record: dict[str, Any], folder: Path) -> Path:
    """Write `advice.json`, `claim_card.json`, `report.html`, the figure, and what to train as a study.

    What an earlier advice left there and this one has no use for is removed.

    Args:
        record: the advice, as plain values.
        folder: the run folder.

    Returns:
        The page.

    Raises:
        DataError: a folder that cannot be written to.
    """
    advice = AdviceRecord.view(record)
    figures = {"advice": advice_figure(advice), "outlook": outlook_figure(advice)}
    drawn = {name: figure for name, figure in figures.items() if figure is not None}
    with writing(f"run folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / FILE, json.dumps(record, indent=1, allow_nan=False))
        write_whole(folder / CARD, json.dumps(advice_card(advice), indent=1, ensure_ascii=False))
        for name in figures:
            write_png(drawn.get(name), folder / f"{name}.png")
        if advice.study is None:
            (folder / STUDY).unlink(missing_ok=True)
        else:
            write_whole(folder / STUDY, f"# {advice.recommendation}\n{toml(advice.study)}\n")
        write_whole(folder / PAGE, page(advice, drawn))
    return folder / PAGE


def page(advice: AdviceRecord, figures: dict[str, Figure]) -> str:
    """The page as a string, which loads nothing over the network."""
    return PAGES.get_template("advice.html.jinja").render(
        advice=advice, card=advice_card(advice), headline=headline(advice), rows=rows(advice),
        drawings={name: svg(figure, name) for name, figure in figures.items()},
        prices=prices(advice), plans=plans(advice),
        study=None if advice.study is None else toml(advice.study),
    )  # fmt: skip


def headline(advice: AdviceRecord) -> str:
    """The answer in a few words."""
    return "Do not train" if advice.recommended is None else f"Train with {advice.recommended}"


# Tables -----------------------------------------------------------------------------------------------


def rows(advice: AdviceRecord) -> list[dict[str, str]]:
    """A row for each algorithm with what it would reach: place, score with its bands, loss, spread."""
    return [
        {
            "algorithm": one.name,
            "place": str(one.place),
            "reaches": written(advice.score, one.accuracy.mean) if one.train else "do not train",
            "over data sets and seeds": ends(advice, one.accuracy.least, one.accuracy.most),
            "over seeds": ends(advice, one.accuracy.seeds_least, one.accuracy.seeds_most),
            "loss": f"{one.loss.mean:.3f} ± {number(one.loss.standard_error, 2)}",
            "spread": percent(one.spread),
        }
        for one in advice.algorithms
    ]


def prices(advice: AdviceRecord) -> list[dict[str, str]]:
    """A row for each algorithm with what it takes: privacy, uploads, bytes, local steps and resources."""
    return [
        {
            "algorithm": one.name,
            "epsilon": rounded_up(one.privacy.spent_epsilon),
            "of one": one.privacy.unit,
            "uploads": span(one.cost.uploads),
            "sends": in_bytes(one.cost.bytes),
            "local steps": f"{one.cost.local_steps:,}",
            **({} if one.cost.resources is None else {one.cost.unit or "": number(one.cost.resources)}),
        }
        for one in advice.algorithms
    ]


def plans(advice: AdviceRecord) -> list[dict[str, str]]:
    """What each algorithm would do, and what it takes for granted."""
    return [
        {"algorithm": one.name, "plan": settings(one), "takes for granted": "; ".join(one.assumes)}
        for one in advice.algorithms
    ]


def settings(one: AdvisedPart) -> str:
    """The plan of an algorithm in a line."""
    if not one.train:
        return one.outcome
    plan = one.plan
    said = [f"clip {number(plan.clip_norm)} ({plan.clip.upper()})", f"step {number(plan.step_size)}"]
    others = {name: getattr(plan, name) for name in ("momentum", "averaging", "weighting")}
    said += [f"{name} {number(value)}" for name, value in others.items() if value]
    said += [f"steering {number(plan.steering.gain)}"] if plan.steering and plan.steering.gain else []
    said += [f"mode {plan.clipping_mode}"] if plan.clipping_mode else []
    return f"{one.outcome.removesuffix('.').removesuffix(', chosen by trial')}; {', '.join(said)}"


def in_bytes(many: float) -> str:
    """Bytes in a unit that people read.

    Example:
        >>> in_bytes(640), in_bytes(256_000), in_bytes(3.1e9)
        ('640 B', '256 kB', '3.1 GB')
    """
    power = 0
    while many >= 1000 and power < 4:
        many, power = many / 1000, power + 1
    return f"{number(many)} {_NAMES.get(power, 'B')}"


def advice_panel(record: dict[str, Any] | AdviceRecord) -> Group:
    """The recommendation and the table, readable at 80 columns."""
    advice = AdviceRecord.view(record)
    parts = [Text(advice.recommendation, style="bold")]
    parts += [Text(line) for line in advice.remarks]
    parts += [Text(f"! {line}", style="yellow") for line in advice.warnings]
    beside = [f"{one['algorithm']}: {one['plan']}" for one in plans(advice)]
    beside += [f"without {one.name}: {one.reason}" for one in advice.left_out]
    return Group(panel("advice", *parts), _table(advice), *(Text(line, style="dim") for line in beside))


_COLUMNS = ("place", "algorithm", "reaches", "loss", "epsilon", "of one", "uploads", "sends")


def _table(advice: AdviceRecord) -> Table:
    table = ruled(width=WIDTH)
    for name in _COLUMNS:
        table.add_column(
            "" if name == "place" else name, justify="left" if name == "algorithm" else "right", no_wrap=True
        )
    for row, price, one in zip(rows(advice), prices(advice), advice.algorithms, strict=True):
        chosen = one.name == advice.recommended
        shown = {**row, **price, "loss": f"{one.loss.mean:.3f}"}
        shown["reaches"] = shown["reaches"] if one.train else "–"
        table.add_row(*(shown[name] for name in _COLUMNS), style=CHOSEN if chosen else None)
    return table


# What it claims about privacy -------------------------------------------------------------------------

_NEIGHBOURS = {
    "replace-one": "exchanged for another; sizes are public",
    "add-remove": "left out or added; what means divide by is public",
}


def advice_card(advice: AdviceRecord) -> dict[str, Any]:
    """The claim card of an advice, after the questions of NIST SP 800-226.

    Nothing has been trained: each epsilon is that of a plan.

    Args:
        advice: its record.

    Returns:
        Plain values: the claim of the recommended plan in a sentence, what each plan would spend, and
        `questions` with their answers.
    """
    return {
        "schema": SCHEMA,
        "run": advice.name,
        "version": advice.version,
        "claim": _claim(advice),
        "adversary": advice.algorithms[0].privacy.adversary,
        "assurance": None,
        "plans": {one.name: one.privacy.written for one in advice.algorithms},
        "questions": [
            {"question": asked, "answer": said, "points": []} for asked, said in _answers(advice).items()
        ],
    }


def _claim(advice: AdviceRecord) -> str:
    chosen = [one for one in advice.algorithms if one.name == advice.recommended]
    if not chosen:
        return "Nothing is recommended, so nothing is spent."
    privacy = chosen[0].privacy
    whom = "everybody who sees them" if privacy.adversary == ADVERSARY else privacy.adversary
    return (
        f"Training with {advice.recommended} would spend at most epsilon {rounded_up(privacy.spent_epsilon)} "
        f"at delta {rounded_up(privacy.delta, 6)} for each {privacy.unit}, over all uploads, against {whom}."
    )


def _answers(advice: AdviceRecord) -> dict[str, str]:
    relation = advice.algorithms[0].privacy.relation
    return {
        "What did this advice cost?": "Nothing: it was made on public data and public facts (sizes, budgets, "
        "shape of records). No private record was read and no noise was drawn.",
        "Who would be protected, and which change is hidden?": "One record, or one client with everything "
        "that it holds, as the column says; an epsilon of one is not to be compared with that of the other. "
        f"Under {relation} neighbours: it is {_NEIGHBOURS[relation]}.",
        "From whom?": f"From {advice.algorithms[0].privacy.adversary}.",
        "How is the loss counted?": "For the client that is worst off, by its greatest number of releases, "
        f"exactly, in noiseworthy {advice.version}. Plans are alternatives: to train several adds up.",
        "Has it been measured?": "No: nothing has been trained. The command audit attacks a plan.",
        "What is not covered by any epsilon?": NOT_COVERED,
    }
