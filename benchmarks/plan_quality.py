"""How much of the attainable gain does a plan lose? Seven real federations, two noises, three budgets.

    lost gain = (L_plan - L_best) / (L_untrained - L_best)

`oracle` trains a full grid on the private records of every cell, which nobody may do who plans; `plan` asks
the product for its plan of the same study, which sees other data sets only; `score` trains the plan under
seeds that neither saw; `table` writes docs/plan_quality.md and its figure. Each step keeps what it found in
benchmarks/results/plan_quality and leaves alone what is there. `studies` writes the studies as TOML files,
for `noiseworthy plan`. Reads the data folder of NOISEWORTHY_DATA.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from rich.progress import Progress

import noiseworthy as nw
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.reports.style import MUTED, PLAN, head, new_figure, png, styled
from noiseworthy.studies.models import open_task
from noiseworthy.studies.planner import plan_study
from oracle import Oracle, Tried, best_of_lines, judge, search
from quality import Arena, Scores, bootstrap_limit, lost_gain, p90, score

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "benchmarks/results/plan_quality", ROOT / "docs/plan_quality.md"
FIGURE = ROOT / "docs/figures/plan-quality.png"
BEGIN, END = "<!-- begin: written by benchmarks/plan_quality.py -->", "<!-- end -->"
DELTA, RECORDS = 1e-5, 200
Tables = dict[str, Any]

# Federations and budgets ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Site:
    """A federation of the bar.

    Attributes:
        federation: its table.
        task: its table.
        public: data sets that may be looked at, never its own.
        laplace: epsilons of Laplace noise.
        gaussian: epsilons of Gaussian noise.
        seeds: how many select and how many score; a small federation needs more of them.
        label_scale: public size of what a regression predicts; interest rates are some 14 % a year.
        records: most records of a client to select with.
    """

    federation: Tables
    task: Tables
    public: tuple[str, ...]
    laplace: tuple[float, ...] = (1, 5, 10)
    gaussian: tuple[float, ...] = (0.1, 0.5, 1)
    seeds: tuple[int, int] = (12, 100)
    label_scale: float | None = None
    records: int = RECORDS


TWO_LABELS = {"clients": 10, "partition": "label-shards", "labels_per_client": 2}
ONE_NORM = {"feature_norm": 1.0, "normalise": True}
SOFTMAX, LOGISTIC = ({"model": model, "bias": False, **ONE_NORM} for model in ("softmax", "logistic"))
SMALL = (0.5, 1.0, 4.0)
TABLES = ("adult", "vehicle", "heart-disease", "lending-club", "school", "breast-cancer", "diabetes")
"""Real tables of two classes, or of numbers that are above their median or not."""


def others(site: str) -> tuple[str, ...]:
    """Tables that may be looked at to plan for one of them."""
    return tuple(name for name in TABLES if name != site)


SITES = {
    "heart-disease": Site({"data": "heart-disease"}, LOGISTIC, others("heart-disease"), gaussian=SMALL),
    "vehicle": Site({"data": "vehicle"}, {**LOGISTIC, "bias": True}, others("vehicle"), gaussian=SMALL),
    "digits": Site(
        {"data": "digits", **TWO_LABELS}, SOFTMAX, ("mnist", "fashion-mnist"), (5, 10, 20), (1, 2, 4)
    ),
    "lending-club": Site(
        {"data": "lending-club", "clients": 10, "partition": "iid"},
        {"model": "linear", "bias": True, **ONE_NORM},
        ("school", "diabetes-progression"),
        label_scale=14.0,
    ),
    "adult": Site({"data": "adult"}, LOGISTIC, others("adult")),
    "fashion-mnist": Site(
        {"data": "fashion-mnist", **TWO_LABELS}, SOFTMAX, ("mnist", "digits"), seeds=(3, 10), records=100
    ),
    "mnist": Site(
        {"data": "mnist", **TWO_LABELS}, SOFTMAX, ("fashion-mnist", "digits"), seeds=(3, 10), records=100
    ),
}


class Cell(NamedTuple):
    """One row of the table."""

    site: str
    mechanism: str
    epsilon: float

    @property
    def name(self) -> str:
        return f"{self.site}-{self.mechanism}-{self.epsilon:g}"

    @property
    def tables(self) -> Tables:
        """The study, as nested tables."""
        site, delta = SITES[self.site], 0.0 if self.mechanism == "laplace" else DELTA
        scale = {} if site.label_scale is None else {"label_scale": site.label_scale}
        return {
            "federation": site.federation,
            "task": site.task,
            "privacy": {"mechanism": self.mechanism, "epsilon": float(self.epsilon), "delta": delta},
            "planning": {"public": [*site.public]} | scale,
        }

    @property
    def left_open(self) -> Tables:
        """The same study that leaves the treatment of records to the plan, as a user would write it."""
        task = {key: value for key, value in SITES[self.site].task.items() if key not in ONE_NORM}
        return {**self.tables, "task": task}

    @property
    def scoring(self) -> range:
        return range(1000, 1000 + SITES[self.site].seeds[1])


CELLS = [
    Cell(name, mechanism, epsilon)
    for name, site in SITES.items()
    for mechanism, budgets in (("laplace", site.laplace), ("gaussian", site.gaussian))
    for epsilon in budgets
]


def toml(tables: Tables) -> str:
    """Flat tables as TOML, whose plain values are written as those of JSON are."""
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        for name, table in tables.items()
    )


@lru_cache(maxsize=1)
def federation_of(site: str) -> nw.Prepared:
    """The federation of a site; the latest one is kept, the others take too much memory."""
    return nw.prepare(nw.parse_study({**Cell(site, "laplace", 1.0).tables}))


def prepared(cell: Cell) -> nw.Prepared:
    return replace(federation_of(cell.site), study=nw.parse_study(cell.tables))


def arena_of(made: nw.Prepared, records: int = RECORDS) -> Arena:
    federation, task = made.trained()
    return Arena.of(federation, task, made.problem(1.0), records)


# What is kept -----------------------------------------------------------------------------------------


def read(name: str) -> Tables | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def write(name: str, content: Tables) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    draft = RESULTS / f"{name}.draft"
    draft.write_text(json.dumps(content) + "\n")
    draft.replace(RESULTS / f"{name}.json")


def rounded(values: Sequence[float] | np.ndarray) -> list[float]:
    """Five digits, which is more than any seed repeats."""
    return [float(f"{value:.5g}") for value in np.asarray(values, float)]


def kept(tried: Sequence[Tried], found: Oracle, arena: Arena, cell: Cell) -> Tables:
    """The best step of every (T, b, clip), the mean scores of all finalists, and all of the best."""
    best = found.scores[found.best]
    return {
        "cell": list(cell),
        "untrained": {"loss": arena.untrained_loss, "accuracy": arena.untrained_accuracy},
        "trained points": len(tried),
        "grid": {
            "columns": ["rounds", "clients", "clip", "step", "selection loss"],
            "rows": [rounded([*one.point, one.loss]) for one in best_of_lines(tried)],
        },
        "finalists": {
            "columns": ["rounds", "clients", "clip", "step", "scoring loss", "accuracy"],
            "rows": [
                rounded([*point, one.loss.mean(), one.accuracy.mean()])
                for point, one in zip(found.finalists, found.scores, strict=True)
            ],
        },
        "best": {"point": rounded(found.finalists[found.best]), **scored(best)},
    }


def scored(one: Scores) -> Tables:
    return {"loss": rounded(one.loss), "accuracy": rounded(one.accuracy)}


# The steps --------------------------------------------------------------------------------------------

app = typer.Typer(add_completion=False, help=__doc__)
Names = typer.Option("", "--cells", help="Start of the names of the cells, such as mnist-laplace; all.")


@contextmanager
def each(work: list[Cell], label: str) -> Iterator[Iterator[tuple[Cell, Callable[[float], None]]]]:
    """The cells, each with a callback that takes the share of it that is done, under one bar."""
    with Progress() as bars:
        bar = bars.add_task(label, total=len(work))

        def cells() -> Iterator[tuple[Cell, Callable[[float], None]]]:
            for done, cell in enumerate(work):
                bars.update(bar, description=f"{label} {cell.name}")
                yield cell, lambda share, done=done: bars.update(bar, completed=done + share)

        yield cells()


def lacking(kind: str, start: str) -> list[Cell]:
    return [cell for cell in CELLS if cell.name.startswith(start) and read(f"{cell.name}{kind}") is None]


@app.command()
def oracle(cells: str = Names) -> None:
    """Train and score the full grid of every cell."""
    with each(lacking("", cells), "grid") as work:
        for cell, progress in work:
            site, made = SITES[cell.site], prepared(cell)
            tried = search(arena_of(made, site.records), range(site.seeds[0]), progress)
            arena = arena_of(made)
            write(cell.name, kept(tried, judge(arena, tried, cell.scoring), arena, cell))


@app.command()
def plan(cells: str = Names) -> None:
    """Ask the product for its plans, from other data sets alone."""
    with each(lacking(".plan", cells), "plan") as work:
        for cell, progress in work:
            study = nw.parse_study(cell.left_open)
            made, decision = plan_study(replace(prepared(cell), study=study), progress)
            task = made.study.task.model_dump()
            spread = None if decision.spread is None else float(decision.spread)
            write(f"{cell.name}.plan", {"plan": decision.plan.as_dict(), "task": task, "spread": spread})


@app.command("score")
def score_plans(cells: str = Names) -> None:
    """Train every plan under the scoring seeds."""
    made = [cell for cell in lacking(".score", cells) if read(f"{cell.name}.plan")]
    with each(made, "score") as work:
        for cell, _ in work:
            write(f"{cell.name}.score", scored(score_of(cell, read(f"{cell.name}.plan") or {})))


def score_of(cell: Cell, kept: Tables) -> Scores:
    """Scores of a plan as it is kept, with the records treated as it says."""
    study = nw.parse_study({**cell.tables, "task": kept["task"]})
    federation, _ = prepared(cell).trained()
    task = open_task(study, federation.record_shape, federation.classes)
    made = replace(prepared(cell), study=study, task=task, dimension=task.dimension)
    return score(arena_of(made), as_plan(made, kept["plan"]), cell.scoring)


def as_plan(made: nw.Prepared, values: Tables) -> Plan:
    """The plan that `Plan.as_dict` described."""
    problem = made.problem(values["clip_norm"])
    if not values["train"]:
        return replace(queries_replies.stated(problem, 1, 1, StepSize(1.0)), rounds=0)
    step = StepSize(values["step_size"], values["step_decay_rounds"] or float("inf"))
    plan = queries_replies.stated(problem, values["rounds"], values["clients_per_round"], step)
    levers = {name: values.get(name, 0.0) for name in ("momentum", "averaging", "weighting")}
    return replace(plan, **levers)


PUBLISHED = {
    ("laplace", 1): (22, 1, 300.0),
    ("laplace", 5): (121, 1, 300.0),
    ("laplace", 10): (244, 1, 300.0),
    **{("gaussian", epsilon): (100, 10, 10.0) for epsilon in (0.1, 0.5, 1)},
}
"""T, b and clip of Zhou et al. for MNIST at each budget; their step size is 0.05 / (1 + t/50)."""


@app.command()
def published() -> None:
    """Train what Zhou et al. chose for MNIST, on records as they are, under the scoring seeds."""
    for cell in lacking(".published", "mnist"):
        rounds, clients, clip = PUBLISHED[cell.mechanism, cell.epsilon]
        study = nw.parse_study({**cell.tables, "task": {"model": "softmax"}})
        made = nw.prepare(study)
        plan = queries_replies.stated(made.problem(clip), rounds, clients, StepSize(0.05, 50.0))
        write(f"{cell.name}.published", scored(score(arena_of(made), plan, cell.scoring)))


@app.command()
def studies(folder: Path) -> None:
    """Write the studies as TOML files."""
    folder.mkdir(parents=True, exist_ok=True)
    for cell in CELLS:
        (folder / f"{cell.name}.toml").write_text(toml(cell.tables))


# The table --------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A cell with what was found, and what its plan loses; None before it is planned."""

    cell: Cell
    found: Tables
    plan: Tables | None
    scores: Tables | None

    @property
    def untrained(self) -> float:
        return self.found["untrained"]["loss"]

    @property
    def best(self) -> float:
        return float(np.mean(self.found["best"]["loss"]))

    @property
    def lost(self) -> float | None:
        if self.scores is None:
            return None
        return float(lost_gain(np.mean(self.scores["loss"]), self.best, self.untrained))

    @property
    def error(self) -> float:
        """Standard error of the lost gain, from the differences under the same seeds."""
        difference = np.subtract(self.scores["loss"] if self.scores else np.nan, self.found["best"]["loss"])
        return float(difference.std(ddof=1) / np.sqrt(difference.size) / (self.untrained - self.best))


