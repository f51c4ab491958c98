"""Options that commands share, and how their values are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from noiseworthy import _validate as check
from noiseworthy.errors import ConfigError

StudyFile = Annotated[Path, typer.Argument(help="study file (TOML)", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object and nothing else")]
OutFolder = Annotated[Path | None, typer.Option("--out", help="run folder; by default runs/NAME-OF-STUDY")]
DataDir = Annotated[Path | None, typer.Option("--data", help="folder of data files, else NOISEWORTHY_DATA")]
PlanJson = Annotated[
    Path | None, typer.Option("--plan", help="plan.json to go on with; by default the study is planned first")
]
Seconds = Annotated[
    float | None,
    typer.Option("--budget-seconds", help="time for trials, whose best is taken; all else comes on top"),
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="another value for a key of the study; repeatable"),
]
Seeds = Annotated[str | None, typer.Option("--seeds", help="how many trainings, or seeds between commas")]


def limit(seconds: float | None) -> float | None:
    """The time of an audit, checked before anything is planned for it: `min=0` lets NaN pass."""
    return None if seconds is None else float(check.non_negative("--budget-seconds", seconds))


def numbers(name: str, text: str) -> Any:
    """A number, or a list of several separated by commas."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--{name} must be numbers separated by commas, got {text!r}") from None
    return values if len(values) > 1 else values[0]
