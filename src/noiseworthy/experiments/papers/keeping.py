"""What stays in a folder: measurements, so that none is made twice, and results as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from noiseworthy.errors import DataError
from noiseworthy.experiments.papers.spec import Layout, LossUnit, Paper, Point, Reproduction, Table, Verdict

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
    """The results of a paper's items that `reproduce` left in a folder, in their order.

    Raises:
        DataError: no results there, a file that is not JSON, or one of another version.
    """
    paths = [Path(folder) / f"{paper.name}-{item}.json" for item in paper.items]
    results = [_result(path) for path in paths if path.exists()]
    if not results:
        raise DataError(f"{folder} holds no reproductions; run noiseworthy reproduce with --out first")
    return results


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
        "points": [Point(**point) for point in raw["points"]],
        "tables": [Table(**table) for table in raw["tables"]],
    }


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
