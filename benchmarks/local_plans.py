"""How good are the plans of DP-FedAvg and DP-ScaffNew on real data, and which constant misleads their bounds?

A plan is scored by its lost gain beside a grid of (T, E) or (T, p) under the same seeds. Its constants are

- sound: what the theorems ask for, of the worst client. Reads private data, only to measure the planner;
- felt: what the loss feels (`constants_of`). No bound, and private as well;
- public: the felt constants of other, public data, which a user can have;
- paper: none; T = 120 and E = T^(z/(z+1)) (Fu et al.), T* and p* as printed (Hou et al.), with true noise.

`trial` is no planner: it takes the cell that is best on the public data. Then the felt constants are put back
one at a time. Reads the folder NOISEWORTHY_DATA, writes docs/figures/local-plans.png.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

import noiseworthy as nw
from noiseworthy.engines.simulation import Shards
from noiseworthy.experiments.grids import grid_of, setting_of
from noiseworthy.experiments.runner import Cell, Comparison, run_grid, untrained_loss
from noiseworthy.planning.local_iterations import divisors
from noiseworthy.planning.plan import Plan
from noiseworthy.reports.labels import label_right
from noiseworthy.reports.marks import inks, plan_ring, untrained_line
from noiseworthy.reports.scales import loss_limits
from noiseworthy.reports.style import head, new_figure, png, styled
from noiseworthy.tasks import LinearModel

FIGURE = Path(__file__).parents[1] / "docs/figures/local-plans.png"
USED = {
    "dp-fedavg": ("smoothness", "strong_convexity", "initial_distance_sq", "gradient_bound", "heterogeneity"),
    "dp-scaffnew": ("smoothness", "strong_convexity", "initial_distance_sq", "optimum_gradient_sq"),
}
WORTH_IT = 0.01
"""Share of the untrained loss that the best cell must gain before a lost gain means anything."""
Constants = dict[str, float]
Tables = dict[str, Any]

# Constants that only the data know --------------------------------------------------------------------


def loss_and_gradient(theta, task: LinearModel, x, y):
    """With the ridge; x has shape (n, q), theta (q K,)."""
    outputs = x @ theta.reshape(-1, task.outputs)
    if task.loss == "squared":
        slopes, total = outputs - y[:, None], np.sum((outputs[:, 0] - y) ** 2) / 2
    else:
        logs, labels = log_softmax(outputs, axis=1), np.eye(task.outputs)[y]
        slopes, total = np.exp(logs) - labels, -np.sum(logs * labels)
    loss, gradient = total / len(y) + task.ridge / 2 * theta @ theta, (x.T @ slopes).ravel() / len(y)
    return loss, gradient + task.ridge * theta


def optimum(task: LinearModel, x, y):
    """theta*: of least squares by its normal equations, else searched in the span of the records."""
    if task.loss == "squared":
        return np.linalg.solve(x.T @ x / len(x) + task.ridge * np.eye(x.shape[1]), x.T @ y / len(x))
    basis = np.linalg.qr(x.T)[0]
    start, about = np.zeros(basis.shape[1] * task.outputs), (task, x @ basis, y)
    found = minimize(loss_and_gradient, start, about, "L-BFGS-B", jac=True, options={"ftol": 1e-10})
    return (basis @ found.x.reshape(-1, task.outputs)).ravel()


def spectrum(x):
    """Eigenvalues of X^T X/n, ascending; without the zeros that more features than records leave."""
    return np.linalg.eigvalsh(x.T @ x if len(x) >= x.shape[1] else x @ x.T) / len(x)


def constants_of(federation: nw.Federation, task: LinearModel) -> dict[str, Constants]:
    """Sound constants, and felt ones.

    Felt are the curvature L of the pooled loss at 0, mu from 2 (F(0) - F*)/||theta*||^2, Gamma = 0, G the root
    mean square at the optimum, and trace/L of the Hessian at 0 for the dimension: noise in a direction costs
    as much loss as the loss is curved there.
    """
    rows = np.asarray(task.prepare(federation.x.reshape(-1, *federation.record_shape)), float)
    rows = rows.reshape(*federation.x.shape[:2], -1)
    clients = [(x[:n], y[:n]) for x, y, n in zip(rows, federation.y, federation.sizes, strict=True)]
    pooled = tuple(np.concatenate(part) for part in zip(*clients, strict=True))
    best, curved = optimum(task, *pooled), spectrum(pooled[0])
    start, least = (loss_and_gradient(theta, task, *pooled)[0] for theta in (0 * best, best))
    alone = [loss_and_gradient(optimum(task, *client), task, *client)[0] for client in clients]
    slopes = [[np.linalg.norm(loss_and_gradient(theta, task, *client)[1]) for client in clients]
              for theta in (0 * best, best)]  # fmt: skip
    each, squared = [spectrum(x) for x, _ in clients], task.loss == "squared"
    sound = {
        "smoothness": (1.0 if squared else 0.5) * max(e[-1] for e in each) + task.ridge,
        "strong_convexity": (max(min(e[0] for e in each), 0.0) if squared else 0.0) + task.ridge,
        "initial_distance_sq": best @ best,
        "gradient_bound": np.max(slopes),
        "heterogeneity": least - np.mean(alone),
        "optimum_gradient_sq": np.sum(np.square(slopes[1])),
        "dimension": task.dimension,
    }
    felt = {
        "smoothness": curved[-1] / task.outputs + task.ridge,
        "strong_convexity": 2 * (start - least) / (best @ best),
        "heterogeneity": 0.0,
        "gradient_bound": np.sqrt(np.mean(np.square(slopes[1]))),
        "dimension": curved.sum() / curved[-1] * max(task.outputs - 1, 1),
    }
    return {"sound": sound, "felt": sound | felt}


# Data, and what is planned on them --------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """A federation with a model, and the public data that stand in for it."""

    federation: Tables
    public: str
    task: Tables

    def prepare(self, source: str) -> nw.Prepared:
        federation = {**self.federation, "data": source}
        study = {"federation": federation, "task": self.task, "privacy": {"mechanism": "none"}}
        return nw.prepare(nw.parse_study(study))

    @cached_property
    def private(self) -> nw.Prepared:
        return self.prepare(self.federation["data"])

    @cached_property
    def stand_in(self) -> nw.Prepared:
        return self.prepare(self.public)

    @cached_property
    def known(self) -> dict[str, Constants]:
        return constants_of(*self.private.trained()) | {"public": constants_of(*self.stand_in.trained())["felt"]}


@dataclass(frozen=True)
class Case:
    """One row of the table for each epsilon."""

    title: str
    data: Data
    privacy: Tables
    algorithm: Tables
    compare: Tables
    epsilons: tuple[float, ...]
    diagnosed: float | None = None

    def at(self, epsilon: float, known: Constants | None = None, clip: float = 1.0, **given: Any) -> nw.Prepared:
        """The study with a budget; a dimension among the constants is that of the bound alone."""
        name = self.algorithm["name"]
        tables = {
            "federation": self.data.federation, "task": self.data.task, "compare": self.compare,
            "privacy": {**self.privacy, "epsilon": epsilon, "clip_norm": clip * self.privacy["clip_norm"]},
            "algorithm": {**self.algorithm, **given},
            "constants": {key: float(known[key]) for key in USED[name]} if known else {},
        }  # fmt: skip
        dimension = round(known["dimension"]) if known else self.data.private.dimension
        return replace(self.data.private, study=nw.parse_study(tables), dimension=dimension)

    def plan(self, epsilon: float, known: Constants | None = None, **given: Any) -> Plan:
        """What `decide` says, for the model's own dimension."""
        plan = nw.decide(self.at(epsilon, known, **given)).plan
        return replace(plan, problem=replace(plan.problem, dimension=self.data.private.dimension))

    def printed(self, epsilon: float) -> Plan | None:
        """The paper's settings at the step size of the sound constants; None where it has none."""
        sound = self.plan(epsilon, self.data.known["sound"])
        if sound.algorithm == "dp-scaffnew":
            chosen = self.plan(epsilon, self.data.known["sound"], rule="paper").as_printed
            given = {"iterations": round(max(chosen["iterations"] or 1, 1)),
                     "communication_probability": chosen["communication_probability"]}  # fmt: skip
        elif sound.problem.clipping == "A":
            return None
        else:
            z = 2 if self.privacy["mechanism"] == "laplace" else 1
            steps = min(divisors(120).tolist(), key=lambda e: abs(e - 120 ** (z / (z + 1))))
            given = {"total_iterations": 120, "local_steps": steps}
        return self.plan(epsilon, step_size=sound.step.initial, **given)