def rows() -> list[Row]:
    found = {cell: read(cell.name) for cell in CELLS}
    return [
        Row(cell, one, read(f"{cell.name}.plan"), read(f"{cell.name}.score"))
        for cell, one in found.items()
        if one is not None
    ]


def setting(values: Tables) -> str:
    if not values["train"]:
        return "do not train"
    return f"T={values['rounds']} b={values['clients_per_round']}"


def treatment(task: Tables) -> str:
    pooled = f", pooled {task['pooling']} x {task['pooling']}" if task["pooling"] > 1 else ""
    seen = ", seen against public images" if task["reference"] else ""
    return pooled + seen + (f", projected to {task['projection']}" if task["projection"] else "")


def line(row: Row) -> str:
    """One row of the table in Markdown."""
    best, point = row.found["best"], row.found["best"]["point"]
    cells = [
        row.cell.site, row.cell.mechanism, f"{row.cell.epsilon:g}", f"{row.untrained:.3g}",
        f"{row.best:.4g}", f"{np.mean(best['accuracy']):.3f}", f"T={point[0]:.0f} b={point[1]:.0f}",
    ]  # fmt: skip
    if row.lost is None or row.plan is None or row.scores is None:
        return "| " + " | ".join([*cells, *["–"] * 5]) + " |"
    spread = row.plan["spread"]
    cells += [
        f"{np.mean(row.scores['loss']):.4g}", f"{np.mean(row.scores['accuracy']):.3f}",
        f"{setting(row.plan['plan'])}{treatment(row.plan['task'])}",
        f"**{100 * row.lost:.1f}** ± {100 * row.error:.1f}",
        "–" if spread is None else f"{100 * spread:.0f}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


COLUMNS = (
    "federation", "noise", "ε", "untrained", "best loss", "acc.", "best counts", "plan's loss", "acc.",
    "plan", "lost gain %", "stated spread %",
)  # fmt: skip
STATISTICS = {"mean": np.mean, "90th percentile": p90, "worst": np.max}


def summary(measured: list[Row]) -> str:
    """Mean, percentile and worst of the lost gains, with limits over federations; no cell counts below 0."""
    lost: dict[str, list[float]] = {}
    for row in measured:
        if row.lost is not None:
            lost.setdefault(row.cell.site, []).append(max(row.lost, 0.0))
    if not lost:
        return "No plan has been scored yet."
    every = np.concatenate([*lost.values()])
    limits = {name: bootstrap_limit(lost, statistic) for name, statistic in STATISTICS.items()}
    parts = [
        f"{name} {100 * statistic(every):.1f} % (upper 95 % limit {100 * limits[name]:.1f} %)"
        for name, statistic in STATISTICS.items()
    ]
    return f"Lost gain over {len(every)} cells of {len(lost)} federations: {', '.join(parts)}."


@app.command()
def table() -> None:
    """Write the table and the figure of docs/plan_quality.md."""
    measured = rows()
    header = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines = [BEGIN, summary(measured), "", *header, *map(line, measured), "", *over_published(measured), END]
    text = PAGE.read_text()
    before, after = text[: text.index(BEGIN)], text[text.index(END) + len(END) :]
    PAGE.write_text(before + "\n".join(lines) + after)
    if any(row.lost is not None for row in measured):
        FIGURE.write_bytes(drawn([row for row in measured if row.lost is not None]))


def over_published(measured: list[Row]) -> list[str]:
    """MNIST beside what Zhou et al. chose for it."""
    lines = []
    for row in measured:
        chosen = read(f"{row.cell.name}.published")
        if chosen is None or row.scores is None:
            continue
        loss = [np.mean(one["loss"]) for one in (chosen, row.scores)]
        accuracy = [np.mean(one["accuracy"]) for one in (chosen, row.scores)]
        values = [f"{value:.3f}" for value in (*loss, *accuracy)]
        points = f"{100 * (accuracy[1] - accuracy[0]):+.1f}"
        lines.append(f"| {' | '.join([row.cell.mechanism, f'{row.cell.epsilon:g}', *values, points])} |")
    header = ["noise", "ε", "published: loss", "plan: loss", "published: acc.", "plan: acc.", "points gained"]
    titled = [
        "MNIST beside the counts, clip and step size of Zhou et al.:",
        "",
        "| " + " | ".join(header) + " |",
    ]
    return [*titled, "|" + "---|" * len(header), *lines] if lines else []


@styled
def drawn(measured: list[Row]) -> bytes:
    """Lost gain of every cell, sorted, with the targets of mean and worst."""
    ordered = sorted(measured, key=lambda row: row.lost or 0.0)
    figure = new_figure(7.0, 0.19 * len(ordered) + 1.2)
    axes, places = figure.subplots(), np.arange(len(ordered))
    head(axes, "What plans lose", "federation, noise and ε", "lost gain, % of what training can gain")
    lost = np.array([100 * (row.lost or 0.0) for row in ordered])
    errors = np.array([200 * row.error for row in ordered])
    axes.errorbar(lost, places, xerr=errors, fmt="none", ecolor=MUTED, elinewidth=0.8)
    axes.scatter(lost, places, 14, PLAN, zorder=3)
    axes.set_yticks(
        places, [f"{row.cell.site}, {row.cell.mechanism} {row.cell.epsilon:g}" for row in ordered]
    )
    for target, label, side in ((2.5, "mean ≤ 2.5", "right"), (15.0, "worst ≤ 15", "left")):
        axes.axvline(target, color=MUTED, linewidth=0.8, linestyle=":")
        away = (-3 if side == "right" else 3, 0)
        axes.annotate(
            label,
            (target, len(ordered) - 1),
            away,
            textcoords="offset points",
            ha=side,
            color=MUTED,
            fontsize=8,
        )
    axes.grid(visible=False, axis="y")
    return png(figure)


if __name__ == "__main__":
    app()
