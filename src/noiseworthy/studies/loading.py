"""From a TOML file to a study: everything that is wrong is told, a line for each mistake."""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from noiseworthy._mistakes import told
from noiseworthy._tables import read_toml
from noiseworthy.data.schema import Schema, read_schema
from noiseworthy.errors import ConfigError
from noiseworthy.methods.registry import FIRST, METHODS, table
from noiseworthy.methods.table import AlgorithmTable
from noiseworthy.studies.changes import Changes, changed
from noiseworthy.studies.clients import from_csv, is_named
from noiseworthy.studies.tables import Study
from noiseworthy.tasks.names import is_encoder
from noiseworthy.tasks.own import digest_of, is_own

_FILE = "the study file"


def load_study(path: Path | str, changes: Changes | None = None) -> Study:
    """Read and check a study file.

    Args:
        path: of the file.
        changes: values by dotted key that stand for those of the file.

    What may differ between clients may also be `{ north = 0.1, south = 1.0 }`, or a column of a csv beside
    the file, `{ csv = "budgets.csv", column = "epsilon", client_column = "client" }`; `epsilon` and `delta`
    may be drawn in public: `{ uniform = [0.1, 3.0] }`, `{ loguniform = [0.1, 3.0] }`. `[columns]` may lie in
    a file of their own, `columns = "columns.toml"`.

    Raises:
        ConfigError: a missing or unreadable file, unknown keys, missing tables, values out of range.
    """
    path = Path(path)
    raw, mistakes = _with_columns(changed(read_toml(path, "study file"), changes or {}), path.parent)
    return _checked(raw, mistakes, path.parent).beside(path.parent)


def parse_study(raw: dict[str, Any]) -> Study:
    """Check a study given as nested dictionaries.

    Raises:
        ConfigError: everything that is wrong, a line each.

    Example:
        >>> parse_study({"federation": {"sizes": [5]}, "privacy": {"mechanism": "laplace", "clip": 1.0}})
        Traceback (most recent call last):
        ...
        noiseworthy.errors.ConfigError: [privacy] clip is not a key of this table; allowed: ...
    """
    if not isinstance(raw, dict):
        raise ConfigError(f"a study must be a dictionary of tables, got {raw!r:.60}; load_study reads a file")
    return _checked(raw, [])


def _checked(raw: dict[str, Any], mistakes: list[str], folder: Path = Path()) -> Study:
    """A study, unless it has mistakes, with those that were found before."""
    own, wrong = _own_table(raw)
    columns, wrong_columns = _columns(raw, folder)
    wrong += wrong_columns
    try:
        study = Study.model_validate(raw | own | columns)
    except ValidationError as error:
        found = told(error, Study, _FILE)
        alone = [one for one in error.errors() if not one["loc"]]  # how tables fit each other
        raise ConfigError(*mistakes, *wrong, *([] if wrong and alone else found)) from None
    if mistakes or wrong:
        raise ConfigError(*mistakes, *wrong)
    study = _with_own_model(study, folder) if is_own(study.task.model) else study
    return _with_encoder(study, folder) if is_encoder(study.task.features) else study


def _with_own_model(study: Study, folder: Path) -> Study:
    """The study with the digest of its own model."""
    task, model = study.task, str(study.task.model)
    digest = digest_of(model, folder)
    if task.model_digest not in (None, digest):
        raise ConfigError(
            f"[task] model_digest is {task.model_digest!r:.14}, but the source of {model} has {digest[:12]}; "
            "put back the source, or state the new digest"
        )
    return study.model_copy(update={"task": task.model_copy(update={"model_digest": digest})})


def _with_encoder(study: Study, folder: Path) -> Study:
    """The study with the digest of its encoder."""
    from noiseworthy.tasks.encoder import Encoder  # here, because few studies have one

    digest = Encoder.read(folder, str(study.task.features), study.task.encoder_digest).digest
    return study.model_copy(update={"task": study.task.model_copy(update={"encoder_digest": digest})})


def _own_table(raw: dict[str, Any]) -> tuple[dict[str, AlgorithmTable], list[str]]:
    """`[algorithm]` as the method that it names checks it, and what is wrong with it.

    Nothing where the study has none; the first method's where it has mistakes.
    """
    stated = raw.get("algorithm")
    if not isinstance(stated, dict):
        return {}, []
    name, first = stated.get("name", FIRST), {"algorithm": table(FIRST).model_validate({})}
    try:
        if name not in [*METHODS]:
            near = "".join(f" (did you mean {one}?)" for one in get_close_matches(str(name), METHODS, 1))
            return first, [f"[algorithm] name must be one of {', '.join(METHODS)}, got {name!r}{near}"]
        return {"algorithm": table(name).model_validate(stated)}, []
    except ValidationError as error:
        return first, told(error, Study, _FILE, {"algorithm": table(name)})


def _columns(raw: dict[str, Any], folder: Path) -> tuple[dict[str, Schema | None], list[str]]:
    """`[columns]`, and what is wrong with it."""
    try:
        return ({"columns": read_schema(raw["columns"], folder)} if "columns" in raw else {}), []
    except ConfigError as error:
        return {"columns": None}, [*error.mistakes]


PER_CLIENT = {
    "privacy": ("epsilon", "delta"),
    "resources": ("cost_per_round", "cost_per_step", "budget"),
    "constants": ("heterogeneity",),
}
"""Keys that a csv may hold a number of every client for."""


def _with_columns(raw: dict[str, Any], folder: Path) -> tuple[dict[str, Any], list[str]]:
    """The tables with what csv files hold in place of their names, and what is wrong with these."""
    read, mistakes = dict(raw), []
    for name, keys in PER_CLIENT.items():
        if not isinstance(raw.get(name), dict):
            continue
        read[name] = dict(raw[name])
        for key in keys:
            value = raw[name].get(key)
            if not isinstance(value, dict) or "csv" not in value or is_named(value):
                continue
            try:
                read[name][key] = from_csv(value, folder, f"[{name}] {key}")
            except ConfigError as error:
                mistakes += error.mistakes
                read[name][key] = 1e-6  # a number in its place, so that nothing else is said of it
    return read, mistakes


def in_line(value: Any) -> str:
    """A value in one line of TOML, a table as well.

    Example:
        >>> print(in_line({"uniform": [0.1, 3.0]}), in_line({"Ward 1": 0.5}))
        { uniform = [0.1, 3.0] } { "Ward 1" = 0.5 }
    """
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{in_key(key)} = {in_line(part)}" for key, part in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(in_line, value))}]"
    # of what TOML has escaped in a string, JSON leaves this one as it is
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def in_key(name: str) -> str:
    """A key of TOML, in quotes unless it is a bare one."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else in_line(name)
