"""What owners reach alone, with the planned shared model, and with it tuned at home: docs/at_home.md.

    python benchmarks/at_home.py score [--cells vehicle]
    python benchmarks/at_home.py owners [--cells vehicle]
    python benchmarks/at_home.py published [--cells vehicle]
    python benchmarks/at_home.py pulls
    python benchmarks/at_home.py table

The plans are those that benchmarks/plan_quality.py keeps; each is trained under a few seeds, and every owner
is scored on its own test records. `advise` plans the same study for its owners and keeps what it foretells.
All write a file for each cell into benchmarks/results/at_home and leave alone what is there. Reads the data
folder of NOISEWORTHY_DATA.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import typer
from numpy.typing import ArrayLike

import noiseworthy as nw
import plan_quality as bench
from noiseworthy.data import Federation, load_records
from noiseworthy.home.base import AtHome, Own
from noiseworthy.home.candidates import CANDIDATES, PUBLISHED, own_model
from noiseworthy.home.owners import Scored, merits_at_home, overall_score, owners_at_home
from noiseworthy.home.scores import merits
from noiseworthy.studies.models import open_task
from noiseworthy.studies.planner import plan_study
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.training import Run, train
from noiseworthy.tasks import Task

ROOT = Path(__file__).parent
RESULTS = ROOT / "results" / "at_home"
PAGE = ROOT.parent / "docs" / "at_home.md"
BEGIN, END = "<!-- begin: written by benchmarks/at_home.py -->", "<!-- end -->"
bench.SITES["school"] = bench.Site(
    {"data": "school"},
    {"model": "linear", "bias": True},
    ("lending-club", "diabetes-progression"),
    label_scale=0.4,
    gaussian=bench.SMALL,
)
"""Its plans are made here: docs/plan_quality.md has none."""
WRITERS = 100
"""Of MNIST, by number, some 110 digits each, of which every fifth is a test record of its writer."""


@cache
def writers() -> str:
    """A file of MNIST by who wrote it, in which test digits are of the same people as training digits."""
    records = load_records("mnist-writers")
    ids = np.asarray(records.client_ids)
    kept = np.isin(ids, np.unique(ids)[:WRITERS])
    place = np.arange(kept.sum())
    path = Path(tempfile.mkdtemp()) / "mnist-by-writer.npz"
    split = np.where(place % 5 == 0, "test", "train")
    np.savez(path, x=records.x[kept], label=records.y[kept], client=ids[kept], split=split)
    return str(path)


def by_writer() -> bench.Site:
    """MNIST by who wrote it; its plans are made here."""
    table = {"data": writers(), "client_column": "client", "label_column": "label", "classes": [*range(10)]}
    return bench.Site(table, bench.SOFTMAX, ("fashion-mnist", "digits"), gaussian=bench.SMALL)


SITES = ("heart-disease", "vehicle", "lending-club", "adult")
SEEDS = range(2000, 2003)
HEARTS = {"task": {"model": "softmax"}, "planning": {"public": "auto"}}
SCHOOL = {"task": {"model": "linear", "bias": True}, "planning": {"public": "auto", "label_scale": 0.4}}
POINT = 0.01
CELLS = [cell for site in SITES for cell in bench.CELLS if cell.site == site]
CELLS += [bench.Cell("school", "gaussian", epsilon) for epsilon in bench.SMALL]
CELLS += [bench.Cell("mnist-writers", "gaussian", epsilon) for epsilon in bench.SMALL]
Tables = dict[str, Any]

app = typer.Typer(add_completion=False, help=__doc__, pretty_exceptions_enable=False)


@app.command()
def score(cells: str = typer.Option("", "--cells", help="Start of the names of the cells; all.")) -> None:
    """Train the plans of cells and score every owner."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    for cell in CELLS:
        path = RESULTS / f"{cell.name}.json"
        if cell.name.startswith(cells) and not path.exists():
            path.write_text(json.dumps(measured(cell)) + "\n")
            print(path.name, flush=True)


@app.command()
def owners(cells: str = typer.Option("", "--cells", help="Start of the names of the cells; all.")) -> None:
    """Plan cells for their owners and for others by one planner, train both and score every owner."""
    for cell in CELLS:
        for to in ("owners", "others"):
            path = RESULTS / f"{cell.name}.{to}.json"
            if cell.name.startswith(cells) and not path.exists():
                path.write_text(json.dumps(planned_for(cell, to)) + "\n")
                print(path.name, flush=True)


