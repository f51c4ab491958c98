"""How plans do on federations that nobody chose by hand: cells of a half, split by a hash of their names.

`oracle` searches each cell on its private records, which nobody may do who plans; `plan` asks the product for
its plan with `[planning] public = "auto"`, the federation's own data and its relatives left out; `score`
trains the plan under seeds that neither saw; `table` sums up. Each step keeps what it found in
benchmarks/results/judge and leaves alone what is there, so that it goes on where it was stopped. Reads the
data folder of NOISEWORTHY_DATA, river and statsmodels.

Nothing about a planner may be chosen on the judging half.
"""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from judging.cells import Cell, cells, prepared
from judging.defaults import defaults_of
from judging.grid import SCORING, Ground, Search, of_means
from judging.pages import KINDS, kinds, marks, page, summary
from judging.picture import drawn
from noiseworthy.errors import UserError
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.trust import TrustModel
from noiseworthy.studies.centring import may_centre
from noiseworthy.studies.label_mean import with_label_mean
from noiseworthy.studies.plan_codec import decoded, encoded
from noiseworthy.studies.planner import plan_study
from noiseworthy.tasks.table import TaskTable
from quality import score

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "results" / "judge", ROOT / "docs" / "plan_quality.md"
FIGURE = ROOT / "docs" / "figures" / "judged.png"
Tables = dict[str, Any]
app = typer.Typer(add_completion=False, help=__doc__, pretty_exceptions_enable=False)
Half = Annotated[Literal["tuning", "judging"], typer.Option(help="Which half of the federations.")]
Trusted = Annotated[TrustModel, typer.Option(help="Whom owners trust; of sums cells of Gaussian noise.")]
Only = Annotated[str, typer.Option(help="Start of the names of the cells, such as segment-laplace; all.")]


def read(name: str) -> Tables | None:
    """What was kept under a name."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def write(name: str, content: Tables) -> None:
    """Keep it, whole or not at all."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    draft = RESULTS / f"{name}.draft"
    draft.write_text(json.dumps(content) + "\n")
    draft.replace(RESULTS / f"{name}.json")


def lacking(half: str, only: str, trust: TrustModel, kind: str) -> list[Cell]:
    """Cells of a half without a result of a kind."""
    return [
        one for one in cells(half, trust) if one.name.startswith(only) and read(f"{one.name}{kind}") is None
    ]


@app.command()
def oracle(half: Half = "tuning", only: Only = "", trust: Trusted = "local") -> None:
    """Search every cell on its own records, and score the stated defaults."""
    for cell in lacking(half, only, trust, ""):
        started, made = time.process_time(), prepared(cell)
        search = Search(Ground(made))
        best = found_by(search)
        untrained = search.ground.untrained
        federation, _ = made.trained()
        content = {
            "cell": list(cell),
            "epsilon": made.study.privacy.epsilon,
            "deal": dataclasses.asdict(cell.evidence.deal),
            "sizes": [federation.n_clients, int(federation.sizes.sum()), *federation.record_shape],
            "classes": federation.classes,
            "means": True,
            "untrained": {"loss": untrained[0], "accuracy": untrained[1]},
            "best": best,
            "defaults": {name: scored(*found) for name, found in defaults_of(search).items()},
            "trainings": search.trainings,
            "cpu seconds": round(time.process_time() - started, 1),
        }
        write(cell.name, content)
        said(cell, content, f"untrained {untrained[0]:.4g}, best {np.mean(best['loss']):.4g}")


@app.command()
def means(half: Half = "tuning", only: Only = "", trust: Trusted = "local") -> None:
    """Search cells that were searched before from what clients may tell of their means; keep what is better.

    Records of classes are seen against it, and intercepts of numbers start at that of the labels.
    """
    for cell in cells(half, trust):
        found = read(cell.name)
        if not cell.name.startswith(only) or found is None or {"means", "label means"} <= found.keys():
            continue
        started, made = time.process_time(), prepared(cell)
        told = with_label_mean(made)
        of_records = "means" not in found and may_centre(made)
        searches = [Search(Ground(made), of_means)] * of_records + [Search(Ground(told))] * (told is not made)
        if not searches:
            continue
        for search in searches:
            best = found_by(search)
            found["trainings"] += search.trainings
            if best["setting"]["loss"] < found["best"]["setting"]["loss"]:
                found["best"] = best
        found |= {"means": True, "label means": told is not made}
        found["cpu seconds"] = round(found["cpu seconds"] + time.process_time() - started, 1)
        write(cell.name, found)
        said(cell, found, f"best {np.mean(found['best']['loss']):.4g}")


