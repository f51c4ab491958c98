"""The table of a half and what it comes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import kendalltau

from judging.cells import Cell
from noiseworthy.privacy.trust import TrustModel
from noiseworthy.tasks.names import MEAN
from quality import bootstrap_limit, lost_gain, p90

NOTHING = 0.01
"""A cell in which the oracle gains less than this share of the untrained loss has nothing to lose."""
Kept = dict[str, Any]
Found = tuple[Cell, Kept, Kept | None, Kept | None]
STATISTICS = {"mean": np.mean, "90th percentile": p90, "worst": np.max}


class Row(NamedTuple):
    """A cell with what was found; plan and score are None before they are there."""

    cell: Cell
    found: Kept
    plan: Kept | None
    score: Kept | None

    @property
    def untrained(self) -> float:
        """Loss of the start."""
        return self.found["untrained"]["loss"]

    @property
    def best(self) -> float:
        """Loss of the oracle."""
        return float(np.mean(self.found["best"]["loss"]))

    @property
    def worth(self) -> bool:
        """Whether there is something to gain."""
        return self.best < (1 - NOTHING) * self.untrained

    def lost_by(self, kept: Kept) -> float:
        """The share of the gain that something with losses loses."""
        return float(lost_gain(np.mean(kept["loss"]), self.best, self.untrained))

    @property
    def lost(self) -> float:
        """The share that the plan loses."""
        return np.nan if self.score is None else self.lost_by(self.score)

    @property
    def default(self) -> float:
        """The share that the best of the stated defaults loses, not training at worst."""
        return min(1.0, *(self.lost_by(one) for one in self.found["defaults"].values()))

    @property
    def kind(self) -> str:
        """What is predicted, and of what."""
        if len(self.found["sizes"]) > 3:
            return "images"
        return "numbers" if self.found["classes"] is None else "classes"

    @property
    def uploads(self) -> float:
        """Of a client, on average, as planned."""
        plan = (self.plan or {}).get("plan", {"rounds": 0, "clients_per_round": 0})
        return plan["rounds"] * plan["clients_per_round"] / self.found["sizes"][0]

    @property
    def measured(self) -> tuple[float, float]:
        """Loss over the untrained loss, and accuracy, of the plan."""
        kept = self.score or {"loss": [np.nan], "accuracy": [np.nan]}
        return float(np.mean(kept["loss"])) / self.untrained, float(np.mean(kept["accuracy"]))

    @property
    def foretold(self) -> Kept | None:
        """What the plan predicted."""
        return None if self.plan is None else self.plan.get("foretold")


def rows_of(found: Sequence[Found]) -> list[Row]:
    """Rows of what was kept."""
    return [Row(*one) for one in found]


def summary(found: Sequence[Found]) -> str:
    """What the cells come to, in lines."""
    rows = rows_of(found)
    if not rows:
        return "No cell has been searched yet."
    scored = [row for row in rows if row.score is not None]
    worth = [row for row in scored if row.worth]
    lines = [
        f"{len(rows)} cells of {len({row.cell.federation for row in rows})} federations were searched, "
        f"{len(scored)} plans scored; in {len(scored) - len(worth)} of them the oracle gains less than "
        f"{100 * NOTHING:.0f} % of the untrained loss, and no share of it is counted."
    ]
    if worth:
        lines += [_lost(worth), *_beside(worth)]
    if scored:
        lines += _idle(scored)
        lines += _predicted([row for row in scored if row.foretold])
    return "\n".join(lines)


def _lost(worth: Sequence[Row]) -> str:
    lost: dict[str, list[float]] = {}
    for row in worth:
        lost.setdefault(row.cell.evidence.source.parent, []).append(max(row.lost, 0.0))
    every = np.concatenate([*lost.values()])
    said = [
        f"{name} {_share(statistic(every))}{_limit(lost, statistic)}"
        for name, statistic in STATISTICS.items()
    ]
    return f"Lost gain of {len(every)} cells: {', '.join(said)}."


def _limit(lost: dict[str, list[float]], statistic: Callable[..., Any]) -> str:
    return f" (upper 95 % limit over sources {_share(bootstrap_limit(lost, statistic))})"


def _beside(worth: Sequence[Row]) -> list[str]:
    behind = [row for row in worth if row.lost > row.default + 0.02]
    names = [*worth[0].found["defaults"]]
    means = {
        name: np.mean([min(row.lost_by(row.found["defaults"][name]), 1.0) for row in worth]) for name in names
    }
    said = ", ".join(f"{name} {_share(mean)}" for name, mean in means.items())
    worse = ", ".join(f"{row.cell.name} ({_share(row.lost - row.default)})" for row in behind) or "none"
    return [
        f"Mean lost gain of the stated defaults, at most all of it each: {said}.",
        f"Plans more than 2 % of the gain behind the best default: {worse}.",
    ]


def _idle(scored: Sequence[Row]) -> list[str]:
    worse = [row for row in scored if row.measured[0] > 1.01]
    named = ", ".join(f"{row.cell.name} ({row.measured[0]:.2f})" for row in worse) or "none"
    return [f"Plans that end more than 1 % above the untrained loss (over it): {named}."]


def _predicted(told: Sequence[Row]) -> list[str]:
    if not told:
        return []
    inside = [_inside(row) for row in told]
    error = np.array([row.measured[1] - row.foretold["accuracy"] for row in told if row.foretold])
    classes = np.array([row.found["classes"] is not None for row in told])
    said = [
        f"Accuracy (R² of a regression) in the stated band in {np.mean(inside):.0%} of {len(told)} cells; "
        f"measured minus predicted, classes: median {100 * np.median(error[classes]):.1f} points, "
        f"from {100 * error[classes].min():.0f} to {100 * error[classes].max():.0f}."
        if classes.any()
        else f"R² within the stated band in {np.mean(inside):.0%} of {len(told)} cells."
    ]
    spreads = [(row.plan["spread"], row.lost) for row in told if row.worth and row.plan]
    pairs = [(spread, lost) for spread, lost in spreads if spread is not None]
    if len(pairs) > 2:
        tau = kendalltau(*zip(*pairs, strict=True)).statistic
        said.append(f"Stated spread and lost gain agree in rank with Kendall's tau {tau:.2f}.")
    return said


def _inside(row: Row) -> bool:
    told = row.foretold or {}
    return told["least"] <= row.measured[1] <= told["most"]


KINDS = ("<!-- begin: kinds, by benchmarks/judge.py -->", "<!-- end of kinds -->")
"""Between which lines of the page the cells of each kind stand."""


def kinds(found: Sequence[Found]) -> str:
    """What plans lose by what is predicted and the noise, in per cent, and how often they ask a client."""
    rows: dict[str, list[Row]] = {}
    for row in rows_of(found):
        if row.score is not None and row.worth:
            rows.setdefault(f"| {row.kind} | {row.cell.mechanism.capitalize()} |", []).append(row)
    columns = "what | noise | cells | mean lost gain, % | median | 90th percentile | worst"
    header = [f"| {columns} | uploads of a client, median |", "|---|---|" + "---:|" * 6]
    lines = [f"{kind} {_of_kind(rows[kind])} |" for kind in sorted(rows)]
    return "\n".join([KINDS[0], *header, *lines, KINDS[1]])


def _of_kind(rows: Sequence[Row]) -> str:
    lost = 100 * np.maximum([row.lost for row in rows], 0.0)
    said = [f"{statistic(lost):.1f}" for statistic in (np.mean, np.median, p90, np.max)]
    return " | ".join([str(len(rows)), *said, f"{np.median([row.uploads for row in rows]):g}"])


COLUMNS = (
    "federation", "owners", "noise", "ε", "untrained", "best loss", "acc.", "best setting", "plan's loss",
    "acc.", "plan", "lost gain %", "best default loses %", "predicted acc.",
)  # fmt: skip


def marks(trust: TrustModel) -> tuple[str, str]:
    """Between which lines of the page the cells of a trust stand."""
    what = "" if trust == "local" else f" {trust}"
    return f"<!-- begin: written by benchmarks/judge.py{what} -->", f"<!-- end of judge.py{what} -->"


def page(found: Sequence[Found], trust: TrustModel = "local") -> str:
    """The section of the page: what it comes to, and every cell."""
    begin, end = marks(trust)
    header = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    return "\n".join([begin, summary(found), "", *header, *map(_line, rows_of(found)), end])


def _line(row: Row) -> str:
    found, deal = row.found, row.found["deal"]
    best = found["best"]
    cells = [
        row.cell.federation, f"{deal['clients']} {deal['rule']}", row.cell.mechanism, f"{found['epsilon']:g}",
        f"{row.untrained:.3g}", f"{row.best:.4g}", f"{np.mean(best['accuracy']):.3f}",
        _setting(best["setting"]),
    ]  # fmt: skip
    if row.score is None or row.plan is None:
        return "| " + " | ".join([*cells, *["–"] * 6]) + " |"
    told = row.foretold
    band = "–" if told is None else f"{told['accuracy']:.2f} [{told['least']:.2f}, {told['most']:.2f}]"
    cells += [
        f"{np.mean(row.score['loss']):.4g}", f"{row.measured[1]:.3f}", _planned(row.plan),
        f"**{100 * row.lost:.1f}**" if row.worth else "nothing to gain",
        f"{100 * row.default:.0f}" if row.worth else "–", band,
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _setting(setting: Kept) -> str:
    line = setting["line"]
    keys, seen = line["seen"]["keys"], line["seen"]
    wide = "".join(f", {name} {keys[name]}" for name in ("pooling", "projection") if name in keys)
    late = ", averaged" if setting["averaged"] else ""
    counts = f"T={line['rounds']} b={line['clients']}"
    return f"{counts}, {_treated(keys)}{wide}, {seen['model']}, constant {seen['share']:g}{late}"


def _planned(kept: Kept) -> str:
    if "error" in kept:
        return "refused"
    plan, task = kept["plan"], kept["task"]
    if not plan["rounds"]:
        return "do not train"
    wide = f", projected to {task['projection']}" if task["projection"] else ""
    return f"T={plan['rounds']} b={plan['clients_per_round']}, {_treated(task)}{wide}"


def _treated(task: Kept) -> str:
    norm = "norm 1" if task.get("normalise") else "as stated"
    return norm + ", centred" * (task.get("reference") == [MEAN])


def _share(value: Any) -> str:
    return f"{100 * float(value):.1f} %"
