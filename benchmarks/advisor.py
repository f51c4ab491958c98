"""Does the advisor rank algorithms as they really rank? The federations of plan_quality.py, all algorithms.

`run` asks for advice on a study, which sees other data sets only, and trains the plan of every algorithm on
the federation itself under seeds that no planner uses; `table` writes docs/advice.md. Kendall's tau-b of
advised and measured places; algorithms within two standard errors share a place. Each cell is kept in
benchmarks/results/advisor and left alone where it is there. Reads the data folder of NOISEWORTHY_DATA.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import typer
from scipy.stats import kendalltau

import noiseworthy as nw
from noiseworthy.sweeps.advisor import Advice, advise
from noiseworthy.trials.advisor import Entry, places
from plan_quality import CELLS, SITES, Cell, prepared, rounded
from quality import Arena, bootstrap_limit, score

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "benchmarks/results/advisor", ROOT / "docs/advice.md"
BEGIN, END = "<!-- begin: written by benchmarks/advisor.py -->", "<!-- end -->"
LEAST_SEEDS = 10
Tables = dict[str, Any]

app = typer.Typer(add_completion=False, help=__doc__)
Names = typer.Option("", "--cells", help="Start of the names of the cells, such as digits-gaussian; all.")
Seconds = typer.Option(600.0, "--seconds", help="Time for the advice on a cell.")
Limit = typer.Option(float("inf"), "--limit", help="Seconds after which no further cell is begun.")


# Measuring --------------------------------------------------------------------------------------------


@app.command()
def run(cells: str = Names, seconds: float = Seconds, limit: float = Limit) -> None:
    """Advise on the cells that are lacking, and train what is advised."""
    started = time.monotonic()
    for cell in CELLS:
        path = RESULTS / f"{cell.name}.json"
        if path.exists() or not cell.name.startswith(cells):
            continue
        if time.monotonic() - started > limit:
            break
        found = measured(cell, seconds)
        RESULTS.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n")
        print(line(cell.name, found))


def measured(cell: Cell, seconds: float) -> Tables:
    """Advised and measured losses, over that of the untrained model, of every algorithm on a cell."""
    tables = {**cell.tables, "planning": {**cell.tables["planning"], "budget_seconds": seconds}}
    made = replace(prepared(cell), study=nw.parse_study(tables))
    advice = advise(made)
    return {
        "cell": list(cell),
        "recommended": advice.recommended,
        "advised": {one.entry.name: rounded(advised_losses(one.entry)) for one in advice.advised},
        "measured": {name: rounded(losses) for name, losses in trained(cell, made, advice).items()},
        "left_out": {one.name: one.reason for one in advice.left_out},
        "unfinished": [one.entry.name for one in advice.advised if one.entry.found.result.unfinished],
    }


def advised_losses(entry: Entry) -> np.ndarray:
    """Mean over public data sets under each common seed; 1 where the advice is not to train."""
    return entry.per_seed if entry.train else np.ones_like(entry.per_seed)


def trained(cell: Cell, made: nw.Prepared, advice: Advice) -> dict[str, np.ndarray]:
    """Losses of the advised plans on the federation itself; 1 where the advice is not to train."""
    found = {one.entry.name: one.entry for one in advice.advised}
    return {name: shares(cell, made, one) for name, one in found.items()}


def shares(cell: Cell, made: nw.Prepared, entry: Entry) -> np.ndarray:
    seeds, (federation, _) = cell.scoring[:LEAST_SEEDS], made.trained()
    if not entry.train:
        return np.ones(len(seeds))
    arena = Arena.of(federation, entry.found.task, made.problem(1.0), SITES[cell.site].records)
    return score(arena, entry.found.plan, seeds).loss / arena.untrained_loss


# The table --------------------------------------------------------------------------------------------


def ranks(found: Tables, kind: str) -> np.ndarray:
    """Places of the algorithms, in the order of their names."""
    return places([found[kind][name] for name in sorted(found["advised"])])


def tau(found: Tables) -> float | None:
    """Kendall's tau-b of advised and measured places; None where all tie in one of them."""
    value = kendalltau(ranks(found, "advised"), ranks(found, "measured")).statistic
    return None if np.isnan(value) else float(value)