def planned_for(cell: bench.Cell, to: str) -> Tables:
    """What every owner reaches under every seed by a plan, and what a plan for owners foretells."""
    study = nw.parse_study({**cell.tables, "deliver": {"to": to}})
    made, decision = plan_study(replace(bench.prepared(cell), study=study))
    federation, task = made.trained()
    thetas = [np.asarray(task.initial(jax.random.key(0)))]
    if decision.plan.train:
        thetas = np.asarray(train(decision.plan, federation, task, SEEDS, evaluations=1).theta)
    home = decision.foretold and decision.foretold.home
    return {
        "outcome": decision.plan.outcome,
        "rounds": decision.plan.rounds,
        **({"advice": home.as_dict() | {"overall": home.overall}} if home else {}),
        "seeds": [as_plain(owners_at_home(federation, task, theta)) for theta in thetas],
    }


@app.command()
def published(cells: str = typer.Option("", "--cells", help="Start of the names of the cells; all.")) -> None:
    """Train the plans of cells and hold published ways to tune against ours."""
    for cell in CELLS:
        path = RESULTS / f"{cell.name}.published.json"
        if cell.name.startswith(cells) and not path.exists():
            federation, task, thetas = trained(cell)
            ways = CANDIDATES | PUBLISHED
            every = [owners_at_home(federation, task, theta, candidates=ways) for theta in np.asarray(thetas)]
            path.write_text(json.dumps({"seeds": [{"overall": one.overall} for one in every]}) + "\n")
            print(path.name, flush=True)


@app.command()
def pulls() -> None:
    """Own models of MR-MTL under pulls of several strengths, beside what owners make of their mean."""
    ways = CANDIDATES | {"Ditto": PUBLISHED["Ditto"]}
    studies = ("heart-disease", HEARTS, 1), ("heart-disease", HEARTS, 4), ("school", SCHOOL, 1)
    for name, tables, epsilon in studies:
        raw = {
            "federation": {"data": name},
            "privacy": {"mechanism": "gaussian", "epsilon": epsilon, "delta": 1e-5},
            "algorithm": {"name": "mr-mtl"},
            "deliver": {"to": "owners"},
        }
        made, decision = plan_study(prepare(nw.parse_study(raw | tables)))
        federation, model = made.trained()
        for pull in (0, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10):
            run = train(replace(decision.plan, pull=pull), federation, model, SEEDS, evaluations=1)
            found = [_kept(federation, model, run, place, ways) for place in range(len(SEEDS))]
            reached = {way: round(float(np.mean([one[way] for one in found])), 3) for way in found[0]}
            print(name, epsilon, f"T = {decision.plan.rounds}, pull {pull}:", reached, flush=True)


def _kept(
    federation: Federation, task: Task, run: Run, place: int, ways: dict[str, AtHome]
) -> dict[str, float]:
    """What owners reach with their own models of a training, with its mean, and in other ways."""
    theta, memory = run.theta[place], run.memory
    assert memory is not None
    own = merits_at_home(federation, task, theta, ways, owned=lambda owner: memory(place, owner)[0])
    mean = merits_at_home(federation, task, theta, {"mean": CANDIDATES["shared"]})
    return {way: overall_score(merits) for way, merits in (own | mean).items()}


def trained(cell: bench.Cell) -> tuple[Federation, Task, ArrayLike]:
    """A cell, its model, and the parameters that its plan reaches under every seed."""
    if (kept := bench.read(f"{cell.name}.plan")) is None:
        made, decision = plan_study(bench.prepared(cell))
        return *made.trained(), train(decision.plan, *made.trained(), SEEDS, evaluations=1).theta
    study = nw.parse_study({**cell.tables, "task": kept["task"]})
    made = bench.prepared(cell)
    federation, _ = made.trained()
    task = open_task(study, federation.record_shape, federation.classes)
    made = replace(made, study=study, task=task, dimension=task.dimension)
    plan = bench.as_plan(made, kept["plan"])
    start = np.asarray(task.initial(jax.random.key(0)))
    return (
        federation,
        task,
        train(plan, federation, task, SEEDS, evaluations=1).theta if plan.train else [start],
    )


