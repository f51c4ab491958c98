"""The one runner: measure what an item names, judge its claims, keep the result."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from noiseworthy import _validate as check
from noiseworthy.errors import DataError, InvalidInput
from noiseworthy.experiments.papers.laboratory import Laboratory
from noiseworthy.experiments.papers.spec import Arm, Cell, Figure, Point, Reproduction, Series, Table, Verdict
from noiseworthy.experiments.papers.zhou import FIGURES
from noiseworthy.experiments.papers.zhou_table import reproduce_table
from noiseworthy.planning.plan import StepSize

TABLE = "table-1"
MEASUREMENTS = "measurements.json"
_PLAN_COST = {"planned rounds": 3000, "planned": 6000}
Progress = Callable[[float], None]


def reproduce(
    paper: str,
    item: str = TABLE,
    *,
    data_dir: str | Path | None = None,
    scale: float = 1.0,
    folder: str | Path | None = None,
    on_progress: Progress = lambda done: None,
) -> list[Reproduction]:
    """Reproduce a table or figure: train what it shows and judge what the paper says of it.

    Cost on two cores at scale 0.3 (3 seeds instead of 10): see docs/reproductions.md, which states it for
    every item as it was measured.

    Args:
        paper: `zhou`.
        item: `table-1`, `figure-1` to `figure-8`, or `all`.
        data_dir: folder of data files; None takes the environment variable NOISEWORTHY_DATA.
        scale: share of the paper's repeats (at least two are run), and for the CNN also of the records.
        folder: where to keep results as JSON. Measurements in it are not made again, so that a broken run
            goes on and figures share their trainings. None keeps nothing.
        on_progress: told the share of the work that is done.

    Returns:
        One result per item.

    Raises:
        InvalidInput: an unknown paper or item, or a scale outside (0, 1].
        DataError: data files that are not there.

    Example:
        >>> (table,) = reproduce("zhou", "table-1")
        >>> table.verdicts[0].word, table.verdicts[0].evidence[:25]
        ('agrees', '24 of 24 entries equal, T*')
    """
    check.one_of("paper", paper, ["zhou"])
    check.one_of("item", item, [TABLE, *FIGURES, "all"])
    if not 0 < scale <= 1:
        raise InvalidInput(f"scale must lie in (0, 1], got {scale:g}; 1 is the paper's size")
    items = [TABLE, *FIGURES] if item == "all" else [item]
    store = Store.open(folder)
    results = []
    for i, name in enumerate(items):
        tell = lambda done, i=i: on_progress((i + done) / len(items))  # noqa: E731
        figure = FIGURES.get(name)
        results.append(
            reproduce_table(scale) if figure is None
            else reproduce_figure(name, figure, store, data_dir=data_dir, scale=scale, on_progress=tell)
        )  # fmt: skip
        save(results[-1], folder)
        tell(1.0)
    return results


def reproduce_figure(
    item: str,
    figure: Figure,
    store: Store,
    *,
    data_dir: str | Path | None,
    scale: float,
    on_progress: Progress = lambda done: None,
) -> Reproduction:
    """Measure every setting of a figure under every budget, then judge its claims."""
    laboratory = Laboratory(figure.bench, data_dir, scale)
    jobs = list(_jobs(figure))
    total, done, points = sum(job.work for job in jobs), 0.0, []
    for job in jobs:
        points += _measure(job, laboratory, store)
        done += job.work
        on_progress(done / total)
    verdicts = []
    for claim in figure.claims:
        word, evidence = claim.judge(points)
        verdicts.append(
            Verdict(claim.words, word, evidence, "" if word == "agrees" else claim.reason, claim.ours)
        )
    return Reproduction(
        "zhou", item, f"Figure {item.split('-')[1]}: {figure.title}", figure.layout, laboratory.source, scale,
        len(laboratory.seeds), verdicts, points, [], _notes(figure, laboratory),
    )  # fmt: skip


@dataclass(frozen=True)
class _Job:
    """One series at one share of the records, under budgets that can be trained side by side."""

    arm: Arm
    series: Series
    fraction: float
    epsilons: tuple[float, ...]
    cell: Cell | None

    @property
    def work(self) -> float:
        """Rough cost in client-rounds of full size."""
        if self.cell is None:
            return _PLAN_COST[self.series.role]
        return self.fraction * self.cell[0] * self.cell[1] * len(self.epsilons)


def _jobs(figure: Figure) -> Iterator[_Job]:
    for arm in figure.arms:
        for fraction in figure.fractions:
            for series in arm.series:
                if series.cell is None:
                    yield from (_Job(arm, series, fraction, (epsilon,), None) for epsilon in arm.epsilons)
                    continue
                cells = {epsilon: series.cell(epsilon, fraction) for epsilon in arm.epsilons}
                for cell in dict.fromkeys(cells.values()):
                    alike = tuple(epsilon for epsilon, own in cells.items() if own == cell)
                    yield _Job(arm, series, fraction, alike, cell)


def _measure(job: _Job, laboratory: Laboratory, store: Store) -> list[Point]:
    arm, cell, planning = job.arm, job.cell, 0.0
    clip_norm, step = arm.clip_norm, arm.step
    if cell is None:
        everything, (epsilon,) = job.series.role == "planned", job.epsilons
        key = _key(laboratory, "plan", job.series.role, arm, epsilon, job.fraction)
        plan = store.get(
            key,
            lambda: laboratory.plan(
                arm, epsilon, job.fraction, everything=everything, on_progress=lambda _: None
            ),
        )
        cell, clip_norm, planning = tuple(plan["cell"]), plan["clip_norm"], plan["seconds"]
        step = StepSize(plan["step_size"], step.decay_rounds) if cell[0] else step
    points = []
    for epsilon, curves in _curves(job, laboratory, store, cell, clip_norm, step).items():
        curves = {**curves, "seconds": curves["seconds"] + planning}
        points.append(
            Point(arm.mechanism, epsilon, job.fraction, job.series.label, job.series.role, *cell, clip_norm,
                  step.initial, **curves)
        )  # fmt: skip
    return points


def _curves(
    job: _Job, laboratory: Laboratory, store: Store, cell: Cell, clip_norm: float, step: StepSize
) -> dict[float, dict[str, Any]]:
    """Curves by epsilon, from the store where they are there; the missing ones side by side."""
    if not cell[0]:
        return {epsilon: laboratory.untrained(job.fraction) for epsilon in job.epsilons}
    keys = {
        epsilon: _key(laboratory, "run", cell, f"{clip_norm:.6g} {step}", job.arm, epsilon, job.fraction)
        for epsilon in job.epsilons
    }
    missing = [epsilon for epsilon, key in keys.items() if key not in store.content]
    if missing:
        found = laboratory.train(job.arm, cell, missing, job.fraction, clip_norm, step)
        for epsilon in missing:
            store.get(keys[epsilon], lambda epsilon=epsilon: found[epsilon])
    return {epsilon: store.content[key] for epsilon, key in keys.items()}


def _key(laboratory: Laboratory, what: str, which: Any, *rest: Any) -> str:
    *settings, arm, epsilon, fraction = rest
    bench = laboratory.bench
    where = f"{laboratory.source} {bench.model} {bench.partition} {bench.clients} scale={laboratory.scale:g}"
    how = f"{arm.mechanism} {arm.delta:g} clip={arm.clip_norm:g} {arm.step}"
    return " | ".join(map(str, (what, which, *settings, where, how, f"{epsilon:g}", f"{fraction:g}")))


def _notes(figure: Figure, laboratory: Laboratory) -> list[str]:
    notes = [figure.bench.caveat]
    if figure.bench.miniature and laboratory.scale < 1:
        held = int(laboratory.shards(1.0).train.mask.sum(axis=1).mean())
        notes.append(
            f"A miniature: clients train on about {held} of their records with the noise that all "
            f"{int(laboratory.federation.sizes.mean())} need, and 1,000 test records are scored."
        )
    return [note for note in notes if note]


# Keeping ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Store:
    """Measurements by name, on disk where a folder is given."""

    content: dict[str, Any]
    path: Path | None

    @classmethod
    def open(cls, folder: str | Path | None) -> Store:
        """The store of a folder, empty where nothing was measured yet."""
        path = None if folder is None else Path(folder) / MEASUREMENTS
        return cls(_read(path) if path is not None and path.exists() else {}, path)

    def get(self, key: str, measure: Callable[[], Any]) -> Any:
        """What is kept under a name, measured now if nothing is."""
        if key not in self.content:
            self.content[key] = measure()
            if self.path is not None:
                _write(self.content, self.path)
        return self.content[key]


def save(result: Reproduction, folder: str | Path | None) -> None:
    """Write a result as JSON, unless there is no folder."""
    if folder is not None:
        _write(asdict(result), Path(folder) / f"{result.paper}-{result.item}.json")


def load(folder: str | Path) -> list[Reproduction]:
    """The results that `reproduce` left in a folder, in the order of the paper.

    Raises:
        DataError: no results there, or a file that is not JSON.
    """
    paths = [Path(folder) / f"zhou-{item}.json" for item in (TABLE, *FIGURES)]
    results = [_result(_read(path)) for path in paths if path.exists()]
    if not results:
        raise DataError(f"{folder} holds no reproductions; run noiseworthy reproduce with --out first")
    return results


def _result(raw: dict[str, Any]) -> Reproduction:
    kinds: dict[str, Callable[..., Any]] = {"verdicts": Verdict, "points": Point, "tables": Table}
    return Reproduction(
        **{k: [kinds[k](**v) for v in value] if k in kinds else value for k, value in raw.items()}
    )


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is damaged ({error}); delete it and run again") from None


def _write(content: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(content))
    os.replace(draft, path)