def changes(known: dict[str, Constants], names: tuple[str, ...]) -> dict[str, Constants]:
    """The felt constants with one of them sound, or as wrong as a guess may be."""
    guessed = {"initial_distance_sq": 4 * known["felt"]["initial_distance_sq"], "optimum_gradient_sq": 0.0}
    other = known["sound"] | guessed
    return {name: known["felt"] | {name: other[name]} for name in (*names, "dimension")}


# Measured ---------------------------------------------------------------------------------------------


def trained(plans: list[Plan], prepared: nw.Prepared, seeds: list[int]) -> list[Cell]:
    """Each plan on a federation of whatever sizes, with the noise that it has; equal plans train once."""
    federation, task = prepared.trained()
    here = {"sizes": federation.sizes, "dimension": task.dimension}
    plans = [replace(plan, problem=replace(plan.problem, **here)) for plan in plans]
    marks = [(where(plan), plan.step, plan.problem.clip_norm) for plan in plans]
    different = {mark: plan for mark, plan in zip(marks, plans, strict=True)}
    cells = dict(zip(different, run_grid([*different.values()], federation, task, seeds), strict=True))
    return [cells[mark] for mark in marks]


def where(plan: Plan) -> str:
    return ", ".join(f"{value:.3g}" for value in reversed(setting_of(plan).values())) if plan.train else "no"