def measured(cell: bench.Cell) -> Tables:
    """All owners at home under every seed, and a model of all records together, without privacy."""
    federation, task, thetas = trained(cell)
    start = np.asarray(task.initial(jax.random.key(0)))
    x = np.asarray(task.prepare(jnp.asarray(federation.x.reshape(-1, *federation.record_shape))))
    used = (np.arange(federation.x.shape[1]) < federation.sizes[:, None]).ravel()
    pooled = own_model(task, start, Own(x[used], federation.y.ravel()[used]), 0)
    test_x, variance = (
        np.asarray(task.prepare(jnp.asarray(federation.test_x))),
        float(np.var(federation.test_y)),
    )
    together = merits(task, pooled, test_x, federation.test_y, variance)
    return {
        "owners": len(federation.sizes),
        "records": [int(federation.sizes.min()), int(federation.sizes.max())],
        "named": federation.test_owners is not None,
        "score": "R²" if federation.classes is None else "accuracy",
        "pooled": float(together.mean()),
        "seeds": [as_plain(owners_at_home(federation, task, theta)) for theta in np.asarray(thetas)],
    }


def as_plain(found: Scored) -> Tables:
    """What the table needs of a training."""
    gains, least, most = found.gains, *found.gain_limits.T
    return {
        "overall": found.overall,
        "errors": found.errors,
        "higher": int(np.sum(gains > 0)),
        "lower": int(np.sum(gains < 0)),
        "gain": int(np.sum(least > 0)),
        "pay": int(np.sum(most < 0)),
    }


def mean(found: Tables, part: str, name: str) -> float:
    return float(np.mean([seed[part][name] for seed in found["seeds"]]))


def count(found: Tables, name: str) -> str:
    return f"{np.mean([seed[name] for seed in found['seeds']]):.0f}"


def better(found: Tables) -> str:
    """Which of alone and shared has the larger score."""
    return max(("alone", "shared"), key=lambda name: mean(found, "overall", name))


def ahead(found: Tables) -> tuple[float, float]:
    """Tuned less the better of alone and shared, and its standard error over owners that are drawn."""
    other = better(found)
    gap = mean(found, "overall", "tuned") - mean(found, "overall", other)
    return gap, mean(found, "errors", other)


def foretold(found: Tables, write: Callable[[float], str]) -> tuple[str, str]:
    """What trials on public data said before, and what they advised."""
    if (said := found.get("advice")) is None:
        return "", ""
    return ", ".join(write(said["overall"][name]) for name in ("alone", "shared", "tuned")), said["best"]


def behind(found: Tables) -> float:
    """Score of the best of the three less that of the one that was advised."""
    reached = {name: mean(found, "overall", name) for name in ("alone", "shared", "tuned")}
    return max(reached.values()) - reached[found["advice"]["best"]]


def in_units(score: str) -> Callable[[float], str]:
    """How scores are written: R² as such, accuracies in percent."""
    if score == "R²":
        return lambda value: f"{round(value, 3) + 0.0:.3f}"
    return lambda value: f"{100 * value:.1f}"


