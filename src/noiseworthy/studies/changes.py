"""Keys of a study that are changed for one run: `--set privacy.epsilon=2`, one TOML value under one key."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from noiseworthy._tables import MOST_LISTED, Table
from noiseworthy.errors import ConfigError
from noiseworthy.methods.registry import FIRST, METHODS
from noiseworthy.methods.registry import table as table_of
from noiseworthy.studies.tables import Study

Changes = Mapping[str, Any]
"""Values by dotted key, such as `{"privacy.epsilon": 2.0}`."""
_DIGITS = 20
"""Of a seed that is text; more are no number of seeds, and thousands no int of Python."""


def changes_of(stated: Iterable[str]) -> dict[str, Any]:
    """What `KEY=VALUE` texts say, each value as TOML has it; a bare word is a text.

    Raises:
        ConfigError: a text without `=`, or a key that is stated twice.

    Example:
        >>> changes_of(["privacy.epsilon=2", "algorithm.name=dp-fedavg", "training.seeds=[0, 1]"])
        {'privacy.epsilon': 2, 'algorithm.name': 'dp-fedavg', 'training.seeds': [0, 1]}
    """
    made: dict[str, Any] = {}
    for text in stated:
        key, value = key_and_text("--set", text)
        if key in made:
            raise ConfigError(f"{key} is set twice; leave one of them out")
        made[key] = value_of(value)
    return made


def given(changes: Changes | None) -> dict[str, Any]:
    """Values by dotted key as a dictionary of their own, empty for None; ConfigError for what is none."""
    made = changes or {}
    if not isinstance(made, Mapping) or not all(isinstance(key, str) for key in made):
        raise ConfigError(f'set must be values by key, such as {{"privacy.epsilon": 2.0}}, got {made!r:.60}')
    return {**made}


def plain(value: Any) -> Any:
    """A number or array of NumPy or pandas as TOML has it; any other value as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


def key_and_text(option: str, text: str) -> tuple[str, str]:
    """The two sides of `KEY=VALUE`.

    Raises:
        ConfigError: a text without both.
    """
    key, equals, value = (part.strip() for part in text.partition("="))
    if not key or not equals or not value:
        raise ConfigError(f"{option} takes KEY=VALUE, such as privacy.epsilon=2, got {text!r}")
    return key, value


def seeds_of(stated: int | Sequence[int] | str) -> list[int]:
    """Seeds from how many there are to be, or from themselves; as text these have commas between them.

    Raises:
        ConfigError: neither.

    Example:
        >>> seeds_of(3), seeds_of([7]), seeds_of("3"), seeds_of("7,8")
        ([0, 1, 2], [7], [0, 1, 2], [7, 8])
    """
    value = plain(stated)
    if isinstance(value, str):
        texts = value.split(",")
        if not all(text.strip().isdecimal() and len(text) < _DIGITS for text in texts):
            said = "--seeds must be a number of seeds, or seeds separated by commas"
            raise ConfigError(f"{said}, got {stated!r:.60}")
        value = int(texts[0]) if len(texts) == 1 else [int(text) for text in texts]
    # a range is asked by its truth and a slice: one of too many seeds has no length, and no room as a list
    try:
        seeds = range(value) if isinstance(value, int) else [seed.__index__() for seed in value]
    except (AttributeError, TypeError):
        raise ConfigError(f"seeds must be a whole number, or a list of some, got {stated!r:.60}") from None
    if not seeds or seeds[MOST_LISTED:]:
        raise ConfigError(f"seeds must be 1 to {MOST_LISTED}, got {stated!r:.60}")
    return [*seeds]


def value_of(text: str) -> Any:
    """A value of TOML, or the text itself where it is none.

    Example:
        >>> value_of("1e-5"), value_of('"2"'), value_of("dp-fedavg"), value_of("{ north = 0.1 }")
        (1e-05, '2', 'dp-fedavg', {'north': 0.1})
    """
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if len(parsed) == 1 else text


def changed(raw: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
    """The tables of a study with other values under some keys.

    Args:
        raw: tables as the file has them; they stay as they are.
        changes: values by dotted key.

    Raises:
        ConfigError: a key that no study has, with the nearest one that it has.

    Example:
        >>> changed({"privacy": {"epsilon": 1.0}}, {"privacy.epsilon": 2.0, "training.seeds": [0, 1]})
        {'privacy': {'epsilon': 2.0}, 'training': {'seeds': [0, 1]}}
    """
    made = {**raw}
    tables_first = sorted(changes, key=lambda key: ("." in key, key != "algorithm.name"))
    for key in tables_first:
        path = key.split(".")
        _check_known(key, path, made, changes[key])
        _place(made, path, plain(changes[key]))
    return made


def _place(tables: dict[str, Any], path: list[str], value: Any) -> None:
    first, *rest = path
    if not rest:
        tables[first] = value
        return
    inside = tables.get(first)
    tables[first] = {**inside} if isinstance(inside, dict) else {}
    _place(tables[first], rest, value)


def _check_known(key: str, path: list[str], raw: Mapping[str, Any], value: Any) -> None:
    """Refuse a key that no study has; below what clients state by name anything may stand."""
    name, *rest = path
    if rest and name == "columns" and isinstance(stated := raw.get(name), str):
        raise ConfigError(f"{key}: the columns lie in {stated}; change them there")
    if name not in Study.model_fields:
        raise ConfigError(_unknown(key, f"a study has no table {name!r}", name, Study.model_fields, ""))
    own = _table(name, raw)
    if own is None or (not rest and isinstance(value, dict)):
        return
    if not rest:
        raise ConfigError(f"{key}: name a key of [{name}], such as {name}.{next(iter(own.model_fields))}")
    if rest[0] not in own.model_fields:
        said = f"[{name}] has no key {rest[0]!r}"
        raise ConfigError(_unknown(key, said, rest[0], own.model_fields, f"{name}."))


def _table(name: str, raw: Mapping[str, Any]) -> type[Table] | None:
    """The table of a study under a name; None of what is no table, and of columns, whose keys are names."""
    if name == "columns":
        return None
    if name == "algorithm":
        stated = raw.get(name)
        chosen = stated.get("name", FIRST) if isinstance(stated, dict) else FIRST
        return table_of(chosen if chosen in [*METHODS] else FIRST)
    annotation = Study.model_fields[name].annotation
    options = (annotation, *get_args(annotation))
    return next((one for one in options if isinstance(one, type) and issubclass(one, Table)), None)


def _unknown(key: str, said: str, wrong: str, known: Iterable[str], table: str) -> str:
    names = list(known)
    if near := get_close_matches(wrong, names, n=1):
        return f"{key}: {said}; did you mean {table}{near[0]}?"
    return f"{key}: {said}; there are {', '.join(names)}"