def lost(cell: Cell | None, grid: list[Cell], start: float) -> str:
    """Lost gain of a cell, of no training if there is none; its change of the loss where nothing gains."""
    best, loss = min(one.loss.mean() for one in grid), start if cell is None else cell.loss.mean()
    if start - best < WORTH_IT * start:
        return f"loss {100 * (loss / start - 1):+.0f} %"
    return f"{(loss - best) / (start - best):.2f}"


def measure(case: Case, epsilon: float) -> None:
    """Print a row of the table, and where it is asked for what each constant does."""
    known, seeds, (federation, task) = case.data.known, case.compare["seeds"], case.data.private.trained()
    plans: dict[str, Plan | None] = {name: case.plan(epsilon, given) for name, given in known.items()}
    felt = plans["felt"]
    grid = grid_of(felt, felt.step, case.at(epsilon).study.compare, 1, felt.problem.clipping)
    on_public = [cell.loss.mean() for cell in trained(grid, case.data.stand_in, seeds)]
    plans |= {"paper": case.printed(epsilon), "trial": grid[int(np.argmin(on_public))]}
    if epsilon == case.diagnosed:
        plans |= {n: case.plan(epsilon, given) for n, given in changes(known, USED[felt.algorithm]).items()}
        plans |= {f"clip x {f:g}": case.plan(epsilon, known["felt"], clip=f) for f in (0.25, 4.0)}
    real = {name: plan for name, plan in plans.items() if plan is not None and plan.train}
    cells = trained([*grid, *real.values()], case.data.private, seeds)
    start = untrained_loss(task, Shards.load(federation, task))
    fixed, own = cells[: len(grid)], dict(zip(real, cells[len(grid) :], strict=True))
    best = int(np.argmin([cell.loss.mean() for cell in fixed]))
    row = {name: "-" if plan is None else f"{where(plan)}: {lost(own.get(name), fixed, start)}"
           for name, plan in plans.items()}  # fmt: skip
    print(f"{case.title}, epsilon {epsilon:g}: untrained {start:.4g}, best", end=" ")
    print(f"{where(grid[best])}: {fixed[best].loss.mean():.4g} +- {fixed[best].loss.std():.2g}")
    print(*(f"    {name:22}{text}" for name, text in row.items()), sep="\n", flush=True)


# The figure -------------------------------------------------------------------------------------------


@styled
def draw(panels: list[tuple[str, str, Case, Tables]]) -> None:
    """Measured loss along the planned axis, T held, with the plan from felt constants as a ring."""
    figure = new_figure(4.6 * len(panels), 3.6)
    for axes, (title, along, case, held) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        panel(axes, title, along, case, held)
    FIGURE.write_bytes(png(figure))


def panel(axes, title: str, along: str, case: Case, held: Tables) -> None:
    federation, task = case.data.private.trained()
    start, seeds = untrained_loss(task, Shards.load(federation, task)), case.compare["seeds"]
    head(axes, title, "test loss after training, mean of 10 seeds", along)
    axes.set_xscale("log")
    loss_limits(axes, [6.0], start)
    labels = [untrained_line(axes, start)]
    for epsilon, ink in inks(case.epsilons[1:]).items():
        plan = case.plan(epsilon, case.data.known["felt"], **held)
        table = case.at(epsilon).study.compare.model_copy(update={"iterations": list(held.values())})
        grid = grid_of(plan, plan.step, table, 1, plan.problem.clipping)
        *cells, own = trained([*grid, plan], case.data.private, seeds)
        x = [next(iter(setting_of(one).values())) for one in (*grid, plan)]
        losses = [cell.loss.mean() for cell in (*cells, own)]
        order = np.argsort(x)
        axes.plot(np.array(x)[order], np.array(losses)[order], color=ink.colour, marker=ink.marker)
        labels.append((losses[-2], f"ε = {epsilon:g}", ink.colour))
        plan_ring(axes, x[-1], losses[-1], "")
    label_right(axes, labels, 8.5)


