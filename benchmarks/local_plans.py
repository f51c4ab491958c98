"""How good are the plans of DP-FedAvg and DP-ScaffNew on real data, and which constant misleads their bounds?

A plan is scored by its lost gain beside a grid of (T, E) or (T, p) under the same seeds. Its constants are

- sound: what the theorems ask for, of the worst client. Reads private data, only to measure the planner;
- felt: what the loss feels (`local_constants.py`). No bound, and private as well;
- public: the felt constants of other, public data, which a user can have;
- paper: none; T = 120 and E = T^(z/(z+1)) (Fu et al.), T* and p* as printed (Hou et al.), with true noise.

`trial` is no planner: it takes the cell that is best on the public data under other seeds. At one budget the
felt constants are put back one at a time, and the fewest are sought that make the sound plan train. Reads the
data folder of NOISEWORTHY_DATA, writes docs/figures/local-plans.png; some five minutes on two cores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import noiseworthy as nw
from local_constants import USED, Constants, constants_of, stated
from noiseworthy.engines.shards import Shards
from noiseworthy.plans.local_work import divisors
from noiseworthy.plans.plan import Plan
from noiseworthy.reports.marks import inks, label_right, plan_ring, untrained_line
from noiseworthy.reports.scales import loss_limits, setting_axis
from noiseworthy.reports.style import head, new_figure, png, styled
from noiseworthy.sweeps.compare import Cell, grid_of, run_grid, setting_of, untrained_loss

FIGURE = Path(__file__).parents[1] / "docs/figures/local-plans.png"
Tables = dict[str, Any]

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
        public = constants_of(*self.stand_in.trained())["felt"]
        return constants_of(*self.private.trained()) | {"public": public}

    @cached_property
    def untrained(self) -> float:
        federation, task = self.private.trained()
        return untrained_loss(task, Shards.load(federation, task))


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

    def at(
        self, epsilon: float, known: Constants | None = None, clip: float = 1.0, **given: Any
    ) -> nw.Prepared:
        """The study with a budget, and with constants as a user would state them."""
        tables = {
            "federation": self.data.federation,
            "task": self.data.task,
            "privacy": {**self.privacy, "epsilon": epsilon, "clip_norm": clip * self.privacy["clip_norm"]},
            "algorithm": {**self.algorithm, **given},
            "compare": self.compare,
            "constants": stated(known, self.algorithm["name"], self.data.private.dimension) if known else {},
        }
        return replace(self.data.private, study=nw.parse_study(tables))

    def plan(self, epsilon: float, known: Constants | None = None, **given: Any) -> Plan:
        return nw.decide(self.at(epsilon, known, **given)).plan

    def grid(self, plan: Plan, **compare: Any) -> list[Plan]:
        """The cells of [compare] beside a plan."""
        table = self.at(1.0).study.compare.model_copy(update=compare)
        return grid_of(plan, plan.step, table, 1, plan.problem.clipping)

    def printed(self, epsilon: float) -> Plan | None:
        """The paper's settings at the step size of the sound constants; None under mode A, where E = 1."""
        sound = self.plan(epsilon, self.data.known["sound"])
        if sound.algorithm == "dp-fedavg":
            z = 2 if self.privacy["mechanism"] == "laplace" else 1
            steps = min(divisors(120).tolist(), key=lambda e: abs(e - 120 ** (z / (z + 1))))
            given = {"total_iterations": 120, "local_steps": steps}
        else:
            chosen = self.plan(epsilon, self.data.known["sound"], rule="paper").as_printed
            t, p = chosen["iterations"] or 1, chosen["communication_probability"]
            given = {"iterations": max(round(t), 1), "communication_probability": p}
        if sound.problem.clipping == "A":
            return None
        return self.plan(epsilon, step_size=sound.step.initial, **given)


def changes(known: dict[str, Constants], algorithm: str) -> dict[str, Constants]:
    """The felt constants with one of them sound, or as wrong as a guess may be."""
    sound, felt = known["sound"], known["felt"]
    names, none = (*USED[algorithm], "dimension"), ("gradient_bound", "optimum_gradient_sq")
    one = {f"{name} sound": felt | {name: sound[name]} for name in names if sound[name] != felt[name]}
    one |= {f"{name} 0": felt | {name: 0.0} for name in none if name in names}
    return one | {"initial_distance_sq x 4": felt | {"initial_distance_sq": 4 * felt["initial_distance_sq"]}}


def rescues(case: Case, epsilon: float) -> list[str]:
    """The smallest sets of felt constants that make the plan of otherwise sound ones train."""
    sound, felt = case.data.known["sound"], case.data.known["felt"]
    differ = [name for name in (*USED[case.algorithm["name"]], "dimension") if sound[name] != felt[name]]
    for size in range(len(differ) + 1):
        sets = [
            " + ".join(names)
            for names in combinations(differ, size)
            if case.plan(epsilon, sound | {name: felt[name] for name in names}).train
        ]
        if sets:
            return sets
    return []


