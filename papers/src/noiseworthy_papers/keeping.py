"""What stays in a folder: measurements, so that none is made twice, and results as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from noiseworthy.errors import DataError
from noiseworthy_papers.judge import Verdict, verdict
from noiseworthy_papers.points import Point, Recalled, Statistic
from noiseworthy_papers.spec import Figure, Layout, LossUnit, Paper, Reproduction, SelfMeasured, Table

MEASUREMENTS = "measurements.json"


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
            self.keep({key: measure()})
        return self.content[key]

    def keep(self, measured: dict[str, Any]) -> None:
        """Add measurements, on disk at once, beside those that another run may have added there."""
        self.content.update(measured)
        if self.path is not None:
            there = _read(self.path) if self.path.exists() else {}
            _write(there | self.content, self.path)


def save(result: Reproduction, folder: str | Path | None) -> None:
    """Write a result as JSON, unless there is no folder."""
    if folder is not None:
        _write(asdict(result), Path(folder) / f"{result.paper}-{result.item}.json")


def load(folder: str | Path, paper: Paper) -> list[Reproduction]:
    """The results of a paper's items that `reproduce` left in a folder, in their order, judged as of now.

    Raises:
        DataError: no results there, a file that is not JSON, or one of another version.
    """
    paths = [Path(folder) / f"{paper.name}-{item}.json" for item in paper.items]
    results = [_result(path) for path in paths if path.exists()]
    if not results:
        raise DataError(f"{folder} holds no reproductions; run noiseworthy reproduce with --out first")
    return [judged_again(paper, result) for result in results]


def judged_again(paper: Paper, result: Reproduction) -> Reproduction:
    """A result with the verdicts of the claims as they are now; facts without chance stay as found."""
    item = paper.items[result.item]
    if isinstance(item, SelfMeasured):
        claims = item.claims
    else:
        found = item if isinstance(item, Figure) else item(result.scale)
        claims = found.claims if isinstance(found, Figure) else ()
    measured = result.points or result.statistics
    return replace(result, verdicts=[verdict(claim, measured) for claim in claims]) if claims else result


def compact(result: Reproduction) -> Reproduction:
    """A result without what only its picture needs: of curves start, least mean loss and end are kept."""
    return replace(
        result,
        points=[_compact(point) for point in result.points],
        estimates=None if result.estimates is None else {},
    )


def _compact(point: Point) -> Point:
    if point.recalled is not None:
        return point
    least = int(point.curves("loss").mean(axis=0).argmin())
    kept = sorted({0, least, len(point.at) - 1})
    losses, accuracies = (
        [[float(f"{curve[i]:.9g}") for i in kept] for curve in curves]
        for curves in (point.losses, point.accuracies)
    )
    return replace(
        point, at=[point.at[i] for i in kept], losses=losses, accuracies=accuracies,
        seconds=round(point.seconds, 3),
    )  # fmt: skip


def _result(path: Path) -> Reproduction:
    raw = _read(path)
    try:
        return Reproduction(**(raw | _parts(raw)))
    except (KeyError, TypeError) as error:
        raise DataError(f"{path} is of another version ({error}); delete it and run again") from None


def _parts(raw: dict[str, Any]) -> dict[str, Any]:
    return {
        "layout": None if raw["layout"] is None else _layout(raw["layout"]),
        "loss": LossUnit(*raw["loss"]),
        "verdicts": [Verdict(**verdict) for verdict in raw["verdicts"]],
        "points": [_point(point) for point in raw["points"]],
        "statistics": [Statistic(**statistic) for statistic in raw.get("statistics", [])],
        "tables": [Table(**table) for table in raw["tables"]],
    }


def _point(raw: dict[str, Any]) -> Point:
    """A point; a deviation that was not kept is null."""
    kept = raw.get("recalled")
    if kept is None:
        return Point(**raw)
    seeds, *scores = kept
    recalled = Recalled(seeds, *(float("nan") if value is None else value for value in scores))
    return Point(**{**raw, "recalled": recalled})


def _layout(raw: dict[str, Any]) -> Layout:
    tuples: dict[str, Any] = {name: tuple(raw[name]) for name in ("scores", "panels")}
    return Layout(**(raw | tuples))


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