def line(cell: bench.Cell, found: Tables) -> str:
    """One row of the table in Markdown."""
    write = in_units(found["score"])
    gap, error = ahead(found)
    least, most = found["records"]
    cells = [
        cell.site, f"{found['owners']} ({least} to {most})", cell.mechanism, f"{cell.epsilon:g}",
        *(write(mean(found, "overall", name)) for name in ("alone", "shared", "tuned")),
        write(found["pooled"]),
        f"{write(gap)} ± {write(error)}", f"{count(found, 'higher')} / {count(found, 'lower')}",
        f"{count(found, 'gain')} / {count(found, 'pay')}", *foretold(found, write),
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


COLUMNS = (
    "federation", "owners (records)", "noise", "ε", "alone", "shared", "tuned", "pooled, no privacy",
    "tuned less the better", "higher / lower", "beyond chance", "foretold: alone, shared, tuned", "advice",
)  # fmt: skip


def text(found: dict[bench.Cell, Tables]) -> str:
    """The table with its summary."""
    held = [gap >= -error for gap, error in map(ahead, found.values())]
    advised = [behind(one) for one in found.values() if "advice" in one]
    wins = {name: sum(better(one) == name for one in found.values()) for name in ("alone", "shared")}
    rows = [
        "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS),
        *(line(cell, one) for cell, one in found.items()),
    ]  # fmt: skip
    summary = (
        f"Tuned at home is at least as good as the better of alone and shared, within a standard error, in "
        f"{sum(held)} of {len(held)} cells. Own models beat the shared one in {wins['alone']} of them. "
        f"The advice, made on public data alone, is the best of the three or within a point of it in "
        f"{sum(gap <= POINT for gap in advised)} of {len(advised)}."
    )
    return "\n".join([*rows, "", summary, *for_owners(found), *ways(found)])


BY_OWNERS = (
    "federation", "noise", "ε", "alone", "shared", "tuned", "shared, planned for owners",
    "tuned, planned for owners", "foretold: alone, shared, tuned", "advice", "short of the best",
)  # fmt: skip


def for_owners(found: dict[bench.Cell, Tables]) -> list[str]:
    """The table of plans by one planner, for others and for owners."""
    again = {cell: one for cell, one in found.items() if "owners_plan" in one}
    if not again:
        return []
    rows, short, gains = [], {}, []
    for cell, one in again.items():
        write, new, old = in_units(one["score"]), one["owners_plan"], one["others_plan"]
        short[cell] = behind(new)
        gains.append(mean(new, "overall", "tuned") - mean(old, "overall", "tuned"))
        cells = [
            cell.site, cell.mechanism, f"{cell.epsilon:g}",
            *(write(mean(old, "overall", name)) for name in ("alone", "shared", "tuned")),
            *(write(mean(new, "overall", name)) for name in ("shared", "tuned")),
            *foretold(new, write), write(short[cell]),
        ]  # fmt: skip
        rows.append("| " + " | ".join(cells) + " |")
    wrong = [cell.name for cell, gap in short.items() if gap > POINT]
    right = len(again) - len(wrong)
    said = (
        f"Planned for owners, tuned models score {100 * float(np.mean(gains)):+.1f} points in the mean of "
        f"these {len(again)} cells ({100 * min(gains):+.1f} to {100 * max(gains):+.1f}; R² in hundredths). "
        f"The advice is the best of the three or within a point of it in {right} of {len(again)}"
    )
    return [
        "", "Cells that one planner planned both ways, for others and for what owners make of the model:", "",
        "| " + " | ".join(BY_OWNERS) + " |", "|" + "---|" * len(BY_OWNERS), *rows, "",
        f"{said}; wrong: {', '.join(wrong)}." if wrong else f"{said}.",
    ]  # fmt: skip


def ways(found: dict[bench.Cell, Tables]) -> list[str]:
    """The table of published ways to tune."""
    names = ("alone", "shared", "tuned", *PUBLISHED)
    rows = [
        f"| {cell.site} | {cell.mechanism} | {cell.epsilon:g} | "
        + " | ".join(in_units(one["score"])(mean(one["published"], "overall", name)) for name in names)
        + " |"
        for cell, one in found.items()
        if "published" in one
    ]
    if not rows:
        return []
    head = ["| federation | noise | ε | " + " | ".join(names) + " |", "|" + "---|" * (3 + len(names))]
    return ["", "The same shared models, tuned in ways that were published:", "", *head, *rows]


@app.command()
def table() -> None:
    """Write the table of docs/at_home.md."""
    paths = {cell: RESULTS / f"{cell.name}.json" for cell in CELLS}
    found = {cell: json.loads(path.read_text()) for cell, path in paths.items() if path.exists()}
    for cell, one in found.items():
        if (said := RESULTS / f"{cell.name}.advice.json").exists():
            one["advice"] = json.loads(said.read_text())
        if (ours := RESULTS / f"{cell.name}.published.json").exists():
            one["published"] = json.loads(ours.read_text())
        for to in ("owners", "others"):
            if (again := RESULTS / f"{cell.name}.{to}.json").exists():
                one[f"{to}_plan"] = json.loads(again.read_text())
    page = PAGE.read_text()
    head, rest = page.split(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n\n{text(found)}\n\n{END}{rest.split(END, 1)[1]}")


if __name__ == "__main__":
    bench.SITES["mnist-writers"] = by_writer()
    app()
