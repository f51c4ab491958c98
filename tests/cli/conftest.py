"""The command line as a program sees it: exit code, stdout and stderr of `main`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from noiseworthy.cli import main


class Answer(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys, monkeypatch, tmp_path) -> Callable[..., Answer]:
    """Run `noiseworthy ARGS` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOISEWORTHY_DATA", raising=False)

    def call(*arguments: str | Path) -> Answer:
        monkeypatch.setattr(sys, "argv", ["noiseworthy", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main()
        captured = capsys.readouterr()
        return Answer(exit_.value.code, captured.out, captured.err)

    return call


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | Path):
        return json.dumps(str(value))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(part) for part in value) + "]"
    return repr(value)


@pytest.fixture
def write(tmp_path) -> Callable[..., Path]:
    """A study file from tables; a key that is None is left out, and so is a table."""

    def study(base: dict[str, Any], *, name: str = "study", **changes: dict[str, Any] | None) -> Path:
        tables = {**base, **{t: c and {**base.get(t, {}), **c} for t, c in changes.items()}}
        lines = []
        for table, keys in tables.items():
            if keys is not None:
                lines += [f"[{table}]", *(f"{k} = {toml(v)}" for k, v in keys.items() if v is not None)]
        path = tmp_path / f"{name}.toml"
        path.write_text("\n".join(lines))
        return path

    return study


@pytest.fixture
def site_records(tmp_path) -> Callable[..., Path]:
    """A user's own table: three features, two classes, three sites of different sizes."""
    import pandas as pd

    def save(suffix: str = "csv", **columns: Any) -> Path:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(90, 3))
        frame = pd.DataFrame(x, columns=["a", "b", "c"])
        frame["label"] = np.where(x[:, 0] + 0.3 * x[:, 1] > 0, "yes", "no")
        frame["client"] = np.repeat(["north", "south", "west"], [20, 30, 40])
        for name, value in columns.items():
            frame[name] = value
        path = tmp_path / f"own.{suffix}"
        if suffix == "npz":
            np.savez(path, **{name: np.array(frame[name].tolist()) for name in frame})
        elif suffix == "parquet":
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False)
        return path

    return save
