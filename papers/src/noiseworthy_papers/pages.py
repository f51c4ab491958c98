"""Reproductions as a table for the terminal and as a page of docs/reproductions, one per paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table as RichTable
from rich.text import Text

from noiseworthy_papers.coverage import MISSING, STATUSES, Covered, counted, coverage, summed
from noiseworthy_papers.judge import NEAR, SLACK, Verdict
from noiseworthy_papers.points import Point
from noiseworthy_papers.selecting import numeral
from noiseworthy_papers.settings import SYMBOLS
from noiseworthy_papers.spec import Paper, Reproduction

STYLES = {"agrees": "green", "partly": "yellow", "disagrees": "red", "not testable here": "cyan"}
_COUNTS, _END = "<!-- counts: written by benchmarks/keep_results.py -->", "<!-- end -->"
_INTRO = """\
# Reproductions of {authors}

Tables and figures of the paper, run again: what the paper says, what we measured, and whether we agree.
This page is generated from the results of `noiseworthy reproduce {name} ITEM`; no result is typed.

**How to read it.** One judge serves all papers, and our own claims (marked *Ours*) like theirs. In each case
that a claim speaks of it takes a difference over seeds, paired where seeds are known, and asks whether it is
beyond two standard errors; with few seeds more of them are asked, by Student's t: 2.9 with five, 14 with two.
*agrees*: every case holds. Where at least half of the cases can be told, *partly*: at least as many hold as
fail, and *disagrees*: fewer. *not testable here*: otherwise. Equal neighbours are no evidence of an order. A
setting ties with the best if it loses at most {slack:.0%} of what that gains over not training; an optimum is
where it is said to be within a factor of {near:g}. In brackets after an optimum stand all values that are not
told to be worse. ± is the deviation over seeds. What a claim compares is data in
`noiseworthy_papers.{name}.claims`.

**What is common to all figures.**