@app.command()
def plan(half: Half = "tuning", only: Only = "", trust: Trusted = "local") -> None:
    """Ask the product for its plans."""
    for cell in lacking(half, only, trust, ".plan"):
        started = time.process_time()
        try:
            made, decision = plan_study(prepared(cell))
        except UserError as refusal:
            content: Tables = {"error": str(refusal)}
        else:
            foretold = None if decision.foretold is None else dataclasses.asdict(decision.foretold)
            content = {
                "plan": encoded(decision.plan),
                "task": made.study.task.model_dump(mode="json"),
                "spread": None if decision.spread is None else float(decision.spread),
                "foretold": foretold,
                "outcome": decision.plan.outcome,
            }
        content["cpu seconds"] = round(time.process_time() - started, 1)
        write(f"{cell.name}.plan", content)
        said(cell, content, content.get("outcome", content.get("error", "")))


@app.command("score")
def score_plans(half: Half = "tuning", only: Only = "", trust: Trusted = "local") -> None:
    """Train every plan under the scoring seeds; a study without a plan is not trained."""
    for cell in lacking(half, only, trust, ".score"):
        if (kept := read(f"{cell.name}.plan")) is None:
            continue
        started, ground = time.process_time(), Ground(prepared(cell))
        if "error" in kept:
            arena = ground.of_task({"bias": 0.0})
            loss, accuracy = (
                np.full(len(SCORING), one) for one in (arena.untrained_loss, arena.untrained_accuracy)
            )
        else:
            task = TaskTable.model_validate(kept["task"])
            plan, keys = decoded(kept["plan"], Plan), TaskTable.model_fields
            arena = ground.of_task({name: getattr(task, name) for name in keys}, plan.ranges)
            loss, accuracy = score(arena, plan, [int(seed) for seed in SCORING])
        content = scored(loss, accuracy) | {"cpu seconds": round(time.process_time() - started, 1)}
        write(f"{cell.name}.score", content)
        said(cell, content, f"loss {np.mean(loss):.4g}")


@app.command()
def table(half: Half = "tuning", only: Only = "", trust: Trusted = "local") -> None:
    """Print the summary of what was scored; what the page tells of it is written as well, with its picture.

    The page tells of single uploads in the judging half, and of sums in both halves.
    """
    halves = [half] if trust == "local" else ["judging", "tuning"]
    rows = [
        (cell, found, read(f"{cell.name}.plan"), read(f"{cell.name}.score"))
        for one in halves
        for cell in cells(one, trust)
        if cell.name.startswith(only) and (found := read(cell.name)) is not None
    ]
    typer.echo(summary(rows))
    text, (begin, end) = PAGE.read_text(), marks(trust)
    if (half == "judging" or trust != "local") and not only and begin in text:
        text = text[: text.index(begin)] + page(rows, trust) + text[text.index(end) + len(end) :]
        if trust == "local":
            (begin, end), by_kind = KINDS, kinds(rows)
            text = text[: text.index(begin)] + by_kind + text[text.index(end) + len(end) :]
            FIGURE.write_bytes(drawn(rows))
        PAGE.write_text(text)
    else:
        typer.echo(page(rows, trust))


def found_by(search: Search) -> Tables:
    """The best setting that a search finds, with its losses and accuracies under the seeds that report."""
    search.run()
    best = search.chosen()
    return {"setting": best._asdict() | {"line": _line(best.line)}, **scored(*search.scored(best))}


def scored(loss: np.ndarray, accuracy: np.ndarray) -> Tables:
    """Losses and accuracies of every seed, five digits each, which is more than any seed repeats."""
    return {
        "loss": [float(f"{one:.5g}") for one in loss],
        "accuracy": [float(f"{one:.5g}") for one in accuracy],
    }


def said(cell: Cell, content: Tables, what: str) -> None:
    """A line on the way."""
    typer.echo(f"{cell.name}: {what} ({content['cpu seconds']} s)")


def _line(line: Any) -> Tables:
    return line._asdict() | {
        "seen": {"keys": dict(line.seen.keys), "model": line.seen.model, "share": line.seen.share}
    }


if __name__ == "__main__":
    app()
