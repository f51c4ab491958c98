"""What plans reach with public features: nothing is stated but data, budget and `features = "auto"`.

    python benchmarks/features.py run [--only mnist-1.0]
    python benchmarks/features.py judged [--only fashion-mnist-laplace]
    python benchmarks/features.py page

`run` plans and trains each cell as a user would (one seed, a few minutes on one core); `judged` plans images
of the judging half of docs/plan_quality.md and scores them as `judge.py` does. Both keep what came out in
benchmarks/results/features and leave alone what is there. `page` writes table and picture of docs/planning.md
and the table of docs/plan_quality.md. Reads the data folder of NOISEWORTHY_DATA.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from matplotlib.figure import Figure

import judge
import noiseworthy as nw
from judging import cells
from judging.grid import SCORING, Ground
from noiseworthy.plans.plan import Plan
from noiseworthy.studies.models import with_task
from noiseworthy.studies.plan_codec import decoded
from noiseworthy.studies.planner import plan_study
from noiseworthy.tasks.table import TaskTable
from quality import score

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "results" / "features", ROOT / "docs" / "planning.md"
PICTURE = ROOT / "docs" / "figures" / "features.png"
JUDGED, QUALITY = RESULTS / "judged", ROOT / "docs" / "plan_quality.md"
SETS = ("fashion-mnist", "cifar10-grey")
"""Images of the judging half for which features = "auto" is more than records as they are."""
BEGIN, END = "<!-- begin: written by benchmarks/features.py -->", "<!-- end of features.py -->"
EPSILONS = (0.1, 0.35, 1.0, 3.6)
PROTOTYPES = {
    "mnist": {"pixels": (76.7, 84.5, 86.6, 87.4), "scattering": (86.2, 92.6, 93.5, 94.6)},
    "fashion-mnist": {"pixels": (67.6, 72.9, 73.9, 74.8), "scattering": (70.3, 77.7, 79.8, 79.8)},
}
"""Accuracy in %, by settings that were chosen on test data; pixels are seen against public images."""
STUDY = """
[federation]
data = "{data}"
clients = 10
[task]
features = "auto"
[privacy]
mechanism = "gaussian"
epsilon = {epsilon}
delta = 1e-5
"""
Kept = dict[str, Any]
Only = Annotated[str, typer.Option(help="Start of the names of the cells; all.")]
app = typer.Typer(add_completion=False, help=__doc__, pretty_exceptions_enable=False)


class Cell(NamedTuple):
    """One row of the table."""

    data: str
    epsilon: float

    @property
    def name(self) -> str:
        """By which its result is kept."""
        return f"{self.data}-{self.epsilon}"

    @property
    def kept(self) -> Kept | None:
        """What came out."""
        path = RESULTS / f"{self.name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def prototype(self, of: str) -> float:
        """Accuracy of a prototype."""
        return PROTOTYPES[self.data][of][EPSILONS.index(self.epsilon)]


CELLS = [Cell(*one) for one in product(PROTOTYPES, EPSILONS)]


@app.command()
def run(only: Only = "") -> None:
    """Plan and train cells that have no result."""
    for cell in CELLS:
        if not cell.name.startswith(only) or cell.kept is not None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            study, started = Path(folder) / f"{cell.name}.toml", time.monotonic()
            study.write_text(STUDY.format(**cell._asdict()))
            made = nw.run(study, Path(folder) / "run")
            record = json.loads((made.folder / "record.json").read_text())
        keep(cell, record, time.monotonic() - started)


def keep(cell: Cell, record: Kept, seconds: float) -> None:
    """The numbers of a run that the page tells."""
    plan, training, foretold = record["plan"], record["training"], record["foretold"]
    content = {
        "accuracy": training["accuracy"][0][-1],
        "loss": training["loss"][0][-1],
        "foretold accuracy": foretold["accuracy"],
        "rounds": plan["rounds"],
        "task": record["study"]["task"],
        "seconds": round(seconds, 1),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{cell.name}.json").write_text(json.dumps(content) + "\n")


@app.command()
def judged(only: Only = "") -> None:
    """Plan images of the judging half with features, and score the plans."""
    for one in judged_cells():
        path = JUDGED / f"{one.name}.json"
        if not one.name.startswith(only) or path.exists():
            continue
        started, made = time.monotonic(), cells.prepared(one)
        planned, decision = plan_study(replace(made, study=with_task(made.study, {"features": "auto"})))
        keys = {name: getattr(planned.study.task, name) for name in TaskTable.model_fields}
        arena = Ground(made).of_task(keys, decision.plan.ranges)
        loss, accuracy = score(arena, decision.plan, [int(seed) for seed in SCORING])
        content = {
            **judge.scored(loss, accuracy),
            "uploads": int(decision.plan.uploads.max()),
            "task": planned.study.task.model_dump(mode="json", exclude_defaults=True),
            "seconds": round(time.monotonic() - started, 1),
        }
        JUDGED.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content) + "\n")
        typer.echo(f"{one.name}: loss {np.mean(loss):.4g}, {content['seconds']} s")


def judged_cells() -> list[cells.Cell]:
    """The cells of `judged`."""
    return [one for one in cells.cells("judging") if one.federation in SETS]


@app.command()
def page() -> None:
    """Write tables and picture from what is kept."""
    found = [(cell, kept) for cell in CELLS if (kept := cell.kept) is not None]
    for place, text in ((PAGE, table(found)), (QUALITY, table_of_judged())):
        before, rest = place.read_text().split(BEGIN)
        _, after = rest.split(END)
        place.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
    picture(found)


def table_of_judged() -> str:
    """Plans with features beside those without and the best of the grid, which has none."""
    head = "federation | noise | ε | untrained | best of the grid | plan without | acc. | uploads"
    lines = [f"| {head} | plan with | acc. | uploads |", "|---" * 11 + "|"]
    for one in judged_cells():
        grid, plan, plain = (judge.read(f"{one.name}{kind}") or {} for kind in ("", ".plan", ".score"))
        found = json.loads((JUDGED / f"{one.name}.json").read_text())
        row = (
            one.federation,
            one.mechanism,
            f"{grid['epsilon']:g}",
            f"{grid['untrained']['loss']:.4g}",
            f"{np.mean(grid['best']['loss']):.4g}",
            *told(plain, int(decoded(plan["plan"], Plan).uploads.max())),
            *told(found, found["uploads"]),
        )
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def told(scored: Kept, uploads: int) -> tuple[str, str, str]:
    """Loss and accuracy of a plan in the mean of seeds, and how often it asks a client."""
    return f"{np.mean(scored['loss']):.4g}", f"{np.mean(scored['accuracy']):.3f}", str(uploads)


def table(found: list[tuple[Cell, Kept]]) -> str:
    """The cells as a table of Markdown."""
    lines = [
        "| data | ε | plan: accuracy % | rounds | directions | foretold % | pixels, prototype | scattering |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cell, kept in found:
        says = kept["foretold accuracy"]
        row = (
            cell.data,
            f"{cell.epsilon:g}",
            f"**{100 * kept['accuracy']:.1f}**",
            str(kept["rounds"]),
            str(kept["task"]["projection"]) if kept["task"]["features"] else "pixels",
            f"{100 * says['mean']:.0f} [{100 * says['least']:.0f}, {100 * says['most']:.0f}]",
            *(f"{cell.prototype(of):.1f}" for of in ("pixels", "scattering")),
        )
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def picture(found: list[tuple[Cell, Kept]]) -> None:
    """Accuracy along epsilon, plans beside prototypes, a panel for each data set."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, data in zip(figure.subplots(1, len(PROTOTYPES)), PROTOTYPES, strict=True):
        for name, color in (("pixels", "0.6"), ("scattering", "tab:blue")):
            axes.plot(
                EPSILONS,
                PROTOTYPES[data][name],
                "--o",
                color=color,
                mfc="white",
                label=f"{name}, best on test data",
            )
        own = [(cell.epsilon, 100 * kept["accuracy"]) for cell, kept in found if cell.data == data]
        axes.plot(*zip(*own, strict=True), "-o", color="tab:orange", label='plan with features = "auto"')
        axes.set(xscale="log", xlabel="ε of each record (δ = 1e-5)", title=data)
        axes.set_xticks(EPSILONS, [f"{one:g}" for one in EPSILONS])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("test accuracy, %")
    figure.axes[0].legend(frameon=False, loc="lower right")
    figure.savefig(PICTURE, dpi=150)


if __name__ == "__main__":
    app()