{common}"""


def verdict_table(paper: Paper, results: Sequence[Reproduction]) -> RichTable:
    """Claims, verdicts and the numbers behind them, for the terminal."""
    table = RichTable(title=f"Reproductions of {paper.authors}", show_lines=True)
    for name, width in (("item", 9), ("claim", None), ("verdict", 9), ("measured", None)):
        table.add_column(name, min_width=width, overflow="fold")
    for result in results:
        for verdict in result.verdicts:
            word = Text(verdict.word, STYLES[verdict.word])
            measured = verdict.evidence + (f"\nWhy: {verdict.reason}" if verdict.reason else "")
            table.add_row(result.item, _attributed(verdict), word, measured)
    return table


def write_reproductions(
    paper: Paper, results: Sequence[Reproduction], folder: str | Path, *, drawn: bool = True
) -> Path:
    """Write the page of a paper into a folder and, if drawn, a PNG per figure into its `figures/`."""
    from noiseworthy.reports.participation import estimation_figure
    from noiseworthy.reports.style import png
    from noiseworthy.studies.typed_record import EstimatedPart
    from noiseworthy_papers.figures import draw

    page, figures = Path(folder) / f"{paper.name}.md", Path(folder) / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for result in results:
        if drawn and _is_drawn(result):
            shown = (
                draw(result)
                if result.estimates is None
                else estimation_figure(EstimatedPart(**result.estimates))
            )
            (figures / f"{_name(result)}.png").write_bytes(png(shown, dpi=90))
    page.write_text(reproductions_page(paper, results))
    return page


def reproductions_page(paper: Paper, results: Sequence[Reproduction]) -> str:
    """The page as markdown: all verdicts, where we disagree and why, then item by item."""
    intro = _INTRO.format(
        authors=paper.authors, name=paper.name, common=paper.common, slack=SLACK, near=NEAR,
    )  # fmt: skip
    sections = [_section(result) for result in results]
    parts = [intro, _covered(paper, results), _summary(results), _disagreements(results), *sections]
    return "\n".join(part for part in parts if part)


def _covered(paper: Paper, results: Sequence[Reproduction]) -> str:
    """How much of the paper is measured, so that nobody takes a page for all of it."""
    items = coverage(paper, results)
    rest = [f"{one.item} ({one.why})" for one in items if one.status == MISSING]
    listed = f"\n\n**Not measured**, but ready to run: {'; '.join(rest)}." if rest else ""
    return f"**Measured**: {summed(items)}; [item by item](items.md).{listed}\n"


def _summary(results: Sequence[Reproduction]) -> str:
    rows = [
        [f"[{result.title.split(':')[0]}](#{_name(result)})", _attributed(verdict), f"**{verdict.word}**"]
        for result in results
        for verdict in result.verdicts
    ]
    return "## Verdicts\n\n" + _table(["item", "claim", "verdict"], rows)


def _disagreements(results: Sequence[Reproduction]) -> str:
    """One line per reason, with the claims it answers."""
    by_reason: dict[str, list[str]] = {}
    for result in results:
        for verdict in result.verdicts:
            if verdict.reason:
                claim = f"{result.title.split(':')[0]}, *{verdict.claim.rstrip('.')}*"
                by_reason.setdefault(verdict.reason, []).append(claim)
    if not by_reason:
        return ""
    lines = [f"- {'; '.join(claims)}. {reason}" for reason, claims in by_reason.items()]
    return "## Where we do not fully agree, and why\n\n" + "\n".join(lines) + "\n"


def _section(result: Reproduction) -> str:
    parts = [
        f'<a id="{_name(result)}"></a>\n\n## {result.title}',
        " ".join([*result.notes, _effort(result), _recalled(result)]),
    ]
    if _is_drawn(result):
        parts.append(f"![{result.title}](figures/{_name(result)}.png)")
    parts += [_verdict(verdict) for verdict in result.verdicts]
    parts += [_details(table.title, _table(table.header, table.rows)) for table in result.tables]
    parts += [_measured(result, mechanism) for mechanism in dict.fromkeys(p.mechanism for p in result.points)]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _is_drawn(result: Reproduction) -> bool:
    return result.layout is not None or result.estimates is not None


def _effort(result: Reproduction) -> str:
    if not result.points:
        return ""
    minutes = result.seconds / 60
    cost = f"{minutes:.0f} min" if minutes >= 1 else f"{max(result.seconds, 1):.0f} s"
    repeats = f"; the paper repeats {result.repeats} times" if result.repeats else ""
    return (
        f"{result.seeds} seeds (scale {result.scale:g}{repeats}). Cost of its trainings and plans: about "
        f"{cost} on two shared CPU cores."
    )


def _recalled(result: Reproduction) -> str:
    """That only a page was left of the trainings, and how they are measured again."""
    if not any(p.recalled for p in result.points) and not any(s.recalled for s in result.statistics):
        return ""
    return (
        "**Only means and deviations were kept** of these trainings: they are judged without pairing, "
        "not at all where no deviation was kept, and measured again with `noiseworthy reproduce "
        f"{result.paper} {result.item} --scale {result.scale:g} --out FOLDER`."
    )


def _verdict(verdict: Verdict) -> str:
    why = f"\n  Why: {verdict.reason}" if verdict.reason else ""
    return f"- **{verdict.word}**: {_attributed(verdict)}\n  Measured: {verdict.evidence}.{why}"


def _measured(result: Reproduction, mechanism: str) -> str:
    """Losses and accuracies of one mechanism; grid cells folded away."""
    points = [p for p in result.points if p.mechanism == mechanism]
    shown, folded = [p for p in points if p.role != "grid"], [p for p in points if p.role == "grid"]
    symbols = dict.fromkeys(", ".join(SYMBOLS[p.algorithm]) for p in points if p.algorithm)
    what = f"final {result.loss.name.removeprefix('test ')} ± seeds ({result.loss.quality})"
    name = f"{mechanism.capitalize()}: {what} [{' or '.join(symbols)}]"
    return f"{name}\n\n{_points(shown)}" + ("\n" + _details("The grid", _points(folded)) if folded else "")


def _points(points: Sequence[Point]) -> str:
    """A row per series; several where it has several settings under one budget."""
    several = len({p.alpha for p in points}) > 1
    columns = list(dict.fromkeys(_column(p, several) for p in points))
    rows: dict[tuple[str, float, int], dict[str, str]] = {}
    for point in points:
        place, column = 0, _column(point, several)
        while column in rows.get((point.series, point.fraction, place), {}):
            place += 1
        rows.setdefault((point.series, point.fraction, place), {})[column] = _cell(point)
    return _table(
        ["setting", *columns],
        [[_row(*key), *(cells.get(column, "") for column in columns)] for key, cells in rows.items()],
    )


def _column(point: Point, several_alphas: bool) -> str:
    budget = f"ε = {numeral(point.epsilon)}"
    return f"{budget}, α = {point.alpha:g}" if several_alphas else budget


def _row(series: str, fraction: float, place: int) -> str:
    return series if fraction == 1 else f"{series}, {fraction:.0%} of the records"


def _cell(point: Point) -> str:
    score = f"{_loss(point.loss)} ± {_loss(point.std('loss'))} ({point.accuracy:.3f})"
    if not point.rounds:
        return f"{score} do not train"
    chosen = ", ".join(f"{point.setting[name]:g}" for name in SYMBOLS[point.algorithm].values())
    planned = f"; C={point.clip_norm:.3g}, η={point.step_size:.3g}" if point.role == "planned" else ""
    return f"{score} [{chosen}{planned}]"


def _loss(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1e5 else f"{value:.3g}"


def _attributed(verdict: Verdict) -> str:
    return f"Ours: {verdict.claim}" if verdict.ours else verdict.claim


def _name(result: Reproduction) -> str:
    return f"{result.paper}-{result.item}"


def _details(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{content}\n</details>"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


# How much is measured -----------------------------------------------------------------------------------


def counts_table(items: Sequence[Covered]) -> str:
    """How many of each paper's own tables and figures are measured in full, in miniature, and not."""
    papers = dict.fromkeys(one.paper for one in items)
    rows = [[name, *_counts([one for one in items if one.paper == name])] for name in papers]
    header = ["paper", *STATUSES, "tables and figures", "items of ours"]
    return _table(header, [*rows, ["all", *_counts(items)]])


def items_page(items: Sequence[Covered]) -> str:
    """Every item with what was measured of it, as a page of markdown."""
    rows = [
        [one.paper, one.item, "ours" if one.ours else "", one.status, one.why.replace("|", "/")]
        for one in items
    ]
    return (
        "# Tables and figures, one by one\n\n"
        "What was measured of every item that `noiseworthy reproduce` knows. This page is generated from the "
        "kept results.\n\n"
        f"{counts_table(items)}\n"
        "*in miniature*: fewer repeats, clients, rounds or records than the paper's, or a simpler model; the "
        "last column says which. *ours*: no table or figure of the paper.\n\n"
        + _table(["paper", "item", "", "measured", "how, or why not"], rows)
    )


def with_counts(index: str, items: Sequence[Covered]) -> str:
    """The index page with the table of counts between its two marks."""
    before, rest = index.split(_COUNTS, 1)
    return f"{before}{_COUNTS}\n\n{counts_table(items)}\n{_END}{rest.split(_END, 1)[1]}"


def _counts(items: Sequence[Covered]) -> list[str]:
    by_status = counted(items)
    numbers = [*(by_status[status] for status in STATUSES), sum(by_status.values())]
    return [str(number) for number in (*numbers, sum(one.ours for one in items))]
