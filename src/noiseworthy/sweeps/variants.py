"""What a sweep varies: keys of a study with several values each, and a variant for every choice of them."""

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from noiseworthy._tables import MOST_LISTED
from noiseworthy.errors import ConfigError
from noiseworthy.studies.changes import key_and_text, plain, value_of
from noiseworthy.studies.loading import in_line

Over = Mapping[str, Sequence[Any]]
"""Values of each key that is varied, by dotted key."""
_EXAMPLE = "such as privacy.epsilon=0.5,1,2"
_LONGEST = 80
"""Characters of a folder's name."""


@dataclass(frozen=True)
class Variant:
    """A study with other values under some keys.

    Attributes:
        changes: values by dotted key.
        name: of its folder.
    """

    changes: dict[str, Any]
    name: str


def over_of(stated: Iterable[str]) -> dict[str, list[Any]]:
    """What `KEY=VALUE,VALUE,...` texts say, values as TOML has them; bare words are texts.

    Raises:
        ConfigError: a text without `=`, or a key that is stated twice.

    Example:
        >>> over_of(["privacy.epsilon=0.5,1", "algorithm.name=fedsgd-dpc,dp-fedavg"])
        {'privacy.epsilon': [0.5, 1], 'algorithm.name': ['fedsgd-dpc', 'dp-fedavg']}
    """
    over: dict[str, list[Any]] = {}
    for text in stated:
        key, values = key_and_text("--over", text)
        if key in over:
            raise ConfigError(f"--over varies {key} twice; put all its values into one")
        over[key] = _values(values)
    return over


def variants(over: Over) -> list[Variant]:
    """A variant for every choice of a value of each key, 1 and 1.0 being one; those of the last key together.

    Raises:
        ConfigError: nothing to vary, a key without values, or too many variants.

    Example:
        >>> [one.name for one in variants({"privacy.epsilon": [1, 2], "algorithm.rounds": [5, 10]})]
        ['epsilon=1,rounds=5', 'epsilon=1,rounds=10', 'epsilon=2,rounds=5', 'epsilon=2,rounds=10']
    """
    if not over:
        raise ConfigError(f"a sweep needs a key and its values, {_EXAMPLE}")
    for key, values in over.items():
        if isinstance(values, str) or not isinstance(values, Iterable) or not [*values]:
            raise ConfigError(f"{key} needs a list of values to vary, {_EXAMPLE}, got {values!r}")
    stated = {key: [plain(value) for value in values] for key, values in over.items()}
    different = {key: {in_line(v).removesuffix(".0"): v for v in values} for key, values in stated.items()}
    choices = product(*(values.values() for values in different.values()))
    chosen = [dict(zip(over, values, strict=True)) for values in choices]
    if len(chosen) > MOST_LISTED:
        raise ConfigError(f"a sweep may have {MOST_LISTED} variants, got {len(chosen)}; vary fewer keys")
    return [Variant(changes, _folder(changes)) for changes in chosen]


def words(changes: Mapping[str, Any]) -> str:
    """Values with the last parts of their keys, for people.

    Example:
        >>> words({"privacy.epsilon": 0.5, "algorithm.name": "dp-fedavg"})
        'epsilon = 0.5, name = dp-fedavg'
    """
    return ", ".join(f"{short(key, changes)} = {shown(value)}" for key, value in changes.items())


def short(key: str, keys: Iterable[str]) -> str:
    """The last part of a dotted key, the whole of one that another ends like."""
    last = key.rpartition(".")[2]
    return last if [one.rpartition(".")[2] for one in keys].count(last) == 1 else key


def shown(value: Any) -> str:
    """A value as TOML has it; a text without its quotes."""
    return value if isinstance(value, str) else in_line(value)


def _folder(changes: Mapping[str, Any]) -> str:
    """A name that tells the values; what no folder may be called is replaced, and told apart by a digest."""
    told = ",".join(f"{short(key, changes)}={shown(value)}" for key, value in changes.items())
    name = re.sub(r"[^\w.+=,-]", "_", told)
    if name == told and len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{hashlib.sha256(told.encode()).hexdigest()[:6]}"


def _values(text: str) -> list[Any]:
    """Values between commas: a list of TOML without its brackets, or bare words."""
    try:
        return tomllib.loads(f"values = [{text}]")["values"]
    except tomllib.TOMLDecodeError:
        return [value_of(part.strip()) for part in text.split(",")]
