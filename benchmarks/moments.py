"""One upload beside many: moments and FedSGD-DPC, each planned as a user would, on real tables.

`measure` plans both on what ships with the product, the table's relatives left out, and trains both on the
table itself under seeds that no planner uses; what is in benchmarks/results/moments is left alone, so that
it goes on where it was stopped. `page` writes the table of docs/one_upload.md from it. All federations are of
the tuning half.
"""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import noiseworthy as nw
from federations import FEDERATIONS
from judging.cells import DELTA
from judging.grid import SCORING, Ground
from noiseworthy.studies.planner import plan_study
from noiseworthy.tasks.table import TaskTable
from quality import score

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "results" / "moments", ROOT / "docs" / "one_upload.md"
BEGIN, END = "<!-- tables: begin -->\n", "<!-- tables: end -->\n"
TABLES = (
    "breast-cancer", "elnino", "heart-disease", "trump-approval", "fair-affair", "letters", "school-score",
    "banana",
)  # fmt: skip
"""Classes and numbers to predict, 5 to 33 features, 4 to 500 owners."""
LEVELS = (100.0, 1000.0)
"""How much privacy leaves, as in the bench of plan quality."""
METHODS = ("moments", "fedsgd-dpc")
app = typer.Typer(add_completion=False, help=__doc__, pretty_exceptions_enable=False)


def epsilon_of(level: float, clients: int, records: int, classes: int | None) -> float:
    """level sqrt(N K) / n, rounded to 1, 2, 5, 10, ... and at most 20: as in the bench of plan quality."""
    series = np.outer(10.0 ** np.arange(-2, 2), (1, 2, 5)).ravel()
    wanted = level * np.sqrt(clients * max(classes or 2, 2)) / records
    return float(np.clip(series[np.argmin(np.abs(np.log(series / wanted)))], 0.1, 20.0))


def measured(name: str, method: str, level: float) -> dict[str, Any]:
    """Test loss over the untrained one of a planned training, mean over seeds, and its uploads."""
    started, evidence = time.process_time(), FEDERATIONS[name]
    tables = {**evidence.study(), "algorithm": {"name": method}}
    gaussian = {"mechanism": "gaussian", "delta": DELTA}
    first = nw.prepare(nw.parse_study({**tables, "privacy": {**gaussian, "epsilon": 1.0}}))
    federation, _ = first.trained()
    records = int(federation.sizes.sum())
    epsilon = epsilon_of(level, federation.n_clients, records, federation.classes)
    study = nw.parse_study({**tables, "privacy": {**gaussian, "epsilon": epsilon}})
    made = dataclasses.replace(first, study=study, relatives=evidence.relatives)
    made, decision = plan_study(made)
    planning, ground = time.process_time() - started, Ground(made)
    task: TaskTable = made.study.task
    keys = TaskTable.model_fields
    arena = ground.of_task({key: getattr(task, key) for key in keys}, decision.plan.ranges)
    loss, accuracy = score(arena, decision.plan, [int(seed) for seed in SCORING])
    plan = decision.plan
    return {
        "clients": federation.n_clients,
        "records": records,
        "width": arena.task.dimension // arena.task.outputs,
        "classes": federation.classes,
        "epsilon": epsilon,
        "train": plan.train,
        "uploads": int(plan.uploads.max()) if plan.train else 0,
        "numbers": plan.numbers,
        "loss": float(np.mean(loss) / arena.untrained_loss),
        "spread": float(np.std(loss) / arena.untrained_loss),
        "accuracy": float(np.mean(accuracy)),
        "foretold": None if decision.foretold is None else float(decision.foretold.loss),
        "planning cpu seconds": round(planning, 1),
        "outcome": plan.outcome,
    }


@app.command()
def measure(only: Annotated[str, typer.Option(help="Start of the names of the cells.")] = "") -> None:
    """Plan and train what is not kept yet."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    for level in LEVELS:
        for name in TABLES:
            for method in METHODS:
                path = RESULTS / f"{name}-{level:g}-{method}.json"
                if path.exists() or not path.name.startswith(only):
                    continue
                found = measured(name, method, level)
                path.write_text(json.dumps(found, indent=1) + "\n")
                said = f"loss {found['loss']:.3f}, {found['uploads']} uploads"
                typer.echo(f"{path.stem}: {said} ({found['planning cpu seconds']} s)")


@app.command()
def page() -> None:
    """Write the table of the page from what is kept."""
    head = ("table", "owners", "records", "features", "\u03b5", "one upload", "gradients", "their uploads")
    rows = [head, ("---",) * len(head)]
    for level in LEVELS:
        for name in TABLES:
            found = [RESULTS / f"{name}-{level:g}-{method}.json" for method in METHODS]
            if all(path.exists() for path in found):
                one, many = (json.loads(path.read_text()) for path in found)
                rows.append((name, *_cells(one, many)))
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"
    page = PAGE.read_text()
    before, after = page[: page.index(BEGIN) + len(BEGIN)], page[page.index(END) :]
    PAGE.write_text(before + text + after)


def _cells(one: dict[str, Any], many: dict[str, Any]) -> tuple[str, ...]:
    losses = [f"{found['loss']:.3g}" if found["train"] else "not trained" for found in (one, many)]
    best = int(many["loss"] < one["loss"])
    if abs(one["loss"] - many["loss"]) > 0.005 * max(one["loss"], many["loss"]):
        losses[best] = f"**{losses[best]}**"
    facts = (str(one["clients"]), f"{one['records']:,}", str(one["width"]), f"{one['epsilon']:g}")
    return (*facts, *losses, str(many["uploads"]))


if __name__ == "__main__":
    app()