def distinct(found: Tables) -> Tables:
    """Without algorithms that do the same as one before them: agreeing on those is no feat."""
    alike = {(*found["advised"][name], *found["measured"][name]): name for name in found["advised"]}
    few = {kind: {name: found[kind][name] for name in alike.values()} for kind in ("advised", "measured")}
    return {**found, **few}


def regret(found: Tables) -> float:
    """What following the advice loses to the best algorithm, as a share of the untrained loss."""
    means = {name: float(np.mean(losses)) for name, losses in found["measured"].items()}
    return means.get(found["recommended"] or "", 1.0) - min(*means.values(), 1.0)


def best(found: Tables) -> str:
    means = {name: float(np.mean(losses)) for name, losses in found["measured"].items()}
    return min(means, key=lambda name: means[name])


def untried(found: Tables) -> list[str]:
    """Algorithms whose turn did not come in the time of the cell: they have no place in its ranking."""
    return [name for name, reason in found["left_out"].items() if "the time ran out" in reason]


def line(name: str, found: Tables) -> str:
    taus = [tau(found), tau(distinct(found))]
    every, different = ("all tie" if value is None else f"{value:.2f}" for value in taus)
    advised = found["recommended"] or "do not train"
    cut = f"{len(found['unfinished'])} of {len(found['advised'])}"
    lost = f"{100 * regret(found):.1f}"
    shown = (name, advised, best(found), every, different, lost, cut, str(len(untried(found))))
    return "| " + " | ".join(shown) + " |"


COLUMNS = ("cell", "recommended", "best measured", "Kendall's tau-b", "of different algorithms",
           "lost by the advice, % of untrained", "races cut short", "not tried for want of time")  # fmt: skip


def summary(kept: dict[str, Tables]) -> str:
    """Mean agreement over cells, with a lower limit over federations."""
    known: dict[str, list[float]] = {}
    for found in kept.values():
        if (value := tau(found)) is not None:
            known.setdefault(found["cell"][0], []).append(value)
    if not known:
        return "No cell has been measured yet."
    every = np.concatenate([*known.values()])
    different = [value for found in kept.values() if (value := tau(distinct(found))) is not None]
    lost = [100 * regret(found) for found in kept.values()]
    whole = [tau(found) for found in kept.values() if len(untried(found)) <= 1]
    settled = [value for value in whole if value is not None]
    lower = -bootstrap_limit({site: [-v for v in values] for site, values in known.items()}, np.mean)
    return (
        f"Kendall's tau-b over {len(every)} cells of {len(known)} federations: mean {every.mean():.2f} "
        f"(lower 95 % limit {lower:.2f}), least {every.min():.2f}. "
        f"Counting algorithms that do the same once, the mean is {np.mean(different):.2f}. Following the "
        f"advice loses {np.mean(lost):.1f} % of the untrained loss on average, at most {max(lost):.1f} %. "
        f"In {len(kept) - len(whole)} cells two or more algorithms were not tried for want of time; in the "
        f"others tau-b is {np.mean(settled):.2f} in the mean."
    )


@app.command()
def table() -> None:
    """Write the table of docs/advice.md."""
    paths = [RESULTS / f"{cell.name}.json" for cell in CELLS]
    kept = {path.stem: json.loads(path.read_text()) for path in paths if path.exists()}
    header = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines = [BEGIN, summary(kept), "", *header, *(line(name, found) for name, found in kept.items()), END]
    text = PAGE.read_text()
    before, after = text[: text.index(BEGIN)], text[text.index(END) + len(END) :]
    PAGE.write_text(before + "\n".join(lines) + after)


if __name__ == "__main__":
    app()
