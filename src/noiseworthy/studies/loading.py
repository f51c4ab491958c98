"""From a TOML file to a study: what is wrong becomes one line that names key, value and what is allowed."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from noiseworthy._tables import Table
from noiseworthy.errors import ConfigError
from noiseworthy.methods.registry import FIRST, METHODS, method
from noiseworthy.studies.changes import Changes, changed
from noiseworthy.studies.clients import from_csv, is_named
from noiseworthy.studies.tables import Study
from noiseworthy.tasks.names import is_own
from noiseworthy.tasks.own import digest_of


def load_study(path: Path | str, changes: Changes | None = None) -> Study:
    """Read and check a study file.

    Args:
        path: of the file.
        changes: values by dotted key that stand for those of the file.

    What may differ between clients may also be `{ north = 0.1, south = 1.0 }`, or a column of a csv beside
    the file, `{ csv = "budgets.csv", column = "epsilon", client_column = "client" }`; `epsilon` and `delta`
    may be drawn in public: `{ uniform = [0.1, 3.0] }`, `{ loguniform = [0.1, 3.0] }`.

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
    return parse_study(_with_columns(changed(raw, changes or {}), path.parent), path.parent)


def parse_study(raw: dict[str, Any], folder: Path = Path()) -> Study:
    """Check a study given as nested dictionaries.

    Args:
        raw: its tables.
        folder: where a model of the user's own is looked up.

    Raises:
        ConfigError: the first complaint, as one line.

    Example:
        >>> parse_study({"federation": {"sizes": [5]}, "privacy": {"mechanism": "laplace", "clip": 1.0}})
        Traceback (most recent call last):
        ...
        noiseworthy.errors.ConfigError: [privacy] clip is not a key of this table; allowed: ...
    """
    try:
        study = Study.model_validate(raw | _own_table(raw))
    except ValidationError as error:
        raise ConfigError(_one_line(error)) from None
    return _with_own_model(study, folder) if is_own(study.task.model) else study


def _with_own_model(study: Study, folder: Path) -> Study:
    """The study with the place and the digest of its own model."""
    task, model = study.task, str(study.task.model)
    place = folder / (task.model_folder or "")
    digest = digest_of(model, place)
    if task.model_digest not in (None, digest):
        raise ConfigError(
            f"[task] model_digest is {task.model_digest!r:.14}, but the source of {model} has {digest[:12]}; "
            "put back the source, or state the new digest"
        )
    known = task.model_copy(update={"model_folder": place, "model_digest": digest})
    return study.model_copy(update={"task": known})


def _own_table(raw: dict[str, Any]) -> dict[str, Any]:
    """The table `[algorithm]` as the method that it names checks it; nothing where the study has none."""
    table = raw.get("algorithm")
    if not isinstance(table, dict):
        return {}
    name = table.get("name", FIRST)
    if name not in METHODS:
        raise ConfigError(f"[algorithm] name must be one of {', '.join(METHODS)}, got {name!r}")
    own = method(name).table
    try:
        return {"algorithm": own.model_validate(table)}
    except ValidationError as error:
        raise ConfigError(_one_line(error, ("algorithm",), own)) from None


_PER_CLIENT = {
    "privacy": ("epsilon", "delta"),
    "resources": ("cost_per_round", "cost_per_step", "budget"),
    "constants": ("heterogeneity",),
}
"""Keys that a csv may hold a number of every client for."""


def _with_columns(raw: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The tables with what csv files hold in place of their names."""
    return {
        name: {key: _read(value, folder, name, key) for key, value in table.items()}
        if name in _PER_CLIENT and isinstance(table, dict)
        else table
        for name, table in raw.items()
    }


def _read(value: Any, folder: Path, table: str, key: str) -> Any:
    if key not in _PER_CLIENT[table] or not isinstance(value, dict) or "csv" not in value or is_named(value):
        return value
    return from_csv(value, folder, f"[{table}] {key}")


def _one_line(error: ValidationError, inside: tuple[str, ...] = (), own: type[Table] = Study) -> str:
    complaints = [{**one, "loc": (*inside, *one["loc"])} for one in error.errors(include_url=False)]
    where = _where(complaints[0]["loc"])
    alike = [other for other in complaints if _where(other["loc"]) == where and other["type"] != "dict_type"]
    first = max(alike, key=lambda other: len(other["loc"]))  # of a number or a list, the one that was meant
    if first["type"] == "extra_forbidden":
        return f"{where} is not a key of this table; allowed: {_allowed(first['loc'], own)}"
    if first["type"] == "missing":
        return f"{where} is missing; add it to the study file"
    if first["type"] == "value_error":
        return first["msg"].removeprefix("Value error, ")
    if first["type"] in ("model_type", "is_instance_of"):
        return f"{where} must be a table, got {first['input']!r}"
    allowed = " or ".join(dict.fromkeys(other["msg"].removeprefix("Input should be ") for other in alike))
    return f"{where} must be {allowed}, got {first['input']!r}"


def _where(location: tuple[int | str, ...]) -> str:
    if not location:
        return ""  # a complaint about how tables fit each other
    table, *keys = [str(part) for part in location]
    names = [key for key in keys if key.isidentifier() or key.isdigit()]
    return f"[{table}] {names[0]}" if names else f"[{table}]"


def _allowed(location: tuple[int | str, ...], own: type[Table]) -> str:
    """The keys of the table at a location; `own` is the method's where that is `[algorithm]`."""
    table, *below = map(str, location)
    field = Study.model_fields.get(table) if below and own is Study else None
    model = own if field is None else field.annotation
    for option in (model, *get_args(model)):  # a table, or a table that may be left out
        if isinstance(option, type) and issubclass(option, Table):
            return ", ".join(option.model_fields)
    return ""


def in_line(value: Any) -> str:
    """A value in one line of TOML, a table as well.

    Example:
        >>> print(in_line({"uniform": [0.1, 3.0]}), in_line({"Ward 1": 0.5}))
        { uniform = [0.1, 3.0] } { "Ward 1" = 0.5 }
    """
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {in_line(part)}" for key, part in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    """A key of TOML, in quotes unless it is a bare one."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