# What is measured -------------------------------------------------------------------------------------

LINEAR = {"model": "linear", "bias": True, "feature_norm": 3.0, "ridge": 0.1}
SOFTMAX = {"model": "softmax", "feature_norm": 1.0, "normalise": True, "ridge": 0.01}
TWO_LABELS = {"partition": "label-shards", "labels_per_client": 2}
LOANS = Data({"data": "lending-club", "clients": 1000, "partition": "sorted"}, "lending-club-2018", LINEAR)
DIGITS = Data({"data": "mnist", "clients": 100, "records_per_client": 20, **TWO_LABELS}, "fashion-mnist", SOFTMAX)
COLOURS = Data({"data": "cifar10", "clients": 40, "records_per_client": 25, "partition": "iid"}, "fashion-mnist", SOFTMAX)
TEN, THREE = {"seeds": [*range(10, 20)]}, {"seeds": [10, 11, 12], "iterations": [4, 12, 36, 108]}
STEPS = {"iterations": [10, 30, 60, 120, 240, 480], "local_steps": [1, 2, 3, 4, 6, 8, 12, 24, 40, 60, 120], **TEN}
COINS = {"iterations": [3, 5, 10, 20, 40, 80], "communication_probability": [1.0, 0.8, 0.5, 0.3, 0.2, 0.1, 0.05], **TEN}
FEW_STEPS, ONE_STEP = {"local_steps": [1, 4], **THREE}, {"local_steps": [1], **THREE}
FEW_COINS = {"communication_probability": [1.0, 0.5, 0.25], **THREE}
FEDAVG, WHOLE = {"name": "dp-fedavg"}, {"name": "dp-fedavg", "clipping_mode": "C"}
SOME, FEW = {"clients_per_round": 100, "max_iterations": 480}, {"max_iterations": 108}
SCAFFNEW = {"name": "dp-scaffnew"}


def gaussian(clip: float) -> Tables:
    return {"mechanism": "gaussian", "delta": 1e-5, "clip_norm": clip}


CASES = [
    Case("Lending Club, DP-FedAvg, Laplace, mode C", LOANS, {"mechanism": "laplace", "clip_norm": 20.0},
         WHOLE | SOME, STEPS, (0.1, 1.0, 5.0), 1.0),
    Case("Lending Club, DP-FedAvg, Gaussian, auto: mode B", LOANS, gaussian(20.0), FEDAVG | SOME, STEPS, (0.02, 0.1, 1.0)),
    Case("Lending Club, DP-ScaffNew", LOANS, gaussian(5.0), SCAFFNEW | {"max_iterations": 480}, COINS, (0.3, 1.0, 5.0), 1.0),
    Case("MNIST, DP-FedAvg, Gaussian, mode C", DIGITS, gaussian(0.15), WHOLE | FEW, FEW_STEPS, (4.0, 32.0, 256.0), 32.0),
    Case("MNIST, DP-FedAvg, Gaussian, auto: mode A", DIGITS, gaussian(0.3), FEDAVG | FEW, ONE_STEP, (0.2, 1.0, 5.0)),
    Case("MNIST, DP-ScaffNew", DIGITS, gaussian(1.0), SCAFFNEW | FEW, FEW_COINS, (4.0, 32.0, 256.0), 32.0),
    Case("CIFAR-10, DP-FedAvg, Gaussian, mode C", COLOURS, gaussian(0.15), WHOLE | FEW, FEW_STEPS, (64.0, 512.0)),
    Case("CIFAR-10, DP-FedAvg, Gaussian, auto: mode A", COLOURS, gaussian(0.3), FEDAVG | FEW, ONE_STEP, (2.0, 16.0)),
    Case("CIFAR-10, DP-ScaffNew", COLOURS, gaussian(0.3), SCAFFNEW | FEW, FEW_COINS, (64.0, 512.0)),
]  # fmt: skip


def main() -> None:
    for case in CASES:
        for epsilon in case.epsilons:
            measure(case, epsilon)
    draw([("DP-FedAvg, T = 120", "local steps E", CASES[0], {"total_iterations": 120}),
          ("DP-ScaffNew, T = 20", "probability of communication p", CASES[2], {"iterations": 20})])  # fmt: skip


if __name__ == "__main__":
    main()