# Measured ---------------------------------------------------------------------------------------------


def trained(plans: list[Plan], prepared: nw.Prepared, seeds: list[int]) -> list[Cell]:
    """Each plan, with the noise that it has, on a federation of whatever sizes; equal plans train once."""
    federation, task = prepared.trained()
    here = {"sizes": federation.sizes, "dimension": task.dimension}
    plans = [replace(plan, problem=replace(plan.problem, **here)) for plan in plans]
    marks = [(where(plan), plan.step, plan.problem.clip_norm) for plan in plans]
    different = dict(zip(marks, plans, strict=True))
    cells = dict(zip(different, run_grid([*different.values()], federation, task, seeds), strict=True))
    return [cells[mark] for mark in marks]


def where(plan: Plan) -> str:
    return ", ".join(f"{value:.3g}" for value in reversed(setting_of(plan).values())) if plan.train else "no"


def plans_of(case: Case, epsilon: float, grid: list[Plan]) -> dict[str, Plan | None]:
    """All that stands beside the grid, by name."""
    known, seeds = case.data.known, case.compare["seeds"]
    plans: dict[str, Plan | None] = {name: case.plan(epsilon, given) for name, given in known.items()}
    others = [seed + 100 for seed in seeds]
    on_public = [cell.loss.mean() for cell in trained(grid, case.data.stand_in, others)]
    plans |= {"paper": case.printed(epsilon), "trial": grid[int(np.argmin(on_public))]}
    if epsilon == case.diagnosed:
        changed = changes(known, case.algorithm["name"])
        plans |= {f"  {name}": case.plan(epsilon, given) for name, given in changed.items()}
        plans |= {f"  clip x {f:g}": case.plan(epsilon, known["felt"], clip=f) for f in (0.25, 4.0)}
    return plans


def measure(case: Case, epsilon: float) -> dict[str, float]:
    """Print settings and lost gains, 1 for no training; return the latter by name if anything gains."""
    start, felt = case.data.untrained, case.plan(epsilon, case.data.known["felt"])
    grid = case.grid(felt)
    plans = plans_of(case, epsilon, grid)
    real = {name: plan for name, plan in plans.items() if plan is not None and plan.train}
    cells = trained([*grid, *real.values()], case.data.private, case.compare["seeds"])
    losses = {name: cell.loss.mean() for name, cell in zip(real, cells[len(grid) :], strict=True)}
    place = int(np.argmin([cell.loss.mean() for cell in cells[: len(grid)]]))
    best, spread = cells[place].loss.mean(), cells[place].loss.std()
    gains = start - best > 3 * spread / np.sqrt(len(cells[place].loss))
    print(f"{case.title}, epsilon {epsilon:g}: untrained {start:.4g}, best {where(grid[place])}:", end=" ")
    print(f"{best:.4g} +- {spread:.2g}", "" if gains else "- nothing gains: change of the loss instead")
    if epsilon == case.diagnosed:
        print("    the sound plan trains with felt", " or ".join(rescues(case, epsilon)))
    scale = start - best if gains else start
    lost = {name: (losses.get(name, start) - (best if gains else start)) / scale for name in plans}
    for name, plan in plans.items():
        print(f"    {name:25}", "-" if plan is None else f"{where(plan)}: {lost[name]:.2f}", flush=True)
    return {name: value for name, value in lost.items() if gains and plans[name] is not None}


# The figure -------------------------------------------------------------------------------------------


@styled
def draw(panels: list[tuple[str, str, Case, Tables]]) -> None:
    """Measured loss along the planned axis, T held, with the plan from felt constants as a ring."""
    figure = new_figure(4.7 * len(panels), 3.6)
    for axes, (title, along, case, held) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        head(axes, title, "test loss, mean of ten seeds; rings are the plans", along)
        known = {epsilon: curve(case, epsilon, held) for epsilon in case.epsilons}
        x = np.concatenate([places for places, *_ in known.values()])
        setting_axis(axes, x.min(), x.max())
        loss_limits(axes, [losses.min() for _, losses, _ in known.values()], case.data.untrained)
        labels = [untrained_line(axes, case.data.untrained)]
        for (epsilon, ink), (places, losses, planned) in zip(
            inks(case.epsilons).items(), known.values(), strict=True
        ):
            axes.plot(places, losses, color=ink.colour, marker=ink.marker, markersize=4)
            labels.append((losses[-1], f"ε = {epsilon:g}", ink.colour))
            plan_ring(axes, places[planned], losses[planned], "")
        label_right(axes, labels, 8.5)
    FIGURE.write_bytes(png(figure))


def curve(case: Case, epsilon: float, held: Tables):
    """Places along the axis, mean losses there, and which of them is the plan."""
    plan = case.plan(epsilon, case.data.known["felt"], **held)
    plans = [plan, *case.grid(plan, iterations=[*held.values()])]
    places = np.array([next(iter(setting_of(one).values())) for one in plans])
    cells = trained(plans, case.data.private, case.compare["seeds"])
    order = np.argsort(places, kind="stable")
    return places[order], np.array([cell.loss.mean() for cell in cells])[order], int(np.argmin(order))


