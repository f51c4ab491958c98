"""From a TOML file to a study: what is wrong becomes one line that names key, value and what is allowed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, get_args

import pandas as pd
from pydantic import ValidationError

from noiseworthy.config.base import Table
from noiseworthy.config.tables import ALGORITHMS, RivalTable, Study, budget_forms
from noiseworthy.errors import ConfigError


def load_study(path: Path | str) -> Study:
    """Read and check a study file.

    `epsilon` and `delta` may also be `{ csv = "budgets.csv", column = "epsilon" }`, relative to the file, or
    drawn in public: `{ uniform = [0.1, 3.0] }`, `{ loguniform = [0.1, 3.0] }`.

    Raises:
        ConfigError: a missing or unreadable file, unknown keys, missing tables, values out of range.
    """
    path = Path(path)
    try:
        raw = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError(f"study file {path} does not exist; give the path of a TOML file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"study file {path} cannot be read as TOML: {error}") from None
    return parse_study(_with_columns(raw, path.parent))


def parse_study(raw: dict[str, Any]) -> Study:
    """Check a study given as nested dictionaries.

    Raises:
        ConfigError: the first complaint, as one line.

    Example:
        >>> parse_study({"federation": {"sizes": [5]}, "privacy": {"mechanism": "laplace", "clip": 1.0}})
        Traceback (most recent call last):
        ...
        noiseworthy.errors.ConfigError: [privacy] clip is not a key of this table; allowed: ...
    """
    try:
        return Study.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(_one_line(error)) from None


def _with_columns(raw: dict[str, Any], folder: Path) -> dict[str, Any]:
    privacy = dict(raw.get("privacy", {})) if isinstance(raw.get("privacy", {}), dict) else raw["privacy"]
    if not isinstance(privacy, dict):
        return raw
    for key in ("epsilon", "delta"):
        if isinstance(privacy.get(key), dict) and "csv" in privacy[key]:
            privacy[key] = _column(privacy[key], folder, key)
    return {**raw, "privacy": privacy} if "privacy" in raw else raw


def _column(source: dict[str, Any], folder: Path, key: str) -> list[float]:
    if set(source) != {"csv", "column"}:
        raise ConfigError(budget_forms(key, source))
    path = folder / str(source["csv"])
    try:
        return pd.read_csv(path)[source["column"]].astype(float).tolist()
    except FileNotFoundError:
        raise ConfigError(f"[privacy] {key}: {path} does not exist") from None
    except (KeyError, ValueError, OSError) as error:
        raise ConfigError(
            f"[privacy] {key}: no numeric column {source['column']!r} in {path}: {error}"
        ) from None


def _one_line(error: ValidationError) -> str:
    complaints = error.errors(include_url=False)
    where = _where(complaints[0]["loc"])
    alike = [other for other in complaints if _where(other["loc"]) == where]
    first = max(alike, key=lambda other: len(other["loc"]))  # of a number or a list, the one that was meant
    if first["type"] == "extra_forbidden":
        return f"{where} is not a key of this table; allowed: {_allowed(first['loc'])}"
    if first["type"] == "missing":
        return f"{where} is missing; add it to the study file"
    if first["type"] == "value_error":
        return first["msg"].removeprefix("Value error, ")
    if first["type"] == "union_tag_invalid":
        return f"{where} name must be one of {', '.join(ALGORITHMS)}, got {first.get('ctx', {})['tag']!r}"
    if first["type"] == "model_type":
        return f"{where} must be a table, got {first['input']!r}"
    allowed = " or ".join(dict.fromkeys(other["msg"].removeprefix("Input should be ") for other in alike))
    return f"{where} must be {allowed}, got {first['input']!r}"


def _where(location: tuple[int | str, ...]) -> str:
    if not location:
        return ""  # a complaint about how tables fit each other
    table, *keys = [str(part) for part in location]
    names = [key for key in keys if key.isidentifier() or key.isdigit()]
    return f"[{table}] {names[0]}" if names else f"[{table}]"


def _allowed(location: tuple[int | str, ...]) -> str:
    """The keys of the table at a location; `[algorithm]` has a table for each name."""
    table, *below = map(str, location)
    field = Study.model_fields.get(table) if below else None
    model = Study if field is None else field.annotation
    if table == "algorithm" and below:
        model = ALGORITHMS.get(below[0], RivalTable)
    for option in (model, *get_args(model)):  # a table, or a table that may be left out
        if isinstance(option, type) and issubclass(option, Table):
            return ", ".join(option.model_fields)
    return ""
