"""Results from pages of reproductions, where measurements were not kept: means, deviations, seeds.

The pages of docs/reproductions once were all that was kept of their trainings. This reads one such page, item
by item, into results as `noiseworthy reproduce` writes them, with what the page holds of every setting: mean
and deviation of its loss, the mean of its accuracy, and where a table of the page has it, that deviation too.
Such results are judged like others, but without pairing by seed; where no deviation was kept nothing can be
told.

    git show COMMIT:docs/reproductions/hou.md > old.md
    python benchmarks/recall_pages.py hou old.md docs/reproductions/results
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from noiseworthy.privacy.mechanisms import Family
from noiseworthy_papers import PAPERS
from noiseworthy_papers.judge import verdict
from noiseworthy_papers.keeping import judged_again, save
from noiseworthy_papers.ma import estimates_claims as estimates
from noiseworthy_papers.ma.constants import STARTS
from noiseworthy_papers.points import NO_NOISE, Point, Recalled, Statistic
from noiseworthy_papers.settings import FedSGD, Setting, algorithm_of, quantities
from noiseworthy_papers.spec import Arm, Figure, Paper, Reproduction, SelfMeasured, Series, Table

_EFFORT = re.compile(
    r" ?(\d+) seeds \(scale ([\d.]+)(?:; the paper repeats (\d+) times)?\)\. Cost of its trainings and "
    r"plans: about (\d+) (s|min) on two shared CPU cores\."
)
_CELL = re.compile(r"(\S+) ± (\S+) \((\S+)\) (?:\[(.*?)(?:; C=(\S+), η=(\S+))?\]|do not train)$")
_DETAILS = re.compile(r"<details><summary>(.*?)</summary>\n\n(.*?)\n</details>", re.DOTALL)
_HEADING = re.compile(r"^(Gaussian|Laplace): final .*$", re.MULTILINE)
_UTILITY = re.compile(r"(\S+) ± (\S+) %")
Cells = dict[tuple[str, str, str], list[str]]
Place = tuple[str, str, float | None, float | None]
Utilities = dict[Place, tuple[float, float]]


def recalled(paper: Paper, page: str, known: Collection[str]) -> Iterator[Reproduction]:
    """The results that a page holds, in its order, but those of known items."""
    for section in page.split('<a id="')[1:]:
        name = section.split('"')[0].removeprefix(f"{paper.name}-")
        if name in known:
            continue
        item = paper.items[name]
        if isinstance(item, SelfMeasured):
            yield _estimated(paper, name, item, section)
        else:
            effort = _EFFORT.search(section)
            scale = float(effort[2]) if effort else 1.0
            found = item if isinstance(item, Figure) else item(scale)
            yield (
                judged_again(paper, _figure(paper, name, found, section))
                if isinstance(found, Figure)
                else found
            )


def _figure(paper: Paper, name: str, figure: Figure, section: str) -> Reproduction:
    effort = _EFFORT.search(section)
    if effort is None:
        raise ValueError(f"{name} does not say what it took")
    seeds, scale, repeats = int(effort[1]), float(effort[2]), int(effort[3] or 0)
    seconds = float(effort[4]) * (60 if effort[5] == "min" else 1)
    tables, cells = _tables(section), _cells(section)
    points = list(_points(figure, cells, tables, seeds))
    points = [replace(point, seconds=seconds / len(points)) for point in points]
    bench, notes = figure.bench, [_notes(section)]
    return Reproduction(
        paper=paper.name, item=name, title=_title(section), layout=figure.layout, loss=bench.loss,
        data=bench.source, scale=scale, seeds=seeds, repeats=repeats, points=points,
        tables=tables, notes=notes,
    )  # fmt: skip


def _points(figure: Figure, cells: Cells, tables: list[Table], seeds: int) -> Iterator[Point]:
    """Every setting that the figure trains, with the numbers of its cell."""
    utilities = _utilities(tables)
    for alpha, arm, fraction in product(
        figure.alphas or (figure.bench.alpha,), figure.arms, figure.fractions
    ):
        for series, epsilon in product(arm.series, arm.epsilons):
            row = series.label if fraction == 1 else f"{series.label}, {fraction:.0%} of the records"
            column = "ε = ∞" if epsilon == NO_NOISE else f"ε = {epsilon:g}"
            column += f", α = {alpha:g}" if len(figure.alphas) > 1 else ""
            left = cells.get((arm.mechanism, row, column), [])
            if not left:
                raise ValueError(f"{figure.title}: no cell {arm.mechanism}, {row}, {column}")
            places = product((epsilon, None), (alpha, None))
            known = [utilities.get((arm.mechanism, series.label, *place)) for place in places]
            known = next((one for one in known if one), None)
            yield _point(arm, series, epsilon, fraction, alpha, left.pop(0), seeds, known)


def _point(
    arm: Arm,
    series: Series,
    epsilon: float,
    fraction: float,
    alpha: float | None,
    cell: str,
    seeds: int,
    known: tuple[float, float] | None,
) -> Point:
    found = _CELL.match(cell)
    if found is None:
        raise ValueError(f"cannot read {cell!r}")
    loss, std, accuracy, chosen, clip, step = found.groups()
    setting = _setting(series, epsilon, fraction, chosen)
    mean, deviation = known or (float(accuracy), float("nan"))
    return Point(
        arm.mechanism, epsilon, fraction, series.label, series.role,
        "" if setting is None else algorithm_of(setting), quantities(setting),
        float(clip or arm.clip_norm), float(step or arm.step.initial), [], [], [], 0.0,
        budget=float("inf") if arm.costs is None else arm.costs.budget, alpha=alpha,
        recalled=Recalled(seeds, float(loss), float(std), mean, deviation),
    )  # fmt: skip


def _setting(series: Series, epsilon: float, fraction: float, chosen: str | None) -> Setting | None:
    if chosen is None:
        return None
    if series.setting is not None:
        return series.setting(epsilon, fraction)
    if not series.label.startswith("our plan"):
        raise ValueError(f"the page does not say what {series.label!r} planned; measure it again")
    rounds, clients = chosen.split(", ")
    return FedSGD(int(rounds), int(clients))


def _cells(section: str) -> Cells:
    """Cells of the tables of settings by mechanism, row and column; several where a page repeats them."""
    found: Cells = {}
    parts = _HEADING.split(section)
    for mechanism, text in zip(parts[1::2], parts[2::2], strict=True):
        for header, *rows in _grids(text):
            for row, (column, cell) in (
                (r[0], pair) for r in rows for pair in zip(header[1:], r[1:], strict=True)
            ):
                if cell:
                    found.setdefault((mechanism.lower(), row, column), []).append(cell)
    return found


def _grids(text: str) -> list[list[list[str]]]:
    """Tables of markdown as lists of rows, the header first."""
    blocks = re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE)
    rows = [
        [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in b.strip().split("\n")]
        for b in blocks
    ]
    return [[_wide(row, len(grid[0])) for i, row in enumerate(grid) if i != 1] for grid in rows]


def _wide(row: list[str], width: int) -> list[str]:
    return row + [""] * (width - len(row))


def _tables(section: str) -> list[Table]:
    return [
        Table(grid[0], grid[1:], title)
        for title, text in _DETAILS.findall(section.split("Gaussian: final")[0].split("Laplace: final")[0])
        for grid in _grids(text)
    ]


def _utilities(tables: list[Table]) -> Utilities:
    """Mean and deviation of accuracies by mechanism, series, epsilon and alpha, where a table has them."""
    found: Utilities = {}
    for table in tables:
        for row in table.rows:
            if table.header == ["noise", "algorithm", "paper", "ours"]:
                found |= _utility((row[0], row[1], None, None), row[3])
            elif table.title.startswith("Final accuracy"):
                for column, cell in zip(table.header[1:], row[1:], strict=True):
                    mechanism, *varying = column.split(" ")
                    named = dict(part.split("=") for part in varying)
                    epsilon, alpha = (float(named[s]) if s in named else None for s in "εα")
                    found |= _utility((mechanism, row[0], epsilon, alpha), cell)
    return found


def _utility(place: Place, cell: str) -> Utilities:
    value = _UTILITY.match(cell)
    return {} if value is None else {place: (float(value[1]) / 100, float(value[2]) / 100)}


def _title(section: str) -> str:
    return re.search(r"^## (.*)$", section, re.MULTILINE)[1]  # pyright: ignore[reportOptionalSubscript]


def _notes(section: str) -> str:
    """The paragraph under the title, without what it says of effort."""
    return _EFFORT.sub("", section.split("\n\n")[2]).strip()


# Estimates of Ma et al. ---------------------------------------------------------------------------------


def _estimated(paper: Paper, name: str, item: SelfMeasured, section: str) -> Reproduction:
    seeds, tables = 5, _tables(section)
    bare = Reproduction(
        paper=paper.name, item=name, title=_title(section), data="", scale=1.0, seeds=seeds, repeats=seeds,
        tables=tables, notes=[_notes(section)],
    )  # fmt: skip
    if name == "table-3":
        claims = estimates.constants_claims(_constants(tables[0]))
        return replace(bare, verdicts=[verdict(claim, []) for claim in claims])
    told = re.search(r"the noise of a client's mean report .*?\.$", section, re.MULTILINE)
    notes = [*bare.notes, told[0][0].upper() + told[0][1:]] if told else bare.notes
    result = replace(bare, notes=notes, estimates={}, statistics=_statistics(section, tables[0], seeds))
    return judged_again(paper, result)


def _statistics(section: str, table: Table, seeds: int) -> list[Statistic]:
    names = {"ours": estimates.OURS, "a client's own reports": estimates.RAW, "the paper's": estimates.PAPERS,
             "none, clients alike": estimates.ALIKE}  # fmt: skip
    scores = ("likeness", "distance", "excess")
    biased = re.search(r"rank correlation of T_n\* and ε_n (\S+) ± (\S+)\.$", section, re.MULTILINE)
    if biased is None:
        raise ValueError("the page does not say whom stage 2 asks")
    likeness = {"likeness": _kept(biased[1], biased[2], seeds)}
    found = [Statistic(estimates.DECISION, likeness, recalled=True)]
    for whose, *cells in table.rows:
        values = {s: _value(cell, seeds) for s, cell in zip(scores, cells, strict=True) if cell}
        found.append(Statistic(names[whose], values, recalled=True))
    return found


def _value(cell: str, seeds: int) -> list[float]:
    share = 100 if cell.endswith("%") else 1
    mean, std = cell.removesuffix(" %").split(" ± ")
    return [value / share for value in _kept(mean, std, seeds)[:2]] + [float(seeds)]


def _kept(mean: str, std: str, seeds: int) -> list[float]:
    return [float(mean.replace(",", "")), float(std.replace(",", "")), float(seeds)]


def _constants(table: Table) -> dict[tuple[str, Family], dict[str, Any]]:
    """What Table III was judged on, from its rows; a residual is counted against a loss of 1."""
    found: dict[tuple[str, Family], dict[str, Any]] = {}
    for data, noise, by, rho, gamma, smooth, mu, _, residual in table.rows:
        one = found.setdefault(
            (data, "laplace" if noise == "laplace" else "gaussian"), {"loss": 1.0, "p2": []}
        )
        values = {"gamma": float(gamma), "smoothness": float(smooth), "strong_convexity": float(mu)}
        if by in {f"P2 from {start:g}" for start in STARTS}:
            one["p2"].append({**values, "residual": float(residual)})
            one["rho_min"] = float(rho)
        elif by != "paper":
            one["regularised" if by == "P2′" else "public"] = values
    return found


def main(name: str, page: str, folder: str) -> None:
    """Write every result of a page that the folder does not hold yet."""
    paper = PAPERS[name]
    known = {item for item in paper.items if (Path(folder) / f"{name}-{item}.json").exists()}
    for result in recalled(paper, Path(page).read_text(), known):
        save(result, folder)
        print(f"{name}-{result.item}: {len(result.points)} settings, {len(result.statistics)} statistics")


if __name__ == "__main__":
    main(*sys.argv[1:])
