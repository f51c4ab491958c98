"""Reproductions as a table for the terminal and as the page docs/reproductions.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table as RichTable

from noiseworthy.experiments.papers.spec import Point, Reproduction, Verdict

STYLES = {"agrees": "green", "partly": "yellow", "disagrees": "red"}
_INTRO = """\
# Reproductions

Every table and figure of the papers, run again: what the paper says, what we measured, and whether we
agree. This page is generated from the results of `noiseworthy reproduce zhou all`; no result is typed.

**How to read it.** *agrees*: the claim held in every case we looked at. *partly*: in at least half of them,
or nearly. *disagrees*: otherwise. How a claim is judged is part of its specification,
`noiseworthy.experiments.papers.zhou_claims`; where a setting is to be the best, 2 % more loss is a tie and
up to 10 % is *partly*. Claims marked *Ours* are this product's, not the paper's.

**What is common to all figures.**

- Noise is what the stated budget needs under replace-one neighbours: exact composition over the ⌈bT/N⌉
  uploads that a client really makes. The paper counts bT/N and leaves a constant of its Gaussian noise open.
- The Gaussian mechanism uses full batches. The paper samples q = 0.01 of the records, which in this
  setting needs *more* noise for the same budget, and adds sampling variance (theory 1.8, item 11).
- The paper says that the step size starts at 0.05 and decays, not how; we take 0.05 / (1 + t/50).
- Seeds change schedule, start and noise; the partition of the records is one and the same. ± is the standard
  deviation over seeds. Losses are test cross-entropies after the last round; ln 10 = 2.303 is a guess.
"""


def verdict_table(results: Sequence[Reproduction]) -> RichTable:
    """Claims, verdicts and the numbers behind them, for the terminal."""
    table = RichTable(title="Reproductions of Zhou et al.", show_lines=True)
    for name, width in (("item", 9), ("claim", None), ("verdict", 9), ("measured", None)):
        table.add_column(name, min_width=width, overflow="fold")
    for result in results:
        for verdict in result.verdicts:
            word = f"[{STYLES[verdict.word]}]{verdict.word}[/]"
            measured = verdict.evidence + (f"\nWhy: {verdict.reason}" if verdict.reason else "")
            table.add_row(result.item, _attributed(verdict), word, measured)
    return table


def write_reproductions(results: Sequence[Reproduction], page: Path) -> Path:
    """Write the page, and a PNG per figure into `figures/` beside it."""
    from noiseworthy.reports.reproduction_figures import draw
    from noiseworthy.reports.style import png

    folder = page.parent / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for result in results:
        if result.points:
            (folder / f"{_name(result)}.png").write_bytes(png(draw(result), dpi=90))
    page.write_text(reproductions_page(results))
    return page


def reproductions_page(results: Sequence[Reproduction]) -> str:
    """The page as markdown: all verdicts, where we disagree and why, then item by item."""
    parts = [_INTRO, _summary(results), _disagreements(results), *(_section(result) for result in results)]
    return "\n".join(part for part in parts if part)


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
    parts = [f'<a id="{_name(result)}"></a>\n\n## {result.title}', " ".join([*result.notes, _effort(result)])]
    if result.points:
        parts.append(f"![{result.title}](figures/{_name(result)}.png)")
    parts += [_verdict(verdict) for verdict in result.verdicts]
    parts += [_details("Entry by entry", _table(table.header, table.rows)) for table in result.tables]
    parts += [_measured(result, mechanism) for mechanism in dict.fromkeys(p.mechanism for p in result.points)]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _effort(result: Reproduction) -> str:
    if not result.points:
        return ""
    minutes = max(1, round(result.seconds / 60))
    return (
        f"{result.seeds} seeds (scale {result.scale:g}; the paper repeats 10 times). Cost of its trainings "
        f"and plans: about {minutes} min on two shared CPU cores."
    )


def _verdict(verdict: Verdict) -> str:
    why = f"\n  Why: {verdict.reason}" if verdict.reason else ""
    return f"- **{verdict.word}**: {_attributed(verdict)}\n  Measured: {verdict.evidence}.{why}"


def _measured(result: Reproduction, mechanism: str) -> str:
    """Losses and accuracies of one mechanism; grid cells folded away."""
    points = [p for p in result.points if p.mechanism == mechanism]
    shown, folded = [p for p in points if p.role != "grid"], [p for p in points if p.role == "grid"]
    name = f"{mechanism.capitalize()}: final loss ± seeds (accuracy) [T, b]"
    return f"{name}\n\n{_points(shown)}" + ("\n" + _details("The grid", _points(folded)) if folded else "")


def _points(points: Sequence[Point]) -> str:
    epsilons = list(dict.fromkeys(p.epsilon for p in points))
    rows = []
    for series, fraction in dict.fromkeys((p.series, p.fraction) for p in points):
        cells = {p.epsilon: _cell(p) for p in points if (p.series, p.fraction) == (series, fraction)}
        label = series if fraction == 1 else f"{series}, {fraction:.0%} of the records"
        rows.append([label, *(cells.get(epsilon, "") for epsilon in epsilons)])
    return _table(["setting", *(f"ε = {epsilon:g}" for epsilon in epsilons)], rows)


def _cell(point: Point) -> str:
    score = f"{point.loss:.3f} ± {point.std('loss'):.3f} ({point.accuracy:.3f})"
    if not point.rounds:
        return f"{score} do not train"
    planned = f"; C={point.clip_norm:.3g}, η={point.step_size:.3g}" if point.role == "planned" else ""
    return f"{score} [{point.rounds}, {point.clients_per_round}{planned}]"


def _attributed(verdict: Verdict) -> str:
    return f"Ours: {verdict.claim}" if verdict.ours else verdict.claim


def _name(result: Reproduction) -> str:
    return f"{result.paper}-{result.item}"


def _details(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{content}\n</details>"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