# What is measured -------------------------------------------------------------------------------------

LINEAR = {"model": "linear", "bias": True, "feature_norm": 3.0, "ridge": 0.1}
SOFTMAX = {"model": "softmax", "feature_norm": 1.0, "normalise": True, "ridge": 0.01}
SORTED = {"clients": 1000, "partition": "sorted"}
TWO_LABELS = {"clients": 100, "partition": "label-shards", "labels_per_client": 2, "records_per_client": 20}
ALIKE = {"clients": 40, "partition": "iid", "records_per_client": 25}
LOANS = Data({"data": "lending-club", **SORTED}, "lending-club-2018", LINEAR)
DIGITS = Data({"data": "mnist", **TWO_LABELS}, "fashion-mnist", SOFTMAX)
COLOURS = Data({"data": "cifar10", **ALIKE}, "fashion-mnist", SOFTMAX)

TEN, THREE = {"seeds": [*range(10, 20)]}, {"seeds": [10, 11, 12], "iterations": [4, 12, 36, 108]}
MANY_STEPS = {"iterations": [10, 30, 60, 120, 240, 480], "local_steps": divisors(120).tolist(), **TEN}
MANY_COINS = {
    "iterations": [3, 5, 10, 20, 40, 80],
    "communication_probability": [1, 0.8, 0.5, 0.3, 0.2, 0.1, 0.05],
    **TEN,
}
TWO_STEPS, ONE_STEP = {"local_steps": [1, 4], **THREE}, {"local_steps": [1], **THREE}
THREE_COINS = {"communication_probability": [1, 0.5, 0.25], **THREE}

SOME = {"name": "dp-fedavg", "clients_per_round": 100, "max_iterations": 480}
ALL, WHOLE = {"name": "dp-fedavg", "max_iterations": 108}, {"clipping_mode": "C"}
COINS = {"name": "dp-scaffnew", "max_iterations": 480}
FEW_COINS = {**COINS, "max_iterations": 108}
LAPLACE = {"mechanism": "laplace", "clip_norm": 20.0}


def gaussian(clip: float) -> Tables:
    return {"mechanism": "gaussian", "delta": 1e-5, "clip_norm": clip}


CASES = {
    "loans C": Case(
        "Lending Club, DP-FedAvg, Laplace, mode C", LOANS, LAPLACE, SOME | WHOLE, MANY_STEPS, (0.2, 1, 5), 1
    ),
    "loans B": Case(
        "Lending Club, DP-FedAvg, auto: mode B", LOANS, gaussian(20), SOME, MANY_STEPS, (0.02, 0.1, 1)
    ),
    "loans coins": Case("Lending Club, DP-ScaffNew", LOANS, gaussian(5), COINS, MANY_COINS, (0.2, 1, 5), 1),
    "digits C": Case(
        "MNIST, DP-FedAvg, mode C", DIGITS, gaussian(0.15), ALL | WHOLE, TWO_STEPS, (4, 32, 256), 32
    ),
    "digits A": Case("MNIST, DP-FedAvg, auto: mode A", DIGITS, gaussian(0.3), ALL, ONE_STEP, (0.2, 1, 5)),
    "digits coins": Case(
        "MNIST, DP-ScaffNew", DIGITS, gaussian(1), FEW_COINS, THREE_COINS, (4, 32, 256), 256
    ),
    "colours C": Case(
        "CIFAR-10, DP-FedAvg, mode C", COLOURS, gaussian(0.15), ALL | WHOLE, TWO_STEPS, (64, 512), 64
    ),
    "colours A": Case("CIFAR-10, DP-FedAvg, auto: mode A", COLOURS, gaussian(0.3), ALL, ONE_STEP, (2, 16)),
    "colours coins": Case("CIFAR-10, DP-ScaffNew", COLOURS, gaussian(0.3), FEW_COINS, THREE_COINS, (64, 512)),
}


def main() -> None:
    for data in (LOANS, DIGITS, COLOURS):
        for name, known in data.known.items():
            print(data.federation["data"], name, {key: float(f"{value:.3g}") for key, value in known.items()})
    rows = [measure(case, epsilon) for case in CASES.values() for epsilon in case.epsilons]
    for name in ("sound", "felt", "public", "paper", "trial"):
        values = [row[name] for row in rows if name in row]
        print(f"{name}: lost gain {np.median(values):.2f} median, {max(values):.2f} worst of {len(values)}")
    steps, coins = (
        replace(CASES["loans C"], epsilons=(3, 5, 20)),
        replace(CASES["loans coins"], epsilons=(2, 5, 20)),
    )
    draw(
        [
            ("DP-FedAvg, T = 120 iterations", "local steps E", steps, {"total_iterations": 120}),
            ("DP-ScaffNew, T = 20 iterations", "probability p of communication", coins, {"iterations": 20}),
        ]
    )


if __name__ == "__main__":
    main()
