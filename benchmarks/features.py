"""What plans reach with public features: nothing is stated but data, budget and `features = "auto"`.

    python benchmarks/features.py run [--only mnist-1.0]
    python benchmarks/features.py page

`run` plans and trains each cell as a user would (one seed, a few minutes on one core) and keeps what came
out in benchmarks/results/features; cells that are there are left alone. `page` writes table and picture of
docs/planning.md. Reads the data folder of NOISEWORTHY_DATA.
"""

from __future__ import annotations

import json
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import typer
from matplotlib.figure import Figure

import noiseworthy as nw

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "results" / "features", ROOT / "docs" / "planning.md"
PICTURE = ROOT / "docs" / "figures" / "features.png"
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
def run(only: str = typer.Option("", help="Start of the names of the cells; all.")) -> None:
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
def page() -> None:
    """Write table and picture from what is kept."""
    found = [(cell, kept) for cell in CELLS if (kept := cell.kept) is not None]
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{after}")
    picture(found)


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
